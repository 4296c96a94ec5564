// SPDX-License-Identifier: GPL-2.0-or-later
// The live page: one document that asks for nothing but live.json. Its policy lets a browser run
// and style it by exactly what stands in it, so that text of users can neither.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace arena::cli {

struct LivePage {
    std::string html;
    std::string policy;  ///< Content-Security-Policy
};
LivePage live_page();

/// Asked once each: a directory service may take its time. For one thread.
class UserNames {
  public:
    /// "" = nobody has this number.
    const std::string& of(std::int64_t uid);

  private:
    std::map<std::int64_t, std::string> known_;
};

/// The plug-in's answer to `live` with the names of users beside their numbers. Errors: it is no
/// such answer.
Result<std::string> with_user_names(std::string_view live, UserNames& names);

}  // namespace arena::cli
