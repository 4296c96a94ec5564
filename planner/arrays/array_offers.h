// SPDX-License-Identifier: GPL-2.0-or-later
// What siblings of one job array could do with the GPUs that they may have together: side by side
// on one device each, side by side on some each, one after another on all, or through one pipeline
// that they share (ArrayPipe, INFOCOM'25). Sharing needs memory for two of them on each device and
// gains only where none fits a device alone, so each way is priced before anything is bound. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "array/search/solve.h"
#include "planner/search/budget.h"
#include "planner/search/query.h"

namespace arena {

struct ArrayQuery {
    Model model;
    std::int64_t global_batch = 1;   ///< of each member
    GpuPool pool;                    ///< max_gpus: those that they may have together
    Capabilities can = {};           ///< of the launcher that members would run with alone
    std::int64_t members = 2;        ///< 2 to array::most_jobs
    std::int64_t max_members = 64;   ///< that share one pipeline
    int buffers = 2;                 ///< members' states on a device
    double host_bytes_per_s = 25e9;  ///< between a node's host and its GPUs together (PCIe 4.0 x16)
    double host_bytes_per_gpu = 0;   ///< of its node's memory, for members' states; 0 = enough
    array::SolveOptions solve = {};  ///< of the pipeline that is best by the list rule
    std::int64_t max_stages = 0;     ///< of one pipeline; 0 = as many as pool.max_gpus
    /// What a member alone may have, where its user asks for more than the fields above say.
    std::optional<PlanQuery> alone = {};
};

enum class ArrayWay { alone, side_by_side, one_by_one, pipeline };

struct ArrayOffer {
    ArrayWay way = ArrayWay::alone;
    bool possible = false;
    std::string reason = {};     ///< why it is not possible
    std::int64_t gpus = 0;       ///< of one group, or of one pipeline
    std::int64_t groups = 0;     ///< beside each other
    std::int64_t at_a_time = 0;  ///< members in a group at a time
    double iteration_s = 0;      ///< in which each of them does one iteration
    Plan plan = {};              ///< of a member; of a pipeline its stages
    double bubble = 0;  ///< of a pipeline: share of its devices' time in which none computes
    /// Iterations of members per second, of all groups together.
    [[nodiscard]] double rate_per_s() const {
        return possible ? static_cast<double>(groups * at_a_time) / iteration_s : 0;
    }
};

struct ArrayOffers {
    std::array<ArrayOffer, 4> ways;  ///< in the order of ArrayWay
    bool binds = false;              ///< the pipeline wins by least_gain
    std::string why;                 ///< a sentence
};

/// A pipeline is bound only where it is so much faster than what is best without.
inline constexpr double least_gain = 1.05;

/// Seconds of search: those of solve, and those that plan_grids() takes, within the limits.
ArrayOffers array_offers(const ArrayQuery&, const PlanBudget::Limits& = {});

/// "side by side on one device each".
std::string_view words_of(ArrayWay);

}  // namespace arena
