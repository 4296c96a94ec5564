// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a pinned plan can be at all: what its model, batch and launcher forbid on every cluster,
// and which GPU counts it leaves. One rule for every channel through which a pin comes: options,
// #ARENA lines, records and Comments. What the site's GPUs forbid is the plug-in's and the
// planner's question.
#pragma once

#include <string>

#include "base/result.h"
#include "request/request.h"

namespace arena {

/// Why no plan of the request's model, batch and launcher has its pin, as a sentence for its user;
/// "" when, with GPUs enough, one has.
std::string pin_obstacle(const Request&);

/// Where launcher or pin leave replicas of the whole model alone: why no GPU count of the request's
/// range divides the batch; "" when one does, or there are other ways.
std::string count_obstacle(const Request&);

/// Why the request's launcher has no words for its model, whatever the plan; "" when it has.
std::string launcher_model_obstacle(const Request&);

}  // namespace arena
