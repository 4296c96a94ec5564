// SPDX-License-Identifier: GPL-2.0-or-later
// A snapshot in numbers: see problem.h.
#include "policy/problem.h"

#include <limits>
#include <tuple>

#include "policy/places.h"

namespace arena {
namespace {

constexpr double layout_tolerance = 1.05;
/// Work that a job without a stated amount or limit counts as: a day.
constexpr double unknown_work_s = 86400;
/// A job that outlives what its user said (it says that just one iteration is left) is taken to
/// need this share of what it did, once more.
constexpr double overrun_share = 0.5;

bool is_allowed(const JobState& job, std::string_view type) {
    if (job.gpu_types.empty()) return true;
    return std::find(job.gpu_types.begin(), job.gpu_types.end(), type) != job.gpu_types.end();
}

/// Kinds that are kept of one list of offers.
constexpr std::size_t most_known = 64;

/// Not of widest_span.
Span next(Span span) { return static_cast<Span>(static_cast<int>(span) + 1); }

/// What it does was decided when its node was asked back.
bool is_leaving(const Snapshot& snapshot, const JobState& job) {
    return std::any_of(job.nodes.begin(), job.nodes.end(), [&](NodeIndex n) {
        return n < snapshot.nodes.size() && snapshot.nodes[n].returning_s != 0;
    });
}

bool asked_the_same(const JobState& a, const JobState& b) {
    return a.requested_gpus == b.requested_gpus && a.requested_type == b.requested_type;
}

}  // namespace

bool are_of_a_kind(const JobState& a, const JobState& b) {
    return a.min_gpus == b.min_gpus && a.max_gpus == b.max_gpus && a.node_set == b.node_set &&
           a.cpus_per_gpu == b.cpus_per_gpu && a.memory_mb_per_gpu == b.memory_mb_per_gpu &&
           a.gpu_types == b.gpu_types && a.places == b.places;
}

Problem::Problem(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options,
                 Scope scope, const std::vector<bool>& left_out)
    : snapshot_(snapshot), options_(options), fabric_(snapshot), scope_(scope) {
    count_nodes();
    count_sets();
    count_together();
    tasks_.reserve(snapshot.jobs.size());
    auto at = offers.begin();
    for (std::size_t i = 0; i < snapshot.jobs.size(); ++i) {
        const JobState& job = snapshot.jobs[i];
        if (!left_out.empty() && left_out[i]) continue;
        if (only_starts() && job.phase == JobPhase::running) continue;
        at = find_from(offers, at, job.id);
        if (at != offers.end()) add_task(job, at->second);
    }
}

void Problem::count_nodes() {
    node_types_.reserve(snapshot_.nodes.size());
    for (const NodeState& node : snapshot_.nodes) {
        std::int32_t type = -1;
        if (!node.gpu_type.empty()) {
            type = type_of(node.gpu_type, node_types_.empty() ? -1 : node_types_.back());
            if (type < 0) {
                type = static_cast<std::int32_t>(types_.size());
                types_.push_back(node.gpu_type);
                capacity_.push_back(0);
                total_.push_back(0);
            }
            if (node.returning_s == 0) capacity_[static_cast<std::size_t>(type)] += node.free_gpus;
            total_[static_cast<std::size_t>(type)] += node.total_gpus;
        }
        node_types_.push_back(type);
    }
}

void Problem::count_sets() {
    for (const auto& set : snapshot_.node_sets) {
        auto& total = total_of_set_.emplace_back();
        if (set.size() == snapshot_.nodes.size()) continue;
        total.assign(types_.size(), 0);
        for (const NodeIndex n : set) {
            if (node_types_[n] >= 0)
                total[static_cast<std::size_t>(node_types_[n])] += snapshot_.nodes[n].total_gpus;
        }
    }
}

void Problem::count_together() {
    if (fabric_.leaves() == 1) return;
    std::vector<std::vector<std::int64_t>> in_leaf(types_.size()), in_pod(types_.size());
    for (std::size_t t = 0; t < types_.size(); ++t) {
        in_leaf[t].resize(fabric_.leaves());
        in_pod[t].resize(fabric_.pods());
    }
    for (NodeIndex n = 0; n < snapshot_.nodes.size(); ++n) {
        if (node_types_[n] < 0) continue;
        const auto type = static_cast<std::size_t>(node_types_[n]);
        const std::uint32_t leaf = fabric_.leaf_of(n);
        ++in_leaf[type][leaf];
        ++in_pod[type][fabric_.pod_of(leaf)];
    }
    for (std::size_t t = 0; t < types_.size(); ++t)
        together_.push_back({*std::max_element(in_leaf[t].begin(), in_leaf[t].end()),
                             *std::max_element(in_pod[t].begin(), in_pod[t].end())});
}

/// The layout at each span that its nodes can have, as far as they differ; where spans are no
/// choices, at the first of these alone.
void Problem::add_spans(const Offer& offer, std::int32_t type) {
    const auto add = [&](Span least, Span most) {
        scratch_.push_back({type, static_cast<std::int32_t>(offer.grid.gpus()),
                            iteration_s(offer, least), &offer, most});
    };
    if (!offer.knows_spans() || together_.empty()) return add(Span::leaf, widest_span);
    const Together& most = together_[static_cast<std::size_t>(type)];
    const bool is_one = offer.grid.nodes == 1 && !(options_.any_layout && offer.grid.gpus() > 1);
    const Span widest = is_one ? Span::leaf : fabric_.widest();
    Span least = offer.grid.nodes <= most.in_leaf  ? Span::leaf
                 : offer.grid.nodes <= most.in_pod ? Span::pod
                                                   : Span::pods;
    least = std::min(least, widest);
    if (scope_ != Scope::layouts) return add(least, widest_span);
    for (Span span = least; span <= widest; span = next(span)) {
        const bool is_last = span == widest;
        if (!is_last && offer.slower_at(next(span)) == offer.slower_at(span)) continue;
        add(span, is_last ? widest_span : span);
    }
}

/// Whether the layout needs no domain, and all that the choice has do: those of a site whose
/// domains are never whole.
bool Problem::is_way_out(const Offer& offer, const Choice& choice) const {
    const auto layouts = offers(choice);
    return offer.segment == 1 &&
           std::ranges::all_of(layouts, [](const Offer* known) { return known->segment > 1; });
}

/// One more layout of the choice that was added last, or of one more; first: of the task's.
void Problem::add_layout(const Sortable& s, std::size_t first) {
    const double slowest_layout =
        scope_ == Scope::starts ? std::numeric_limits<double>::infinity() : layout_tolerance;
    const bool same =
        choices_.size() > first && choices_.back().type == s.type && choices_.back().gpus == s.gpus;
    const bool close =
        same && (s.iteration_s <= slowest_layout * choices_.back().iteration_s ||
                 (scope_ != Scope::layouts && is_way_out(*s.offer, choices_.back())));
    if (same && !close && scope_ != Scope::layouts) return;
    if (!close) {
        choices_.push_back({.type = s.type,
                            .gpus = s.gpus,
                            .iteration_s = s.iteration_s,
                            .first_offer = static_cast<std::uint32_t>(offers_.size())});
    }
    const auto begin = offers_.begin() + choices_.back().first_offer;
    if (const auto known = std::find(begin, offers_.end(), s.offer); known != offers_.end()) {
        spans_[static_cast<std::size_t>(known - offers_.begin())] = s.span;
        return;
    }
    offers_.push_back(s.offer);
    has_segments_ = has_segments_ || s.offer->segment > 1;
    if (!spans_.empty() || s.span != widest_span) {
        spans_.resize(offers_.size(), widest_span);
        spans_.back() = s.span;
    }
    ++choices_.back().offer_count;
}

Span Problem::widest(const Choice& choice, const Offer& offer) const {
    if (spans_.empty()) return widest_span;
    for (std::uint32_t o = choice.first_offer; o < choice.first_offer + choice.offer_count; ++o)
        if (offers_[o] == &offer) return spans_[o];
    return widest_span;
}

bool Problem::has_place_for(const JobState& job, std::int32_t type, std::int64_t gpus) const {
    return any_place(job, [&](const Place& place, std::uint32_t) {
        if (place.node_set >= total_of_set_.size()) return false;
        const auto& set = total_of_set_[place.node_set];
        return gpus <= (set.empty() ? total_ : set)[static_cast<std::size_t>(type)];
    });
}

std::int32_t Problem::type_of(std::string_view name) const {
    for (std::size_t i = 0; i < types_.size(); ++i) {
        if (types_[i] == name) return static_cast<std::int32_t>(i);
    }
    return -1;
}

/// Offers outside the job's types or GPU range, or that no set of nodes could hold, are left out;
/// but what a job runs with it may keep. Answers the time of the fastest, the last of these not
/// left out.
double Problem::add_choices(const JobState& job, const std::vector<Offer>& offers) {
    scratch_.clear();
    double fastest_s = std::numeric_limits<double>::infinity();
    const Grid* own = job.phase == JobPhase::running && job.current ? &job.current->grid : nullptr;
    std::int32_t type = -1;
    for (const Offer& offer : offers) {
        const std::int64_t gpus = offer.grid.gpus();
        if (scope_ == Scope::requests &&
            (gpus != job.requested_gpus || offer.grid.gpu_type != job.requested_type))
            continue;
        if (gpus < job.min_gpus || gpus > job.max_gpus) continue;
        if (!is_allowed(job, offer.grid.gpu_type) || !(offer.estimate.iteration_s > 0)) continue;
        fastest_s = std::min(fastest_s, offer.estimate.iteration_s);
        type = type_of(offer.grid.gpu_type, type);
        const bool keeps =
            own != nullptr && own->gpus() == gpus && own->gpu_type == offer.grid.gpu_type;
        if (own != nullptr && job.behind_ordinary && offer.grid != *own) continue;
        const bool may_wait = scope_ == Scope::starts;
        if (type < 0 || !(keeps || may_wait || has_place_for(job, type, gpus))) continue;
        add_spans(offer, type);
    }
    std::sort(scratch_.begin(), scratch_.end(), [](const Sortable& a, const Sortable& b) {
        const auto key = [](const Sortable& s) { return std::tie(s.type, s.gpus, s.iteration_s); };
        if (key(a) != key(b)) return key(a) < key(b);
        const Grid &grid = a.offer->grid, &other = b.offer->grid;
        if (grid.is_uneven() != other.is_uneven()) return other.is_uneven();
        return std::tie(grid, a.offer->plan, a.offer->segment) <
               std::tie(other, b.offer->plan, b.offer->segment);
    });
    const std::size_t first = choices_.size();
    for (const Sortable& s : scratch_) add_layout(s, first);
    return fastest_s;
}

/// The same, once for jobs of a kind: of a long queue of few models most are. A job that runs with
/// what it could not be given any more is like no other.
void Problem::find_choices(const std::vector<Offer>& offers, Task& task) {
    const JobState& job = *task.job;
    const Grid* own = job.phase == JobPhase::running && job.current ? &job.current->grid : nullptr;
    const std::int32_t own_type = own == nullptr ? -1 : type_of(own->gpu_type);
    const bool alone =
        own_type >= 0 && (job.behind_ordinary || !has_place_for(job, own_type, own->gpus()));
    std::vector<Task>& known = known_[&offers];
    task.first_choice = static_cast<std::uint32_t>(choices_.size());
    for (const Task& other : known) {
        if (alone || !are_of_a_kind(*other.job, job)) continue;
        if (scope_ == Scope::requests && !asked_the_same(*other.job, job)) continue;
        task.kind = other.kind;
        task.fastest_s = other.fastest_s;
        task.choice_count = other.choice_count;
        choices_.resize(choices_.size() + other.choice_count);
        std::copy_n(choices_.begin() + other.first_choice, other.choice_count,
                    choices_.begin() + task.first_choice);
        return;
    }
    task.kind = kinds_++;
    task.fastest_s = add_choices(job, offers);
    task.choice_count = static_cast<std::uint32_t>(choices_.size()) - task.first_choice;
    if (!alone && known.size() < most_known) known.push_back(task);
}

/// Undoes find_choices() of the task found last.
void Problem::forget(const std::vector<Offer>& offers, const Task& task) {
    choices_.resize(task.first_choice);
    std::erase_if(known_[&offers], [&](const Task& other) { return other.job == task.job; });
}

void Problem::add_task(const JobState& job, const std::vector<Offer>& offers) {
    const bool runs = job.phase == JobPhase::running;
    if (job.ordinary && scope_ != Scope::layouts) return;
    if (runs && (!job.elastic || job.nodes.empty() || !job.current || is_leaving(snapshot_, job)))
        return;
    Task task;
    task.job = &job;
    find_choices(offers, task);
    if (only_starts()) return tasks_.push_back(task);
    if (task.choice_count == 0) return;
    if (runs) {
        const Grid& grid = job.current->grid;
        const std::int32_t type = type_of(grid.gpu_type);
        const bool all_typed = std::all_of(job.nodes.begin(), job.nodes.end(), [&](NodeIndex n) {
            return n < node_types_.size() && node_types_[n] == type;
        });
        task.current = type < 0 || !all_typed
                           ? -1
                           : find_choice(task, *job.current, fabric_.span_of(job.nodes));
        if (task.current < 0)
            return forget(offers, task);  // runs with what it is no longer offered: let it run
        capacity_[static_cast<std::size_t>(type)] += grid.gpus();
    }
    task.remaining = job.remaining_iterations;
    if (!(task.remaining > 0)) {
        const double work_s = job.time_limit_s > 0 ? job.time_limit_s : unknown_work_s;
        const std::int32_t asked = requested(task);
        const std::int32_t first = static_cast<std::int32_t>(task.first_choice);
        const std::int32_t as = task.runs() ? task.current : asked < 0 ? first : asked;
        task.remaining = work_s / choice(as).iteration_s;
    }
    if (job.overrun) {
        task.remaining = std::max(task.remaining, overrun_share * job.done_iterations);
    }
    tasks_.push_back(task);
}

std::int32_t Problem::find_choice(const Task& task, std::int32_t type, std::int64_t gpus) const {
    for (std::uint32_t i = 0; i < task.choice_count; ++i) {
        const Choice& c = choices_[task.first_choice + i];
        if (c.type == type && c.gpus == gpus)
            return static_cast<std::int32_t>(task.first_choice + i);
    }
    return -1;
}

std::int32_t Problem::find_choice(const Task& task, const Offer& wanted, Span span) const {
    const Grid& grid = wanted.grid;
    const std::int32_t type = type_of(grid.gpu_type);
    const std::int32_t fastest = type < 0 ? -1 : find_choice(task, type, grid.gpus());
    const auto end = static_cast<std::int32_t>(task.first_choice + task.choice_count);
    for (std::int32_t i = fastest; i >= 0 && i < end; ++i) {
        if (choice(i).type != type || choice(i).gpus != grid.gpus()) break;
        const auto layouts = offers(choice(i));
        if (std::any_of(layouts.begin(), layouts.end(), [&](const Offer* offer) {
                if (widest(choice(i), *offer) < span || offer->segment != wanted.segment)
                    return false;
                if (grid.is_uneven() || offer->grid.is_uneven())
                    return grid.is_uneven() == offer->grid.is_uneven();
                // of any other split of the same GPUs, too, where an offer holds for them
                return offer->grid.nodes == grid.nodes || (has_spans() && options_.any_layout);
            }))
            return i;
    }
    return fastest;
}

std::int32_t Problem::requested(const Task& task) const {
    const std::int32_t type = type_of(task.job->requested_type);
    return type < 0 ? -1 : find_choice(task, type, task.job->requested_gpus);
}

double Problem::restart_left_s(const Task& task) const {
    if (!task.runs()) return 0;
    const double until =
        task.job->start_s + task.restart_s(options_.restart, choice(task.current).gpus);
    return std::max(0.0, until - snapshot_.time_s);
}

std::vector<std::size_t> waiting_in_order(const Problem& problem) {
    std::vector<std::tuple<double, double, JobId, std::size_t>> keys;
    const auto& tasks = problem.tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const JobState& job = *tasks[i].job;
        if (!tasks[i].runs() && !job.ordinary)
            keys.emplace_back(-job.priority, job.submit_s, job.id, i);
    }
    if (!std::is_sorted(keys.begin(), keys.end()))
        std::sort(keys.begin(), keys.end());  // it is, of one priority
    std::vector<std::size_t> queue;
    queue.reserve(keys.size());
    for (const auto& key : keys) queue.push_back(std::get<3>(key));
    return queue;
}

}  // namespace arena
