// SPDX-License-Identifier: GPL-2.0-or-later
// The device that the layers are compiled for: the trainer's sources are built once for the CPU and
// once for each far device, whose memory the host cannot touch (ARENA_TRAIN_DEVICE names its
// header). Which one it is shows in types alone: an activation or weight is Array<Element>, a
// gradient of weights, a statistic or a moment is Array<float>; a far Pointer cannot be followed by
// the host, and no Element passes for a float.
#pragma once

#include <span>
#include <vector>

#include "train/comm/comm.h"
#include "train/cpu/cpu_device.h"

#ifdef ARENA_TRAIN_DEVICE
#include ARENA_TRAIN_DEVICE
#else
namespace arena::train {

using Device = CpuDevice;
using Element = float;
/// Zeros at first.
template <typename T>
using Array = std::vector<T>;
template <typename T>
using Pointer = T*;
template <typename T>
using Span = std::span<T>;
/// How the ranks of a group exchange what lies on the device: here as all else.
using Group = Comm;

/// The group of a Comm. All ranks of the Comm make it at once.
class DeviceGroup {
  public:
    DeviceGroup(Comm& comm, const Device&) : comm_(comm) {}
    /// Before send() and receive() between neighbouring stages; collective.
    void connect(const RankLayout&, const Place&) {}
    operator Group&() { return comm_; }
    Group* operator->() { return &comm_; }

  private:
    Comm& comm_;
};

/// "cpu"; made by each rank for itself.
inline Device make_device(int threads, Comm&) { return {threads}; }

}  // namespace arena::train
#endif

namespace arena::train {

using Tokens = Span<const std::int32_t>;

template <typename T>
Span<T> span_of(Array<T>& array) {
    return {array.data(), array.size()};
}

}  // namespace arena::train
