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

std::string data_file() {
    return arena::test::reference_data() + "/measured/measured.csv";
}

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
    if (!text) {
        std::printf("SKIP: no reference data: %s\n", text.error().message().c_str());
        return;
    }
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
}
END_TEST

int main() {
    return arena::test::run_suite("planner measured", {
        published_iteration_times_are_met,
        a_row_becomes_a_plan_and_a_price,
        a_row_that_cannot_be_priced_says_why,
        a_broken_table_is_refused_with_line_and_column,
        the_built_in_table_of_constants_parses_and_is_used,
    });
}
