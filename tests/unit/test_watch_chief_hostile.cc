// SPDX-License-Identifier: GPL-2.0-or-later
// The chief against peers that say anything in any order: it never crashes, tells the trainer at
// most one word at a time, and only words that its plan can obey; what it keeps and writes is
// bounded.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "base/text.h"
#include "simulated_job.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;
using namespace arena::watch;

namespace {

/// A peer that draws frames; small numbers often meet, large ones are out of all range.
class Dice {
  public:
    explicit Dice(unsigned seed) : random_(seed) {}
    std::int64_t pick(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
    }
    bool often() { return pick(0, 9) > 0; }
    std::int64_t rank() { return often() ? pick(0, 7) : pick(0, most_ranks - 1); }
    double amount() {
        static constexpr double odd[] = {0, 1e-6, 1e9, 1e300, 5e-324, 1};
        return often() ? 0.1 * static_cast<double>(pick(1, 20)) : odd[pick(0, 5)];
    }
    template <typename T>
    std::vector<T> some(std::int64_t most, T (Dice::*draw)()) {
        std::vector<T> values;
        for (std::int64_t left = pick(0, most); left > 0; --left) values.push_back((this->*draw)());
        return values;
    }
    std::int64_t count() { return often() ? pick(1, 20) : pick(0, INT64_MAX); }

    TrainerPlan plan() {
        static constexpr std::int64_t sizes[] = {1, 2, 4, 8, 0, 65'536};
        TrainerPlan plan;
        plan.dp = sizes[pick(0, often() ? 3 : 5)];
        plan.pp = sizes[pick(0, 2)];
        plan.tp = std::max<std::int64_t>(1, 8 / std::max<std::int64_t>(1, plan.dp * plan.pp));
        plan.micro_batches.assign(
            static_cast<std::size_t>(often() ? std::min<std::int64_t>(plan.dp, 64) : 3), count());
        plan.gradient_bytes = amount();
        plan.activation_bytes = amount();
        plan.link_bytes = amount();
        plan.checkpoints = often();
        return plan;
    }
    Iterations iterations() {
        Iterations frame{.rank = rank(), .series = pick(0, 2), .done = {}};
        for (std::int64_t left = pick(0, 30); left > 0; --left)
            frame.done.push_back({pick(0, 1 << 30), often() ? pick(100'000, 110'000) : count(),
                                  often() ? 0 : pick(0, 5)});
        return frame;
    }
    Checked checked() {
        Checked frame{
            .id = pick(0, 40), .gpus = {}, .links = {}, .seconds = amount(), .failure = {}};
        const bool is_sane = pick(0, 3) > 0;
        for (std::int64_t r = 0; r < 8; ++r)
            frame.gpus.push_back(
                {is_sane || often() ? r : rank(),
                 is_sane ? 10.0 * static_cast<double>(pick(1, pick(1, 3))) : amount(),
                 is_sane || often() ? "A" : "B"});
        for (std::int64_t left = pick(0, 8); left > 0; --left) {
            const std::int64_t from = is_sane ? pick(0, 3) : rank();
            frame.links.push_back({from, is_sane ? from + pick(1, 4) : rank(),
                                   is_sane ? 5.0 * static_cast<double>(pick(1, 4)) : amount()});
        }
        return frame;
    }
    StepDone step(double usual) {
        return {.step = count(),
                .end_ms = often() ? now_ms : pick(0, INT64_MAX),
                .seconds = often() ? usual : amount(),
                .tokens = often() ? 0 : pick(0, 9),
                .micro_batch_s = some<double>(8, &Dice::amount)};
    }
    Frame frame(double usual, const std::string& word) {
        const auto parts = split(word, ' ');
        if (parts[0] == "check" && pick(0, 9) == 0) {
            Checked answer = checked();
            answer.id = parse_integer(parts[1], 0, 1 << 30).value();
            return answer;
        }
        switch (pick(0, 17)) {
            case 0:
                return AgentHello{"n" + std::to_string(pick(0, 3)), pick(1, 10000)};
            case 1:
                return RankHere{rank(), 8, pick(-1, 9)};
            case 2:
                return iterations();
            case 3:
                return GroupTimes{
                    rank(),
                    {{"g" + std::to_string(pick(0, 3)), "send", 8, pick(-1, 9), {amount()}}},
                    {amount()}};
            case 4:
                return Silent{rank(), amount()};
            case 5:
                return TooDear{amount(), often()};
            case 6:
                return TrainerHello{std::vector<std::string>(often() ? 8 : 3, "n1"),
                                    {0, 1, 2, 3, 4, 5, 6, 7}};
            case 7:
                return plan();
            case 8:
                return Obeyed{count(), often() ? word : "swap 1 1", amount()};
            case 9:
            case 10:
                return checked();
            case 11:
                return Profile{pick(0, 9)};
            case 12:
                return Say{"check 1 gpus"};
            default:
                return step(usual);
        }
    }
    std::int64_t now_ms = 1'763'900'000'000;

  private:
    std::mt19937 random_;
};

/// Holds what is said to one trainer against its plan.
class Witness {
  public:
    std::string in_flight;  ///< not obeyed or answered yet
    double said_at_s = 0, now_s = 0;
    PeerId trainer = 0;
    std::optional<TrainerPlan> plan;

    void see(const Actions& actions) {
        for (const Message& message : actions.messages)
            if (const auto* say = std::get_if<Say>(&message.frame)) on_word(message.to, say->word);
        for (const SlowReport& report : actions.reports) {
            ck_assert(check_slow_report(report).ok());
            ++reports;
        }
        lines += actions.lines.size();
        for (const LogLine& line : actions.lines) ck_assert_int_lt(line.text.size(), 20'000);
    }
    std::size_t reports = 0, lines = 0, words = 0;

    void hear(const Frame& frame) {
        const auto* obeyed = std::get_if<Obeyed>(&frame);
        const auto* checked = std::get_if<Checked>(&frame);
        const bool is_answer =
            in_flight.starts_with("check ")
                ? checked != nullptr &&
                      in_flight.starts_with("check " + std::to_string(checked->id) + " ")
                : obeyed != nullptr && obeyed->word == in_flight;
        if (is_answer || std::holds_alternative<TrainerHello>(frame) ||
            std::holds_alternative<TrainerPlan>(frame))
            in_flight.clear();
    }

  private:
    void on_word(PeerId to, const std::string& word) {
        ++words;
        ck_assert_msg(in_flight.empty() || now_s > said_at_s + 10, "\"%s\" while \"%s\"",
                      word.c_str(), in_flight.c_str());
        said_at_s = now_s;
        ck_assert(plan.has_value());
        ck_assert_int_eq(to, trainer);
        const auto parts = split(word, ' ');
        if (parts[0] == "split") {
            std::int64_t sum = 0, wanted = 0;
            const auto counts = split(parts[1], ',');
            ck_assert_int_eq(counts.size(), plan->micro_batches.size());
            for (const auto one : counts) sum += parse_integer(one, 1, 1 << 30).value();
            for (const std::int64_t one : plan->micro_batches) wanted += one;
            ck_assert_int_eq(sum, wanted);
        } else if (parts[0] == "swap") {
            const auto a = parse_integer(parts[1], 0, 7), b = parse_integer(parts[2], 0, 7);
            ck_assert(a && b && *a != *b);
        } else {
            ck_assert(parts[0] == "check" && parts.size() >= 3);
        }
        in_flight = word;
    }
};

TEST(any_frames_in_any_order_do_no_harm) {
    std::size_t words = 0, reports = 0;
    for (unsigned seed = 1; seed <= 300; ++seed) {
        Dice dice(seed);
        Chief chief({.mode = SlowdownMode::mitigate, .poll_s = 1, .recheck_s = 3});
        Witness witness;
        double steady_s = 0;
        std::set<PeerId> agents;
        for (int i = 0; i < 1500; ++i) {
            steady_s += 0.1;
            dice.now_ms += 100;
            const Now now{steady_s, dice.now_ms};
            const double usual = (i / 200) % 2 == 0 ? 0.1 : 0.2;
            const auto from = static_cast<PeerId>(dice.often() ? 1 : dice.pick(1, 6));
            const Frame frame = dice.frame(usual, witness.in_flight);
            // What the chief may know of the trainer, by its own rules.
            if (const auto* hello = std::get_if<TrainerHello>(&frame);
                hello != nullptr && hello->nodes.size() == 8 && !agents.contains(from)) {
                witness.trainer = from;
                witness.plan.reset();
            }
            const bool by_trainer = from == witness.trainer;
            if (std::holds_alternative<AgentHello>(frame) && !by_trainer) agents.insert(from);
            if (const auto* plan = std::get_if<TrainerPlan>(&frame); plan != nullptr && by_trainer)
                witness.plan = *plan;
            witness.now_s = steady_s;
            if (by_trainer) witness.hear(frame);
            witness.see(chief.on(from, frame, now));
            if (i % 10 == 0) witness.see(chief.tick(now));
            if (dice.pick(0, 300) == 0) {
                agents.erase(from);
                if (by_trainer) {
                    witness.trainer = 0;
                    witness.plan.reset();
                    witness.in_flight.clear();
                }
                witness.see(chief.gone(from, now));
            }
        }
        words += witness.words;
        reports += witness.reports;
        ck_assert_int_le(witness.reports, 60);
    }
    std::printf("# 300 x 1,500 frames: %zu words, %zu reports\n", words, reports);
    ck_assert_int_gt(words, 300);
    ck_assert_int_gt(reports, 2);  // two checks in a row must say the same by chance
}

TEST(one_word_at_a_time_whatever_is_answered) {
    // An honest trainer that obeys late, between two of a dice's frames from other peers.
    for (unsigned seed = 1; seed <= 30; ++seed) {
        SimulatedOptions options;
        options.seed = seed;
        options.dp = 4;
        options.micro_batches = 64;
        options.chief.recheck_s = 2;
        SimulatedJob job(options);  // asserts that no two words are in flight
        Dice dice(seed);
        job.add({.kind = SimulatedFault::Kind::gpu,
                 .rank = 1,
                 .factor = 2,
                 .from_s = 20,
                 .until_s = 60});
        job.add({.kind = SimulatedFault::Kind::gpu,
                 .rank = 2,
                 .factor = 1.5,
                 .from_s = 40,
                 .until_s = 90});
        for (double until_s = 1; until_s < 150; until_s += 1) {
            job.run_until(until_s);
            for (int i = 0; i < 3; ++i) {
                const Frame frame = dice.frame(0.5, "split 1,2");
                if (!std::holds_alternative<TrainerHello>(frame))
                    job.take(
                        job.chief().on(static_cast<PeerId>(dice.pick(50, 60)), frame, job.now()));
            }
        }
    }
}

TEST(a_peer_that_connects_a_thousand_times_is_no_burden) {
    Chief chief({});
    std::size_t lines = 0;
    for (PeerId peer = 1; peer <= 1000; ++peer) {
        const Now now{static_cast<double>(peer) / 1000, 1000};
        for (const Frame& frame : {Frame(AgentHello{"n1", 5000}), Frame(RankHere{1, 2, 0}),
                                   Frame(Obeyed{}), Frame(Say{"x"})})
            lines += chief.on(peer, frame, now).lines.size();
        lines += chief.gone(peer, now).lines.size();
    }
    std::printf("# 1,000 connections: %zu lines\n", lines);
    ck_assert_int_le(lines, 300);
}

TEST(any_rank_up_to_the_last_may_speak) {
    Chief chief({});
    chief.on(1, AgentHello{"n1", 5000}, {0, 1000});
    std::size_t lines = 0;
    for (int turn = 0; turn < 30; ++turn)
        for (std::int64_t rank = 0; rank < most_ranks; rank += 64) {
            const Now now{5.0 * turn, 1000 + 5000 * turn};
            if (turn == 0) chief.on(1, RankHere{rank, most_ranks, 0}, now);
            lines +=
                chief
                    .on(1,
                        Iterations{rank,
                                   1,
                                   {{.end_ms = 1, .time_us = 1, .tokens = 0},
                                    {.end_ms = 2, .time_us = 1'000'000'000'000'000, .tokens = 0}}},
                        now)
                    .lines.size();
            lines += chief.on(1, Silent{rank, 1e9}, now).lines.size();
        }
    ck_assert_int_le(lines, 1200);
}

TEST(a_plan_of_all_ranks_gets_words_of_bounded_length) {
    Chief chief({.mode = SlowdownMode::mitigate});
    TrainerHello hello{std::vector<std::string>(most_ranks, "n1"), {}};
    chief.on(1, hello, {0, 1000});
    TrainerPlan plan;
    plan.dp = 1024;
    plan.pp = plan.tp = 8;
    plan.micro_batches.assign(1024, 4);
    const Actions actions = chief.on(1, plan, {1, 2000});
    const std::string& word = std::get<Say>(actions.messages.at(0).frame).word;
    ck_assert_int_lt(word.size(), longest_frame - 1000);
    ck_assert_int_gt(word.size(), 100'000);
    ck_assert_int_le(actions.lines.size(), 200);
}

}  // namespace
