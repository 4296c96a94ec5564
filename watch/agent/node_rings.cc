// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/agent/node_rings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/file_descriptor.h"
#include "watch/agent/gpu_index.h"

namespace arena::watch {
namespace {

constexpr double look_every_s = 0.25;
constexpr std::size_t most_others = 4096;

/// /proc has no sizes: what there is, up to a limit.
std::string read_proc(const std::string& path) {
    constexpr std::size_t most = std::size_t{1} << 20;
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text;
    std::array<char, 16384> buffer;
    while (file.get() >= 0 && text.size() < most) {
        const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
        if (n <= 0) break;
        text.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return text;
}

/// By SIGSTOP, as `scontrol suspend` does, or by a debugger.
bool is_stopped(std::uint32_t pid) {
    const std::string stat = read_proc(fmt::format("/proc/{}/stat", pid));
    const std::size_t end = stat.rfind(')');
    return end != std::string::npos && end + 2 < stat.size() &&
           (stat[end + 2] == 'T' || stat[end + 2] == 't');
}

}  // namespace

std::string variable_of(std::uint32_t pid, const std::string& name) {
    const std::string all = read_proc(fmt::format("/proc/{}/environ", pid));
    const std::string wanted = name + "=";
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t end = std::min(all.find('\0', at), all.size());
        if (all.compare(at, wanted.size(), wanted) == 0)
            return all.substr(at + wanted.size(), end - at - wanted.size());
        at = end + 1;
    }
    return {};
}

/// A launcher's own number of the node need not be Slurm's, whose variable its ranks inherit.
bool NodeRings::is_ours(const RingOwner& owner) const {
    if (!filter_.run.empty()) return variable_of(owner.pid, "ARENA_WATCH_RUN") == filter_.run;
    if (owner.job != filter_.job || owner.step != filter_.step || owner.life != filter_.life)
        return false;
    const std::string node = variable_of(owner.pid, "SLURM_NODEID");
    return node.empty() ? owner.node == filter_.node : node == std::to_string(filter_.node);
}

void NodeRings::look_at_process(One& one) {
    one.alive = one.ring.alive();
    one.running = one.alive && !is_stopped(one.ring.facts().owner.pid);
}

void NodeRings::look_for_new() {
    const auto paths = find_rings(filter_.uid);
    if (!paths) return;
    for (const std::string& path : *paths) {
        const bool known = std::any_of(rings_.begin(), rings_.end(),
                                       [&](const One& one) { return one.ring.path() == path; });
        if (known || others_.contains(path)) continue;
        auto ring = RingReader::open(path, filter_.uid);
        if (!ring) continue;  // one that is being made: later
        const RingOwner& owner = ring->facts().owner;
        if (!is_ours(owner)) {
            if (others_.size() >= most_others) others_.clear();
            others_.insert(path);
            continue;
        }
        if (!keep_names_) ring->remove();
        ring->set_control(control_);
        std::string granted = variable_of(owner.pid, "SLURM_STEP_GPUS");
        if (granted.empty()) granted = variable_of(owner.pid, "SLURM_JOB_GPUS");
        std::string visible = variable_of(owner.pid, "CUDA_VISIBLE_DEVICES");
        rings_.push_back({std::move(ring).value(), std::move(visible), std::move(granted)});
        look_at_process(rings_.back());
        ++found_;
    }
}

std::vector<RingNews> NodeRings::read(double now_s) {
    const bool looks = looked_s_ < 0 || now_s - looked_s_ >= look_every_s;
    if (looks) {
        looked_s_ = now_s;
        look_for_new();
    }
    std::vector<RingNews> news;
    for (One& one : rings_) {
        // Before its last records are read, so that they are all there.
        if (looks) look_at_process(one);
        const RingFacts& facts = one.ring.facts();
        RingReader::Batch batch = one.ring.read(facts.capacity);
        news.push_back({.ring = one.ring.path(),
                        .owner = facts.owner,
                        .gpu = gpu_index(one.ring.device(), one.visible, one.granted),
                        .records = std::move(batch.records),
                        .lost = batch.lost,
                        .running = one.running,
                        .ended = !one.alive});
        if (!one.alive && keep_names_) one.ring.remove();
    }
    rings_.remove_if([](const One& one) { return !one.alive; });
    return news;
}

void NodeRings::set_control(Control control) {
    if (std::exchange(control_, control) == control) return;
    for (One& one : rings_) one.ring.set_control(control);
}

std::uint64_t NodeRings::capacity() const {
    std::uint64_t least = 0;
    for (const One& one : rings_) {
        const std::uint64_t capacity = one.ring.facts().capacity;
        least = least == 0 ? capacity : std::min(least, capacity);
    }
    return least;
}

}  // namespace arena::watch
