// SPDX-License-Identifier: GPL-2.0-or-later
// What is longer than one operation of Comm takes, and text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "train/comm/comm.h"

namespace arena::train {

/// Of any length. Collective.
void broadcast_floats(Comm&, std::span<float>, int root);
/// As Comm::send() and Comm::receive(), of any length, which both must know.
void send_floats(Comm&, std::span<const float>, int to);
void receive_floats(Comm&, std::span<float>, int from);
/// The text of rank `root` on all ranks. Collective.
std::string share_text(Comm&, std::string, int root);
/// The text of every rank, in their order, on all. Collective; one broadcast after another.
std::vector<std::string> share_texts(Comm&, const std::string& mine);

}  // namespace arena::train
