// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/hardware_check.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <random>

#include "base/statistics.h"
#include "train/core/compute_clock.h"

namespace arena::train {
namespace {

using Clock = std::chrono::steady_clock;

/// Of a sample: whole turns of a process that is stopped for 10 of 20 ms, and several of them.
constexpr double sample_s = 0.06;
constexpr int samples = 5;
constexpr double batch_s = 0.002;     ///< between two looks at the clock
constexpr double transfer_s = 0.005;  ///< at the least, of the fastest pair
constexpr double longest_s = 0.1;     ///< no more bytes where a pair takes so long
constexpr Index first_bytes = 1 << 16, most_bytes = 64 << 20;
constexpr int transfers = 3;
constexpr int looks = 5;  ///< at a length: a busy machine makes one or two of them long
constexpr const char* late = "not all ranks came to it in time";
constexpr std::size_t most_left = 3;  ///< checks given up, after which no more are made

Array<Element> random_matrix(Device& device, Index side, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> value(-1, 1);
    std::vector<float> values(at(side * side));
    for (float& v : values) v = value(engine);
    Array<Element> matrix(device, values.size());
    device.upload(std::span<const float>(values), matrix.data());
    return matrix;
}

Check::Pass first_pairs(int ranks) {
    Check::Pass pairs;
    for (Index rank = 0; rank + 1 < ranks; rank += 2) pairs.push_back({rank, rank + 1});
    return pairs;
}

}  // namespace

HardwareCheck::HardwareCheck(Comm& world, Device& device, const Environment& environment,
                             int threads, double limit_s)
    : world_(world),
      device_(device),
      hosts_(share_hosts(world, find_rank_host(environment, world, device.name()))),
      turns_(device.trial().on_processors ? turns_of(hosts_, threads)
                                          : Turns{std::vector<int>(hosts_.size(), 0), 1}),
      a_(random_matrix(device, device.trial().side, 1)),
      b_(random_matrix(device, device.trial().side, 2)),
      c_(device, a_.size()),
      limit_s_(limit_s) {
    join();
    if (world.size() > 1) choose_length();
}

/// Collective.
void HardwareCheck::join() {
    paths_.comm = world_.split(0);
    if (world_.size() == 1) return;
    paths_.group = device_.group(*paths_.comm);
    Array<float> first(device_, 1);
    paths_.group->all_reduce_sum(first.span());  // what transfer() asks for
    device_.wait();
}

double HardwareCheck::link_bytes() const { return static_cast<double>(paths_.message.bytes()); }

/// All ranks come to the same length: they know all times.
void HardwareCheck::choose_length() {
    const auto width = static_cast<Index>(device_.width_of<Element>());
    for (Index bytes = first_bytes;;) {
        paths_.message = {};
        paths_.message = {device_, at(bytes / width)};
        const auto [fastest, slowest] = std::ranges::minmax(least_ms());
        const double most = std::min(1e3 * transfer_s / fastest, 1e3 * longest_s / slowest);
        if (most <= 1 || bytes == most_bytes) return;
        const double wanted = static_cast<double>(bytes) * most;
        while (bytes < most_bytes && static_cast<double>(bytes) < wanted) bytes *= 2;
    }
}

/// Of each first pair.
std::vector<double> HardwareCheck::least_ms() {
    const Check::Pass pairs = first_pairs(world_.size());
    std::vector<double> least(pairs.size(), std::numeric_limits<double>::max());
    for (int look = 0; look < looks; ++look) {
        const auto timed = time_pass(pairs);
        for (std::size_t i = 0; i < timed.size(); ++i) least[i] = std::min(least[i], timed[i].ms);
    }
    return least;
}

CheckResult HardwareCheck::run(const Check& check, const Tell& tell) {
    const auto start = Clock::now();
    CheckResult result;
    result.id = check.id;
    for (const RankHost& host : hosts_) result.types.push_back(host.device);
    const auto say = [&](const char* failure) {
        result.failure = failure;
        result.seconds = seconds_since(start);
        if (tell) tell(result);
        return result;
    };
    if (left_.size() == most_left) return say("earlier ones were given up: no more are made");
    const bool by_me = !measure(check, result);
    if (by_me) say(late);
    const bool by_any = is_given_up_by_any(by_me);
    if (by_any) leave_behind();
    return by_me ? result : say(by_any ? late : "");
}

/// Whether this rank has come to its end: another one may have given it up all the same.
bool HardwareCheck::measure(const Check& check, CheckResult& result) {
    Comm& comm = *paths_.comm;
    comm.limit(limit_s_);
    try {
        if (check.gpus) {
            std::vector<double> ms(hosts_.size(), 0);
            const auto me = at(world_.rank());
            for (int turn = 0; turn < turns_.count; ++turn) {
                comm.meet(0);
                if (turns_.of[me] == turn) ms[me] = product_ms();
            }
            comm.meet(0);
            comm.all_reduce_sum(std::span(ms));
            result.gpu_ms = std::move(ms);
        }
        for (const Check::Pass& pass : check.passes) {
            const auto timed = time_pass(pass);
            result.links.insert(result.links.end(), timed.begin(), timed.end());
        }
        comm.limit(std::nullopt);
        return true;
    } catch (const GivenUp&) {
        return false;
    }
}

/// Training's own group: here a rank that hangs is waited for as in any step.
bool HardwareCheck::is_given_up_by_any(bool by_me) {
    double count[] = {by_me ? 1.0 : 0.0};
    world_.all_reduce_sum(std::span<double>(count));
    return count[0] != 0;
}

/// Collective. Other ranks may still write to the message.
void HardwareCheck::leave_behind() {
    const std::size_t size = paths_.message.size();
    paths_.comm->limit(0);  // which tells the group
    paths_.group.reset();
    left_.push_back(std::move(paths_));
    paths_ = {};
    join();
    paths_.message = {device_, size};
}

double HardwareCheck::seconds_of(Index products) {
    const Index side = device_.trial().side;
    const auto start = Clock::now();
    for (Index i = 0; i < products; ++i)
        device_.multiply(Layout::nt, side, side, side, a_.data(), b_.data(), c_.data());
    device_.wait();
    return seconds_since(start);
}

/// Median of samples, each the mean of its products.
double HardwareCheck::product_ms() {
    Index batch = 1;
    seconds_of(batch);  // a library chooses its kernel now
    while (seconds_of(batch) < batch_s) batch *= 2;
    std::vector<double> ms;
    for (int i = 0; i < samples; ++i) {
        const auto start = Clock::now();
        Index products = 0;
        double elapsed = 0;
        for (; elapsed < sample_s; elapsed = seconds_since(start)) {
            seconds_of(batch);
            products += batch;
        }
        ms.push_back(1e3 * elapsed / static_cast<double>(products));
    }
    std::ranges::sort(ms);
    return median(ms);
}

/// What may go at once.
std::vector<Check::Pass> HardwareCheck::without_disturbance(const Check::Pass& pass) const {
    if (turns_.count == 1) return {pass};
    std::vector<Check::Pass> alone;
    for (const Check::Link& link : pass) alone.push_back({link});
    return alone;
}

/// On all ranks.
std::vector<CheckResult::Link> HardwareCheck::time_pass(const Check::Pass& pass) {
    std::vector<CheckResult::Link> links;
    for (const Check::Pass& part : without_disturbance(pass)) {
        paths_.comm->meet(0);
        for (const Check::Link& link : part) {
            CheckResult::Link& timed = links.emplace_back(link.from, link.to);
            if (world_.rank() == link.from || world_.rank() == link.to) time_link(timed);
        }
    }
    paths_.comm->meet(0);
    std::vector<double> ms;
    for (const CheckResult::Link& link : links) {
        const bool counts = world_.rank() == link.from;
        ms.insert(ms.end(), {counts ? link.ms : 0, counts ? link.latency_ms : 0});
    }
    paths_.comm->all_reduce_sum(std::span(ms));
    for (std::size_t i = 0; i < links.size(); ++i) {
        links[i].ms = ms[2 * i];
        links[i].latency_ms = ms[2 * i + 1];
    }
    return links;
}

/// There and back: what comes back says that the message has arrived.
void HardwareCheck::time_link(CheckResult::Link& link) {
    const int from = static_cast<int>(link.from), to = static_cast<int>(link.to);
    const Span<Element> message = paths_.message.span(), least = paths_.message.span({0, 1});
    const auto seconds = [&](Span<Element> there) {
        const auto start = Clock::now();
        paths_.group->transfer(there, from, to);
        paths_.group->transfer(least, to, from);
        return seconds_since(start);
    };
    seconds(message);  // warm
    double all = 0;
    std::vector<double> round_trips;
    for (int i = 0; i < transfers; ++i) all += seconds(message);
    for (int i = 0; i < transfers; ++i) round_trips.push_back(seconds(least));
    link.ms = 1e3 * all / transfers;
    link.latency_ms = 1e3 * median_of(round_trips) / 2;
}

}  // namespace arena::train
