// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

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
    const Arrays arrays{run.optimizer.gather(Optimizer::Moment::first),
                        run.optimizer.gather(Optimizer::Moment::second)};
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

/// The newest whole checkpoint, for rank 0.
Result<Resumed> choose(const std::string& directory, const CheckpointFacts& wanted) {
    const auto steps = checkpoint_steps(directory);
    if (!steps) return steps.error();
    Resumed choice;
    for (const Index step : *steps) {
        const auto reader = CheckpointReader::open(checkpoint_path(directory, step));
        Status status = Done{};
        if (reader) {
            if (const Status same = check_facts(*reader, wanted); !same) return same.error();
            status = reader->verify();
        }
        if (reader && status) {
            choice.step = reader->facts().step;
            choice.path = reader->path();
            return choice;
        }
        if (choice.passed_by.empty())
            choice.passed_by = (reader ? status.error() : reader.error()).message();
    }
    if (steps->empty()) return choice;
    return environment_error(
        fmt::format("none of its {} checkpoints is whole ({}); remove them to start anew",
                    steps->size(), choice.passed_by),
        directory);
}

Status load(const CheckpointReader& reader, const RunState& run) {
    std::vector<float> first(run.parameters.weights().size()), second(first.size()), whole;
    for (const LocalTensor& tensor : run.parameters.tensors()) {
        whole.resize(at(tensor.spec.size()));
        float* const to[] = {run.parameters.weights().data(), first.data(), second.data()};
        for (const Part part : parts) {
            if (Status status = reader.read(tensor.spec, part, whole); !status) return status;
            take_part(tensor, whole, to[static_cast<std::size_t>(part)] + tensor.offset);
        }
    }
    run.optimizer.set(Optimizer::Moment::first, first);
    run.optimizer.set(Optimizer::Moment::second, second);
    return Done{};
}

/// Rank 0's text on all ranks.
std::string share_text(Comm& world, std::string text) {
    auto size = static_cast<std::uint64_t>(text.size());
    world.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
    text.resize(size);
    world.broadcast(std::as_writable_bytes(std::span(text)), 0);
    return text;
}

}  // namespace

Status agree(Comm& world, const Status& mine) {
    std::vector<double> failed(static_cast<std::size_t>(world.size()));
    failed[static_cast<std::size_t>(world.rank())] =
        mine ? 0 : 1 + static_cast<double>(mine.error().code);
    world.all_reduce_sum(std::span<double>(failed));
    const auto first = std::ranges::find_if(failed, [](double code) { return code != 0; });
    if (first == failed.end()) return Done{};
    if (first - failed.begin() == world.rank()) return mine;
    return Error{static_cast<ErrorCode>(static_cast<int>(*first) - 1), "", ""};
}

Status save_checkpoint(const std::string& directory, const CheckpointFacts& facts,
                       const RunState& run) {
    CheckpointWriter writer(checkpoint_path(directory, facts.step));
    Status status = write_all(writer, facts.shape, run);
    if (run.world.rank() == 0 && status) status = writer.finish(facts);
    if (run.world.rank() == 0 && status) status = remove_old_checkpoints(directory);
    return agree(run.world, status);
}

Result<Resumed> resume(const std::string& directory, const CheckpointFacts& wanted,
                       const RunState& run) {
    const bool chief = run.world.rank() == 0;
    Result<Resumed> choice = chief ? choose(directory, wanted) : Result<Resumed>(Resumed{});
    if (const Status status = agree(run.world, choice ? Status(Done{}) : Status(choice.error()));
        !status)
        return status.error();
    choice->step =
        static_cast<Index>(std::stoll(share_text(run.world, std::to_string(choice->step))));
    choice->path = share_text(run.world, choice->path);
    if (choice->path.empty()) return choice;
    const auto reader = CheckpointReader::open(choice->path);
    const Status loaded = reader ? load(*reader, run) : Status(reader.error());
    if (const Status all = agree(run.world, loaded); !all) return all.error();
    return choice;
}

}  // namespace arena::train
