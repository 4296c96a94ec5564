// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "train/comm/messages.h"

namespace arena::train {
namespace {

/// The stage that saves a tensor: the one that holds it and not as a shadow.
Index stage_of(const TensorSpec& spec, const TrainPlan& plan) {
    if (!spec.name.starts_with("h.")) return spec.name.starts_with("w") ? 0 : plan.layout.pp - 1;
    const Index layer = std::stoll(spec.name.substr(2));
    Index stage = 0;
    while (layer >= plan.layers(stage).end) ++stage;
    return stage;
}

/// All of this rank's elements of the three arrays.
struct Arrays {
    std::vector<float> first, second;
    const float* of(const RunState& run, Part part, const LocalTensor& tensor) const {
        if (part == Part::weights) return run.parameters.weights().data() + tensor.offset;
        return (part == Part::first ? first : second).data() + tensor.offset;
    }
};

/// Rank 0 puts the whole tensor together; its owners send their parts.
void collect(const RunState& run, const Arrays& arrays, const TensorSpec& spec, Part part,
             std::vector<float>& whole) {
    const RankLayout& layout = run.plan.layout;
    const Index stage = stage_of(spec, run.plan), shards = spec.sharded ? layout.tp : 1;
    const auto me = static_cast<Index>(run.world.rank());
    for (Index shard = 0; shard < shards; ++shard) {
        const Index owner = layout.rank({stage, 0, shard});
        if (owner != me && me != 0) continue;
        const Range range = spec.sharded ? share(spec.axis, layout.tp, shard) : Range{0, spec.axis};
        const std::size_t size = at(spec.outer * range.size() * spec.inner);
        std::vector<float> received(owner == me ? 0 : size);
        if (owner != me) run.world.receive(received, static_cast<int>(owner));
        const float* values = received.data();
        if (owner == me)
            values =
                arrays.of(run, part, run.parameters.tensors()[at(run.parameters.find(spec.name))]);
        if (me == 0)
            put_part(spec, range, values, whole);
        else
            run.world.send({values, size}, 0);
    }
    run.world.flush();
}

/// Goes on to the last tensor even when the disk is full: the other ranks are sending.
Status write_all(CheckpointWriter& writer, const GptShape& shape, const RunState& run) {
    const Arrays arrays{run.moments.gather(Moments::Moment::first),
                        run.moments.gather(Moments::Moment::second)};
    Status status = run.world.rank() == 0 ? writer.create() : Status(Done{});
    std::vector<float> whole;
    for (const TensorSpec& spec : all_specs(shape))
        for (const Part part : parts) {
            whole.resize(run.world.rank() == 0 ? at(spec.size()) : 0);
            collect(run, arrays, spec, part, whole);
            if (run.world.rank() == 0 && status) status = writer.append(spec, part, whole);
        }
    return status;
}

Status check_facts(const CheckpointReader& reader, const CheckpointFacts& wanted) {
    const CheckpointFacts& has = reader.facts();
    if (has.shape != wanted.shape)
        return usage_error(fmt::format("is of a model of {}; this run's has {}",
                                       describe(has.shape), describe(wanted.shape)),
                           reader.path());
    if (has.seed != wanted.seed || has.global_batch != wanted.global_batch ||
        has.data_tokens != wanted.data_tokens)
        return usage_error(fmt::format("is of a run with seed {}, global batch {} and {} tokens of "
                                       "data; this one has {}, {} "
                                       "and {}: its batches would not be the next ones",
                                       has.seed, has.global_batch, has.data_tokens, wanted.seed,
                                       wanted.global_batch, wanted.data_tokens),
                           reader.path());
    return Done{};
}

/// The next of `steps` from `next` on whose footer is whole, for rank 0; "" = there is none. Why
/// the first one was passed by goes to `passed_by`.
Result<std::string> next_candidate(const std::string& directory, const std::vector<Index>& steps,
                                   const CheckpointFacts& wanted, std::size_t& next,
                                   std::string& passed_by) {
    while (next < steps.size()) {
        const auto reader = CheckpointReader::open(checkpoint_path(directory, steps[next++]));
        if (reader) {
            if (const Status same = check_facts(*reader, wanted); !same) return same.error();
            return reader->path();
        }
        if (passed_by.empty()) passed_by = reader.error().message();
    }
    return std::string();
}

/// Collective over the ranks of a stage, which take turns in reading the stage's arrays: all stages
/// together read and check the file once. A rank that fails goes on, for the others wait for it.
Status load(const Result<CheckpointReader>& reader, Comm& stage, const RunState& run) {
    std::vector<float> first(run.parameters.weights().size()), second(first.size()), whole;
    Status status = reader ? Status(Done{}) : Status(reader.error());
    int turn = 0;
    for (const LocalTensor& tensor : run.parameters.tensors()) {
        whole.resize(at(tensor.spec.size()));
        float* const to[] = {run.parameters.weights().data(), first.data(), second.data()};
        for (const Part part : parts) {
            const int owner = turn++ % stage.size();
            if (owner == stage.rank() && status) status = reader->read(tensor.spec, part, whole);
            if (stage.size() > 1) broadcast_floats(stage, whole, owner);
            take_part(tensor, whole, to[static_cast<std::size_t>(part)] + tensor.offset);
        }
    }
    run.moments.set(Moments::Moment::first, first);
    run.moments.set(Moments::Moment::second, second);
    return status;
}

/// The lowest rank that has failed and how; -1 = none has.
struct Failure {
    int rank = -1;
    ErrorCode code = ErrorCode::no;
};
Failure first_failure(Comm& world, const Status& mine) {
    std::vector<double> failed(at(world.size()));
    failed[at(world.rank())] = mine ? 0 : 1 + static_cast<double>(mine.error().code);
    world.all_reduce_sum(std::span<double>(failed));
    const auto first = std::ranges::find_if(failed, [](double code) { return code != 0; });
    if (first == failed.end()) return {};
    return {static_cast<int>(first - failed.begin()),
            static_cast<ErrorCode>(static_cast<int>(*first) - 1)};
}

}  // namespace

Status agree(Comm& world, const Status& mine) {
    const Failure failure = first_failure(world, mine);
    if (failure.rank < 0) return Done{};
    if (failure.rank == world.rank()) return mine;
    return Error{failure.code, "", ""};
}

Status save_checkpoint(const std::string& directory, const CheckpointFacts& facts,
                       const RunState& run, std::string& kept) {
    const std::string path = checkpoint_path(directory, facts.step);
    CheckpointWriter writer(path);
    Status status = write_all(writer, facts.shape, run);
    if (run.world.rank() == 0 && status) status = writer.finish(facts);
    if (run.world.rank() == 0 && status)
        status = remove_old_checkpoints(directory, facts.step, std::exchange(kept, path));
    return agree(run.world, status);
}

Result<Resumed> resume(const std::string& directory, const CheckpointFacts& wanted,
                       const RunState& run) {
    const bool chief = run.world.rank() == 0;
    const auto steps =
        chief ? checkpoint_steps(directory) : Result<std::vector<Index>>(std::vector<Index>{});
    if (const Status s = agree(run.world, steps ? Status(Done{}) : steps.error()); !s)
        return s.error();
    const auto stage = run.world.split(static_cast<int>(run.place.stage));
    Resumed choice;
    for (std::size_t next = 0;;) {
        const auto path = next_candidate(directory, *steps, wanted, next, choice.passed_by);
        if (const Status s = agree(run.world, path ? Status(Done{}) : path.error()); !s)
            return s.error();
        choice.path = share_text(run.world, *path, 0);
        if (choice.path.empty()) break;
        const auto reader = CheckpointReader::open(choice.path);
        const Status loaded = load(reader, *stage, run);
        const Failure failure = first_failure(run.world, loaded);
        if (failure.rank < 0) {
            choice.step = reader->facts().step;
            return choice;
        }
        const std::string why = failure.rank == run.world.rank() ? loaded.error().message() : "";
        const std::string shared = share_text(run.world, why, failure.rank);
        if (choice.passed_by.empty()) choice.passed_by = shared;
    }
    Status whole = Done{};
    if (chief && !steps->empty())
        whole = environment_error(
            fmt::format("none of its {} checkpoints is whole ({}); remove them to start anew",
                        steps->size(), choice.passed_by),
            directory);
    if (const Status s = agree(run.world, whole); !s) return s.error();
    return choice;
}

}  // namespace arena::train
