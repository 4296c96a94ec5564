// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugin/sched/plans/plan_desk.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "planner/requests/would_fit.h"
#include "plugin/sched/plans/memory_room.h"

namespace arena {
namespace {

using Clock = std::chrono::steady_clock;

/// What may be spent beside a plan on what to do where there is none.
constexpr double would_fit_seconds = 0.2;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string would_fit(const PlanQuery& query, PlanBudget::Limits limits) {
    limits.seconds = std::min(limits.seconds, would_fit_seconds);
    PlanBudget budget(limits);
    return would_fit_text(what_would_fit(query, budget));
}

PlanOutcome plan(const PlanQuery& query, const PlanBudget::Limits& limits) {
    PlanOutcome outcome;
    outcome.model_name = query.model.name;
    const auto start = Clock::now();
    try {
        PlanBudget budget(limits);
        std::vector<GridResult> grids = plan_grids(query, budget);
        for (GridResult& grid : grids) {
            outcome.in_part += grid.in_part ? 1 : 0;
            if (!grid.feasible) outcome.infeasible.push_back({grid.grid, std::move(grid.reason)});
        }
        outcome.offers = offers_of(std::move(grids));
        if (outcome.offers.empty()) outcome.would_fit = would_fit(query, limits);
    } catch (const std::exception& fault) {
        outcome.fault = fault.what();
    }
    outcome.seconds = seconds_since(start);
    return outcome;
}

}  // namespace

/// Of the search for a schedule no more than a plan may take: nothing stops it.
PlanWork price_siblings(ArrayQuery query) {
    return [query = std::move(query)](const PlanBudget::Limits& limits) {
        PlanOutcome outcome;
        const auto start = Clock::now();
        try {
            ArrayQuery limited = query;
            limited.solve.seconds = std::min(query.solve.seconds, limits.seconds);
            outcome.array = std::make_shared<const ArrayOffers>(array_offers(limited, limits));
        } catch (const std::exception& fault) {
            outcome.fault = fault.what();
        }
        outcome.seconds = seconds_since(start);
        return outcome;
    };
}

PlanLimits slurm_plan_limits() {
    PlanLimits limits;
    limits.own.seconds = 1;
    limits.own.bytes = std::size_t{64} << 20;
    limits.memory_left = address_space_left;
    limits.round_wait_s = 0.2;
    limits.has_thread = true;
    return limits;
}

PlanDesk::PlanDesk(PlanLimits limits) : limits_(std::move(limits)) {
    limits_.own.stop = &quits_;
    wait_left_s_ = limits_.round_wait_s;
    if (limits_.has_thread) thread_ = std::thread([this] { run(); });
}

PlanDesk::~PlanDesk() {
    {
        const std::lock_guard lock(mutex_);
        quits_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void PlanDesk::begin_round() {
    const std::lock_guard lock(mutex_);
    wait_left_s_ = limits_.round_wait_s;
    for (const std::string& key : turns_.begin_round()) {
        works_.erase(key);
        slow_.erase(key);
    }
}

std::optional<PlanOutcome> PlanDesk::ask(std::uint32_t user, const std::string& key,
                                         const std::function<PlanQuery()>& make_query) {
    return ask_for(user, key, [&] {
        return PlanWork([query = make_query()](const PlanBudget::Limits& limits) {
            return plan(query, limits);
        });
    });
}

std::optional<PlanOutcome> PlanDesk::ask_for(std::uint32_t user, const std::string& key,
                                             const std::function<PlanWork()>& make_work) {
    std::unique_lock lock(mutex_);
    if (!made_.contains(key) && in_work_ != key) {
        if (!turns_.ask(user, key)) return std::nullopt;
        if (!works_.contains(key)) works_.emplace(key, make_work());
        changed_.notify_all();
    }
    if (!made_.contains(key) && !slow_.contains(key)) wait_for(key, lock);
    const auto at = made_.find(key);
    if (at == made_.end()) {
        slow_.insert(key);
        return std::nullopt;
    }
    PlanOutcome outcome = std::move(at->second);
    made_.erase(at);
    return outcome;
}

/// Short waits, so that a controller that stops is not kept.
void PlanDesk::wait_for(const std::string& key, std::unique_lock<std::mutex>& lock) {
    const auto start = Clock::now();
    const double most_s = wait_left_s_;
    while (wait_left_s_ > 0 && !made_.contains(key) && !(limits_.stop && *limits_.stop)) {
        if (!limits_.has_thread)
            make_next(lock);
        else
            changed_.wait_for(lock, std::chrono::milliseconds(10));
        wait_left_s_ = most_s - seconds_since(start);
    }
}

PlanOutcome PlanDesk::make(const PlanWork& work) const {
    PlanBudget::Limits own = limits_.own;
    const auto left = limits_.memory_left ? limits_.memory_left() : std::nullopt;
    const auto bytes = table_bytes(own.bytes, left);
    if (bytes) {
        own.bytes = *bytes;
        return work(own);
    }
    PlanOutcome none;
    none.no_room = true;
    none.fault = no_room_text(*left);
    return none;
}

/// False where nothing waits. Unlocked while it plans.
bool PlanDesk::make_next(std::unique_lock<std::mutex>& lock) {
    const auto turn = turns_.next();
    if (!turn) return false;
    const auto work = works_.extract(turn->key);
    if (work.empty()) return true;  // its making failed
    in_work_ = turn->key;
    lock.unlock();
    PlanOutcome outcome = make(work.mapped());
    lock.lock();
    in_work_.clear();
    turns_.charge(turn->user, outcome.seconds);
    slow_.erase(turn->key);
    ++stats_.made;
    stats_.in_part += outcome.in_part > 0 ? 1 : 0;
    stats_.longest_s = std::max(stats_.longest_s, outcome.seconds);
    made_.insert_or_assign(turn->key, std::move(outcome));
    changed_.notify_all();
    return true;
}

void PlanDesk::run() {
    std::unique_lock lock(mutex_);
    while (!quits_) {
        if (!make_next(lock)) {
            changed_.wait(lock, [&] { return quits_ || !turns_.empty(); });
            continue;
        }
        lock.unlock();
        if (!quits_ && limits_.on_done) limits_.on_done();
        lock.lock();
    }
}

std::map<std::string, PlanOutcome> PlanDesk::take_made() {
    const std::lock_guard lock(mutex_);
    return std::exchange(made_, {});
}

PlanDesk::Stats PlanDesk::stats() const {
    const std::lock_guard lock(mutex_);
    Stats stats = stats_;
    stats.waiting = turns_.size() + (in_work_.empty() ? 0 : 1);
    return stats;
}

}  // namespace arena
