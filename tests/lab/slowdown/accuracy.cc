// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/slowdown/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "base/statistics.h"
#include "tests/lab/slowdown/truth/accuracy.h"

namespace arena::cli {
namespace {

constexpr double most_error = 0.012;
constexpr std::size_t most_bytes = 256 << 20;

/// The last life that was watched.
Result<std::string> newest_of(std::int64_t job) {
    const std::string parent = fmt::format("arena-watch-{}", job);
    std::string newest;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(parent, error))
        if (entry.path().filename().string().starts_with("log_"))
            newest = std::max(newest, entry.path().string());
    if (!newest.empty()) return newest;
    return environment_error(
        "has no log of a watched job: nothing was slow (ARENA_WATCH_LOG_DIR "
        "in the job asks for one always), or --watched names another place",
        parent);
}

Result<std::string> estimates_file(const AccuracyFiles& files) {
    std::string path = files.watched;
    if (path.empty()) {
        if (files.job == 0)
            return usage_error("needs the job's number, or --watched", "--accuracy");
        const auto newest = newest_of(files.job);
        if (!newest) return newest.error();
        path = *newest;
    }
    std::error_code error;
    return std::filesystem::is_directory(path, error) ? path + "/events.jsonl" : path;
}

Result<std::vector<slowdown::RankAccuracy>> compare(const AccuracyFiles& files) {
    const auto path = estimates_file(files);
    if (!path) return path.error();
    const auto log = read_user_file(files.log, most_bytes),
               watched = read_user_file(*path, most_bytes);
    if (!log) return log.error();
    if (!watched) return watched.error();
    const auto measured = slowdown::read_measured(*log, files.log);
    if (!measured) return measured.error();
    const auto estimates = slowdown::read_estimates(*watched, *path);
    if (!estimates) return estimates.error();
    auto ranks = slowdown::accuracy_of(*estimates, *measured);
    if (!ranks.empty()) return ranks;
    return no_error(fmt::format("nothing to compare: {} measured iterations in the log, {} runs of "
                                "estimates, of which none has {} iterations and more",
                                measured->size(), estimates->size(), slowdown::shortest_run),
                    *path);
}

void print(const Globals& globals, const std::vector<slowdown::RankAccuracy>& ranks,
           double middle) {
    if (globals.json) {
        Json json{{"schema_version", 1}, {"kind", "accuracy"}, {"median_error", middle}};
        for (const auto& rank : ranks)
            json["ranks"].push_back({{"rank", rank.rank},
                                     {"iterations", rank.iterations},
                                     {"median_error", rank.median_error},
                                     {"p95_error", rank.p95_error}});
        fmt::print("{}\n", dump_json(json));
        return;
    }
    Table table({{"rank", true}, {"iterations", true}, {"median error", true}, {"p95", true}});
    for (const auto& rank : ranks)
        table.add({std::to_string(rank.rank), std::to_string(rank.iterations),
                   fmt::format("{:.2f} %", 100 * rank.median_error),
                   fmt::format("{:.2f} %", 100 * rank.p95_error)});
    fmt::print("{}median error {:.2f} %, {} {:.1f} %\n", table.text(), 100 * middle,
               middle <= most_error ? "within" : "beyond", 100 * most_error);
}

}  // namespace

int show_accuracy(const Globals& globals, const AccuracyFiles& files) {
    const auto ranks = compare(files);
    if (!ranks) return fail(globals, ranks.error());
    std::vector<double> medians;
    for (const auto& rank : *ranks) medians.push_back(rank.median_error);
    std::ranges::sort(medians);
    const double middle = median(medians);
    print(globals, *ranks, middle);
    return middle <= most_error ? exit_yes : exit_no;
}

}  // namespace arena::cli
