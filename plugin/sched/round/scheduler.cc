// SPDX-License-Identifier: GPL-2.0-or-later
// See scheduler.h. The order inside a round matters: what Slurm did since the last one is taken in
// first, then what each job wants, then one decision for all, then its application job by job.
#include "plugin/sched/round/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/json.h"
#include "base/text.h"
#include "planner/models/model.h"
#include "plugin/sched/arrays/array_report.h"
#include "plugin/sched/history/job_account.h"
#include "plugin/sched/loans/loan_report.h"
#include "plugin/sched/nodes/boot_file.h"
#include "plugin/sched/promises/promise_file.h"
#include "plugin/sched/round/stages.h"
#include "policy/fabric.h"
#include "policy/replay.h"

namespace arena {
namespace {

using Clock = std::chrono::steady_clock;

/// Milliseconds since it was made or last asked.
class Lap {
  public:
    double ms() {
        const auto before = std::exchange(since_, Clock::now());
        return std::chrono::duration<double, std::milli>(since_ - before).count();
    }

  private:
    Clock::time_point since_ = Clock::now();
};

/// Nothing where there is no such file.
template <typename Kept>
Result<Kept> read_state(const StateFile& file, Result<Kept> (*parse)(std::string_view)) {
    const auto text = file.read();
    if (!text) return text.error();
    return *text ? parse(**text) : Kept{};
}

bool asks_to_hold(const std::string& record) {
    auto request = parse_record(record);
    return request && request->user_hold;
}

/// What the history keeps of a report: times where the job's nodes lie, not on near ones.
HistoryLine measured_line(const LeftReport& left, const Observation& observation, double slower,
                          double now_s) {
    const double estimate_s = observation.estimated_s * slower;
    return {.at_s = now_s,
            .job = left.job,
            .uid = left.user,
            .state = {},
            .text = fmt::format("{:.4g} s per iteration, estimated {:.4g} s ({})",
                                left.report.iteration_s, estimate_s,
                                off_words(left.report.iteration_s, estimate_s)),
            .iteration_s = left.report.iteration_s,
            .estimate_s = estimate_s};
}

}  // namespace

Scheduler::Scheduler(Host& host, Config config, std::vector<GpuType> hardware,
                     Calibration calibration, PlanLimits limits)
    : host_(host),
      books_(host, std::move(config), std::move(hardware), std::move(calibration),
             std::move(limits)),
      history_file_(HistoryFile::path_beside(books_.site.config.profile_store)),
      promise_state_{{books_.site.config.profile_store, "promises.json"}, "what is promised"},
      boot_state_{{books_.site.config.profile_store, "boots.json"}, "how nodes boot"} {}

void Scheduler::round() {
    const auto stopping = [this] { return host_.stopping(); };
    Lap whole, part;
    stats_.collect_ms = stats_.plan_ms = stats_.decide_ms = stats_.apply_ms = 0;
    settle_ends(true);
    host_.survey(asks_to_hold);
    stats_.survey_ms = part.ms();
    if (stopping()) return;
    ClusterView view = host_.collect([this](JobId job, std::uint64_t tag, std::string_view text) {
        return books_.requests.knows(job, tag, text);
    });
    view.snapshot.generation = stats_.rounds;
    stats_.collect_ms = part.ms();
    starts_.clear();
    round_ = intake(std::move(view), books_, stopping);
    keep_boots();
    for (const std::string& node : books_.checks.take_healthy())
        (void)close_events(node, SlowCause::compute);
    stats_.jobs_pending = round_.pending;
    stats_.jobs_running = round_.running;
    stats_.plan_ms = part.ms();
    if (stopping()) return;
    note_imposed_moves();
    give_promises();
    const Decision decision = decide(round_, *books_.policy);
    for (const Action& action : decision.actions)
        if (action.kind == ActionKind::resize || action.kind == ActionKind::preempt)
            books_.note_departure(action.job, Departure::move, round_.view.snapshot.time_s);
    stats_.decide_ms = part.ms();
    const Journal journal = apply(round_, decision, books_, host_);
    stats_.add(journal.changes);
    host_.set_reasons(arena::explain(round_, decision, journal, books_));
    starts_ = journal.starts;
    if (!stopping() && books_.loans.has_work() && books_.loans.decide(as_started(), round_.offers))
        (void)write_facts(books_.nodes, host_);
    stats_.apply_ms = part.ms();
    if (const auto expected =
            books_.queue.look_forward(round_, *books_.policy, books_.promises, stopping))
        host_.set_expected_starts(*expected);
    books_.queue.note_positions(
        round_, [this](JobId job) { return books_.statuses[job].state == "running"; });
    stats_.forecast_ms = part.ms();
    keep_history();
    stats_.jobs_planned = round_.planned.size();
    stats_.add_time(whole.ms());
}

/// Before promises are given: a job that is to leave whatever the policy decides is in no snapshot
/// of this round.
void Scheduler::note_imposed_moves() {
    for (const Order& order : round_.orders) {
        const JobId job = order.job->id;
        const bool ends = order.kind == Order::Kind::requeue && books_.loans.must_end(job);
        if (order.kind != Order::Kind::leave && !ends) continue;
        const bool gives_back = ends || order.move.gives_back;
        books_.note_departure(job,
                              order.move.leaves_slow ? Departure::slow_node
                              : gives_back           ? Departure::reclaim
                                                     : Departure::move,
                              round_.view.snapshot.time_s);
    }
}

/// What waits behind an ordinary job waits for Slurm, what a limit refuses for that. And one that
/// left its nodes for another has no new promise before that one could have them.
void Scheduler::give_promises() {
    books_.promises.give(round_.snapshot, round_.offers, round_.options, [this](JobId id) {
        const auto at = round_.planned.find(id);
        return at != round_.planned.end() && at->second.role == Role::waits &&
               !at->second.view->ordinary_ahead() && !books_.blocked.is_limited(id);
    });
    // A promise that is older than this scheduler waits for its job to be planned again; that of a
    // job that was told to leave, as long as there is one.
    books_.promises.drop_unseen([this](JobId id) {
        const auto& jobs = round_.view.jobs;
        const auto at = std::find_if(jobs.begin(), jobs.end(),
                                     [&](const JobView& job) { return job.id == id; });
        if (at == jobs.end()) return false;
        if (books_.promises.find(id)->left_by != Departure::none) return true;
        if (!plannable(at->facts) || !at->eligible) return false;
        const auto status = books_.statuses.find(id);
        return at->no_place.empty() && (status == books_.statuses.end() || !status->second.offers);
    });
    // How long slurmctld was away is reckoned from the last time that is written.
    const double now_s = round_.view.snapshot.time_s;
    const bool is_old = books_.promises.has_open() && now_s - promises_kept_s_ >= 60;
    if (!books_.promises.take_changed() && !is_old) return;
    promises_kept_s_ = now_s;
    keep_promises();
}

/// Before anybody is told of them. What an observing Arena would promise binds nobody.
void Scheduler::keep_promises() {
    if (observes(books_.site.config)) return;
    write(promise_state_, format_promises(books_.promises.keep()));
}

void Scheduler::keep_boots() {
    if (books_.boots.take_changed()) write(boot_state_, format_boots(books_.boots.keep()));
}

void Scheduler::write(State& state, std::string_view text) {
    const Status written = state.file.write(text);
    if (!written && !state.write_failed)
        host_.log_error(fmt::format("{}: {} is forgotten when slurmctld ends",
                                    written.error().message(), state.what));
    state.write_failed = !written;
}

PromiseWatch::News Scheduler::look_at_promises() {
    const double step = books_.options.priority_step;
    return starts_.empty() ? books_.promise_watch.look(round_.snapshot, books_.promises, step)
                           : books_.promise_watch.look(as_started(), books_.promises, step);
}

void Scheduler::settle_ends(bool all) {
    const Config& config = books_.site.config;
    const LeaveRules rules{.grace_s = config.checkpoint_grace_s,
                           .requeue_code = config.requeue_exit_code};
    for (const HostJobs::Left& left : host_.settle_ends(rules, all))
        books_.note_unsaved(left.at_s, left.job, left.user_id);
}

/// What is new, to who asks and to the file.
void Scheduler::keep_history() {
    const double now_s = round_.view.snapshot.time_s;
    const PromiseWatch::News news = look_at_promises();
    for (const auto& [job, why] : news.passed)
        if (const auto at = books_.statuses.find(job); at != books_.statuses.end())
            at->second.reason += (at->second.reason.empty() ? "" : "; ") + why;
    note_history(books_, now_s);
    for (const PromiseWatch::Event& event : news.events)
        if (const auto at = books_.statuses.find(event.job); at != books_.statuses.end())
            books_.history.add({.at_s = now_s,
                                .job = event.job,
                                .uid = at->second.uid,
                                .state = event.state,
                                .text = event.text});
    tell_of_leases();
    books_.forget_gone(round_.view);
    std::vector<Host::EndWords> ends;
    for (const EndedJob& end : round_.view.ended)
        if (const JobPast* past = books_.history.find(end.job.id); past != nullptr && past->over)
            ends.push_back({end.job.id, words_of(account_of(*past))});
    host_.note_ends(ends);
    const std::vector<HistoryLine> lines = books_.history.take_new();
    if (observes(books_.site.config)) return;  // the diary has it
    const Status kept = history_file_.append(lines);
    if (!kept && !history_failed_)
        host_.log_error(kept.error().message() +
                        ": arena history forgets what happened when slurmctld ends");
    history_failed_ = !kept;
}

void Scheduler::tell_of_leases() {
    std::map<std::string, std::string> now;
    for (const LoanBook::LeaseLine& line : books_.loans.told().leases) now[line.node] = line.state;
    if (now == leases_) return;
    const double at_s = round_.view.snapshot.time_s;
    for (const auto& [node, state] : now)
        if (const auto before = leases_.find(node);
            before == leases_.end() || before->second != state)
            books_.history.tell(at_s, "loan", node + ": " + state);
    for (const auto& [node, state] : leases_)
        if (!now.contains(node)) books_.history.tell(at_s, "loan", node + ": is back");
    leases_ = std::move(now);
}

/// The cluster with what the round has started: who has which nodes until the next one.
Snapshot Scheduler::as_started() const {
    Snapshot snapshot = round_.snapshot;
    for (const Journal::Start& start : starts_) {
        JobState& job = snapshot.jobs[round_.planned.at(start.job).state];
        job.phase = JobPhase::running;
        job.nodes = start.nodes;
        job.current = start.offer;
        job.start_s = snapshot.time_s;
        for (std::size_t n = 0; n < start.nodes.size(); ++n)
            snapshot.nodes[start.nodes[n]].free_gpus -= start.offer.grid.gpus_on(n);
    }
    return snapshot;
}

/// What is slow in the job, as is known or told: its times say nothing of its plan. "": nothing.
std::string Scheduler::what_is_slow(JobId job) const {
    const auto words = [&](const std::string& node) {
        return fmt::format("node {}: {}", node, books_.nodes.why(node));
    };
    for (const SlowEvent& event : books_.slowdown.events(job))
        if (event.open())
            return event.report.cause == SlowCause::unknown
                       ? "its steps are slow, as it says itself"
                       : words(event.report.at.node);
    const auto& jobs = round_.view.jobs;
    const auto at =
        std::find_if(jobs.begin(), jobs.end(), [&](const JobView& view) { return view.id == job; });
    if (at == jobs.end()) return {};
    for (const NodeIndex index : at->nodes)
        if (const std::string& node = round_.view.snapshot.nodes[index].name;
            !books_.nodes.why(node).empty())
            return words(node);
    return {};
}

/// Of the job's offers with this one's plan the first, which is that of the nearest nodes; null
/// where it has none any more.
const Offer* Scheduler::nearest_of(JobId job, const Offer& offer) const {
    const auto status = books_.statuses.find(job);
    if (status == books_.statuses.end() || !status->second.offers) return nullptr;
    for (const Offer& known : *status->second.offers)
        if (is_same_layout(known.grid, offer.grid) && known.plan == offer.plan) return &known;
    return nullptr;
}

/// Times longer than with that offer of its plan, on nodes as near as can be, that the job's
/// iteration takes where its nodes lie.
double Scheduler::slower_there(JobId job, const Offer& offer, const Offer& nearest) const {
    const auto& jobs = round_.view.jobs;
    const auto at =
        std::find_if(jobs.begin(), jobs.end(), [&](const JobView& view) { return view.id == job; });
    if (at == jobs.end()) return 1;
    for (const Offer& known : *books_.statuses.at(job).offers)
        if (is_same_offer(known, offer) && known.plan == offer.plan)
            return known.slower_at(span_of(round_.view.snapshot, at->nodes)) *
                   (known.estimate.iteration_s / nearest.estimate.iteration_s);
    return 1;
}

/// job_modify has checked that it is the job's plan; what cannot be used all the same is said.
void Scheduler::observe(const LeftReport& left, double now_s) {
    const auto request = parse_record(left.record);
    const auto offer = parse_offer_json(left.offer_json);
    if (!request || !offer || !check_model(request->model)) return;
    if (offer->grid.is_uneven())
        return host_.note_progress(left.job, left.report.trained_s);  // says nothing of others
    if (const std::string slow = what_is_slow(left.job); !slow.empty())
        return host_.log_info(fmt::format("JobId={} its report is left out: {}", left.job, slow));
    const bool use_reports = books_.site.config.use_reports;
    // What is learnt is of nodes as near as can be: other spans follow from that.
    const Offer* nearest = nearest_of(left.job, *offer);
    const double slower = nearest == nullptr ? 1 : slower_there(left.job, *offer, *nearest);
    static const std::vector<SitePool> no_pools;
    const auto status = books_.statuses.find(left.job);
    const bool has_pools = status != books_.statuses.end() && status->second.pools;
    const auto estimate = books_.offers.price(*request, nearest == nullptr ? *offer : *nearest,
                                              has_pools ? *status->second.pools : no_pools);
    const Observation observation{
        .grid = offer->grid,
        .plan = offer->plan,
        .iteration_s = left.report.iteration_s / slower,
        .estimated_s = estimate ? estimate->iteration_s : offer->estimate.iteration_s / slower,
        .spread = left.report.spread};
    const ObservedRun run{.model_fingerprint = fingerprint(request->model),
                          .model_name = request->model.name,
                          .global_batch = request->global_batch,
                          .launcher = request->launcher,
                          .observation = observation,
                          .steps = left.report.steps,
                          .job = left.job,
                          .at_s = now_s,
                          .user = left.user};
    if (use_reports ? !books_.offers.observe(run) : !is_usable(observation))
        return host_.log_error(fmt::format(
            "JobId={} its report is left out: {:.4g} s per iteration, estimated {:.4g} s, is no "
            "measurement",
            left.job, observation.iteration_s, observation.estimated_s));
    host_.note_progress(left.job, left.report.trained_s);
    ++stats_.reports;
    stats_.estimate_ratio.add(observation.iteration_s / observation.estimated_s);
    books_.measurements.keep_observed(run);
    books_.history.measure(measured_line(left, observation, slower, now_s));
    const bool waits = use_reports && !books_.offers.latest_counts(run);
    host_.log_info(fmt::format(
        "JobId={} observed {:.4g} s per iteration with {} {}, estimated {:.4g} s ({}){}", left.job,
        observation.iteration_s, short_form(offer->grid), short_form(offer->plan),
        observation.estimated_s, off_words(observation.iteration_s, observation.estimated_s),
        waits ? fmt::format(": more than {:g} times off and of fewer than {} steps, it counts when "
                            "{} jobs of uid {} agree",
                            max_single_ratio, enough_steps, outlier_jobs, left.user)
              : ""));
}

/// A link is held against both of its nodes, for either may be the cause. No check tells of links:
/// there the job's own word counts, once it finds nothing slow between these two any more. A GPU
/// waits for a check.
void Scheduler::take_verdict(const LeftSlowReport& left, double now_s) {
    const SlowReport& told = left.report;
    if (told.cause == SlowCause::unknown) return;
    SlowVerdict verdict;
    verdict.is_over = told.relief != 0;
    verdict.job = left.job;
    verdict.user = left.voice;
    verdict.cause = told.cause;
    verdict.factor = told.factor;
    verdict.confidence = told.confidence;
    if (verdict.is_over &&
        (told.cause != SlowCause::communication || books_.slowdown.is_slow_still(left.job, told)))
        return;
    const bool is_between = !told.peer.node.empty() && told.peer.node != told.at.node;
    const auto note = [&](const SlowPlace& at, const SlowPlace& peer) {
        verdict.node = at.node;
        verdict.device = at.gpu;
        if (is_between) verdict.peer = peer.node;
        note_slow(verdict, !verdict.is_over && told.action == SlowAction::s4, now_s);
    };
    note(told.at, told.peer);
    if (is_between) note(told.peer, told.at);
}

void Scheduler::on_slow_report(const LeftSlowReport& left, double now_s) {
    const SlowReport& told = left.report;
    const bool is_news = books_.slowdown.on_slow_report(left);
    host_.show_slowdown(left.job, told.life, books_.slowdown.words_of(left.job));
    if (!is_news) return;
    if (const auto at = books_.statuses.find(left.job); at != books_.statuses.end())
        books_.history.add(
            {.at_s = now_s,
             .job = left.job,
             .uid = at->second.uid,
             .state = told.relief != 0 ? "slow no more" : "slow",
             .text = fmt::format("{}, action {}", slow_word(told), to_string(told.action))});
    take_verdict(left, now_s);
    host_.log_info(fmt::format("JobId={} {} {}, action {}, lost {:.0f} s", left.job,
                               slow_word(told), told.relief != 0 ? "is over" : "is slow",
                               to_string(told.action), told.lost_s));
}

std::string Scheduler::slowdown(SlowdownVerb verb, std::string_view word, const Asker& asker) {
    switch (verb) {
        case SlowdownVerb::list:
            return slowdowns_json(books_, asker);
        case SlowdownVerb::show:
            return slowdown_json(books_, word, asker);
        case SlowdownVerb::clear:
            return clear_slowdown(std::string(word));
        case SlowdownVerb::check:
            break;
    }
    return check_slowdown(std::string(word));
}

std::string Scheduler::clear_slowdown(const std::string& node) {
    if (!is_suspected(node))
        return error_json(no_error("nothing slow is known of it", printable(node)));
    books_.nodes.clear(node);
    books_.checks.forget(node);
    const std::set<JobId> jobs = close_events(node, std::nullopt);
    host_.log_info(fmt::format("{} is taken for healthy again: an administrator says so", node));
    return dump_json({{"schema_version", 1}, {"node", node}, {"jobs", jobs}}) + "\n";
}

/// What jobs said of the node counts no more: whose words these were.
std::set<JobId> Scheduler::close_events(const std::string& node, std::optional<SlowCause> cause) {
    const std::set<JobId> jobs = books_.slowdown.clear(node, cause);
    for (const JobId job : jobs)
        host_.show_slowdown(job, books_.slowdown.events(job).back().report.life,
                            books_.slowdown.words_of(job));
    return jobs;
}

/// A cluster that has nothing of Arena's has had no round, and its nodes are not known.
bool Scheduler::is_node(const std::string& node) {
    const auto& nodes = round_.view.snapshot.nodes;
    if (nodes.empty()) round();
    return std::any_of(nodes.begin(), nodes.end(), [&](const NodeState& known) {
        return known.name == node && known.total_gpus > 0;
    });
}

std::string Scheduler::check_slowdown(const std::string& node) {
    if (!is_suspected(node) && !is_node(node))
        return error_json(no_error(
            "nothing slow is known of it, and no node with GPUs has this name", printable(node)));
    std::string why;
    if (!books_.checks.ask(node, why)) return error_json(no_error(why, printable(node)));
    host_.log_info(fmt::format("node {} is to be checked: an administrator asks", node));
    return dump_json({{"schema_version", 1}, {"node", node}, {"check", "asked"}}) + "\n";
}

void Scheduler::note_slow(const SlowVerdict& verdict, bool leave, double now_s) {
    if (!books_.nodes.note(verdict) || !leave) return;
    const auto until = static_cast<std::int64_t>(now_s + books_.nodes.rules().recheck_s);
    std::vector<AvoidedNode>& nodes = books_.leaving[verdict.job];
    std::erase_if(nodes, [&](const AvoidedNode& known) { return known.node == verdict.node; });
    nodes.push_back({verdict.node, until});
}

/// Whoever hears of a lease may count on it, whatever becomes of slurmctld.
void Scheduler::write_leases() {
    (void)write_facts(books_.nodes, host_);
    if (const std::string why = host_.save_nodes(); !why.empty())
        host_.log_error("leases are not on disk yet: " + why);
}

std::string Scheduler::loan(LoanVerb verb, std::string_view words) {
    if (verb == LoanVerb::list) return leases_json(books_.loans.told(), books_.site.config);
    if (verb == LoanVerb::offer) {
        const auto said = parse_loan_offer(words);
        if (!said) return error_json(said.error());
        const auto offered = books_.loans.offer(*said);
        if (offered) write_leases();
        return offered ? offered_json(*offered) : error_json(offered.error());
    }
    const auto said = parse_loan_reclaim(words);
    if (!said) return error_json(said.error());
    const auto returned = books_.loans.reclaim(*said, as_started(), round_.offers);
    if (returned) write_leases();
    return returned ? returned_json(*returned) : error_json(returned.error());
}

std::string Scheduler::arrays(const Asker& asker) const {
    const bool sees_all = asker.privileged || asker.sees_others;
    return arrays_json(books_.arrays.carriers(), books_.site.config,
                       sees_all ? std::nullopt : std::optional(asker.uid));
}

void Scheduler::keep_deadlines() {
    if (!books_.loans.has_work()) return;
    books_.loans.stop_lending();
    ClusterView view = host_.collect([](JobId, std::uint64_t, std::string_view) { return true; });
    books_.nodes.new_round(view);
    books_.loans.new_round(view);
    end_late(view);
    books_.loans.carry_out();
    books_.loans.finish(write_facts(books_.nodes, host_));
    if (books_.loans.ask_all_back()) write_leases();
}

void Scheduler::end_late(const ClusterView& view) {
    for (const JobView& job : view.jobs)
        if ((job.facts.state == HostJobState::running ||
             job.facts.state == HostJobState::suspended) &&
            books_.loans.must_end(job.id))
            (void)host_.requeue_hold(job.id, job.facts.restart);
    for (const ArrayCarrierView& array : view.arrays)
        if (!array.finished && books_.loans.must_end(array.id))
            (void)host_.leave_array(array.id, {}, {.why = "gives lent nodes back"}, true);
}

Scheduler::Kept Scheduler::keep() {
    return {.slowdown = std::exchange(books_.slowdown, {}),
            .leaving = std::exchange(books_.leaving, {}),
            .verdicts = books_.nodes.take_verdicts(),
            .checks = books_.checks.take_entries(),
            .loans = books_.loans.memory(),
            .history = std::exchange(books_.history, {}),
            .arrays = books_.arrays.keep(),
            .promises = books_.promises.keep(),
            .promise_watch = std::exchange(books_.promise_watch, {}),
            .boots = books_.boots.keep()};
}

void Scheduler::take_over(Kept kept) {
    books_.slowdown = std::move(kept.slowdown);
    books_.leaving = std::move(kept.leaving);
    books_.promises.take_over(std::move(kept.promises));
    books_.promise_watch = std::move(kept.promise_watch);
    books_.checks.take_over(std::move(kept.checks));
    for (const SlowVerdict& verdict : kept.verdicts) (void)books_.nodes.note(verdict);
    books_.loans.take_over(std::move(kept.loans));
    books_.arrays.take_over(std::move(kept.arrays));
    books_.boots.take_over(std::move(kept.boots));
    if (kept.history) {
        books_.history = *std::move(kept.history);
        return;
    }
    recall();
}

/// What an earlier slurmctld left.
void Scheduler::recall() {
    HistoryFile::Read past = history_file_.read();
    for (HistoryLine& line : past.lines) books_.history.recall(std::move(line));
    if (!past.problem.empty()) host_.log_error(past.problem);
    if (!observes(books_.site.config)) recall_promises();
    recall_boots();
}

void Scheduler::recall_promises() {
    auto kept = read_state(promise_state_.file, parse_promises);
    if (!kept) return host_.log_error(kept.error().message() + ": what was promised is forgotten");
    books_.promise_watch.recall(*kept);
    books_.promises.take_over(*std::move(kept));
}

void Scheduler::recall_boots() {
    auto kept = read_state(boot_state_.file, parse_boots);
    if (!kept) return host_.log_error(kept.error().message() + ": how nodes booted is forgotten");
    books_.boots.take_over(*std::move(kept));
}

void Scheduler::note_update(const LeftUpdate& update) {
    if (!update.refused.empty()) {
        books_.refused_updates[update.job] = update.refused;
        return;
    }
    books_.refused_updates.erase(update.job);
    books_.blocked.forgive(update.job);
}

void Scheduler::forget_times() {
    stats_.timed_rounds = 0;
    stats_.max_ms = stats_.total_ms = 0;
    host_.forget_lock_times();
}

std::string Scheduler::snapshot_json() const {
    return to_json(Replay{round_.snapshot, round_.offers, round_.options,
                          std::string(books_.policy->name)}) +
           "\n";
}

}  // namespace arena
