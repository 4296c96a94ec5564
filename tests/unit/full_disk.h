// SPDX-License-Identifier: GPL-2.0-or-later
// A disk without room, for as long as a FullDisk lives: no file of this process grows beyond a few
// bytes.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace arena {

class FullDisk {
  public:
    explicit FullDisk(rlim_t most_bytes = 1) {
        std::signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit full{most_bytes, before_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &full);
    }
    ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }
    FullDisk(const FullDisk&) = delete;
    FullDisk& operator=(const FullDisk&) = delete;

  private:
    rlimit before_{};
};

}  // namespace arena
