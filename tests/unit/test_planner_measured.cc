// SPDX-License-Identifier: GPL-2.0-or-later
// The analytic estimate against published iteration times (reference data, read in place): a loose
// bound that a broken formula cannot meet. Skips, saying so, where the data is absent.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "core/text.h"
#include "planner/model.h"
#include "planner/planner.h"

// clang-format off
#include <check.h>  // after the C++ library: it defines fail()
// clang-format on

using namespace arena;

namespace {

using Row = std::map<std::string, std::string>;

std::string data_file() {
    const char* given = std::getenv("ARENA_REFERENCE_DATA");
    const char* source = std::getenv("ARENA_SRCDIR");
    const std::string root =
        given != nullptr ? given
                         : std::string(source != nullptr ? source : ".") + "/../shared/data";
    return root + "/measured/measured.csv";
}

std::vector<std::string> csv_fields(const std::string& line) {
    std::vector<std::string> fields(1);
    bool quoted = false;
    for (char c : line) {
        if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted)
            fields.emplace_back();
        else if (c != '\r')
            fields.back() += c;
    }
    return fields;
}

std::vector<Row> read_rows(std::istream& in) {
    std::string line;
    std::getline(in, line);
    const std::vector<std::string> names = csv_fields(line);
    std::vector<Row> rows;
    while (std::getline(in, line)) {
        const std::vector<std::string> fields = csv_fields(line);
        Row row;
        for (std::size_t i = 0; i < std::min(names.size(), fields.size()); ++i)
            row[names[i]] = fields[i];
        rows.push_back(std::move(row));
    }
    return rows;
}

std::int64_t integer(const Row& row, const char* key, std::int64_t otherwise) {
    return parse_integer(row.at(key), 0, std::int64_t{1} << 40).value_or(otherwise);
}

Result<Model> row_model(const Row& row) {
    const std::optional<Family> family = parse_family(row.at("family"));
    const std::optional<Precision> precision = parse_precision(row.at("precision"));
    if (!family || !precision) return usage_error("family or precision");
    Model model;
    model.family = *family;
    set_family_flags(model);
    model.precision = *precision;
    model.layers = integer(row, "layers", 0);
    model.hidden = integer(row, "hidden", 0);
    model.heads = integer(row, "heads", 0);
    model.kv_heads = integer(row, "kv_heads", 0);
    model.ffn_hidden = integer(row, "ffn_hidden", 0);
    model.vocab = integer(row, "vocab", 0);
    model.seq_length = integer(row, "seq", 0);
    return complete_model(std::move(model), "row");
}

struct Priced {
    double measured_s, estimated_s;
};

/// Nothing when the row needs what Plan or Model cannot say.
std::optional<Priced> price_row(const Row& row, const std::vector<GpuType>& hardware) {
    const auto measured = parse_number(row.at("iter_time_s"), 1e-6, 1e6);
    const std::optional<Recompute> recompute = parse_recompute(row.at("recompute"));
    const Result<GpuType> type = find_hardware(hardware, row.at("gpu"));
    const Result<Model> model = row_model(row);
    if (!measured || !recompute || !type || !model || row.at("status") != "ok") return std::nullopt;
    for (const char* key : {"vpp", "cp", "ep"})
        if (integer(row, key, 1) != 1) return std::nullopt;
    GpuPool pool{
        row.at("gpu"), *type, integer(row, "gpus_per_node", 8), integer(row, "gpus", 1), {}};
    if (const auto gbps = parse_number(row.at("inter_gbps_per_node"), 0.1, 1e5))
        pool.hardware.inter.bytes_per_s = *gbps / 8 * 1e9 * 0.75;
    const std::int64_t gpus = integer(row, "gpus", 1),
                       per_node = std::min(gpus, pool.gpus_per_node);
    const std::int64_t pp = integer(row, "pp", 1), dp = integer(row, "dp", 1),
                       tp = integer(row, "tp", 1);
    const std::int64_t batch = integer(row, "gbs", 1);
    Plan plan;
    plan.micro_batch = integer(row, "mbs", 1);
    if (gpus % per_node != 0 || batch % (dp * plan.micro_batch) != 0 || pp > model->layers)
        return std::nullopt;
    plan.num_micro_batches = batch / (dp * plan.micro_batch);
    for (std::int64_t i = 0; i < pp; ++i)
        plan.stage_layers.push_back(model->layers / pp + (i < model->layers % pp ? 1 : 0));
    plan.stage_dp.assign(plan.stage_layers.size(), dp);
    plan.stage_tp.assign(plan.stage_layers.size(), tp);
    plan.recompute = *recompute;
    plan.sequence_parallel = row.at("seq_parallel") == "1";
    const std::string& sharding = row.at("sharding");
    plan.zero_stage = sharding == "distopt"          ? 1
                      : sharding.starts_with("zero") ? sharding[4] - '0'
                                                     : 0;
    const auto estimate =
        price_plan(*model, batch, {row.at("gpu"), gpus / per_node, per_node, pp}, plan, pool);
    if (!estimate) return std::nullopt;
    return Priced{*measured, estimate->iteration_s};
}

struct Score {
    double absolute = 0, bias = 0;
    int rows = 0;
};

std::map<std::string, Score> score_sources(const std::vector<Row>& rows,
                                           const std::vector<GpuType>& hardware) {
    std::map<std::string, Score> scores;
    for (const Row& row : rows) {
        const std::optional<Priced> priced = price_row(row, hardware);
        if (!priced) continue;
        const double error = priced->estimated_s / priced->measured_s - 1;
        Score& score = scores[row.at("source")];
        score.absolute += std::fabs(error);
        score.bias += error;
        ++score.rows;
    }
    return scores;
}

}  // namespace

START_TEST(published_iteration_times_are_met_within_a_loose_bound) {
    std::ifstream in(data_file());
    if (!in) {
        std::printf("SKIP: no reference data at %s\n", data_file().c_str());
        return;
    }
    const auto hardware = load_hardware("");
    ck_assert_msg(hardware.ok(), "%s", hardware.ok() ? "" : hardware.error().message().c_str());
    const std::map<std::string, Score> scores = score_sources(read_rows(in), *hardware);
    for (const auto& [source, score] : scores)
        std::printf("%-26s rows %4d  mean |error| %5.1f %%  bias %+6.1f %%\n", source.c_str(),
                    score.rows, 100 * score.absolute / score.rows, 100 * score.bias / score.rows);
    const auto vtrain = scores.find("vTrain");
    ck_assert(vtrain != scores.end() && vtrain->second.rows > 500);
    ck_assert_double_lt(vtrain->second.absolute / vtrain->second.rows, 0.25);
    ck_assert_double_lt(std::fabs(vtrain->second.bias / vtrain->second.rows), 0.20);
}
END_TEST

int main() {
    Suite* suite = suite_create("planner measured");
    TCase* cases = tcase_create("measured");
    tcase_add_test(cases, published_iteration_times_are_met_within_a_loose_bound);
    suite_add_tcase(suite, cases);
    SRunner* runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
