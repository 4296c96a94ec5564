// SPDX-License-Identifier: GPL-2.0-or-later
// See job_history.h.
#include "plugin/sched/history/job_history.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace arena {
namespace {

std::size_t size_of(const JobEvent& event) {
    return sizeof event + event.state.size() + event.text.size();
}

/// A record, and its places in the two maps.
constexpr std::size_t job_bytes = sizeof(JobPast) + 160;

}  // namespace

const JobEvent* JobPast::last_told() const {
    const auto at = std::find_if(events.rbegin(), events.rend(), [](const JobEvent& event) {
        return event.state != JobHistory::measured_state;
    });
    return at == events.rend() ? nullptr : &*at;
}

void JobHistory::touch(JobId job, JobPast& past) {
    over_.erase(past.touched);
    alive_.erase(past.touched);
    past.touched = ++touches_;
    (past.over ? over_ : alive_).emplace(past.touched, job);
}

void JobHistory::forget_oldest() {
    while (bytes_ > limits_.bytes && jobs_.size() > 1) {
        auto& list = over_.empty() ? alive_ : over_;
        const auto at = jobs_.find(list.begin()->second);
        bytes_ -= at->second.bytes;
        jobs_.erase(at);
        list.erase(list.begin());
    }
}

/// A job id that another user has now is another job.
JobPast& JobHistory::keep(const HistoryLine& line) {
    auto [at, is_new] = jobs_.try_emplace(line.job);
    JobPast& past = at->second;
    if (!is_new && past.uid != line.uid) {
        const std::uint64_t touched = past.touched;
        bytes_ -= past.bytes;
        past = JobPast{};
        past.touched = touched;
        is_new = true;
    }
    if (is_new) {
        past.uid = line.uid;
        past.bytes = job_bytes;
        bytes_ += job_bytes;
    }
    past.over = line.state == over_state;
    if (line.used) uses_.note(line.uid, line.account, *line.used);
    past.events.push_back({.at_s = line.at_s,
                           .state = line.state,
                           .text = line.text,
                           .iteration_s = line.iteration_s,
                           .estimate_s = line.estimate_s});
    std::size_t grown = size_of(past.events.back());
    if (past.events.size() > limits_.events) {
        const auto oldest = past.events.begin() + static_cast<std::ptrdiff_t>(limits_.first_events);
        grown -= size_of(*oldest);  // wraps, and is right again in the sum
        past.events.erase(oldest);
        ++past.left_out;
    }
    past.bytes += grown;
    bytes_ += grown;
    touch(line.job, past);
    return past;
}

void JobHistory::add_news(HistoryLine line) {
    news_.push_back(std::move(line));
    if (news_.size() > limits_.news) news_.pop_front();
}

bool JobHistory::note(HistoryLine line) {
    line.text.resize(std::min(line.text.size(), limits_.text_bytes));
    const auto at = jobs_.find(line.job);
    const bool known = at != jobs_.end() && at->second.uid == line.uid && !at->second.over;
    const JobEvent* last = known ? at->second.last_told() : nullptr;
    const bool same_state = last != nullptr && last->state == line.state;
    if (same_state && last->text == line.text) return true;
    if (same_state && std::abs(line.at_s - last->at_s) < limits_.same_state_s) return false;
    keep(line);
    forget_oldest();
    new_.push_back(line);
    if (!same_state) add_news(std::move(line));
    return true;
}

void JobHistory::add(HistoryLine line) {
    line.text.resize(std::min(line.text.size(), limits_.text_bytes));
    keep(line);
    forget_oldest();
    new_.push_back(line);
    add_news(std::move(line));
}

/// A round sees an end when it is over: Slurm has the time of it.
void JobHistory::add_end(JobId job, double now_s, const LastRun* end) {
    const JobPast* past = find(job);
    if (past == nullptr) return;  // forgotten for the ends of others
    const std::uint32_t uid = past->uid;
    HistoryLine line{
        .at_s = now_s, .job = job, .uid = uid, .state = std::string(over_state), .text = {}};
    if (end != nullptr) {
        const JobEvent* last = past->last_told();
        double since_s = last != nullptr ? last->at_s : 0;
        if (last != nullptr && last->state.starts_with("waiting")) {
            since_s = std::clamp(end->start_s, std::min(since_s, now_s), now_s);
            add({.at_s = since_s, .job = job, .uid = uid, .state = "running", .text = {}});
        }
        line.at_s = std::clamp(end->end_s, std::min(since_s, now_s), now_s);
        if (end->use) {
            line.used = end->use->used;
            line.account = end->use->account;
            line.text = end->use->text;
        }
    }
    add(std::move(line));
}

bool JobHistory::measure(HistoryLine line) {
    line.state = measured_state;
    if (const JobPast* past = find(line.job); past != nullptr && past->uid == line.uid) {
        if (past->over) return false;  // it is late
        double gap_s = limits_.measured_s, last_s = -INFINITY, last_iteration_s = 0;
        for (auto event = past->events.rbegin(); event != past->events.rend(); ++event) {
            if (event->state.starts_with("waiting") || event->state == over_state) break;
            if (event->state != measured_state) continue;
            if (last_iteration_s == 0)
                last_s = event->at_s, last_iteration_s = event->iteration_s;
            else
                gap_s *= 2;
        }
        if (line.at_s - last_s < gap_s || std::abs(line.iteration_s - last_iteration_s) <
                                              limits_.measured_news * last_iteration_s)
            return false;
    }
    line.text.resize(std::min(line.text.size(), limits_.text_bytes));
    keep(line);
    forget_oldest();
    new_.push_back(std::move(line));
    return true;
}

void JobHistory::tell(double now_s, std::string state, std::string text) {
    add_news(
        {.at_s = now_s, .job = 0, .uid = 0, .state = std::move(state), .text = std::move(text)});
}

void JobHistory::recall(HistoryLine line) {
    if (line.job == 0) return;
    line.text.resize(std::min(line.text.size(), limits_.text_bytes));
    keep(line);
    forget_oldest();
}

const JobPast* JobHistory::find(JobId job) const {
    const auto at = jobs_.find(job);
    return at == jobs_.end() ? nullptr : &at->second;
}

}  // namespace arena
