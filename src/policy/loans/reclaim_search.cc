// SPDX-License-Identifier: GPL-2.0-or-later
// See reclaim_search.h.
#include "policy/loans/reclaim_search.h"

#include <algorithm>
#include <limits>

#include "base/hash.h"
#include "policy/loans/reclaim_state.h"

namespace arena {
namespace {

/// Depth first over the servers in order: with, then without.
class Enumeration {
  public:
    Enumeration(const ReclaimProblem& problem, const std::vector<ServerIndex>& known)
        : problem_(problem), state_(problem), best_(known) {
        ReclaimState start(problem);
        for (const ServerIndex s : known) start.turn(s);
        best_cost_ = start.cost();
        best_weight_ = start.weight();
    }
    std::vector<ServerIndex> run() {
        visit(0, problem_.wanted);
        return best_;
    }

  private:
    void visit(ServerIndex from, std::size_t left) {
        if (state_.weight() > best_weight_ + rounding) return;
        if (left <= 1) return choose_last(from, left);
        for (ServerIndex s = from; s + left <= problem_.servers; ++s) {
            state_.turn(s);
            visit(s + 1, left - 1);
            state_.turn(s);
        }
    }

    /// The last server, if one is left, without turning all that do no good.
    void choose_last(ServerIndex from, std::size_t left) {
        if (left == 0) return keep_better();
        for (ServerIndex s = from; s < problem_.servers; ++s) {
            if (state_.cost() + state_.change(s) >= best_cost_ - rounding) continue;
            state_.turn(s);
            keep_better();
            state_.turn(s);
        }
    }
    void keep_better() {
        if (state_.cost() >= best_cost_ - rounding) return;
        best_cost_ = state_.cost();
        best_weight_ = state_.weight();
        best_ = state_.returned();
    }

    static constexpr double rounding = 1e-9;
    const ReclaimProblem& problem_;
    ReclaimState state_;
    std::vector<ServerIndex> best_;
    double best_cost_ = 0, best_weight_ = 0;
};

class TabuSearch {
  public:
    TabuSearch(const ReclaimProblem& problem, const std::vector<ServerIndex>& known,
               const ReclaimOptions& options)
        : problem_(problem),
          state_(problem),
          dice_(options.seed),
          tabu_until_(problem.servers, 0),
          best_(known) {
        for (const ServerIndex s : known) state_.turn(s);
        best_cost_ = state_.cost();
        const std::size_t size = std::max<std::size_t>(problem.servers, 150);
        steps_ = options.exchanges * 500 / static_cast<std::int64_t>(size);
        patience_ = std::max<std::int64_t>(200, steps_ / 20);
    }

    std::vector<ServerIndex> run() {
        if (problem_.wanted == 0 || problem_.wanted == problem_.servers) return best_;
        std::int64_t failed = 0;
        int shaken = 0;
        for (now_ = 1; now_ <= steps_; ++now_) {
            exchange();
            if (keep_best()) {
                failed = 0;
                shaken = 0;
            } else if (++failed >= patience_) {
                failed = 0;
                if (++shaken % 4 == 0)
                    begin_anew();
                else
                    shake();
                keep_best();
            }
        }
        return best_;
    }

  private:
    /// Of the servers that are (or are not) returned, the one whose turning costs least; those
    /// turned lately only if that beats all that is known. `servers` where there is none.
    ServerIndex cheapest(bool returned, double target) {
        const auto changes = state_.changes();
        double least = std::numeric_limits<double>::infinity();
        auto best = static_cast<ServerIndex>(problem_.servers);
        std::size_t ties = 0;
        for (ServerIndex s = 0; s < problem_.servers; ++s) {
            if (changes[s] > least || state_.is_returned(s) != returned) continue;
            if (tabu_until_[s] > now_ && changes[s] >= target) continue;
            if (changes[s] < least) {
                least = changes[s];
                best = s;
                ties = 1;
            } else if (dice_.below(++ties) == 0) {
                best = s;
            }
        }
        return best;
    }

    void exchange() {
        const double never = -std::numeric_limits<double>::infinity();
        const ServerIndex back = cheapest(true, never);
        if (back == problem_.servers) return;
        state_.turn(back);
        tabu_until_[back] = now_ + 1 + tenure();
        ServerIndex out = cheapest(false, best_cost_ - state_.cost());
        if (out == problem_.servers) out = back;
        state_.turn(out);
        tabu_until_[out] = now_ + 1 + tenure() / 2;
    }

    std::int64_t tenure() {
        const std::size_t small = std::min(problem_.wanted, problem_.servers - problem_.wanted);
        return static_cast<std::int64_t>(dice_.below(3 + small / 8) + 1 + small / 16);
    }

    bool keep_best() {
        if (state_.cost() >= best_cost_) return false;
        best_cost_ = state_.cost();
        best_ = state_.returned();
        return true;
    }

    void turn_back() {
        for (ServerIndex s = 0; s < problem_.servers; ++s)
            if (state_.is_returned(s)) state_.turn(s);
        std::fill(tabu_until_.begin(), tabu_until_.end(), 0);
    }

    /// The best set with some of its servers exchanged at random for the cheapest others.
    void shake() {
        turn_back();
        for (const ServerIndex s : best_) state_.turn(s);
        const std::size_t strength =
            std::min(problem_.wanted, 2 + dice_.below(1 + problem_.wanted / 4));
        for (std::size_t i = 0; i < strength; ++i) {
            const std::vector<ServerIndex> in = state_.returned();
            const ServerIndex out = in[dice_.below(in.size())];
            state_.turn(out);
            tabu_until_[out] = now_ + 1 + 4 * tenure();
        }
        fill();
    }

    /// From a random server on, again and again the one that adds least.
    void begin_anew() {
        turn_back();
        state_.turn(static_cast<ServerIndex>(dice_.below(problem_.servers)));
        fill();
    }

    void fill() {
        for (std::size_t have = state_.returned().size(); have < problem_.wanted; ++have) {
            ServerIndex out = cheapest(false, -std::numeric_limits<double>::infinity());
            for (ServerIndex s = 0; out == problem_.servers && s < problem_.servers; ++s)
                if (!state_.is_returned(s)) out = s;
            state_.turn(out);
        }
    }

    const ReclaimProblem& problem_;
    ReclaimState state_;
    SplitMix dice_;
    std::vector<std::int64_t> tabu_until_;
    std::vector<ServerIndex> best_;
    double best_cost_ = 0;
    std::int64_t now_ = 1, steps_ = 0, patience_ = 0;
};

}  // namespace

std::vector<ServerIndex> search_all_servers(const ReclaimProblem& problem,
                                            const std::vector<ServerIndex>& known) {
    return Enumeration(problem, known).run();
}

std::vector<ServerIndex> search_servers(const ReclaimProblem& problem,
                                        const std::vector<ServerIndex>& known,
                                        const ReclaimOptions& options) {
    return TabuSearch(problem, known, options).run();
}

}  // namespace arena
