// SPDX-License-Identifier: GPL-2.0-or-later
// A scripted host for the scheduler's unit tests: no Slurm, real planner, real policy, real store
// in a scratch directory. A test sets a scene, plays rounds and looks at the calls that the host
// received.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>

#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "planner/models/readers.h"
#include "plugin/sched/round/scheduler.h"
#include "request/request.h"

namespace arena {

class ScriptedHost : public Host {
  public:
    ClusterView view;
    std::vector<std::string> calls;  ///< "start 1 n1,n2", "release 1", "carrier a40 n1", ...
    ApplyResult next_start, next_fence;
    bool carriers_refused = false;
    bool has_segments = true;
    std::set<std::string> closed_partitions;  ///< no carrier starts there, on whatever node
    std::function<bool(const CarrierSpec&)> too_large = [](const CarrierSpec&) {
        return false;
    };                                         ///< for any node
    std::set<std::string> taken_nodes;         ///< no carrier starts there: somebody was faster
    std::vector<std::string> asked_nodes;      ///< where carriers were to start
    std::function<void()> on_carrier = [] {};  ///< what else happens in the middle of a round
    std::vector<Reason> reasons;
    std::vector<Expected> expected;
    std::vector<std::string> log;  ///< what was told, without errors
    std::vector<std::string> errors;
    std::vector<CarrierSpec> specs;
    JobId next_id = 100;
    double clock_set_s = 0;  ///< by how much somebody has set the wall clock forward
    std::set<std::uint32_t> users_at_limit;  ///< whose associations take no run

    std::size_t stops_after = SIZE_MAX;  ///< so many calls, and the controller stops
    [[nodiscard]] bool stopping() const override { return calls.size() >= stops_after; }
    [[nodiscard]] bool keeps_segments() const override { return has_segments; }
    bool layout_is_sound(std::string*) override { return true; }
    bool has_work() override { return true; }
    std::size_t survey(const std::function<bool(const std::string&)>&) override { return 0; }
    ClusterView collect(const KnowsRecord& knows) override {
        ClusterView now = view;
        now.steady_s = view.snapshot.time_s - clock_set_s;
        for (JobView& job : now.jobs)
            if (knows(job.id, job.record.tag, job.comment)) job.record.text = nullptr;
        return now;
    }
    std::int64_t last_change() override { return 0; }
    bool may_profile_as(std::uint32_t) override { return true; }
    void set_reasons(const std::vector<Reason>& r) override { reasons = r; }
    void set_expected_starts(const std::vector<Expected>& e) override { expected = e; }
    ApplyResult start(const Shape& shape, const std::vector<std::string>& nodes) override {
        calls.push_back("start " + std::to_string(shape.job) + " " + join(nodes, ","));
        last_shape = started[shape.job] = shape;
        return next_start;
    }
    ApplyResult release(const Shape& shape) override {
        calls.push_back("release " + std::to_string(shape.job));
        last_shape = shape;
        return {};
    }
    ApplyResult hold_again(JobId id, std::uint32_t) override { return note("hold", id); }
    ApplyResult split(JobId id, std::uint32_t, std::int64_t tasks) override {
        return note("split " + std::to_string(tasks) + " of", id);
    }
    ApplyResult opt_out(const Shape& shape, Phase phase) override {
        last_shape = shape;
        return note(std::string(phase == Phase::observed ? "let_go " : "opt_out ") +
                        short_form(shape.offer.grid),
                    shape.job);
    }
    ApplyResult checkpoint(JobId id, std::uint32_t, int, std::int64_t done,
                           const Move& move) override {
        last_done = done;
        last_move = move;
        return note(!move.why.empty() ? "leave" : move.counts ? "move" : "checkpoint", id);
    }
    ApplyResult stay(const Shape& shape, const std::vector<std::string>& nodes) override {
        last_shape = shape;
        return note("stay on " + join(nodes, ",") + " of", shape.job);
    }
    ApplyResult note_avoided(JobId id, std::uint32_t,
                             const std::vector<AvoidedNode>& nodes) override {
        last_move = {.why = {}, .avoid = nodes};
        return note("note_avoided", id);
    }
    std::vector<std::string> write_extras(const std::vector<ExtraChange>& changes) override {
        std::vector<std::string> written;
        for (const ExtraChange& change : changes) {
            calls.push_back("extra " + change.node + " " + change.after);
            extras.push_back(change);
            written.push_back(change.node);
        }
        return written;
    }
    ApplyResult fence(const Fencing& f) override {
        calls.push_back(std::string(f.fence == Fence::none       ? "unfence "
                                    : f.fence == Fence::reserved ? "reserve "
                                                                 : "drain ") +
                        f.node);
        return next_fence;
    }
    LoanFacts read_loans(const LoanPlaces& places) override {
        ++loan_reads;
        loan_places = places;
        return loans;
    }
    std::string set_partition(const std::string& partition,
                              const std::vector<std::string>& nodes) override {
        calls.push_back("list " + partition + "=" + join(nodes, ","));
        if (next_list.empty()) loans.listed = nodes;
        return next_list;
    }
    std::string guard(const std::string& node, const LoanFacts::Guard& g) override {
        calls.push_back(std::string(g.kind == LoanGuard::none   ? "open "
                                    : g.kind == LoanGuard::lent ? "guard "
                                                                : "close ") +
                        node + (g.lease.empty() ? "" : " " + g.lease));
        if (!next_guard.empty()) return next_guard;
        if (g.kind == LoanGuard::none)
            loans.guards.erase(node);
        else
            loans.guards[node] = g;
        return {};
    }
    std::string save_nodes() override {
        ++node_saves;
        return {};
    }
    ApplyResult show_slowdown(JobId id, std::uint32_t, const std::string& words) override {
        return note("show " + words, id);
    }
    ApplyResult requeue_hold(JobId id, std::uint32_t) override { return note("requeue", id); }
    std::vector<Left> settle_ends(const LeaveRules& rules, bool all) override {
        leave_rules = rules;
        return all ? std::exchange(left, {}) : std::vector<Left>();
    }
    void note_progress(JobId id, double) override { note("progress", id); }
    CarrierStart start_carrier(const CarrierSpec& spec) override {
        asked_nodes.push_back(spec.node);
        on_carrier();
        if (carriers_refused || closed_partitions.contains(spec.partition))
            return {0, false, false, "refused by the partition"};
        if (users_at_limit.contains(spec.for_user)) return {0, false, true, "AssocMaxJobsLimit"};
        if (too_large(spec)) return {0, false, false, "MaxCPUsPerNode"};
        if (taken_nodes.contains(spec.node)) return {0, true, false, "Requested nodes are busy"};
        specs.push_back(spec);
        calls.push_back("carrier " + spec.request.gpu_type + " " + spec.node);
        return {++next_id, false, false, {}};
    }
    void end_carrier(JobId id) override { note("end carrier", id); }
    Started start_array(const ArrayCarrierSpec& spec) override {
        array_specs.push_back(spec);
        calls.push_back("array " + std::to_string(spec.lead) + " " + join(spec.nodes, ","));
        if (!next_array.why.empty()) return next_array;
        return {.id = ++next_id, .limited = false, .why = {}};
    }
    void end_array(JobId id, bool at_once) override {
        note(at_once ? "cancel array" : "end array", id);
    }
    bool leave_array(JobId id, const std::vector<JobId>& members, const Move& move,
                     bool at_once) override {
        note(at_once ? "give up array" : "move array", id);
        last_move = move;
        moved_members = members;
        return array_runs;
    }
    void write_shares(const std::vector<ShareWords>& words) override { shares = words; }
    void log_info(const std::string& text) override { log.push_back(text); }
    void log_error(const std::string& text) override { errors.push_back(text); }

    std::vector<Left> left;  ///< without a checkpoint, since the last round
    LeaveRules leave_rules;
    std::vector<ArrayCarrierSpec> array_specs;
    Started next_array;  ///< with a reason: refused
    std::vector<ShareWords> shares;
    std::vector<JobId> moved_members;  ///< with the array that was moved last
    bool array_runs = true;            ///< else it is over when it is told
    LoanFacts loans;
    LoanPlaces loan_places;
    int loan_reads = 0, node_saves = 0;
    std::string next_list, next_guard;  ///< why not
    Shape last_shape;
    std::map<JobId, Shape> started;  ///< the latest of each job
    std::int64_t last_done = -1;
    Move last_move;
    std::vector<ExtraChange> extras;

  private:
    ApplyResult note(const std::string& what, JobId id) {
        calls.push_back(what + " " + std::to_string(id));
        return {};
    }
};

struct Scene {
    std::filesystem::path directory;
    ScriptedHost host;
    Config config;

    Scene() {
        char name[] = "/tmp/arena-sched-XXXXXX";
        directory = ::mkdtemp(name);
        config.profile_store = directory / "profiles.db";
        config.profile_spool = directory;
        config.profile_user = "root";  // the scripted host allows it
        config.profile_enabled = false;
        config.gpu_types = {{"a40", "emulated-cpu"}, {"a100", "emulated-cpu"}};
        host.view.snapshot.time_s = 1000;
        host.view.snapshot.node_sets = {{}};
    }
    ~Scene() { std::filesystem::remove_all(directory); }
    Scene(const Scene&) = delete;
    Scene& operator=(const Scene&) = delete;

    void node(const std::string& name, const std::string& type, std::int64_t gpus,
              std::int64_t free) {
        auto& snapshot = host.view.snapshot;
        host.view.partitions["main"].push_back(static_cast<NodeIndex>(snapshot.nodes.size()));
        snapshot.node_sets[0].push_back(static_cast<NodeIndex>(snapshot.nodes.size()));
        snapshot.nodes.push_back({name, type, gpus, free, gpus * 4, 64000});
        host.view.node_cpus.push_back(gpus * 4);
        host.view.node_memory_mb.push_back(64000);
    }
    static Request request() {
        Request r;
        r.model = find_zoo_model("gpt2").value();
        r.global_batch = 32;
        r.launcher = "env";
        r.max_gpus = 2;
        return r;
    }
    JobView& job(JobId id, const Request& r = request()) {
        JobView job;
        job.id = id;
        job.record = format_record(r).value();
        job.partition = "main";
        job.facts.held = true;
        job.facts.mark = JobMark{Phase::held, 0, OtherHold::none, 0};
        job.priority = 1e6 - id;
        host.view.jobs.push_back(job);
        return host.view.jobs.back();
    }
    /// One job on an empty node whose start ends so, in every round; the grid that was tried first.
    Grid refused_start(Scheduler& scheduler, ApplyResult end) {
        node("n1", "a40", 4, 4);
        job(1);
        host.next_start = std::move(end);
        scheduler.round();
        return host.last_shape.offer.grid;
    }
    std::unique_ptr<Scheduler> scheduler() {
        return std::make_unique<Scheduler>(host, config, load_hardware("").value(),
                                           builtin_calibration());
    }
};

/// Models are measured first; there is one node, n1, of four free GPUs of type a40.
struct ProfilingScene : Scene {
    ProfilingScene() {
        config.profile_enabled = true;
        node("n1", "a40", 4, 4);
    }
};

inline bool called(const ScriptedHost& host, const std::string& call) {
    return std::find(host.calls.begin(), host.calls.end(), call) != host.calls.end();
}

}  // namespace arena
