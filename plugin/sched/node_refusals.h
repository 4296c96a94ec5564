// SPDX-License-Identifier: GPL-2.0-or-later
// NodeRefusals: nodes that the snapshot shows free and that Slurm did not give to a profile run.
// Each question leaves a cancelled job behind: a node that refuses is left alone for a while.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace arena {

class NodeRefusals {
  public:
    /// Forgets nodes that are no longer shown free, as that says why they refused, and those that
    /// have not been asked for long.
    void forget_old(double now_s, const std::function<bool(const std::string& node)>& shown_free);
    /// True at the first refusal of a streak: worth a line in the log.
    [[nodiscard]] bool note(const std::string& node, double now_s);
    /// The node gave what was asked for.
    void forget(const std::string& node) { refusals_.erase(node); }
    /// Whether the node refused so lately that it is not to be asked now.
    [[nodiscard]] bool rests(const std::string& node, double now_s) const;
    /// Whether it refused in a streak that is not over: others are asked first.
    [[nodiscard]] bool refused(const std::string& node) const { return refusals_.contains(node); }

  private:
    struct Refusal {
        double rest_s = 0, until_s = 0;
    };
    std::map<std::string, Refusal> refusals_;  ///< by node
};

}  // namespace arena
