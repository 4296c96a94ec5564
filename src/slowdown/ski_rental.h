// SPDX-License-Identifier: GPL-2.0-or-later
// When an answer to a slowdown is worth its price: as in renting or buying skis, it is applied
// once the slowdown has cost as much as the answer does (Greyhound,
// ATC'25; the loss is time lost over the healthy iteration, not time passed). With one answer that
// helps, the whole costs at most twice the best in hindsight, and one iteration; of several nothing
// is proven.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "slowdown/cause.h"

namespace arena::slowdown {

/// S1, to do nothing, is where each event begins and costs nothing.
enum class Strategy {
    micro_batches,  ///< S2: slow replicas get fewer micro-batches (micro_batches.h)
    roles,          ///< S3: nodes swap their places in the grid (roles.h)
    restart,        ///< S4: checkpoint, and restart without the node
};
inline constexpr Strategy all_strategies[] = {Strategy::micro_batches, Strategy::roles,
                                              Strategy::restart};

/// "S2", "S3", "S4".
constexpr std::string_view name(Strategy strategy) {
    constexpr std::string_view names[] = {"S2", "S3", "S4"};
    return names[static_cast<std::size_t>(strategy)];
}
std::optional<Strategy> parse_strategy(std::string_view name);

/// Compute: S2, S3, S4. Communication: S3, S4.
bool helps(Strategy strategy, Cause cause);

struct Priced {
    Strategy strategy = Strategy::micro_batches;
    double overhead_s = 0;  ///< what applying it loses; finite, >= 0
    bool operator==(const Priced&) const = default;
};

/// Those of `available` that help, the cheapest first; of equal ones S2 before S3 before S4.
std::vector<Priced> candidates(Cause cause, std::span<const Priced> available);

/// One event, from onset to relief.
class SkiRental {
  public:
    /// healthy_s: the iteration before the event, > 0. Errors: an overhead or the healthy time out
    /// of range, a strategy twice. The order of `priced` does not matter.
    static Result<SkiRental> begin(double healthy_s, std::span<const Priced> priced);

    /// One iteration of the event took iteration_s. Answers what has become due with it, the
    /// cheapest first: more than one where an iteration loses much, and then only the last is
    /// worth applying. Once each; nothing when all are used up. The loss goes on adding up after
    /// an answer. Errors: no finite time >= 0, which says nothing of health.
    Result<std::vector<Strategy>> iteration(double iteration_s);

    [[nodiscard]] double lost_s() const { return lost_s_; }
    /// Nothing: all have become due.
    [[nodiscard]] std::optional<Priced> next() const;

  private:
    SkiRental(double healthy_s, std::vector<Priced> priced)
        : healthy_s_(healthy_s), priced_(std::move(priced)) {}

    double healthy_s_;
    std::vector<Priced> priced_;
    std::size_t next_ = 0;
    double lost_s_ = 0;
};

}  // namespace arena::slowdown
