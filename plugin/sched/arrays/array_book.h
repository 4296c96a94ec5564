// SPDX-License-Identifier: GPL-2.0-or-later
// ArrayBook: which tasks of job arrays are siblings, which of them one pipeline trains together
// (ArrayPipe), and what each has used of it. A carrier is a job of their user; each member is a job
// of its own that attaches to it. What is true stands in Slurm's records (marks of members, facts
// of carriers) and is read anew each round; shares alone are kept here, and written now and then.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugin/sched/arrays/carrier_words.h"

namespace arena {

/// What a waiting task could do with its siblings, on the type of GPU where that is best.
struct SiblingPrice {
    std::shared_ptr<const ArrayOffers> offers;  ///< null: still to be priced
    std::string gpu_type;
    std::int64_t gpus_per_node = 1;
    /// That the carrier and its members may have; 0: any.
    std::int64_t cpus_per_gpu = 1, memory_mb_per_gpu = 0;
    std::int64_t own_cpus_per_gpu = 0;  ///< of the carrier, by its user's word; 0: not said
    std::int64_t member_memory_mb = 0;  ///< of each member, the same
};

/// A waiting task that starts a pipeline for itself and its siblings where it gets GPUs.
struct ArrayLead {
    ArrayOffer offer;
    Offer shape;         ///< the same, as the policy sees it
    CarrierFacts facts;  ///< without key and socket
    std::int64_t cpus_per_gpu = 1, memory_mb_per_gpu = 0;
    std::int64_t limit_minutes = 0;  ///< of its longest member; 0 = none
};

class ArrayBook {
  public:
    ArrayBook(HostArrays& host, const Config& config) : host_(host), config_(config) {}

    /// What carriers and members are now. Nothing is asked of Slurm where there is no carrier.
    void new_round(const ClusterView& view);
    /// A waiting task that may start, or the record that stands for tasks; in the queue's order,
    /// before anything is asked. Both outlive the round's questions.
    void add(const JobView& job, const Request& request, const std::string& fingerprint);

    enum class Fate { ordinary, waits, joins, leads };
    struct Answer {
        Fate fate = Fate::ordinary;
        std::string text = {};  ///< why it waits, or why it is not bound; "" = it has no siblings
        JobId carrier = 0;      ///< joins
        std::shared_ptr<const ArrayLead> lead = {};
    };
    using Pricing = std::function<SiblingPrice(std::int64_t members)>;
    /// What becomes of a task that was added, asked once a round and in the queue's order.
    Answer ask(const JobView& job, const Request& request, const Pricing& price);

    /// A member did not start, nor will others: its carrier takes no more of them.
    void close(JobId carrier, const std::string& why);
    /// A member did not start, for now.
    void note_trouble(JobId carrier, const std::string& why);
    /// A limit is in the way of the lead's carrier: for a while its siblings run by themselves.
    void refuse(const JobView& lead, const std::string& why);
    /// A member has started, in this round.
    void has_started(JobId carrier);
    /// A limit keeps a member from starting beside its carrier. Where that has none, it would wait
    /// for members that wait for its own job to end: it ends, and they run by themselves.
    void refuse_member(const JobView& member, JobId carrier, const std::string& why);
    /// How a carrier leaves its nodes: not yet, but it takes no more members; told, so that its
    /// members are saved; cancelled.
    enum class Leaving { no, later, told, at_once };
    /// Of this round, before anybody is asked. Once it is told it goes, whatever is said later;
    /// its members are bound anew.
    void leave(JobId carrier, const Move& move, Leaving how);
    /// Has those leave that are to, ends carriers that nobody needs, and writes shares of members
    /// that are over. Siblings of one that trained nobody run by themselves for a while: the next
    /// one would fare no better. Which moves have begun.
    std::vector<Move> settle();
    /// A carrier was started.
    void has_begun(JobId carrier) { begun_.insert(carrier); }

    struct Share {
        ArrayPlace place;
        double gpu_s = 0;
        double written_gpu_s = 0;  ///< that its record has
        bool here = false;         ///< it runs
    };
    struct Carrier {
        ArrayCarrierView view;
        CarrierFacts facts;
        std::map<JobId, Share> members;
        std::int64_t running = 0;  ///< members, with those that join in this round
        double unshared_gpu_s = 0, shared_until_s = 0;
        double gone_gpu_s = 0;     ///< of members that were over before slurmctld was restarted
        double written_s = 0;      ///< when shares were written last
        double empty_since_s = 0;  ///< by the monotonic clock; 0: somebody is there
        double idle_since_s = 0;   ///< when it was needed last
        double told_s = 0;         ///< when it was told to end
        double begun_s = 0;        ///< by the monotonic clock
        std::optional<double> left_s = {};  ///< the same: when it was told to leave its nodes
        Leaving leaving = Leaving::no;      ///< in this round
        Move move = {};                     ///< why, as it was said last
        /// Its members are on their way to another one, or will be in a moment.
        [[nodiscard]] bool goes() const { return left_s || leaving > Leaving::later; }
        bool had_members = false, is_settled = false;
        std::string trouble = {};  ///< why the latest member did not start beside it
    };
    using Carriers = std::map<JobId, Carrier>;
    [[nodiscard]] const Carriers& carriers() const { return carriers_; }
    /// For the book of another configuration.
    [[nodiscard]] Carriers keep() { return std::exchange(carriers_, {}); }
    void take_over(Carriers carriers) { carriers_ = std::move(carriers); }

  private:
    struct Group {
        std::vector<const JobView*> waiting;
        std::int64_t rest = 0;  ///< tasks that have no record of their own
        struct Tasks {
            std::int64_t waiting = 0, most = 0;  ///< with and without a record; at a time
        };
        std::map<JobId, Tasks> arrays = {};
        std::int64_t joined = 0;    ///< of those that wait, in this round
        std::int64_t in_chunk = 0;  ///< behind the latest lead
        std::int64_t chunk = 0;     ///< members of the latest lead
        JobId lead = 0;
        double youngest_s = 0;  ///< eligible since
    };
    struct Refusal {
        std::string why;
        double until_s = 0;
    };
    void read_carriers(const ClusterView& view);
    void take_members(const ClusterView& view);
    void share_out(Carrier& carrier) const;
    void settle(Carrier& carrier);
    void write_shares(Carrier& carrier);
    bool see_off(Carrier& carrier);
    void end_unneeded(Carrier& carrier);
    void give_up(const Carrier& carrier, const std::string& why);
    [[nodiscard]] bool is_needed(const Carrier& carrier) const;
    [[nodiscard]] std::int64_t at_a_time(const Group& group) const;
    [[nodiscard]] std::int64_t coming_back(const std::string& group) const;
    /// Why a task that finds none to join waits; `full`: for room, if it starts none with others.
    struct NoRoom {
        std::string begins = {}, full = {};
    };
    Carrier* carrier_with_room(const std::string& tag, const JobView& job, NoRoom& none);
    Answer ask_anew(Group& group, const JobView& job, const Request& request, const Pricing& price);
    Answer bind(Group& group, const JobView& job, const Request& request, const SiblingPrice& price,
                const ArrayOffer& offer);
    [[nodiscard]] std::shared_ptr<ArrayLead> lead_of(const Group& group, std::int64_t chunk,
                                                     const SiblingPrice& price,
                                                     const ArrayOffer& offer) const;

    HostArrays& host_;
    const Config& config_;
    double now_s_ = 0, wall_s_ = 0;
    Carriers carriers_;
    std::set<JobId> closed_;
    std::set<JobId> begun_;  ///< started, and not seen yet: one may end between two rounds
    std::map<std::string, Group> groups_;    ///< by tag, of this round
    std::map<JobId, std::string> group_of_;  ///< of those that were added
    std::map<JobId, std::int64_t> turns_;    ///< tasks of an array that run
    std::map<std::string, Refusal> refusals_;
    std::vector<HostArrays::ShareWords> words_;
};

/// The facts of a carrier that members may join; nullptr: there is none of this id.
const ArrayBook::Carrier* find_carrier(const ArrayBook::Carriers& carriers, JobId id);
/// What a member is told of its carrier.
std::string words_of_carrier(const ArrayBook::Carriers& carriers, JobId id);

/// Tasks of the same model, batch, launcher, size and GPUs, and of the same user, account, QOS and
/// partitions, that ask the same of nodes: one word for all of it, the same in every round.
std::string group_tag(const JobView& job, const Request& request, const std::string& fingerprint);

}  // namespace arena
