// SPDX-License-Identifier: GPL-2.0-or-later
// Files of a test.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace arena::test {

/// A directory of the test's own, removed with everything in it.
class Directory {
  public:
    Directory() {
        char name[] = "/tmp/arena-test-XXXXXX";
        path_ = ::mkdtemp(name);
    }
    ~Directory() { std::filesystem::remove_all(path_); }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    [[nodiscard]] std::string operator/(const std::string& name) const {
        return path_ + "/" + name;
    }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace arena::test
