// SPDX-License-Identifier: GPL-2.0-or-later
// What the scheduler says of itself as JSON, for the socket: explain, stats, snapshot; and what
// jobs say of themselves: reports.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "planner/models/model.h"
#include "plugin/sched/round/scheduler.h"
#include "policy/replay.h"

namespace arena {
namespace {

using Json = nlohmann::json;

Json parsed(const std::string& text) { return Json::parse(text, nullptr, false); }

std::string dump(const Json& json) {
    // User text (names, comments) may hold bytes that are not UTF-8: replaced, never thrown about.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

/// job_modify has checked that it is the job's plan; what cannot be used all the same is said.
void Scheduler::observe(const LeftReport& left, double now_s) {
    const auto request = parse_record(left.record);
    const auto offer = parse_offer_json(left.offer_json);
    if (!request || !offer || !check_model(request->model)) return;
    const auto estimate = offers_book_.price(*request, *offer);
    const Observation observation{offer->grid, offer->plan, left.report.iteration_s,
                                  estimate.value_or(offer->estimate).iteration_s,
                                  left.report.spread};
    const ObservedRun run{fingerprint(request->model),
                          request->model.name,
                          request->global_batch,
                          request->launcher,
                          observation,
                          left.report.steps,
                          left.job,
                          now_s,
                          left.user,
                          false,
                          {}};
    if (config_.use_reports ? !offers_book_.observe(run) : !is_usable(observation))
        return host_.log_error(
            fmt::format("JobId={} its report is left out: 8 times off the estimate of "
                        "{:.4g} s, or more",
                        left.job, observation.estimated_s));
    ++stats_.reports;
    measurements_.keep_observed(run);
    const bool waits = config_.use_reports && !offers_book_.latest_counts(run);
    host_.log_info(fmt::format(
        "JobId={} observed {:.4g} s per iteration with {} {}, estimated {:.4g} s{}", left.job,
        observation.iteration_s, short_form(offer->grid), short_form(offer->plan),
        observation.estimated_s,
        waits ? fmt::format(": more than {:g} times off, it counts when {} jobs of uid {} agree",
                            max_single_ratio, outlier_jobs, left.user)
              : ""));
}

std::string Scheduler::explain(JobId job, bool privileged, std::uint32_t uid) {
    const auto at = last_.find(job);
    if (at == last_.end() || (!privileged && at->second.uid != uid)) return {};
    const Last& last = at->second;
    Json json{{"schema_version", 1},
              {"job", job},
              {"state", last.state},
              {"reason", with_refused_update(job, last.reason)},
              {"unmeasured", last.unmeasured},
              {"chosen", -1},
              {"left_out", ""},
              {"offers", Json::array()},
              {"infeasible", Json::array()}};
    if (last.offers) {
        for (std::size_t i = 0; i < last.offers->size(); ++i) {
            const Offer& offer = (*last.offers)[i];
            if (last.chosen == offer.grid) json["chosen"] = i;
            json["offers"].push_back(parsed(to_json(offer)));
        }
    }
    if (!last.wish || !last.pools || last.pools->empty()) return dump(json);
    const OfferBook::Grids* grids = offers_book_.grids(last.uid, last.wish->request, *last.pools);
    json["left_out"] =
        grids ? grids->left_out
              : "what is not possible, and why, is being worked out: ask again in a few seconds";
    if (grids)
        for (const Infeasible& grid : grids->infeasible)
            json["infeasible"].push_back(
                {{"grid", parsed(to_json(grid.grid))}, {"reason", grid.reason}});
    return dump(json);
}

/// Others' runs are no business of a user's, as others' jobs are none of arena explain's.
nlohmann::json Scheduler::profile_users(bool privileged, std::uint32_t uid) const {
    Json users = Json::array();
    for (const auto& [user, account] : profiles_.turns().accounts())
        if (privileged || user == uid)
            users.push_back({{"uid", user},
                             {"runs_last_hour", account.starts.size()},
                             {"gpu_s", account.gpu_s}});
    return users;
}

std::string Scheduler::stats_json(bool privileged, std::uint32_t uid) const {
    const PlanDesk::Stats planning = offers_book_.planning();
    const double rounds = static_cast<double>(std::max<std::uint64_t>(stats_.timed_rounds, 1));
    const Json json{
        {"schema_version", 1},
        {"policy", policy_->name},
        {"rounds", stats_.rounds},
        {"round_ms",
         {{"last", stats_.last_ms}, {"mean", stats_.total_ms / rounds}, {"max", stats_.max_ms}}},
        {"last_round_ms",
         {{"survey", stats_.survey_ms},
          {"collect", stats_.collect_ms},
          {"plan", stats_.plan_ms},
          {"decide", stats_.decide_ms},
          {"apply", stats_.apply_ms},
          {"forecast", stats_.forecast_ms}}},
        {"lock_ms",
         {{"read_max", host_.lock_times().read_max_ms},
          {"write_max", host_.lock_times().write_max_ms},
          {"read_cpu_max", host_.lock_times().read_cpu_max_ms},
          {"write_cpu_max", host_.lock_times().write_cpu_max_ms}}},
        {"planning",
         {{"waiting", planning.waiting},
          {"made", planning.made},
          {"in_part", planning.in_part},
          {"longest_ms", 1000 * planning.longest_s}}},
        {"jobs", {{"pending", stats_.jobs_pending}, {"running", stats_.jobs_running}}},
        {"decisions",
         {{"starts", stats_.starts},
          {"releases", stats_.releases},
          {"reholds", stats_.reholds},
          {"checkpoints", stats_.checkpoints},
          {"moves", stats_.moves},
          {"requeues", stats_.requeues},
          {"opt_outs", stats_.opt_outs}}},
        {"reports", stats_.reports},
        {"dropped", {{"stale", stats_.stale}, {"failed_starts", stats_.failed_starts}}},
        {"profiles",
         {{"running", profiles_.running()},
          {"imported", profiles_.imported()},
          {"failed", profiles_.failed()},
          {"users", profile_users(privileged, uid)}}},
        {"faults", stats_.faults}};
    return dump(json);
}

void Scheduler::forget_times() {
    stats_.timed_rounds = 0;
    stats_.max_ms = stats_.total_ms = 0;
    host_.forget_lock_times();
}

std::string Scheduler::snapshot_json() const {
    return to_json(Replay{snapshot_, offers_, policy_options_, std::string(policy_->name)}) + "\n";
}

}  // namespace arena
