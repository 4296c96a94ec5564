// SPDX-License-Identifier: GPL-2.0-or-later
// Order, shares and limits of one profile run.
#include "profiler/run/session.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <set>

#include "base/text.h"

namespace arena {
namespace {

constexpr std::size_t max_entries = 4096;  ///< keeps the JSON well below max_profile_bytes
constexpr double least_share_s = 0.005;
constexpr double max_seconds = 3600;  ///< parse_profile() takes no more

/// Rough relative cost of an operator; only its ratio to others of the same kind matters.
double work(const OpShape& s) { return op_flops(s) + 8 * op_bytes(s); }

/// Seconds per unit of work() by kind, from what was measured: the larger of the last two.
class Pace {
  public:
    void learn(const OpShape& s, double seconds) {
        auto& p = pace_[static_cast<std::size_t>(s.kind)];
        p = {p[1], seconds / std::max(work(s), 1.0)};
    }
    /// 0 while nothing of the kind was measured.
    [[nodiscard]] double predict(const OpShape& s) const {
        const auto& p = pace_[static_cast<std::size_t>(s.kind)];
        return std::max(p[0], p[1]) * work(s);
    }

  private:
    std::array<std::array<double, 2>, op_kind_count> pace_{};
};

class Session {
  public:
    Session(Backend& backend, const SessionOptions& options)
        : backend_(backend), options_(options), begin_(options.now()) {}

    SessionOutcome run(const std::vector<OpShape>& shapes) {
        outcome_.wanted = shapes.size();
        try {
            for (std::size_t i = 0; i < shapes.size(); ++i)
                if (!one(shapes[i], shapes.size() - i)) break;
        } catch (const std::exception& e) {
            note(e.what());
        }
        return finish();
    }

  private:
    double left() const { return options_.budget_s - (options_.now() - begin_); }
    void note(const std::string& why) {
        if (outcome_.reason.empty()) outcome_.reason = why;
    }

    /// False: the session is over.
    bool one(const OpShape& shape, std::size_t remaining) {
        if (left() <= 0 || outcome_.measured >= max_entries) {
            note("the budget of " + human_seconds(options_.budget_s) + " ended");
            return false;
        }
        if (pace_.predict(shape) > left()) {
            note("the budget of " + human_seconds(options_.budget_s) + " is too short for " +
                 op_key(shape));
            return true;
        }
        options_.on_begin(shape);
        auto op = backend_.prepare(shape);
        if (!op) {
            note(op.error().message());
            return true;
        }
        time(**op, shape, remaining);
        return true;
    }

    void time(Operator& op, const OpShape& shape, std::size_t remaining) {
        StopRule rule;
        rule.share_s = std::max(left() / static_cast<double>(remaining), least_share_s);
        rule.reserve_s = std::max(left(), 0.0) * 0.03;
        const Measurement m = measure(op, rule);
        if (!std::isfinite(m.seconds) || !(m.seconds > 0) || m.seconds > max_seconds ||
            !std::isfinite(m.spent_s)) {
            note("the device's timer gave no usable time for " + op_key(shape));
            return;
        }
        outcome_.device_seconds += m.spent_s;
        pace_.learn(shape, m.seconds);
        ++outcome_.measured;
        options_.on_entry({shape, m.seconds, m.repeats, std::min(m.spread, 10.0)});
    }

    SessionOutcome finish() {
        const bool all = outcome_.measured == outcome_.wanted;
        outcome_.status = all                      ? ProfileStatus::complete
                          : outcome_.measured == 0 ? ProfileStatus::failed
                                                   : ProfileStatus::partial;
        if (!all)
            outcome_.reason = "measured " + std::to_string(outcome_.measured) + " of " +
                              std::to_string(outcome_.wanted) + " operators: " + outcome_.reason;
        return outcome_;
    }

    Backend& backend_;
    const SessionOptions& options_;
    double begin_;
    Pace pace_;
    SessionOutcome outcome_;
};

}  // namespace

std::vector<OpShape> wanted_shapes(const std::vector<OpShape>& shapes,
                                   const std::vector<std::string>& known) {
    std::set<std::string, std::less<>> seen(known.begin(), known.end());
    std::vector<OpShape> wanted;
    for (const auto& s : shapes)
        if (seen.insert(op_hash(s)).second) wanted.push_back(s);
    return wanted;
}

SessionOutcome run_session(Backend& backend, const std::vector<OpShape>& shapes,
                           const SessionOptions& options) {
    return Session(backend, options).run(wanted_shapes(shapes, options.known));
}

}  // namespace arena
