// SPDX-License-Identifier: GPL-2.0-or-later
// Policy arena against exhaustive search of its own objective, on random rounds of at most 6 jobs
// and 8 GPUs, and against itself with an idle node more:
//   tests/bench/arena-optimum [ROUNDS [SEED]]        (default: 1000 1)
#include <cstdio>
#include <cstdlib>

#include "../unit/arena_cases.h"
#include "policy/arena/arena_policy.h"
#include "sim/random.h"

using namespace arena;

int main(int argc, char** argv) {
    const long rounds = argc > 1 ? std::atol(argv[1]) : 1000;
    sim::Random random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
    const test::Pick pick = [&](std::int64_t min, std::int64_t max) {
        return min +
               static_cast<std::int64_t>(random.below(static_cast<std::size_t>(max - min + 1)));
    };
    const test::Quality q = test::quality_of(pick, rounds, decide_arena);
    if (q.of_optimum.empty() || q.with_node.empty()) return 1;
    const auto print = [](const char* what, const std::vector<double>& ratios, double limit) {
        std::printf("%s, %zu rounds: worst %.4f, p1 %.4f, median %.4f; below %.2f: %.2f %%\n", what,
                    ratios.size(), ratios.front(), test::at_share(ratios, 0.01),
                    test::at_share(ratios, 0.5), limit, 100 * test::share_below(ratios, limit));
    };
    print("decide() / optimum", q.of_optimum, 0.90);
    print("with an idle node / without", q.with_node, 0.99);
    const bool good = test::at_share(q.of_optimum, 0.5) >= 0.995 && q.of_optimum.front() >= 0.90;
    return good && q.with_node.front() >= 0.99 ? 0 : 1;
}
