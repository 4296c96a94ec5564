// SPDX-License-Identifier: GPL-2.0-or-later
// What the answers to a slowdown take to find, CPU time of one core:
//   tests/bench/slowdown-mitigation            exit 1 above the goal
#include <cstdio>
#include <ctime>
#include <numeric>
#include <random>

#include "slowdown/micro_batches.h"
#include "slowdown/roles.h"

using namespace arena::slowdown;

namespace {

template <typename Run>
double cpu_ms(const Run& run) {
    const std::clock_t before = std::clock();
    run();
    return 1e3 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

bool print(const char* what, double ms, double goal_ms) {
    const bool good = ms < goal_ms;
    std::printf("%-60s %9.2f ms, goal %6.0f  %s\n", what, ms, goal_ms, good ? "PASS" : "FAIL");
    return good;
}

double deal(std::mt19937& random, std::int64_t stages) {
    std::vector<double> times(512);
    for (double& t : times) t = std::uniform_real_distribution<double>(0.5, 2)(random);
    return cpu_ms([&] { (void)split_micro_batches(times, 4096, stages).value(); });
}

/// Six slow links, each in a ring.
double place(std::mt19937& random, std::size_t replicas, std::size_t stages) {
    RoleGrid grid;
    grid.replicas = replicas;
    grid.stages = stages;
    grid.gradient = 40;
    grid.activation = 0.2;
    grid.micro_batches = 8;
    LinkTable links(grid.nodes());
    for (int left = 6; left > 0; --left) {
        const std::size_t d = random() % replicas, p = random() % stages;
        links.set(d * stages + p, (d + 1) % replicas * stages + p, {0.2});
    }
    Placement now(grid.nodes());
    std::iota(now.begin(), now.end(), 0U);
    return cpu_ms([&] { (void)place_roles(grid, links, now).value(); });
}

}  // namespace

int main() {
    std::mt19937 random(13);
    const double flat = deal(random, 1), piped = deal(random, 8);
    bool good = print("S2, 512 groups x 4,096 micro-batches", flat, 50);
    good &= print("S2, the same with 8 stages", piped, 50);
    good &= print("S3, 8 x 8 nodes, 6 slow links", place(random, 8, 8), 10'000);
    good &= print("S3, 64 x 8 nodes, 6 slow links", place(random, 64, 8), 10'000);
    return good ? 0 : 1;
}
