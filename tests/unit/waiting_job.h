// SPDX-License-Identifier: GPL-2.0-or-later
// A training job that never was, rank by rank: when each computes, and how long it is in each call
// of its tensor, expert, pipeline and data groups. GPipe's order; every call is one that all its
// ranks are in until it is over, but for messages that are sent without waiting (eager).
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "slowdown/waits.h"

namespace arena::test {

struct WaitingJob {
    int tp = 1, dp = 2, pp = 1,
        ep = 1;  ///< ep divides dp: all-to-all in groups of so many replicas
    int micro_batches = 4;
    double compute_s = 0.02;           ///< of a stage, forward, of a micro-batch; backward twice
    std::vector<double> stage_weight;  ///< of each stage; usual 1
    double transfer_s = 0.001;         ///< of a call
    bool eager = false;                ///< messages of pipelines
    bool overlapped = false;           ///< gradients go in buckets while the backward goes on

    // ---- what healthy jobs have, too
    double jitter = 0.02;   ///< of each piece of computing, log-normal
    double unequal = 0.02;  ///< of each rank, for ever
    double drift = 0;       ///< of each rank's computing, over 100 steps, its own
    double lengths = 1;     ///< sequences differ up to so many times, each micro-batch of a replica
    double moving = 1;      ///< a straggler's factor
    int moves_each = 3;     ///< steps after which it is another rank
    double spikes = 0;      ///< share of steps in which one rank does something else
    double rank0 = 0;       ///< share of steps in which rank 0 writes something

    // ---- what happens from step `from` on
    int from = 1 << 30;
    int slow_rank = -1;
    double slow = 1;
    std::pair<int, int> link{-1, -1};
    double delay_s = 0;       ///< of each message over the link
    double longer = 1;        ///< all ranks have more to do
    double moving_later = 1;  ///< a straggler that moves begins
    unsigned seed = 1;

    [[nodiscard]] int ranks() const { return tp * dp * pp; }
};

class WaitingRun {
  public:
    explicit WaitingRun(const WaitingJob& job)
        : job_(job), random_(job.seed), clock_(static_cast<std::size_t>(job.ranks())) {
        for (int r = 0; r < job.ranks(); ++r) {
            unequal_.push_back(noisy(job.unequal));
            drift_.push_back(job.drift * normal());
        }
    }
    /// Skips to that step, and looks at so many.
    slowdown::Look look(int from, int steps) {
        while (step_ < from) step();
        waits_.assign(clock_.size(), {});
        at_ = 0;
        slowdown::Look look;
        for (int r = 0; r < job_.ranks(); ++r) look.push_back({r, {}, {}});
        for (int i = 0; i < steps; ++i) {
            const std::vector<double> began = clock_;
            step();
            for (std::size_t r = 0; r < clock_.size(); ++r)
                look[r].step_s.push_back(clock_[r] - began[r]);
        }
        for (std::size_t r = 0; r < clock_.size(); ++r)
            for (auto& [key, seconds] : waits_[r]) {
                seconds.resize(static_cast<std::size_t>(steps));
                look[r].calls.push_back({key.first, key.second, seconds});
            }
        return look;
    }

  private:
    using Ranks = std::vector<int>;
    double normal() { return std::normal_distribution<>()(random_); }
    double noisy(double by) { return std::exp(by * normal()); }
    double uniform() { return std::uniform_real_distribution<>()(random_); }
    [[nodiscard]] int rank(int d, int s, int t) const { return (s * job_.dp + d) * job_.tp + t; }
    double& clock(int r) { return clock_[static_cast<std::size_t>(r)]; }
    [[nodiscard]] bool is_later() const { return step_ >= job_.from; }

    void note(int r, const std::string& group, int peer, double seconds) {
        auto& list = waits_[static_cast<std::size_t>(r)][{group, peer}];
        list.resize(std::max(list.size(), at_ + 1));
        list[at_] += seconds;
    }
    [[nodiscard]] double delay(int a, int b) const {
        const bool is_it = std::minmax(a, b) == std::minmax(job_.link.first, job_.link.second);
        return is_later() && is_it ? job_.delay_s : 0;
    }
    double transfer(const Ranks& ring) {
        double s = job_.transfer_s * noisy(0.05);
        for (std::size_t i = 0; i < ring.size(); ++i)
            s += delay(ring[i], ring[(i + 1) % ring.size()]);
        return s;
    }
    void meet(const std::string& group, const Ranks& ranks) {
        if (ranks.size() < 2) return;
        double end = 0;
        for (const int r : ranks) end = std::max(end, clock(r));
        end += transfer(ranks);
        for (const int r : ranks) {
            note(r, group, -1, end - clock(r));
            clock(r) = end;
        }
    }
    void send(const std::string& group, int a, int b, int index_a, int index_b) {
        const double taken = job_.transfer_s * noisy(0.05) + delay(a, b);
        const double end = job_.eager ? std::max(clock(b), clock(a) + taken)
                                      : std::max(clock(a), clock(b)) + taken;
        note(b, group, index_a, end - clock(b));
        clock(b) = end;
        note(a, group, index_b, job_.eager ? 0 : end - clock(a));
        if (!job_.eager) clock(a) = end;
    }
    double factor(int r) {
        double f = unequal_[static_cast<std::size_t>(r)] *
                   (1 + drift_[static_cast<std::size_t>(r)] * step_ / 100.0);
        if (is_later() && r == job_.slow_rank) f *= job_.slow;
        if (is_later()) f *= job_.longer;
        if (r == straggler_)
            f *= is_later() ? std::max(job_.moving, job_.moving_later) : job_.moving;
        return f;
    }
    void compute(int r, double seconds) { clock(r) += seconds * factor(r) * noisy(job_.jitter); }
    void begin_step() {
        if (step_ % std::max(1, job_.moves_each) == 0)
            straggler_ = std::uniform_int_distribution<>(0, job_.ranks() - 1)(random_);
        if (uniform() < job_.spikes)
            clock(std::uniform_int_distribution<>(0, job_.ranks() - 1)(random_)) += 0.5 * usual_s();
        if (uniform() < job_.rank0) clock(0) += 0.5 * usual_s();
        for (auto& list : lengths_) list.clear();
        lengths_.resize(static_cast<std::size_t>(job_.dp));
        for (auto& list : lengths_)
            for (int m = 0; m < job_.micro_batches; ++m)
                list.push_back(job_.lengths > 1 ? std::pow(job_.lengths, uniform()) : 1);
    }
    [[nodiscard]] double usual_s() const { return 3 * job_.micro_batches * job_.compute_s; }
    double weight(int s) const {
        return job_.stage_weight.empty() ? 1 : job_.stage_weight[static_cast<std::size_t>(s)];
    }
    Ranks shards(int d, int s) const {
        Ranks ranks;
        for (int t = 0; t < job_.tp; ++t) ranks.push_back(rank(d, s, t));
        return ranks;
    }
    void stage(int m, int s, double seconds) {
        for (int half = 0; half < 2; ++half) {
            for (int d = 0; d < job_.dp; ++d) {
                const double length =
                    lengths_[static_cast<std::size_t>(d)][static_cast<std::size_t>(m)];
                for (const int r : shards(d, s)) compute(r, seconds / 2 * weight(s) * length);
                meet("tp" + std::to_string(s * job_.dp + d), shards(d, s));
            }
            if (job_.ep > 1) experts(s);
        }
    }
    void experts(int s) {
        for (int t = 0; t < job_.tp; ++t)
            for (int first = 0; first < job_.dp; first += job_.ep) {
                Ranks ranks;
                for (int d = first; d < first + job_.ep; ++d) ranks.push_back(rank(d, s, t));
                meet("ep" + std::to_string((s * job_.dp + first) * job_.tp + t), ranks);
            }
    }
    void hand_on(int from, int to) {
        for (int d = 0; d < job_.dp; ++d)
            for (int t = 0; t < job_.tp; ++t)
                send("pp" + std::to_string(d * job_.tp + t), rank(d, from, t), rank(d, to, t), from,
                     to);
    }
    void gradients() {
        for (int s = 0; s < job_.pp; ++s)
            for (int t = 0; t < job_.tp; ++t) {
                Ranks ranks;
                for (int d = 0; d < job_.dp; ++d) ranks.push_back(rank(d, s, t));
                const std::string name = "dp" + std::to_string(s * job_.tp + t);
                if (job_.overlapped)
                    beside(name, ranks);
                else
                    meet(name, ranks);
            }
    }
    /// Three buckets, that began while the last backward went on.
    void beside(const std::string& name, const Ranks& ranks) {
        if (ranks.size() < 2) return;
        for (int bucket = 3; bucket > 0; --bucket) {
            double end = 0;
            const auto ready = [&](int r) {
                return clock(r) - 0.5 * job_.compute_s * bucket * factor(r);
            };
            for (const int r : ranks) end = std::max(end, ready(r));
            end += transfer(ranks);
            for (const int r : ranks) note(r, name, -1, end - ready(r));
            last_ = end;
        }
        for (const int r : ranks) clock(r) = std::max(clock(r), last_);
        meet(name, ranks);
    }
    void step() {
        if (waits_.empty()) waits_.resize(clock_.size());
        begin_step();
        for (int m = 0; m < job_.micro_batches; ++m)
            for (int s = 0; s < job_.pp; ++s) {
                if (s > 0) hand_on(s - 1, s);
                stage(m, s, job_.compute_s);
            }
        for (int m = 0; m < job_.micro_batches; ++m)
            for (int s = job_.pp - 1; s >= 0; --s) {
                if (s + 1 < job_.pp) hand_on(s + 1, s);
                stage(m, s, 2 * job_.compute_s);
            }
        gradients();
        ++step_;
        ++at_;
    }

    WaitingJob job_;
    std::mt19937 random_;
    std::vector<double> clock_, unequal_, drift_;
    std::vector<std::map<std::pair<std::string, int>, std::vector<double>>> waits_;
    std::vector<std::vector<double>> lengths_;
    int step_ = 0, straggler_ = 0;
    std::size_t at_ = 0;
    double last_ = 0;
};

}  // namespace arena::test
