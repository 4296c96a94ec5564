// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/array/array_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "base/json.h"
#include "train/array/crew.h"
#include "train/array/member.h"
#include "train/array/round_sums.h"
#include "train/array/timetable.h"
#include "train/comm/messages.h"
#include "train/core/step_line.h"

namespace arena::train {
namespace {

constexpr Index most_iterations = 64;  ///< of a round
constexpr double most_drained = 0.02;  ///< of a round, while the pipeline fills and runs empty
/// Beyond what members wait for each other a rank may wait for the first one's decision.
constexpr double longest_decision_s = 60;
/// Between two looks for something to do, where there is nothing.
constexpr double pause_s = 0.1;

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// A block of this stage in a round.
struct Entry {
    std::size_t who = 0;  ///< of the members that take part
    Index iteration = 0;
    bool backward = false;
    double wait_s = 0;
};

class ArrayRank {
  public:
    ArrayRank(const ArrayOptions&, Comm& world, const DeviceMaker&, MemberSource*);
    ArrayEnd run();

  private:
    using Members = std::map<MemberId, std::unique_ptr<Member>>;
    struct Round {
        std::vector<MemberId> ids;
        std::vector<Member*> members;
        Index iterations = 0;
        double predicted_s = 0;  ///< on the first rank; 0: not known
        std::vector<Entry> entries;
    };
    [[nodiscard]] bool is_first() const { return world_.rank() == 0; }
    [[nodiscard]] bool is_told() const { return told_ || (o_.told != nullptr && *o_.told); }
    Boundary share_boundary();
    void wait_for_news();
    void obey(const Boundary&);
    void take_leave(const Boundary::Leaver&, bool with_all);
    void take_in(const Boundary::Newcomer&);
    void tell_begin(MemberId, const Resumed&);
    void finish_members();
    Status save(MemberId, Member&);
    void end(MemberId, int code, const std::string& why);
    void tell(MemberId, const std::string& text, const Json& facts);
    [[nodiscard]] Index iterations_of_round() const;
    Round find_round(const Boundary&);
    Index read_batches(Round&, Index iterations);
    array::Order share_order(Round&);
    void find_entries(Round&, const array::Order&);
    void run_round(Round&);
    RoundSums gather(Round&);
    void take_times(const Round&, RoundSums&);
    void report(const Round&, RoundSums&, double begin_s);

    ArrayOptions o_;
    Comm& world_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Comm> alone_;
    std::unique_ptr<Group> alone_group_;
    Skeleton skeleton_;
    MemberSource* source_;
    std::optional<Crew> crew_;  ///< on the first rank
    Timetable timetable_;       ///< there, too
    Members members_;
    StateBuffers buffers_;    ///< after them: whose copies are under way is there
    double iteration_s_ = 0;  ///< of the last round; 0: not known for these members
    double ended_s_ = 0;  ///< when the last round was over; 0: since then something else was done
    bool told_ = false;   ///< some rank was
    bool all_sit_out_ = false;
    ArrayEnd end_;
};

Index buffers_of(const ArrayOptions& o, const Device& device) {
    return o.buffers == 0 && !device.is_host() ? 2 : o.buffers;
}

ArrayRank::ArrayRank(const ArrayOptions& options, Comm& world, const DeviceMaker& make_device,
                     MemberSource* source)
    : o_(options),
      world_(world),
      device_(make_device(o_.threads, world)),
      alone_(world.split(world.rank())),
      alone_group_(device_->group(*alone_)),
      skeleton_(o_.limits.shape, o_.plan, world.rank(), o_.limits.batch, *alone_group_, *device_),
      source_(source),
      timetable_(o_.plan.stage_layers, o_.solve_s),
      buffers_(*device_, skeleton_.layout().size, buffers_of(o_, *device_)) {
    if (source_ != nullptr) crew_.emplace(*source_, o_.limits, o_.idle_s, now_s);
}

ArrayEnd ArrayRank::run() {
    for (;;) {
        const Boundary boundary = share_boundary();
        obey(boundary);
        if (boundary.end) break;
        Round round = find_round(boundary);
        all_sit_out_ = round.members.empty() && !members_.empty();
        if (round.members.empty()) {
            ended_s_ = 0;
            continue;
        }
        run_round(round);
        finish_members();
    }
    end_.told = is_told();
    return end_;
}

// ---- between two rounds ------------------------------------------------------------------------

/// The others sleep while the first rank waits or searches.
Boundary ArrayRank::share_boundary() {
    std::string text;
    if (crew_) {
        if (members_.empty()) wait_for_news();
        if (all_sit_out_) source_->wait(pause_s);
        text = to_text(crew_->next(is_told(), iterations_of_round()));
    }
    world_.meet(o_.idle_s + longest_decision_s);
    return read_boundary(share_text(world_, text, 0));
}

void ArrayRank::wait_for_news() {
    while (!crew_->has_news(is_told())) {
        world_.still_here();
        source_->wait(pause_s);
    }
}

void ArrayRank::obey(const Boundary& b) {
    if (!b.leavers.empty()) buffers_.settle();
    for (const Boundary::Leaver& leaver : b.leavers) take_leave(leaver, b.end);
    for (const Boundary::Newcomer& newcomer : b.newcomers) take_in(newcomer);
    if (!b.leavers.empty() || !b.newcomers.empty()) iteration_s_ = ended_s_ = 0;
    finish_members();
}

/// `with_all`: it is the array that was told, which is no end of the member's own.
void ArrayRank::take_leave(const Boundary::Leaver& leaver, bool with_all) {
    const auto found = members_.find(leaver.id);
    if (found == members_.end()) return;
    Member& member = *found->second;
    const MemberOptions& o = member.options();
    const Status saved = leaver.save ? save(leaver.id, member) : Status(Done{});
    if (!leaver.save) return end(leaver.id, o.requeue_code, "");
    if (!saved) return end(leaver.id, exit_code(saved.error().code), saved.error().message());
    if (with_all || !o.checkpoints.empty()) return end(leaver.id, o.requeue_code, "");
    end(leaver.id, exit_code(ErrorCode::no),
        fmt::format("told to leave after step {} of {}, without --checkpoint: nothing is saved",
                    member.step(), o.steps));
}

void ArrayRank::take_in(const Boundary::Newcomer& newcomer) {
    auto member = std::make_unique<Member>(newcomer.options, o_.plan, most_iterations, world_,
                                           skeleton_, *device_);
    Resumed resumed;
    const Status begun = member->begin(resumed);
    members_.emplace(newcomer.id, std::move(member));
    if (!begun) return end(newcomer.id, exit_code(begun.error().code), begun.error().message());
    tell_begin(newcomer.id, resumed);
}

void ArrayRank::tell_begin(MemberId id, const Resumed& resumed) {
    const MemberOptions& o = members_.at(id)->options();
    tell(id,
         fmt::format("member {} of an array of {} on {} stages, on {}", o.member, members_.size(),
                     o_.plan.layout.pp, device_->name()),
         {{"event", "start"},
          {"member", o.member},
          {"members", members_.size()},
          {"stages", o_.plan.layout.pp},
          {"device", device_->name()}});
    if (!resumed.passed_by.empty())
        tell(id, "a newer checkpoint is passed by: " + resumed.passed_by,
             {{"event", "damaged"}, {"reason", resumed.passed_by}});
    if (!resumed.path.empty())
        tell(id, fmt::format("resumed from {} after step {}", resumed.path, resumed.step),
             {{"event", "resumed"}, {"step", resumed.step}, {"path", resumed.path}});
}

/// Saves who is due, and ends who is done.
void ArrayRank::finish_members() {
    std::vector<MemberId> due;
    for (const auto& [id, member] : members_) {
        const Index every = member->options().save_every;
        if (member->is_done() || (every > 0 && member->step() > 0 && member->step() % every == 0))
            due.push_back(id);
    }
    if (due.empty()) return;
    buffers_.settle();
    ended_s_ = 0;
    for (const MemberId id : due) {
        Member& member = *members_.at(id);
        const Status saved = save(id, member);
        if (!saved)
            end(id, exit_code(saved.error().code), saved.error().message());
        else if (member.is_done())
            end(id, 0, "");
    }
}

Status ArrayRank::save(MemberId id, Member& member) {
    if (member.is_saved()) return Done{};
    const double start = now_s();
    if (Status status = member.save(); !status) return status;
    tell(id, fmt::format("saved {} in {:.3f} s", member.path(), now_s() - start),
         {{"event", "saved"}, {"step", member.step()}, {"path", member.path()}});
    return Done{};
}

void ArrayRank::end(MemberId id, int code, const std::string& why) {
    buffers_.forget(members_.at(id)->home());
    members_.erase(id);
    if (!crew_) return;
    crew_->ended(id);
    timetable_.forget(id);
    source_->end(id, code, why);
}

void ArrayRank::tell(MemberId id, const std::string& text, const Json& facts) {
    if (source_ != nullptr) source_->tell(id, text, dump_json(facts));
}

// ---- a round -----------------------------------------------------------------------------------

/// One at first, to measure; then so many that filling and draining the pipeline is a small part of
/// the round.
Index ArrayRank::iterations_of_round() const {
    if (iteration_s_ <= 0 || members_.empty()) return 1;
    const auto members = static_cast<double>(members_.size());
    const auto stages = static_cast<double>(o_.plan.layout.pp);
    const double filled_s = (stages - 1) / (members * most_drained) * iteration_s_;
    const double seconds = std::clamp(filled_s, o_.round_s, o_.longest_round_s);
    const auto most = static_cast<Index>(array::most_blocks / (2 * members * stages));
    return std::clamp<Index>(static_cast<Index>(std::ceil(seconds / iteration_s_)), 1,
                             std::min(most_iterations, most));
}

ArrayRank::Round ArrayRank::find_round(const Boundary& b) {
    Round round;
    Index iterations = iteration_s_ > 0 ? b.iterations : 1;  // before it is known what one takes
    for (const auto& [id, member] : members_) {
        if (std::ranges::find(b.idle, id) != b.idle.end()) continue;
        round.ids.push_back(id);
        round.members.push_back(member.get());
        iterations = std::min(iterations, member->until_stop());
    }
    if (!round.members.empty()) round.iterations = read_batches(round, iterations);
    if (round.members.empty()) return round;
    find_entries(round, share_order(round));
    return round;
}

/// As many iterations as all can read; who can not even read the next one ends.
Index ArrayRank::read_batches(Round& round, Index iterations) {
    Index good = iterations;
    std::vector<Status> why(round.members.size(), Done{});
    std::vector<float> bad(round.members.size());
    for (std::size_t i = 0; i < round.members.size(); ++i)
        bad[i] = static_cast<float>(iterations - round.members[i]->read(iterations, why[i]));
    world_.all_reduce_max(std::span<float>(bad));
    for (std::size_t i = round.members.size(); i-- > 0;) {
        const Index left = iterations - static_cast<Index>(bad[i]);
        if (left > 0) {
            good = std::min(good, left);
            continue;
        }
        const Status shared = agree_in_words(world_, why[i]);
        end(round.ids[i], exit_code(shared.error().code), shared.error().message());
        round.ids.erase(round.ids.begin() + static_cast<std::ptrdiff_t>(i));
        round.members.erase(round.members.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return good;
}

array::Order ArrayRank::share_order(Round& round) {
    std::string bytes;
    if (is_first()) {
        array::Order order;
        if (o_.order) {
            order = o_.order(static_cast<Index>(round.ids.size()), round.iterations);
        } else {
            std::vector<Timetable::Participant> who;
            for (std::size_t i = 0; i < round.ids.size(); ++i)
                who.push_back({round.ids[i], round.members[i]->options().batch});
            const Timetable::Round& planned = timetable_.round(who, round.iterations);
            order = planned.order;
            round.predicted_s = planned.seconds;
        }
        bytes.assign(reinterpret_cast<const char*>(order.data()), order.size() * sizeof(int));
    }
    world_.meet(longest_decision_s + o_.solve_s);
    bytes = share_text(world_, std::move(bytes), 0);
    array::Order order(bytes.size() / sizeof(int));
    std::memcpy(order.data(), bytes.data(), bytes.size());
    return order;
}

/// The blocks of this stage, in their order.
void ArrayRank::find_entries(Round& round, const array::Order& order) {
    std::vector<Index> places(round.members.size());
    std::vector<StateBuffers::Use> uses;
    for (const int job : order) {
        const auto who = static_cast<std::size_t>(job);
        const PlaceInChain place = place_in_chain(places[who]++, o_.plan.layout.pp);
        if (place.stage != world_.rank()) continue;
        round.entries.push_back({who, place.iteration, place.backward});
        uses.push_back({&round.members[who]->home(), place.backward});
    }
    buffers_.plan(std::move(uses));
    device_->mark(round.entries.size() * Member::marks);  // room for all of them
}

void ArrayRank::run_round(Round& round) {
    const double start = now_s();
    for (Member* member : round.members) member->begin_round(round.iterations);
    std::size_t mark = 0;
    for (Entry& entry : round.entries) {
        DeviceState& state = buffers_.acquire();
        entry.wait_s = buffers_.waited_s();
        skeleton_.bind(state);
        Member& member = *round.members[entry.who];
        if (entry.backward)
            member.backward(entry.iteration, state, mark);
        else
            member.forward(entry.iteration, mark);
        mark += Member::marks;
        buffers_.release();
    }
    RoundSums sums = gather(round);
    told_ = sums.told() > 0;
    report(round, sums, start);
}

RoundSums ArrayRank::gather(Round& round) {
    RoundSums sums(round.members.size(), round.iterations, o_.plan.layout.pp);
    sums.told() = is_told() ? 1 : 0;
    for (std::size_t i = 0; i < round.members.size(); ++i)
        round.members[i]->end_round(sums.losses(i), sums.squares(i));
    take_times(round, sums);
    world_.all_reduce_sum(sums.all());
    return sums;
}

void ArrayRank::take_times(const Round& round, RoundSums& sums) {
    std::size_t mark = 0;
    for (const Entry& entry : round.entries) {
        const auto between = [&](std::size_t a, std::size_t b) {
            return device_->seconds_between(mark + a, mark + b);
        };
        BlockTimes times{.wait = entry.wait_s};
        if (entry.backward) {
            times.recompute = between(0, 1);
            times.backward = between(2, 3);
            times.update = between(3, 4);
        } else {
            times.forward = between(0, 1);
        }
        sums.add(entry.who, world_.rank(), times);
        mark += Member::marks;
    }
}

/// What is between two rounds is time of the members, too.
void ArrayRank::report(const Round& round, RoundSums& sums, double begin_s) {
    const double now = now_s(), seconds = now - begin_s;
    const double since_s = ended_s_ > 0 ? ended_s_ : begin_s;
    iteration_s_ = (now - since_s) / static_cast<double>(round.iterations);
    ended_s_ = now;
    end_.rounds += 1;
    end_.iterations += round.iterations;
    if (!is_first()) return;
    if (round.predicted_s > 0) {
        end_.seconds += seconds;
        end_.predicted += round.predicted_s;
    }
    for (std::size_t i = 0; i < round.members.size(); ++i) {
        const MemberOptions& o = round.members[i]->options();
        const Index tokens = o.batch * o.shape.seq;
        timetable_.learn(round.ids[i], o.batch, sums.means(i));
        for (Index n = 0; n < round.iterations; ++n) {
            const Index step = round.members[i]->step() - round.iterations + n + 1;
            const StepLine line{.step = step,
                                .loss = sums.losses(i)[at(n)] / static_cast<double>(tokens),
                                .seconds = iteration_s_,
                                .tokens = tokens,
                                .norm = std::sqrt(sums.squares(i)[at(n)]),
                                .rate = rate_of(o.optimizer, step)};
            tell(round.ids[i], text_of(line), facts_of(line));
        }
    }
}

}  // namespace

Status check_array(const ArrayOptions& o) {
    const RankLayout& l = o.plan.layout;
    if (l.dp != 1 || l.tp != 1)
        return usage_error(
            fmt::format("dp{} x tp{}; an array has one rank per stage, dp1 and tp1", l.dp, l.tp),
            "plan");
    if (o.plan.zero_stage != 0)
        return usage_error("ZeRO stage 1; without replicas there is nothing to share", "plan");
    return Done{};
}

ArrayEnd run_array(const ArrayOptions& options, Comm& world, const DeviceMaker& make_device,
                   MemberSource* source) {
    return ArrayRank(options, world, make_device, source).run();
}

}  // namespace arena::train
