// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/chief/culprits.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace arena::watch {
namespace {

constexpr double quiet_s = 10;          ///< between two reports of one
constexpr double lost_again_s = 60;     ///< a loss that has grown is said again then,
constexpr double lost_again = 1.10;     ///< and by so much
constexpr double other_factor = 1.1;    ///< by which a factor must change to be said again
constexpr double of_old_excess = 0.25;  ///< that is left where it has recovered,
constexpr double recovered = 1.5;       ///< but never from here on
constexpr double lesser = 0.25;         ///< of the excess of the slowest

bool is_same_place(const SlowReport& a, const SlowReport& b) {
    return a.cause == b.cause &&
           ((a.at == b.at && a.peer == b.peer) || (a.at == b.peer && a.peer == b.at));
}

double in_range(double factor) { return std::clamp(factor, 1.001, 1000.0); }

/// Whether a GPU's or a link's check, or what it found, is of that one.
template <typename Measured>
bool is_of(const Measured& measured, const Culprit& one) {
    if constexpr (requires { measured.rank; })
        return one.peer < 0 && measured.rank == one.rank;
    else
        return one.peer >= 0 &&
               std::minmax(measured.from, measured.to) == std::minmax(one.rank, one.peer);
}

template <typename Gpus, typename Links>
bool is_among(const Gpus& gpus, const Links& links, const Culprit& one) {
    const auto is_it = [&](const auto& measured) { return is_of(measured, one); };
    return std::ranges::any_of(gpus, is_it) || std::ranges::any_of(links, is_it);
}

bool is_named(const Culprit& one) { return one.report.cause != SlowCause::unknown; }

bool has_changed(const SlowReport& told, const SlowReport& now) {
    const double ratio = now.factor / told.factor;
    return told.action != now.action || told.is_suspicion() != now.is_suspicion() ||
           ratio > other_factor || ratio < 1 / other_factor;
}

bool is_due(const Culprit& one, double now_s) {
    if (!one.told) return true;
    if (now_s < one.told_at_s + quiet_s) return false;
    const bool lost_more =
        one.report.lost_s > lost_again * one.told->lost_s && now_s >= one.told_at_s + lost_again_s;
    return has_changed(*one.told, one.report) || lost_more;
}

}  // namespace

bool Culprits::any_open() const {
    return std::ranges::any_of(all_,
                               [](const Culprit& one) { return !one.is_over() && is_named(one); });
}

bool Culprits::any_named() const { return std::ranges::any_of(all_, is_named); }

bool Culprits::any_open(SlowCause cause) const {
    return std::ranges::any_of(
        all_, [&](const Culprit& one) { return !one.is_over() && one.report.cause == cause; });
}

void Culprits::note(Culprit culprit) {
    culprit.report.factor = in_range(culprit.report.factor);
    const auto known = std::ranges::find_if(all_, [&](const Culprit& one) {
        return !one.is_over() && is_same_place(one.report, culprit.report);
    });
    if (known != all_.end()) {
        // GPUs of a node whose numbers are not known are one place.
        const bool is_same = known->rank == culprit.rank;
        known->report.factor =
            is_same ? culprit.report.factor : std::max(known->report.factor, culprit.report.factor);
        known->report.confidence = std::max(known->report.confidence, culprit.report.confidence);
        known->healthy_checks = 0;
        return;
    }
    if (!check_slow_report(culprit.report)) {
        ++without_place_;
        return;
    }
    const auto open = std::ranges::count_if(all_, [](const Culprit& c) { return !c.is_over(); });
    if (open < std::ssize(all_))
        std::erase_if(
            all_, [](const Culprit& c) { return c.is_over() && c.told && c.told->relief != 0; });
    if (all_.size() < most) all_.push_back(std::move(culprit));
}

void Culprits::found(const slowdown::Verdict& verdict, const Trainer& trainer, std::int64_t onset) {
    without_place_ = 0;
    if (!verdict.gpus.empty() || !verdict.links.empty()) explained(onset);
    for (const slowdown::SlowGpu& gpu : verdict.gpus)
        note({.report = {.life = life_,
                         .onset = onset,
                         .at = trainer.place_of(gpu.rank),
                         .peer = {},
                         .cause = SlowCause::compute,
                         .factor = gpu.factor},
              .rank = gpu.rank});
    std::set<std::pair<int, int>> seen;
    for (const slowdown::SlowLink& link : verdict.links) {
        const auto [low, high] = std::minmax(link.from, link.to);
        if (!seen.emplace(low, high).second) continue;  // the slower way came first
        note({.report = {.life = life_,
                         .onset = onset,
                         .at = trainer.place_of(low),
                         .peer = trainer.place_of(high),
                         .cause = SlowCause::communication,
                         .factor = link.factor},
              .rank = low,
              .peer = high});
    }
}

void Culprits::unexplained(double factor, std::int64_t onset) {
    note({.report = {.life = life_,
                     .onset = onset,
                     .at = {},
                     .peer = {},
                     .cause = SlowCause::unknown,
                     .factor = factor}});
}

/// What is slow has a name now.
void Culprits::explained(std::int64_t epoch_s) {
    for (Culprit& one : all_)
        if (!one.is_over() && !is_named(one))
            one.report.relief = std::max(epoch_s, one.report.onset);
}

slowdown::Verdict Culprits::without_lesser(slowdown::Verdict verdict) const {
    const auto drop = [&](auto& found) {
        if (found.empty()) return;
        const double slowest = found.front().factor - 1;  // the slowest is the first
        std::erase_if(found, [&](const auto& measured) {
            return measured.factor - 1 < lesser * slowest &&
                   std::ranges::none_of(all_, [&](const Culprit& one) {
                       return !one.is_over() && is_of(measured, one);
                   });
        });
    };
    drop(verdict.gpus);
    drop(verdict.links);
    return verdict;
}

void Culprits::suspect_one(const Suspicion& suspicion, std::int64_t onset) {
    const bool is_link = suspicion.peer != SlowPlace{};
    SlowReport report{.life = life_,
                      .onset = onset,
                      .at = suspicion.at,
                      .peer = suspicion.peer,
                      .cause = is_link ? SlowCause::communication : SlowCause::compute,
                      .factor = in_range(suspicion.factor)};
    report.confidence = suspicion.confidence;
    if (!check_slow_report(report)) {
        ++without_place_;
        return;
    }
    explained(onset);
    note({.report = report, .rank = suspicion.rank});
}

void Culprits::suspect(const std::vector<Suspicion>& all, std::int64_t onset,
                       std::int64_t epoch_s) {
    for (Culprit& one : all_) {
        const bool stays = std::ranges::any_of(all, [&](const Suspicion& suspicion) {
            return suspicion.at == one.report.at && suspicion.peer == one.report.peer;
        });
        if (!one.is_over() && is_named(one) && one.report.is_suspicion() && !stays)
            one.report.relief = std::max(epoch_s, one.report.onset);
    }
    for (const Suspicion& one : all) suspect_one(one, onset);
}

slowdown::Verdict Culprits::without_recovered(slowdown::Verdict verdict) const {
    const auto has_recovered = [&](const auto& measured) {
        return std::ranges::any_of(all_, [&](const Culprit& one) {
            const double left = std::min(recovered, 1 + of_old_excess * (one.report.factor - 1));
            return !one.is_over() && is_of(measured, one) && measured.factor < left;
        });
    };
    std::erase_if(verdict.gpus, has_recovered);
    std::erase_if(verdict.links, has_recovered);
    return verdict;
}

void Culprits::rechecked(const slowdown::Verdict& verdict, const slowdown::CheckRound& round,
                         std::int64_t epoch_s, int enough) {
    for (Culprit& one : all_) {
        if (one.is_over() || one.rank < 0 || !is_among(round.gpus, round.links, one)) continue;
        if (is_among(verdict.gpus, verdict.links, one)) {
            one.healthy_checks = 0;
            continue;
        }
        if (one.healthy_checks++ == 0) one.healthy_since = epoch_s;
        if (one.healthy_checks >= enough)
            one.report.relief = std::max(one.healthy_since, one.report.onset);
    }
}

void Culprits::lost(double seconds) {
    const auto open = std::ranges::count_if(all_, [](const Culprit& c) { return !c.is_over(); });
    for (Culprit& one : all_)
        if (!one.is_over())
            one.report.lost_s =
                std::min(1e8, one.report.lost_s + seconds / static_cast<double>(open));
}

void Culprits::act(SlowAction action) {
    for (Culprit& one : all_)
        if (!one.is_over()) one.report.action = action;
}

void Culprits::over(std::int64_t epoch_s) {
    for (Culprit& one : all_)
        if (!one.is_over()) one.report.relief = std::max(epoch_s, one.report.onset);
}

std::vector<SlowReport> Culprits::due(double now_s, std::int64_t steps) {
    std::vector<SlowReport> reports;
    for (Culprit& one : all_) {
        const bool ends = one.is_over() && one.told && one.told->relief == 0;
        if (!ends && (one.is_over() || !is_due(one, now_s) || !bucket_.has_one(now_s))) continue;
        bucket_.take_one(now_s);
        one.report.steps = steps;
        one.told = one.report;
        one.told_at_s = now_s;
        reports.push_back(one.report);
    }
    return reports;
}

}  // namespace arena::watch
