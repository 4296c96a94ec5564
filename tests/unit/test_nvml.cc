// SPDX-License-Identifier: GPL-2.0-or-later
// Who uses a GPU, and its state, through a library that stands in for the driver's (fake_nvml.cc).
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "profiler/core/nvml.h"
#include "suite.h"

namespace {

using namespace arena;
using arena::test::assert_refused;
using arena::test::assert_text;

std::string fake_driver() {
    return std::string(std::getenv("ARENA_BUILDDIR")) + "/tests/tools/fake_nvml.so";
}

std::unique_ptr<Nvml> fake() { return std::move(Nvml::open(fake_driver())).value(); }

TEST(an_idle_gpu_has_no_process) {
    ::setenv("ARENA_TEST_PROCESSES", "2", 1);
    ck_assert(fake()->processes("0000:01:00.0").value().empty());
}

TEST(processes_are_listed_with_their_names) {
    ::setenv("ARENA_TEST_PROCESSES", "2", 1);
    const auto found = fake()->processes("0000:02:00.0");
    ck_assert_uint_eq(found->size(), 2);
    ck_assert_uint_eq(found->at(0).pid, 100);
    assert_text(found->at(0).name.substr(0, 17), "/usr/bin/train100");
    ck_assert(found->at(0).name.find('\n') == std::string::npos);
    ck_assert(found->at(1) == GpuProcess({101, ""}));
}

TEST(many_processes_are_listed_as_well) {
    for (const int count : {64, 65, 300, 1024}) {
        ::setenv("ARENA_TEST_PROCESSES", std::to_string(count).c_str(), 1);
        const auto found = fake()->processes("0000:02:00.0");
        ck_assert_int_eq(static_cast<int>(found->size()), count);
        ck_assert_uint_eq(found->back().pid, 99U + static_cast<unsigned>(count));
    }
    ::setenv("ARENA_TEST_PROCESSES", "5000", 1);
    assert_refused(fake()->processes("0000:02:00.0"), "list the processes of GPU 0000:02:00.0");
}

TEST(a_gpu_that_tells_nothing_is_an_error_not_an_idle_one) {
    assert_refused(fake()->processes("0000:03:00.0"), "Not Supported");
    assert_refused(fake()->processes("0000:09:00.0"), "find GPU 0000:09:00.0: Not Found");
}

TEST(the_state_is_in_megahertz_degrees_and_watts) {
    const DeviceState state = fake()->state("0000:01:00.0");
    ck_assert(state == DeviceState({1980, 41, 699.5}));
    ck_assert(fake()->state("0000:03:00.0") == DeviceState{});
    ck_assert(fake()->state("nowhere") == DeviceState{});
}

TEST(without_library_or_driver_it_says_so) {
    assert_refused(Nvml::open("/nonexistent/libnvidia-ml.so.1"), "NVML cannot be loaded: ");
    assert_refused(Nvml::open("libc.so.6"), "NVML has no nvmlInit_v2");
    ::setenv("ARENA_TEST_NO_DRIVER", "1", 1);
    assert_refused(Nvml::open(fake_driver()), "NVML: start: Driver Not Loaded");
}

TEST(the_refusal_names_gpu_and_processes) {
    assert_text(busy_error("0000:02:00.0", {{7, "python3"}}).message(),
                "GPU 0000:02:00.0 is in use, so nothing was measured: process 7 (python3)");
    assert_text(busy_error("g", {{1, "a"}, {2, ""}, {3, "c"}, {4, "d"}, {5, "e"}}).message(),
                "GPU g is in use, so nothing was measured: process 1 (a), 2, 3 (c) and 2 more");
}

}  // namespace
