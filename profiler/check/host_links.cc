// SPDX-License-Identifier: GPL-2.0-or-later
// See links.h: what a node without GPUs has in place of links. Times of a memory bus, never a
// GPU's.
#include <cstring>
#include <new>
#include <thread>

#include "profiler/check/links.h"
#include "profiler/core/recorder.h"

namespace arena {
namespace {

constexpr std::size_t copy_bytes = std::size_t{32} << 20;

class HostLinks final : public Links {
  public:
    explicit HostLinks(std::int64_t devices) : out_(static_cast<std::size_t>(devices)) {
        for (auto& buffer : out_) buffer.assign(copy_bytes, 1);
        in_ = out_;
    }
    std::string kind() const override { return "copies in host memory"; }
    std::int64_t bytes() const override { return static_cast<std::int64_t>(copy_bytes); }
    std::vector<double> copy(const slowdown::Pass& pass, std::int64_t times) override {
        std::vector<double> seconds(pass.size());
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < pass.size(); ++i)
            threads.emplace_back([&, i] { seconds[i] = one(pass[i], times); });
        for (std::thread& thread : threads) thread.join();
        return seconds;
    }

  private:
    double one(const slowdown::Transfer& transfer, std::int64_t times) {
        const auto& from = out_[static_cast<std::size_t>(transfer.from)];
        auto& to = in_[static_cast<std::size_t>(transfer.to)];
        const double begin = monotonic_s();
        for (std::int64_t i = 0; i < times; ++i) std::memcpy(to.data(), from.data(), copy_bytes);
        return (monotonic_s() - begin) / static_cast<double>(times);
    }
    std::vector<std::vector<char>> out_, in_;
};

}  // namespace

Result<std::unique_ptr<Links>> make_host_links(std::int64_t devices) {
    try {
        return std::unique_ptr<Links>(std::make_unique<HostLinks>(devices));
    } catch (const std::bad_alloc&) {
        return environment_error("no memory for the buffers of copies between devices");
    }
}

}  // namespace arena
