// SPDX-License-Identifier: GPL-2.0-or-later
#include "simulated_job.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/text.h"
#include "suite.h"
#include "watch/chief/trainer.h"

namespace arena::test {

using namespace watch;
using Kind = SimulatedFault::Kind;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::int64_t number(std::string_view text) {
    const auto value = parse_integer(text, 0, std::int64_t{1} << 40);
    ck_assert_msg(value.has_value(), "no number: %s", std::string(text).c_str());
    return *value;
}

}  // namespace

SimulatedJob::SimulatedJob(const SimulatedOptions& options)
    : o_(options), chief_(options.chief), random_(options.seed) {
    counts_.assign(at(o_.dp), o_.micro_batches / o_.dp);
    roles_ = first_roles();
    agents_.assign(at(node_of(ranks() - 1) + 1), o_.has_agents);
    has_trainer_ = o_.has_trainer;
}

Now SimulatedJob::now() const {
    return {now_s_, epoch_ms + static_cast<std::int64_t>(now_s_ * 1000)};
}

std::vector<std::int64_t> SimulatedJob::first_roles() const {
    TrainerPlan plan;
    plan.dp = o_.dp;
    plan.pp = o_.pp;
    plan.tp = o_.tp;
    const Placement ranks = ranks_as_started(plan);
    return {ranks.begin(), ranks.end()};
}

bool SimulatedJob::has_first_roles() const { return roles_ == first_roles(); }

// ---- physics -----------------------------------------------------------------------------------

double SimulatedJob::factor(Kind kind, std::int64_t a, std::int64_t b) const {
    double product = 1;
    for (const SimulatedFault& fault : faults_)
        product *= 1 + (fault.factor - 1) * share_of(fault, kind, a, b);
    return product;
}

double SimulatedJob::delay_s(std::int64_t a, std::int64_t b) const {
    double sum = 0;
    for (const SimulatedFault& fault : faults_)
        sum += fault.delay_s * share_of(fault, Kind::link, a, b);
    return sum;
}

/// Of a fault, how much of it there is now, there; 0: nothing.
double SimulatedJob::share_of(const SimulatedFault& fault, Kind kind, std::int64_t a,
                              std::int64_t b) const {
    if (fault.kind != kind || now_s_ < fault.from_s || now_s_ >= fault.until_s) return 0;
    const bool hit = kind == Kind::host || (kind == Kind::gpu && fault.rank == a) ||
                     (kind == Kind::link &&
                      std::minmax(a, b) == std::minmax<std::int64_t>(fault.rank, fault.peer));
    if (!hit) return 0;
    return fault.ramp_s > 0 ? std::min(1.0, (now_s_ - fault.from_s) / fault.ramp_s) : 1;
}

double SimulatedJob::bandwidth(std::int64_t a, std::int64_t b) const {
    const double near = node_of(a) == node_of(b) ? 4 : 1;
    return near * o_.link_bytes_per_s / factor(Kind::link, a, b);
}

std::int64_t SimulatedJob::rank_at(std::int64_t replica, std::int64_t stage,
                                   std::int64_t shard) const {
    return roles_[at((replica * o_.pp + stage) * o_.tp + shard)];
}

double SimulatedJob::stage_s(std::int64_t replica, std::int64_t stage) const {
    double worst = 1;
    for (std::int64_t shard = 0; shard < o_.tp; ++shard)
        worst = std::max(worst, factor(Kind::gpu, rank_at(replica, stage, shard)));
    return worst * o_.micro_batch_s;
}

double SimulatedJob::true_step_s() const {
    double computing = 0, chain = 0, ring = 0;
    for (std::int64_t d = 0; d < o_.dp; ++d) {
        double sum = 0, worst = 0, hops = 0;
        for (std::int64_t p = 0; p < o_.pp; ++p) {
            sum += stage_s(d, p);
            worst = std::max(worst, stage_s(d, p));
            if (p + 1 < o_.pp)
                hops += 2 * static_cast<double>(counts_[at(d)]) *
                        message_s(o_.activation_bytes, rank_at(d, p, 0), rank_at(d, p + 1, 0));
        }
        computing = std::max(computing, sum + static_cast<double>(counts_[at(d)] - 1) * worst);
        chain = std::max(chain, hops);
    }
    const auto replicas = static_cast<double>(o_.dp);
    for (std::int64_t p = 0; o_.dp > 1 && p < o_.pp; ++p)
        for (std::int64_t d = 0; d < o_.dp; ++d)
            ring = std::max(ring, 2 * (replicas - 1) *
                                      message_s(o_.gradient_bytes / replicas, rank_at(d, p, 0),
                                                rank_at((d + 1) % o_.dp, p, 0)));
    return (computing + chain + ring + o_.fixed_s) * factor(Kind::host, 0);
}

double SimulatedJob::noisy(double value, double noise) {
    return value * std::max(0.5, 1 + noise * std::normal_distribution<>()(random_));
}

// ---- the chief's side --------------------------------------------------------------------------

void SimulatedJob::send(PeerId from, const Frame& frame) { take(chief_.on(from, frame, now())); }

void SimulatedJob::take(Actions actions) {
    for (LogLine& line : actions.lines) lines_.push_back({now_s_, line.text});
    for (SlowReport& report : actions.reports) {
        ck_assert_msg(check_slow_report(report).ok(), "%s",
                      check_slow_report(report).error().message().c_str());
        reports_.push_back({now_s_, report});
    }
    for (const Message& message : actions.messages) {
        const bool to_trainer = message.to == trainer_;
        if (const auto* open = std::get_if<EventOpen>(&message.frame)) event_open_ = open->open;
        if (const auto* profile = std::get_if<Profile>(&message.frame)) {
            profile_left_ = profile->iterations;
            profiled_s_.clear();
        }
        if (const auto* tell = std::get_if<Tell>(&message.frame)) {
            ck_assert(to_trainer && tell->text.size() <= longest_tell);
            told_ += tell->text + "\n";
        }
        const auto* say = std::get_if<Say>(&message.frame);
        if (say == nullptr) continue;
        ck_assert(to_trainer && has_trainer_);
        ck_assert_msg(to_obey_.empty() || !obeys || !answers_checks,
                      "two words in flight: \"%s\" and \"%s\"", to_obey_.front().c_str(),
                      say->word.c_str());
        to_obey_.push_back(say->word);
    }
}

void SimulatedJob::connect() {
    is_connected_ = true;
    for (std::int64_t node = 0; node < std::ssize(agents_); ++node) {
        if (!agents_[at(node)]) continue;
        send(first_agent + at(node), AgentHello{name_of(node), 5000});
        for (std::int64_t rank = node * o_.gpus_per_node;
             rank < std::min(ranks(), (node + 1) * o_.gpus_per_node); ++rank)
            send(first_agent + at(node), RankHere{rank, ranks(), rank % o_.gpus_per_node});
    }
    if (has_trainer_) introduce_trainer();
}

void SimulatedJob::introduce_trainer() {
    TrainerHello hello;
    for (std::int64_t rank = 0; rank < ranks(); ++rank) {
        hello.nodes.push_back(name_of(node_of(rank)));
        hello.gpus.push_back(rank % o_.gpus_per_node);
    }
    send(trainer_, hello);
    send(trainer_, TrainerPlan{.dp = o_.dp,
                               .pp = o_.pp,
                               .tp = o_.tp,
                               .micro_batches = counts_,
                               .gradient_bytes = o_.gradient_bytes,
                               .activation_bytes = o_.activation_bytes,
                               .state_bytes = std::vector<double>(at(o_.pp), o_.state_bytes),
                               .link_bytes = 64e6,
                               .same_state_in_stage = true,
                               .checkpoints = o_.checkpoints,
                               .restart_s = o_.restart_s});
}

// ---- the trainer's side ------------------------------------------------------------------------

void SimulatedJob::run_until(double end_s) {
    if (!is_connected_) connect();
    while (now_s_ < end_s) {
        // What is said meanwhile is obeyed before the next step.
        std::deque<std::string> words;
        if (obeys) words.swap(to_obey_);
        for (const std::string& word : words) obey(word);
        step();
    }
}

void SimulatedJob::pass_to(double end_s) {
    while (std::min(next_tick_s_, next_poll_s_) <= end_s) {
        now_s_ = std::max(now_s_, std::min(next_tick_s_, next_poll_s_));
        if (next_tick_s_ <= next_poll_s_) {
            next_tick_s_ += 1;
            take(chief_.tick(now()));
        } else {
            next_poll_s_ += o_.chief.poll_s;
            poll_agents();
        }
    }
    now_s_ = std::max(now_s_, end_s);
}

void SimulatedJob::step() {
    double seconds = noisy(true_step_s(), o_.noise);
    std::uniform_real_distribution<> share(0, 1);
    if (share(random_) < o_.spikes) seconds *= 1 + 2 * share(random_);
    std::vector<double> micro_batch_s;
    for (std::int64_t d = 0; o_.tells_micro_batches && d < o_.dp; ++d) {
        double worst = 0;
        for (std::int64_t p = 0; p < o_.pp; ++p) worst = std::max(worst, stage_s(d, p));
        micro_batch_s.push_back(noisy(worst, o_.noise));
    }
    pass_to(now_s_ + seconds);
    ++step_;
    steps_.push_back({now_s_, seconds});
    note_iteration(seconds, now_s_);
    if (has_trainer_)
        send(trainer_, StepDone{.step = step_,
                                .end_ms = now().epoch_ms,
                                .seconds = seconds,
                                .tokens = 0,
                                .micro_batch_s = micro_batch_s});
}

void SimulatedJob::note_iteration(double seconds, double end_s) {
    iterations_.push_back({.end_ms = epoch_ms + static_cast<std::int64_t>(end_s * 1000),
                           .time_us = static_cast<std::int64_t>(seconds * 1e6),
                           .tokens = 0});
    if (profile_left_ <= 0) return;
    profiled_s_.push_back(seconds);
    if (--profile_left_ > 0) return;
    for (std::int64_t rank = 0; rank < ranks(); ++rank)
        if (agents_[at(node_of(rank))]) send(first_agent + at(node_of(rank)), times_of(rank));
    profiled_s_.clear();
}

/// The slow GPU waits least: in its ring the others wait for it, and all for the slowest ring where
/// the next step's activations come from. Not for a host, which is slow outside of all calls.
GroupTimes SimulatedJob::times_of(std::int64_t rank) {
    const std::int64_t place = std::ranges::find(roles_, rank) - roles_.begin();
    const std::int64_t shard = place % o_.tp, stage = place / o_.tp % o_.pp;
    const std::int64_t replica = place / o_.tp / o_.pp;
    const auto own_s = [&](std::int64_t of) {
        return static_cast<double>(counts_[at(of)]) * stage_s(of, stage) + o_.fixed_s;
    };
    double ring_s = 0, last_s = 0;
    for (std::int64_t d = 0; d < o_.dp; ++d) {
        ring_s = std::max(ring_s, message_s(o_.gradient_bytes, rank_at(d, stage, shard),
                                            rank_at((d + 1) % o_.dp, stage, shard)));
        last_s = std::max(last_s, own_s(d));
    }
    GroupTimes times{.rank = rank, .groups = {}, .step_s = profiled_s_};
    GroupTimes::One ring{.group = "dp" + std::to_string(stage * o_.tp + shard),
                         .kind = "all_reduce",
                         .bytes = static_cast<std::int64_t>(o_.gradient_bytes),
                         .peer = -1,
                         .seconds = {}};
    GroupTimes::One chain{.group = "pp" + std::to_string(replica * o_.tp + shard),
                          .kind = "all_to_all",
                          .bytes = static_cast<std::int64_t>(o_.activation_bytes),
                          .peer = -1,
                          .seconds = {}};
    for (const double step_s : profiled_s_) {
        const double out_s = std::max(step_s * (1 - 1 / factor(Kind::host, 0)), 0.0);
        const double own = noisy(own_s(replica), o_.noise) + out_s;
        const double in_ring = noisy(ring_s + 0.001 + last_s - own_s(replica), o_.noise);
        const double rest = std::max(0.0, step_s - own - in_ring);
        ring.seconds.push_back(o_.pp > 1 ? in_ring : in_ring + rest);
        chain.seconds.push_back(rest);
    }
    times.groups.push_back(std::move(ring));
    if (o_.pp > 1) times.groups.push_back(std::move(chain));
    return times;
}

void SimulatedJob::poll_agents() {
    for (std::int64_t rank = 0; rank < ranks() && !iterations_.empty(); ++rank)
        if (agents_[at(node_of(rank))])
            send(first_agent + at(node_of(rank)), Iterations{rank, 1, iterations_});
    iterations_.clear();
}

void SimulatedJob::obey(const std::string& word) {
    if (!has_trainer_) return;
    words_.push_back({now_s_, word});
    if (word.starts_with("check ")) return check(word);
    const double start = now_s_;
    if (word.starts_with("split "))
        split(word);
    else if (word.starts_with("swap "))
        swap(word);
    else
        ck_abort_msg("not a word: %s", word.c_str());
    send(trainer_, Obeyed{step_ + 1, word, now_s_ - start});
}

void SimulatedJob::split(const std::string& word) {
    std::vector<std::int64_t> counts;
    for (const std::string_view one : arena::split(std::string_view(word).substr(6), ','))
        counts.push_back(number(one));
    ck_assert_int_eq(std::ssize(counts), o_.dp);
    ck_assert_int_eq(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}),
                     std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}));
    ck_assert_int_ge(std::ranges::min(counts), 1);
    counts_ = counts;
}

void SimulatedJob::swap(const std::string& word) {
    const auto words = arena::split(word, ' ');
    ck_assert_int_eq(words.size(), 3);
    const std::int64_t a = number(words[1]), b = number(words[2]);
    ck_assert(a != b && a < ranks() && b < ranks());
    std::iter_swap(std::ranges::find(roles_, a), std::ranges::find(roles_, b));
    pass_to(now_s_ + o_.swap_s);
}

double SimulatedJob::product_ms(std::int64_t rank) {
    const double ms = noisy(10 * factor(Kind::gpu, rank), o_.check_noise);
    std::uniform_real_distribution<double> chance(0, 1), burst(1.3, 3);
    return o_.bursts > 0 && chance(random_) < o_.bursts ? burst(random_) * ms : ms;
}

void SimulatedJob::check(const std::string& word) {
    const auto words = arena::split(word, ' ');
    Checked answer{
        .id = number(words[1]), .gpus = {}, .links = {}, .seconds = o_.check_s, .failure = {}};
    if (std::ranges::find(words, "gpus") != words.end())
        for (std::int64_t rank = 0; rank < ranks(); ++rank)
            answer.gpus.push_back({rank, product_ms(rank), "A"});
    const auto links = std::ranges::find(words, "links");
    for (const std::string_view pass :
         links == words.end() ? std::vector<std::string_view>{} : arena::split(*(links + 1), '|')) {
        std::set<std::int64_t> busy;
        for (const std::string_view link : arena::split(pass, ',')) {
            const auto ends = arena::split(link, '>');
            const std::int64_t from = number(ends[0]), to = number(ends[1]);
            ck_assert_msg(busy.insert(from).second && busy.insert(to).second,
                          "a rank twice in a pass");
            ck_assert(from < ranks() && to < ranks());
            const bool is_slow =
                factor(Kind::gpu, from) > 1.5 || factor(Kind::gpu, to) > 1.5;  // copies, too
            const double latency_s = delay_s(from, to);
            const double there_s = 64e6 / bandwidth(from, to) * (is_slow ? 1.25 : 1);
            answer.links.push_back({from, to,
                                    noisy(1e3 * (there_s + 2 * latency_s), 2 * o_.check_noise),
                                    1e3 * latency_s});
        }
    }
    pass_to(now_s_ + o_.check_s);
    if (dies_in_check_) return kill_trainer();
    if (!answers_checks) return;
    if (nonsense) {
        const std::int64_t id = answer.id;
        answer = *nonsense;
        answer.id = id;
    }
    send(trainer_, answer);
}

void SimulatedJob::kill_agent(std::int64_t node) {
    agents_[at(node)] = false;
    take(chief_.gone(first_agent + at(node), now()));
}

void SimulatedJob::kill_trainer(bool in_a_check) {
    dies_in_check_ = in_a_check;
    if (in_a_check || !has_trainer_) return;
    has_trainer_ = false;
    to_obey_.clear();
    take(chief_.gone(trainer_, now()));
}

void SimulatedJob::reconnect_trainer() {
    to_obey_.clear();
    take(chief_.gone(trainer_, now()));
    ++trainer_;
    introduce_trainer();
}

// ---- what happened -----------------------------------------------------------------------------

double SimulatedJob::line_at(const std::string& part, double from_s) const {
    for (const Said& line : lines_)
        if (line.at_s >= from_s && line.text.find(part) != std::string::npos) return line.at_s;
    return -1;
}

std::size_t SimulatedJob::count_lines(const std::string& part) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        lines_, [&](const Said& line) { return line.text.find(part) != std::string::npos; }));
}

double SimulatedJob::word_at(const std::string& part, double from_s) const {
    for (const Said& word : words_)
        if (word.at_s >= from_s && word.text.find(part) != std::string::npos) return word.at_s;
    return -1;
}

double SimulatedJob::step_s(double from_s, double until_s) const {
    double sum = 0, count = 0;
    for (const SimulatedStep& step : steps_) {
        if (step.end_s < from_s || step.end_s > until_s) continue;
        sum += step.seconds;
        count += 1;
    }
    return count > 0 ? sum / count : 0;
}

}  // namespace arena::test
