// SPDX-License-Identifier: GPL-2.0-or-later
// See live_json.h.
#include "plugin/sched/live/live_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/json.h"
#include "base/text.h"
#include "plugin/sched/history/job_account.h"
#include "plugin/sched/host/pool_counts.h"

namespace arena {
namespace {

/// By node: who has how many of its GPUs, ordinary jobs, too.
std::map<NodeIndex, Json> holders(const LiveState& state) {
    std::map<NodeIndex, Json> found;
    for (const Occupied& held : state.round.view.running)
        for (const Occupied::Part& part : held.parts)
            if (part.gpus > 0)
                found.try_emplace(part.node, Json::array())
                    .first->second.push_back({{"job", held.job}, {"gpus", part.gpus}});
    return found;
}

/// What its own tools find that is to be watched; "" = nothing.
std::string watched_on(const NodeBook& book, const std::string& node) {
    std::vector<std::string> words;
    for (const SlowFact& fact : book.slow(node))
        if (fact.finding && fact.finding->severity == health::Severity::watch)
            words.push_back(words_of(fact));
    return join(words, "; ");
}

Json nodes_json(const LiveState& state, const LiveShown& shown) {
    Json list = Json::array();
    std::map<NodeIndex, Json> jobs;
    if (shown.jobs) jobs = holders(state);
    const Snapshot& snapshot = state.round.snapshot;
    for (NodeIndex index = 0; index < snapshot.nodes.size(); ++index) {
        const NodeState& node = snapshot.nodes[index];
        if (node.total_gpus == 0) continue;
        if (list.size() == shown.most_nodes) break;
        Json json{{"node", node.name},
                  {"gpu_type", node.gpu_type},
                  {"gpus", node.total_gpus},
                  {"free", node.free_gpus},
                  {"up", node.up}};
        if (!node.lent.empty()) json["lent"] = node.lent;
        if (node.returning_s > 0) json["returning_s"] = node.returning_s;
        if (const std::string why = state.books.nodes.why(node.name); !why.empty())
            json["why"] = why;
        if (const std::string watch = watched_on(state.books.nodes, node.name); !watch.empty())
            json["watch"] = watch;
        if (node.leaf >= 0) json["below"] = path_of(snapshot.switches, node.leaf);
        if (node.boot_s > 0) json["boot_s"] = node.boot_s;
        if (const auto at = jobs.find(index); at != jobs.end())
            json["jobs"] = std::move(at->second);
        list.push_back(std::move(json));
    }
    return list;
}

std::string plan_of(const JobStatus& status) {
    for (std::size_t i = 0; status.offers && i < status.offers->size(); ++i)
        if (status.chosen && status.chosen->is_of((*status.offers)[i]))
            return short_form((*status.offers)[i].plan);
    return {};
}

Json runs_json(const JobPast& past) {
    Json runs = Json::array();
    for (const auto& [from_s, to_s] : runs_of(past)) runs.push_back({from_s, to_s});
    return runs;
}

/// Those that ran and ended within the time.
Json over_json(const LiveState& state, const LiveShown& shown) {
    Json list = Json::array();
    state.books.history.visit_over([&](JobId id, const JobPast& past) {
        if (past.events.back().at_s < state.now_s - shown.past_s) return false;
        if (Json runs = runs_json(past); !runs.empty())
            list.push_back({{"job", id}, {"uid", past.uid}, {"ran", std::move(runs)}});
        return list.size() < shown.most_jobs;
    });
    return list;
}

/// Of the first offer of which it is true; 0: of none.
template <typename Is>
double iteration_s(const JobStatus& status, Is is) {
    for (std::size_t i = 0; status.offers && i < status.offers->size(); ++i)
        if (is((*status.offers)[i])) return (*status.offers)[i].estimate.iteration_s;
    return 0;
}

/// With the shape that it runs with.
double running_s(const JobStatus& status) {
    if (status.iteration_s > 0 || !status.chosen) return status.iteration_s;
    return iteration_s(status, [&](const Offer& offer) { return status.chosen->is_of(offer); });
}

/// "the fastest of its 7 shapes", "iterations take 1.3 times as long as on 8xa40, the fastest of
/// its 7 shapes"; "" where it has no choice.
std::string speed_of(const JobStatus& status) {
    if (!status.offers || status.offers->size() < 2 || !status.chosen) return {};
    const auto fastest = std::min_element(
        status.offers->begin(), status.offers->end(), [](const Offer& a, const Offer& b) {
            return a.estimate.iteration_s < b.estimate.iteration_s;
        });
    const double times = running_s(status) / fastest->estimate.iteration_s;
    const std::string which = fmt::format("the fastest of its {} shapes", status.offers->size());
    if (status.chosen->is_of(*fastest) || times < 1.05) return which;
    return fmt::format("iterations take {:.1f} times as long as on {}, {}", times,
                       short_form(fastest->grid), which);
}

/// By when it has done what is left of it; 0: nobody knows.
double end_of(double start_s, double iteration_s, const JobState* job) {
    if (job == nullptr) return 0;
    const double steps_s = job->remaining_iterations * iteration_s;
    const double limit_s = job->time_limit_s > 0 ? job->time_limit_s : INFINITY;
    const double left_s = std::min(steps_s > 0 ? steps_s : limit_s, limit_s);
    return std::isfinite(left_s) ? start_s + left_s : 0;
}

Json job_json(const LiveState& state, JobId id, const JobStatus& status, const JobView* view) {
    Json json{{"job", id},
              {"uid", status.uid},
              {"state", status.state},
              {"reason", state.books.with_refused_update(id, status.reason)}};
    if (view != nullptr) {
        json["name"] = view->name.substr(0, 64);
        json["partition"] = view->partition;
        json["submit_s"] = view->submit_s;
    }
    if (status.chosen) {
        json["grid"] = short_form(*status.chosen);
        json["plan"] = plan_of(status);
    }
    if (const JobPast* past = state.books.history.find(id); past != nullptr)
        if (Json runs = runs_json(*past); !runs.empty()) json["ran"] = std::move(runs);
    return json;
}

void add_place(const QueuePosition& place, const JobStatus& status, const JobState* job,
               Json& json) {
    json["place"] = place.number;
    json["ordinary_ahead"] = place.ordinary_ahead;
    if (place.ahead != 0) json["behind"] = place.ahead;
    if (!place.expected) return;
    json["expected_start_s"] = place.expected->start_s;
    json["expected_grid"] = short_form(place.expected->grid);
    if (!place.expected->span.empty()) json["expected_span"] = place.expected->span;
    const double iteration = iteration_s(status, [&](const Offer& offer) {
        return place.expected->grid.is_of(offer) && offer.plan == place.expected->plan;
    });
    if (const double end_s = end_of(place.expected->start_s, iteration, job); end_s > 0)
        json["expected_end_s"] = end_s;
}

void add_run(const LiveState& state, const JobView& view, const JobStatus& status,
             const JobState* job, Json& json) {
    if (const double end_s = end_of(state.now_s, running_s(status), job); end_s > 0)
        json["expected_end_s"] = end_s;
    if (const std::string speed = speed_of(status); !speed.empty()) json["speed"] = speed;
    json["start_s"] = view.start_s;
    if (!status.span.empty()) json["span"] = status.span;
    Json nodes = Json::array();
    for (const NodeIndex index : view.nodes)
        if (index < state.round.snapshot.nodes.size())
            nodes.push_back(state.round.snapshot.nodes[index].name);
    json["nodes"] = std::move(nodes);
    if (const auto words = state.books.slowdown.events(view.id); !words.empty())
        json["slow"] = state.books.slowdown.words_of(view.id);
}

/// Waiting ones in the order of the queue, running ones by id.
void add_jobs(const LiveState& state, const LiveShown& shown, Json& out) {
    std::map<JobId, const JobView*> views;
    for (const JobView& view : state.round.view.jobs) views.emplace(view.id, &view);
    std::map<JobId, const JobState*> jobs;  // that take part in decisions
    for (const JobState& job : state.round.snapshot.jobs) jobs.emplace(job.id, &job);
    const auto part_of = [&](JobId id) {
        const auto at = jobs.find(id);
        return at == jobs.end() ? nullptr : at->second;
    };
    std::vector<std::pair<std::size_t, JobId>> waiting;
    std::vector<JobId> running;
    for (const auto& [id, status] : state.books.statuses) {
        if (status.state.empty()) continue;
        if (const QueuePosition* place = state.books.queue.find(id))
            waiting.emplace_back(place->number, id);
        else if (status.state == "running" || status.state == "checkpointing")
            running.push_back(id);
        else
            waiting.emplace_back(SIZE_MAX, id);
    }
    std::sort(waiting.begin(), waiting.end());
    const auto of = [&](JobId id) {
        const auto at = views.find(id);
        const JobView* view = at == views.end() ? nullptr : at->second;
        return std::pair(job_json(state, id, state.books.statuses.at(id), view), view);
    };
    out["jobs_waiting"] = waiting.size();
    out["jobs_running"] = running.size();
    if (!shown.jobs) return;
    waiting.resize(std::min(waiting.size(), shown.most_jobs));
    running.resize(std::min(running.size(), shown.most_jobs));
    for (const auto& [number, id] : waiting) {
        auto [json, view] = of(id);
        if (const QueuePosition* place = state.books.queue.find(id))
            add_place(*place, state.books.statuses.at(id), part_of(id), json);
        const Promise* promise = state.books.promises.find(id);
        if (promise != nullptr && state.now_s <= promise->latest_start_s() + 1) {
            json["ends_by_s"] = promise->due_s;
            // As Queue::look_forward() says; the work that is believed may have changed since.
            if (const auto end = json.find("expected_end_s"); end != json.end())
                *end = std::min(end->get<double>(), promise->due_s);
        }
        out["waiting"].push_back(std::move(json));
    }
    for (const JobId id : running) {
        auto [json, view] = of(id);
        if (view != nullptr) add_run(state, *view, state.books.statuses.at(id), part_of(id), json);
        out["running"].push_back(std::move(json));
    }
}

Json news_json(const LiveState& state, const LiveShown& shown) {
    Json list = Json::array();
    for (const HistoryLine& line : state.books.history.news()) {
        if (line.job != 0 ? !shown.jobs : !shown.nodes) continue;
        Json json{{"time_s", line.at_s}, {"state", line.state}, {"text", line.text}};
        if (line.job != 0) json["job"] = line.job;
        list.push_back(std::move(json));
    }
    return list;
}

Json slow_json(const LiveState& state) {
    Json list = Json::array();
    for (const auto& [job, events] : state.books.slowdown.jobs())
        for (const SlowEvent& event : events) {
            if (!event.open()) continue;
            list.push_back({{"job", job},
                            {"at", to_string(event.report.at)},
                            {"peer", to_string(event.report.peer)},
                            {"cause", slowdown::name(event.report.cause)},
                            {"factor", event.report.factor},
                            {"action", to_string(event.report.action)},
                            {"onset_s", event.report.onset},
                            {"lost_s", event.report.lost_s}});
        }
    return list;
}

Json leases_json(const LiveState& state, const LiveShown& shown) {
    Json list = Json::array();
    for (const LoanBook::LeaseLine& line : state.books.loans.told().leases) {
        list.push_back({{"id", line.id},
                        {"node", line.node},
                        {"partition", line.partition},
                        {"state", line.state},
                        {"since_s", line.since},
                        {"why", line.why}});
        if (line.until > 0) list.back()["until_s"] = line.until;
        if (line.deadline > 0) list.back()["deadline_s"] = line.deadline;
        if (shown.jobs) list.back()["jobs"] = line.jobs;
    }
    return list;
}

}  // namespace

std::string live_json(const LiveState& state, const LiveShown& shown) {
    const auto& nodes = state.round.snapshot.nodes;
    Json json{{"schema_version", 1},
              {"now_s", state.now_s},
              {"round_s", state.round.view.snapshot.time_s},
              {"round_ms", state.stats.last_ms},
              {"rounds", state.stats.rounds},
              {"policy", state.books.policy->name},
              {"enabled", state.enabled},
              {"observe", state.observe},
              {"jobs_shown", shown.jobs},
              {"nodes_shown", shown.nodes},
              {"profiles_running", state.books.profiles.running()},
              {"nodes_in_all", std::count_if(nodes.begin(), nodes.end(),
                                             [](const auto& n) { return n.total_gpus > 0; })},
              {"pools", Json::array()},
              {"nodes", Json::array()},
              {"waiting", Json::array()},
              {"running", Json::array()},
              {"over", Json::array()},
              {"slow", Json::array()},
              {"leases", Json::array()},
              {"news", news_json(state, shown)}};
    for (const auto& [type, pool] : count_pools(state.round.snapshot))
        json["pools"].push_back({{"gpu_type", type},
                                 {"nodes", pool.nodes},
                                 {"slow_nodes", pool.slow_nodes},
                                 {"gpus", pool.gpus},
                                 {"free", pool.free},
                                 {"down", pool.down},
                                 {"lent", pool.lent}});
    add_jobs(state, shown, json);
    if (shown.jobs) json["over"] = over_json(state, shown);
    if (shown.nodes) {
        json["nodes"] = nodes_json(state, shown);
        json["leases"] = leases_json(state, shown);
    }
    if (shown.jobs && shown.nodes) json["slow"] = slow_json(state);
    return dump_json(json) + "\n";
}

}  // namespace arena
