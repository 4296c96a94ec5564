// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/count_text.h"
#include "base/json.h"
#include "base/statistics.h"
#include "base/text.h"
#include "train/comm/messages.h"
#include "train/core/compute_clock.h"
#include "train/core/step_line.h"
#include "train/run/chief_control.h"
#include "train/run/control.h"
#include "train/run/device_choice.h"
#include "train/run/hardware_check.h"
#include "train/run/journal.h"
#include "train/run/plan.h"
#include "train/run/report.h"
#include "train/run/role.h"

namespace arena::train {

std::atomic<bool> told_to_leave{false};

namespace {

using Clock = std::chrono::steady_clock;
/// Each adds a value to the all-reduce of every step: of more, none is told what it computed.
constexpr int most_timed_ranks = 4096;

/// Everything that one rank has.
class Rank {
  public:
    Rank(const TrainOptions& o, Comm& world, const DeviceMaker& make_device)
        : o_(o),
          world_(world),
          own_device_(make_device(o.threads, world)),
          device_(*own_device_),
          plan_(o.plan),
          places_(at(plan_.layout.size())),
          reporter_(o.report && world.rank() == 0) {
        std::iota(places_.begin(), places_.end(), 0);
        take_role();
    }

    Outcome run();

  private:
    [[nodiscard]] bool is_chief() const { return world_.rank() == 0; }
    /// "cpu (2 ranks here, 1 GPU visible)"
    [[nodiscard]] std::string on() const {
        return o_.device_note.empty() ? device_.name()
                                      : fmt::format("{} ({})", device_.name(), o_.device_note);
    }
    [[nodiscard]] CheckpointFacts facts() const {
        return {o_.shape, step_, o_.seed, plan_.global_batch(), data_->tokens()};
    }
    /// What was worked around for its slowness says nothing of how long the plan's steps take.
    [[nodiscard]] bool is_as_planned() const {
        return plan_ == o_.plan && std::ranges::is_sorted(places_);
    }

    void take_role();
    Status prepare();
    Status find_control();
    Status read_script();
    void meet_chief(std::unique_ptr<ChiefControl>);
    [[nodiscard]] watch::TrainerPlan told_plan();
    HardwareCheck& hardware_check();
    Status restore();
    Status read_batch();
    Status one_step(Outcome&);
    Status save();
    void report(double loss, double norm, double seconds);
    void tell_control(double seconds, std::span<const double> compute_s);
    std::string words();
    std::string first_words();
    void obey(const std::string& words);
    void obey_one(const Word&);
    void obey(const Split&);
    void obey(const Swap&);
    void obey(const Park&);
    void obey(const Check&);
    void tell(const CheckResult&);
    void note_word(const std::string& text, Json facts);

    TrainOptions o_;
    Comm& world_;
    std::unique_ptr<Device> own_device_;
    Device& device_;
    TrainPlan plan_;                   ///< the micro-batches as they are split now
    std::vector<int> places_;          ///< of each rank, now
    std::unique_ptr<Comm> in_places_;  ///< all ranks in the order of their places
    std::optional<Role> role_;
    std::optional<TokenFile> data_;
    Batch batch_;
    Journal journal_;
    Reporter reporter_;
    bool is_controlled_ = false, is_watched_ = false;  ///< by a script or a chief; by a chief
    std::unique_ptr<Control> control_;                 ///< on rank 0
    std::unique_ptr<HardwareCheck> check_;             ///< from the first one on, or watched
    Index step_ = 0, saved_ = -1;
    std::string kept_;  ///< path of the last checkpoint that was read or written
    bool leaving_ = false;
    std::vector<double> seconds_;
    double peak_ = 0;  ///< FLOP/s of all ranks' devices; 0 = not known
};

void Rank::take_role() {
    role_.reset();
    in_places_ = world_.split(0, places_[at(world_.rank())]);
    role_.emplace(o_.shape, plan_, o_.optimizer, *in_places_, device_, is_watched_);
}

Status Rank::find_control() {
    if (!o_.control.empty()) return read_script();
    std::unique_ptr<ChiefControl> chief;
    if (is_chief()) chief = ChiefControl::find(o_.watch, plan_);
    world_.meet(longest_park_s);  // asleep while it is looked for; rank 0 alone may have the key
    double watched[] = {chief ? 1.0 : 0.0};
    world_.all_reduce_sum(std::span<double>(watched));
    is_watched_ = is_controlled_ = watched[0] != 0;
    if (is_watched_) meet_chief(std::move(chief));
    return Done{};
}

Status Rank::read_script() {
    Status good = Done{};
    if (is_chief()) {
        auto script = ControlScript::open(o_.control, plan_);
        if (script)
            control_ = std::move(*script);
        else
            good = script.error();
    }
    is_controlled_ = true;
    return agree(world_, good);
}

/// Roles made anew: they have a clock now.
void Rank::meet_chief(std::unique_ptr<ChiefControl> chief) {
    take_role();
    watch::TrainerHello hello;
    for (const RankHost& host : hardware_check().hosts()) {
        hello.nodes.push_back(host.node);
        hello.gpus.push_back(host.gpu);
    }
    watch::TrainerPlan plan = told_plan();
    if (!chief) return;
    chief->introduce(std::move(hello), std::move(plan));
    control_ = std::move(chief);
}

/// Collective. A stage's ranks hold equally much, but for a remainder.
watch::TrainerPlan Rank::told_plan() {
    const RankLayout& l = plan_.layout;
    std::vector<double> bytes(at(2 * l.pp), 0);  // of each stage: state, then gradients
    if (const Place& mine = role_->place(); mine.replica == 0 && mine.shard == 0) {
        bytes[at(mine.stage)] = role_->state_bytes();
        bytes[at(l.pp + mine.stage)] = role_->gradient_bytes();
    }
    world_.all_reduce_sum(std::span(bytes));
    const auto gradients = bytes.begin() + l.pp;
    return {.dp = l.dp,
            .pp = l.pp,
            .tp = l.tp,
            .micro_batches = plan_.micro_batches,
            .gradient_bytes = *std::max_element(gradients, bytes.end()),
            .activation_bytes = role_->message_bytes(),
            .state_bytes = {bytes.begin(), gradients},
            .link_bytes = hardware_check().link_bytes(),
            .same_state_in_stage = plan_.zero_stage == 0,
            .checkpoints = !o_.checkpoints.empty(),
            .restart_s = 0};
}

/// Collective the first time.
HardwareCheck& Rank::hardware_check() {
    if (!check_)
        check_ = std::make_unique<HardwareCheck>(world_, device_, o_.environment, o_.threads,
                                                 o_.check_limit_s);
    return *check_;
}

Status Rank::prepare() {
    if (Status status =
            agree(world_, is_chief() ? journal_.open(o_.log, o_.quiet) : Status(Done{}));
        !status)
        return status;
    if (Status status = find_control(); !status) return status;
    auto file = TokenFile::open(o_.data, o_.width, o_.shape.seq, o_.shape.vocab);
    if (Status status = agree(world_, file ? Status(Done{}) : Status(file.error())); !status)
        return status;
    data_.emplace(std::move(*file));
    peak_ = o_.flops_per_sample > 0 ? peak_flops(device_.name()) * world_.size() : 0;
    role_->initialize(o_.seed);
    journal_.note(
        fmt::format("{} as {} on {}; {:.4g} million parameters, {:.4g} million tokens of data",
                    counted(world_.size(), "rank"), describe(o_.plan), on(),
                    parameter_count(o_.shape) / 1e6, static_cast<double>(data_->tokens()) / 1e6),
        {{"event", "start"},
         {"ranks", world_.size()},
         {"plan", describe(o_.plan)},
         {"device", device_.name()},
         {"activation_bytes", role_->activation_bytes()}});
    if (Status status = restore(); !status) return status;
    role_->upload();
    return Done{};
}

Status Rank::restore() {
    if (o_.checkpoints.empty()) return Done{};
    const auto resumed = resume(o_.checkpoints, facts(), role_->state(plan_));
    if (!resumed) return resumed.error();
    if (!resumed->passed_by.empty())
        journal_.note("a newer checkpoint is passed by: " + resumed->passed_by,
                      {{"event", "damaged"}, {"reason", resumed->passed_by}});
    if (resumed->path.empty()) return Done{};
    step_ = saved_ = resumed->step;
    kept_ = resumed->path;
    journal_.note(fmt::format("resumed from {} after step {}", resumed->path, step_),
                  {{"event", "resumed"}, {"step", step_}, {"path", resumed->path}});
    return Done{};
}

/// This replica's samples of the next step, in an order that does not depend on dp, the micro-batch
/// or how the micro-batches are split.
Status Rank::read_batch() {
    const Range mine = plan_.samples(role_->place().replica);
    const Index seq = o_.shape.seq;
    batch_.inputs.resize(static_cast<std::size_t>(mine.size() * seq));
    batch_.labels.resize(batch_.inputs.size());
    for (Index i = 0; i < mine.size(); ++i) {
        const Index n = step_ * plan_.global_batch() + mine.begin + i;
        const auto row = static_cast<std::size_t>(i * seq), size = static_cast<std::size_t>(seq);
        if (Status s = data_->read(sample_of(n, data_->samples(), o_.seed),
                                   std::span(batch_.inputs).subspan(row, size),
                                   std::span(batch_.labels).subspan(row, size));
            !s)
            return s;
    }
    return Done{};
}

Status Rank::one_step(Outcome& outcome) {
    const auto start = Clock::now();
    const auto [loss, norm] = role_->train(batch_, step_ + 1);
    step_ += 1;
    const std::string word = words();
    std::vector<double> sums{loss, told_to_leave ? 1.0 : 0.0, word.empty() ? 0.0 : 1.0};
    constexpr std::size_t own = 3;
    if (is_watched_ && world_.size() <= most_timed_ranks) {
        sums.resize(own + at(world_.size()), 0);
        sums[own + at(in_places_->rank())] = role_->compute_s();
    }
    in_places_->all_reduce_sum(std::span<double>(sums));
    leaving_ = sums[1] != 0;
    outcome.losses.push_back(sums[0] / static_cast<double>(plan_.global_batch() * o_.shape.seq));
    seconds_.push_back(seconds_since(start));
    if (is_as_planned() && !(control_ && control_->is_event_open())) reporter_.add(seconds_.back());
    report(outcome.losses.back(), norm, seconds_.back());
    tell_control(seconds_.back(), std::span(sums).subspan(own));
    const bool due = o_.save_every > 0 && step_ % o_.save_every == 0, ends = step_ >= o_.steps;
    const Status saved = due || leaving_ || ends ? save() : Status(Done{});
    if (saved && sums[2] != 0 && !leaving_ && !ends) obey(share_text(world_, word, 0));
    return saved;
}

/// compute_s: of each place, or nothing.
void Rank::tell_control(double seconds, std::span<const double> compute_s) {
    if (!control_) return;
    StepFacts facts{.step = step_,
                    .seconds = seconds,
                    .tokens = plan_.global_batch() * o_.shape.seq,
                    .micro_batch_s = {}};
    if (!compute_s.empty()) facts.micro_batch_s.assign(at(plan_.layout.dp), 0);
    for (std::size_t i = 0; i < compute_s.size(); ++i) {
        const auto replica = at(plan_.layout.place(static_cast<Index>(i)).replica);
        const double each = compute_s[i] / static_cast<double>(plan_.micro_batches[replica]);
        facts.micro_batch_s[replica] = std::max(facts.micro_batch_s[replica], each);
    }
    control_->step_done(facts);
}

void Rank::report(double loss, double norm, double seconds) {
    const double flops = o_.flops_per_sample * static_cast<double>(plan_.global_batch());
    const StepLine line{.step = step_,
                        .loss = loss,
                        .seconds = seconds,
                        .tokens = plan_.global_batch() * o_.shape.seq,
                        .norm = norm,
                        .rate = role_->rate(step_),
                        .mfu = peak_ > 0 ? flops / seconds / peak_ : 0};
    journal_.note(text_of(line), facts_of(line));
}

Status Rank::save() {
    if (o_.checkpoints.empty() || saved_ == step_) return Done{};
    const auto start = Clock::now();
    role_->download();
    if (Status status = save_checkpoint(o_.checkpoints, facts(), role_->state(plan_), kept_);
        !status)
        return status;
    saved_ = step_;
    const double seconds = seconds_since(start);
    if (control_) control_->saved(seconds);
    journal_.note(
        fmt::format("saved {} in {:.3f} s", checkpoint_path(o_.checkpoints, step_), seconds),
        {{"event", "saved"}, {"step", step_}, {"path", checkpoint_path(o_.checkpoints, step_)}});
    if (!leaving_) reporter_.tell(false);  // takes seconds: not from the grace time
    return Done{};
}

/// On rank 0: what comes before the next step, a line each.
std::string Rank::words() {
    std::string lines;
    if (!control_) return lines;
    for (const Word& word : control_->before(step_ + 1)) lines += to_text(word) + "\n";
    return lines;
}

/// On all ranks. Those that know none wait asleep.
std::string Rank::first_words() {
    const std::string mine = step_ < o_.steps ? words() : "";
    world_.meet(longest_park_s);
    return share_text(world_, mine, 0);
}

void Rank::obey(const std::string& words) {
    for (const std::string_view line : split(words, '\n'))
        if (!line.empty()) obey_one(parse_word(line).value());
}

void Rank::obey_one(const Word& word) {
    const auto start = Clock::now();
    std::visit([this](const auto& one) { obey(one); }, word);
    if (control_) control_->obeyed(step_ + 1, word, seconds_since(start));
}

void Rank::note_word(const std::string& text, Json facts) {
    facts["step"] = step_ + 1;
    journal_.note(fmt::format("{} before step {}", text, step_ + 1), std::move(facts));
}

void Rank::obey(const Split& word) {
    plan_.micro_batches = word.micro_batches;
    role_->split(word.micro_batches);
    if (control_) control_->dealt(word.micro_batches);
    note_word(to_text(word), {{"event", "split"}, {"micro_batches", word.micro_batches}});
}

/// The others make new roles, too: every group of a changed rank is another one.
void Rank::obey(const Swap& word) {
    const auto start = Clock::now();
    ModelState state = role_->model_state();
    std::swap(places_[at(word.a)], places_[at(word.b)]);
    take_role();
    const int me = world_.rank();
    if (me == word.a || me == word.b) {
        const int other = static_cast<int>(me == word.a ? word.b : word.a);
        ModelState others = role_->empty_model_state();
        for (auto part : {&ModelState::weights, &ModelState::first, &ModelState::second})
            send_floats(world_, state.*part, other);
        for (auto part : {&ModelState::weights, &ModelState::first, &ModelState::second})
            receive_floats(world_, others.*part, other);
        world_.flush();
        state = std::move(others);
    }
    role_->set_model_state(state);
    const double seconds = seconds_since(start);
    note_word(
        fmt::format("ranks {} and {} have changed roles, in {:.3f} s,", word.a, word.b, seconds),
        {{"event", "swapped"}, {"ranks", {word.a, word.b}}, {"seconds", seconds}});
}

/// By rank 0's clock; the others wait for it asleep: nothing disturbs what is measured now.
void Rank::obey(const Park& word) {
    note_word(fmt::format("parked for {} s at the most", word.seconds),
              {{"event", "parked"}, {"seconds", word.seconds}});
    const auto start = Clock::now();
    while (control_ && seconds_since(start) < word.seconds && !told_to_leave &&
           !control_->is_released()) {
        world_.still_here();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    world_.meet(word.seconds);
    const double seconds = seconds_since(start);
    note_word(fmt::format("goes on after {:.3f} s", seconds),
              {{"event", "unparked"}, {"seconds", seconds}});
}

void Rank::obey(const Check& word) {
    hardware_check().run(word, [this](const CheckResult& found) { tell(found); });
}

void Rank::tell(const CheckResult& found) {
    if (control_) control_->checked(found);
    if (!found.failure.empty())
        return note_word(fmt::format("check {} is given up after {:.3f} s ({})", found.id,
                                     found.seconds, found.failure),
                         {{"event", "given_up"}, {"id", found.id}, {"seconds", found.seconds}});
    Json links = Json::array();
    for (const auto& [from, to, ms, latency_ms] : found.links)
        links.push_back({{"from", from}, {"to", to}, {"ms", ms}, {"latency_ms", latency_ms}});
    note_word(fmt::format("check {} in {:.3f} s", found.id, found.seconds),
              {{"event", "checked"},
               {"id", found.id},
               {"gpu_ms", found.gpu_ms},
               {"links", links},
               {"link_bytes", hardware_check().link_bytes()},
               {"seconds", found.seconds}});
}

Outcome Rank::run() {
    Outcome outcome;
    outcome.status = prepare();
    outcome.activation_bytes = role_->activation_bytes();
    if (outcome.status && step_ >= o_.steps) outcome.status = save();
    if (outcome.status && is_controlled_) obey(first_words());
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
