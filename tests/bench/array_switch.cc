// SPDX-License-Identifier: GPL-2.0-or-later
// What a switch between two members of an array costs with prefetch, against a reload: states of 64
// MiB and more in two buffers, matrix products in between that take about as long as blocks of such
// a state. Prints both; ends with 1 where a prefetched switch is more than a quarter of a reload.
// Usage: array_switch [SWITCHES [arena-train-cuda.so]], on the CPU or by that module on a GPU
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <vector>

#include "base/statistics.h"
#include "profiler/cpu/cpu_kernels.h"
#include "train/array/states.h"
#include "train/comm/comm.h"
#include "train/cpu/cpu_device.h"
#include "train/run/device_choice.h"

using namespace arena::train;

namespace {

/// 5.9 million parameters on the one stage.
const GptShape shape{
    .layers = 1, .hidden = 640, .heads = 10, .ffn = 2560, .vocab = 720, .seq = 64, .tied = false};
constexpr Index members = 4;

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

class Trial {
  public:
    Trial(int switches, std::unique_ptr<Device> device) : device_(std::move(device)) {
        for (Index i = 0; i < members; ++i)
            homes_.push_back(std::make_unique<HomeState>(shape, TrainPlan{}, Place{}, *device_));
        for (int i = 0; i < switches; ++i)
            uses_.push_back({homes_[static_cast<std::size_t>(i) % homes_.size()].get(), true});
    }
    [[nodiscard]] double bytes() const { return static_cast<double>(homes_.front()->bytes()); }
    double product_s() {
        const double start = now_s();
        device_->multiply(arena::cpu::Layout::nt, side_, side_, side_, a_.data(), b_.data(),
                          c_.data());
        device_->wait();
        return now_s() - start;
    }
    /// Median seconds of a switch from backward to backward block, `products` being a block.
    double switch_s(std::unique_ptr<StateMover> mover, int products) {
        StateBuffers buffers(*device_, homes_.front()->first.size(), 2, std::move(mover));
        buffers.plan(uses_);
        std::vector<double> seconds;
        for (std::size_t i = 0; i < uses_.size(); ++i) {
            const double begin = now_s();
            buffers.acquire();
            double taken = now_s() - begin;
            for (int p = 0; p < products; ++p) product_s();
            const double end = now_s();
            buffers.release();
            taken += now_s() - end;
            if (i >= static_cast<std::size_t>(members)) seconds.push_back(taken);
        }
        std::ranges::sort(seconds);
        return arena::median(seconds);
    }
    Device& device() { return *device_; }

  private:
    std::unique_ptr<Device> device_;
    Index side_ = device_->is_host() ? 1024 : device_->trial().side;
    std::size_t elements_ = static_cast<std::size_t>(side_ * side_);
    Array<Element> a_{*device_, elements_}, b_{*device_, elements_}, c_{*device_, elements_};
    std::vector<std::unique_ptr<HomeState>> homes_;
    std::vector<StateBuffers::Use> uses_;
};

}  // namespace

int main(int argc, char** argv) {
    arena::cpu::set_gemm_threads(1);
    const int switches = argc > 1 ? std::max(std::atoi(argv[1]), 8) : 60;
    DeviceMaker make = [](int threads, Comm&) { return make_cpu_device(threads); };
    if (argc > 2) {
        const auto module = open_module(argv[2]);
        if (!module) {
            fmt::print(stderr, "array_switch: {}\n", module.error().message());
            return 3;
        }
        make = *module;
    }
    bool is_good = false;
    run_threads(1, [&](Comm& world) {
        Trial trial(switches, make(1, world));
        trial.product_s();
        const double reload_s = trial.switch_s(make_waiting_mover(trial.device()), 0);
        const int products = 1 + static_cast<int>(3 * reload_s / trial.product_s());
        const double prefetched_s = trial.switch_s(nullptr, products);
        fmt::print(
            "state {:.0f} MiB: reload {:.3f} ms, prefetched {:.3f} ms ({:.1f} %), {} products "
            "of {:.1f} ms a block\n",
            trial.bytes() / (1 << 20), 1e3 * reload_s, 1e3 * prefetched_s,
            100 * prefetched_s / reload_s, products, 1e3 * trial.product_s());
        is_good = prefetched_s <= 0.25 * reload_s;
    });
    return is_good ? 0 : 1;
}
