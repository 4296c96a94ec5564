// SPDX-License-Identifier: GPL-2.0-or-later
// The rings of one step's ranks on this node. Once a ring is mapped its name is taken away:
// whatever ends the step, the ranks or the agent, nothing stays in /dev/shm.
#pragma once

#include <cstdint>
#include <list>
#include <set>
#include <string>
#include <vector>

#include "watch/agent/agent.h"
#include "watch/reader/ring_reader.h"

namespace arena::watch {

/// Whose rings: those of a step of Slurm's on one node, else those of the processes that have
/// ARENA_WATCH_RUN=run in their environment.
struct RingFilter {
    std::uint32_t uid = 0;
    std::string run;  ///< "": Slurm's
    std::uint64_t job = 0;
    std::uint32_t step = 0, life = 0, node = 0;
};

/// One variable of a running process of one's own; "" where it cannot be read.
std::string variable_of(std::uint32_t pid, const std::string& name);

class NodeRings {
  public:
    /// keep_names: rings keep their names until their process has ended, for `arena-watch list`.
    NodeRings(RingFilter filter, bool keep_names)
        : filter_(std::move(filter)), keep_names_(keep_names) {}

    /// What all of them gave since the last time, new ones included. Those whose process has ended
    /// are said to for the last time.
    std::vector<RingNews> read(double now_s);
    void set_control(Control control);
    /// Records of the smallest; 0: there is none.
    [[nodiscard]] std::uint64_t capacity() const;
    [[nodiscard]] bool empty() const { return rings_.empty(); }
    /// How many there have been.
    [[nodiscard]] std::size_t found() const { return found_; }

  private:
    struct One {
        RingReader ring;
        std::string visible, granted;
        bool alive = true, running = true;
    };
    void look_for_new();
    [[nodiscard]] bool is_ours(const RingOwner& owner) const;
    static void look_at_process(One& one);

    RingFilter filter_;
    bool keep_names_;
    std::list<One> rings_;
    std::set<std::string> others_;  ///< looked at, and not ours
    double looked_s_ = -1;
    std::size_t found_ = 0;
    Control control_ = Control::record;
};

}  // namespace arena::watch
