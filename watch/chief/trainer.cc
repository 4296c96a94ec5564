// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/chief/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "slowdown/micro_batches.h"

namespace arena::watch {
namespace {

constexpr std::int64_t steps_to_obey = 8;  ///< a word is obeyed before the next step or two
constexpr double shortest_wait_s = 10, longest_wait_s = 300;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

bool is_amount(double value) { return std::isfinite(value) && value >= 0; }

Status check_counts(const TrainerPlan& plan) {
    if (std::ssize(plan.micro_batches) != plan.dp)
        return usage_error(fmt::format("{} replicas, but micro-batches of {}", plan.dp,
                                       plan.micro_batches.size()));
    std::int64_t sum = 0;
    for (const std::int64_t count : plan.micro_batches) {
        if (count < 1 || count > slowdown::most_micro_batches)
            return usage_error("a replica's micro-batches are no number that can be");
        sum += count;
    }
    if (sum > slowdown::most_micro_batches) return usage_error("too many micro-batches");
    return Done{};
}

Status check_plan(const TrainerPlan& plan, std::int64_t ranks) {
    for (const std::int64_t size : {plan.dp, plan.pp, plan.tp})
        if (size < 1 || size > most_ranks) return usage_error("a size of its grid is out of range");
    if (plan.dp * plan.pp > most_ranks || plan.dp * plan.pp * plan.tp != ranks)
        return usage_error(fmt::format("dp {} x pp {} x tp {} are not the {} ranks that it named",
                                       plan.dp, plan.pp, plan.tp, ranks));
    const bool amounts = is_amount(plan.gradient_bytes) && is_amount(plan.activation_bytes) &&
                         is_amount(plan.link_bytes) && is_amount(plan.restart_s) &&
                         std::ranges::all_of(plan.state_bytes, is_amount) &&
                         (plan.state_bytes.empty() || std::ssize(plan.state_bytes) == plan.pp);
    if (!amounts) return usage_error("an amount is no number, or not one for each stage");
    return check_counts(plan);
}

}  // namespace

Counts even_split(std::int64_t micro_batches, std::int64_t replicas) {
    Counts counts(at(replicas), micro_batches / replicas);
    for (std::int64_t i = 0; i < micro_batches % replicas; ++i) ++counts[at(i)];
    return counts;
}

Placement ranks_as_started(const TrainerPlan& plan) {
    Placement ranks;
    for (std::int64_t replica = 0; replica < plan.dp; ++replica)
        for (std::int64_t stage = 0; stage < plan.pp; ++stage)
            for (std::int64_t shard = 0; shard < plan.tp; ++shard)
                ranks.push_back(at((stage * plan.dp + replica) * plan.tp + shard));
    return ranks;
}

std::vector<Swap> swaps_between(const Placement& from, const Placement& to) {
    std::vector<Swap> swaps;
    Placement now = from, where(from.size());
    for (std::size_t i = 0; i < now.size(); ++i) where[now[i]] = i;
    for (std::size_t i = 0; i < now.size(); ++i) {
        if (now[i] == to[i]) continue;
        swaps.push_back({static_cast<std::int64_t>(now[i]), static_cast<std::int64_t>(to[i])});
        const std::size_t other = where[to[i]];
        std::swap(where[now[i]], where[now[other]]);
        std::swap(now[i], now[other]);
    }
    return swaps;
}

void Trainer::hello(PeerId peer, const TrainerHello& hello) {
    *this = Trainer();
    here_ = true;
    peer_ = peer;
    hello_ = hello;
}

void Trainer::gone() { *this = Trainer(); }

Status Trainer::plan(const TrainerPlan& plan) {
    const Status good = check_plan(plan, ranks());
    if (!good) {
        has_plan_ = false;
        word_.reset();
        return good;
    }
    const bool same_grid = has_plan_ && plan.dp == plan_.dp && plan.pp == plan_.pp;
    has_plan_ = true;
    plan_ = plan;
    if (!same_grid) placement_ = started();
    return Done{};
}

SlowPlace Trainer::place_of(std::int64_t rank) const {
    if (rank < 0 || rank >= ranks()) return {};
    return {hello_.nodes[at(rank)],
            at(rank) < hello_.gpus.size() ? hello_.gpus[at(rank)] : any_gpu};
}

std::int64_t Trainer::micro_batches() const {
    return std::accumulate(counts().begin(), counts().end(), std::int64_t{0});
}

Placement Trainer::started() const { return ranks_as_started(plan_); }

Placement Trainer::node_placement() const {
    const std::size_t tp = at(plan_.tp);
    Placement nodes;
    for (std::size_t i = 0; i < placement_.size(); ++i) {
        if (placement_[i] % tp != i % tp || placement_[i] / tp != placement_[i - i % tp] / tp)
            return {};
        if (i % tp == 0) nodes.push_back(placement_[i] / tp);
    }
    return nodes;
}

bool Trainer::is_changed() const {
    return obeys() &&
           (counts() != even_split(micro_batches(), plan_.dp) || placement_ != started());
}

bool Trainer::can_obey(const Word& word) const {
    switch (word.kind) {
        case Word::Kind::split:
            return word.counts.size() == counts().size() &&
                   std::ranges::all_of(word.counts, [](std::int64_t n) { return n >= 1; }) &&
                   std::accumulate(word.counts.begin(), word.counts.end(), std::int64_t{0}) ==
                       micro_batches();
        case Word::Kind::swap:
            return word.swap.a != word.swap.b && word.swap.a >= 0 && word.swap.b >= 0 &&
                   word.swap.a < ranks() && word.swap.b < ranks();
        case Word::Kind::check:
            return true;
    }
    return false;
}

std::optional<Message> Trainer::say(Word word, double now_s) {
    if (!obeys() || word_ || !can_obey(word)) return std::nullopt;
    if (word.kind == Word::Kind::split)
        word.text = fmt::format("split {}", fmt::join(word.counts, ","));
    if (word.kind == Word::Kind::swap)
        word.text = fmt::format("swap {} {}", word.swap.a, word.swap.b);
    word_ = std::move(word);
    said_at_s_ = now_s;
    steps_since_ = 0;
    return Message{peer_, Say{word_->text}};
}

void Trainer::apply(const Word& word) {
    if (word.kind == Word::Kind::split) plan_.micro_batches = word.counts;
    if (word.kind != Word::Kind::swap) return;
    const auto a = std::ranges::find(placement_, at(word.swap.a));
    const auto b = std::ranges::find(placement_, at(word.swap.b));
    std::iter_swap(a, b);
}

std::optional<Trainer::Word> Trainer::obeyed(const Obeyed& obeyed) {
    if (!word_ || word_->kind == Word::Kind::check || word_->text != obeyed.word)
        return std::nullopt;
    apply(*word_);
    if (word_->kind == Word::Kind::swap && is_amount(obeyed.seconds))
        swap_s_ = std::max(swap_s_, obeyed.seconds);
    return std::exchange(word_, std::nullopt);
}

std::optional<Trainer::Word> Trainer::checked(const Checked& checked) {
    if (!word_ || word_->kind != Word::Kind::check || word_->check != checked.id)
        return std::nullopt;
    return std::exchange(word_, std::nullopt);
}

void Trainer::step_done(const StepDone& step) {
    ++steps_since_;
    if (is_amount(step.seconds)) step_s_ = step.seconds;
}

std::optional<Trainer::Word> Trainer::lost(double now_s) {
    const bool goes_on = steps_since_ > steps_to_obey && now_s > said_at_s_ + shortest_wait_s;
    const bool waits = word_ && !goes_on && now_s <= said_at_s_ + longest_wait_s + 4 * step_s_;
    if (!word_ || waits) return std::nullopt;
    return std::exchange(word_, std::nullopt);
}

}  // namespace arena::watch
