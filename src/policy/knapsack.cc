// SPDX-License-Identifier: GPL-2.0-or-later
// The multiple-choice knapsack: see knapsack.h.
#include "policy/knapsack.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

namespace arena {
namespace {

constexpr int sweeps = 4, bisections = 22, improvements = 32;
/// Values per GPU are rounded: below a price by more than this a group surely buys nothing.
constexpr double surely = 1 - 1e-12;

}  // namespace

std::int32_t Knapsack::best_response(std::size_t g) const {
    const auto items = group(g);
    std::int32_t best = -1;
    double most = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (const double n = net(items[i]); n > most) {
            most = n;
            best = static_cast<std::int32_t>(i);
        }
    }
    return best;
}

void Knapsack::find_rivals() {
    markets_.assign(capacity_.size(), {});
    for (std::uint32_t g = 0; g < groups(); ++g) {
        const auto items = group(g);
        for (std::uint32_t i = 0; i < items.size(); ++i) {
            const Item& item = items[i];
            if (item.value <= 0) continue;
            Market& market = markets_[static_cast<std::size_t>(item.type)];
            ++market.items;
            market.least_gpus = std::min<std::int64_t>(market.least_gpus, item.gpus);
            if (market.rivals.empty() || market.rivals.back().group != g)
                market.rivals.push_back({.group = g, .first = first_[g] + i});
            Rival& rival = market.rivals.back();
            rival.density = std::max(rival.density, item.value / static_cast<double>(item.gpus));
            rival.end = first_[g] + i + 1;
        }
    }
}

double Knapsack::alternative_to(std::size_t type, std::size_t g) const {
    double most = 0;
    for (const Item& item : group(g))
        if (item.value > 0 && static_cast<std::size_t>(item.type) != type)
            most = std::max(most, net(item));
    return most;
}

/// Whether what best responses take of the type at the price, other prices fixed, is there. Counts
/// as a look at all items of the type, though those that are too dear for their groups are passed
/// over.
bool Knapsack::fits_at(std::size_t type, double price) {
    std::int64_t demand = 0;
    steps_ -= markets_[type].items;
    for (Rival& rival : bidders_) {
        if (rival.density < price * surely) continue;
        if (rival.alternative < 0) rival.alternative = alternative_to(type, rival.group);
        double most = rival.alternative;
        std::int32_t gpus = 0;
        for (std::uint32_t i = rival.first; i < rival.end; ++i) {
            const Item& item = items_[i];
            if (item.value <= 0 || static_cast<std::size_t>(item.type) != type) continue;
            const double n = item.value - price * static_cast<double>(item.gpus);
            if (n > most) {
                most = n;
                gpus = item.gpus;
            }
        }
        demand += gpus;
        if (demand > capacity_[type]) return false;
    }
    return true;
}

/// The least price of the type at which its demand fits, by bisection.
void Knapsack::set_price(std::size_t type) {
    bidders_ = markets_[type].rivals;
    double highest = 0;
    for (const Rival& rival : bidders_) highest = std::max(highest, rival.density);
    steps_ -= static_cast<std::int64_t>(items_.size());
    double low = 0, high = highest;
    const auto raise = [&](double price) {
        low = price;
        std::erase_if(bidders_, [&](const Rival& rival) { return rival.density < low * surely; });
    };
    if (fits_at(type, 0)) high = 0;
    double previous = prices_[type];
    if (high > 0 && previous > 0 && previous < high) {  // tighten around the last price
        if (fits_at(type, previous * 1.25)) high = previous * 1.25;
        if (!fits_at(type, previous * 0.8)) raise(previous * 0.8);
    }
    for (int i = 0; i < bisections && high - low > 1e-4 * high && steps_ > 0; ++i) {
        const double middle = low > 0 ? (low + high) / 2 : high / 4;
        if (fits_at(type, middle)) {
            high = middle;
        } else {
            raise(middle);
        }
    }
    prices_[type] = high;
}

void Knapsack::find_prices() {
    for (int sweep = 0; sweep < sweeps && steps_ > 0; ++sweep) {
        const std::vector<double> before = prices_;
        for (std::size_t t = 0; t < capacity_.size() && steps_ > 0; ++t) set_price(t);
        double change = 0;
        for (std::size_t t = 0; t < capacity_.size(); ++t) {
            change =
                std::max(change, std::abs(prices_[t] - before[t]) / std::max(prices_[t], 1e-300));
        }
        if (change < 1e-3) break;
    }
}

bool Knapsack::fits(std::size_t g, const Item& item) const {
    std::int64_t left = free_[static_cast<std::size_t>(item.type)];
    if (chosen_[g] >= 0) {
        const Item& now = group(g)[static_cast<std::size_t>(chosen_[g])];
        if (now.type == item.type) left += now.gpus;
    }
    return item.gpus <= left;
}

void Knapsack::choose(std::size_t g, std::int32_t item) {
    if (chosen_[g] >= 0) {
        const Item& old = group(g)[static_cast<std::size_t>(chosen_[g])];
        free_[static_cast<std::size_t>(old.type)] += old.gpus;
    }
    chosen_[g] = item;
    if (item >= 0) {
        const Item& now = group(g)[static_cast<std::size_t>(item)];
        free_[static_cast<std::size_t>(now.type)] -= now.gpus;
    }
}

/// Groups that gain at the prices, by what they gain over nothing per GPU, as a heap.
std::vector<std::pair<double, std::uint32_t>> Knapsack::best_responses() const {
    std::vector<bool> may_gain(groups());
    for (std::size_t t = 0; t < markets_.size(); ++t)
        for (const Rival& rival : markets_[t].rivals)
            if (rival.density >= prices_[t] * surely) may_gain[rival.group] = true;
    std::vector<std::pair<double, std::uint32_t>> heap;
    for (std::size_t g = 0; g < groups(); ++g) {
        const std::int32_t best = may_gain[g] ? best_response(g) : -1;
        if (best < 0) continue;
        const Item& item = group(g)[static_cast<std::size_t>(best)];
        heap.emplace_back(-net(item) / static_cast<double>(item.gpus),
                          static_cast<std::uint32_t>(g));
    }
    std::make_heap(heap.begin(), heap.end(), std::greater<>());
    return heap;
}

/// Not even the smallest item fits what is free; but groups may change what they have.
bool Knapsack::nothing_fits() const {
    for (std::size_t t = 0; t < free_.size(); ++t)
        if (free_[t] >= markets_[t].least_gpus) return false;
    return true;
}

/// Best responses in the order of what they gain over nothing per GPU, as far as they fit; what
/// does not takes its best response among what does.
void Knapsack::round_down() {
    auto heap = best_responses();
    steps_ -= 2 * static_cast<std::int64_t>(items_.size());
    for (; !heap.empty() && !nothing_fits(); heap.pop_back()) {
        std::pop_heap(heap.begin(), heap.end(), std::greater<>());
        const std::uint32_t g = heap.back().second;
        const auto items = group(g);
        std::int32_t best = -1;
        double most = -1e300;
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (items[i].value <= 0 || !fits(g, items[i])) continue;
            const double n = net(items[i]);
            if (n > most) {
                most = n;
                best = static_cast<std::int32_t>(i);
            }
        }
        if (best >= 0 && most > -1e-12) choose(g, best);
    }
}

/// What is free goes to the items that gain most per GPU over what their group has.
bool Knapsack::improve() {
    std::vector<std::tuple<double, std::uint32_t, std::int32_t>> moves;
    const bool full = nothing_fits();
    for (std::size_t g = 0; g < groups(); ++g) {
        if (full && chosen_[g] < 0) continue;
        const auto items = group(g);
        const double now = chosen_[g] < 0 ? 0 : items[static_cast<std::size_t>(chosen_[g])].value;
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (items[i].value > now && fits(g, items[i])) {
                const double gain = items[i].value - now;
                moves.emplace_back(-gain / static_cast<double>(items[i].gpus), g,
                                   static_cast<std::int32_t>(i));
            }
        }
    }
    steps_ -= static_cast<std::int64_t>(items_.size());
    std::sort(moves.begin(), moves.end());
    bool better = false;
    for (const auto& [key, g, i] : moves) {
        const auto items = group(g);
        const Item& item = items[static_cast<std::size_t>(i)];
        const double now = chosen_[g] < 0 ? 0 : items[static_cast<std::size_t>(chosen_[g])].value;
        if (item.value > now && fits(g, item)) {
            choose(g, i);
            better = true;
        }
    }
    return better;
}

double Knapsack::chosen_value(std::size_t g) const {
    return chosen_[g] < 0 ? 0 : group(g)[static_cast<std::size_t>(chosen_[g])].value;
}

/// What each group could give up of its type, by what that costs it.
void Knapsack::find_releases(std::vector<std::vector<Release>>& by_type) const {
    by_type.assign(capacity_.size(), {});
    for (std::size_t g = 0; g < groups(); ++g) {
        if (chosen_[g] < 0) continue;
        const auto items = group(g);
        const Item& now = items[static_cast<std::size_t>(chosen_[g])];
        auto& list = by_type[static_cast<std::size_t>(now.type)];
        list.push_back({now.value, now.gpus, static_cast<std::uint32_t>(g), -1});
        for (std::size_t i = 0; i < items.size(); ++i) {
            const std::int64_t freed = now.gpus - (items[i].type == now.type ? items[i].gpus : 0);
            if (freed <= 0 || items[i].value <= 0 || !fits(g, items[i])) continue;
            list.push_back({now.value - items[i].value, freed, static_cast<std::uint32_t>(g),
                            static_cast<std::int32_t>(i)});
        }
    }
    for (auto& list : by_type) {
        std::sort(list.begin(), list.end(), [](const Release& a, const Release& b) {
            return std::tie(a.loss, a.group, a.item) < std::tie(b.loss, b.group, b.item);
        });
    }
}

/// A group takes an item that does not fit, and one other gives up what is missing of its type.
bool Knapsack::improve_in_pairs() {
    std::vector<std::vector<Release>> releases;
    find_releases(releases);
    steps_ -= static_cast<std::int64_t>(items_.size());
    for (std::uint32_t g = 0; g < groups(); ++g) {
        const auto items = group(g);
        for (std::size_t i = 0; i < items.size(); ++i) {
            const double gain = items[i].value - chosen_value(g);
            if (gain <= 0 || fits(g, items[i])) continue;
            const bool same = chosen_[g] >= 0 &&
                              items[static_cast<std::size_t>(chosen_[g])].type == items[i].type;
            const std::int64_t missing =
                items[i].gpus - free_[static_cast<std::size_t>(items[i].type)] -
                (same ? items[static_cast<std::size_t>(chosen_[g])].gpus : 0);
            for (const Release& r : releases[static_cast<std::size_t>(items[i].type)]) {
                if (r.loss * (1 + 1e-9) >= gain || --steps_ <= 0) break;
                if (r.group == g || r.freed < missing) continue;
                choose(r.group, r.item);
                choose(g, static_cast<std::int32_t>(i));
                return true;  // what could be released has changed
            }
        }
    }
    return false;
}

/// What of the capacity all groups together could take, each its largest item of the type.
void Knapsack::find_usable() {
    usable_.assign(capacity_.size(), 0);
    std::vector<std::int64_t> most(capacity_.size());
    for (std::size_t g = 0; g < groups(); ++g) {
        std::fill(most.begin(), most.end(), 0);
        for (const Item& item : group(g)) {
            auto& m = most[static_cast<std::size_t>(item.type)];
            if (item.value > 0) m = std::max<std::int64_t>(m, item.gpus);
        }
        for (std::size_t t = 0; t < most.size(); ++t)
            usable_[t] = std::min(capacity_[t], usable_[t] + most[t]);
    }
}

/// Number of different free capacities, or one more than may ever be looked at.
std::int64_t Knapsack::states(const std::vector<std::int64_t>& capacity) {
    std::int64_t product = 1;
    for (const std::int64_t c : capacity) {
        if (c >= max_exact_cells / product) return max_exact_cells + 1;
        product *= c + 1;
    }
    return product;
}

bool Knapsack::can_solve_exactly(std::int64_t steps) const {
    const std::int64_t count = states(capacity_);
    return count <=
               max_exact_cells / std::max<std::int64_t>(1, static_cast<std::int64_t>(groups())) &&
           count * static_cast<std::int64_t>(items_.size()) <= steps;
}

/// The states that the item of the group betters, with one type alone. Without a branch: which
/// states those are nobody can foretell.
void Knapsack::add_item(std::size_t g, std::int32_t i, const std::vector<double>& best,
                        std::vector<double>& next, std::int32_t* picks) const {
    const Item& item = group(g)[static_cast<std::size_t>(i)];
    const auto gpus = static_cast<std::size_t>(item.gpus);
    for (std::size_t s = gpus; s < next.size(); ++s) {
        const double value = best[s - gpus] + item.value, old = next[s];
        const bool is_better = value > old;
        next[s] = is_better ? value : old;
        picks[s] = is_better ? i : picks[s];
    }
}

/// Best sum by what is free, group after group; then the choices are read off backwards.
void Knapsack::solve_exactly() {
    const auto count = static_cast<std::size_t>(states(usable_));
    std::vector<std::size_t> stride(capacity_.size(), 1);
    for (std::size_t t = 1; t < stride.size(); ++t) {
        stride[t] = stride[t - 1] * static_cast<std::size_t>(usable_[t - 1] + 1);
    }
    std::vector<double> best(count, 0), next(count);
    std::vector<std::int32_t> picks(groups() * count, -1);
    for (std::size_t g = 0; g < groups(); ++g) {
        next = best;
        const auto items = group(g);
        for (std::size_t i = 0; i < items.size(); ++i) {
            const auto t = static_cast<std::size_t>(items[i].type);
            const std::size_t gpus = static_cast<std::size_t>(items[i].gpus);
            if (items[i].value <= 0) continue;
            if (capacity_.size() == 1) {
                add_item(g, static_cast<std::int32_t>(i), best, next, &picks[g * count]);
                continue;
            }
            for (std::size_t s = 0; s < count; ++s) {
                if (s / stride[t] % static_cast<std::size_t>(usable_[t] + 1) < gpus) continue;
                const double value = best[s - gpus * stride[t]] + items[i].value;
                if (value <= next[s]) continue;
                next[s] = value;
                picks[g * count + s] = static_cast<std::int32_t>(i);
            }
        }
        best.swap(next);
    }
    std::size_t s = count - 1;
    for (std::size_t g = groups(); g-- > 0;) {
        const std::int32_t pick = picks[g * count + s];
        choose(g, pick);
        if (pick < 0) continue;
        const Item& item = group(g)[static_cast<std::size_t>(pick)];
        s -= static_cast<std::size_t>(item.gpus) * stride[static_cast<std::size_t>(item.type)];
    }
}

std::vector<std::int32_t> Knapsack::solve(std::int64_t steps, std::int64_t exact_steps) {
    steps_ = steps;
    chosen_.assign(groups(), -1);
    free_ = capacity_;
    find_rivals();
    find_prices();
    solved_exactly_ = can_solve_exactly(std::max(steps_, exact_steps));
    if (solved_exactly_) {
        steps_ -= states(capacity_) * static_cast<std::int64_t>(items_.size());
        find_usable();
        solve_exactly();
        return chosen_;
    }
    round_down();
    for (int i = 0; i < improvements && steps_ > 0; ++i) {
        if (!improve() && !improve_in_pairs()) break;
    }
    return chosen_;
}

double Knapsack::value(const std::vector<std::int32_t>& chosen) const {
    double sum = 0;
    for (std::size_t g = 0; g < groups(); ++g) {
        if (chosen[g] >= 0) sum += group(g)[static_cast<std::size_t>(chosen[g])].value;
    }
    return sum;
}

double Knapsack::bound() const {
    double sum = 0;
    for (std::size_t t = 0; t < prices_.size(); ++t) {
        sum += prices_[t] * static_cast<double>(capacity_[t]);
    }
    for (std::size_t g = 0; g < groups(); ++g) {
        const std::int32_t best = best_response(g);
        if (best >= 0) sum += net(group(g)[static_cast<std::size_t>(best)]);
    }
    return sum;
}

}  // namespace arena
