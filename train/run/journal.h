// SPDX-License-Identifier: GPL-2.0-or-later
// The lines of a run: text to stdout, JSON to the log. A full disk or a closed pipe does not end
// the run.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace arena::train {

class Journal {
  public:
    /// Before it nothing is said. `log`: appended to; "" = none.
    Status open(const std::string& log, bool quiet);
    /// `facts`: a JSON object for the log; of an empty one nothing is written there.
    void note(const std::string& text, nlohmann::json facts);

  private:
    struct Close {
        void operator()(std::FILE* f) const { std::fclose(f); }
    };
    bool is_open_ = false, is_quiet_ = false, complained_ = false;
    std::unique_ptr<std::FILE, Close> log_;
};

}  // namespace arena::train
