// SPDX-License-Identifier: GPL-2.0-or-later
// What the measuring loop knows of a device: a Backend prepares an Operator for a shape, an
// Operator executes it. CPU and CUDA back-ends stand behind these two; nothing here knows which.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "core/profile.h"

namespace arena {

class Operator {
  public:
    virtual ~Operator() = default;
    /// Executes `times` times back to back, each on the next of its rotating buffer sets, and
    /// returns the device seconds of all of them together. Throws std::runtime_error when the
    /// device fails.
    virtual double execute(std::int64_t times) = 0;
};

class Backend {
  public:
    virtual ~Backend() = default;
    [[nodiscard]] virtual Device device() const = 0;
    /// Clock, temperature and power cap right now, where the device tells.
    [[nodiscard]] virtual DeviceState state() const { return {}; }
    /// Where the device sits; empty where nobody knows.
    [[nodiscard]] virtual GpuPlace place() const { return {}; }
    /// Allocates and fills buffers. ErrorCode::no: this device cannot run the shape (precision,
    /// memory).
    virtual Result<std::unique_ptr<Operator>> prepare(const OpShape&) = 0;
};

/// For tests only, linked into arena-profiler-faulty alone: invented times, and the fault that
/// ARENA_TEST_FAULT names.
Result<std::unique_ptr<Backend>> make_faulty_backend(std::int64_t device = 0);

}  // namespace arena
