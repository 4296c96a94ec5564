// SPDX-License-Identifier: GPL-2.0-or-later
// What the tests of arrays share: members by a script, an array with its stages as threads, and
// what each member would have learnt alone.
#pragma once

// clang-format off
#include "train_cases.h"
#include "train/array/array_executor.h"

#include <map>
#include <set>
// clang-format on

namespace arena::train::test {

/// What became of a member.
struct MemberFate {
    std::vector<std::string> lines;
    int code = -1;  ///< -1: not ended
    std::string why;
    [[nodiscard]] Index steps() const {
        return std::ranges::count_if(
            lines, [](const std::string& line) { return line.starts_with("step "); });
    }
};

/// Members come, and are told to leave or are gone, by `script`, which is asked at each boundary.
class ScriptedMembers final : public MemberSource {
  public:
    /// Boundary from 0, and what happened so far.
    using Script = std::function<std::vector<MemberEvent>(Index, const ScriptedMembers&)>;
    explicit ScriptedMembers(Script script) : script_(std::move(script)) {}

    std::vector<MemberEvent> take_events() override { return script_(boundary_++, *this); }
    void wait(double) override {}
    bool keeps_up(MemberId id) override { return !slow.contains(id); }
    void tell(MemberId id, const std::string& text, const std::string&) override {
        fates[id].lines.push_back(text);
    }
    void end(MemberId id, int code, const std::string& why) override {
        fates[id].code = code;
        fates[id].why = why;
    }

    std::map<MemberId, MemberFate> fates;
    std::set<MemberId> slow;

  private:
    Script script_;
    Index boundary_ = 0;
};

inline MemberEvent joins(MemberId id, const MemberOptions& options) {
    return {MemberEvent::What::join, id, options};
}

/// A small GPT with a head of its own.
inline GptShape sibling_gpt() {
    GptShape shape = small_gpt();
    shape.tied = false;
    return shape;
}

inline TrainPlan stages_of(std::vector<Index> layers, Recompute recompute = Recompute::full) {
    TrainPlan plan;
    plan.layout.pp = static_cast<Index>(layers.size());
    plan.stage_layers = std::move(layers);
    plan.recompute = recompute;
    return plan;
}

/// Sibling number i: another seed, rate, decay and batch than the others'.
inline MemberOptions sibling(Index i, const std::string& data, Index steps,
                             const std::string& checkpoints) {
    MemberOptions o;
    o.member = i;
    o.shape = sibling_gpt();
    o.optimizer.rate = 1e-2F / static_cast<float>(i + 1);
    o.optimizer.decay = 0.1F * static_cast<float>(i);
    o.optimizer.clip = 0;
    o.optimizer.warmup_steps = i;
    o.batch = 2 + i % 3;
    o.data = data;
    o.seed = static_cast<std::uint64_t>(7 + i);
    o.steps = steps;
    o.checkpoints = checkpoints;
    return o;
}

inline ArrayOptions array_of(const TrainPlan& plan, Index buffers = 0) {
    ArrayOptions o;
    o.plan = plan;
    o.limits = {.shape = sibling_gpt(), .batch = 4, .members = 64};
    o.buffers = buffers;
    o.solve_s = 0.02;
    o.idle_s = 0;
    o.round_s = o.longest_round_s = 0.02;
    return o;
}

inline std::unique_ptr<Device> on_cpu(int threads, Comm&) { return make_cpu_device(threads); }

inline ArrayEnd run_threaded_array(const ArrayOptions& options, MemberSource& source,
                                   const DeviceMaker& device = on_cpu) {
    cpu::set_gemm_threads(1);
    ArrayEnd end;
    run_threads(static_cast<int>(options.plan.layout.pp), [&](Comm& world) {
        const bool first = world.rank() == 0;
        const ArrayEnd mine = run_array(options, world, device, first ? &source : nullptr);
        if (first) end = mine;
    });
    return end;
}

/// The same run by itself: one micro-batch under that plan.
inline TrainOptions alone(const MemberOptions& m, TrainPlan plan, const std::string& checkpoints) {
    plan.micro_batch = m.batch;
    plan.micro_batches = {1};
    TrainOptions o = options_of(plan, m.data, m.steps);
    o.shape = m.shape;
    o.optimizer = m.optimizer;
    o.seed = m.seed;
    o.checkpoints = checkpoints;
    return o;
}

/// Whole weights and moments of the newest checkpoint.
inline std::vector<float> state_in(const std::string& directory, const GptShape& shape) {
    const auto steps = must(checkpoint_steps(directory));
    ck_assert_msg(!steps.empty(), "%s has no checkpoint", directory.c_str());
    const auto reader = must(CheckpointReader::open(checkpoint_path(directory, steps.front())));
    std::vector<float> all{static_cast<float>(reader.facts().step)};
    for (const TensorSpec& spec : all_specs(shape))
        for (const Part part : parts) {
            std::vector<float> whole(at(spec.size()));
            must(reader.read(spec, part, whole));
            all.insert(all.end(), whole.begin(), whole.end());
        }
    return all;
}

}  // namespace arena::train::test
