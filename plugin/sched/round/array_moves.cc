// SPDX-License-Identifier: GPL-2.0-or-later
// Jobs that train members of arrays leave their nodes as other jobs of Arena's do: what is lent
// goes back, what is slow is left where that pays. A drained node is left, too: nobody could join
// there any more, and a pipeline that members join need never end.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "plugin/sched/round/running.h"
#include "plugin/sched/round/stages.h"

namespace arena {
namespace {

using Leaving = ArrayBook::Leaving;

class ArrayMoves {
  public:
    ArrayMoves(const ClusterView& view, Books& books) : view_(view), books_(books) {}
    void look_at(const ArrayBook::Carrier& carrier);

  private:
    void take_in();
    [[nodiscard]] bool is_ready() const;
    [[nodiscard]] bool is_held(NodeIndex entry) const;
    [[nodiscard]] bool has_place(bool free_now) const;
    [[nodiscard]] bool all_may_leave() const;
    [[nodiscard]] std::optional<Move> off_slow() const;
    void leave_drained() const;
    void leave(const Move& move) const;

    const ClusterView& view_;
    Books& books_;
    const ArrayBook::Carrier* carrier_ = nullptr;
    std::vector<const JobView*> members_;  ///< those that run, as far as they are known
    JobState state_;                       ///< what a policy would see
};

/// Of a node with several GPU types the entry whose GPUs the carrier holds.
bool ArrayMoves::is_held(NodeIndex entry) const {
    const NodeParts parts = parts_of(view_.snapshot.nodes, entry);
    if (parts.last - parts.first == 1) return true;
    return std::any_of(view_.running.begin(), view_.running.end(), [&](const Occupied& held) {
        return held.job == carrier_->view.id &&
               std::any_of(held.parts.begin(), held.parts.end(),
                           [&](const auto& part) { return part.node == entry && part.gpus > 0; });
    });
}

void ArrayMoves::take_in() {
    const ArrayCarrierView& view = carrier_->view;
    members_.clear();
    for (const JobView& job : view_.jobs) {
        const auto& mark = job.facts.mark;
        if (mark && mark->array == view.id && !job.changing &&
            job.facts.state == HostJobState::running)
            members_.push_back(&job);
    }
    state_ = {};
    const auto& all = view_.snapshot.nodes;
    for (NodeIndex i = 0; i < all.size(); ++i)
        if (std::find(view.nodes.begin(), view.nodes.end(), all[i].name) != view.nodes.end() &&
            is_held(i))
            state_.nodes.push_back(i);
    if (!members_.empty()) state_.node_set = members_.front()->node_set;
    state_.time_limit_s = std::max(view.end_s - view_.snapshot.time_s, 0.0);
    Grid& grid = state_.current.emplace().grid;
    grid.nodes = std::max<std::int64_t>(std::ssize(state_.nodes), 1);
    grid.gpus_per_node = view.gpus / grid.nodes;
    if (!state_.nodes.empty()) grid.gpu_type = all[state_.nodes.front()].gpu_type;
}

/// One that has trained nobody is cancelled, which needs no script that listens.
bool ArrayMoves::is_ready() const {
    return !carrier_->had_members ||
           ready_for_signals(carrier_->view.configuring, view_.steady_s - carrier_->begun_s);
}

/// Of nodes that its members may have, without those that they avoid and lent ones.
bool ArrayMoves::has_place(bool free_now) const {
    if (members_.empty()) return false;
    const Grid& grid = state_.current->grid;
    const auto& set = view_.snapshot.node_sets[state_.node_set];
    const auto fits = [&](NodeIndex index) {
        const NodeState& node = view_.snapshot.nodes[index];
        const bool own = std::binary_search(state_.nodes.begin(), state_.nodes.end(), index);
        const std::int64_t gpus =
            free_now ? node.free_gpus + (own ? grid.gpus_per_node : 0) : node.total_gpus;
        return node.up && node.lent.empty() && node.gpu_type == grid.gpu_type &&
               gpus >= grid.gpus_per_node;
    };
    return std::count_if(set.begin(), set.end(), fits) >= grid.nodes;
}

/// Each of its members could, were it a job by itself.
bool ArrayMoves::all_may_leave() const {
    return !members_.empty() && std::ssize(members_) == carrier_->running &&
           std::all_of(members_.begin(), members_.end(), [&](const JobView* job) {
               const auto wanted = books_.requests.get(job->id, job->record, job->comment);
               return wanted->problem.empty() &&
                      why_not_to_leave(*job, wanted->request, true,
                                       books_.clocks.age_s(job->id, job->start_s),
                                       view_.snapshot.time_s, books_.site.config)
                          .empty();
           });
}

std::optional<Move> ArrayMoves::off_slow() const {
    const auto& avoided = books_.nodes.avoided();
    std::vector<std::string> names;
    double factor = 1;
    for (const NodeIndex index : state_.nodes) {
        if (!std::binary_search(avoided.begin(), avoided.end(), index)) continue;
        names.push_back(view_.snapshot.nodes[index].name);
        factor = std::max(factor, view_.snapshot.nodes[index].slow);
    }
    const bool cools = view_.steady_s - carrier_->begun_s < books_.site.config.cooldown_s;
    if (names.empty() || cools || !all_may_leave() || members_.front()->avoided.empty() ||
        !pays_to_leave(state_, factor, books_.options.restart) || !has_place(true))
        return std::nullopt;
    return leave_slow(names, books_.nodes);
}

void ArrayMoves::leave(const Move& move) const {
    books_.arrays.leave(carrier_->view.id, move, is_ready() ? Leaving::told : Leaving::later);
}

/// Where no other node can hold it, its members would wait for this one. They train on, and others
/// wait.
void ArrayMoves::leave_drained() const {
    Move move{.why = fmt::format("leaves {}: drained", join(carrier_->view.drained, ","))};
    if (carrier_->running == 0 || has_place(false)) return leave(move);
    move.why += ", but stays: no other node can hold it";
    books_.arrays.leave(carrier_->view.id, move, Leaving::later);
}

void ArrayMoves::look_at(const ArrayBook::Carrier& carrier) {
    if (carrier.view.finished) return;
    carrier_ = &carrier;
    const auto imposed = books_.imposed.find(carrier.view.id);
    if (imposed != books_.imposed.end() && books_.loans.must_end(carrier.view.id))
        return books_.arrays.leave(carrier.view.id, imposed->second, Leaving::at_once);
    if (!carrier.view.running) return;
    if (imposed != books_.imposed.end()) return leave(imposed->second);
    if (carrier.view.drained.empty() && books_.nodes.avoided().empty()) return;
    take_in();
    if (!carrier.view.drained.empty()) return leave_drained();
    if (const auto move = off_slow()) leave(*move);
}

}  // namespace

void move_arrays(const ClusterView& view, Books& books) {
    ArrayMoves moves(view, books);
    for (const auto& [id, carrier] : books.arrays.carriers()) moves.look_at(carrier);
}

}  // namespace arena
