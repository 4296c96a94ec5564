// SPDX-License-Identifier: GPL-2.0-or-later
// ObservingHost: slurmctld as an observing Arena sees it. What is read is Slurm's, with planned
// jobs as the shadow has them; what is changed, is changed in the shadow alone.
#pragma once

#include <functional>

#include "plugin/sched/host/host.h"
#include "plugin/sched/observe/shadow.h"

namespace arena {

class ObservingHost : public Host {
  public:
    /// Both outlive it.
    ObservingHost(Host& slurm, Shadow& shadow) : slurm_(slurm), shadow_(shadow) {}
    struct Look {
        bool is_due = true;     ///< the next round reads Slurm's cluster anew
        double interval_s = 5;  ///< between rounds, where nothing happens
        /// Is given Slurm's cluster first, for jobs that an acting Arena still holds.
        std::function<void(const ClusterView&)> let_go = [](const ClusterView&) {};
    };
    Look look;

    bool layout_is_sound(std::string* what) override { return slurm_.layout_is_sound(what); }
    bool has_work() override { return shadow_.has_jobs() || slurm_.has_work(); }
    ClusterView collect(const KnowsRecord& knows) override;
    std::int64_t last_change() override { return slurm_.last_change(); }
    /// Of jobs that are over the AdminComment has Slurm's word; of others only what an acting Arena
    /// held is taken, and what it released and Slurm has started is marked as started.
    std::size_t survey(const std::function<bool(const std::string&)>& asks_to_hold) override {
        return look.is_due ? slurm_.survey(asks_to_hold) : 0;
    }

    ApplyResult start(const Shape& shape, const std::vector<std::string>& nodes) override {
        return shadow_.start(shape, nodes);
    }
    ApplyResult release(const Shape& shape) override { return shadow_.release(shape); }
    ApplyResult hold_again(JobId id, std::uint32_t) override;
    ApplyResult opt_out(const Shape& shape, Phase) override;
    ApplyResult checkpoint(JobId id, std::uint32_t, int, std::int64_t done,
                           const Move& move) override;
    ApplyResult requeue_hold(JobId id, std::uint32_t) override;
    ApplyResult stay(const Shape&, const std::vector<std::string>&) override { return {}; }

    // Nothing is done, nor said to users.
    void set_reasons(const std::vector<Reason>&) override {}
    void set_expected_starts(const std::vector<Expected>&) override {}
    ApplyResult split(JobId, std::uint32_t, std::int64_t) override { return {}; }
    ApplyResult note_avoided(JobId, std::uint32_t, const std::vector<AvoidedNode>&) override {
        return {};
    }
    ApplyResult show_slowdown(JobId, std::uint32_t, const std::string&) override { return {}; }
    std::vector<Left> settle_ends(const LeaveRules&, bool) override { return {}; }
    void note_progress(JobId, double) override {}
    std::vector<std::string> write_extras(const std::vector<ExtraChange>&) override { return {}; }
    ApplyResult fence(const Fencing&) override { return {}; }
    LoanFacts read_loans(const LoanPlaces&) override { return {}; }
    std::string set_partition(const std::string&, const std::vector<std::string>&) override;
    std::string guard(const std::string&, const LoanFacts::Guard&) override;
    std::string save_nodes() override { return {}; }
    CarrierStart start_carrier(const CarrierSpec&) override;
    /// Of an acting Arena: a job of its own, which nobody needs any more.
    void end_carrier(JobId id) override { slurm_.end_carrier(id); }
    /// So that an acting Arena's runs are known; observing() keeps others from starting.
    bool may_profile_as(std::uint32_t uid) override { return slurm_.may_profile_as(uid); }
    Started start_array(const ArrayCarrierSpec&) override;
    void end_array(JobId, bool) override {}
    bool leave_array(JobId, const std::vector<JobId>&, const Move&, bool) override { return false; }
    void write_shares(const std::vector<ShareWords>&) override {}

    [[nodiscard]] bool keeps_segments() const override { return slurm_.keeps_segments(); }
    [[nodiscard]] bool stopping() const override { return slurm_.stopping(); }
    [[nodiscard]] LockTimes lock_times() const override { return slurm_.lock_times(); }
    void forget_lock_times() override { slurm_.forget_lock_times(); }
    void log_info(const std::string& text) override { slurm_.log_info("observing: " + text); }
    void log_error(const std::string& text) override { slurm_.log_error(text); }

  private:
    Host& slurm_;
    Shadow& shadow_;
};

}  // namespace arena
