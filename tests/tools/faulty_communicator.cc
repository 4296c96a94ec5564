// SPDX-License-Identifier: GPL-2.0-or-later
// For tests only: ranks that talk to nobody. A collective takes 10 us and 1 ns for each 100 bytes,
// without waiting for it; ARENA_TEST_FAULT as in faulty_backend.cc: lost, nan and kill, "NAME@N"
// from the N-th collective on, and orphan: rank 1 kills itself, the others wait for it as NCCL's
// kernels do; ARENA_TEST_GPUS says how many GPUs there are (4).
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/text.h"
#include "profiler/comm/comm.h"
#include "profiler/core/recorder.h"

namespace arena {
namespace {

class FaultyCommunicator final : public Communicator {
  public:
    explicit FaultyCommunicator(const CommSetup& setup)
        : world_(setup.world), timeout_s_(setup.timeout_s), lost_(setup.lost) {
        const char* said = std::getenv("ARENA_TEST_FAULT");
        const auto words = split(said == nullptr ? "none" : said, '@');
        fault_ = words[0];
        if (words.size() > 1) from_ = parse_integer(words[1], 1, 1000000).value_or(1);
    }
    Device device() const override {
        return {"cuda", "test device, invented times", "GPU-test", "1", "none", 48LL << 30, 0,
                "test"};
    }
    void regroup(std::int64_t group) override { group_ = group; }
    double execute(CommOp, std::int64_t bytes, std::int64_t times) override {
        const bool is_now = ++executions_ >= from_;
        if (is_now && fault_ == "lost")
            throw std::runtime_error("NCCL: all-reduce: remote process exited");
        if (is_now && fault_ == "nan") return std::numeric_limits<double>::quiet_NaN();
        if (is_now && (fault_ == "kill" || fault_ == "orphan") && world_.rank == 1)
            std::raise(SIGKILL);
        if (is_now && fault_ == "orphan") wait_for_ever();
        return static_cast<double>(times) * (1e-5 + 1e-11 * static_cast<double>(bytes));
    }
    std::vector<double> largest(const std::vector<double>& numbers) override {
        std::vector<double> all = numbers;
        if (group_ < 0 && all.size() > 1)
            all[0] = 1e-5;  // the seconds, which only a group's ranks have
        return all;
    }

  private:
    [[noreturn]] void wait_for_ever() const {
        const double until = monotonic_s() + timeout_s_;
        std::string lost;
        while ((lost = lost_()).empty() && monotonic_s() < until)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        throw std::runtime_error("NCCL: execute: " + (lost.empty() ? "no answer" : lost));
    }

    CommWorld world_;
    double timeout_s_;
    std::function<std::string()> lost_;
    std::string fault_;
    std::int64_t from_ = 1, executions_ = 0, group_ = -1;
};

}  // namespace

Result<std::int64_t> count_comm_devices() {
    const char* said = std::getenv("ARENA_TEST_GPUS");
    if (said == nullptr) return std::int64_t{4};
    if (const auto count = parse_integer(said, 0, 64)) return *count;
    return environment_error("no usable GPU: the driver is not loaded");
}

Result<std::unique_ptr<Communicator>> make_communicator(const CommSetup& setup) {
    const std::string id(128, setup.world.rank == 0 ? 'i' : '?');
    const auto shared = setup.share([&] { return id; }, id.size());
    if (!shared) return shared.error();
    if (*shared != std::string(128, 'i')) return environment_error("another id than rank 0's");
    return std::unique_ptr<Communicator>(std::make_unique<FaultyCommunicator>(setup));
}

}  // namespace arena
