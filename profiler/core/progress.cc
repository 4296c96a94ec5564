// SPDX-License-Identifier: GPL-2.0-or-later
// See progress.h.
#include "profiler/core/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "base/text.h"

namespace arena {
namespace {

constexpr double file_interval_s = 1;
constexpr int bar_width = 24;

void print_json(const Json& json) {
    std::printf("%s\n", dump_json(json).c_str());
    std::fflush(stdout);
}

std::size_t measured_of(const Profile& p) { return p.entries.size(); }

}  // namespace

void Progress::start(const Device& device, std::size_t wanted, std::size_t reused) {
    const std::lock_guard lock(mutex_);
    wanted_ = wanted;
    begin_s_ = options_.now();
    if (options_.json)
        print_json({{"event", "begin"},
                    {"schema_version", 1},
                    {"device", device.identity()},
                    {"operators", wanted},
                    {"reused", reused}});
    write_file();
}

void Progress::begin(const OpShape& shape) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    if (options_.bar) draw(op_key(shape));
    if (options_.now() - written_s_ >= file_interval_s) write_file();
}

void Progress::measured(const ProfileEntry& e) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    ++done_;
    const std::string key = op_key(e.shape);
    if (options_.lines)
        std::fprintf(stderr, "%4zu/%-4zu %-52s %10s  x%-6lld +-%.1f %%\n", done_, wanted_,
                     key.c_str(), human_seconds(e.seconds).c_str(),
                     static_cast<long long>(e.repeats), 100 * e.spread);
    if (options_.json)
        print_json({{"event", "operator"},
                    {"done", done_},
                    {"of", wanted_},
                    {"op", key},
                    {"seconds", e.seconds},
                    {"repeats", e.repeats},
                    {"spread", e.spread}});
}

void Progress::finish(const Profile& p) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    clear_bar();
    if (!options_.file.empty()) ::unlink(options_.file.c_str());
    if (options_.json)
        print_json({{"event", "end"},
                    {"status", to_string(p.status)},
                    {"reason", p.reason},
                    {"measured", measured_of(p)},
                    {"reused", p.reused},
                    {"wanted", p.wanted},
                    {"device_seconds", p.device_seconds},
                    {"direct_seconds", p.direct_seconds}});
    if (options_.bar || options_.lines)
        std::fprintf(stderr, "arena-profiler: %s\n", summary_of(p).c_str());
}

double Progress::left_s() const {
    const double spent = options_.now() - begin_s_;
    const double budget_left = std::max(0.0, options_.budget_s - spent);
    if (done_ == 0) return budget_left;
    const double per_operator = spent / static_cast<double>(done_);
    return std::min(budget_left,
                    per_operator * static_cast<double>(wanted_ - std::min(done_, wanted_)));
}

void Progress::draw(const std::string& what) {
    const auto filled = static_cast<int>(bar_width * done_ / std::max<std::size_t>(1, wanted_));
    std::fprintf(stderr, "\r\033[K[%.*s%*s] %zu/%zu, about %s left  %.40s", filled,
                 "########################", bar_width - filled, "", done_, wanted_,
                 human_seconds(left_s()).c_str(), what.c_str());
    std::fflush(stderr);
}

void Progress::clear_bar() {
    if (!options_.bar) return;
    std::fprintf(stderr, "\r\033[K");
    std::fflush(stderr);
}

void Progress::write_file() {
    if (options_.file.empty()) return;
    written_s_ = options_.now();
    const std::string text = to_text(ProfileProgress{static_cast<std::int64_t>(done_),
                                                     static_cast<std::int64_t>(wanted_),
                                                     written_s_ - begin_s_, left_s()});
    const Status s = write_file_atomic(options_.file, text);
    if (s) return;
    std::fprintf(stderr, "arena-profiler: progress is not shown: %s\n",
                 s.error().message().c_str());
    options_.file.clear();
}

std::string summary_of(const Profile& p) {
    const auto count = [](std::int64_t n) { return std::to_string(n); };
    std::string text = count(static_cast<std::int64_t>(measured_of(p))) + " operators measured, " +
                       count(p.reused) + " of " + count(p.wanted) + " re-used";
    if (p.wanted > 0) text += " (" + count(100 * p.reused / p.wanted) + " %)";
    text += ", " + human_seconds(p.device_seconds) + " of the device";
    if (p.direct_seconds > 0)
        text += "; running every grid for " + count(direct_iterations) + " iterations would take " +
                human_seconds(p.direct_seconds);
    if (p.direct_seconds > 0 && p.device_seconds > 0) {
        char ratio[32];
        std::snprintf(ratio, sizeof ratio, "%.3g", p.direct_seconds / p.device_seconds);
        text += ", " + std::string(ratio) + " times as much";
    }
    return text;
}

}  // namespace arena
