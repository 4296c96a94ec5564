// SPDX-License-Identifier: GPL-2.0-or-later
// Promises as a file beside the profile store, so that a slurmctld that was killed or restarted
// keeps what was promised before. One JSON document, replaced as a whole.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/order/promises.h"

namespace arena {

std::string format_promises(const PromiseBook::Kept&);
/// At most 64 MiB. Of the counts the promises that are not settled yet: each counts as given in
/// this life. Errors: not such a document.
Result<PromiseBook::Kept> parse_promises(std::string_view);

class PromiseFile {
  public:
    explicit PromiseFile(std::string path) : path_(std::move(path)) {}
    /// Of a profile store: promises.json in the same directory.
    static std::string path_beside(const std::string& profile_store);

    /// Nothing promised where there is no file. Errors: it is not SlurmUser's alone, or broken.
    [[nodiscard]] Result<PromiseBook::Kept> read() const;
    [[nodiscard]] Status write(const PromiseBook::Kept&) const;

  private:
    std::string path_;
};

}  // namespace arena
