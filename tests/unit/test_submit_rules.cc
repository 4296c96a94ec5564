// SPDX-License-Identifier: GPL-2.0-or-later
// Who is let in as an Arena job, with which sentence the others are turned away, and what an update
// of a held job may do.
#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "planner/hardware/hardware.h"
#include "planner/requests/build_request.h"
#include "plugin/common/steps_limit.h"
#include "plugin/job_submit/modify_rules.h"
#include "plugin/job_submit/submit_line.h"
#include "plugin/job_submit/submit_rules.h"
#include "site/gpu_facts.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

ClusterFacts cluster() {
    ClusterFacts facts;
    facts.place = "partition main";
    for (const char* type : {"a40", "a40", "h100"})
        facts.partition.push_back({{{type, 4}}, 16, 64000, 1000});
    facts.types = {"a40", "h100", "v100", "l4"};
    return facts;
}

SiteFacts site() {
    static const auto hardware = load_hardware("");
    ck_assert_msg(hardware.ok(), "%s", hardware.ok() ? "" : hardware.error().message().c_str());
    SiteFacts s;
    s.config.gpu_types = {{"a40", "A40"}, {"h100", "H100-SXM"}, {"v100", "V100-SXM-32GB"}};
    s.hardware = *hardware;
    return s;
}

/// Of whatever launcher that is the default.
Request unnamed(const std::vector<Setting>& more = {}) {
    std::vector<Setting> settings = {{"model", "gpt2"}};
    settings.insert(settings.end(), more.begin(), more.end());
    const auto is_batch = [](const Setting& s) { return s.first == "batch"; };
    if (std::none_of(more.begin(), more.end(), is_batch)) settings.emplace_back("batch", "64");
    return must(build_request(settings, {}, {}));
}

/// Of one that can be told most plans.
Request request(std::vector<Setting> more = {}) {
    const bool names_one = std::any_of(more.begin(), more.end(),
                                       [](const Setting& s) { return s.first == "launcher"; });
    if (!names_one) more.emplace_back("launcher", "env");
    return unnamed(more);
}

SubmitFacts batch_job(std::string_view script = "#!/bin/sh\ntrue\n") {
    SubmitFacts f;
    f.script = script;
    return f;
}

void refused(const Request& r, const SubmitFacts& f, const std::string& word) {
    const auto result = accept_request(r, f, cluster(), site());
    ck_assert_msg(!result.ok(), "accepted, and '%s' was expected", word.c_str());
    ck_assert_msg(result.error().message().find(word) != std::string::npos,
                  "'%s' does not name '%s'", result.error().message().c_str(), word.c_str());
}

Acceptance accepted(const Request& r, const SubmitFacts& f) {
    return must(accept_request(r, f, cluster(), site()));
}

void same(const std::string& got, const std::string& wanted) {
    ck_assert_msg(got == wanted, "got:    %s\nwanted: %s", got.c_str(), wanted.c_str());
}

void unreadable(const SubmitFacts& f, const std::string& word) {
    const auto result = read_request(f);
    ck_assert_msg(!result.ok(), "accepted, and '%s' was expected", word.c_str());
    ck_assert_msg(result.error().message().find(word) != std::string::npos,
                  "'%s' does not name '%s'", result.error().message().c_str(), word.c_str());
}

}  // namespace

// ---- GPUs of nodes ---------------------------------------------------------------------------

TEST(gres_texts_of_every_form_are_read) {
    const auto one = [](std::string_view text) { return parse_gres_config(text); };
    ck_assert(one("gpu:a40:4") == std::vector<NodeGpus>({{"a40", 4}}));
    ck_assert(one("gpu:a40:4(S:0,1),nic:1") == std::vector<NodeGpus>({{"a40", 4}}));
    ck_assert(one("nic:1,gpu:a40:2,gpu:h100:1") ==
              std::vector<NodeGpus>({{"a40", 2}, {"h100", 1}}));
    ck_assert(one("gpu:3") == std::vector<NodeGpus>({{"", 3}}));
    ck_assert(one("gpu") == std::vector<NodeGpus>({{"", 1}}));
    ck_assert(one("gpu:a40") == std::vector<NodeGpus>({{"a40", 1}}));
    for (const char* none : {"", "gpu:0", "gpu:a40:0", "gpu:a40:-1", "gpu:a40:9999999", "gpus:2",
                             "gpu:a:b:1", "(", ","})
        ck_assert_msg(one(none).empty(), "%s", none);
}

TEST(a_job_has_one_type_and_the_same_count_on_every_node) {
    TypePool pool("a40");
    for (const std::int64_t gpus : {4, 4, 2}) pool.add_node(gpus);
    ck_assert_int_eq(pool.largest(), 8);
    for (const std::int64_t n : {1, 2, 3, 4, 6, 8}) ck_assert_msg(pool.can_place(n), "%ld", n);
    for (const std::int64_t n : {5, 7, 9, 10, 12}) ck_assert_msg(!pool.can_place(n), "%ld", n);
    ck_assert(pool.can_place_any(5, 6, 1));
    ck_assert(!pool.can_place_any(5, 5, 1));
    ck_assert(pool.can_place_any(5, 65536, 8));
    ck_assert(!pool.can_place_any(5, 65536, 5));
    ck_assert_int_eq(TypePool("none").largest(), 0);
    ck_assert_int_eq(pool.total(), 10);
    for (const auto& [gpus, nodes] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {3, 1}, {5, 2}, {8, 2}, {9, 3}, {10, 3}})
        ck_assert_int_eq(pool.fewest_in_pieces(gpus, 4), nodes);
    ck_assert_int_eq(pool.fewest_in_pieces(11, 4), 0);
    ck_assert_int_eq(pool.fewest_in_pieces(5, 2), 3);  // at most two of each node
    ck_assert_int_eq(pool.fewest_in_pieces(5, 1), 0);
    ck_assert_int_eq(TypePool("none").fewest_in_pieces(1, 8), 0);
}

// ---- submit ------------------------------------------------------------------------------------

TEST(ordinary_jobs_have_no_request) {
    const auto plain = read_request(batch_job());
    ck_assert(plain.ok() && !plain->has_value());
    const auto without_script = read_request({});
    ck_assert(without_script.ok() && !without_script->has_value());
    SubmitFacts array = batch_job();
    array.array = array.het = true;
    ck_assert(read_request(array).ok());
}

TEST(an_allocation_is_taken_but_for_what_needs_restarts) {
    SubmitFacts shell;
    shell.interactive = true;
    shell.records = {*format_record(request())};
    const auto read = read_request(shell);
    ck_assert(read.ok() && read->has_value());
    ck_assert(!accepted(request(), shell).request.slowdown);
    refused(request({{"elastic", "yes"}}), shell, "(#ARENA elastic): is for batch jobs");
    refused(request({{"slowdown", "mitigate"}}), shell,
            "(#ARENA slowdown): mitigate is for batch jobs");
    accepted(request({{"slowdown", "watch"}}), shell);
    SiteFacts mitigates = site();
    mitigates.config.slowdown_default = "mitigate";
    const auto watched = accept_request(request(), shell, cluster(), mitigates);
    ck_assert(watched.ok() && watched->request.slowdown == SlowdownMode::watch);
    shell.immediate = true;
    refused(request(), shell, "--immediate");
}

TEST(channels_do_not_mix) {
    SubmitFacts f = batch_job("#!/bin/sh\n#ARENA model=gpt2 batch=64\n");
    f.records = {*format_record(request())};
    unreadable(f, "use one of the two");
    f = batch_job();
    f.records = {*format_record(request()), *format_record(request())};
    unreadable(f, "more than one");
}

TEST(jobs_of_other_kinds_are_refused) {
    SubmitFacts f = batch_job("#!/bin/sh\n#ARENA model=gpt2 batch=64\n");
    f.het = true;
    unreadable(f, "heterogeneous");
    f.het = false, f.cron = true;
    unreadable(f, "scrontab");
    f.cron = false, f.offered_from = "north";
    unreadable(f, "submit it with --clusters=north");
}

TEST(an_array_is_taken_in_where_it_is_asked_for_and_arrays_are_on) {
    SubmitFacts f = batch_job();
    f.array = true;
    const Request one = request(), array = request({{"array", "yes"}});
    refused(one, f, "array.enabled is false");
    refused(array, f, "array.enabled is false");
    refused(array, batch_job(), "--arena-array");
    SiteFacts on = site();
    on.config.array_enabled = true;
    const auto without = accept_request(one, f, cluster(), on);
    ck_assert(!without.ok() &&
              without.error().message().find("--arena-array") != std::string::npos);
    const Acceptance taken = must(accept_request(array, f, cluster(), on));
    ck_assert(must(parse_record(taken.record)).array);
}

TEST(forged_records_and_paths_in_directives_are_refused) {
    SubmitFacts f = batch_job();
    f.records = {"rubbish"};
    unreadable(f, "record");
    Request odd = request();
    odd.model.heads = 7;
    f.records = {*format_record(odd)};
    unreadable(f, "heads");
    odd.model.hidden = 0;
    f.records = {*format_record(odd)};
    unreadable(f, "record");
    unreadable(batch_job("#!/bin/sh\n#ARENA model=config.json batch=8\n"), "--arena-model=FILE");
}

TEST(an_accepted_job_carries_what_the_user_limited) {
    SubmitFacts f = batch_job();
    f.held = true;
    f.cpus_per_tres = "gres:gpu:6";
    f.mem_per_tres = "gres:gpu:8192";
    f.cpus_per_task = 3;
    Acceptance a = accepted(request(), f);
    ck_assert(a.request.user_hold);
    ck_assert_int_eq(a.request.cpus_per_gpu, 6);
    ck_assert_int_eq(a.request.mem_per_gpu_mb, 8192);
    ck_assert(*parse_record(a.record) == a.request);
    ck_assert_str_eq(a.admin_comment.c_str(), "arena:v1 state=submitted model=gpt2");
    ck_assert(a.note.find("ignored") == std::string::npos);
    f.cpus_per_tres.clear();
    f.shape_given = true;
    a = accepted(request(), f);
    ck_assert_int_eq(a.request.cpus_per_gpu, 3);
    ck_assert(a.note.find("nodes and tasks") != std::string::npos);
}

TEST(a_forged_hold_in_the_record_counts_for_nothing) {
    Request r = request();
    r.user_hold = true;
    r.mem_per_cpu_mb = 99;
    const Acceptance a = accepted(r, batch_job());
    ck_assert(!a.request.user_hold);
    ck_assert_int_eq(a.request.mem_per_cpu_mb, 0);
}

TEST(cpus_and_memory_of_a_gpu_are_asked_for_by_arena_or_by_sbatch) {
    const Request r = request({{"cpus-per-gpu", "2"}, {"mem-per-gpu", "4G"}});
    const Acceptance a = accepted(r, batch_job());
    ck_assert_int_eq(a.request.cpus_per_gpu, 2);
    ck_assert_int_eq(a.request.mem_per_gpu_mb, 4096);
    ck_assert(*parse_record(a.record) == a.request);
    SubmitFacts f = batch_job();
    f.cpus_per_task = 2;
    refused(r, f, "--arena-cpus-per-gpu (#ARENA cpus-per-gpu): cannot be combined with --cpus");
    f = batch_job();
    f.cpus_per_tres = "gres/gpu:2";
    refused(r, f, "--arena-cpus-per-gpu");
    f = batch_job();
    f.memory_per_node_mb = 100;
    refused(r, f, "--arena-mem-per-gpu (#ARENA mem-per-gpu): cannot be combined with --mem");
    f = batch_job();
    f.whole_memory = true;
    refused(r, f, "--arena-mem-per-gpu");
    ck_assert_int_eq(accepted(request({{"cpus-per-gpu", "2"}}), f).request.cpus_per_gpu, 2);
}

TEST(records_of_before_the_options_keep_their_numbers) {
    std::string record = *format_record(request());
    record.insert(1, "\"cpus_per_gpu\":7,\"mem_per_gpu_mb\":512,");
    const Request r = *parse_record(record);
    ck_assert_int_eq(r.cpus_per_gpu, 7);
    ck_assert_int_eq(r.mem_per_gpu_mb, 512);
}

TEST(requests_that_the_cluster_cannot_serve_are_refused) {
    const SubmitFacts f = batch_job();
    refused(request({{"types", "a100"}}), f,
            "this cluster has no GPU type 'a100'; it has a40, h100, l4, v100");
    refused(request({{"types", "l4"}}), f, "arena.yaml");
    refused(request({{"types", "v100"}}), f, "partition main has no node");
    refused(request({{"gpus", "9-64"}}), f, "8 a40, 4 h100");
    refused(request({{"types", "h100"}, {"gpus", "5-64"}}), f, "4 h100");
    refused(request({{"gpus", "7"}, {"batch", "840"}, {"launcher", "lightning"}}), f,
            "--arena-gpus");
    // Four of one node and three of another, where the launcher starts ranks so.
    (void)accepted(request({{"gpus", "7"}, {"batch", "840"}}), f);
    (void)accepted(request({{"gpus", "7"}, {"batch", "840"}, {"plan", "dp7"}}), f);
    refused(request({{"gpus", "7"}, {"batch", "840"}, {"plan", "pp7"}}), f, "7 GPUs of one type");
    refused(request({{"gpus", "9"}}), f, "at least 9 GPUs of one type are asked for");
    refused(request({{"plan", "pp12,dp1,tp1"}}), f, "--arena-plan");
    refused(request({{"plan", "dp16"}}), f, "a multiple of 16");
    accepted(request({{"gpus", "2-64"}}), f);
    accepted(request({{"plan", "pp2,dp2,tp1"}}), f);
}

TEST(what_no_node_has_is_refused_by_the_name_of_its_option) {
    SubmitFacts f = batch_job();
    f.cpus_per_tres = "gres:gpu:100";
    refused(request(), f,
            "--arena-cpus-per-gpu (or --cpus-per-task): asks for 100 CPUs for each GPU");
    refused(request(), f, "the most that a node has is 16 CPUs beside 4 a40");
    f.cpus_per_tres = "gres:gpu:16";  // one GPU of each node
    accepted(request(), f);
    refused(request({{"plan", "pp1,dp1,tp2"}}), f, "--arena-cpus-per-gpu");
    f = batch_job();
    f.tmp_mb = 102400;
    refused(request(), f, "--tmp: asks for 102400 MB of temporary disk on each node");
    f.tmp_mb = 1000;
    accepted(request(), f);
    f = batch_job();
    f.memory_per_node_mb = 64001;
    refused(request(), f, "--mem: asks for 64001 MB");
    f.memory_per_node_mb = 64000;
    ck_assert_int_eq(accepted(request(), f).request.mem_per_node_mb, 64000);
    f = batch_job();
    f.memory_per_cpu_mb = 16000;
    ck_assert_int_eq(accepted(request(), f).request.mem_per_cpu_mb, 16000);
    f.cpus_per_task = 5;  // 80,000 MB for each GPU
    refused(request(), f,
            "--mem-per-cpu: asks for 16000 MB of memory for each of the 5 CPUs of a GPU");
    f = batch_job();
    f.mem_per_tres = "gres:gpu:70000";
    refused(request(), f, "--arena-mem-per-gpu");
    f = batch_job();
    f.whole_memory = true;
    ck_assert(accepted(request(), f).request.whole_memory);
}

TEST(needs_that_no_node_has_together_name_all_options) {
    SubmitFacts f = batch_job();
    f.cpus_per_tres = "gres:gpu:8";
    f.tmp_mb = 2000;
    ClusterFacts two = cluster();
    two.partition[0].cpus = 4;
    two.partition[1].cpus = 4;
    two.partition[0].tmp_mb = 2000;
    const auto r = accept_request(request(), f, two, site());
    ck_assert(!r.ok());
    ck_assert_str_eq(r.error().where.c_str(), "--arena-cpus-per-gpu (or --cpus-per-task), --tmp");
    ck_assert(r.error().text.find("not all together") != std::string::npos);
}

TEST(types_that_lack_the_precision_are_refused) {
    refused(request({{"types", "a40"}, {"precision", "fp8"}}), batch_job(),
            "--arena-precision (#ARENA precision): no GPU type that this job may have in partition "
            "main "
            "computes in fp8: a40 (");
    accepted(request({{"precision", "fp8"}}), batch_job());  // h100 does
}

TEST(tensor_parallel_groups_fill_nodes) {
    refused(request({{"plan", "pp1,dp1,tp6"}}), batch_job(),
            "tp6 takes a multiple of 6 GPUs of each node; nodes of partition main have at most 4 "
            "a40, 4 h100");
}

TEST(a_comment_is_checked_as_a_submission) {
    SubmitFacts f = batch_job();
    f.records = {*format_record(request({{"gpus", "1-8"}}))};
    f.comment = "arena:types=h100;plan=pp2,dp1,tp1";
    const auto read = read_request(f);
    ck_assert(read.ok() && (*read)->pin.pp == 2 && (*read)->max_gpus == 2);
    f.comment = "arena:plan=ep2";
    unreadable(f, "Comment=arena:plan: ep2 shares out experts, and gpt2 has none: give ep1");
    const std::string record = accepted(request(), batch_job()).record;
    const auto change = [&](const std::string& comment) {
        return change_record(record, comment, 0, cluster(), site());
    };
    ck_assert(!change("for the paper")->has_value());
    ck_assert(!change("arena:off")->has_value());
    const auto pinned = change("arena:plan=pp2,dp2,tp1");
    ck_assert(pinned.ok() && parse_record(**pinned)->max_gpus == 4);
    // What was asked for before stays when the next Comment says nothing of it.
    const auto typed = change_record(**pinned, "arena:types=a40", 0, cluster(), site());
    ck_assert(typed.ok() && parse_record(**typed)->pin.pp == 2);
    for (const auto& [comment, sentence] : std::vector<std::pair<std::string, std::string>>{
             {"arena:plan=tp5", "Comment=arena:plan: tp5 does not divide the 12 heads of gpt2"},
             {"arena:plan=cp3",
              "Comment=arena:plan: cp3 does not split the 1024 tokens of gpt2 into 6 equal pieces"},
             {"arena:gpus=9-64",
              "Comment=arena:gpus: at least 9 GPUs of one type are asked for; a job in "
              "partition main can have at most 8 a40, 4 h100"},
             {"arena:types=a100",
              "Comment=arena:types: this cluster has no GPU type 'a100'; it has a40, h100, "
              "l4, v100"}}) {
        const auto changed = change(comment);
        ck_assert_msg(!changed.ok(), "taken: %s", comment.c_str());
        same(changed.error().message(), sentence);
    }
    ck_assert(change("arena:gpus=5")->has_value());
    const auto equal = change_record(
        accepted(request({{"batch", "840"}, {"launcher", "lightning"}}), batch_job()).record,
        "arena:gpus=5", 0, cluster(), site());
    same(equal.error().message(),
         "Comment=arena:gpus: a job has the same number of GPUs on each of its nodes: in "
         "partition main it can have 4 or 6 a40, not 5");
}

TEST(estimates_survive_their_text_form_and_nothing_else_does) {
    QuickEstimate e;
    e.shapes = {{{"a40", 1, 4, 1}, "pp1,dp4,tp1,mb2x2", 0.512, Source::analytic},
                {{"h100", 2, 8, 1}, "pp2,dp2,tp4,mb1x8,full,zero1,sp", 3.1, Source::profiled}};
    same(format_estimate(e),
         "v2 complete a40:1:4:0.512:analytic:pp1,dp4,tp1,mb2x2 "
         "h100:2:8:3.1:profiled:pp2,dp2,tp4,mb1x8,full,zero1,sp");
    ck_assert(parse_estimate(format_estimate(e)) == e);
    e.complete = false;
    ck_assert(parse_estimate(format_estimate(e)) == e);
    QuickEstimate none;
    none.would_fit = {"full", "fsdp", "megatron"};
    same(format_estimate(none), "v2 complete fit:full fit:fsdp fit:megatron");
    ck_assert(parse_estimate(format_estimate(none)) == none);
    for (const char* bad :
         {"", "v2", "v1 complete", "v2 maybe", "v2 complete a40", "v2 complete a40:1:4:1:analytic",
          "v2 complete a40:1:4:-1:analytic:pp1,dp4,tp1,mb2x2",
          "v2 complete a40:1:4:nan:analytic:pp1,dp4,tp1,mb2x2",
          "v2 complete a40:0:4:1:analytic:pp1,dp4,tp1,mb2x2",
          "v2 complete a 40:1:4:1:analytic:pp1,dp4,tp1,mb2x2",
          "v2 complete a40:1:4:1:guess:pp1,dp4,tp1,mb2x2", "v2 complete a40:1:4:1:analytic:pp1,dp4",
          "v2 complete a40:1:4:1:analytic:\x1b[31m", "v2 complete fit:a;b",
          "v2 complete fit:", "v2 complete  "})
        ck_assert_msg(!parse_estimate(bad), "accepted: %s", bad);
    ck_assert(!parse_estimate(std::string(10000, 'v')));
}

Plan replicas(std::int64_t dp, std::int64_t micro_batch, std::int64_t number) {
    Plan plan;
    plan.stage_layers = {12}, plan.stage_dp = {dp}, plan.stage_tp = {1};
    plan.micro_batch = micro_batch, plan.num_micro_batches = number;
    return plan;
}

TEST(a_request_that_no_plan_fits_is_refused_with_the_reason) {
    QuickEstimate none;
    none.none = "memory: the smallest plan needs 151.1 GiB per GPU (1xh100)";
    ck_assert(parse_estimate(format_estimate(none)) == none);
    SubmitFacts f = batch_job();
    f.estimate = format_estimate(none);
    refused(request(), f,
            "no plan fits on any node of this cluster: memory: the smallest plan needs 151.1 GiB");
    refused(request(), f, "--arena-gpus");
    none.would_fit = {"fsdp", "megatron"};
    ck_assert(parse_estimate(format_estimate(none)) == none);
    f.estimate = format_estimate(none);
    refused(request(), f, "fsdp, megatron would fit; ask for more GPUs");
    none.complete = false;  // not all was looked at
    f.estimate = format_estimate(none);
    (void)accepted(request(), f);
    none.complete = true;
    none.shapes = {{{"a40", 1, 4, 1}, "pp1,dp4,tp1,mb2x2", 1, Source::analytic}};
    ck_assert(format_estimate(none).find("none") == std::string::npos);
    f.estimate = format_estimate(none);
    (void)accepted(request(), f);
    ck_assert_uint_le(parse_estimate("v2 complete none " + std::string(5000, 'x'))->none.size(),
                      QuickEstimate::max_why + 3);
}

/// Two nodes of 4 a40 and one of 4 h100.
TEST(what_slurm_refuses_at_once_is_refused) {
    const auto with = [](std::vector<HardLimit> limits) {
        SubmitFacts f = batch_job();
        f.limits = std::move(limits);
        return f;
    };
    const HardLimit four{HardLimit::Of::gpus, 4,
                         "QOS small (MaxTRESPerJob gres/gpu=4, DenyOnLimit)"};
    refused(request({{"gpus", "8"}}), with({four}),
            "at least 8 GPUs are asked for; QOS small (MaxTRESPerJob gres/gpu=4, DenyOnLimit) "
            "allows a job 4");
    (void)accepted(request({{"gpus", "4-8"}}), with({four}));
    (void)accepted(request(), with({four}));
    refused(request({{"gpus", "4"}}), with({four, {HardLimit::Of::gpus, 2, "QOS tiny"}}),
            "QOS tiny");
    const HardLimit one_node{HardLimit::Of::nodes, 1,
                             "partition main (MaxNodes, EnforcePartLimits=ALL)"};
    refused(request({{"gpus", "8"}}), with({one_node}),
            "8 GPUs take at least 2 nodes here; partition main (MaxNodes, EnforcePartLimits=ALL) "
            "allows a job 1");
    (void)accepted(request({{"gpus", "4-8"}}), with({one_node}));
    refused(request({{"gpus", "5-8"}}), with({one_node}), "5 GPUs take at least 2 nodes");
    refused(request({{"gpus", "7"}, {"batch", "840"}}), with({one_node}),
            "7 GPUs take at least 2 nodes");
    refused(request({{"gpus", "7"}, {"batch", "840"}}),
            with({{HardLimit::Of::gpus_per_node, 3, "QOS tiny"}}), "QOS tiny");
    refused(request({{"gpus", "2"}, {"plan", "tp2"}}),
            with({{HardLimit::Of::gpus_per_node, 1, "QOS thin"}}), "QOS thin allows");
    (void)accepted(request({{"gpus", "2"}}), with({{HardLimit::Of::gpus_per_node, 1, "QOS thin"}}));
    refused(request({{"gpus", "2"}, {"types", "h100"}}),
            with({{HardLimit::Of::gpus_per_node, 1, "QOS thin"}}), "QOS thin allows");
}

TEST(a_long_list_of_offers_keeps_powers_of_two) {
    std::vector<Offer> offers(200);
    for (std::size_t i = 0; i < offers.size(); ++i) {
        offers[i].grid = {"a40", 1, static_cast<std::int64_t>(i) + 1, 3};
        offers[i].plan = replicas(static_cast<std::int64_t>(i) + 1, 1, 1);
        offers[i].estimate.iteration_s = 1;
    }
    const QuickEstimate e = quick_estimate(offers, true);
    ck_assert_int_eq(static_cast<int>(e.shapes.size()), 8);  // 1, 2, 4 ... 128
    ck_assert(parse_estimate(format_estimate(e)) == e);
}

TEST(whatever_an_estimate_loses_the_slowest_shape_of_each_type_stays) {
    std::vector<QuickEstimate::Shape> shapes;
    const std::string plan = "pp1,dp4,tp1,mb2x2";
    for (const char* type : {"fast", "slow"})
        for (std::int64_t n = 1; n <= 100; ++n)
            shapes.push_back({{type, 1, n, 1}, plan, (*type == 'f' ? 1.0 : 300.0) + double(n), {}});
    shapes[50].iteration_s = 200;  // 51 GPUs of the fast type
    const auto has = [](const auto& list, const char* type, std::int64_t gpus) {
        return std::any_of(list.begin(), list.end(), [&](const QuickEstimate::Shape& shape) {
            return shape.grid.gpu_type == type && shape.grid.gpus() == gpus;
        });
    };
    keep_most_shapes(shapes);
    ck_assert_uint_eq(shapes.size(), 16);  // 1 to 64 of each, and these two
    ck_assert(has(shapes, "fast", 51) && has(shapes, "slow", 100) && !has(shapes, "slow", 99));
    QuickEstimate e;
    for (std::int64_t n = 1; n <= 96; ++n)
        e.shapes.push_back({{n == 96 ? "slow" : std::string(60, 'x'), 1, n, 1},
                            "pp16,dp4096,tp64,mb65536x1048576,vpp12,cp16,ep64,selective,zero1,sp",
                            n == 95 ? 900.0 : double(n),
                            {}});
    const auto read = parse_estimate(format_estimate(e));
    ck_assert(read && read->shapes.size() < e.shapes.size());
    ck_assert(has(read->shapes, "slow", 96) && has(read->shapes, std::string(60, 'x').c_str(), 95));
    ck_assert(has(read->shapes, std::string(60, 'x').c_str(), 1));
}

TEST(a_long_estimate_loses_its_last_shapes_and_stays_readable) {
    QuickEstimate e;
    const std::string type(60, 'x');
    for (std::size_t i = 0; i < QuickEstimate::max_shapes; ++i)
        e.shapes.push_back({{type, 1, 4, 1},
                            "pp16,dp4096,tp64,mb65536x1048576,vpp12,cp16,ep64,selective,zero1,sp",
                            0.5,
                            Source::analytic});
    const auto read = parse_estimate(format_estimate(e));
    ck_assert(read && read->shapes.size() > 30 && read->shapes.size() < e.shapes.size());
}

TEST(one_line_says_how_a_request_was_understood_and_how_it_would_run) {
    QuickEstimate e;
    const std::string of_two = "pp1,dp2,tp1,mb8x4", of_four = "pp1,dp4,tp1,mb2x8";
    e.shapes = {{{"a40", 4, 4, 1}, "pp1,dp16,tp1,mb1x4", 0.25, Source::analytic},  // too large
                {{"h100", 1, 4, 1}, of_four, 0.5, Source::profiled},
                {{"a40", 1, 2, 1}, of_two, 2, Source::analytic}};
    const auto line = [&](const Request& r, std::int64_t limit_s) {
        return submit_line(r, e, 0, cluster(), site(), limit_s);
    };
    const std::string model =
        "arena: gpt2 124 M, 1,024 tokens, " + std::string(to_string(unnamed().model.precision));
    const std::string script =
        ": DDP script; for tensor or pipeline parallel plans name a launcher (--arena-launcher)";
    const std::string two = "\narena: plan dp2, micro-batch 8 x 4" + script,
                      four = "\narena: plan dp4, micro-batch 2 x 8" + script;
    same(line(unnamed(), 0), (model + "; best 4xh100 500 ms (profiled)" + four));
    same(line(unnamed({{"types", "a40"}}), 3600),
         (model + "; best 2xa40 2 s (analytic), 1,800 iterations in 60.0 min" + two));
    same(line(unnamed({{"gpus", "1-2"}, {"steps", "100"}}), 600),
         (model + "; best 2xa40 2 s (analytic), 100 iterations 3.3 min" + two));
    same(line(unnamed({{"gpus", "1-2"}, {"steps", "100000"}}), 1800),
         (model + "; best 2xa40 2 s (analytic)" + two +
          "\narena: warning: 100,000 iterations take 2.3 d at best, the time limit is 30.0 min"));
    e.shapes = {{{"a40", 1, 4, 1}, of_four, 7200, Source::analytic}};
    same(line(unnamed(), 1800),
         (model + "; best 4xa40 2.0 h (analytic)" + four +
          "\narena: warning: not even one iteration fits in the time limit of "
          "30.0 min"));
    e.complete = false;
    same(line(unnamed(), 0), (model + "; best found 4xa40 2.0 h (analytic)" + four));
    e.shapes.clear();
    same(line(unnamed(), 1800), model);
    same(submit_line(unnamed(), std::nullopt, 0, cluster(), site(), 0), model);
}

TEST(a_type_of_which_no_run_was_measured_is_offered_by_its_data_sheet_only) {
    QuickEstimate e;
    e.shapes = {{{"h100", 1, 4, 1}, "pp1,dp4,tp1,mb2x8", 0.5, Source::data_sheet}};
    const auto read = parse_estimate(format_estimate(e));
    ck_assert(read && *read == e);
    const std::string text = submit_line(request(), e, 0, cluster(), site(), 0);
    for (const char* words :
         {"500 ms (data-sheet)",
          "\narena: h100: by its data sheet only, as no run on such a GPU was measured: times may "
          "be off by 80 %"})
        ck_assert_msg(text.find(words) != std::string::npos, "%s", text.c_str());
}

TEST(one_line_says_that_adapters_are_trained) {
    const auto line = [&](const Request& r) {
        return submit_line(r, std::nullopt, 0, cluster(), site(), 0);
    };
    const std::string precision(to_string(unnamed().model.precision));
    same(line(unnamed({{"lora", "16"}})),
         "arena: gpt2 124 M, LoRA of rank 16 on attention, 1,024 tokens, " + precision);
    Request narrow = unnamed({{"lora", "8"}});
    narrow.model.lora_mlp = 1;
    narrow.model.base_bits = 4;
    same(line(narrow),
         "arena: gpt2 124 M, LoRA of rank 8 on attention and MLPs, weights of 4 bits, "
         "1,024 tokens, " +
             precision);
}

/// 2 s an iteration on the slowest GPUs that it may have, and 70 s to start.
TEST(the_steps_that_a_job_says_become_its_time_limit) {
    QuickEstimate e;
    e.shapes = {{{"h100", 1, 4, 1}, "pp1,dp4,tp1,mb2x8", 0.5, Source::analytic},
                {{"a40", 1, 2, 1}, "pp1,dp2,tp1,mb8x4", 2, Source::analytic},
                {{"l4", 1, 1, 1}, "pp1,dp1,tp1,mb8x8", 50, Source::analytic}};  // not in main
    SubmitFacts f = batch_job();
    SiteFacts s = site();
    const auto taken = [&](std::vector<Setting> more) {
        f.estimate = format_estimate(e);
        return must(accept_request(request(std::move(more)), f, cluster(), s));
    };
    const auto says = [](const Acceptance& a, const std::string& words) {
        ck_assert_msg(a.note.find(words) != std::string::npos, "%s", a.note.c_str());
    };
    const std::vector<Setting> steps = {{"steps", "1000"}};
    const Acceptance shortened = taken(steps);  // 2 * 2 * 1000 + 70 s
    ck_assert_int_eq(shortened.limit_minutes, 68);
    ck_assert(must(parse_record(shortened.record)).iteration_s == 2);
    says(shortened, "arena: the time limit is 68 minutes, twice the time of 1,000 iterations on");
    says(taken({{"steps", "1"}}), "the time limit is 2 minutes");
    ck_assert_int_eq(taken({{"steps", "1000"}, {"types", "h100"}}).limit_minutes, 18);
    ck_assert_int_eq(taken({}).limit_minutes, 0);
    ck_assert_int_eq(taken({{"steps", "1099511627776"}}).limit_minutes, most_limit_minutes);
    // What the partition gives is shorter, or as long.
    f.limit_s = 68 * 60;
    ck_assert_int_eq(taken(steps).limit_minutes, 0);
    f.limit_s = 69 * 60;
    ck_assert_int_eq(taken(steps).limit_minutes, 68);
    // --time is kept.
    f.limit_given = true;
    const Acceptance longer = taken(steps);
    ck_assert_int_eq(longer.limit_minutes, 0);
    says(longer,
         "arena: --time of 69.0 min is longer than the 68 minutes for 1,000 iterations: the job's "
         "place goes by its limit; --time=68 or less to be placed by its steps");
    for (const std::int64_t minutes : {68, 5}) {
        f.limit_s = 60 * minutes;
        ck_assert(taken(steps).note.find("place") == std::string::npos);
    }
    f.limit_s = 0;
    says(taken(steps), "arena: no time limit is longer than the 68 minutes for 1,000 iterations");
    // Under the other order nobody's limit is Arena's business.
    f.limit_given = false;
    for (const auto& [policy, order] : {std::pair("arena", "value"), {"fifo", "priority"}}) {
        s.config.policy = policy;
        s.config.order = order;
        const Acceptance other = taken(steps);
        ck_assert_int_eq(other.limit_minutes, 0);
        ck_assert(other.note.find("limit") == std::string::npos);
        ck_assert(must(parse_record(other.record)).iteration_s == 0);
    }
}

/// A limit by the fast type alone would end an honest job on the slow one.
TEST(a_limit_is_shortened_only_by_what_is_known_of_the_slowest_plan) {
    QuickEstimate e;
    const auto taken = [&] {
        SubmitFacts f = batch_job();
        f.limit_s = 86400;
        f.estimate = e.shapes.empty() ? std::string() : format_estimate(e);
        Request r = request({{"steps", "1000"}});
        r.iteration_s = 1e-9;  // forged
        return must(accept_request(std::move(r), f, cluster(), site()));
    };
    const auto unknown = [&] {
        const Acceptance a = taken();
        ck_assert_int_eq(a.limit_minutes, 0);
        ck_assert(must(parse_record(a.record)).iteration_s == 0);
        ck_assert_msg(
            a.note.find("the time of 1,000 iterations is not known yet") != std::string::npos, "%s",
            a.note.c_str());
    };
    unknown();
    e.complete = false;
    e.shapes = {{{"h100", 1, 4, 1}, "pp1,dp4,tp1,mb2x8", 0.5, Source::analytic}};
    unknown();  // a40 was not reached
    e.complete = true;
    ck_assert_int_eq(taken().limit_minutes, 18);  // no plan fits there
    e.complete = false;
    e.shapes.push_back({{"a40", 1, 2, 1}, "pp1,dp2,tp1,mb8x4", 2, Source::analytic});
    ck_assert_int_eq(taken().limit_minutes, 68);
}

TEST(steps_count_as_far_as_the_limit_that_they_would_get) {
    for (const std::int64_t steps : {1L, 7L, 1000L, 1L << 40})
        for (const double iteration_s : {1e-6, 0.3, 7.0, 4000.0}) {
            const auto most_s = 60.0 * double(minutes_for_steps(steps, iteration_s, 70));
            ck_assert(steps_are_enforced(steps, iteration_s, 70, most_s));
            ck_assert(steps_are_enforced(steps, iteration_s, 70, 60));
            ck_assert(!steps_are_enforced(steps, iteration_s, 70, most_s + 60));
            ck_assert(!steps_are_enforced(steps, iteration_s, 70, 0));
        }
    ck_assert(!steps_are_enforced(0, 1, 70, 60));
}

TEST(the_answer_says_what_the_plan_asks_of_the_script) {
    QuickEstimate e;
    const auto plan_of = [&](const char* launcher, const char* plan) {
        e.shapes = {{{"a40", 1, 4, 1}, plan, 0.5, Source::analytic}};
        const std::string text =
            submit_line(unnamed({{"launcher", launcher}}), e, 0, cluster(), site(), 0);
        return text.substr(text.find('\n') + 1);
    };
    same(plan_of("env", "pp2,dp2,tp1,mb1x32"),
         "arena: plan pp2,dp2,tp1,mb1x32: the script reads all of it from ARENA_* (a DDP script: "
         "--arena-launcher=ddp)");
    same(plan_of("env", "pp1,dp4,tp1,mb2x8,zero1").substr(0, 36),
         "arena: plan pp1,dp4,tp1,mb2x8,zero1:");
    same(
        plan_of("torchrun", "pp1,dp1,tp4,mb2x32,sp"),
        "arena: plan pp1,dp1,tp4,mb2x32,sp: the script reads all of it from ARENA_* (a DDP script: "
        "--arena-plan=pp1,tp1,zero0,none)");
    same(plan_of("megatron", "pp2,dp2,tp1,mb1x32"), "arena: plan pp2,dp2,tp1,mb1x32");
}

TEST(who_pinned_a_ddp_script_s_plan_is_not_advised_to_do_so) {
    QuickEstimate e;
    e.shapes = {{{"a40", 1, 4, 1}, "pp1,dp4,tp1,mb2x8", 0.5, Source::analytic}};
    for (const char* launcher : {"ddp", "env", "torchrun"}) {
        const Request pinned = unnamed({{"launcher", launcher}, {"plan", "pp1,tp1,zero0,none"}});
        const std::string text = submit_line(pinned, e, 0, cluster(), site(), 0);
        same(text.substr(text.find('\n') + 1), "arena: plan dp4, micro-batch 2 x 8: DDP script");
    }
}

TEST(the_answer_names_what_would_fit_where_nothing_does) {
    QuickEstimate e;
    const auto line = [&] {
        const std::string text = submit_line(unnamed(), e, 0, cluster(), site(), 0);
        return text.substr(text.find(';'));
    };
    same(line(), "; no plan is known to fit: arena explain says why once it waits");
    e.would_fit = {"fsdp", "deepspeed"};
    same(line(),
         "; no plan is known to fit the launcher ddp; the launchers fsdp, deepspeed would fit: "
         "arena explain says why once it waits");
    e.would_fit = {"full", "megatron"};
    same(line(),
         "; no plan is known to fit the launcher ddp; full recompute (--arena-plan=full) or the "
         "launcher megatron would fit: arena explain says why once it waits");
}

TEST(a_script_that_starts_another_launcher_is_told_its_name) {
    const SubmitFacts f = batch_job("#!/bin/bash\n# deepspeed\nsrun torchrun train.py\n");
    const std::string hint =
        "arena: line 3 of the script starts torchrun: --arena-launcher=torchrun? What is planned "
        "now is "
        "for the launcher ddp";
    const auto has = [&](const Request& r) {
        return accepted(r, f).note.find(hint) != std::string::npos;
    };
    ck_assert_msg(has(unnamed()), "%s", accepted(unnamed(), f).note.c_str());
    for (const char* launcher : {"ddp", "env", "torchrun", "megatron"})
        ck_assert_msg(!has(unnamed({{"launcher", launcher}})), "%s", launcher);
    ck_assert(accepted(unnamed(), batch_job()).note.find("starts") == std::string::npos);
}

TEST(options_that_contradict_arena_are_refused) {
    SubmitFacts f = batch_job();
    f.gpu_option = "--gpus";
    refused(request(), f, "--gpus cannot be combined");
    f = batch_job();
    f.node_list = true;
    refused(request(), f, "--nodelist");
    f = batch_job();
    f.no_requeue = true;
    refused(request({{"elastic", "yes"}}), f, "--no-requeue");
    accepted(request(), f);
}

TEST(an_elastic_job_is_told_by_a_signal_that_it_can_handle) {
    SubmitFacts f = batch_job();
    for (const int number : {0, SIGUSR1, SIGUSR2, SIGTERM}) {
        f.signal = number;
        accepted(request({{"elastic", "yes"}}), f);
    }
    const std::pair<int, const char*> useless[] = {
        {SIGKILL, "KILL cannot"}, {SIGSTOP, "STOP cannot"}, {40, "40 cannot"}};
    for (const auto& [number, name] : useless) {
        f.signal = number;
        refused(request({{"elastic", "yes"}}), f, name);
        refused(request({{"elastic", "yes"}}), f, "accepted: USR1, USR2, TERM, INT, HUP");
        accepted(request(), f);
    }
}

TEST(lent_nodes_are_for_jobs_that_can_leave_them) {
    accepted(request({{"loan", "yes"}, {"elastic", "yes"}}), batch_job());
    Request willing;
    willing.loan = true;
    Config config;
    ck_assert(!partitions_with_lent(willing, "a", "main", config));
    ck_assert(check_lent(std::nullopt, "loan", config).ok());
    config.loan_enabled = true;
    ck_assert(partitions_with_lent(willing, "a,b", "main", config) == "a,b,loan");
    ck_assert(partitions_with_lent(willing, "", "main", config) == "main,loan");
    ck_assert(!partitions_with_lent(willing, "loan", "main", config));
    ck_assert(!partitions_with_lent(Request{}, "a", "main", config));
    ck_assert(check_lent(willing, "a,loan", config).ok());
    ck_assert(check_lent(std::nullopt, "a,loans", config).ok());
    for (const auto& other : {std::optional<Request>(), std::optional<Request>(Request{})})
        ck_assert(!check_lent(other, "a,loan", config).ok());
}

TEST(where_ranks_meet_is_a_host_or_refused) {
    SubmitFacts facts = batch_job();
    for (const char* host : {"", "n1", "head.example.org", "10.0.0.1", "fe80::1"}) {
        facts.rendezvous = host;
        ck_assert_msg(accept_request(request(), facts, cluster(), site()).ok(), "%s", host);
    }
    for (const char* none : {"n 1", "n1;reboot", "-n1", "http://n1", "n1:29500", "$(id)"}) {
        facts.rendezvous = none;
        test::assert_refused(accept_request(request(), facts, cluster(), site()),
                             std::string("ARENA_RDZV_HOST: '") + none +
                                 "' is no host name and no address: give the host");
    }
}

TEST(a_switched_off_arena_refuses) {
    SiteFacts off = site();
    off.config.enabled = false;
    const auto r = accept_request(request(), batch_job(), cluster(), off);
    ck_assert(!r.ok());
    ck_assert(r.error().text.find("switched off") != std::string::npos);
}

TEST(control_and_stale_variables_are_told_apart) {
    for (const char* e : {"ARENA_RECORD=x", "ARENA_PROFILE=1", "SPANK_ARENA_X=1", "ARENA_="})
        ck_assert_msg(is_arena_control(e), "%s", e);
    for (const char* e :
         {"ARENAS=1", "PATH=x", "_SLURM_SPANK_OPTION_arena_arena_model=x", "X_ARENA_Y=1", ""})
        ck_assert_msg(!is_arena_control(e), "%s", e);
    for (const char* e :
         {"SLURM_NTASKS=4", "SLURM_GPUS=2", "SLURM_GPUS_PER_NODE=2", "SLURM_NTASKS_PER_NODE=1",
          "SLURM_MEM_PER_NODE=16000", "SLURM_MEM_PER_CPU=100", "ARENA_GIVEN=ARENA_PP", "ARENA_PP=2",
          "ARENA_RDZV_HOSTS=x", "SLURM_SPANK_ARENA_RECORD={}",
          "SLURM_SPANK__SLURM_SPANK_OPTION_arena_arena_model=x"})
        ck_assert_msg(is_stale_variable(e), "%s", e);
    for (const char* e : {"SLURM_SUBMIT_DIR=/", "PATH=/bin", "ARENA_CONF=/x",
                          "ARENA_RDZV_HOST=10.0.0.1", "SLURM_PRIO_PROCESS=0", "SLURM_NTASKSX=1"})
        ck_assert_msg(!is_stale_variable(e), "%s", e);
}

// ---- modify ------------------------------------------------------------------------------------

static ModifyFacts waiting(Phase phase = Phase::held, OtherHold hold = OtherHold::none) {
    ModifyFacts f;
    f.pending = true;
    f.held = phase == Phase::held;
    f.now = 1000;
    f.restart = 2;
    f.mark = JobMark{phase, 2, hold, 500};
    return f;
}

TEST(a_release_never_starts_an_unplanned_job) {
    for (const OtherHold hold : {OtherHold::none, OtherHold::user}) {
        ModifyFacts f = waiting(Phase::held, hold);
        f.priority = PriorityChange::release;
        const ModifyDecision d = decide_modify(f);
        ck_assert(d.refusal == Refusal::none);
        ck_assert(d.drop_priority);
        ck_assert(d.mark == JobMark({Phase::held, 2, OtherHold::none, 1000}));
        ck_assert(d.reason == ShownReason::arena);
    }
}

TEST(a_release_after_another_hold_is_planned_again) {
    ModifyFacts f = waiting(Phase::started);
    f.held = true;
    f.mark->restart = 1;
    f.priority = PriorityChange::release;
    const ModifyDecision d = decide_modify(f);
    ck_assert(d.drop_priority);
    ck_assert(d.mark == JobMark({Phase::held, 2, OtherHold::none, 1000}));
}

TEST(a_released_planned_job_stays_released) {
    ModifyFacts f = waiting(Phase::released);
    f.priority = PriorityChange::release;
    ck_assert(decide_modify(f) == ModifyDecision{});
}

TEST(only_operators_lift_an_administrators_hold) {
    ModifyFacts f = waiting(Phase::held, OtherHold::admin);
    f.priority = PriorityChange::release;
    ck_assert(decide_modify(f).refusal == Refusal::not_permitted);
    f.by_operator = true;
    ck_assert(decide_modify(f).refusal == Refusal::none);
}

TEST(a_hold_is_noted_with_its_owner) {
    for (const Phase phase : {Phase::held, Phase::released}) {
        ModifyFacts f = waiting(phase);
        f.priority = PriorityChange::hold;
        ck_assert(decide_modify(f).mark == JobMark({Phase::held, 2, OtherHold::user, 1000}));
        ck_assert(decide_modify(f).reason == ShownReason::user_hold);
        ck_assert(!decide_modify(f).drop_priority);
        f.by_operator = true;
        ck_assert(decide_modify(f).mark->hold == OtherHold::admin);
        f.user_hold_asked = true;
        ck_assert(decide_modify(f).mark->hold == OtherHold::user);
    }
}

TEST(a_user_cannot_weaken_an_administrators_hold) {
    ModifyFacts f = waiting(Phase::held, OtherHold::admin);
    f.priority = PriorityChange::hold;
    ck_assert(decide_modify(f) == ModifyDecision{});
}

TEST(a_hold_at_submit_counts_before_there_is_a_mark) {
    ModifyFacts f = waiting();
    f.mark.reset();
    f.restart = 0;
    f.asked_to_hold = true;
    f.priority = PriorityChange::release;
    ck_assert(decide_modify(f).mark == JobMark({Phase::held, 0, OtherHold::none, 1000}));
}

TEST(a_hold_of_a_running_job_is_for_its_next_life) {
    ModifyFacts f = waiting(Phase::started);
    f.pending = f.held = false;
    f.priority = PriorityChange::hold;
    const ModifyDecision d = decide_modify(f);
    ck_assert(d.mark == JobMark({Phase::started, 2, OtherHold::user, 500}));
    ck_assert(d.reason == ShownReason::keep);
    f.mark = d.mark;
    f.priority = PriorityChange::release;
    ck_assert(decide_modify(f).mark->hold == OtherHold::none);
    f.mark.reset();
    ck_assert(decide_modify(f) == ModifyDecision{});
}

TEST(shapes_are_arenas_and_the_rest_is_the_users) {
    ModifyFacts f = waiting();
    f.shape_change = true;
    ck_assert(decide_modify(f).refusal == Refusal::shape);
    f.by_operator = true;
    ck_assert(decide_modify(f).refusal == Refusal::shape);
    f.mark->phase = Phase::off;
    ck_assert(decide_modify(f) == ModifyDecision{});
    f = waiting();
    ck_assert(decide_modify(f) == ModifyDecision{});
    f.priority = PriorityChange::value;
    ck_assert(decide_modify(f) == ModifyDecision{});
}

TEST(another_request_takes_a_released_job_back_at_once) {
    for (Phase phase : {Phase::released, Phase::starting}) {
        ModifyFacts f = waiting(phase);
        ck_assert(decide_modify(f) == ModifyDecision{});
        f.request_change = true;
        const ModifyDecision d = decide_modify(f);
        ck_assert(d.take_back && d.mark == JobMark({Phase::held, 2, OtherHold::none, 1000}));
        ck_assert(d.reason == ShownReason::arena && !d.what.empty());
        f.priority = PriorityChange::hold;
        ck_assert_msg(!decide_modify(f).take_back && decide_modify(f).mark->hold == OtherHold::user,
                      "a hold in the same update is the stronger one");
    }
    for (Phase phase : {Phase::held, Phase::started, Phase::off}) {
        ModifyFacts f = waiting(phase);
        f.request_change = true;
        f.pending = phase == Phase::held;
        ck_assert_msg(!decide_modify(f).take_back, "phase %d", static_cast<int>(phase));
    }
    ModifyFacts f = waiting(Phase::released);
    f.request_change = true;
    f.restart = 3;
    ck_assert_msg(!decide_modify(f).take_back, "the mark is of an earlier life");
}

TEST(a_nice_value_never_starts_a_held_job) {
    ModifyFacts f = waiting();
    f.nice_change = true;
    ck_assert(decide_modify(f).take_nice);
    f.held = false;
    ck_assert(!decide_modify(f).take_nice);
    f.held = true;
    f.mark->phase = Phase::off;
    ck_assert(!decide_modify(f).take_nice);
}
