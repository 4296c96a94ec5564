// SPDX-License-Identifier: GPL-2.0-or-later
// See observer.h.
#include "plugin/sched/observe/observer.h"

#include <algorithm>

#include "plugin/sched/observe/let_go.h"

namespace arena {
namespace {

constexpr std::size_t latest_lines = 20;

/// In the shape that Slurm gave it: of offers of as many GPUs of its type the fastest, those of its
/// layout first; 0 = there is none.
double iteration_s_on(const Grid& grid, const OfferList& offers) {
    double same = 0, alike = 0;
    const auto take = [](double& least, double iteration_s) {
        if (least == 0 || iteration_s < least) least = iteration_s;
    };
    for (const Offer& offer : *offers) {
        if (offer.grid.gpu_type != grid.gpu_type || offer.grid.gpus() != grid.gpus()) continue;
        take(alike, offer.estimate.iteration_s);
        if (offer.grid.nodes == grid.nodes) take(same, offer.estimate.iteration_s);
    }
    return same > 0 ? same : alike;
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
    host_.let_go = [this](const ClusterView& slurms) {
        arena::let_go(slurms, scheduler_.books(), slurm_);
    };
}

void Observer::round() {
    scheduler_.round();
    note_work();
    tell();
}

void Observer::note_work() {
    const Round& round = scheduler_.last_round();
    for (const JobState& job : round.snapshot.jobs) {
        const auto planned = round.planned.find(job.id);
        if (planned == round.planned.end()) continue;
        Shadow::Work work;
        work.remaining_iterations = job.remaining_iterations;
        const auto grid = watched_->shadow.actual_grid(job.id);
        if (grid && planned->second.offers)
            work.actual_iteration_s = iteration_s_on(*grid, planned->second.offers);
        work.restart_s = round.options.restart.seconds(job.current ? job.current->grid.gpus() : 1);
        watched_->shadow.note_work(job.id, work);
    }
}

void Observer::tell() {
    const double now_s = scheduler_.last_round().view.snapshot.time_s;
    const Shadow::News news = watched_->shadow.take_news();
    for (const std::string& start : news.starts) slurm_.log_info(start);
    if (!news.problem.empty()) slurm_.log_error(news.problem);
    for (const DiaryLine& line : news.both)
        scheduler_.books().history.add({.at_s = now_s,
                                        .job = line.job,
                                        .uid = line.uid,
                                        .state = "observed",
                                        .text = words_of(line, now_s)});
}

Json Observer::json_of(JobId job) const {
    const auto line = watched_->shadow.line(job);
    if (!line) return nullptr;
    Json json = to_json(*line);
    json["words"] = words_of(*line, scheduler_.last_round().view.snapshot.time_s);
    return json;
}

Json Observer::json(bool jobs, std::optional<std::uint32_t> uid) const {
    const double now_s = scheduler_.last_round().view.snapshot.time_s;
    Json json = to_json(watched_->diary.totals());
    json["overlap_gpu_s"] = watched_->shadow.counts().overlap_gpu_s;
    json["left_out"] = watched_->shadow.counts().left_out;
    std::int64_t open = 0;
    Json lines = Json::array();
    const auto add = [&](const DiaryLine& line) {
        const std::string words = words_of(line, now_s);
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
