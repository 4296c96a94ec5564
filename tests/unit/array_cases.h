// SPDX-License-Identifier: GPL-2.0-or-later
// Instances of arrays for tests: small ones made at random, and their optimum by trying every order
// in which blocks can be appended.
#pragma once

#include <algorithm>
#include <optional>
#include <random>

#include "array/line.h"
#include "array/schedule.h"
#include "suite.h"

namespace arena::test {

using array::Instance;
using array::Rules;
using array::Ticks;

/// What a random instance may have.
struct ArrayKind {
    std::size_t jobs = 2, stages = 2;
    int devices = 0;     ///< fewer than stages: some are shared; 0: as many
    Ticks longest = 9;   ///< of forward times
    Ticks switches = 0;  ///< longest
    Ticks updates = 0, transfers = 0, recomputes = 0;
    bool twins = false;         ///< some jobs are the same
    bool forward_only = false;  ///< of some jobs
};

class ArrayMaker {
  public:
    explicit ArrayMaker(unsigned seed) : random_(seed) {}
    Ticks upto(Ticks most) { return std::uniform_int_distribution<Ticks>(0, most)(random_); }

    array::StageTimes times(const ArrayKind& kind) {
        array::StageTimes times;
        for (std::size_t s = 0; s < kind.stages; ++s) {
            const int own = static_cast<int>(s);
            times.device_of_stage.push_back(kind.devices == 0 ? own : upto(kind.devices - 1));
        }
        for (std::size_t j = 0; j < kind.jobs; ++j) {
            const bool is_twin = kind.twins && j > 0 && upto(1) == 0;
            const auto add = [&](array::StageTimes::Table& table, std::size_t columns, Ticks most) {
                auto row = is_twin ? table.back() : std::vector<Ticks>(columns);
                if (!is_twin)
                    for (Ticks& time : row) time = upto(most);
                table.push_back(std::move(row));
            };
            const bool one_way = kind.forward_only && upto(1) == 0;
            add(times.forward, kind.stages, kind.longest);
            add(times.backward, kind.stages, one_way ? 0 : 2 * kind.longest);
            add(times.recompute, kind.stages, kind.recomputes);
            add(times.update, kind.stages, kind.updates);
            add(times.setup, kind.stages, kind.switches);
            add(times.transfer_forward, kind.stages - 1, kind.transfers);
            add(times.transfer_backward, kind.stages - 1, kind.transfers);
        }
        return times;
    }
    Instance instance(const ArrayKind& kind) {
        return must(array::make_instance("random", times(kind)));
    }
    Instance job_shop(std::size_t jobs, int devices) {
        std::vector<std::vector<array::RouteStep>> routes(jobs);
        for (auto& route : routes) {
            for (int d = 0; d < devices; ++d) route.push_back({d, upto(9)});
            std::shuffle(route.begin(), route.end(), random_);
        }
        return must(array::make_job_shop("shop", devices, routes));
    }
    array::Order order(const Instance& instance) {
        array::Order order = array::one_by_one(instance);
        std::shuffle(order.begin(), order.end(), random_);
        return order;
    }

  private:
    std::mt19937 random_;
};

/// The least makespan, or nothing: the rules allow no schedule.
class BruteForce {
  public:
    BruteForce(const Instance& instance, const Rules& rules) : instance_(instance) {
        go(array::Line(instance, rules), 0);
    }
    [[nodiscard]] std::optional<Ticks> best() const { return best_; }

  private:
    void go(const array::Line& line, std::size_t appended) {
        if (best_ && line.makespan() >= *best_) return;
        if (appended == instance_.blocks.size()) best_ = line.makespan();
        for (int j = 0; j < instance_.jobs; ++j) {
            if (!line.has_next(j) || !line.may_go(j)) continue;
            array::Line further = line;
            further.append(j);
            go(further, appended + 1);
        }
    }
    const Instance& instance_;
    std::optional<Ticks> best_;
};

}  // namespace arena::test
