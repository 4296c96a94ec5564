// SPDX-License-Identifier: GPL-2.0-or-later
// See observer.h.
#include "plugin/sched/observe/observer.h"

#include <algorithm>
#include <chrono>

#include "plugin/sched/observe/let_go.h"

namespace arena {
namespace {

constexpr std::size_t latest_lines = 20;

/// Where the plan's clock is behind, rounds follow each other for so long.
constexpr auto catch_up = std::chrono::milliseconds(50);

std::string words_at(const DiaryLine& line, const Shadow::Counts& counts) {
    return words_of(line, counts.now_s, counts.now_s - counts.behind_s);
}

}  // namespace

Config observing(Config config) {
    config.profile_enabled = false;
    config.loan_enabled = false;
    config.array_enabled = false;
    return config;
}

Observer::Observer(Host& slurm, std::unique_ptr<Watched> watched, const Config& config,
                   std::vector<GpuType> hardware, Calibration calibration, PlanLimits limits)
    : slurm_(slurm),
      watched_(std::move(watched)),
      host_(slurm, watched_->shadow),
      scheduler_(host_, observing(config), std::move(hardware), std::move(calibration),
                 std::move(limits)) {
    host_.look.interval_s = config.interval_s;
    host_.look.let_go = [this](const ClusterView& slurms) {
        arena::let_go(slurms, scheduler_.books(), slurm_);
    };
}

void Observer::round() {
    const auto until = std::chrono::steady_clock::now() + catch_up;
    const auto plans_wait = [this] { return scheduler_.books().offers.planning().waiting > 0; };
    host_.look.is_due = true;
    do {
        scheduler_.round();
        note_work();
        tell();
    } while (is_due() && !plans_wait() && !slurm_.stopping() &&
             std::chrono::steady_clock::now() < until);
}

void Observer::note_work() {
    const Round& round = scheduler_.last_round();
    for (const JobState& job : round.snapshot.jobs) {
        const auto planned = round.planned.find(job.id);
        if (planned == round.planned.end() || !planned->second.offers) continue;
        Shadow::Work work;
        work.remaining_iterations = job.remaining_iterations;
        work.restart_s = round.options.restart.seconds(job.current ? job.current->grid.gpus() : 1,
                                                       job.moves_took_s);
        watched_->shadow.note_work(job.id, work, *planned->second.offers);
    }
}

void Observer::tell() {
    const Shadow::Counts counts = watched_->shadow.counts();
    const Shadow::News news = watched_->shadow.take_news();
    for (const std::string& start : news.starts) slurm_.log_info(start);
    if (!news.problem.empty()) slurm_.log_error(news.problem);
    for (const DiaryLine& line : news.both)
        scheduler_.books().history.add({.at_s = counts.now_s,
                                        .job = line.job,
                                        .uid = line.uid,
                                        .state = "observed",
                                        .text = words_at(line, counts)});
}

Json Observer::json_of(JobId job) const {
    const auto line = watched_->shadow.line(job);
    if (!line) return nullptr;
    Json json = to_json(*line);
    json["words"] = words_at(*line, watched_->shadow.counts());
    return json;
}

Json Observer::json(bool jobs, std::optional<std::uint32_t> uid) const {
    const Shadow::Counts counts = watched_->shadow.counts();
    Json json = to_json(watched_->diary.totals());
    json["overlap_gpu_s"] = counts.overlap_gpu_s;
    json["left_out"] = counts.left_out;
    json["seen_s"] = counts.now_s;
    json["behind_s"] = counts.behind_s;
    const JobId waits_for = watched_->shadow.waits_for();
    const auto awaited = watched_->shadow.line(waits_for);
    const bool may_know = jobs && awaited && (!uid || *uid == awaited->uid);
    json["waits_for"] = may_know ? waits_for : 0;
    std::int64_t open = 0;
    Json lines = Json::array();
    const auto add = [&](const DiaryLine& line) {
        const std::string words = words_at(line, counts);
        const bool shown = jobs && (!uid || *uid == line.uid) && !words.empty();
        if (shown && lines.size() < latest_lines)
            lines.push_back({{"job", line.job}, {"uid", line.uid}, {"words", words}});
    };
    watched_->shadow.visit([&](const DiaryLine& line) {
        ++open;
        add(line);
    });
    const auto& past = watched_->diary.lines();
    for (auto at = past.rbegin(); at != past.rend() && lines.size() < latest_lines; ++at) add(*at);
    json["open"] = open;
    json["lines"] = std::move(lines);
    return json;
}

}  // namespace arena
