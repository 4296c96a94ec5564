// SPDX-License-Identifier: GPL-2.0-or-later
// The analytic estimate against published iteration times (reference data, read in place): bounds a
// little above what tests/bench/planner-accuracy reports, which a broken formula cannot meet. Skips,
// saying so, where the data is absent. And the table's reader, on text that people get wrong.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/text.h"
#include "planner/evaluate.h"
#include "reference_data.h"
#include "suite.h"

using namespace arena;

namespace {

constexpr const char* measured = "measured/measured.csv";

std::string data_file() { return arena::test::reference_data() + "/" + measured; }

void check_text(const std::string& given, const std::string& wanted) {
    ck_assert_msg(given == wanted, "'%s' is not '%s'", given.c_str(), wanted.c_str());
}

constexpr const char* header =
    "id,source,framework,family,gpu,gpus,gpus_per_node,layers,hidden,heads,ffn_hidden,seq,vocab,tp,pp,dp,mbs,"
    "gbs,recompute,precision,sharding,status,iter_time_s,notes\n";
constexpr const char* good =
    "7,here,Megatron-DeepSpeed,gpt,A100,8,8,24,2048,16,8192,1024,51200,2,2,2,4,64,full,fp16,zero0,ok,1.5,"
    "\"a, \"\"quoted\"\" note\"\n";

}  // namespace

START_TEST(published_iteration_times_are_met) {
    const Result<std::string> text = read_regular_file(data_file(), max_measured_bytes);
    ck_assert_msg(text.ok(), "%s", text.ok() ? "" : text.error().message().c_str());
    const auto rows = parse_measured(*text, data_file());
    ck_assert_msg(rows.ok(), "%s", rows.ok() ? "" : rows.error().message().c_str());
    const auto hardware = load_hardware("");
    ck_assert_msg(hardware.ok(), "%s", hardware.ok() ? "" : hardware.error().message().c_str());
    const auto evaluated = evaluate_rows(*rows, {*hardware, builtin_calibration()});
    const auto by_source =
        summarise_by(evaluated, [](const MeasuredRow& row) { return row.source; });
    const std::pair<const char*, double> bounds[] = {
        {"vTrain", 0.07}, {"BLOOM-tr11-prequel", 0.12}};
    for (const auto& [source, bound] : bounds) {
        const ErrorSummary& s = by_source.at(source);
        std::printf("%-26s rows %4zu  mean |error| %5.1f %%  bias %+6.1f %%\n", source, s.n,
                    100 * s.mean_abs, 100 * s.bias);
        ck_assert_msg(s.n > 20 && s.mean_abs < bound, "%s: %g", source, s.mean_abs);
    }
}
END_TEST

START_TEST(a_row_becomes_a_plan_and_a_price) {
    const auto rows = parse_measured(std::string(header) + good, "t.csv");
    ck_assert_msg(rows.ok(), "%s", rows.ok() ? "" : rows.error().message().c_str());
    ck_assert_int_eq(static_cast<int>(rows->size()), 1);
    const MeasuredRow& row = rows->front();
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
END_TEST

START_TEST(a_row_that_cannot_be_priced_says_why) {
    const auto hardware = load_hardware("");
    const auto rows = parse_measured(std::string(header) + good, "t.csv");
    const auto reason = [&](auto change) {
        MeasuredRow row = rows->front();
        change(row);
        return evaluate_row(row, {*hardware, builtin_calibration()}).reason;
    };
    check_text(reason([](MeasuredRow& r) { r.heads = 0; }), "heads is blank");
    check_text(reason([](MeasuredRow& r) { r.gpu = "H9"; }),
                     "no hardware entry 'H9'");
    check_text(reason([](MeasuredRow& r) { r.dp = 3; }),
                     "tp 2 * pp 2 * dp 3 * cp 1 is not 8 GPUs");
    check_text(reason([](MeasuredRow& r) { r.pp = 0; }),
                     "tp 2 * pp 1 * dp 2 * cp 1 is not 8 GPUs");
    check_text(reason([](MeasuredRow& r) { r.sharding = "zero4"; }),
               "not expressible: sharding 'zero4'; known are zero0 to zero3, distopt, nothing");
    check_text(reason([](MeasuredRow& r) { r.sharding = "fsdp"; }),
               "not expressible: sharding 'fsdp'; known are zero0 to zero3, distopt, nothing");
    check_text(reason([](MeasuredRow& r) { r.attention = "paged"; }),
               "not expressible: attn 'paged'; known are flash, fused-softmax, unfused, nothing");
    check_text(reason([](MeasuredRow& r) { r.status = "fine"; }),
               "not expressible: status 'fine'; known are ok, OOM, memory_only, nothing");
}
END_TEST

START_TEST(what_the_table_of_constants_does_not_name_is_said) {
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
END_TEST

START_TEST(a_network_that_collides_slows_gradients_that_change_rails) {
    const auto hardware = load_hardware("");
    const auto seconds = [&](std::int64_t tp, const char* cost) {
        MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
        row.intra_link = "rails", row.inter_gbps = 800, row.gpus_per_node = 8;
        row.gpus = 64, row.tp = tp, row.pp = 1, row.dp = 64 / tp;
        row.global_batch = row.micro_batch * row.dp;
        const auto table = parse_calibration(
            std::string("networks:\n  - {intra_link: rails, inter_gbps: 800, cross_rail_cost: ") +
                cost + "}\n",
            "c", builtin_calibration());
        ck_assert_msg(table.ok(), "%s", table.ok() ? "" : table.error().message().c_str());
        const EvaluatedRow out = evaluate_row(row, {*hardware, *table});
        ck_assert_msg(out.priced(), "%s", out.reason.c_str());
        return out.estimate.dp_comm_s;
    };
    ck_assert_double_gt(seconds(2, "1.5"), 2 * seconds(2, "0"));
    ck_assert_double_eq(seconds(1, "1.5"), seconds(1, "0"));
    ck_assert(!parse_calibration("networks:\n  - {intra_link: x, cross_rail_cost: 11}\n", "c",
                                 builtin_calibration())
                   .ok());
}
END_TEST

START_TEST(a_ragged_batch_lies_between_its_neighbours_in_everything) {
    const auto hardware = load_hardware("");
    const auto price = [&](std::int64_t batch) {
        MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
        row.global_batch = batch;
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s", out.reason.c_str());
        return out.estimate;
    };
    const Estimate low = price(64), ragged = price(66), high = price(72);  // 8, 8 1/4 and 9 of 8
    for (double Estimate::*field : {&Estimate::iteration_s, &Estimate::compute_s, &Estimate::tp_comm_s,
                                    &Estimate::pp_comm_s, &Estimate::dp_comm_s,
                                    &Estimate::bubble_s, &Estimate::optimizer_s})
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
END_TEST

START_TEST(a_broken_table_is_refused_with_line_and_column) {
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
    check_text(message(bad),
                     "t.csv:2: iter_time_s is 'fast': a number from 0 to 1e12 is wanted");
    const auto with = [&](const char* was, const char* is) {
        std::string row = good;
        row.replace(row.find(was), std::string(was).size(), is);
        return message(std::string(header) + good + row);
    };
    const std::string wanted = ": a whole number from 0 to 2^40 is wanted";
    check_text(with(",24,2048", ",24.0,2048"), "t.csv:3: layers is '24.0'" + wanted);
    check_text(with(",2,2,2,4,", ",2,x,2,4,"), "t.csv:3: pp is 'x'" + wanted);
    check_text(with(",64,full", ",-64,full"), "t.csv:3: gbs is '-64'" + wanted);
    check_text(with("7,here", "1e3,here"), "t.csv:3: id is '1e3'" + wanted);
    check_text(with(",1024,", ",224x,"), "t.csv:3: seq is '224x'" + wanted);
    check_text(with(",1024,", ",224x224,"), "");  // an image
    check_text(message(std::string(header) + "\n\n"), "");
}
END_TEST

START_TEST(the_built_in_table_of_constants_parses_and_is_used) {
    const Calibration& table = builtin_calibration();
    ck_assert(table.devices.size() > 1 && table.frameworks.size() > 3 && table.networks.size() > 1);
    bool known = true;
    const FrameworkConstants& other = table.framework("no such framework", &known);
    ck_assert(!known && &other == &table.framework("default"));
    ck_assert(table.framework("megatron-deepspeed").fused_attention < 0.5);
    const auto changed = parse_calibration(
        "frameworks:\n  - {name: mine, like: Megatron-DeepSpeed, host_forward_s: 0.5}\n", "c", table);
    ck_assert(changed.ok() && std::fabs(changed->framework("mine").host_forward_s - 0.5) < 1e-12);
    ck_assert(changed->framework("mine").fused_attention < 0.5);
    const auto broken = parse_calibration("devices:\n  - {names: [x], gemm_share: 1.2}\n", "c", table);
    ck_assert(!broken.ok());
    const auto unknown = parse_calibration("devices:\n  - {names: [x], gemm_shar: 1}\n", "c", table);
    ck_assert(!unknown.ok() && unknown.error().message().find("gemm_share") != std::string::npos);
    // A key of another section does nothing here: said, with what is accepted.
    for (const char* text : {"devices:\n  - {names: [x], aliases: [y]}\n",
                             "devices:\n  - {names: [x], inter_gbps: 1}\n",
                             "frameworks:\n  - {name: x, intra_link: y}\n",
                             "networks:\n  - {intra_link: x, like: default}\n"}) {
        const auto foreign = parse_calibration(text, "c", table);
        ck_assert_msg(!foreign.ok(), "%s", text);
        const std::string message = foreign.error().message();
        ck_assert_msg(message.starts_with("c:2:") &&
                          message.find("accepted here: ") != std::string::npos,
                      "%s", message.c_str());
    }
}
END_TEST

int main() {
    return arena::test::run_suite("planner measured",
                                  {
                                      published_iteration_times_are_met,
                                      a_row_becomes_a_plan_and_a_price,
                                      a_row_that_cannot_be_priced_says_why,
                                      what_the_table_of_constants_does_not_name_is_said,
                                      a_network_that_collides_slows_gradients_that_change_rails,
                                      a_ragged_batch_lies_between_its_neighbours_in_everything,
                                      a_broken_table_is_refused_with_line_and_column,
                                      the_built_in_table_of_constants_parses_and_is_used,
                                  },
                                  {.conditional = {published_iteration_times_are_met},
                                   .lacks = arena::test::lacks_reference(measured)});
}
