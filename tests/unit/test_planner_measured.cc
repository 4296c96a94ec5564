// SPDX-License-Identifier: GPL-2.0-or-later
// The analytic estimate against published iteration times (reference data, read in place): bounds a
// little above what tests/bench/planner-accuracy reports, which a broken formula cannot meet.
// Skips, saying so, where the data is absent. And the table's reader, on text that people get
// wrong.
#include <cmath>
#include <cstdio>
#include <string>

#include "base/text.h"
#include "planner/evaluate/evaluate.h"
#include "planner/hardware/hardware.h"
#include "reference_data.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

constexpr const char* measured = "measured/measured.csv";

std::string data_file() { return arena::test::reference_data() + "/" + measured; }

void check_text(const std::string& given, const std::string& wanted) {
    ck_assert_msg(given == wanted, "'%s' is not '%s'", given.c_str(), wanted.c_str());
}

constexpr const char* header =
    "id,source,framework,family,gpu,gpus,gpus_per_node,layers,hidden,heads,ffn_hidden,seq,vocab,tp,"
    "pp,dp,mbs,"
    "gbs,recompute,precision,sharding,status,iter_time_s,notes\n";
constexpr const char* good =
    "7,here,Megatron-DeepSpeed,gpt,A100,8,8,24,2048,16,8192,1024,51200,2,2,2,4,64,full,fp16,zero0,"
    "ok,1.5,"
    "\"a, \"\"quoted\"\" note\"\n";

}  // namespace

TEST_NEEDING(published_iteration_times_are_met, arena::test::lacks_reference(measured)) {
    const std::string text = must(read_regular_file(data_file(), max_measured_bytes));
    const auto rows = parse_measured(text, data_file());
    ck_assert_msg(rows.ok(), "%s", rows.ok() ? "" : rows.error().message().c_str());
    const auto hardware = must(load_hardware(""));
    const auto evaluated = evaluate_rows(*rows, {hardware, builtin_calibration()});
    const auto by_source =
        summarise_by(evaluated, [](const MeasuredRow& row) { return row.source; });
    const std::pair<const char*, double> bounds[] = {{"vTrain", 0.07},
                                                     {"BLOOM-tr11-prequel", 0.12}};
    for (const auto& [source, bound] : bounds) {
        const ErrorSummary& s = by_source.at(source);
        std::printf("%-26s rows %4zu  mean |error| %5.1f %%  bias %+6.1f %%\n", source, s.n,
                    100 * s.mean_abs, 100 * s.bias);
        ck_assert_msg(s.n > 20 && s.mean_abs < bound, "%s: %g", source, s.mean_abs);
    }
}

// Prices of our own making say nothing of how true they are: only that nobody changes one unseen.
TEST(prices_of_our_own_plans_are_as_they_were) {
    const auto rows = must(parse_measured(arena::test::read_own("prices.csv"), "prices.csv"));
    ck_assert_uint_eq(rows.size(), 49);
    const auto hardware = load_hardware("");
    for (const MeasuredRow& row : rows) {
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.timed(), "id %d: %s", static_cast<int>(row.id), out.reason.c_str());
        ck_assert_msg(std::fabs(out.estimate.iteration_s / *row.iteration_s - 1) < 1e-3,
                      "id %d: %g s, was %g s", static_cast<int>(row.id), out.estimate.iteration_s,
                      *row.iteration_s);
    }
}

TEST(a_row_becomes_a_plan_and_a_price) {
    const auto rows = must(parse_measured(std::string(header) + good, "t.csv"));
    ck_assert_int_eq(static_cast<int>(rows.size()), 1);
    const MeasuredRow& row = rows.front();
    ck_assert(row.id == 7 && row.line == 2 && row.notes == "a, \"quoted\" note");
    const auto hardware = load_hardware("");
    const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
    ck_assert_msg(out.timed(), "%s", out.reason.c_str());
    ck_assert(out.known_framework && out.plan.pp() == 2 && out.plan.num_micro_batches == 8);
    ck_assert(out.estimate.iteration_s > 0.1 && out.estimate.iteration_s < 10);
    MeasuredRow other = row;  // neither the source nor the id may change a price
    other.source = "elsewhere", other.id = 8;
    const EvaluatedRow same = evaluate_row(other, {*hardware, builtin_calibration()});
    ck_assert(same.estimate == out.estimate);
}

TEST(a_row_that_cannot_be_priced_says_why) {
    const auto hardware = load_hardware("");
    const auto rows = parse_measured(std::string(header) + good, "t.csv");
    const auto reason = [&](auto change) {
        MeasuredRow row = rows->front();
        change(row);
        return evaluate_row(row, {*hardware, builtin_calibration()}).reason;
    };
    check_text(reason([](MeasuredRow& r) { r.heads = 0; }), "heads is blank");
    check_text(reason([](MeasuredRow& r) { r.global_batch = (1 << 24) + 1; }),
               "gbs is more than 16777216");
    check_text(reason([](MeasuredRow& r) { r.gpu = "H9"; }), "no hardware entry 'H9'");
    check_text(reason([](MeasuredRow& r) { r.dp = 3; }), "tp 2 * pp 2 * dp 3 * cp 1 is not 8 GPUs");
    check_text(reason([](MeasuredRow& r) { r.pp = 0; }), "tp 2 * pp 1 * dp 2 * cp 1 is not 8 GPUs");
    check_text(reason([](MeasuredRow& r) { r.sharding = "zero4"; }),
               "not expressible: sharding 'zero4'; known are zero0 to zero3, distopt, nothing");
    check_text(reason([](MeasuredRow& r) { r.sharding = "fsdp"; }),
               "not expressible: sharding 'fsdp'; known are zero0 to zero3, distopt, nothing");
    check_text(reason([](MeasuredRow& r) { r.attention = "paged"; }),
               "not expressible: attn 'paged'; known are flash, fused-softmax, unfused, nothing");
    check_text(reason([](MeasuredRow& r) { r.status = "fine"; }),
               "not expressible: status 'fine'; known are ok, OOM, memory_only, nothing");
}

TEST(what_the_table_of_constants_does_not_name_is_said) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    row.intra_link = "NVSwitch3", row.inter_gbps = 800;
    const EvaluatedRow known = evaluate_row(row, {*hardware, builtin_calibration()});
    ck_assert(known.known_framework && known.known_device && known.known_network);
    row.framework = "mine", row.intra_link = "string", row.gpu = "L4";
    const EvaluatedRow unknown = evaluate_row(row, {*hardware, builtin_calibration()});
    ck_assert_msg(unknown.priced(), "%s", unknown.reason.c_str());
    ck_assert(!unknown.known_framework && !unknown.known_device && !unknown.known_network);
}

TEST(a_network_that_collides_slows_gradients_that_change_rails) {
    const auto hardware = load_hardware("");
    const auto seconds = [&](std::int64_t tp, const char* cost) {
        MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
        row.intra_link = "rails", row.inter_gbps = 800, row.gpus_per_node = 8;
        row.gpus = 64, row.tp = tp, row.pp = 1, row.dp = 64 / tp;
        row.global_batch = row.micro_batch * row.dp;
        const auto table = must(parse_calibration(
            std::string("networks:\n  - {intra_link: rails, inter_gbps: 800, cross_rail_cost: ") +
                cost + "}\n",
            "c", builtin_calibration()));
        const EvaluatedRow out = evaluate_row(row, {*hardware, table});
        ck_assert_msg(out.priced(), "%s", out.reason.c_str());
        return out.estimate.dp_comm_s;
    };
    ck_assert_double_gt(seconds(2, "1.5"), 2 * seconds(2, "0"));
    ck_assert_double_eq(seconds(1, "1.5"), seconds(1, "0"));
    ck_assert(!parse_calibration("networks:\n  - {intra_link: x, cross_rail_cost: 11}\n", "c",
                                 builtin_calibration())
                   .ok());
}

TEST(a_ragged_batch_lies_between_its_neighbours_in_everything) {
    const auto hardware = load_hardware("");
    const auto price = [&](std::int64_t batch) {
        MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
        row.global_batch = batch;
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s", out.reason.c_str());
        return out.estimate;
    };
    const Estimate low = price(64), ragged = price(66), high = price(72);  // 8, 8 1/4 and 9 of 8
    for (double Estimate::*field :
         {&Estimate::iteration_s, &Estimate::compute_s, &Estimate::tp_comm_s, &Estimate::pp_comm_s,
          &Estimate::dp_comm_s, &Estimate::bubble_s, &Estimate::optimizer_s})
        ck_assert_double_eq_tol(ragged.*field, 0.75 * (low.*field) + 0.25 * (high.*field),
                                1e-12 * low.iteration_s);
    ck_assert_double_gt(ragged.compute_s, low.compute_s);
    ck_assert_double_eq_tol(ragged.samples_per_s * ragged.iteration_s, 66, 1e-9);
    const double parts = ragged.compute_s + ragged.tp_comm_s + ragged.pp_comm_s + ragged.dp_comm_s +
                         ragged.bubble_s + ragged.optimizer_s;
    ck_assert_double_eq_tol(parts, ragged.iteration_s, 1e-9 * parts);
    ck_assert_double_eq_tol(ragged.tflops_per_gpu / ragged.samples_per_s,
                            low.tflops_per_gpu / low.samples_per_s, 1e-9);
}

TEST(a_broken_table_is_refused_with_line_and_column) {
    const auto message = [](const std::string& text) {
        const auto rows = parse_measured(text, "t.csv");
        return rows ? std::string() : rows.error().message();
    };
    check_text(message(""),
               "t.csv:1: the header lacks the columns gpu, gpus, family, layers, hidden, seq, "
               "tp, pp, dp, mbs, gbs, iter_time_s");
    check_text(message("gpu,gpu\n"), "t.csv:1: the column 'gpu' is there twice");
    std::string bad = std::string(header) + good;
    bad.replace(bad.find("ok,1.5"), 6, "ok,fast");
    check_text(message(bad), "t.csv:2: iter_time_s is 'fast': a number from 0 to 1e12 is wanted");
    check_text(
        message(bad + bad.substr(bad.find('\n') + 1)),
        "t.csv:2: iter_time_s is 'fast': a number from 0 to 1e12 is wanted; nor can any other "
        "row be read");
    check_text(message(std::string(header) + "\n\n"), "");
}

TEST(a_row_that_cannot_be_read_is_left_out_and_says_why) {
    const auto hardware = load_hardware("");
    const auto reason = [&](const char* was, const char* is) {
        std::string row = good;
        row.replace(row.find(was), std::string(was).size(), is);
        const auto rows = must(parse_measured(std::string(header) + row + good, "t.csv"));
        ck_assert_uint_eq(rows.size(), 2);
        ck_assert(evaluate_row(rows.back(), {*hardware, builtin_calibration()}).priced());
        const EvaluatedRow out = evaluate_row(rows.front(), {*hardware, builtin_calibration()});
        ck_assert(out.priced() == rows.front().unreadable.empty());
        ck_assert(rows.front().source == "here" && rows.front().line == 2);
        return rows.front().unreadable;
    };
    const std::string wanted = ": a whole number from 0 to 2^40 is wanted";
    check_text(reason(",24,2048", ",24.0,2048"), "layers is '24.0'" + wanted);
    check_text(reason(",2,2,2,4,", ",mixed,2,2,4,"), "tp is 'mixed'" + wanted);
    check_text(reason(",2,2,2,4,", ",x,y,2,4,"), "tp is 'x'" + wanted);
    check_text(reason(",64,full", ",-64,full"), "gbs is '-64'" + wanted);
    check_text(reason("7,here", "1e3,here"), "id is '1e3'" + wanted);
    check_text(reason(",1024,", ",224x,"), "seq is '224x'" + wanted);
    check_text(reason("ok,1.5", "ok,fast"),
               "iter_time_s is 'fast': a number from 0 to 1e12 is wanted");
}

TEST(a_residual_network_of_the_usual_width_is_priced) {
    const auto hardware = load_hardware("");
    const char* resnet =
        "9,here,MXNet,resnet,A100,8,8,50,,,,224x224,,1,1,8,408,3264,none,fp16,zero0,ok,0.12,\n";
    MeasuredRow row = parse_measured(std::string(header) + resnet, "t.csv")->front();
    const auto out = [&] { return evaluate_row(row, {*hardware, builtin_calibration()}); };
    ck_assert_msg(out().timed(), "%s", out().reason.c_str());
    const double images_50 = out().estimate.samples_per_s;
    ck_assert(images_50 > 5000 && images_50 < 60000);
    row.layers = 101;
    ck_assert_double_lt(out().estimate.samples_per_s, 0.75 * images_50);
    row.layers = 51;
    ck_assert(out().reason.find("depth 51") != std::string::npos);
    row.layers = 50, row.image_height = 256;
    check_text(out().reason, "seq of a residual network is the size of a square image, as 224x224");
    row.image_height = 224, row.model = "Wide-ResNet-1B";
    check_text(out().reason, "a wide residual network, whose width the table does not give");
}

TEST(names_of_gpus_in_published_tables_are_entries) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    for (const char* gpu :
         {"H100-HBM2e-96GB(500W)", "A100-PCIe", "A100-PCIe-80GB", "A10-PCIe-24GB", "A30-PCIe-24GB",
          "RTX-A5000-24GB", "T4-16GB", "H200-SXM-141GB", "GB200-NVL72", "GB300-NVL72",
          "B200-SXM-180GB", "B300-SXM-288GB", "V100-SXM-16GB", "V100-SXM-32GB", "A100-SXM-40GB"}) {
        row.gpu = gpu;
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s: %s", gpu, out.reason.c_str());
    }
    row.gpu = "V100-16GB x12 + T4 x4";
    check_text(evaluate_row(row, {*hardware, builtin_calibration()}).reason,
               "a run on more than one GPU type, 'V100-16GB x12 + T4 x4'");
}

TEST(weights_of_stages_are_not_sharded_where_the_framework_keeps_them) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    const auto zero = [&](const char* framework, const char* sharding, std::int64_t pp) {
        row.framework = framework, row.sharding = sharding, row.pp = pp, row.dp = 4 / pp;
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s", out.reason.c_str());
        return out.plan.zero_stage;
    };
    ck_assert_int_eq(static_cast<int>(zero("torchtitan", "zero3", 1)), 3);
    ck_assert_int_eq(static_cast<int>(zero("torchtitan", "zero3", 2)), 1);
    ck_assert_int_eq(static_cast<int>(zero("torchtitan", "zero0", 2)), 0);
    ck_assert_int_eq(static_cast<int>(zero("Composer/FSDP", "zero3", 2)), 3);
}

TEST(the_built_in_table_of_constants_parses_and_is_used) {
    const Calibration& table = builtin_calibration();
    ck_assert(table.devices.size() > 1 && table.frameworks.size() > 3 && table.networks.size() > 1);
    bool known = true;
    const FrameworkConstants& other = table.framework("no such framework", &known);
    ck_assert(!known && &other == &table.framework("default"));
    ck_assert(table.framework("megatron-deepspeed").fused_attention < 0.5);
    const auto changed = parse_calibration(
        "frameworks:\n  - {name: mine, like: Megatron-DeepSpeed, host_forward_s: 0.5}\n", "c",
        table);
    ck_assert(changed.ok() && std::fabs(changed->framework("mine").host_forward_s - 0.5) < 1e-12);
    ck_assert(changed->framework("mine").fused_attention < 0.5);
    const auto broken =
        parse_calibration("devices:\n  - {names: [x], gemm_share: 1.2}\n", "c", table);
    ck_assert(!broken.ok());
    const auto unknown =
        parse_calibration("devices:\n  - {names: [x], gemm_shar: 1}\n", "c", table);
    ck_assert(!unknown.ok() && unknown.error().message().find("gemm_share") != std::string::npos);
    // A key of another section does nothing here: said, with what is accepted.
    for (const char* text : {"devices:\n  - {names: [x], aliases: [y]}\n",
                             "devices:\n  - {names: [x], inter_gbps: 1}\n",
                             "frameworks:\n  - {name: x, intra_link: y}\n",
                             "networks:\n  - {intra_link: x, like: default}\n"}) {
        const auto foreign = parse_calibration(text, "c", table);
        ck_assert_msg(!foreign.ok(), "%s", text);
        const std::string message = foreign.error().message();
        ck_assert_msg(
            message.starts_with("c:2:") && message.find("accepted here: ") != std::string::npos,
            "%s", message.c_str());
    }
}

int main() { return arena::test::run_suite(); }
