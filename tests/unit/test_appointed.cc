// SPDX-License-Identifier: GPL-2.0-or-later
// Appointed times of policy `arena`: where they lie and how often they come, at any epoch and for
// any caller.
#include "policy/arena/appointed.h"
#include "policy/arena/arena_policy.h"
#include "suite.h"

using namespace arena;

namespace {

Offer offer_of(const std::string& type, double iteration_s) {
    Offer offer;
    offer.grid = {type, 1, 1, 1};
    offer.estimate.iteration_s = iteration_s;
    return offer;
}

JobState long_job(JobId id, double done, double epoch_s) {
    JobState job;
    job.id = id;
    job.phase = JobPhase::running;
    job.max_gpus = INT64_MAX;
    job.cpus_per_gpu = 0;
    job.remaining_iterations = 400000 - done;
    job.done_iterations = done;
    job.elastic = true;
    job.current = offer_of(id == 1 ? "a40" : "h100", 1);
    job.nodes = {static_cast<NodeIndex>(id - 1)};
    job.start_s = epoch_s;
    job.restarts = 1;
    return job;
}

/// Two long jobs that would both be much faster on the other's node, in a full cluster: how often
/// in eight hours they may change, asked every `round_s`, if nobody ever carries it out.
int openings(double epoch_s, double round_s) {
    int count = 0;
    const Offers offers{{1, {offer_of("a40", 1), offer_of("h100", 0.1)}},
                        {2, {offer_of("a40", 0.1), offer_of("h100", 1)}}};
    PolicyOptions options;
    options.reserve_depth = 0;
    options.window_s = round_s;
    Snapshot s;
    s.nodes = {{"n1", "a40", 1, 0, 0, 0}, {"n2", "h100", 1, 0, 0, 0}};
    s.node_sets = {{0, 1}};
    for (double t = round_s; t <= 8 * 3600; t += round_s) {
        s.time_s = epoch_s + t;
        s.jobs = {long_job(1, t - 40, epoch_s), long_job(2, t - 40, epoch_s)};
        for (JobState& job : s.jobs) job.age_s = t;
        count += decide_arena(s, offers, options).actions.empty() ? 0 : 1;
    }
    return count;
}

}  // namespace

TEST(a_period_is_a_power_of_two_near_a_tenth_of_the_work) {
    ck_assert(appointed_period_s(10000, {}) == 512 && appointed_period_s(30000, {}) == 2048);
    ck_assert(appointed_period_s(10240, {}) == 1024 && appointed_period_s(1e6, {}) == 65536);
    ck_assert(appointed_period_s(0, {}) == 0 && appointed_period_s(9, {}) == 0);
    ck_assert(appointed_period_s(std::nan(""), {}) == 0);
}

TEST(each_time_is_said_once) {
    ck_assert(!is_appointed(0, 1024, 300) && !is_appointed(200, 1024, 300) &&
              !is_appointed(1023, 1024, 300));
    ck_assert(is_appointed(1024, 1024, 0.5) && !is_appointed(1024.5, 1024, 0.5));
    ck_assert(is_appointed(1300, 1024, 300) && !is_appointed(1024, 1024, 0));
    ck_assert(is_appointed(5000, 1024, 4000));
}

TEST(appointed_times_come_once_a_period_at_any_epoch_and_any_round) {
    // 40,000 s on the other's node, so every 2,048 s.
    for (const double epoch_s : {0.0, 12345.678, 1.7e9, 1795358463.25}) {
        for (const double round_s : {0.5, 5.0, 300.0}) {
            const int count = openings(epoch_s, round_s);
            ck_assert_msg(count == 8 * 3600 / 2048, "epoch %.0f, rounds of %.1f s: %d", epoch_s,
                          round_s, count);
        }
    }
}
