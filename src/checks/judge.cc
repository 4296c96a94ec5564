// SPDX-License-Identifier: GPL-2.0-or-later
// See judge.h. locate() compares times of one kind: it is asked once for each product and limit.
#include "checks/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/statistics.h"
#include "slowdown/locate.h"

namespace arena {
namespace {

using State = DeviceVerdict::State;

double limit_of(Reference::From from) {
    return from == Reference::From::profile ? profile_limit : slowdown::LocateLimits{}.gpu;
}

DeviceVerdict& verdict_of(CheckVerdict& verdict, std::int64_t device) {
    return *std::find_if(verdict.devices.begin(), verdict.devices.end(),
                         [&](const DeviceVerdict& known) { return known.device == device; });
}

slowdown::GpuCheck gpu_check(std::int64_t device, double seconds) {
    return {static_cast<int>(device), 1000 * seconds, "one type"};
}

/// Of one product on the devices whose references have one limit.
void judge_product(const std::vector<std::pair<const ProductTime*, Reference>>& times,
                   CheckVerdict& verdict) {
    slowdown::CheckRound before, now;
    for (const auto& [time, reference] : times) {
        before.gpus.push_back(gpu_check(time->device, reference.seconds));
        now.gpus.push_back(gpu_check(time->device, time->seconds));
    }
    const auto found = slowdown::locate(before, now, {.gpu = limit_of(times.front().second.from)});
    if (!found) return;  // a time that is none: nothing is said
    for (const auto& [time, reference] : times) {
        DeviceVerdict& device = verdict_of(verdict, time->device);
        const bool is_slow =
            std::any_of(found->gpus.begin(), found->gpus.end(),
                        [&](const auto& g) { return g.rank == static_cast<int>(time->device); });
        if (device.state == State::unknown) device.from = reference.from;
        if (device.state == State::unknown) device.state = State::healthy;
        const double factor = time->seconds / reference.seconds;
        if (!is_slow || (device.state == State::slow && factor <= device.factor)) continue;
        device = {time->device, State::slow, std::max(factor, 1.0), reference.from};
    }
}

void judge_links(const NodeCheck& check, const References& known, CheckVerdict& verdict) {
    std::set<std::int64_t> slow;
    for (const DeviceVerdict& device : verdict.devices)
        if (device.state == State::slow) slow.insert(device.device);
    slowdown::CheckRound before, now;
    for (const LinkTime& link : check.links) {
        const auto at = known.links.find({link.from, link.to});
        // A slow GPU slows its copies, too.
        if (at == known.links.end() || slow.contains(link.from) || slow.contains(link.to)) continue;
        const int from = static_cast<int>(link.from), to = static_cast<int>(link.to);
        before.links.push_back({from, to, 1000 * at->second.seconds});
        now.links.push_back({from, to, 1000 * link.seconds});
    }
    const auto found = slowdown::locate(before, now);
    if (!found) return;
    for (const slowdown::SlowLink& link : found->links)
        verdict.slow_links.push_back({link.from, link.to, link.factor});
}

}  // namespace

std::string_view words_of(Reference::From from) {
    switch (from) {
        case Reference::From::own:
            return "its own earlier checks";
        case Reference::From::others:
            return "checks of its type's other nodes";
        case Reference::From::beside:
            return "the other GPUs of its node";
        case Reference::From::profile:
            break;
    }
    return "a profile of its type";
}

References references_of(const NodeCheck& before, Reference::From from) {
    References known;
    for (const ProductTime& time : before.products)
        known.products[{time.device, time.shape}] = {time.seconds, from};
    for (const LinkTime& link : before.links)
        known.links[{link.from, link.to}] = {link.seconds, from};
    return known;
}

void add_beside(const NodeCheck& check, References& known) {
    std::set<std::string> uuids;
    for (const CheckedDevice& device : check.devices)
        if (!device.device.uuid.empty()) uuids.insert(device.device.uuid);
    if (uuids.size() < 2 || uuids.size() != check.devices.size()) return;
    std::map<OpShape, std::vector<double>> times;
    for (const ProductTime& time : check.products) times[time.shape].push_back(time.seconds);
    for (const ProductTime& time : check.products)
        known.products.try_emplace(
            {time.device, time.shape},
            Reference{median_low_of(times[time.shape]), Reference::From::beside});
}

bool CheckVerdict::is_slow() const {
    return !slow_links.empty() || std::any_of(devices.begin(), devices.end(),
                                              [](const auto& d) { return d.state == State::slow; });
}

bool CheckVerdict::is_healthy() const {
    return !devices.empty() && slow_links.empty() &&
           std::all_of(devices.begin(), devices.end(),
                       [](const auto& d) { return d.state == State::healthy; });
}

CheckVerdict judge(const NodeCheck& check, const References& known) {
    CheckVerdict verdict;
    for (const CheckedDevice& device : check.devices)
        verdict.devices.push_back({.device = device.index});
    std::sort(verdict.devices.begin(), verdict.devices.end(),
              [](const auto& a, const auto& b) { return a.device < b.device; });
    std::map<std::pair<OpShape, double>, std::vector<std::pair<const ProductTime*, Reference>>>
        alike;
    for (const ProductTime& time : check.products)
        if (const auto at = known.products.find({time.device, time.shape});
            at != known.products.end())
            alike[{time.shape, limit_of(at->second.from)}].emplace_back(&time, at->second);
    for (const auto& [product, times] : alike) judge_product(times, verdict);
    judge_links(check, known, verdict);
    return verdict;
}

std::string words_of(const CheckVerdict& verdict) {
    std::string text;
    const auto add = [&](const std::string& words) { text += (text.empty() ? "" : "; ") + words; };
    std::size_t unknown = 0;
    for (const DeviceVerdict& device : verdict.devices) {
        unknown += device.state == State::unknown;
        if (device.state == State::slow)
            add(fmt::format("GPU {} computes {:.1f} times slower than {}", device.device,
                            device.factor, words_of(device.from)));
    }
    for (const LinkVerdict& link : verdict.slow_links)
        add(fmt::format("the link from GPU {} to GPU {} is {:.1f} times slower than before",
                        link.from, link.to, link.factor));
    if (unknown == verdict.devices.size() && text.empty())
        return "there is nothing to compare it with: no earlier check of it, nor of another node "
               "of its type";
    if (unknown > 0) add(fmt::format("{} of its GPUs could not be compared", unknown));
    if (text.empty())
        text = fmt::format("healthy beside {}", words_of(verdict.devices.front().from));
    return text;
}

}  // namespace arena
