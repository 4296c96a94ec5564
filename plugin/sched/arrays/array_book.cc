// SPDX-License-Identifier: GPL-2.0-or-later
// See array_book.h.
#include "plugin/sched/arrays/array_book.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "base/text.h"
#include "plugin/sched/arrays/array_tasks.h"
#include "request/options.h"

namespace arena {
namespace {

/// So often a carrier may end under a member before it runs by itself for good.
constexpr std::int64_t most_lost = 2;
/// A limit that is in a carrier's way is looked at again then.
constexpr double refusal_s = 300;
/// A carrier whose first members are on their way, and one that was told to end and did not.
constexpr double first_members_s = 45, tell_again_s = 20;
/// So long one may be there without a first member, whoever waits to be it.
constexpr double longest_alone_s = 120;
/// So long one that had members is not needed before it is told: what is read while Slurm changes
/// its tables knows of no task that waits.
constexpr double idle_s = 3;
/// So long members of a carrier that is over may be on their way back: a member that is just
/// attaching looks for its array for 60 s.
constexpr double coming_back_s = 90;
/// So often shares of members that run are written.
constexpr double write_s = 60;
/// Carriers that are over and told of.
constexpr std::size_t most_told = 64;
/// What each member's own process has where its user says nothing, and what it needs.
constexpr std::int64_t usual_memory_mb = 512, least_memory_mb = 128;

/// Members for whose own CPUs the carrier's leave room, on so many GPUs of its first node.
std::int64_t members_by_cpus(const SiblingPrice& price, std::int64_t gpus,
                             std::int64_t member_cpus) {
    const std::int64_t own = std::max<std::int64_t>(price.own_cpus_per_gpu, 1);
    return std::max<std::int64_t>(price.cpus_per_gpu - own, 0) * gpus / member_cpus;
}

/// Of the memory members have half at most.
struct MemberMemory {
    std::int64_t all_mb = 0, wanted_mb = usual_memory_mb, least_mb = least_memory_mb;
    MemberMemory(const SiblingPrice& price, std::int64_t gpus)
        : all_mb(price.memory_mb_per_gpu * gpus / 2) {
        if (price.member_memory_mb > 0) wanted_mb = price.member_memory_mb;
        least_mb = std::min(least_mb, wanted_mb);
    }
    [[nodiscard]] std::int64_t members() const { return all_mb / least_mb; }
    [[nodiscard]] std::int64_t of_each(std::int64_t members) const {
        return std::clamp(all_mb / members, least_mb, wanted_mb);
    }
};

std::string share_word(double gpu_s) { return fmt::format("{}={:.2f}", share_key, gpu_s); }

std::int64_t round_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// Of so many that wait, with itself.
const char* nobody_with_it(std::int64_t waiting) {
    return waiting < 2 ? "not bound: no sibling waits with it"
                       : "not bound: no sibling may run with it";
}

/// As the policy compares it with other jobs: GPUs that do so many iterations of members a second.
Offer shape_of(const ArrayOffer& offer, const SiblingPrice& price, std::int64_t members,
               std::int64_t batch) {
    Offer shape;
    shape.grid.gpu_type = price.gpu_type;
    shape.grid.gpus_per_node = std::min(offer.gpus, price.gpus_per_node);
    while (offer.gpus % shape.grid.gpus_per_node != 0) --shape.grid.gpus_per_node;
    shape.grid.nodes = offer.gpus / shape.grid.gpus_per_node;
    shape.grid.stages = offer.gpus;
    shape.plan = offer.plan;
    shape.estimate.iteration_s = offer.iteration_s / real(members);
    shape.estimate.samples_per_s = real(batch) / shape.estimate.iteration_s;
    return shape;
}

}  // namespace

std::string group_tag(const JobView& job, const Request& request, const std::string& fingerprint) {
    // Of several Slurm names the one first in which the job ran last.
    std::vector<std::string_view> partitions = split(job.partition, ',');
    std::sort(partitions.begin(), partitions.end());
    Request alike = request;
    alike.user_hold = false;
    alike.steps = 0;
    std::string words =
        fmt::format("{}|{}|{}|{}|{}|{}", fingerprint, job.user_id, job.owner.account, job.owner.qos,
                    fmt::join(partitions, ","), job.owner.nodes);
    for (const auto& [key, value] : option_settings(alike)) words += "|" + key + "=" + value;
    words += fmt::format("|{}|{}|{}|{}", request.cpus_per_gpu, request.mem_per_gpu_mb,
                         request.mem_per_node_mb, request.mem_per_cpu_mb);
    return sha256_hex(words);
}

// ---- carriers and members ----------------------------------------------------------------------

void ArrayBook::new_round(const ClusterView& view) {
    now_s_ = view.steady_s;
    wall_s_ = view.snapshot.time_s;
    groups_.clear();
    group_of_.clear();
    turns_.clear();
    words_.clear();
    if (config_.array_enabled)
        for (const JobView& job : view.jobs)
            if (job.array.id != 0 && job.facts.state != HostJobState::pending)
                ++turns_[job.array.id];
    std::erase_if(refusals_, [&](const auto& entry) { return entry.second.until_s <= now_s_; });
    read_carriers(view);
    if (!carriers_.empty()) take_members(view);
}

void ArrayBook::read_carriers(const ClusterView& view) {
    for (const ArrayCarrierView& now : view.arrays) {
        const auto known = carriers_.find(now.id);
        const bool is_new = begun_.erase(now.id) != 0;
        // One of an earlier life; of this one's it is told that it has failed.
        if (known == carriers_.end() && now.finished && !is_new) continue;
        auto facts = known == carriers_.end() ? read_carrier(now.facts) : known->second.facts;
        if (!facts) continue;
        Carrier& carrier = carriers_[now.id];
        if (known == carriers_.end()) {
            carrier.idle_since_s = carrier.written_s = now_s_;
            carrier.begun_s = now_s_ - std::max(wall_s_ - now.start_s, 0.0);
            // As it was when slurmctld, which has been restarted since, wrote it.
            carrier.gone_gpu_s = now.shared_gpu_s;
            if (now.gpus > 0)
                carrier.shared_until_s = now.start_s + now.shared_gpu_s / real(now.gpus);
        }
        // By a slurmctld that has been restarted since.
        if (now.leaves_since_s > 0 && !carrier.left_s)
            carrier.left_s = now_s_ - std::max(wall_s_ - now.leaves_since_s, 0.0);
        carrier.leaving = Leaving::no;
        carrier.view = now;
        carrier.facts = std::move(*facts);
    }
    const auto is_gone = [&](JobId id) {
        return std::none_of(view.arrays.begin(), view.arrays.end(),
                            [&](const ArrayCarrierView& now) { return now.id == id; });
    };
    std::erase_if(carriers_, [&](const auto& entry) { return is_gone(entry.first); });
    std::erase_if(closed_, is_gone);
    std::erase_if(begun_, is_gone);
    for (auto at = carriers_.begin(); carriers_.size() > most_told && at != carriers_.end();)
        at = at->second.is_settled ? carriers_.erase(at) : std::next(at);
}

void ArrayBook::take_members(const ClusterView& view) {
    for (auto& [id, carrier] : carriers_) {
        carrier.running = 0;
        for (auto& [job, share] : carrier.members) share.here = false;
    }
    for (const JobView& job : view.jobs) {
        if (!job.facts.mark || job.facts.mark->array == 0) continue;
        if (job.facts.state == HostJobState::pending) continue;
        const auto at = carriers_.find(job.facts.mark->array);
        if (at == carriers_.end()) continue;
        at->second.had_members = true;
        ++at->second.running;
        if (job.changing && !at->second.members.contains(job.id)) continue;
        const auto [member, added] = at->second.members.try_emplace(job.id);
        Share& share = member->second;
        if (added) share.gpu_s = share.written_gpu_s = job.array_gpu_s;
        if (added) at->second.gone_gpu_s = std::max(at->second.gone_gpu_s - job.array_gpu_s, 0.0);
        if (!job.changing) share.place = job.array;
        share.here = true;
    }
    for (auto& [id, carrier] : carriers_) {
        share_out(carrier);
        if (carrier.running > 0 || !carrier.view.running || carrier.view.configuring)
            carrier.empty_since_s = 0;
        else if (carrier.empty_since_s == 0)
            carrier.empty_since_s = now_s_;
    }
}

/// Who is there shares what has passed since the last round; what passed with nobody there goes to
/// the next ones.
void ArrayBook::share_out(Carrier& carrier) const {
    if (carrier.view.start_s <= 0 || carrier.is_settled) return;
    const double until_s = carrier.view.finished ? carrier.view.end_s : wall_s_;
    const double since_s = std::max(carrier.shared_until_s, carrier.view.start_s);
    carrier.shared_until_s = std::max(until_s, since_s);
    carrier.unshared_gpu_s += (carrier.shared_until_s - since_s) * real(carrier.view.gpus);
    const double each = carrier.unshared_gpu_s / std::max(real(carrier.running), 1.0);
    if (carrier.running == 0) return;
    for (auto& [job, share] : carrier.members)
        if (share.here) share.gpu_s += each;
    carrier.unshared_gpu_s = 0;
}

const ArrayBook::Carrier* find_carrier(const ArrayBook::Carriers& carriers, JobId id) {
    const auto at = carriers.find(id);
    return at == carriers.end() ? nullptr : &at->second;
}

/// Of who is there, and who has left since: what a restart of slurmctld is not to forget.
void ArrayBook::write_shares(Carrier& carrier) {
    carrier.written_s = now_s_;
    double sum = carrier.gone_gpu_s;
    bool changed = false;
    for (auto& [job, share] : carrier.members) {
        sum += share.gpu_s;
        if (std::exchange(share.written_gpu_s, share.gpu_s) == share.gpu_s) continue;
        words_.push_back({job, share_word(share.gpu_s)});
        changed = true;
    }
    if (changed) words_.push_back({carrier.view.id, share_word(sum)});
}

/// All of a carrier's GPU-seconds are its members'.
void ArrayBook::settle(Carrier& carrier) {
    const double all =
        std::max(carrier.view.end_s - carrier.view.start_s, 0.0) * real(carrier.view.gpus);
    double sum = 0;
    for (const auto& [job, share] : carrier.members) sum += share.gpu_s;
    const bool over = carrier.view.finished && !carrier.is_settled;
    if (over && sum > 0)
        for (auto& [job, share] : carrier.members)
            share.gpu_s *= std::max(all - carrier.gone_gpu_s, 0.0) / sum;
    if (over) carrier.is_settled = true;
    if (over || (!carrier.is_settled && now_s_ - carrier.written_s >= write_s))
        write_shares(carrier);
    if (over && !carrier.had_members && carrier.told_s <= 0 && !carrier.left_s)
        give_up(carrier,
                fmt::format("JobId={}, which was to train it with its siblings, ended ({}) "
                            "before it had a member",
                            carrier.view.id, carrier.view.end));
}

/// Nothing where nobody waits for it: who is submitted later may have more luck.
void ArrayBook::give_up(const Carrier& carrier, const std::string& why) {
    const auto group = groups_.find(carrier.facts.group);
    if (group == groups_.end() || group->second.waiting.empty()) return;
    refusals_.try_emplace(carrier.facts.group, Refusal{why, now_s_ + refusal_s});
}

bool ArrayBook::is_needed(const Carrier& carrier) const {
    const bool is_closed = closed_.contains(carrier.view.id);
    if (carrier.had_members && carrier.running > 0) return true;
    if (is_closed) return false;
    const double alone_s = now_s_ - carrier.empty_since_s;
    if (!carrier.had_members && alone_s < first_members_s) return true;
    if (!carrier.had_members && alone_s >= longest_alone_s) return false;
    if (carrier.running > 0) return true;
    const auto group = groups_.find(carrier.facts.group);
    if (group == groups_.end()) return false;
    return group->second.rest > 0 || !group->second.waiting.empty();
}

void ArrayBook::leave(JobId id, const Move& move, Leaving how) {
    const auto at = carriers_.find(id);
    if (at == carriers_.end() || (at->second.left_s && how == Leaving::later)) return;
    at->second.move = move;
    at->second.leaving = how;
}

/// True where it was told just now. One that is deaf has as long as any job that saves its state;
/// one that has trained nobody has nothing to save, and may be killed by a signal.
bool ArrayBook::see_off(Carrier& carrier) {
    const bool is_deaf = carrier.left_s && now_s_ - *carrier.left_s >= config_.checkpoint_grace_s;
    const bool at_once =
        is_deaf || carrier.leaving == Leaving::at_once || (!carrier.left_s && !carrier.had_members);
    if (carrier.view.finished || (carrier.left_s && !at_once)) return false;
    if (!carrier.view.running && carrier.leaving != Leaving::at_once) return false;
    std::vector<JobId> members;
    for (const auto& [job, share] : carrier.members)
        if (share.here) members.push_back(job);
    if (!host_.leave_array(carrier.view.id, members, carrier.move, at_once)) return false;
    const bool is_first = !carrier.left_s;
    if (is_first) carrier.left_s = now_s_;
    return is_first;
}

void ArrayBook::end_unneeded(Carrier& carrier) {
    const bool runs = carrier.view.running && !carrier.view.configuring;
    if (!runs || is_needed(carrier)) {
        carrier.idle_since_s = now_s_;
        return;
    }
    const bool may_be_needed = carrier.had_members && now_s_ - carrier.idle_since_s < idle_s;
    if (may_be_needed || now_s_ - carrier.told_s < tell_again_s) return;
    // One that has trained nobody may be about to begin, deaf to a signal or killed by it.
    const bool at_once = !carrier.had_members || carrier.told_s > 0;
    carrier.told_s = now_s_;
    if (!carrier.had_members)
        give_up(carrier, "no member could start beside its pipeline" +
                             (carrier.trouble.empty() ? "" : ": " + carrier.trouble));
    host_.end_array(carrier.view.id, at_once);
}

std::vector<Move> ArrayBook::settle() {
    std::vector<Move> moves;
    for (auto& [id, carrier] : carriers_) {
        settle(carrier);
        if (!carrier.goes())
            end_unneeded(carrier);
        else if (see_off(carrier))
            moves.push_back(carrier.move);
    }
    if (!words_.empty()) host_.write_shares(words_);
    return moves;
}

std::string words_of_carrier(const ArrayBook::Carriers& carriers, JobId id) {
    std::string text = fmt::format("JobId={} trains it with its siblings", id);
    const ArrayBook::Carrier* carrier = find_carrier(carriers, id);
    if (!carrier || (!carrier->left_s && carrier->leaving == ArrayBook::Leaving::no)) return text;
    const std::string& why = carrier->move.why;
    return text + ", and " + (why.empty() ? "leaves its nodes" : why);
}

// ---- who shares with whom ----------------------------------------------------------------------

void ArrayBook::add(const JobView& job, const Request& request, const std::string& fingerprint) {
    const std::string tag = group_tag(job, request, fingerprint);
    Group& group = groups_[tag];
    group_of_[job.id] = tag;
    Group::Tasks& tasks = group.arrays[job.array.id];
    tasks.waiting += std::max<std::int64_t>(job.array.left, 1);
    tasks.most = most_at_a_time(job.array, config_);
    if (job.array.left > 0) {
        group.rest += job.array.left;
        return;
    }
    group.waiting.push_back(&job);
    group.youngest_s = std::max(group.youngest_s, job.eligible_s);
}

void ArrayBook::refuse(const JobView& lead, const std::string& why) {
    const auto at = group_of_.find(lead.id);
    if (at != group_of_.end()) refusals_[at->second] = {why, now_s_ + refusal_s};
}

void ArrayBook::has_started(JobId carrier) {
    if (const auto at = carriers_.find(carrier); at != carriers_.end())
        at->second.had_members = true;
}

void ArrayBook::note_trouble(JobId carrier, const std::string& why) {
    if (const auto at = carriers_.find(carrier); at != carriers_.end()) at->second.trouble = why;
}

void ArrayBook::close(JobId carrier, const std::string& why) {
    note_trouble(carrier, why);
    closed_.insert(carrier);
}

void ArrayBook::refuse_member(const JobView& member, JobId carrier, const std::string& why) {
    const auto at = carriers_.find(carrier);
    if (at == carriers_.end() || at->second.had_members) return;
    close(carrier, why);
    refuse(member, "a limit keeps members from starting beside their pipeline: " + why);
}

ArrayBook::Carrier* ArrayBook::carrier_with_room(const std::string& tag, const JobView& job,
                                                 NoRoom& none) {
    for (auto& [id, carrier] : carriers_) {
        const bool over =
            carrier.view.finished || carrier.told_s > 0 || carrier.goes() || closed_.contains(id);
        if (over || carrier.facts.group != tag || carrier.view.user_id != job.user_id) continue;
        if (carrier.leaving != Leaving::no) {
            none.full = fmt::format("waits: its array's JobId={} {}", id, carrier.move.why);
            continue;
        }
        if (carrier.running >= carrier.facts.members) {
            if (none.full.empty())
                none.full = fmt::format("waits for room in its array's JobId={}", id);
            continue;
        }
        ++carrier.running;
        ++groups_[tag].joined;
        if (carrier.view.running && !carrier.view.configuring) return &carrier;
        none.begins = fmt::format("waits for its array's JobId={} to begin", id);
        return nullptr;
    }
    return nullptr;
}

/// Of those that wait, as many as may run beside those of their arrays that run already.
std::int64_t ArrayBook::at_a_time(const Group& group) const {
    std::int64_t members = 0;
    for (const auto& [array, tasks] : group.arrays) {
        const auto run = turns_.find(array);
        const std::int64_t taken = run == turns_.end() ? 0 : run->second;
        members += std::clamp<std::int64_t>(tasks.most - taken, 0, tasks.waiting);
    }
    return members;
}

/// Members whose carrier has ended, and who have not noticed yet, and those that it takes along.
std::int64_t ArrayBook::coming_back(const std::string& group) const {
    std::int64_t members = 0;
    for (const auto& [id, carrier] : carriers_) {
        if (carrier.facts.group != group) continue;
        const bool some =
            carrier.view.finished ? wall_s_ - carrier.view.end_s < coming_back_s : carrier.goes();
        if (some) members += carrier.running;
    }
    return members;
}

std::shared_ptr<ArrayLead> ArrayBook::lead_of(const Group& group, std::int64_t chunk,
                                              const SiblingPrice& price,
                                              const ArrayOffer& offer) const {
    auto lead = std::make_shared<ArrayLead>();
    lead->offer = offer;
    CarrierFacts& facts = lead->facts;
    facts.members = chunk;
    facts.member_cpus = config_.array_member_cpus;
    facts.plan = fmt::format("pp{}", offer.gpus);
    facts.iteration_s = offer.iteration_s;
    facts.bubble = offer.bubble;
    const std::int64_t gpus = std::min(offer.gpus, price.gpus_per_node);
    lead->cpus_per_gpu = price.own_cpus_per_gpu > 0
                             ? price.own_cpus_per_gpu
                             : price.cpus_per_gpu - round_up(chunk * facts.member_cpus, gpus);
    if (price.memory_mb_per_gpu > 0) {
        facts.member_memory_mb = MemberMemory(price, gpus).of_each(chunk);
        lead->memory_mb_per_gpu =
            price.memory_mb_per_gpu - round_up(chunk * facts.member_memory_mb, gpus);
    }
    double longest_s = 0;
    for (const JobView* job : group.waiting) {
        if (job->time_limit_s <= 0) return lead;
        longest_s = std::max(longest_s, job->time_limit_s);
    }
    lead->limit_minutes = static_cast<std::int64_t>(std::ceil(longest_s / 60));
    return lead;
}

ArrayBook::Answer ArrayBook::bind(Group& group, const JobView& job, const Request& request,
                                  const SiblingPrice& price, const ArrayOffer& offer) {
    if (group.chunk > 0 && group.in_chunk < group.chunk) {
        ++group.in_chunk;
        return {.fate = Fate::waits,
                .text = fmt::format("waits for a pipeline with its siblings, as JobId={} does",
                                    group.lead)};
    }
    const auto left = static_cast<std::int64_t>(
        group.waiting.end() - std::find(group.waiting.begin(), group.waiting.end(), &job));
    const std::int64_t gpus = std::min(offer.gpus, price.gpus_per_node);
    const std::int64_t by_cpus = members_by_cpus(price, gpus, config_.array_member_cpus);
    const std::int64_t by_memory =
        price.memory_mb_per_gpu > 0 ? MemberMemory(price, gpus).members() : INT64_MAX;
    const std::int64_t most =
        std::min({offer.at_a_time, config_.array_max_members, by_cpus, by_memory});
    if (most < 2)
        return {.text =
                    fmt::format("not bound: the nodes have no {} for members beside {} of "
                                "their pipeline",
                                by_cpus < 2 ? "CPUs" : "memory", by_cpus < 2 ? "those" : "that")};
    // Those before it in the queue have their turns first.
    const std::int64_t turns = at_a_time(group) - std::ssize(group.waiting) + left;
    if (turns < 1) return {.fate = Fate::waits, .text = "waits for earlier tasks of its array"};
    const std::int64_t here = std::min({left, most, turns});
    const double age_s = wall_s_ - group.youngest_s;
    if (request.array_size > here && here < most && age_s < config_.array_wait_s)
        return {.fate = Fate::waits,
                .text = fmt::format("waits for {} more siblings or {:.0f} s",
                                    std::min(request.array_size, most) - here,
                                    config_.array_wait_s - age_s)};
    group.chunk = std::min({most, left + group.rest, turns});
    if (group.chunk < 2) {
        group.chunk = 0;
        return {.text = nobody_with_it(left + group.rest)};
    }
    group.lead = job.id;
    group.in_chunk = 1;
    auto lead = lead_of(group, group.chunk, price, offer);
    lead->shape = shape_of(offer, price, group.chunk, request.global_batch);
    lead->facts.group = group_of_.at(job.id);
    return {.fate = Fate::leads, .lead = std::move(lead)};
}

ArrayBook::Answer ArrayBook::ask(const JobView& job, const Request& request, const Pricing& price) {
    const auto tag = group_of_.find(job.id);
    if (tag == group_of_.end()) return {};
    if (std::string why = why_not_shared(request); !why.empty())
        return {.text = "not bound: " + why};
    if (job.facts.mark && job.facts.mark->lost >= most_lost)
        return {.text = fmt::format(
                    "not bound any more: what trained it with its siblings has ended {} times "
                    "before it was done",
                    job.facts.mark->lost)};
    NoRoom none;
    if (const Carrier* carrier = carrier_with_room(tag->second, job, none))
        return {.fate = Fate::joins, .carrier = carrier->view.id};
    if (!none.begins.empty()) return {.fate = Fate::waits, .text = std::move(none.begins)};
    Answer answer = ask_anew(groups_[tag->second], job, request, price);
    if (answer.fate == Fate::ordinary && !none.full.empty())
        return {.fate = Fate::waits, .text = std::move(none.full)};
    return answer;
}

/// Of a task for which no pipeline has room.
ArrayBook::Answer ArrayBook::ask_anew(Group& group, const JobView& job, const Request& request,
                                      const Pricing& price) {
    const std::string& tag = group_of_.at(job.id);
    if (const auto refused = refusals_.find(tag); refused != refusals_.end())
        return {.text = "not bound: " + refused->second.why};
    if (const std::int64_t back = coming_back(tag); back > 0)
        return {
            .fate = Fate::waits,
            .text = fmt::format("waits for {} of its siblings, which leave their pipeline", back)};
    const std::int64_t members = at_a_time(group) - group.joined;
    if (members < 2 && request.array_size == 0)
        return {.text = nobody_with_it(std::ssize(group.waiting) + group.rest - group.joined)};
    const SiblingPrice found =
        price(std::max<std::int64_t>(std::min(members, std::int64_t{1024}), 2));
    if (!found.offers) return {.fate = Fate::waits, .text = "waits to be priced with its siblings"};
    if (!found.offers->binds) return {.text = found.offers->why};
    return bind(group, job, request, found,
                found.offers->ways[static_cast<std::size_t>(ArrayWay::pipeline)]);
}

}  // namespace arena
