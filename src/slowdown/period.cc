// SPDX-License-Identifier: GPL-2.0-or-later
#include "slowdown/period.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <tuple>

namespace arena::slowdown {
namespace {

constexpr std::size_t most_calls = std::size_t{1} << 16;  ///< kept
constexpr std::size_t most_buckets = 256;                 ///< equal ones per step
constexpr std::size_t repeats = 3;                        ///< that make a pattern
constexpr std::size_t most_gaps = 4 * most_buckets;
constexpr std::size_t most_blocks = 16;   ///< that a position is judged by
constexpr std::size_t patience = 1024;    ///< calls without the anchor beyond four periods
constexpr std::size_t shortest_step = 8;  ///< calls; fewer may be a loop inside a step
constexpr std::size_t inner_calls =
    512;                             ///< of sequence parallelism: until such a loop is believed
constexpr std::size_t young = 4096;  ///< calls of a program that are its start
constexpr std::size_t few = 64;      ///< calls

bool is_reduction(const CallKey& key) {
    return key.op == Op::all_reduce || key.op == Op::reduce_scatter;
}

/// Gradients are reduced, and are the largest that is.
auto rank(const CallKey& key) { return std::tuple(is_reduction(key), key.count); }

/// How many of the last `within` gaps repeat with that length, the first `length` included.
std::size_t repeating(const std::deque<std::size_t>& gaps, std::size_t length, std::size_t within) {
    std::size_t same = length;
    while (same < within && gaps[gaps.size() - 1 - (same - length)] ==
                                gaps[gaps.size() - 1 - (same - length) - length])
        ++same;
    return same;
}

std::size_t sum_of_last(const std::deque<std::size_t>& gaps, std::size_t count) {
    return std::accumulate(gaps.end() - static_cast<std::ptrdiff_t>(count), gaps.end(),
                           std::size_t{0});
}

}  // namespace

std::size_t PeriodFinder::period() const { return is_doubtful() ? 0 : calls_per_step(); }

/// An inner loop (of layers, of micro-batches, of buckets) passes for the step until the rest of
/// the step comes: what is short must have lasted, longer where other calls came before it.
bool PeriodFinder::is_doubtful() const {
    const std::size_t calls = first_ + calls_.size();
    if (calls < doubt_until_) return true;
    if (calls_per_step() >= shortest_step) return false;
    const std::size_t lasted = calls - last_odd_;
    if (anchor_.op == Op::all_reduce) return lasted < repeats * longest_odd_;
    return lasted < (anchor_.op == Op::reduce_scatter ? inner_calls : young);
}

void PeriodFinder::note_odd(std::size_t at, std::size_t gap) {
    last_odd_ = at;
    longest_odd_ = std::max(longest_odd_, std::min(gap, few));
}

std::size_t PeriodFinder::calls_per_step() const {
    return std::accumulate(pattern_.begin(), pattern_.end(), std::size_t{0});
}

Result<std::optional<Iteration>> PeriodFinder::add(const Call& call) {
    if (!calls_.empty() && call.time_us < calls_.back().time_us)
        return usage_error(
            "a call is earlier than the one before it: clocks of a stream must not "
            "go back");
    calls_.push_back({call.key, call.time_us});
    const std::size_t at = first_ + calls_.size() - 1;
    const std::optional<Iteration> iteration = measure(at);
    ++counts_[call.key];
    if (has_anchor_ && call.key == anchor_)
        on_anchor(at);
    else
        consider(call.key, at);
    if (!pattern_.empty() && at - last_anchor_ > 4 * calls_per_step() + patience) forget();
    trim();
    return iteration;
}

void PeriodFinder::consider(const CallKey& key, std::size_t at) {
    if (irregular_.contains(key)) return;
    const bool outranks = !has_anchor_ || rank(key) > rank(anchor_);
    if (!outranks) return challenge(key, at);
    if (counts_[key] >= repeats) return take_anchor(key);
    // Were it of each step, two more would come by then.
    if (counts_[key] == 1 && at < epoch_ + young) doubt_until_ = at + 2 * (at - epoch_) + few;
}

/// An anchor that is overdue was of another program (a start, groups that are built anew): another
/// reduction takes its place, until it comes again.
void PeriodFinder::challenge(const CallKey& key, std::size_t at) {
    if (is_reduction(anchor_) && !is_reduction(key)) return;
    ++since_anchor_[key];
    const std::size_t usual = pattern_.empty() ? longest_gap() : calls_per_step();
    if (2 * (at - last_anchor_) > 3 * usual + 2 * shortest_step && since_anchor_[key] >= repeats)
        take_anchor(key);
}

std::size_t PeriodFinder::longest_gap() const {
    return gaps_.empty() ? 0 : *std::max_element(gaps_.begin(), gaps_.end());
}

void PeriodFinder::take_anchor(const CallKey& key) {
    has_anchor_ = true;
    anchor_ = key;
    const auto [known, is_new] = series_of_.try_emplace(key, last_series_ + 1);
    if (is_new) ++last_series_;
    anchors_ = doubt_until_ = 0;
    longest_odd_ = shortest_step;
    since_anchor_.clear();
    gaps_.clear();
    pattern_.clear();
    blocks_.clear();
    phase_ = fresh_ = position_ = border_ = ended_ = 0;
    for (std::size_t i = 0; i < calls_.size(); ++i)
        if (calls_[i].key == key) on_anchor(first_ + i);
}

void PeriodFinder::take_next_anchor() {
    irregular_.insert(anchor_);
    has_anchor_ = false;
    const CallKey* best = nullptr;
    for (const auto& [key, count] : counts_)
        if (count >= repeats && !irregular_.contains(key) && (!best || rank(key) > rank(*best)))
            best = &key;
    if (best) take_anchor(CallKey(*best));
}

void PeriodFinder::on_anchor(std::size_t at) {
    const std::size_t before = last_anchor_;
    last_anchor_ = at;
    since_anchor_.clear();
    if (anchors_++ == 0) return note_odd(at, at - epoch_);
    gaps_.push_back(at - before);
    if (gaps_.size() > most_gaps) gaps_.pop_front();
    on_gap(at, at - before);
    if (pattern_.empty() && anchors_ > most_gaps) take_next_anchor();
}

void PeriodFinder::on_gap(std::size_t at, std::size_t gap) {
    if (!pattern_.empty() && fresh_ == 0 && gap == pattern_[phase_]) {
        phase_ = (phase_ + 1) % pattern_.size();
        if (phase_ == 0) end_block(at);
        return;
    }
    ++fresh_;
    const bool had_pattern = !pattern_.empty();
    if (had_pattern) note_odd(at, gap);
    const bool burst = had_pattern && is_burst();
    for (std::size_t length = 1; length <= most_buckets; ++length) {
        const bool whole = !had_pattern || (burst && length > 1);
        const std::size_t within = whole ? gaps_.size() : std::min(fresh_, gaps_.size());
        if (within < repeats * length) continue;
        const std::size_t same = repeating(gaps_, length, within);
        if (same < repeats * length || sum_of_last(gaps_, same) < calls_per_step()) continue;
        return take_pattern(length, at);
    }
    if (had_pattern && resume(at)) return;
    // One step with calls of another kind in it is still one step.
    if (had_pattern && pattern_.size() == 1 && gap < 2 * calls_per_step() &&
        2 * gap > calls_per_step())
        end_block(at);
    else
        blocks_.clear();
}

/// Whether several equal buckets per step explain what one call per step does not: too often for an
/// exception (an evaluation, a checkpoint), or what repeats is too short for a step.
bool PeriodFinder::is_burst() const {
    if (pattern_.size() != 1 || gaps_.back() == pattern_.front()) return false;
    const auto usual = std::count(gaps_.begin(), gaps_.end(), pattern_.front());
    return 10 * static_cast<std::size_t>(usual) < 8 * gaps_.size() ||
           calls_per_step() < shortest_step;
}

void PeriodFinder::take_pattern(std::size_t length, std::size_t at) {
    const bool is_inner = length > 1 && pattern_.size() == 1;  // it was one bucket of the step
    if (is_inner) series_of_[anchor_] = ++last_series_;
    pattern_.assign(gaps_.end() - static_cast<std::ptrdiff_t>(length), gaps_.end());
    phase_ = fresh_ = 0;
    last_odd_ = at - repeats * calls_per_step();
    if (length > 1) longest_odd_ = shortest_step;
    blocks_.clear();
    if (is_inner || position_ > calls_per_step()) position_ = 0;
    border_ = ended_ = 0;
    const std::size_t step = calls_per_step();
    for (std::size_t back = repeats; back > 0; --back)
        if (at >= back * step + first_) blocks_.push_back(at - back * step);
    end_block(at);
}

/// The known pattern goes on, after something else.
bool PeriodFinder::resume(std::size_t at) {
    const std::size_t length = pattern_.size();
    if (gaps_.size() < length || fresh_ < length) return false;
    for (std::size_t turn = 0; turn < length; ++turn) {
        bool same = true;
        for (std::size_t i = 0; same && i < length; ++i)
            same = gaps_[gaps_.size() - length + i] == pattern_[(turn + i) % length];
        if (!same) continue;
        fresh_ = 0;
        phase_ = turn;
        if (phase_ == 0) end_block(at);
        return true;
    }
    return false;
}

void PeriodFinder::end_block(std::size_t at) {
    blocks_.push_back(at);
    if (blocks_.size() > most_blocks) blocks_.pop_front();
    choose_position();
}

/// A border is looked for seldom: that takes a look at some calls of each step for each position.
void PeriodFinder::choose_position() {
    ++ended_;
    if (blocks_.size() < 4) return;
    if (std::has_single_bit(ended_) || ended_ % most_blocks == 0) border_ = find_border();
    if (border_ != 0)
        position_ = border_;
    else
        take_steadiest();
}

void PeriodFinder::take_steadiest() {
    position_ = least_of(position_, [this](std::size_t position) { return spread(position); });
}

/// 0: steps are of one length, or their calls come anywhere. How much steps differ in length is
/// told by the steadiest intervals: others differ by when their own call comes, too.
std::size_t PeriodFinder::find_border() const {
    constexpr double least_change = 0.01, regular = 0.8;
    const std::size_t best =
        least_of(border_, [this](std::size_t position) { return shape(position).change; });
    const std::size_t steadiest =
        least_of(0, [this](std::size_t position) { return spread(position); });
    if (best == 0 || steadiest == 0) return 0;
    const Shape at_best = shape(best);
    const double differ = spread(steadiest) / at_best.length_us;
    return differ >= least_change && at_best.change <= regular * differ ? best : 0;
}

/// That before, unless another one is clearly better.
template <typename Measure>
std::size_t PeriodFinder::least_of(std::size_t before, const Measure& measure) const {
    std::size_t best = before;
    double least = before ? 0.85 * measure(before) : std::numeric_limits<double>::max();
    for (std::size_t position = 1; position <= calls_per_step(); ++position) {
        const double own = measure(position);
        if (own >= least) continue;
        best = position;
        least = own;
    }
    return best;
}

/// Behind the last block nothing has come yet.
std::size_t PeriodFinder::usable_blocks(std::size_t position) const {
    std::size_t usable = blocks_.size();
    while (usable > 0 && blocks_[usable - 1] + position >= first_ + calls_.size()) --usable;
    return usable;
}

/// Of steps that end at that place behind the blocks' ends.
PeriodFinder::Shape PeriodFinder::shape(std::size_t position) const {
    constexpr std::size_t most_places = 16;
    const std::size_t usable = usable_blocks(position);
    const std::size_t places = std::min(most_places, calls_per_step() - 1);
    if (usable < 4 || places == 0) return {std::numeric_limits<double>::max(), 1};
    std::array<double, most_places> before{};
    Shape shape;
    for (std::size_t i = 0; i + 1 < usable; ++i) {
        // A step may have fewer calls than the pattern: no place is behind its end.
        const std::size_t from = blocks_[i] + position, calls = blocks_[i + 1] - blocks_[i];
        const auto length =
            static_cast<double>(std::max<std::int64_t>(1, time_at(from + calls) - time_at(from)));
        shape.length_us += length / static_cast<double>(usable - 1);
        for (std::size_t p = 0; p < places; ++p) {
            const std::size_t at = from + (p + 1) * calls / (places + 1);
            const double place = static_cast<double>(time_at(at) - time_at(from)) / length;
            if (i > 0) shape.change += std::abs(place - before[p]);
            before[p] = place;
        }
    }
    shape.change /= static_cast<double>((usable - 2) * places);
    return shape;
}

/// Mean change from one interval to the next, of the calls at that place behind the blocks' ends.
double PeriodFinder::spread(std::size_t position) const {
    const std::size_t usable = usable_blocks(position);
    if (usable < 3) return std::numeric_limits<double>::max();
    double sum = 0;
    for (std::size_t i = 2; i < usable; ++i) {
        const std::int64_t change = time_at(blocks_[i] + position) -
                                    2 * time_at(blocks_[i - 1] + position) +
                                    time_at(blocks_[i - 2] + position);
        sum += static_cast<double>(std::abs(change));
    }
    return sum / static_cast<double>(usable - 2);
}

std::optional<Iteration> PeriodFinder::measure(std::size_t at) const {
    if (position_ == 0 || is_doubtful() || blocks_.size() < 2 || at != blocks_.back() + position_)
        return std::nullopt;
    const std::size_t before = blocks_[blocks_.size() - 2] + position_;
    return Iteration{time_at(at), time_at(at) - time_at(before), calls_per_step(),
                     series_of_.at(anchor_)};
}

void PeriodFinder::trim() {
    const std::size_t keep =
        pattern_.empty() ? most_calls
                         : std::min(most_calls, (most_blocks + 4) * calls_per_step() + 4096);
    while (calls_.size() > keep) {
        // A program whose calls are of ever other sizes has as many keys as calls.
        if (const auto known = counts_.find(calls_.front().key);
            first_ >= epoch_ && known != counts_.end() && --known->second == 0)
            counts_.erase(known);
        calls_.pop_front();
        ++first_;
    }
    if (since_anchor_.size() > most_calls) since_anchor_.clear();
    while (!blocks_.empty() && blocks_.front() < first_) blocks_.pop_front();
}

/// The program goes on without its anchor (groups built anew): learn again from here.
void PeriodFinder::forget() {
    has_anchor_ = false;
    counts_.clear();
    irregular_.clear();
    pattern_.clear();
    gaps_.clear();
    blocks_.clear();
    phase_ = fresh_ = position_ = border_ = ended_ = anchors_ = 0;
    epoch_ = first_ + calls_.size();
}

}  // namespace arena::slowdown
