// SPDX-License-Identifier: GPL-2.0-or-later
#include "slowdown/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/statistics.h"

namespace arena::slowdown {
namespace {

constexpr std::size_t first_samples = 10;  ///< whose median is the usual level
constexpr std::size_t most_before = 50;    ///< samples that the level before is taken from
constexpr std::size_t apart = 3;           ///< changes, in samples
constexpr std::size_t quiet = 13;          ///< samples from a change on without a report
constexpr std::size_t settled = 6;         ///< samples that a change below `large` must last
constexpr double large = 1.3;
constexpr double beyond_share = 0.75;
constexpr std::size_t window = 10;
constexpr std::size_t reference = 20;  ///< samples of the level that creeping is held against
constexpr std::size_t ramp = 8;
constexpr double steep = 5;  ///< standard errors of a ramp's slope
constexpr std::size_t remembered = 128;

double square(double x) { return x * x; }

/// Standard error of the median of n samples of normal noise.
double error_of_median(double noise, std::size_t n) {
    return 1.2533 * noise / std::sqrt(static_cast<double>(n));
}

}  // namespace

const char* name_of(Evidence evidence) {
    constexpr const char* names[] = {"change_point", "windows", "creeping"};
    return names[static_cast<int>(evidence)];
}

Detector::Detector(const DetectorOptions& options) : options_(options), points_(options.prior) {}

Result<std::optional<Change>> Detector::add(double time_s, double tokens) {
    if (!std::isfinite(time_s) || time_s <= 0)
        return usage_error("an iteration time is finite and above 0 seconds", "time_s");
    if (!std::isfinite(tokens) || tokens < 0)
        return usage_error("tokens are finite and above 0, or 0 where not known", "tokens");
    if (count_ > 0 && per_token_ != (tokens > 0))
        return usage_error("tokens are given for each iteration or for none", "tokens");
    per_token_ = tokens > 0;
    recent_.push_back(per_token_ ? time_s / tokens : time_s);
    if (++count_ < first_samples) return std::optional<Change>{};
    if (count_ == first_samples) {
        usual_ = level(0, count_);
        for (const double early : recent_) points_.add(early / usual_);
    } else {
        points_.add(recent_.back() / usual_);
    }
    if (recent_.size() > remembered) {
        recent_.pop_front();
        ++first_;
    }
    learn_healthy();
    std::optional<Change> change = decide();
    if (!change) return change;
    accept(*change);
    // Compilation and caches make the first iterations slow: nobody was relieved.
    if (options_.verify && !change->is_onset() && change->change_at < first_samples) change.reset();
    return change;
}

std::vector<double> Detector::sorted(std::size_t from, std::size_t to) const {
    const auto begin = recent_.begin() - static_cast<std::ptrdiff_t>(first_);
    std::vector<double> values(begin + static_cast<std::ptrdiff_t>(from),
                               begin + static_cast<std::ptrdiff_t>(to));
    std::sort(values.begin(), values.end());
    return values;
}

double Detector::level(std::size_t from, std::size_t to) const { return median(sorted(from, to)); }

std::optional<Change> Detector::decide() const {
    if (count_ <= quiet_until_) return std::nullopt;
    if (auto change = from_change_point()) return change;
    if (!options_.verify) return std::nullopt;
    if (auto change = from_windows()) return change;
    if (auto change = from_ramp()) return change;
    return from_creeping();
}

Change Detector::change_at(std::size_t start, Evidence evidence) const {
    const std::size_t from = std::max(last_change_, start > most_before ? start - most_before : 0);
    const bool is_young = level_ > 0 && start < last_change_ + window;
    return {.change_at = start,
            .reported_at = count_ - 1,
            .before = is_young ? level_ : level(from, start),
            .after = level(start, count_),
            .evidence = evidence};
}

std::optional<Change> Detector::from_change_point() const {
    const auto run = points_.recent_change();
    if (!run) return std::nullopt;
    const std::size_t start = count_ - run->length;
    if (start < last_change_ + apart) return std::nullopt;
    Change change = change_at(start, Evidence::change_point);
    change.probability = run->probability;
    if (options_.verify && !holds(change)) return std::nullopt;
    return change;
}

/// Two random spikes among three samples pass for a large step: most samples must lie beyond.
bool Detector::holds(const Change& change) const {
    const std::size_t lasted = count_ - change.change_at;
    if (change.size() < options_.threshold || (change.size() < large && lasted < settled))
        return false;
    std::size_t beyond = 0;
    for (std::size_t i = change.change_at; i < count_; ++i) {
        const double ratio = at(i) / change.before;
        beyond += (change.is_onset() ? ratio : 1 / ratio) >= options_.threshold;
    }
    return static_cast<double>(beyond) >= beyond_share * static_cast<double>(lasted);
}

/// The start of the present level, of two levels since `from`: least absolute deviation.
std::size_t Detector::best_split(std::size_t from) const {
    const auto deviation = [&](std::size_t begin, std::size_t end) {
        const double middle = level(begin, end);
        double sum = 0;
        for (std::size_t i = begin; i < end; ++i) sum += std::abs(at(i) - middle);
        return sum;
    };
    std::size_t best = from + apart;
    double least = std::numeric_limits<double>::max();
    for (std::size_t start = from + apart; start + apart <= count_; ++start) {
        const double own = deviation(from, start) + deviation(start, count_);
        if (own < least) best = start;
        least = std::min(own, least);
    }
    return best;
}

std::optional<Change> Detector::from_windows() const {
    if (count_ < last_change_ + 2 * window) return std::nullopt;
    const std::size_t middle = count_ - window;
    const double ratio = level(middle, count_) / level(middle - window, middle);
    if (std::max(ratio, 1 / ratio) < options_.threshold) return std::nullopt;
    const Change change = change_at(best_split(middle - window), Evidence::windows);
    return holds(change) ? std::optional(change) : std::nullopt;
}

/// Of one sample, in the unit of the samples: by differences of neighbours, so that neither levels
/// nor ramps count, and by their median, so that spikes do not.
double Detector::noise() const {
    std::vector<double> steps;
    for (std::size_t i = std::max(first_, count_ - std::min(count_, most_before)) + 1; i < count_;
         ++i)
        steps.push_back(std::abs(at(i) - at(i - 1)));
    std::sort(steps.begin(), steps.end());
    return 1.4826 * median(steps) / std::numbers::sqrt2;
}

/// Since it rose past half of what the threshold allows.
Change Detector::crept_to(double after) const {
    constexpr std::size_t few = 5;
    const double halfway = healthy_ * (1 + options_.threshold) / 2;
    std::size_t end = count_;
    while (end > std::max(last_change_, first_) + few && level(end - few, end) > halfway) --end;
    return {.change_at = end - few / 2,
            .reported_at = count_ - 1,
            .before = healthy_,
            .after = after,
            .evidence = Evidence::creeping};
}

/// A level beyond the threshold of the healthy one, by more than noise explains, in a window of
/// any of several lengths: fewer samples must say it louder.
std::optional<Change> Detector::from_creeping() const {
    if (healthy_ <= 0) return std::nullopt;
    const double sample = noise();
    for (std::size_t length : {window, 2 * window, 5 * window}) {
        if (count_ < last_change_ + reference + length) break;
        const double present = level(count_ - length, count_);
        const double error = std::hypot(error_of_median(sample, length),
                                        error_of_median(sample, reference) * present / healthy_);
        if (present - 1.5 * error < options_.threshold * healthy_) continue;
        return crept_to(present);
    }
    return std::nullopt;
}

/// Growth from one iteration to the next, whose end is beyond the threshold: by the time that a
/// window is full of it, it would be far beyond. A step is not growth: it fits two levels better.
std::optional<Change> Detector::from_ramp() const {
    if (healthy_ <= 0 || count_ < last_change_ + reference + ramp) return std::nullopt;
    const double end = level(count_ - apart, count_);
    if (end < options_.threshold * healthy_) return std::nullopt;
    const std::size_t start = count_ - ramp;
    const double middle = (ramp - 1) / 2.0;
    double mean = 0, slope = 0, spread = 0, error = 0;
    for (std::size_t i = 0; i < ramp; ++i) mean += at(start + i) / ramp;
    for (std::size_t i = 0; i < ramp; ++i) {
        const double off = static_cast<double>(i) - middle;
        slope += off * at(start + i);
        spread += off * off;
    }
    slope /= spread;
    for (std::size_t i = 0; i < ramp; ++i)
        error += square(at(start + i) - mean - slope * (static_cast<double>(i) - middle));
    if (slope <= steep * std::sqrt(error / (ramp - 2) / spread)) return std::nullopt;
    for (std::size_t split = start + 1; split < count_; ++split)
        if (scatter(start, split) + scatter(split, count_) <= error) return std::nullopt;
    return crept_to(end);
}

/// Sum of squares about the mean.
double Detector::scatter(std::size_t from, std::size_t to) const {
    double sum = 0, squares = 0;
    for (std::size_t i = from; i < to; ++i) {
        sum += at(i);
        squares += square(at(i));
    }
    return squares - square(sum) / static_cast<double>(to - from);
}

void Detector::accept(const Change& change) {
    last_change_ = change.change_at;
    quiet_until_ = change.change_at + quiet;
    level_ = change.after;
    healthy_ = 0;
}

/// The level that a creeping one is held against stays what it was when the level began.
void Detector::learn_healthy() {
    if (healthy_ <= 0 && count_ >= last_change_ + reference)
        healthy_ = level(std::max(last_change_, first_), count_);
}

}  // namespace arena::slowdown
