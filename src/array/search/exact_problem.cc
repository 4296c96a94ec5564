// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/search/exact_problem.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace arena::array {

namespace {

bool same_times(const Block& a, const Block& b) {
    return a.device == b.device && a.backward == b.backward && a.stage == b.stage &&
           a.work == b.work && a.hold == b.hold && a.transfer == b.transfer && a.setup == b.setup;
}

bool same_job(const Instance& instance, std::size_t a, std::size_t b) {
    const auto begin = instance.blocks.begin();
    const auto from = [&](std::size_t j) {
        return begin + static_cast<std::ptrdiff_t>(instance.first[j]);
    };
    return std::equal(from(a), from(a + 1), from(b), from(b + 1), same_times);
}

}  // namespace

ExactProblem::ExactProblem(const Instance& instance, const Rules& rules)
    : instance_(instance),
      rules_(rules),
      facts_(chain_facts(instance)),
      jobs_(index(instance.jobs)),
      devices_(index(instance.devices)),
      partner_(instance.blocks.size()),
      on_(devices_),
      kind_(jobs_),
      offset_(instance.blocks.size(), 0),
      head_(instance.blocks.size()),
      count_(devices_) {
    for (std::size_t b = 0; b < instance.blocks.size(); ++b) {
        on_[index(block(b).device)].push_back(b);
        partner_[b] = b;
        const std::size_t begin = instance.first[index(block(b).job)];
        for (std::size_t other = begin; other < b; ++other)
            if (block(other).state == block(b).state) {
                partner_[b] = other;
                partner_[other] = b;
            }
    }
    for (std::size_t b = 1; b < instance.blocks.size(); ++b)
        if (block(b).job == block(b - 1).job)
            offset_[b] = offset_[b - 1] + block(b - 1).work + block(b - 1).transfer;
    for (std::size_t j = 0; j < jobs_; ++j) {
        std::size_t like = 0;
        while (!same_job(instance, like, j)) ++like;
        kind_[j] = static_cast<int>(like);
    }
}

Row ExactProblem::row(Ticks* numbers) const {
    Row row{};
    row.ready = numbers;
    row.free = row.ready + jobs_;
    row.loaded = row.free + devices_;
    row.placed = row.loaded + devices_;
    row.next = row.placed + jobs_;
    return row;
}

void ExactProblem::make_root(Ticks* numbers) const {
    const Row root = row(numbers);
    std::fill_n(numbers, row_size(), 0);
    std::fill_n(root.loaded, devices_, Row::any);
    std::fill_n(root.next, devices_, Row::open);
}

Ticks ExactProblem::setup_of(Ticks loaded, std::size_t b) const {
    return loaded == Row::any || loaded == static_cast<Ticks>(b) ? 0 : block(b).setup;
}

/// Whether it is the first of its state that is left: a switch stands before it, unless the device
/// holds its state.
bool ExactProblem::pays(Row row, std::size_t b) const {
    return partner_[b] >= b || partner_[b] < next_of(row, index(block(b).job));
}

bool ExactProblem::is_eligible(Row row, std::size_t b) const {
    return next_of(row, index(block(b).job)) == b;
}

Ticks ExactProblem::append(Row row, std::size_t job) const {
    const std::size_t b = next_of(row, job);
    const Block& one = block(b);
    const std::size_t d = index(one.device);
    const Ticks start = std::max(row.ready[job], row.free[d] + setup_of(row.loaded[d], b));
    row.free[d] = start + one.hold;
    row.ready[job] = start + one.work + one.transfer;
    const bool is_of_use = partner_[b] > b && block(partner_[b]).setup > 0;
    row.loaded[d] = is_of_use ? static_cast<Ticks>(partner_[b]) : Row::nothing;
    row.next[d] = Row::open;
    ++row.placed[job];
    return row.free[d];
}

void ExactProblem::reserve(Row row, std::size_t b) const {
    const std::size_t d = index(block(b).device);
    row.next[d] = static_cast<Ticks>(b);
    if (row.loaded[d] != Row::any && row.loaded[d] != row.next[d]) row.loaded[d] = Row::nothing;
}

void ExactProblem::count(Row row) {
    for (std::size_t d = 0; d < devices_; ++d) {
        DeviceCount& c = count_[d] = {};
        for (const std::size_t b : on_[d]) {
            const bool is_left = b >= next_of(row, index(block(b).job));
            c.left += is_left;
            c.forward_left += is_left && !block(b).backward;
            if (!is_left) c.in_flight += block(b).backward ? -1 : 1;
        }
    }
}

/// By chains and what the devices are busy with.
void ExactProblem::find_heads(Row row) {
    for (std::size_t j = 0; j < jobs_; ++j) {
        Ticks ready = row.ready[j];
        for (std::size_t b = next_of(row, j); b < instance_.first[j + 1]; ++b) {
            const Block& one = block(b);
            const std::size_t d = index(one.device);
            const Ticks setup = pays(row, b) ? setup_of(row.loaded[d], b) : 0;
            head_[b] = std::max(ready, row.free[d] + setup);
            ready = head_[b] + one.work + one.transfer;
        }
    }
}

/// What must come before `b` on its device by decision or by forward-first.
Ticks ExactProblem::raised(Row row, std::size_t b) const {
    const std::size_t d = index(block(b).device);
    Ticks head = head_[b];
    if (row.next[d] != Row::open && row.next[d] != static_cast<Ticks>(b)) {
        const std::size_t first = index(row.next[d]);
        const bool holds = partner_[b] == first || !pays(row, b);
        head = std::max(head, head_[first] + block(first).hold + (holds ? 0 : block(b).setup));
    }
    if (rules_.forward_first && block(b).backward && count_[d].forward_left > 0) {
        Ticks least = never, sum = 0;
        for (const std::size_t f : on_[d])
            if (!block(f).backward && f >= next_of(row, index(block(f).job))) {
                least = std::min(least, head_[f]);
                sum += block(f).hold;
            }
        head = std::max(head, least + sum);
    }
    return head;
}

void ExactProblem::raise_heads(Row row) {
    bool is_needed = rules_.forward_first;
    for (std::size_t d = 0; d < devices_; ++d) is_needed |= row.next[d] != Row::open;
    if (!is_needed) return;
    for (std::size_t j = 0; j < jobs_; ++j) {
        Ticks ready = 0;
        for (std::size_t b = next_of(row, j); b < instance_.first[j + 1]; ++b) {
            head_[b] = std::max(ready, raised(row, b));
            ready = head_[b] + block(b).work + block(b).transfer;
        }
    }
}

/// No block takes the device before the earliest that could be next there.
void ExactProblem::raise_free(Row row, std::size_t d) {
    Ticks earliest = never;
    for (const std::size_t b : on_[d]) {
        if (b < next_of(row, index(block(b).job))) continue;
        if (row.next[d] != Row::open && row.next[d] != static_cast<Ticks>(b)) continue;
        const Ticks setup = pays(row, b) ? setup_of(row.loaded[d], b) : 0;
        earliest = std::min(earliest, head_[b] - setup);
    }
    row.free[d] = earliest == never ? 0 : std::max(row.free[d], earliest);
}

Ticks ExactProblem::device_bound(Row row, std::size_t d) {
    windows_.clear();
    for (const std::size_t b : on_[d]) {
        if (b < next_of(row, index(block(b).job))) continue;
        Ticks setup = facts_.gap[b];
        if (row.loaded[d] == static_cast<Ticks>(b))
            setup = std::min(block(b).setup, head_[b] - row.free[d]);
        else if (pays(row, b))
            setup = block(b).setup;
        windows_.push_back(
            {head_[b] - setup, block(b).hold + setup, facts_.tail[b] - block(b).hold});
    }
    return one_machine_bound(windows_);
}

/// With an in-flight cap: each state takes one of so many places from its forward block's start to
/// its backward block's end.
Ticks ExactProblem::flight_bound(Row row, std::size_t d) const {
    std::int64_t places_taken = 0;
    Ticks least_tail = never, begin = never;
    for (const std::size_t b : on_[d]) {
        const std::size_t next = next_of(row, index(block(b).job));
        if (b < next || partner_[b] >= b) continue;  // backward blocks
        const bool flies = partner_[b] < next;
        begin = std::min(begin, flies ? row.free[d] : head_[partner_[b]]);
        places_taken += flies ? head_[b] - row.free[d] : offset_[b] - offset_[partner_[b]];
        places_taken += block(b).hold;
        least_tail = std::min(least_tail, facts_.tail[b] - block(b).hold);
    }
    if (least_tail == never) return 0;
    const std::int64_t cap = rules_.in_flight_cap;
    const std::int64_t bound = begin + (places_taken + cap - 1) / cap + least_tail;
    return static_cast<Ticks>(std::min<std::int64_t>(bound, most_ticks));
}

Ticks ExactProblem::settle(Row row) {
    if (!rules_.none()) count(row);
    find_heads(row);
    raise_heads(row);
    Ticks bound = 0;
    for (std::size_t j = 0; j < jobs_; ++j) {
        const bool done = is_done(row, j);
        const std::size_t b = next_of(row, j);
        row.ready[j] = done ? 0 : head_[b];
        if (!done) bound = std::max(bound, head_[b] + facts_.tail[b]);
    }
    for (std::size_t d = 0; d < devices_; ++d) {
        bound = std::max(bound, device_bound(row, d));
        if (rules_.in_flight_cap > 0) bound = std::max(bound, flight_bound(row, d));
        raise_free(row, d);
    }
    return bound;
}

bool ExactProblem::allowed(std::size_t b) const {
    const DeviceCount& c = count_[index(block(b).device)];
    if (block(b).backward) return !rules_.forward_first || c.forward_left == 0;
    return rules_.in_flight_cap == 0 || c.in_flight < rules_.in_flight_cap;
}

/// Whether `by`, which may go at once, fits in before `b` without delay to it: then some best
/// completion does not have `b` next. An in-flight cap may forbid to take a forward block earlier.
bool ExactProblem::is_beaten(Row row, std::size_t b, std::size_t by) const {
    if (b == by) return false;
    if (rules_.in_flight_cap > 0 && !block(by).backward) return false;
    const std::size_t d = index(block(b).device);
    const Ticks start =
        std::max(row.ready[index(block(by).job)], row.free[d] + setup_of(row.loaded[d], by));
    const Ticks end = start + block(by).hold + block(b).setup;
    return head_[b] >= end && (head_[b] > start || by < b);
}

/// A job that is the same, as far, and ready no later: it may as well go first.
bool ExactProblem::has_twin(Row row, std::size_t job) const {
    const auto is_marked = [&](std::size_t j) {
        for (std::size_t d = 0; d < devices_; ++d)
            for (const Ticks b : {row.loaded[d], row.next[d]})
                if (b >= 0 && index(block(index(b)).job) == j) return true;
        return false;
    };
    for (std::size_t j = 0; j < jobs_; ++j) {
        if (j == job || kind_[j] != kind_[job] || row.placed[j] != row.placed[job]) continue;
        const bool goes_first =
            row.ready[j] < row.ready[job] || (row.ready[j] == row.ready[job] && j < job);
        if (goes_first && !is_marked(j) && !is_marked(job)) return true;
    }
    return false;
}

Ticks ExactProblem::earliest_end(Row row, std::size_t d) const {
    Ticks earliest = never;
    for (const std::size_t b : on_[d])
        if (is_eligible(row, b) && allowed(b) &&
            (row.next[d] == Row::open || row.next[d] == static_cast<Ticks>(b)))
            earliest = std::min(earliest, head_[b] + block(b).hold);
    return earliest;
}

void ExactProblem::candidates_on(Row row, std::size_t d, std::vector<std::size_t>& blocks) {
    blocks.clear();
    eligible_.clear();
    std::size_t last_job = jobs_;
    trial_.clear();
    for (const std::size_t b : on_[d]) {  // the first that is left of each job
        const std::size_t job = index(block(b).job);
        if (job == last_job || b < next_of(row, job)) continue;
        last_job = job;
        if (!allowed(b)) continue;
        trial_.push_back(b);
        if (is_eligible(row, b)) eligible_.push_back(b);
    }
    if (row.next[d] != Row::open) {
        blocks.push_back(index(row.next[d]));
        return;
    }
    for (const std::size_t b : trial_) {
        const bool beaten = std::any_of(eligible_.begin(), eligible_.end(),
                                        [&](std::size_t by) { return is_beaten(row, b, by); });
        if (beaten) continue;
        if (is_eligible(row, b) && has_twin(row, index(block(b).job))) continue;
        blocks.push_back(b);
    }
}

void ExactProblem::branch(Row row, std::vector<std::size_t>& blocks) {
    blocks.clear();
    count(row);
    find_heads(row);
    raise_heads(row);
    Ticks best_end = never;
    std::vector<std::size_t> found;
    for (std::size_t d = 0; d < devices_; ++d) {
        const Ticks end = earliest_end(row, d);
        if (end == never) continue;
        candidates_on(row, d, found);
        const bool forced = found.size() == 1;
        if (forced || end < best_end) {
            best_end = end;
            blocks = found;
        }
        if (forced) return;
    }
}

bool ExactProblem::dominates(const Ticks* a, const Ticks* b) const {
    const std::size_t times = jobs_ + devices_;
    for (std::size_t i = 0; i < times; ++i)
        if (a[i] > b[i]) return false;
    const Ticks* loaded_a = a + times;
    const Ticks* loaded_b = b + times;
    for (std::size_t d = 0; d < devices_; ++d) {
        if (loaded_a[d] == loaded_b[d] || loaded_b[d] < 0) continue;
        if (a[jobs_ + d] + block(index(loaded_b[d])).setup > b[jobs_ + d]) return false;
    }
    return true;
}

}  // namespace arena::array
