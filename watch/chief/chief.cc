// SPDX-License-Identifier: GPL-2.0-or-later
// Frames: who says what, and what of it is taken.
#include "watch/chief/chief.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/count_text.h"
#include "base/text.h"
#include "watch/chief/state.h"

namespace arena::watch {
namespace {

constexpr std::size_t most_agents = 16'384;
constexpr std::size_t ranks_of_agent = 8;  ///< that lines may name
constexpr std::int64_t logged_agents = 4;  ///< whose ranks' iterations are written down
constexpr std::size_t most_missed = 1024;  ///< silent ranks, agents that have gone
constexpr std::size_t kept_steps = 32;
constexpr std::int64_t goes_on_ms = 1000;  ///< after an agent has gone

template <typename T, typename... Others>
bool is_one_of(const Frame& frame) {
    return std::holds_alternative<T>(frame) || (std::holds_alternative<Others>(frame) || ...);
}

bool is_of_agent(const Frame& frame) {
    return is_one_of<RankHere, Iterations, GroupTimes, Silent, TooDear>(frame);
}
bool is_of_trainer(const Frame& frame) {
    return is_one_of<TrainerPlan, StepDone, Obeyed, Checked>(frame);
}

}  // namespace

Chief::Chief(const ChiefOptions& options) : state_(std::make_unique<State>(options)) {}
Chief::Chief(Chief&&) noexcept = default;
Chief& Chief::operator=(Chief&&) noexcept = default;
Chief::~Chief() = default;

Actions Chief::on(PeerId from, const Frame& frame, const Now& now) {
    state_->on(from, frame, now);
    return state_->take();
}
Actions Chief::gone(PeerId peer, const Now& now) {
    state_->gone(peer, now);
    return state_->take();
}
Actions Chief::tick(const Now& now) {
    state_->tick(now);
    return state_->take();
}

Chief::State::State(const ChiefOptions& options)
    : options_(options),
      tracking_(std::clamp(options.threshold, 1.01, 100.0), options.poll_s),
      culprits_(options.life) {
    options_.threshold = std::clamp(options.threshold, 1.01, 100.0);
    options_.recheck_s = std::max(0.1, options.recheck_s);
}

Actions Chief::State::take() {
    tell_trainer();
    return std::exchange(actions_, {});
}

/// An agent has no output of its own that the job's user would see.
void Chief::State::tell_trainer() {
    if (!trainer_.is_here()) return;
    for (const LogLine& line : actions_.lines) {
        if (!line.is_problem || line.text.empty() || !tells_.has_one(now_.steady_s)) continue;
        tells_.take_one(now_.steady_s);
        actions_.messages.push_back({trainer_.peer(), Tell{printable(line.text, longest_tell)}});
    }
}

/// What peers could have written by the thousand.
void Chief::State::note_some(LogLine line, TokenBucket& bucket) {
    if (!bucket.has_one(now_.steady_s)) return;
    bucket.take_one(now_.steady_s);
    note(std::move(line));
}

void Chief::State::complain(std::string text) {
    note_some(problem(std::move(text), "complaint"), complaints_);
}

void Chief::State::tell_agents(const Frame& frame) {
    for (const auto& [peer, agent] : agents_) actions_.messages.push_back({peer, frame});
}

SlowPlace Chief::State::place_of(std::int64_t rank) const {
    if (trainer_.is_here() && rank < trainer_.ranks()) return trainer_.place_of(rank);
    const auto known = places_.find(rank);
    return known == places_.end() ? SlowPlace{} : known->second;
}

void Chief::State::on(PeerId from, const Frame& frame, const Now& now) {
    now_ = now;
    const auto agent = agents_.find(from);
    const bool is_trainer = trainer_.is_here() && from == trainer_.peer();
    if (const auto* first = std::get_if<AgentHello>(&frame); first != nullptr && !is_trainer)
        hello(from, *first);
    else if (const auto* of_trainer = std::get_if<TrainerHello>(&frame);
             of_trainer != nullptr && agent == agents_.end())
        hello(from, *of_trainer);
    else if (agent != agents_.end() && is_of_agent(frame))
        on_agent(from, agent->second, frame);
    else if (is_trainer && is_of_trainer(frame))
        on_trainer(frame);
    else
        complain(fmt::format("connection {} says what is not its to say: left out", from));
    turn();
    // A trainer waits before its first step until it knows whether anything is asked of it.
    const bool waits = is_trainer && std::holds_alternative<TrainerPlan>(frame);
    if (waits && trainer_.is_idle()) actions_.messages.push_back({from, Release{}});
}

void Chief::State::hello(PeerId from, const AgentHello& hello) {
    if (!agents_.contains(from) && agents_.size() >= most_agents)
        return complain(fmt::format("more than {} agents: that of {} is not heard", most_agents,
                                    printable(hello.node)));
    gone_agents_.erase(hello.node);
    const bool is_new = !agents_.contains(from);
    agents_[from] = {.node = hello.node, .number = is_new ? agents_so_far_++ : 0};
    note_some(line(fmt::format("The agent of {} is here", printable(hello.node)), "agent",
                   {{"node", hello.node}}),
              remarks_);
    if (open_) actions_.messages.push_back({from, EventOpen{true}});
}

void Chief::State::hello(PeerId from, const TrainerHello& hello) {
    if (hello.nodes.empty() || std::ssize(hello.nodes) > most_ranks ||
        (!hello.gpus.empty() && hello.gpus.size() != hello.nodes.size()))
        return complain("the trainer's first words contradict each other: it is not heard");
    if (trainer_.is_here() && trainer_.peer() != from)
        complain("another trainer is here: the one before is not heard any more");
    forget_trainer();
    trainer_.hello(from, hello);
    if (hello.nodes != last_trainer_.nodes) {
        baseline_.clear();
        last_trainer_.placement.clear();
    }
    last_trainer_.nodes = hello.nodes;
    baseline_failures_ = 0;
    note(line(fmt::format("The trainer is here: {}", counted(hello.nodes.size(), "rank")),
              "trainer", {{"ranks", std::ssize(hello.nodes)}}));
    if (open_) actions_.messages.push_back({from, EventOpen{true}});
}

void Chief::State::on_agent(PeerId from, Agent& agent, const Frame& frame) {
    if (const auto* here = std::get_if<RankHere>(&frame)) {
        take_rank(from, agent, *here);
    } else if (const auto* done = std::get_if<Iterations>(&frame)) {
        take_iterations(agent, *done);
    } else if (const auto* times = std::get_if<GroupTimes>(&frame)) {
        if (healthy_looks_.begun_s) return profile_.add(*times);
        if (!open_ || open_->phase != Phase::profiling) return;
        profile_.add(*times);
        note_some(
            line(fmt::format("waiting for profiling results, current #res={}", profile_.ranks()),
                 "profiled",
                 {{"rank", times->rank}, {"ranks", static_cast<std::int64_t>(profile_.ranks())}}),
            remarks_);
    } else if (const auto* silent = std::get_if<Silent>(&frame)) {
        if (silent_.size() >= most_missed || !silent_.insert(silent->rank).second) return;
        note_some(problem(fmt::format("no call of rank {} for {:.0f} s: nothing is known of it",
                                      silent->rank, silent->seconds),
                          "silent", {{"rank", silent->rank}, {"seconds", silent->seconds}}),
                  complaints_);
    } else if (const auto* dear = std::get_if<TooDear>(&frame)) {
        note_some(
            problem(fmt::format("watching costs {:.1f} % of a step on {}: {}", 100 * dear->share,
                                printable(agent.node),
                                dear->stopped ? "it has stopped" : "it is thinned out"),
                    "too_dear",
                    {{"node", agent.node}, {"share", dear->share}, {"stopped", dear->stopped}}),
            complaints_);
    }
}

/// Agents go with their step, in whatever order: that is said of one only whose job goes on.
void Chief::State::tell_gone(std::int64_t step_end_ms) {
    std::erase_if(gone_agents_, [&](const auto& gone) {
        if (step_end_ms < gone.second + goes_on_ms) return false;
        complain(fmt::format("the agent of {} has gone: its ranks are not watched",
                             printable(gone.first)));
        return true;
    });
}

void Chief::State::take_rank(PeerId from, Agent& agent, const RankHere& here) {
    if (here.rank < 0 || here.rank >= most_ranks)
        return complain(fmt::format("connection {} names rank {}: left out", from, here.rank));
    places_[here.rank] = {agent.node, here.gpu < 0 ? any_gpu : here.gpu};
    if (agent.ranks.size() < ranks_of_agent) agent.ranks.insert(here.rank);
}

void Chief::State::take_iterations(const Agent& agent, const Iterations& iterations) {
    if (iterations.rank < 0 || iterations.rank >= most_ranks || iterations.done.empty()) return;
    silent_.erase(iterations.rank);
    tell_gone(iterations.done.back().end_ms);
    const bool is_first = agent.ranks.empty() || *agent.ranks.begin() == iterations.rank;
    if (agent.number < logged_agents && is_first) note(estimate_line(agent.node, iterations));
    on_steps(tracking_.add(iterations, now_.steady_s));
}

void Chief::State::on_trainer(const Frame& frame) {
    if (const auto* plan = std::get_if<TrainerPlan>(&frame)) take_plan(*plan);
    if (const auto* step = std::get_if<StepDone>(&frame)) take_step(*step);
    if (const auto* obeyed = std::get_if<Obeyed>(&frame)) on_obeyed(*obeyed);
    if (const auto* checked = std::get_if<Checked>(&frame)) on_checked(*checked);
}

void Chief::State::take_plan(const TrainerPlan& plan) {
    const bool is_first = !trainer_.obeys();
    if (const Status good = trainer_.plan(plan); !good) {
        check_.reset();
        return complain("the trainer's plan is not taken, and nothing is asked of it: " +
                        good.error().message());
    }
    if (wanted_counts_ && wanted_counts_->size() != plan.micro_batches.size())
        wanted_counts_.reset();
    if (!is_first) return;
    if (!last_trainer_.placement.empty()) trainer_.resume(last_trainer_.placement);
    for (LogLine& one : clique_lines(plan)) note(std::move(one));
    if (options_.precheck && !open_)
        note(line("Performing pre-check before training start", "precheck"));
}

void Chief::State::take_step(const StepDone& step) {
    trainer_.step_done(step);
    steps_.push_back(step);
    if (steps_.size() > kept_steps) steps_.pop_front();
    tell_gone(step.end_ms);
    on_steps(tracking_.add(step));
}

/// It may come back, with the roles that its ranks had; whether a swap on its way was obeyed nobody
/// knows.
void Chief::State::forget_trainer() {
    if (trainer_.obeys()) {
        last_trainer_.placement = trainer_.placement();
        if (trainer_.may_swap()) placement_is_known_ = false;
    }
    trainer_.gone();
    tracking_.trainer_is_gone();
    steps_.clear();
    recent_.clear();
    steps_since_word_ = 0;
    check_.reset();
    wanted_counts_.reset();
    wanted_placement_.reset();
}

void Chief::State::gone(PeerId peer, const Now& now) {
    now_ = now;
    if (const auto agent = agents_.find(peer); agent != agents_.end()) {
        if (gone_agents_.size() < most_missed) gone_agents_[agent->second.node] = now.epoch_ms;
        agents_.erase(agent);
    }
    if (trainer_.is_here() && peer == trainer_.peer()) {
        const bool was_asked = !trainer_.is_idle();
        forget_trainer();
        note(line(
            was_asked ? "the trainer has gone, with a word not answered" : "the trainer has gone",
            "trainer_gone"));
    }
    turn();
}

void Chief::State::tick(const Now& now) {
    now_ = now;
    turn();
}

}  // namespace arena::watch
