// SPDX-License-Identifier: GPL-2.0-or-later
// What an ordinary job asks of Slurm, in the words of each release, as policies see it.
#include <fmt/format.h>

#include "plugin/sched/host/ordinary.h"
#include "suite.h"

using namespace arena;

namespace {

OrdinaryJob asking(std::string per_node, std::int64_t nodes = 1) {
    OrdinaryJob job;
    job.id = 7;
    job.nodes = nodes;
    job.per_node = std::move(per_node);
    return job;
}

/// n1 and n2 of four a40, n3 of eight h100, n4 without any.
Snapshot cluster() {
    Snapshot s;
    s.time_s = 5000;
    s.nodes = {{"n1", "a40", 4, 4, 16, 64000},
               {"n2", "a40", 4, 0, 16, 64000},
               {"n3", "h100", 8, 8, 64, 640000},
               {"n4", "", 0, 0, 64, 64000}};
    s.node_sets = {{0, 1, 2, 3}, {0, 3}};
    return s;
}

TEST(the_words_of_each_release_are_read) {
    const AskedGpus four{"a100", 4, 0};
    for (const char* words : {"gres:gpu:a100:4", "gres/gpu:a100:4", "gres/gpu:a100=4",
                              "gres/shard:2,gres/gpu:a100:4", "gpu:a100:4"})
        ck_assert_msg(asked_gpus(asking(words, 2)) == four, "%s", words);
    ck_assert(asked_gpus(asking("gres:gpu:3")) == (AskedGpus{"", 3, 0}));
    ck_assert(asked_gpus(asking("gres/gpu")) == (AskedGpus{"", 1, 0}));
    ck_assert(asked_gpus(asking("gres/gpu:a40")) == (AskedGpus{"a40", 1, 0}));
    for (const char* words : {"", "gres/shard:4", "cpu:4", "gres/gpu:a40:1,gres/gpu:h100:1"})
        ck_assert_msg(!asked_gpus(asking(words)), "%s", words);
}

TEST(what_is_asked_for_the_job_or_a_task_is_shared_out_on_the_fewest_nodes) {
    const auto grids = [](const OrdinaryJob& job) {
        std::string words;
        const auto seen = state_of(job, cluster());
        if (!seen) return words;
        for (const Offer& offer : seen->second)
            words += fmt::format("{}x{}{} ", offer.grid.nodes, offer.grid.gpus_per_node,
                                 offer.grid.gpu_type);
        return words;
    };
    OrdinaryJob job = asking("", 2);
    job.per_job = "gres/gpu:a40:6";
    ck_assert(asked_gpus(job) == (AskedGpus{"a40", 0, 6}));
    ck_assert_str_eq(grids(job).c_str(), "2x3a40 ");
    job.nodes = 1;
    ck_assert_str_eq(grids(job).c_str(), "2x3a40 ");
    job.per_job = "gres/gpu:8";
    ck_assert_str_eq(grids(job).c_str(), "2x4a40 1x8h100 ");
    job.per_job = "gres/gpu:7";
    ck_assert_str_eq(grids(job).c_str(), "7x1a40 1x7h100 ");
    job.per_job.clear();
    job.per_task = "cpu:2,gres/gpu:1";
    job.tasks = 8;
    ck_assert(asked_gpus(job) == (AskedGpus{"", 0, 8}));
    ck_assert_str_eq(grids(job).c_str(), "2x4a40 1x8h100 ");
    job.is_known = false;
    ck_assert_str_eq(grids(job).c_str(), "");
}

TEST(a_job_has_an_offer_for_each_type_that_its_nodes_have) {
    OrdinaryJob job = asking("gres/gpu:2", 2);
    job.rank = 12;
    job.submit_s = 4000;
    job.eligible_s = 4500;
    job.time_limit_s = 3600;
    job.cpus = 10;
    job.memory_mb = 8000;
    const auto seen = state_of(job, cluster());
    ck_assert(seen.has_value());
    const auto& [state, offers] = *seen;
    ck_assert(offers.size() == 2 && offers[0].grid == (Grid{"a40", 2, 2, 1}) &&
              offers[1].grid == (Grid{"h100", 2, 2, 1}));
    ck_assert(state.ordinary && state.id == 7 && state.priority == 12 && state.age_s == 500);
    ck_assert(state.cpus_per_gpu == 2 && state.memory_mb_per_gpu == 4000);
    ck_assert(state.time_limit_s == 3600 && state.remaining_iterations == 3600);
    job.memory_is_per_cpu = true;
    ck_assert(state_of(job, cluster())->first.memory_mb_per_gpu == 20000);
    job.node_set = 1;
    ck_assert(state_of(job, cluster())->second.size() == 1);
    job.per_node = "gres/gpu:h100:2";
    ck_assert(!state_of(job, cluster()));
}

TEST(whole_nodes_are_all_of_their_gpus_and_no_limit_is_a_year) {
    OrdinaryJob job = asking("gres/gpu:h100:2");
    job.whole_nodes = true;
    const auto seen = state_of(job, cluster());
    ck_assert(seen->second.size() == 1 && seen->second[0].grid.gpus_per_node == 8);
    ck_assert(seen->first.time_limit_s == 365.0 * 86400);
}

}  // namespace
