// SPDX-License-Identifier: GPL-2.0-or-later
// Series of iteration times: reports of slowdowns against labels.
#include <fmt/format.h>

#include "base/csv.h"
#include "tests/lab/slowdown/kinds.h"
#include "tests/lab/slowdown/truth/series.h"

namespace arena::cli {
namespace {

using slowdown::Change;
using slowdown::DetectorOptions;

constexpr double least_recall = 0.98, least_precision = 0.95;
constexpr double median_latency = 5, p95_latency = 8;
constexpr std::size_t quiet_per_flag = 12;  ///< series without event, of which one may be flagged
constexpr std::size_t most_listed = 100;

using Reports = std::map<std::string, std::vector<Change>>;

Result<Reports> detect_all(const SlowdownFile& file, const DetectorOptions& options) {
    const auto series = slowdown::parse_series(file.text, file.path);
    if (!series) return series.error();
    if (series->empty()) return usage_error("no rows", file.path);
    Reports reports;
    for (const auto& [name, samples] : *series) {
        auto changes = slowdown::detect(samples, options);
        if (!changes) return usage_error(changes.error().text, file.path + ": series " + name);
        reports.emplace(name, std::move(*changes));
    }
    return reports;
}

const char* kind_of(const Change& change) { return change.is_onset() ? "onset" : "relief"; }

Json json_of(const std::string& series, const Change& change) {
    return {{"series", series},
            {"reported_at", change.reported_at},
            {"change_at", change.change_at},
            {"ratio_after_before", change.ratio()},
            {"probability", change.probability},
            {"kind", kind_of(change)},
            {"evidence", slowdown::name_of(change.evidence)}};
}

void list(Json& to, Json entry) {
    if (to.size() < most_listed) to.push_back(std::move(entry));
}

/// Of another detector's reports, how many were made here too.
Status compare(const SlowdownFile& file, const Reports& reports, SlowdownReport& report) {
    auto csv = sim::Csv::open(file.text, file.path, {"series", "change_at"});
    if (!csv) return csv.error();
    std::size_t all = 0, same = 0;
    while (csv->next()) {
        const auto at = csv->integer("change_at", 0, 1'000'000'000);
        const auto own = reports.find(std::string(csv->word("series")));
        if (own == reports.end()) continue;
        ++all;
        for (const Change& change : own->second)
            if (std::abs(static_cast<std::int64_t>(change.change_at) - at) <= 6) {
                ++same;
                break;
            }
    }
    if (csv->error()) return *csv->error();
    report.metrics["reference_reports"] = all;
    report.metrics["reference_reports_shared"] = same;
    return Done{};
}

void judge(const slowdown::DetectionScore& score, SlowdownReport& report) {
    const std::size_t may_flag = (score.quiet + quiet_per_flag - 1) / quiet_per_flag;
    const auto least = [&](const char* name, double got, double want) {
        report.metrics[name] = got;
        report.expect(name, got >= want, got, fmt::format(">= {}", want));
    };
    const auto most = [&](const char* name, double got, double want) {
        report.metrics[name] = got;
        report.expect(name, got <= want, got, fmt::format("<= {}", want));
    };
    least("recall", score.recall(), least_recall);
    least("precision", score.precision(), least_precision);
    most("latency_median", score.latency(0.5), median_latency);
    most("latency_p95", score.latency(0.95), p95_latency);
    most("quiet_series_flagged", static_cast<double>(score.flagged), static_cast<double>(may_flag));
    most("wrong_signs", static_cast<double>(score.wrong_signs), 0);
    report.metrics["quiet_series"] = score.quiet;
    report.metrics["labels"] = score.wanted;
    report.metrics["reports"] = score.reports;
}

Status evaluate(const SlowdownFiles& files, const DetectorOptions& options,
                SlowdownReport& report) {
    const auto reports = detect_all(files.at("series"), options);
    if (!reports) return reports.error();
    const SlowdownFile& known = files.at("labels");
    const auto labels = slowdown::parse_labels(known.text, known.path);
    if (!labels) return labels.error();
    for (const auto& [name, unused] : *labels)
        if (!reports->contains(name))
            return usage_error("series " + name + " is not in " + files.at("series").path,
                               known.path);
    slowdown::DetectionScore score;
    Json missed = Json::array(), untrue = Json::array();
    for (const auto& [name, changes] : *reports) {
        const auto own = labels->find(name);
        const auto faults =
            score.add(own == labels->end() ? std::vector<slowdown::Label>{} : own->second, changes);
        for (const auto& label : faults.missed)
            list(missed, {{"series", name}, {"iteration", label.at}});
        for (const Change& change : faults.untrue) list(untrue, json_of(name, change));
    }
    judge(score, report);
    report.metrics["verified"] = options.verify;
    report.metrics["missed"] = missed;
    report.metrics["untrue"] = untrue;
    return files.has("reference") ? compare(files.at("reference"), *reports, report) : Done{};
}

Result<SlowdownAnswer> solve(const SlowdownFiles& files, const DetectorOptions& options) {
    const auto reports = detect_all(files.at("series"), options);
    if (!reports) return reports.error();
    SlowdownAnswer answer{.columns = {"series", "reported_at", "change_at", "ratio_after_before",
                                      "probability", "kind", "evidence"},
                          .rows = {}};
    answer.json["reports"] = Json::array();
    for (const auto& [name, changes] : *reports)
        for (const Change& change : changes) {
            answer.json["reports"].push_back(json_of(name, change));
            answer.rows.push_back(
                {name, fmt::format("{}", change.reported_at), fmt::format("{}", change.change_at),
                 fmt::format("{:.4f}", change.ratio()), fmt::format("{:.4f}", change.probability),
                 kind_of(change), slowdown::name_of(change.evidence)});
        }
    return answer;
}

}  // namespace

SlowdownKind detection_kind() {
    return {.name = "detection",
            .command = "detect",
            .parts = {{"series", {"series", "iter_time_s"}, "_series.csv"},
                      {"labels", {"series", "iteration", "kind", "must_detect"}, "_labels.csv"},
                      {"reference",
                       {"series", "reported_at", "change_at"},
                       "_reference_detections.csv",
                       false},
                      {"meta", {"series", "base_s", "noise_cv"}, "_meta.csv", false}},
            .evaluate = evaluate,
            .solve = solve};
}

}  // namespace arena::cli
