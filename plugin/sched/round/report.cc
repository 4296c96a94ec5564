// SPDX-License-Identifier: GPL-2.0-or-later
// See report.h.
#include "plugin/sched/round/report.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "planner/models/model.h"
#include "plugin/sched/history/job_account.h"
#include "plugin/sched/host/pool_counts.h"
#include "plugin/sched/promises/promise_words.h"

namespace arena {
namespace {

Json parsed(const std::string& text) { return Json::parse(text, nullptr, false); }

std::string line(const Json& json) { return dump_json(json) + "\n"; }

/// Others' runs are no business of a user's, as others' jobs are none of arena explain's.
Json profile_users(const ProfileTurns& turns, const Asker& asker) {
    Json users = Json::array();
    for (const auto& [user, account] : turns.accounts())
        if (asker.privileged || user == asker.uid)
            users.push_back({{"uid", user},
                             {"runs_last_hour", account.starts.size()},
                             {"gpu_s", account.gpu_s}});
    return users;
}

/// Whether somebody's job may be named to who asks.
bool may_know(const Books& books, JobId job, const Asker& asker) {
    const auto at = books.statuses.find(job);
    return at != books.statuses.end() &&
           (asker.privileged || asker.sees_others || at->second.uid == asker.uid);
}

/// What its owner, or an operator, reads of a job in the queue.
Json place_json(const QueuePosition& place, bool ahead_is_known) {
    Json json{
        {"place", place.number}, {"behind", nullptr}, {"ordinary_ahead", place.ordinary_ahead}};
    if (ahead_is_known) json["behind"] = place.ahead;
    if (!place.expected) return json;
    json["expected_start_s"] = place.expected->start_s;
    json["expected_grid"] = short_form(place.expected->grid);
    json["expected_plan"] = short_form(place.expected->plan);
    if (!place.expected->span.empty()) json["expected_span"] = place.expected->span;
    return json;
}

Json slow_json(JobId job, const SlowEvent& event) {
    const SlowReport& told = event.report;
    Json json{{"job", job},
              {"uid", event.user},
              {"gpus", event.gpus},
              {"life", told.life},
              {"onset", told.onset},
              {"at", to_string(told.at)},
              {"peer", to_string(told.peer)},
              {"cause", slowdown::name(told.cause)},
              {"factor", told.factor},
              {"confidence", told.confidence},
              {"action", to_string(told.action)},
              {"lost_s", told.lost_s},
              {"relief", nullptr},
              {"cleared", event.cleared}};
    if (told.relief != 0) json["relief"] = told.relief;
    return json;
}

Json slow_events(const SlowdownBook& book, JobId job) {
    Json events = Json::array();
    for (const SlowEvent& event : book.events(job)) events.push_back(slow_json(job, event));
    return events;
}

Json slowdown_of_job(const SlowdownBook& book, JobId job, SlowdownMode mode) {
    return {{"mode", to_string(mode)},
            {"words", book.events(job).empty() ? "" : book.words_of(job)},
            {"events", slow_events(book, job)}};
}

Json work_json(const JobStatus& status) {
    const Belief& work = *status.work;
    Json json{{"from", to_string(work.from)},
              {"words", words_of(work, status.uid, status.account)},
              {"steps", work.steps},
              {"limit_s", work.limit_s}};
    if (work.steps > 0) json["needs_s"] = work.needs_s;
    if (work.past.jobs > 0)
        json["past"] = {{"used", work.past.used},
                        {"jobs", work.past.jobs},
                        {"of", work.past.of_account ? "account" : "user"}};
    return json;
}

/// What a move costs the job, and from what that is known; null of one that was never moved.
Json move_json(const JobStatus& status, const RestartCost& restart) {
    const MovesTook& took = status.moves_took_s;
    if (took[0] == 0) return nullptr;
    const std::int64_t gpus = status.chosen ? status.chosen->gpus() : 1;
    const double cost_s = restart.seconds(gpus, took), site_s = restart.seconds(gpus);
    std::vector<std::string> each;
    Json all = Json::array();
    for (const std::int64_t took_s : took) {
        if (took_s == 0) continue;
        each.push_back(std::to_string(took_s));
        all.push_back(took_s);
    }
    const bool is_most = cost_s >= RestartCost::most_times * site_s;
    const std::string words =
        each.size() == 1
            ? fmt::format("{:.0f} s, as arena.yaml has it; its one move took {} s", site_s, each[0])
        : is_most ? fmt::format(
                        "{:.0f} s, the most that counts: {:g} times what arena.yaml has; "
                        "its last moves took {} s",
                        cost_s, RestartCost::most_times, join(each, ", "))
                  : fmt::format("{:.0f} s, the median of what its last moves took ({} s){}", cost_s,
                                join(each, ", "),
                                each.size() < took.size()
                                    ? fmt::format(" and arena.yaml's {:.0f} s", site_s)
                                    : "");
    return {{"cost_s", cost_s}, {"site_s", site_s}, {"took_s", std::move(all)}, {"words", words}};
}

Json check_counts(const CheckBook& book) {
    const CheckBook::Counts& counts = book.counts();
    return {{"running", book.running()}, {"started", counts.started}, {"healthy", counts.healthy},
            {"slow", counts.slow},       {"unknown", counts.unknown}, {"failed", counts.failed}};
}

/// Nodes by the worst that their own tools find.
Json health_counts(const NodeBook& book) {
    std::map<std::string, health::Severity> worst;
    for (const auto& [node, fact] : book.facts("health"))
        for (const SlowFact& slow : book.slow(node))
            if (slow.finding) worst[node] = std::max(worst[node], slow.finding->severity);
    Json counts{{"gone", 0}, {"slow", 0}, {"watch", 0}};
    for (const auto& [node, severity] : worst) {
        Json& count = counts[std::string(health::name(severity))];
        count = count.get<std::int64_t>() + 1;
    }
    return counts;
}

Json slow_counts(const Books& books, const SlowReportCounts& reports) {
    const SlowdownBook& book = books.slowdown;
    const SlowdownBook::Counts& counts = book.counts();
    return {{"events", counts.events},
            {"of_links", counts.of_links},
            {"open", book.open()},
            {"moves", counts.moves},
            {"lost_gpu_s", counts.lost_gpu_s},
            {"reports", reports.taken},
            {"refused", reports.refused},
            {"over_rate", reports.over_rate},
            {"health", health_counts(books.nodes)},
            {"checks", check_counts(books.checks)}};
}

/// What is held against a node, and until when: null until somebody takes it back.
Json held_json(const NodeBook& book, const std::string& name) {
    Json list = Json::array();
    for (const SlowFact& fact : book.slow(name)) {
        list.push_back({{"slow", words_of(fact)},
                        {"cause", slowdown::name(fact.cause)},
                        {"factor", fact.factor},
                        {"jobs", fact.seen},
                        {"peer", fact.peer},
                        {"confirmed", fact.peer.empty() ? is_confirmed(fact, book.rules())
                                                        : book.is_confirmed(name)},
                        {"until", nullptr}});
        if (fact.until != 0) list.back()["until"] = fact.until;
        if (fact.finding)
            list.back().update({{"health", fact.finding->code},
                                {"severity", health::name(fact.finding->severity)},
                                {"since", fact.finding->at}});
    }
    return list;
}

/// "n1": what is known of it, what becomes of a check, what the latest one found.
Json slow_nodes(const Books& books) {
    std::map<std::string, Json> nodes;
    auto facts = books.nodes.facts("slow");
    const auto findings = books.nodes.facts("health");
    facts.insert(facts.end(), findings.begin(), findings.end());
    for (const auto& [name, fact] : facts) {
        Json& node = nodes[name];
        node["slow"] = books.nodes.why(name);
        node["confirmed"] = books.nodes.is_confirmed(name);
        node["facts"] = held_json(books.nodes, name);
    }
    for (const auto& [name, entry] : books.checks.entries()) {
        Json& node = nodes[name];
        if (entry.carrier != 0) node["carrier"] = entry.carrier;
        if (entry.wanted()) node["waits"] = entry.waits;
        if (!entry.last.empty()) node.update({{"found", entry.last}, {"checked_s", entry.last_s}});
    }
    Json list = Json::array();
    for (auto& [name, node] : nodes) {
        node["node"] = name;
        list.push_back(std::move(node));
    }
    return list;
}

Json loan_counts(const LoanBook& book) {
    const LoanMemory::Counts& counts = book.memory().counts;
    Json hours = Json::object();
    for (const auto& [account, gpu_s] : counts.lent_gpu_s) hours[account] = gpu_s / 3600;
    return {{"lent", lent_nodes(book.memory())},
            {"leases", counts.leases},
            {"returns", counts.returns},
            {"late_returns", counts.late},
            {"lost", counts.lost},
            {"preemptions", counts.preemptions},
            {"scaled_in", counts.scaled_in},
            {"let_end", counts.let_end},
            {"overstayed", counts.overstayed},
            {"gpu_hours", std::move(hours)}};
}

Json pool_counts(const Snapshot& snapshot) {
    Json json = Json::object();
    for (const auto& [type, pool] : count_pools(snapshot))
        json[type] = {{"nodes", pool.nodes}, {"slow_nodes", pool.slow_nodes},
                      {"gpus", pool.gpus},   {"free", pool.free},
                      {"down", pool.down},   {"lent", pool.lent}};
    return json;
}

Json histogram_json(const Histogram& histogram) {
    return {
        {"bounds", histogram.bounds()}, {"counts", histogram.counts()}, {"sum", histogram.sum()}};
}

Json histograms(const SchedulerStats& stats) {
    Json stages = Json::object();
    for (std::size_t i = 0; i < round_stages.size(); ++i)
        stages[std::string(round_stages[i])] = histogram_json(stats.stage_seconds[i]);
    return {{"round_seconds", std::move(stages)},
            {"estimate_ratio", histogram_json(stats.estimate_ratio)}};
}

/// Of those that wait: how many have an offer.
std::size_t jobs_with_offers(const Books& books) {
    std::size_t n = 0;
    for (const auto& [id, status] : books.statuses)
        n += books.queue.find(id) != nullptr && status.offers && !status.offers->empty();
    return n;
}

double profile_gpu_s(const ProfileTurns& turns) {
    double sum = 0;
    for (const auto& [user, account] : turns.accounts()) sum += account.gpu_s;
    return sum;
}

Json asked_checks(const CheckBook& book) {
    Json names = Json::array();
    for (const auto& [name, entry] : book.entries())
        if (entry.asked) names.push_back(name);
    return names;
}

}  // namespace

void SchedulerStats::add(const Changes& more) {
    changes.starts += more.starts;
    changes.releases += more.releases;
    changes.reholds += more.reholds;
    changes.checkpoints += more.checkpoints;
    changes.moves += more.moves;
    changes.requeues += more.requeues;
    changes.opt_outs += more.opt_outs;
    changes.stale += more.stale;
    changes.failed_starts += more.failed_starts;
}

void SchedulerStats::add_time(double round_ms) {
    last_ms = round_ms;
    max_ms = std::max(max_ms, round_ms);
    total_ms += round_ms;
    ++timed_rounds;
    ++rounds;
    const std::array<double, round_stages.size()> stages_ms = {survey_ms, collect_ms, plan_ms,
                                                               decide_ms, apply_ms,   forecast_ms};
    for (std::size_t i = 0; i < stages_ms.size(); ++i) stage_seconds[i].add(stages_ms[i] / 1000);
}

std::string explain_json(Books& books, const Snapshot& snapshot, JobId job, const Asker& asker) {
    const auto at = books.statuses.find(job);
    if (at == books.statuses.end() || (!asker.privileged && at->second.uid != asker.uid)) return {};
    const JobStatus& last = at->second;
    Json json{{"schema_version", 1},
              {"job", job},
              {"state", last.state},
              {"reason", books.with_refused_update(job, last.reason)},
              {"unmeasured", last.unmeasured},
              {"chosen", -1},
              {"left_out", ""},
              {"offers", Json::array()},
              {"infeasible", Json::array()}};
    if (last.offers) {
        for (std::size_t i = 0; i < last.offers->size(); ++i) {
            const Offer& offer = (*last.offers)[i];
            if (last.chosen && last.chosen->is_of(offer)) json["chosen"] = i;
            json["offers"].push_back(parsed(to_json(offer)));
        }
        if (last.chosen && last.chosen->is_uneven()) json["chosen_split"] = last.chosen->split;
    }
    if (last.state == "running" && !last.span.empty())
        json["runs"] = {{"span", last.span}, {"iteration_s", last.iteration_s}};
    if (last.slowdown != SlowdownMode::off)
        json["slowdown"] = slowdown_of_job(books.slowdown, job, last.slowdown);
    if (Json promise = promise_json(
            {snapshot, books.promises, books.promise_watch, books.options.priority_step}, job,
            [&](JobId other) { return may_know(books, other, asker); });
        !promise.is_null())
        json["promise"] = std::move(promise);
    if (last.work) json["work"] = work_json(last);
    if (Json move = move_json(last, books.options.restart); !move.is_null())
        json["move"] = std::move(move);
    if (!last.avoids.empty()) json["avoids"] = last.avoids;
    if (!last.array.empty()) json["array"] = last.array;
    if (!last.unsaved.empty()) json["unsaved"] = last.unsaved;
    if (last.wanted && is_adapted(last.wanted->request.model))
        json["adapters"] = adapter_words(last.wanted->request.model);
    if (last.wanted && !last.wanted->request.model_ignore.empty())
        json["model_ignore"] = join(last.wanted->request.model_ignore, ", ");
    if (!last.wanted || !last.pools || last.pools->empty()) return line(json);
    const OfferBook::Grids* grids = books.offers.grids(last.uid, last.wanted->request, *last.pools);
    json["left_out"] =
        grids ? grids->left_out
              : "what is not possible, and why, is being worked out: ask again in a few seconds";
    if (grids)
        for (const Infeasible& grid : grids->infeasible)
            json["infeasible"].push_back(
                {{"grid", parsed(to_json(grid.grid))}, {"reason", grid.reason}});
    return line(json);
}

std::string stats_json(const Books& books, const Counted& counted, const Asker& asker) {
    const SchedulerStats& stats = counted.scheduler;
    const LockTimes& locks = counted.locks;
    const PlanDesk::Stats planning = books.offers.planning();
    const double rounds = static_cast<double>(std::max<std::uint64_t>(stats.timed_rounds, 1));
    const Json json{
        {"schema_version", 1},
        {"policy", books.policy->name},
        {"rounds", stats.rounds},
        {"round_ms",
         {{"last", stats.last_ms}, {"mean", stats.total_ms / rounds}, {"max", stats.max_ms}}},
        {"last_round_ms",
         {{"survey", stats.survey_ms},
          {"collect", stats.collect_ms},
          {"plan", stats.plan_ms},
          {"decide", stats.decide_ms},
          {"apply", stats.apply_ms},
          {"forecast", stats.forecast_ms}}},
        {"lock_ms",
         {{"read_max", locks.read_max_ms},
          {"write_max", locks.write_max_ms},
          {"read_cpu_max", locks.read_cpu_max_ms},
          {"write_cpu_max", locks.write_cpu_max_ms}}},
        {"planning",
         {{"waiting", planning.waiting},
          {"made", planning.made},
          {"in_part", planning.in_part},
          {"longest_ms", 1000 * planning.longest_s}}},
        {"jobs",
         {{"pending", stats.jobs_pending},
          {"running", stats.jobs_running},
          {"planned", stats.jobs_planned},
          {"waiting", books.queue.size()},
          {"with_offers", jobs_with_offers(books)}}},
        {"decisions",
         {{"starts", stats.changes.starts},
          {"releases", stats.changes.releases},
          {"reholds", stats.changes.reholds},
          {"checkpoints", stats.changes.checkpoints},
          {"moves", stats.changes.moves},
          {"requeues", stats.changes.requeues},
          {"opt_outs", stats.changes.opt_outs}}},
        {"reports", stats.reports},
        {"dropped",
         {{"stale", stats.changes.stale}, {"failed_starts", stats.changes.failed_starts}}},
        {"profiles",
         {{"running", books.profiles.running()},
          {"imported", books.profiles.imported()},
          {"failed", books.profiles.failed()},
          {"gpu_s", profile_gpu_s(books.profiles.turns())},
          {"users", profile_users(books.profiles.turns(), asker)}}},
        {"slowdown", slow_counts(books, counted.slow_reports)},
        {"loan", loan_counts(books.loans)},
        {"promises", promise_counts_json(books.promises, books.promise_watch)},
        {"faults", stats.faults},
        {"pools", pool_counts(counted.snapshot)},
        {"seen_s", counted.snapshot.time_s},
        {"histograms", histograms(stats)}};
    return line(json);
}

std::string slowdowns_json(const Books& books, const Asker& asker) {
    Json events = Json::array();
    for (const auto& [job, list] : books.slowdown.jobs())
        for (const SlowEvent& event : list)
            if (asker.privileged || asker.sees_others || event.user == asker.uid)
                events.push_back(slow_json(job, event));
    return line({{"schema_version", 1},
                 {"events", std::move(events)},
                 {"nodes", slow_nodes(books)},
                 {"checks", asked_checks(books.checks)}});
}

std::string slowdown_json(const Books& books, std::string_view word, const Asker& asker) {
    const auto number = parse_integer(word, 1, UINT32_MAX);
    if (!number) return error_json(usage_error("is no job id", printable(word)));
    const auto job = static_cast<JobId>(*number);
    const auto at = books.statuses.find(job);
    const bool known =
        at != books.statuses.end() && (asker.privileged || at->second.uid == asker.uid);
    if (!known)
        return error_json(no_error("the scheduler does not speak of it: over, or not yours",
                                   "JobId=" + std::to_string(job)));
    Json json = slowdown_of_job(books.slowdown, job, at->second.slowdown);
    json.update({{"schema_version", 1}, {"job", job}});
    return line(json);
}

std::string error_json(const Error& error) {
    return line({{"schema_version", 1},
                 {"error", {{"code", exit_code(error.code)}, {"text", error.message()}}}});
}

std::string history_json(const Books& books, JobId job, const Asker& asker) {
    const JobPast* past = books.history.find(job);
    if (past == nullptr || (!asker.privileged && past->uid != asker.uid))
        return error_json(no_error(
            "nothing is known of it: never Arena's, too long ago, or not yours; sacct -j " +
                std::to_string(job) + " says what Slurm's accounting has",
            "JobId=" + std::to_string(job)));
    Json events = Json::array();
    for (const JobEvent& event : past->events) {
        Json& json = events.emplace_back(
            Json{{"time_s", event.at_s}, {"state", event.state}, {"text", event.text}});
        if (event.iteration_s > 0) json["iteration_s"] = event.iteration_s;
        if (event.estimate_s > 0) json["estimate_s"] = event.estimate_s;
    }
    const JobAccount account = account_of(*past);
    return line({{"schema_version", 1},
                 {"job", job},
                 {"uid", past->uid},
                 {"over", past->over},
                 {"account",
                  {{"lives", account.lives},
                   {"waited_s", account.waited_s},
                   {"ran_s", account.ran_s},
                   {"moved_s", account.moved_s},
                   {"running_share", running_share(account)}}},
                 {"left_out", past->left_out},
                 {"left_out_after", JobHistory::Limits().first_events},
                 {"events", std::move(events)}});
}

std::string queue_json(const Books& books, double time_s, const Asker& asker) {
    std::vector<std::pair<std::size_t, Json>> jobs;
    for (const auto& [id, last] : books.statuses) {
        const QueuePosition* at = books.queue.find(id);
        const bool own = asker.privileged || last.uid == asker.uid;
        const bool waits = last.state != "running" && last.state != "checkpointing";
        if (!at && !(own && waits)) continue;
        Json job{{"place", nullptr}};
        if (at && own) {
            job = place_json(*at, may_know(books, at->ahead, asker));
            const Promise* promise = books.promises.find(id);
            if (promise != nullptr && time_s <= promise->latest_start_s() + 1)
                job["ends_by_s"] = promise->due_s;
        }
        if (at) job["place"] = at->number;
        if (own || asker.sees_others) job["job"] = id;
        if (own) job.update({{"state", last.state}, {"reason", last.reason}});
        jobs.emplace_back(at ? at->number : SIZE_MAX, std::move(job));
    }
    std::stable_sort(jobs.begin(), jobs.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    Json list = Json::array();
    for (auto& [place, job] : jobs) list.push_back(std::move(job));
    const Json json{{"schema_version", 1},
                    {"policy", books.policy->name},
                    {"time_s", time_s},
                    {"waiting", books.queue.size()},
                    {"jobs", std::move(list)}};
    return line(json);
}

}  // namespace arena
