// SPDX-License-Identifier: GPL-2.0-or-later
// Copies between the devices of one node, as a check measures them: GPUs' own, or, where a CPU
// stands for them, copies in host memory, which say so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "slowdown/passes.h"

namespace arena {

/// Calls throw std::runtime_error with a sentence where a device fails.
class Links {
  public:
    virtual ~Links() = default;
    /// As NodeCheck::link_kind.
    [[nodiscard]] virtual std::string kind() const = 0;
    [[nodiscard]] virtual std::int64_t bytes() const = 0;
    /// Each transfer of the pass `times` times, all transfers at once: seconds of one copy of each,
    /// in their order.
    virtual std::vector<double> copy(const slowdown::Pass& pass, std::int64_t times) = 0;
};

/// Between `devices` buffers of this process, a thread for each transfer.
Result<std::unique_ptr<Links>> make_host_links(std::int64_t devices);

/// For tests only: see make_faulty_backend().
Result<std::unique_ptr<Links>> make_faulty_links();

}  // namespace arena
