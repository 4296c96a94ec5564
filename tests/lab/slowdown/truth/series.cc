// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/slowdown/truth/series.h"

#include <algorithm>

#include "base/csv.h"
#include "base/statistics.h"

namespace arena::slowdown {
namespace {

constexpr double longest_s = 1e9, least_s = 1e-9, most_tokens = 1e15;
constexpr std::size_t near = 6;  ///< iterations between a label and its report

double share_of(std::size_t part, std::size_t all) {
    return all == 0 ? 1 : static_cast<double>(part) / static_cast<double>(all);
}

std::size_t distance(std::size_t a, std::size_t b) { return a < b ? b - a : a - b; }

}  // namespace

Result<std::map<std::string, Series>> parse_series(std::string_view text, const std::string& file) {
    auto csv = sim::Csv::open(text, file, {"series", "iter_time_s"});
    if (!csv) return csv.error();
    std::map<std::string, Series> all;
    while (csv->next()) {
        SeriesSample sample;
        sample.time_s = csv->number("iter_time_s", least_s, longest_s);
        if (csv->has("tokens")) sample.tokens = csv->number("tokens", 1, most_tokens);
        all[std::string(csv->word("series"))].push_back(sample);
    }
    if (csv->error()) return *csv->error();
    return all;
}

Result<std::map<std::string, std::vector<Label>>> parse_labels(std::string_view text,
                                                               const std::string& file) {
    auto csv = sim::Csv::open(text, file, {"series", "iteration", "kind", "must_detect"});
    if (!csv) return csv.error();
    std::map<std::string, std::vector<Label>> all;
    while (csv->next()) {
        Label label;
        label.at = static_cast<std::size_t>(csv->integer("iteration", 0, 1'000'000'000));
        const std::string_view kind = csv->word("kind");
        if (kind != "onset" && kind != "relief") csv->refuse("kind is not onset or relief");
        label.is_onset = kind == "onset";
        label.must_detect = csv->integer("must_detect", 0, 1) == 1;
        all[std::string(csv->word("series"))].push_back(label);
    }
    if (csv->error()) return *csv->error();
    return all;
}

Result<std::vector<Change>> detect(const Series& series, const DetectorOptions& options) {
    Detector detector(options);
    std::vector<Change> changes;
    for (const SeriesSample& sample : series) {
        const auto change = detector.add(sample.time_s, sample.tokens);
        if (!change) return change.error();
        if (*change) changes.push_back(**change);
    }
    return changes;
}

DetectionScore::Faults DetectionScore::add(std::span<const Label> labels,
                                           std::span<const Change> changes) {
    Faults faults;
    std::vector<bool> taken(labels.size());
    for (const Change& change : changes) {
        ++reports;
        std::size_t best = labels.size();
        for (std::size_t i = 0; i < labels.size(); ++i) {
            const std::size_t off = distance(change.change_at, labels[i].at);
            if (taken[i] || off > near) continue;
            if (best == labels.size() || off < distance(change.change_at, labels[best].at))
                best = i;
        }
        if (best == labels.size()) {
            faults.untrue.push_back(change);
            continue;
        }
        const Label& label = labels[best];
        taken[best] = true;
        ++right;
        wrong_signs += change.is_onset() != label.is_onset;
        if (!label.must_detect) continue;
        ++found;
        latencies.push_back(change.reported_at - std::min(label.at, change.reported_at));
    }
    for (std::size_t i = 0; i < labels.size(); ++i) {
        wanted += labels[i].must_detect;
        if (labels[i].must_detect && !taken[i]) faults.missed.push_back(labels[i]);
    }
    quiet += labels.empty();
    flagged += labels.empty() && !changes.empty();
    return faults;
}

double DetectionScore::recall() const { return share_of(found, wanted); }
double DetectionScore::precision() const { return share_of(right, reports); }

double DetectionScore::latency(double share) const {
    std::vector<double> sorted(latencies.begin(), latencies.end());
    std::sort(sorted.begin(), sorted.end());
    return percentile(sorted, share);
}

}  // namespace arena::slowdown
