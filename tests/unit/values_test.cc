// SPDX-License-Identifier: GPL-2.0-or-later
// Values: short forms, pins, fingerprints, operator keys and costs, and what JSON readers refuse.

#include <set>

#include "base/text.h"
#include "core/model_fields.h"
#include "core/profile.h"
#include "policy/replay.h"
#include "suite.h"

using namespace arena;
using arena::test::assert_refused;
using arena::test::assert_text;
using arena::test::must;

namespace {

Plan uniform_plan() {
    Plan plan;
    plan.stage_layers = {12, 12};
    plan.stage_dp = {2, 2};
    plan.stage_tp = {1, 1};
    plan.micro_batch = 4;
    plan.num_micro_batches = 16;
    return plan;
}

OpShape gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
    return {OpKind::gemm, Pass::forward, Precision::fp32, {m, n, k, 1}};
}

Profile small_profile() {
    Profile p;
    p.nonce = "0123456789abcdef";
    p.gpu_type = "a40";
    p.hardware = "A40";
    p.model_fingerprint = fingerprint(Model{});
    p.device.kind = "cuda";
    p.entries = {{gemm(8, 16, 32), 1e-5, 10, 0.01}};
    return p;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    ck_assert_msg(at != std::string::npos, "%s is not in the text", from.c_str());
    return text.replace(at, from.size(), to);
}

}  // namespace

TEST(short_forms_are_the_words_of_admin_comment) {
    assert_text(short_form(uniform_plan()), "pp2,dp2,tp1,mb4x16");
    assert_text(short_form(Grid{"a40", 1, 4, 2}), "4xa40");
    assert_text(short_form(Grid{"a40", 2, 4, 2}), "2x4xa40");
    Plan plan = uniform_plan();
    plan.stage_dp = {2, 1};
    plan.stage_tp = {1, 2};
    assert_text(short_form(plan), "pp2,dp2+1,tp1+2,mb4x16");
    ck_assert_int_eq(plan.gpus(), 4);
    plan.vpp = 3, plan.cp = 2, plan.ep = 4, plan.etp = 2, plan.schedule = Schedule::zb_h1;
    assert_text(short_form(plan), "pp2,dp2+1,tp1+2,mb4x16,vpp3,cp2,ep4,etp2,zbh1");
    Plan grouped = uniform_plan();
    grouped.zero_stage = 3, grouped.hsdp = 2;
    assert_text(short_form(grouped), "pp2,dp2,tp1,mb4x16,zero3,hsdp2");
    ck_assert(parse_plan_json(to_json(grouped)).value() == grouped);
    ck_assert(matches(*parse_plan_pin(short_form(grouped)), grouped));
    ck_assert(!matches(*parse_plan_pin("hsdp4"), grouped));
    assert_text(to_string(*parse_plan_pin("dp8,hsdp4")), "dp8,hsdp4");
    ck_assert_int_eq(plan.gpus(), 8);  // experts are shared out over ranks that are there anyway
    ck_assert(parse_plan_json(to_json(plan)).value() == plan);
}

TEST(plans_written_before_vpp_cp_and_ep_read_as_ones) {
    std::string text = to_json(uniform_plan());
    for (const char* key : {"\"vpp\":1,", "\"cp\":1,", "\"ep\":1,"}) text = replaced(text, key, "");
    ck_assert(parse_plan_json(text).value() == uniform_plan());
    assert_refused(parse_plan_json(replaced(to_json(uniform_plan()), "\"vpp\":1", "\"vpp\":0")),
                   "vpp");
}

TEST(pins_are_read_and_matched) {
    const auto pin = must(parse_plan_pin("tp1,pp2,dp2"));
    assert_text(to_string(pin), "pp2,dp2,tp1");
    ck_assert(matches(pin, uniform_plan()));
    ck_assert(matches(PlanPin{}, uniform_plan()));
    ck_assert(!matches(*parse_plan_pin("mb2"), uniform_plan()));
    Plan uneven = uniform_plan();
    uneven.stage_dp = {2, 1};
    ck_assert(!matches(pin, uneven));
    ck_assert_int_eq(pin.gpus(), 4);
    ck_assert(pin.fixes_gpus());
    const auto wide = parse_plan_pin("vpp2,cp4,ep8,tp1");
    assert_text(to_string(*wide), "tp1,vpp2,cp4,ep8");
    ck_assert_int_eq(wide->gpus(), 4);
    ck_assert(!wide->fixes_gpus());
    ck_assert(!matches(*wide, uniform_plan()));
    // What explain, queue and scontrol print.
    ck_assert(matches(*parse_plan_pin(short_form(uniform_plan())), uniform_plan()));
    assert_text(to_string(*parse_plan_pin("pp2,dp2,tp1,mb4x16,vpp2,cp2,ep4")),
                "pp2,dp2,tp1,mb4x16,vpp2,cp2,ep4");
    for (const char* bad : {"mb4x", "mbx4", "mb4x0", "mb4x-1", "mb4x4x4", "pp2x2", "mb4,mb4x2"})
        assert_refused(parse_plan_pin(bad), "mb also as mb4x16");
    ck_assert(parse_plan_pin("pp65536,dp65536,tp65536,cp65536")->gpus() == std::int64_t{1} << 40);
    for (const char* bad : {"", "2", "ppp2", "vpp", "vp2", "cp0", "pp", "pp0", "pp2,", "pp2,pp2",
                            "xx2", "pp2 ,dp2", "pp65537", "pp-1"}) {
        assert_refused(parse_plan_pin(bad), "for example pp2,dp2,tp1");
    }
}

TEST(the_fingerprint_ignores_the_name_and_nothing_else) {
    Model a;
    a.layers = 48;
    Model b = a;
    b.name = "other";
    assert_text(fingerprint(a), fingerprint(b));
    ck_assert_uint_eq(fingerprint(a).size(), 64);
    ck_assert(fingerprint(a) != no_fingerprint);
    const auto differs = [&](auto change) {
        Model c = a;
        change(c);
        ck_assert(fingerprint(a) != fingerprint(c));
    };
    for (const IntegerField& field : integer_fields())
        differs([&](Model& m) { m.*field.member += 1; });
    for (const FlagField& field : flag_fields())
        differs([&](Model& m) { m.*field.member = !(m.*field.member); });
    differs([](Model& m) { m.family = Family::llama; });
    differs([](Model& m) { m.precision = Precision::mxfp8; });
    differs([](Model& m) { m.capacity_factor = 1.25; });
    differs([](Model& m) { m.blocks = {3, 4, 6, 3}; });
    differs([](Model& m) { m.custom_layers.push_back({"x", 1, 1, 2, 3}); });
    const auto hash = [](Model m, CustomLayer layer) {
        m.custom_layers = {std::move(layer)};
        return fingerprint(m);
    };
    assert_text(hash(a, {"x", 1, 1, 2, 3, 4}), hash(a, {"y", 1, 1, 2, 3, 4}));
    ck_assert(hash(a, {"x", 1, 1, 2, 3, 4}) != hash(a, {"x", 1, 1, 2, 3, 5}));
}

TEST(no_two_facts_of_a_model_share_a_name) {
    std::set<std::string> seen{"name", "family", "precision", "capacity_factor", "blocks"};
    for (const IntegerField& field : integer_fields()) {
        ck_assert_msg(seen.insert(field.key).second, "%s", field.key);
        ck_assert(find_integer_field(field.key) == &field && field.min < field.max);
    }
    for (const FlagField& field : flag_fields())
        ck_assert_msg(seen.insert(field.key).second, "%s", field.key);
    ck_assert(find_integer_field("no_such_key") == nullptr);
}

TEST(operator_keys_are_printable_and_unique) {
    assert_text(op_key(gemm(1024, 2304, 768)), "gemm/forward/fp32/1024x2304x768x1");
    const OpShape norm{OpKind::norm, Pass::backward, Precision::bf16, {64, 768}, NormKind::layer};
    assert_text(op_key(norm), "norm/backward/bf16/64x768/layer");
}

TEST(operator_costs_follow_the_formulas) {
    ck_assert(op_flops(gemm(2, 3, 5)) == 60);
    ck_assert(op_bytes(gemm(2, 3, 5)) == 4 * (2 * 5 + 5 * 3 + 2 * 3));
    OpShape attention{
        OpKind::attention, Pass::forward, Precision::bf16, {8, 2, 128, 64}, AttentionVariant{}};
    const double full = op_flops(attention);
    ck_assert(full == 4.0 * 8 * 128 * 128 * 64);
    attention.variant = AttentionVariant{.is_causal = true};
    ck_assert(op_flops(attention) == full / 2);
    attention.pass = Pass::backward;
    ck_assert(op_flops(attention) == full);
    const OpShape adamw{
        OpKind::optimizer, Pass::forward, Precision::bf16, {1000}, OptimizerKind::adamw};
    ck_assert(op_bytes(adamw) == 28000);
}

TEST(a_good_profile_reads_back_and_bad_ones_do_not) {
    const Profile profile = small_profile();
    const std::string text = to_json(profile);
    ck_assert(parse_profile(text).value() == profile);
    const auto refused = [&](const char* from, const char* to, const char* needle) {
        assert_refused(parse_profile(replaced(text, from, to)), needle);
    };
    refused("0123456789abcdef", "short", "nonce");
    refused("0123456789abcdef", "../../etc/passwd", "nonce");
    refused("\"seconds\":1e-05", "\"seconds\":0", "seconds");
    refused("\"seconds\":1e-05", "\"seconds\":-1", "seconds");
    refused("\"seconds\":1e-05", "\"seconds\":1e999", "not valid JSON");
    refused("\"seconds\":1e-05", "\"seconds\":\"1\"", "entries[0].seconds");
    refused("\"repeats\":10", "\"repeats\":0", "repeats");
    refused("\"repeats\":10", "\"x\":0", "entries[0].repeats: is missing");
    refused("\"spread\":0.01", "\"spread\":11", "spread");
    refused("[8,16,32,1]", "[8,16,32]", "a list of 4 integers");
    refused("[8,16,32,1]", "[8,16,32,1,1]", "at most 4 items");
    refused("[8,16,32,1]", "[0,16,32,1]", "entries[0].shape");
    refused("\"gemm\"", "\"gem\"", "one of gemm");
    refused("\"variant\":\"\"", "\"variant\":\"A\"", "variant");
    refused("\"schema_version\":1", "\"schema_version\":2", "schema_version");
    refused("\"cuda\"", "\"tpu\"", "one of cpu, cuda");
    refused("\"a40\"", "\"a40\\n\"", "gpu_type");
    assert_refused(parse_profile(std::string(9, '[') + std::string(9, ']')), "deeper than 8");
    assert_refused(parse_profile(std::string(max_profile_bytes + 1, ' ')), "larger than");
    Profile twice = profile;
    twice.entries.push_back(twice.entries.front());
    assert_refused(parse_profile(to_json(twice)), "each operator once");
}

TEST(a_profile_request_reads_back) {
    ProfileRequest request;
    request.nonce = "AAAABBBBCCCCDDDD";
    request.gpu_type = "a40";
    request.hardware = "emulated-cpu";
    request.model.name = "m";
    request.model.layers = 2;
    request.known = {op_hash({})};
    ck_assert(parse_profile_request(to_json(request)).value() == request);
    request.known = {"zz"};
    assert_refused(parse_profile_request(to_json(request)), "known");
}

TEST(inconsistent_snapshots_are_refused) {
    Snapshot snapshot;
    snapshot.nodes.resize(2);
    snapshot.node_sets = {{0, 1}};
    snapshot.jobs.resize(1);
    snapshot.jobs[0].id = 7;
    const std::string good = to_json(snapshot);
    ck_assert(parse_snapshot(good).value() == snapshot);
    const auto refused = [&](const char* from, const char* to, const char* needle) {
        assert_refused(parse_snapshot(replaced(good, from, to)), needle);
    };
    refused("[[0,1]]", "[[1,0]]", "ascending");
    refused("[[0,1]]", "[[0,0]]", "ascending");
    refused("[[0,1]]", "[[0,2]]", "ascending");
    refused("[[0,1]]", "[[-1]]", "ascending");
    refused("\"node_set\":0", "\"node_set\":1", "node_set");
    refused("\"min_gpus\":1", "\"min_gpus\":2", "min_gpus <= max_gpus");
    refused("\"pending\"", "\"done\"", "one of pending, running");
    snapshot.jobs.push_back(snapshot.jobs[0]);
    assert_refused(parse_snapshot(to_json(snapshot)), "each job id once");
}

TEST(facts_of_nodes_are_written_where_there_are_any) {
    Snapshot snapshot;
    snapshot.nodes.resize(2);
    const std::string plain = to_json(snapshot);
    for (const char* key : {"lent", "returning", "slow"})
        ck_assert_msg(plain.find(key) == std::string::npos, "%s", key);
    snapshot.nodes[1].lent = "L7";
    snapshot.nodes[1].returning_s = 1700000000;
    snapshot.nodes[1].slow = 2.1;
    const std::string told = to_json(snapshot);
    ck_assert(parse_snapshot(told).value() == snapshot);
    assert_refused(parse_snapshot(replaced(told, "\"slow\":2.1", "\"slow\":0.5")), "slow");
    assert_refused(parse_snapshot(replaced(told, "\"lent\":\"L7\"", "\"lent\":7")), "lent");
}

TEST(of_what_moves_took_the_last_three_are_kept) {
    MovesTook took{};
    for (const std::int64_t took_s : {5, 6}) add_move(took, took_s);
    ck_assert(took == (MovesTook{5, 6, 0}));
    for (const std::int64_t took_s : {7, 8}) add_move(took, took_s);
    ck_assert(took == (MovesTook{6, 7, 8}));
}

TEST(what_moves_took_is_written_where_it_is_known) {
    Snapshot snapshot;
    snapshot.node_sets.resize(1);
    snapshot.jobs.resize(1);
    snapshot.jobs[0].id = 1;
    ck_assert(to_json(snapshot).find("moves_took_s") == std::string::npos);
    snapshot.jobs[0].moves_took_s = {22, 24, 0};
    const std::string told = to_json(snapshot);
    ck_assert(parse_snapshot(told).value() == snapshot);
    assert_refused(parse_snapshot(replaced(told, "[22,24]", "[22,0]")), "moves_took_s");
    assert_refused(parse_snapshot(replaced(told, "[22,24]", "[1,2,3,4]")), "moves_took_s");
}

TEST(hostile_json_is_refused_in_bounded_time) {
    const std::string deep = std::string(1 << 20, '[');
    assert_refused(parse_snapshot(deep), "deeper than 32");
    assert_refused(parse_decision("{\"schema_version\":1"), "not valid JSON");
    assert_refused(parse_decision("[]"), "an object is needed");
    assert_refused(parse_offers("\xff"), "not valid JSON");
    assert_refused(parse_plan_json(R"({"micro_batch":18446744073709551615})"), "micro_batch");
}
