// SPDX-License-Identifier: GPL-2.0-or-later
// See host_ranks.h. A call's seconds are the host's clock around it.
#include "profiler/comm/host_ranks.h"

#include <new>
#include <stdexcept>

#include "base/text.h"
#include "profiler/core/recorder.h"
#include "profiler/core/request.h"

namespace arena {

HostRanks::HostRanks(Transport& transport, const CommWorld& world, double timeout_s)
    : transport_(transport),
      world_(world),
      watch_("rank " + std::to_string(world.rank) + ": " + transport.name(), timeout_s) {}

Status HostRanks::reserve(std::int64_t max_bytes) {
    try {
        send_.resize(static_cast<std::size_t>(max_bytes) / sizeof(float));
        receive_.resize(send_.size());
    } catch (const std::bad_alloc&) {
        return environment_error("no memory for two buffers of " +
                                 human_bytes(static_cast<double>(max_bytes)) + " for each rank");
    }
    for (std::size_t i = 0; i < send_.size(); ++i)
        send_[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(world_.rank)) % 64);
    return Done{};
}

Result<std::string> HostRanks::share(const std::function<std::string()>& make, std::size_t size) {
    try {
        std::string bytes = world_.rank == 0 ? make() : std::string(size, '\0');
        const WatchedStep step(watch_, "share");
        transport_.broadcast(bytes);
        return bytes;
    } catch (const std::runtime_error& error) {
        return environment_error(error.what());
    }
}

Device HostRanks::device() const {
    Device d;
    d.kind = "cpu";
    d.name = "host memory";
    d.library = transport_.name();
    d.node = host_name();
    return d;
}

void HostRanks::regroup(std::int64_t group) {
    const WatchedStep step(watch_, "make groups");
    transport_.regroup(static_cast<int>(group));
}

double HostRanks::execute(CommOp op, std::int64_t bytes, std::int64_t times) {
    const WatchedStep step(watch_, to_string(op).data());
    transport_.meet();
    const double begin = monotonic_s();
    for (std::int64_t i = 0; i < times; ++i)
        transport_.collective(op, send_.data(), receive_.data(),
                              static_cast<std::size_t>(bytes) / sizeof(float));
    return monotonic_s() - begin;
}

std::vector<double> HostRanks::largest(const std::vector<double>& numbers) {
    std::vector<double> all = numbers;
    const WatchedStep step(watch_, "agree");
    transport_.largest(all);
    return all;
}

}  // namespace arena
