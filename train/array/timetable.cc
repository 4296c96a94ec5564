// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/array/timetable.h"

#include <algorithm>
#include <cmath>

#include "array/list_rule.h"
#include "array/search/solve.h"

namespace arena::train {
namespace {

/// All blocks of one iteration: 64 of them overlap within array::most_ticks.
constexpr double ticks_of_iteration = 2e7;
/// By when what is known of a member is no more its first, cold round: the order is made anew.
constexpr Index warm_round = 3;
/// Where nothing was measured: of one sample in one layer.
constexpr double guessed_s = 1e-3;

double sum(const BlockTimes& t) { return t.forward + t.recompute + t.backward + t.update + t.wait; }

}  // namespace

PlaceInChain place_in_chain(Index place, Index stages) {
    const Index block = place % (2 * stages);
    const bool backward = block >= stages;
    return {place / (2 * stages), backward ? 2 * stages - 1 - block : block, backward};
}

/// A first round is cold: it is forgotten. Later ones count as much as all before, so that one loud
/// round does not turn the order.
void Timetable::learn(Index member, Index samples, std::vector<BlockTimes> stages) {
    Known& known = known_.try_emplace(member, Known{samples, 0, stages}).first->second;
    known.rounds += 1;
    is_stale_ |= known.rounds == 1 || known.rounds == warm_round;
    const double old = known.rounds <= 2 ? 0 : 0.5;
    for (std::size_t s = 0; s < stages.size(); ++s)
        for (auto part : {&BlockTimes::forward, &BlockTimes::recompute, &BlockTimes::backward,
                          &BlockTimes::update, &BlockTimes::wait}) {
            double& value = known.stages[s].*part;
            value = old * value + (1 - old) * stages[s].*part;
        }
}

void Timetable::forget(Index member) {
    known_.erase(member);
    is_stale_ = true;
}

std::vector<BlockTimes> Timetable::times_of(const Participant& p) const {
    if (const auto own = known_.find(p.member); own != known_.end()) return own->second.stages;
    std::vector<BlockTimes> times(layers_.size());
    if (known_.empty()) {
        for (std::size_t s = 0; s < times.size(); ++s) {
            const double work = guessed_s * static_cast<double>(layers_[s] * p.samples);
            times[s] = {.forward = work, .backward = 2 * work};
        }
        return times;
    }
    const Known& sibling = known_.begin()->second;
    const double scale = static_cast<double>(p.samples) / static_cast<double>(sibling.samples);
    for (std::size_t s = 0; s < times.size(); ++s) {
        times[s] = sibling.stages[s];
        for (auto part : {&BlockTimes::forward, &BlockTimes::recompute, &BlockTimes::backward})
            times[s].*part *= scale;
    }
    return times;
}

void Timetable::solve(const std::vector<Participant>& members) {
    std::vector<std::vector<BlockTimes>> times;
    double all_s = 0;
    for (const Participant& p : members) {
        times.push_back(times_of(p));
        for (const BlockTimes& t : times.back()) all_s += sum(t);
    }
    ticks_per_s_ = ticks_of_iteration / std::max(all_s, 1e-9);
    array::StageTimes table;
    for (std::size_t s = 0; s < layers_.size(); ++s)
        table.device_of_stage.push_back(static_cast<int>(s));
    const auto ticks = [&](double seconds) {
        return std::max<array::Ticks>(static_cast<array::Ticks>(seconds * ticks_per_s_), 1);
    };
    for (const auto& stages : times) {
        const auto row = [&](array::StageTimes::Table& to, double BlockTimes::*part) {
            auto& values = to.emplace_back();
            for (const BlockTimes& t : stages) values.push_back(ticks(t.*part));
        };
        row(table.forward, &BlockTimes::forward);
        row(table.recompute, &BlockTimes::recompute);
        row(table.backward, &BlockTimes::backward);
        row(table.update, &BlockTimes::update);
        row(table.setup, &BlockTimes::wait);
    }
    one_ = array::make_instance("array", table).value();
    const auto solution = array::solve(one_, {}, {.seconds = solve_s_});
    order_ = solution.schedule ? solution.schedule->order : array::one_by_one(one_);
}

/// The best order of one iteration again and again, or what the list rule makes of all of them,
/// which fills the end of one iteration with the begin of the next.
const Timetable::Round& Timetable::round(const std::vector<Participant>& members,
                                         Index iterations) {
    if (!is_stale_ && members == members_ && iterations == iterations_) return round_;
    if (is_stale_ || members != members_) solve(members);
    members_ = members;
    iterations_ = iterations;
    is_stale_ = false;
    const auto many = array::repeated(one_, static_cast<int>(iterations)).value();
    array::Order again;
    for (Index i = 0; i < iterations; ++i) again.insert(again.end(), order_.begin(), order_.end());
    array::Schedule best = array::append(many, {}, again).value();
    for (const auto prefer : {array::Prefer::backward, array::Prefer::forward}) {
        array::Schedule other =
            array::append(many, {}, array::list_order(many, {}, prefer)).value();
        if (other.makespan < best.makespan) best = std::move(other);
    }
    round_.order = std::move(best.order);
    const bool all_known = std::ranges::all_of(
        members, [&](const Participant& p) { return known_.contains(p.member); });
    round_.seconds = all_known ? best.makespan / ticks_per_s_ : 0;
    return round_;
}

}  // namespace arena::train
