// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/statistics.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/device_choice.h"
#include "train/run/plan.h"
#include "train/run/report.h"

namespace arena::train {

std::atomic<bool> told_to_leave{false};

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The lines of a run, by rank 0 alone: text to stdout, JSON to the log.
class Journal {
  public:
    Status open(const TrainOptions& o, bool chief) {
        chief_ = chief;
        quiet_ = o.quiet;
        if (!chief || o.log.empty()) return Done{};
        log_.reset(std::fopen(o.log.c_str(), "ae"));
        if (!log_) return environment_error("cannot be written to", o.log);
        return Done{};
    }
    void note(const std::string& text, Json facts) {
        if (!chief_) return;
        if (!quiet_) write(stdout, "arena-train: " + text);
        if (!log_) return;
        facts["schema_version"] = 1;
        if (!write(log_.get(), dump_json(facts)) && !std::exchange(complained_, true))
            fmt::print(stderr, "arena-train: the log cannot be written to: {}\n",
                       std::strerror(errno));
    }

  private:
    struct Close {
        void operator()(std::FILE* f) const { std::fclose(f); }
    };
    /// No exception for a full disk or a closed pipe: a run does not end for its journal.
    static bool write(std::FILE* to, const std::string& line) {
        return std::fputs((line + "\n").c_str(), to) >= 0 && std::fflush(to) == 0;
    }
    bool chief_ = false, quiet_ = false, complained_ = false;
    std::unique_ptr<std::FILE, Close> log_;
};

/// Everything that one rank has.
class Rank {
  public:
    Rank(const TrainOptions& o, Comm& world, const DeviceMaker& make_device)
        : o_(o),
          world_(world),
          place_(o.plan.layout.place(world.rank())),
          shards_(
              world.split(static_cast<int>(o.plan.layout.rank({place_.stage, place_.replica, 0})))),
          replicas_(
              world.split(static_cast<int>(o.plan.layout.rank({place_.stage, 0, place_.shard})))),
          ends_(world.split(static_cast<int>(ends_color()))),
          own_device_(make_device(o.threads, world)),
          device_(*own_device_),
          world_group_(device_.group(world)),
          shard_group_(device_.group(*shards_)),
          replica_group_(device_.group(*replicas_)),
          end_group_(device_.group(*ends_)),
          parameters_(o.shape, o.plan.layout, place_, o.plan.layers(place_.stage),
                      device_.alignment()),
          weights_(parameters_, device_),
          stage_(o.shape, o.plan, place_, weights_, *world_group_, *shard_group_, device_),
          optimizer_(optimizer_options(), weights_, {*replicas_, *replica_group_}, world,
                     place_.shard, device_),
          reporter_(o.report && world.rank() == 0) {
        world_group_->connect(o.plan.layout, place_);
    }

    Outcome run();

  private:
    [[nodiscard]] bool is_last() const { return place_.stage == o_.plan.layout.pp - 1; }
    /// First and last stage of one replica and shard share a color: they hold a tied table
    /// together.
    [[nodiscard]] Index ends_color() const {
        const bool at_end = place_.stage == 0 || is_last();
        return o_.plan.layout.rank({at_end ? 0 : place_.stage, place_.replica, place_.shard});
    }
    [[nodiscard]] OptimizerOptions optimizer_options() const {
        OptimizerOptions options = o_.optimizer;
        options.sharded = o_.plan.zero_stage == 1;
        return options;
    }
    /// "cpu (2 ranks here, 1 GPU visible)"
    [[nodiscard]] std::string on() const {
        return o_.device_note.empty() ? device_.name()
                                      : fmt::format("{} ({})", device_.name(), o_.device_note);
    }
    RunState state() { return {o_.plan, place_, parameters_, optimizer_, world_}; }
    [[nodiscard]] CheckpointFacts facts() const {
        return {o_.shape, step_, o_.seed, o_.plan.global_batch(), data_->tokens()};
    }

    Status prepare();
    Status restore();
    Status read_batch();
    Status one_step(Outcome&);
    Status save();
    void add_tied_gradients();
    void report(double loss, double norm, double seconds);

    TrainOptions o_;
    Comm& world_;
    Place place_;
    std::unique_ptr<Comm> shards_, replicas_, ends_;
    std::unique_ptr<Device> own_device_;
    Device& device_;
    std::unique_ptr<Group> world_group_, shard_group_, replica_group_, end_group_;
    Parameters parameters_;
    Weights weights_;
    Stage stage_;
    Optimizer optimizer_;
    std::optional<TokenFile> data_;
    Batch batch_;
    Journal journal_;
    Reporter reporter_;
    Index step_ = 0, saved_ = -1;
    bool leaving_ = false;
    std::vector<double> seconds_;
    double peak_ = 0;  ///< FLOP/s of all ranks' devices; 0 = not known
};

Status Rank::prepare() {
    if (Status status = agree(world_, journal_.open(o_, world_.rank() == 0)); !status)
        return status;
    auto file = TokenFile::open(o_.data, o_.width, o_.shape.seq, o_.shape.vocab);
    if (Status status = agree(world_, file ? Status(Done{}) : Status(file.error())); !status)
        return status;
    data_.emplace(std::move(*file));
    peak_ = o_.flops_per_sample > 0 ? peak_flops(device_.name()) * world_.size() : 0;
    parameters_.initialize(o_.seed);
    journal_.note(
        fmt::format("{} {} as {} on {}; {:.4g} million parameters, {:.4g} million tokens of data",
                    world_.size(), world_.size() == 1 ? "rank" : "ranks", describe(o_.plan), on(),
                    parameter_count(o_.shape) / 1e6, static_cast<double>(data_->tokens()) / 1e6),
        {{"event", "start"},
         {"ranks", world_.size()},
         {"plan", describe(o_.plan)},
         {"device", device_.name()},
         {"activation_bytes", stage_.activation_bytes()}});
    if (Status status = restore(); !status) return status;
    optimizer_.upload();
    return Done{};
}

Status Rank::restore() {
    if (o_.checkpoints.empty()) return Done{};
    const auto resumed = resume(o_.checkpoints, facts(), state());
    if (!resumed) return resumed.error();
    if (!resumed->passed_by.empty())
        journal_.note("a newer checkpoint is passed by: " + resumed->passed_by,
                      {{"event", "damaged"}, {"reason", resumed->passed_by}});
    if (resumed->path.empty()) return Done{};
    step_ = saved_ = resumed->step;
    journal_.note(fmt::format("resumed from {} after step {}", resumed->path, step_),
                  {{"event", "resumed"}, {"step", step_}, {"path", resumed->path}});
    return Done{};
}

/// This replica's samples of the next step, in an order that does not depend on dp or the
/// micro-batch.
Status Rank::read_batch() {
    const Index each = o_.plan.micro_batch * o_.plan.num_micro_batches, seq = o_.shape.seq;
    batch_.inputs.resize(static_cast<std::size_t>(each * seq));
    batch_.labels.resize(batch_.inputs.size());
    for (Index i = 0; i < each; ++i) {
        const Index n = step_ * o_.plan.global_batch() + place_.replica * each + i;
        const auto row = static_cast<std::size_t>(i * seq), size = static_cast<std::size_t>(seq);
        if (Status s = data_->read(sample_of(n, data_->samples(), o_.seed),
                                   std::span(batch_.inputs).subspan(row, size),
                                   std::span(batch_.labels).subspan(row, size));
            !s)
            return s;
    }
    return Done{};
}

void Rank::add_tied_gradients() {
    if (!o_.shape.tied || ends_->size() < 2) return;
    const Index table = weights_.find("wte.weight");
    const auto size = static_cast<std::size_t>(weights_.tensors()[at(table)].size());
    end_group_->all_reduce_sum(Span<float>(weights_.gradient(table), size));
}

Status Rank::one_step(Outcome& outcome) {
    const auto start = Clock::now();
    device_.clear(weights_.gradients().span());
    const double mine = stage_.run(batch_);
    add_tied_gradients();
    const double norm = optimizer_.update(step_ + 1);
    double sums[] = {is_last() && place_.shard == 0 ? mine : 0, told_to_leave ? 1.0 : 0.0};
    world_.all_reduce_sum(std::span<double>(sums));
    step_ += 1;
    leaving_ = sums[1] != 0;
    outcome.losses.push_back(sums[0] / static_cast<double>(o_.plan.global_batch() * o_.shape.seq));
    seconds_.push_back(seconds_since(start));
    reporter_.add(seconds_.back());
    report(outcome.losses.back(), norm, seconds_.back());
    const bool due = o_.save_every > 0 && step_ % o_.save_every == 0;
    return due || leaving_ || step_ >= o_.steps ? save() : Status(Done{});
}

void Rank::report(double loss, double norm, double seconds) {
    const double tokens_per_s =
        static_cast<double>(o_.plan.global_batch() * o_.shape.seq) / seconds;
    std::string text = fmt::format("step {} loss {:.6f} {:.4f} s {:.0f} tokens/s", step_, loss,
                                   seconds, tokens_per_s);
    Json facts{{"step", step_},          {"loss", loss},
               {"iteration_s", seconds}, {"tokens_per_s", tokens_per_s},
               {"gradient_norm", norm},  {"learning_rate", optimizer_.rate(step_)}};
    if (peak_ > 0) {
        const double flops = o_.flops_per_sample * static_cast<double>(o_.plan.global_batch());
        facts["mfu"] = flops / seconds / peak_;
        text += fmt::format(" MFU {:.1f} %", 100 * flops / seconds / peak_);
    }
    journal_.note(text, std::move(facts));
}

Status Rank::save() {
    if (o_.checkpoints.empty() || saved_ == step_) return Done{};
    const auto start = Clock::now();
    optimizer_.download();
    if (Status status = save_checkpoint(o_.checkpoints, facts(), state()); !status) return status;
    saved_ = step_;
    journal_.note(
        fmt::format("saved {} in {:.3f} s", checkpoint_path(o_.checkpoints, step_),
                    seconds_since(start)),
        {{"event", "saved"}, {"step", step_}, {"path", checkpoint_path(o_.checkpoints, step_)}});
    if (!leaving_) reporter_.tell(false);  // takes seconds: not from the grace time
    return Done{};
}

Outcome Rank::run() {
    Outcome outcome;
    outcome.status = prepare();
    outcome.activation_bytes = stage_.activation_bytes();
    if (outcome.status && step_ >= o_.steps) outcome.status = save();
    while (outcome.status && step_ < o_.steps && !leaving_) {
        outcome.status = agree(world_, read_batch());
        if (outcome.status) outcome.status = one_step(outcome);
    }
    if (outcome.status) reporter_.tell(true);
    outcome.requeue = outcome.status.ok() && leaving_ && step_ < o_.steps;
    if (outcome.requeue && o_.checkpoints.empty())
        outcome.status = agree(
            world_,
            no_error(fmt::format("told to leave after step {} of {}, without --checkpoint: nothing "
                                 "is saved",
                                 step_, o_.steps)));
    if (seconds_.size() > 1) seconds_.erase(seconds_.begin());
    std::ranges::sort(seconds_);
    outcome.seconds = median(seconds_);
    return outcome;
}

}  // namespace

Outcome train(const TrainOptions& options, Comm& world, const DeviceMaker& make_device) {
    return Rank(options, world, make_device).run();
}

int exit_code(const Outcome& outcome, const TrainOptions& options) {
    if (!outcome.status) return arena::exit_code(outcome.status.error().code);
    return outcome.requeue ? options.requeue_code : 0;
}

}  // namespace arena::train
