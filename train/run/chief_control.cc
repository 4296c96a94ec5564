// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/chief_control.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "train/core/compute_clock.h"
#include "train/run/hardware_check.h"
#include "watch/wire/meeting.h"

namespace arena::train {
namespace {

constexpr double find_s = 5;    ///< for a chief that starts with the job
constexpr double answer_s = 3;  ///< for its word before the first step
constexpr std::size_t most_words = 64;
constexpr int most_complaints = 10, most_told_lines = 500;
constexpr double between_steps_s =
    0.002;                    ///< a chief takes 1,000 lines a second: others are left out
constexpr double news = 0.1;  ///< a restart's cost that has changed by less is not told again

std::int64_t epoch_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

/// Since the kernel started it; 0 where that is not to be had.
double process_age_s() {
    const auto stat = read_regular_file("/proc/self/stat", 4096);
    if (!stat) return 0;
    const auto fields = split(std::string_view(*stat).substr(stat->rfind(')') + 1), ' ');
    constexpr std::size_t start_time = 20;  // the 22nd, of which two stand before the name's end
    if (fields.size() <= start_time) return 0;
    const auto ticks = parse_integer(fields[start_time], 0, INT64_MAX);
    timespec now{};
    if (!ticks || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
    const double age = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
                       static_cast<double>(*ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
    return std::max(age, 0.0);
}

const char* variable(const char* name) { return std::getenv(name); }

std::unique_ptr<ChiefControl> unwatched(const std::string& why) {
    fmt::print(stderr, "arena-train: {}: this run goes on unwatched\n", why);
    return nullptr;
}

}  // namespace

std::unique_ptr<ChiefControl> ChiefControl::find(const WatchOptions& options,
                                                 const TrainPlan& plan) {
    if (options.key.empty()) return nullptr;
    const auto key = watch::parse_watch_key(options.key);
    if (!key) return unwatched("ARENA_WATCH_KEY is no key of 32 hex digits");
    const watch::Meeting meeting = watch::find_meeting(variable);
    watch::Link link(*key, meeting.run, watch::resolve_hosts(meeting.hosts));
    std::unique_ptr<ChiefControl> control(new ChiefControl(std::move(link), options, plan));
    control->serve_until([&] { return control->is_up_; }, find_s);
    if (!control->is_up_)
        return unwatched(
            fmt::format("no chief of this job (arena-watch) has answered for {} s", find_s));
    return control;
}

void ChiefControl::introduce(watch::TrainerHello hello, watch::TrainerPlan plan) {
    hello_ = std::move(hello);
    told_ = std::move(plan);
    ready_s_ = process_age_s();
    told_.restart_s = ready_s_;
    told_.checkpoints = options_.elastic && told_.checkpoints;
    is_introduced_ = true;
    link_.send(hello_);
    link_.send(told_);
}

void ChiefControl::say_plan() { link_.send(told_); }

std::vector<Word> ChiefControl::before(Index) {
    if (options_.precheck && !is_answered_)
        serve_until([&] { return is_answered_ || !is_up_; }, answer_s);
    else
        serve();
    is_answered_ = true;
    std::vector<Word> due(words_.begin(), words_.end());
    words_.clear();
    return due;
}

bool ChiefControl::is_released() {
    serve();
    return is_released_ || !is_up_;
}

void ChiefControl::serve() {
    for (const watch::LinkEvent& event : link_.serve(now_s())) take(event);
}

void ChiefControl::serve_until(const std::function<bool()>& enough, double most_s) {
    constexpr int step_ms = 20;
    const double end = now_s() + most_s;
    for (serve(); !enough() && now_s() < end && !told_to_leave; serve()) {
        std::vector<pollfd> wanted = link_.wanted();
        poll(wanted.data(), wanted.size(), step_ms);
    }
}

void ChiefControl::take(const watch::LinkEvent& event) {
    using What = watch::LinkEvent::What;
    if (event.what == What::down) {
        if (!std::exchange(is_lost_, true))
            unwatched("the chief of this job (arena-watch) is gone");
        is_up_ = is_event_open_ = false;  // a chief that is found again says what is open
        words_.clear();
    } else if (event.what == What::up) {
        is_up_ = true;
        if (!is_introduced_) return;
        link_.send(hello_);
        link_.send(told_);
    } else if (const auto* const say = std::get_if<watch::Say>(&event.frame)) {
        take(*say);
    } else if (std::holds_alternative<watch::Release>(event.frame)) {
        is_released_ = is_answered_ = true;
    } else if (const auto* const open = std::get_if<watch::EventOpen>(&event.frame)) {
        is_event_open_ = open->open;
    } else if (const auto* const tell = std::get_if<watch::Tell>(&event.frame)) {
        if (++told_lines_ <= most_told_lines)
            fmt::print(stderr, "arena-train: the chief: {}\n",
                       printable(tell->text, watch::longest_tell));
    }
}

/// A release is of the parks that were said before it.
void ChiefControl::take(const watch::Say& say) {
    is_answered_ = true;
    const auto word = parse_word(say.word);
    if (!word) return complain(word.error().message());
    if (const Status fits = check_word(*word, plan_); !fits)
        return complain(fits.error().message());
    if (words_.size() >= most_words)
        return complain(fmt::format("{} words wait already", most_words));
    if (std::holds_alternative<Park>(*word)) is_released_ = false;
    words_.push_back(*word);
}

void ChiefControl::complain(const std::string& text) {
    if (++complaints_ > most_complaints) return;
    fmt::print(stderr, "arena-train: a word of the chief is left out: {}{}\n", text,
               complaints_ == most_complaints ? "; no more of these are told" : "");
}

void ChiefControl::step_done(const StepFacts& facts) {
    if (now_s() < told_step_s_ + between_steps_s) return;
    told_step_s_ = now_s();
    link_.send(watch::StepDone{.step = facts.step,
                               .end_ms = epoch_ms(),
                               .seconds = facts.seconds,
                               .tokens = facts.tokens,
                               .micro_batch_s = facts.micro_batch_s});
}

void ChiefControl::obeyed(Index step, const Word& word, double seconds) {
    link_.send(watch::Obeyed{.step = step, .word = to_text(word), .seconds = seconds});
}

void ChiefControl::checked(const CheckResult& result) {
    watch::Checked frame{.id = result.id,
                         .gpus = {},
                         .links = {},
                         .seconds = result.seconds,
                         .failure = result.failure};
    if (!frame.failure.empty()) {
        link_.send(frame);
        return;
    }
    for (std::size_t rank = 0; rank < result.gpu_ms.size(); ++rank)
        frame.gpus.push_back({.rank = static_cast<Index>(rank),
                              .ms = result.gpu_ms[rank],
                              .type = result.types[rank]});
    for (const CheckResult::Link& link : result.links)
        frame.links.push_back(
            {.from = link.from, .to = link.to, .ms = link.ms, .latency_ms = link.latency_ms});
    // More than a frame holds: the slower half of the links says more than none.
    while (!frame.links.empty() && watch::format_watch_frame(frame).size() > watch::longest_frame) {
        const auto middle = frame.links.begin() + std::ssize(frame.links) / 2;
        std::ranges::nth_element(frame.links, middle, std::ranges::greater{},
                                 [](const auto& link) { return link.ms; });
        frame.links.erase(middle, frame.links.end());
    }
    link_.send(frame);
}

void ChiefControl::dealt(const std::vector<Index>& micro_batches) {
    told_.micro_batches = micro_batches;
    say_plan();
}

void ChiefControl::saved(double seconds) {
    const double restart_s = ready_s_ + seconds;
    if (std::abs(restart_s - told_.restart_s) <= news * told_.restart_s) return;
    told_.restart_s = restart_s;
    say_plan();
}

}  // namespace arena::train
