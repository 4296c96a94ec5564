// SPDX-License-Identifier: GPL-2.0-or-later
// What one iteration time and one call cost those who watch a job. Limits: 1 ms per iteration.
#include <chrono>
#include <cstdio>

#include "../unit/slowdown_cases.h"
#include "base/statistics.h"
#include "slowdown/period.h"

using namespace arena;

namespace {

template <typename Work>
double seconds(const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main() {
    const auto made = test::make_series(1, {.length = 20'000});
    slowdown::Detector detector;
    std::vector<double> taken_s;
    for (const auto& sample : made.series)
        taken_s.push_back(seconds([&] { (void)detector.add(sample.time_s); }));
    std::sort(taken_s.begin(), taken_s.end());
    const auto stream = test::make_stream(1, 4000, [](std::size_t) {
        test::StepKeys keys;
        test::append(keys, 128, {test::key(slowdown::Op::broadcast, 4096, 1)});
        test::append(keys, 25, {test::key(slowdown::Op::all_reduce, 25'000'000, 2)});
        return keys;
    });
    slowdown::PeriodFinder finder;
    const double calls_s = seconds([&] {
        for (const auto& call : stream.calls) (void)finder.add(call);
    });
    std::printf("change points: %zu samples, median %.1f us, p99 %.1f us\n", taken_s.size(),
                1e6 * median(taken_s), 1e6 * percentile(taken_s, 0.99));
    std::printf("period: %zu calls, %.3f us each\n", stream.calls.size(),
                1e6 * calls_s / static_cast<double>(stream.calls.size()));
    return percentile(taken_s, 0.99) <= 1e-3 ? 0 : 1;
}
