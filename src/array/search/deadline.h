// SPDX-License-Identifier: GPL-2.0-or-later
// When a search must stop. Work is counted, too, where the same seed must give the same bytes.
#pragma once

#include <chrono>

namespace arena::array {

class Deadline {
  public:
    explicit Deadline(double seconds)
        : at_(std::chrono::steady_clock::now() +
              std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                  std::chrono::duration<double>(seconds))) {}
    [[nodiscard]] bool passed() const { return std::chrono::steady_clock::now() >= at_; }

  private:
    std::chrono::steady_clock::time_point at_;
};

}  // namespace arena::array
