// SPDX-License-Identifier: GPL-2.0-or-later
// See observing_host.h.
#include "plugin/sched/observe/observing_host.h"

#include <utility>

namespace arena {
namespace {

constexpr const char* only_observes = "Arena only observes (mode: observe in arena.yaml)";

}  // namespace

ClusterView ObservingHost::collect(const KnowsRecord& knows) {
    if (std::exchange(look.is_due, false)) {
        ClusterView real = slurm_.collect(knows);
        look.let_go(real);
        shadow_.see(std::move(real));
    }
    return shadow_.imagine(look.interval_s);
}

ApplyResult ObservingHost::hold_again(JobId id, std::uint32_t) {
    shadow_.hold_again(id);
    return {};
}

ApplyResult ObservingHost::opt_out(const Shape& shape, Phase) {
    shadow_.opt_out(shape.job);
    return {};
}

ApplyResult ObservingHost::checkpoint(JobId id, std::uint32_t, int, std::int64_t done,
                                      const Move& move) {
    shadow_.leave(id, done, move.counts);
    return {};
}

ApplyResult ObservingHost::requeue_hold(JobId id, std::uint32_t) {
    shadow_.leave(id, 0, false);
    return {};
}

std::string ObservingHost::set_partition(const std::string&, const std::vector<std::string>&) {
    return only_observes;
}

std::string ObservingHost::guard(const std::string&, const LoanFacts::Guard&) {
    return only_observes;
}

CarrierStart ObservingHost::start_carrier(const CarrierSpec&) {
    return {.id = 0, .other_node = false, .other_user = false, .why = only_observes};
}

HostArrays::Started ObservingHost::start_array(const ArrayCarrierSpec&) {
    return {.id = 0, .limited = false, .stale = false, .why = only_observes};
}

}  // namespace arena
