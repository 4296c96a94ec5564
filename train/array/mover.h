// SPDX-License-Identifier: GPL-2.0-or-later
// Copies of states between the host and a device, beside what the device computes: by a second
// thread, on a GPU by its copy lane. Where a device has none they wait in the caller's thread.
#pragma once

#include <cstdint>
#include <memory>

#include "train/core/device.h"

namespace arena::train {

class StateMover {
  public:
    enum class Way { in, out };  ///< to the device, from it
    struct Copy {
        Way way = Way::in;
        void* device = nullptr;
        void* host = nullptr;
        std::size_t bytes = 0;
    };
    using Ticket = std::uint64_t;  ///< of a copy; grows with each

    StateMover() = default;
    StateMover(const StateMover&) = delete;
    StateMover& operator=(const StateMover&) = delete;
    virtual ~StateMover() = default;
    /// Copies are done in the order of calls. The first sees all that the device has computed so
    /// far. Allocates nothing, but where it sees a piece of the host's memory first.
    /// Throws std::runtime_error, as wait() does, where a copy before has failed.
    virtual Ticket begin(const Copy&) = 0;
    [[nodiscard]] virtual bool is_done(Ticket) const = 0;
    virtual void wait(Ticket) = 0;
    /// Memory of the host that copies went from or to, all of them done, is freed after this.
    virtual void forget(void* host) = 0;
};

/// `most`: copies under way, beyond which begin() waits. The device outlives the mover.
std::unique_ptr<StateMover> make_mover(Device&, std::size_t most);
/// By a second thread, with a lane of `most` marks.
std::unique_ptr<StateMover> make_mover(Device&, std::unique_ptr<CopyLane>, std::size_t most);
/// Whose copies are done when begin() returns.
std::unique_ptr<StateMover> make_waiting_mover(Device&);

}  // namespace arena::train
