// SPDX-License-Identifier: GPL-2.0-or-later
// Policies `gandiva`, `gandiva-informed`: see gandiva.h.
#include "baselines/gandiva.h"

#include <algorithm>
#include <tuple>

#include "baselines/allocation.h"
#include "baselines/fcfs.h"

namespace arena {
namespace {

class Gandiva {
  public:
    Gandiva(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options,
            bool informed)
        : problem_(snapshot, offers, options), plan_(problem_), informed_(informed) {}
    Decision decide();

  private:
    [[nodiscard]] std::vector<std::size_t> queue() const;
    [[nodiscard]] bool is_loan(std::size_t task) const;
    void count_loans();
    void call_in(std::int32_t type, std::int64_t missing);
    void serve();
    void lend();

    Problem problem_;
    Allocation plan_;
    bool informed_;
    std::vector<bool> blocked_;
    std::vector<std::int64_t> lent_;  ///< GPUs of the type that can be called in
};

std::vector<std::size_t> Gandiva::queue() const {
    std::vector<std::size_t> out = waiting_in_order(problem_);
    std::erase_if(out, [&](std::size_t i) { return plan_.requested(i) == Allocation::nothing; });
    if (!informed_) return out;
    const auto gpu_s = [&](std::size_t i) {
        const std::int32_t asked = plan_.requested(i);
        return plan_.left_s(i, asked) * static_cast<double>(plan_.choice(i, asked).gpus);
    };
    std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) {
        const double pa = problem_.tasks()[a].job->priority, pb = problem_.tasks()[b].job->priority;
        return pa != pb ? pa > pb : gpu_s(a) < gpu_s(b);
    });
    return out;
}

/// Whether the plan gives the task more than it asked for.
bool Gandiva::is_loan(std::size_t i) const {
    const std::int32_t asked = plan_.requested(i);
    return plan_.given(i) != nullptr && asked != Allocation::nothing &&
           plan_.given(i)->type == plan_.choice(i, asked).type &&
           plan_.given(i)->gpus > plan_.choice(i, asked).gpus;
}

void Gandiva::count_loans() {
    lent_.assign(problem_.types(), 0);
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        if (!is_loan(i)) continue;
        lent_[static_cast<std::size_t>(plan_.given(i)->type)] +=
            plan_.given(i)->gpus - plan_.choice(i, plan_.requested(i)).gpus;
    }
}

/// Borrowers go back to what they asked for, those with the most borrowed GPUs first.
void Gandiva::call_in(std::int32_t type, std::int64_t missing) {
    if (missing <= 0) return;
    std::vector<std::pair<std::int64_t, std::size_t>> loans;
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        if (!is_loan(i) || plan_.given(i)->type != type) continue;
        loans.emplace_back(plan_.choice(i, plan_.requested(i)).gpus - plan_.given(i)->gpus, i);
    }
    std::sort(loans.begin(), loans.end());
    for (const auto& [minus_lent, i] : loans) {
        if (missing <= 0) return;
        plan_.set(i, plan_.requested(i));
        missing += minus_lent;
        lent_[static_cast<std::size_t>(type)] += minus_lent;
    }
}

void Gandiva::serve() {
    count_loans();
    blocked_.assign(problem_.types(), false);
    for (const std::size_t i : queue()) {
        const std::int32_t asked = plan_.requested(i);
        const Choice& choice = plan_.choice(i, asked);
        const auto type = static_cast<std::size_t>(choice.type);
        if (blocked_[type] && !informed_) continue;
        const std::int64_t free = plan_.free_gpus(choice.type);
        if (choice.gpus > free + lent_[type]) {
            blocked_[type] = true;
            continue;
        }
        call_in(choice.type, choice.gpus - free);
        plan_.set(i, asked);
    }
}

/// One doubling per round and job, to whom it adds most speed per GPU; nothing of a type that is
/// waited for.
void Gandiva::lend() {
    std::vector<std::tuple<double, std::size_t, std::int32_t>> loans;
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        const JobState& job = *problem_.tasks()[i].job;
        const Choice* now = plan_.given(i);
        if (now == nullptr || blocked_[static_cast<std::size_t>(now->type)]) continue;
        if (plan_.current(i) != plan_.of(i) ||
            problem_.snapshot().time_s - job.start_s < cooldown_s)
            continue;
        const std::int32_t larger = plan_.find(i, now->type, 2 * now->gpus);
        if (larger == Allocation::nothing) continue;
        const double more = plan_.speed(i, larger) - plan_.speed(i, plan_.of(i));
        if (more < least_gain * plan_.speed(i, plan_.of(i))) continue;
        loans.emplace_back(-more / static_cast<double>(now->gpus), i, larger);
    }
    std::sort(loans.begin(), loans.end());
    for (const auto& [gain, i, larger] : loans) {
        if (plan_.fits(i, larger)) plan_.set(i, larger);
    }
}

Decision Gandiva::decide() {
    serve();
    lend();
    return plan_.realise("as requested, and what is idle on loan");
}

}  // namespace

Decision decide_gandiva(const Snapshot& snapshot, const Offers& offers,
                        const PolicyOptions& options) {
    return Gandiva(snapshot, offers, options, false).decide();
}

Decision decide_gandiva_informed(const Snapshot& snapshot, const Offers& offers,
                                 const PolicyOptions& options) {
    return Gandiva(snapshot, offers, options, true).decide();
}

}  // namespace arena
