// SPDX-License-Identifier: GPL-2.0-or-later
// The analytic estimate against published iteration times (reference data, read in place): bounds a
// little above what tests/bench/planner-accuracy reports, which a broken formula cannot meet.
// Skips, saying so, where the data is absent. And the table's reader, on text that people get
// wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "base/yaml.h"
#include "planner/evaluate/evaluate.h"
#include "planner/evaluate/image_rows.h"
#include "planner/hardware/hardware.h"
#include "planner/operators/cost.h"
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
    check_text(
        reason([](MeasuredRow& r) { r.attention = "paged"; }),
        "not expressible: attn 'paged'; known are flash, cudnn, sdpa, xformers, fused-softmax, "
        "unfused, nothing");
    check_text(reason([](MeasuredRow& r) { r.status = "fine"; }),
               "not expressible: status 'fine'; known are ok, OOM, memory_only, nothing");
}

TEST(what_the_table_of_constants_does_not_name_is_said) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    row.intra_link = "NVSwitch3", row.inter_gbps = 1600;
    const EvaluatedRow known = evaluate_row(row, {*hardware, builtin_calibration()});
    ck_assert(known.known_framework && known.known_device && known.known_network);
    row.framework = "mine", row.intra_link = "string", row.gpu = "L4";
    const EvaluatedRow unknown = evaluate_row(row, {*hardware, builtin_calibration()});
    ck_assert_msg(unknown.priced(), "%s", unknown.reason.c_str());
    ck_assert(!unknown.known_framework && !unknown.known_device && !unknown.known_network);
}

// What one cluster got wrong counts where its words are said, or its name asked for.
TEST(a_named_network_is_for_those_that_say_its_words) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    row.gpus = 64, row.gpus_per_node = 8, row.tp = 1, row.pp = 1, row.dp = 64;
    row.intra_link = "NVSwitch3", row.inter_gbps = 400, row.global_batch = 256;
    const auto seconds = [&](const char* notes) {
        row.notes = notes;
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s", out.reason.c_str());
        return out.estimate.dp_comm_s;
    };
    ck_assert_double_gt(seconds("4x100Gb Omni-Path per node"), 4 * seconds("4x100 Gb/s RoCE"));
    const NetworkConstants* named = builtin_calibration().named_network("ompath-one-nic");
    ck_assert(named != nullptr && named->share < 0.2);
    ck_assert(builtin_calibration().named_network("ib-hdr") == nullptr);
    std::string entry =
        "gpu_types:\n  - {name: x, memory_gib: 80, tflops: {bf16: 312}, memory_gb_per_s: 2039, "
        "sm_count: 108, gpus_per_node: 8, intra: {name: nvlink3, gb_per_s: 300, alpha_us: 10}, "
        "inter: {name: ompath-one-nic, gb_per_s: 50, alpha_us: 25}}\n";
    const auto site = must(parse_hardware(entry, "site.yaml"));
    ck_assert_double_eq(site[0].inter.bytes_per_s, named->share * 50e9);
    for (const Calibration::Network& network : builtin_calibration().networks)
        ck_assert_msg(!network.name.empty() || network.constants.share >= 0.5, "%s %g",
                      network.intra_link.c_str(), network.inter_gbps);
    ck_assert(!parse_calibration("networks:\n  - {intra_link: x, words: [y]}\n", "c",
                                 builtin_calibration())
                   .ok());
}

TEST(a_device_of_which_only_the_data_sheet_is_known_has_a_wide_error_bound) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    const auto bound = [&](const char* gpu) {
        row.gpu = gpu;
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s: %s", gpu, out.reason.c_str());
        const bool is_sheet = std::string_view(gpu) != "A100";
        ck_assert_msg((out.estimate.source == Source::data_sheet) == is_sheet, "%s: %s", gpu,
                      std::string(to_string(out.estimate.source)).c_str());
        return out.estimate.error_bound;
    };
    for (const char* gpu : {"MI250X",
                            "MI300X",
                            "MI325X",
                            "MI350X",
                            "MI355X",
                            "Gaudi2",
                            "Gaudi3",
                            "GH200",
                            "H100-NVL",
                            "H200-NVL",
                            "H20",
                            "H800",
                            "L40",
                            "RTX-5090",
                            "RTX-PRO-6000",
                            "RTX-6000-Ada",
                            "GB200-NVL4",
                            "Rubin",
                            "A100-80GB-3g.40gb",
                            "H100-4g.40gb"})
        ck_assert_msg(bound(gpu) > bound("A100") + 0.05, "%s: %g", gpu, bound(gpu));
}

/// Of each source of ten timed runs or more, nine of ten are within what their estimates say; and
/// estimates of experts and of lists of layers, which are known less, say more.
TEST_NEEDING(error_bounds_hold_for_nine_of_ten_measured_runs,
             arena::test::lacks_reference("measured/measured2.csv")) {
    const auto hardware = must(load_hardware(""));
    std::map<std::string, std::pair<int, int>> held;  // source -> runs within their bound, runs
    for (const char* table : {"/measured/measured.csv", "/measured/measured2.csv"}) {
        const std::string file = arena::test::reference_data() + table;
        const auto rows =
            must(parse_measured(must(read_regular_file(file, max_measured_bytes)), file));
        for (const EvaluatedRow& row : evaluate_rows(rows, {hardware, builtin_calibration()})) {
            if (!row.timed()) continue;
            auto& [within, all] = held[row.row->source];
            within += std::fabs(row.error()) <= row.estimate.error_bound ? 1 : 0;
            ++all;
            ck_assert_msg(row.estimate.error_bound < 0.81 && row.estimate.error_bound > 0.25, "%g",
                          row.estimate.error_bound);
        }
    }
    ck_assert_uint_gt(held.size(), 20);
    for (const auto& [source, n] : held)
        ck_assert_msg(n.second < 10 || n.first >= 0.9 * n.second, "%s: %d of %d", source.c_str(),
                      n.first, n.second);
}

// Published: models of 8 billion train 1.32 to 1.40 times as fast on H200, though the sheet says
// 0.76.
TEST(eight_billion_parameters_train_faster_on_h200_than_on_mi300x) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    row.framework = "Megatron-LM", row.family = "llama", row.layers = 32, row.hidden = 4096;
    row.heads = 32, row.kv_heads = 8, row.ffn_hidden = 14336, row.vocab = 128256, row.seq = 8192;
    row.tp = 1, row.pp = 1, row.dp = 8, row.micro_batch = 1, row.global_batch = 128;
    row.precision = "bf16", row.sharding = "distopt", row.recompute = "none";
    const auto seconds = [&](const char* gpu) {
        row.gpu = gpu;
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s: %s", gpu, out.reason.c_str());
        return out.estimate.iteration_s;
    };
    const double faster = seconds("MI300X") / seconds("H200");
    ck_assert_msg(faster > 1.3 && faster < 1.42, "%g", faster);
}

// The table has no column for it: 32 heads of 80 would make 2560, and the model has heads of 128.
TEST(a_row_of_a_built_in_model_has_the_models_size_of_heads) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    row.family = "llama", row.layers = 36, row.hidden = 2560, row.heads = 32, row.kv_heads = 8;
    row.ffn_hidden = 9728, row.vocab = 151936, row.tp = 1, row.pp = 1, row.dp = 8;
    const auto seconds = [&] {
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s", out.reason.c_str());
        return out.estimate.compute_s;
    };
    const double known = seconds();
    row.vocab += 128;  // nobody's
    ck_assert_double_gt(known, 1.03 * seconds());
}

// A constant on its bound carries what something else got wrong.
TEST(no_fitted_constant_sits_on_its_bound) {
    const char* dir = std::getenv("ARENA_SRCDIR");
    const std::string text = must(read_regular_file(
        std::string(dir == nullptr ? "." : dir) + "/etc/calibration.yaml", 1 << 20));
    const YamlNode root =
        must(parse_yaml(text, "c", {.bytes = 1 << 20, .depth = 8, .scalars = 32768}));
    const YamlNode* bounds = root.find("bounds");
    ck_assert(bounds != nullptr);
    std::size_t fitted = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        const std::size_t colon = line.find(": "), mark = line.find("# fit");
        if (mark == std::string::npos || colon > mark) continue;
        const std::string key =
            line.substr(line.find_first_not_of(' '), colon - line.find_first_not_of(' '));
        const YamlNode* pair = bounds->find(key);
        ck_assert_msg(pair != nullptr, "%s has no bounds", key.c_str());
        const double low = must(yaml_number(pair->items[0], "c", key, 0, 1e6)),
                     high = must(yaml_number(pair->items[1], "c", key, 0, 1e6)),
                     value = std::strtod(line.c_str() + colon + 2, nullptr);
        const double slack = 0.005 * (high - low);
        ck_assert_msg(value > low + slack && value < high - slack, "%s: %g in %g..%g", key.c_str(),
                      value, low, high);
        ++fitted;
    }
    ck_assert_uint_gt(fitted, 30);
    for (const char* bad : {"bounds:\n  gemm_shar: [0, 1]\n", "bounds:\n  gemm_share: [1, 0]\n",
                            "bounds:\n  gemm_share: 1\n", "bounds: 1\n"})
        ck_assert_msg(!parse_calibration(bad, "c", builtin_calibration()).ok(), "%s", bad);
}

// Collectives that hide behind matrix products need a link by which ranks write into each other's
// memory.
TEST(tensor_parallel_collectives_hide_over_nvlink_alone) {
    const GpuType l40s = *find_hardware(*load_hardware(""), "L40S");
    GpuType linked = l40s;
    linked.intra.name = "nvlink4";  // as fast
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    row.framework = "NeMo", row.gpu = "L40S", row.sequence_parallel = true;
    const auto comm_s = [&](const GpuType& type) {
        const EvaluatedRow out = evaluate_row(row, {{type}, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s", out.reason.c_str());
        return out.estimate.tp_comm_s;
    };
    ck_assert_double_gt(comm_s(l40s), 1.3 * comm_s(linked));
}

// Frozen weights: no gradients of them, none exchanged, states of the adapters alone.
TEST(adapters_beside_frozen_weights_cost_less_than_training_all) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    row.framework = "NeMo", row.family = "llama", row.layers = 80, row.hidden = 8192;
    row.heads = 64, row.kv_heads = 8, row.ffn_hidden = 28672, row.vocab = 32000, row.seq = 8192;
    row.tp = 4, row.pp = 1, row.dp = 2, row.micro_batch = 1, row.global_batch = 8;
    row.precision = "bf16", row.sharding = "distopt", row.recompute = "none", row.gpu = "H200";
    row.sequence_parallel = true;
    const auto price = [&](const char* kind, const char* notes, const char* sharding) {
        row.kind = kind, row.notes = notes, row.sharding = sharding;
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s", out.reason.c_str());
        return out.estimate;
    };
    const Estimate all = price("dense", "", "distopt"), all3 = price("dense", "", "zero3");
    const Estimate few = price("lora", "LoRA r16 on attention", "distopt"),
                   more = price("lora", "LoRA r64", "distopt"),
                   few3 = price("lora", "LoRA r16 on attention", "zero3"),
                   four = price("lora", "QLoRA r16 on attention", "distopt");
    ck_assert_double_lt(few.compute_s, 0.8 * all.compute_s);  // two of three passes
    ck_assert_double_gt(few.compute_s, 0.6 * all.compute_s);
    ck_assert_double_lt(few.dp_comm_s, 0.1 * all.dp_comm_s);
    ck_assert_double_lt(few.memory_bytes_per_gpu, 0.5 * all.memory_bytes_per_gpu);
    ck_assert_double_lt(few3.memory_bytes_per_gpu, 0.5 * all3.memory_bytes_per_gpu);
    ck_assert_double_gt(few3.dp_comm_s, 0);  // frozen weights are gathered all the same
    ck_assert_double_gt(more.compute_s, few.compute_s);
    ck_assert_double_gt(more.memory_bytes_per_gpu, few.memory_bytes_per_gpu);
    ck_assert_double_lt(four.memory_bytes_per_gpu, few.memory_bytes_per_gpu - 20e9);
    ck_assert_double_gt(four.compute_s, few.compute_s);
    row.framework = "Megatron-Bridge";  // whose recipes adapt one matrix
    ck_assert_double_lt(price("lora", "LoRA, packed", "distopt").compute_s,
                        price("lora", "LoRA r16 on attention", "distopt").compute_s);
}

TEST(convolutions_are_priced_by_constants_of_their_own) {
    const GpuType h100 = *find_hardware(*load_hardware(""), "H100");
    CostConstants c = builtin_calibration().constants(h100.name, "MXNet");
    const OpShape conv{
        OpKind::conv, Pass::forward, Precision::fp16, {256, 256, 256, 28}, ConvVariant{3, 1, {}}};
    const OpShape gemm{OpKind::gemm, Pass::forward, Precision::fp16, {8192, 8192, 8192, 1}};
    const double conv_s = analytic_seconds(h100, c, conv), gemm_s = analytic_seconds(h100, c, gemm);
    c.device.gemm_share /= 2, c.device.gemm_ramp *= 8;
    ck_assert_double_eq(analytic_seconds(h100, c, conv), conv_s);
    ck_assert_double_gt(analytic_seconds(h100, c, gemm), 2 * gemm_s);
    c.framework.conv_layout_passes = 1;
    ck_assert_double_gt(analytic_seconds(h100, c, conv), conv_s);
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

// FLOPs of a forward pass as published (twice the multiply-adds), and parameters.
TEST(networks_for_images_are_the_published_variants_of_their_names) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    row.framework = "PyTorch-DDP", row.seq = 0, row.image_width = row.image_height = 224;
    row.gpus = 1, row.tp = row.pp = row.dp = 1, row.global_batch = row.micro_batch = 128;
    row.gpu = "A100-80GB", row.recompute = "none", row.hidden = row.heads = 0;
    struct {
        const char *family, *model;
        std::int64_t layers;
        double gflops, millions;
    } const known[] = {
        {"vit", "ViT-B/16", 12, 35.2, 86},       {"vit", "ViT-B/32", 12, 8.8, 88},
        {"deit", "DeiT-S", 12, 9.2, 22},         {"convnext", "ConvNeXt-B", 36, 30.8, 88},
        {"convnext", "ConvNeXt-T", 18, 9.0, 28}, {"swin", "Swin-T", 12, 9.0, 28},
        {"resnet", "ResNet-34", 34, 7.3, 21},    {"resnet", "ResNet-18", 18, 3.6, 11}};
    for (const auto& k : known) {
        row.family = k.family, row.model = k.model, row.layers = k.layers;
        const Model model = must(image_row_model(row, Precision::fp16));
        double flops = 0, parameters = 0;
        for (const CustomLayer& layer : model.custom_layers) {
            flops += static_cast<double>(layer.count) * layer.forward_flops;
            parameters += static_cast<double>(layer.count) * layer.parameter_bytes / 2;
        }
        ck_assert_msg(std::fabs(flops / 1e9 / k.gflops - 1) < 0.08, "%s: %g", k.model, flops / 1e9);
        ck_assert_msg(std::fabs(parameters / 1e6 / k.millions - 1) < 0.08, "%s: %g", k.model,
                      parameters / 1e6);
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s: %s", k.model, out.reason.c_str());
    }
    row.family = "swin", row.model = "Swin-XXL";
    check_text(evaluate_row(row, {*hardware, builtin_calibration()}).reason,
               "no published swin is called 'Swin-XXL'");
}

TEST(notes_say_what_is_held_and_what_is_computed_again) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    row.recompute = "none", row.precision = "bf16", row.pp = 1, row.dp = 4;
    const auto price = [&](const char* notes) {
        row.notes = notes;
        const EvaluatedRow out = evaluate_row(row, {*hardware, builtin_calibration()});
        ck_assert_msg(out.priced(), "%s", out.reason.c_str());
        return out.estimate;
    };
    const Estimate plain = price("");
    const Estimate again = price("recomputes norm and activation functions only");
    ck_assert_double_lt(again.memory_bytes_per_gpu, 0.95 * plain.memory_bytes_per_gpu);
    ck_assert_double_gt(again.compute_s, plain.compute_s);
    ck_assert_double_lt(again.compute_s, 1.1 * plain.compute_s);
    const Estimate eight = price("8-bit optimizer"), sixteen = price("bf16 optimizer states"),
                   paged = price("8-bit paged optimizer in backward");
    ck_assert_double_lt(sixteen.memory_bytes_per_gpu, plain.memory_bytes_per_gpu);
    ck_assert_double_lt(eight.memory_bytes_per_gpu, sixteen.memory_bytes_per_gpu);
    ck_assert_double_lt(paged.memory_bytes_per_gpu, eight.memory_bytes_per_gpu);
    ck_assert_double_lt(price("Liger fused loss").memory_bytes_per_gpu, plain.memory_bytes_per_gpu);
    ck_assert_double_eq(eight.compute_s, plain.compute_s);
    row.framework.clear(), row.attention = "flash";  // whose kernels are not fused
    const double eager_s = price("").iteration_s, fused_s = price("fused loss").iteration_s;
    ck_assert_double_lt(fused_s, eager_s);
    ck_assert_double_lt(price("Liger fused loss").iteration_s, fused_s);
    ck_assert_double_lt(price("FlashAttention 4").iteration_s, eager_s);
}

TEST(names_of_gpus_in_published_tables_are_entries) {
    const auto hardware = load_hardware("");
    MeasuredRow row = parse_measured(std::string(header) + good, "t.csv")->front();
    for (const char* gpu :
         {"H100-HBM2e-96GB(500W)", "A100-PCIe", "A100-PCIe-80GB", "A10-PCIe-24GB", "A30-PCIe-24GB",
          "RTX-A5000-24GB", "T4-16GB", "H200-SXM-141GB", "GB200-NVL72", "GB300-NVL72",
          "B200-SXM-180GB", "B300-SXM-288GB", "MI325X-256GB", "RTX-5090", "H200-NVL-141GB",
          "V100-SXM-16GB", "V100-SXM-32GB", "A100-SXM-40GB"}) {
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
