// SPDX-License-Identifier: GPL-2.0-or-later
// LoanBook: nodes of inference that are lent to training. The truth of a lease is its node's Extra,
// a reservation called after it keeps inference off, and the partition for lent nodes is filled
// anew each round by what these two say; what is remembered here is clocks and counts. What is
// known and what follows from it are values (loan_view.h, loan_steps.h): here is what is done.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/sched/host/host.h"
#include "plugin/sched/loans/lending_desk.h"
#include "plugin/sched/loans/loan_net.h"
#include "plugin/sched/loans/loan_view.h"
#include "plugin/sched/loans/loan_words.h"
#include "plugin/sched/nodes/node_book.h"
#include "policy/loans/reclaim_moves.h"
#include "site/config.h"

namespace arena {

class LoanBook {
  public:
    /// What ending a job takes beyond KillWait, and a round.
    static constexpr double margin_s = 3;
    /// All three outlive this.
    LoanBook(Host& host, const Config& config, NodeBook& nodes);

    /// Once a round, after NodeBook::new_round(): reads what lending rests on and finds each
    /// node's next step. Makes no call where nothing is lent and nothing may be.
    void new_round(const ClusterView& view);
    /// What jobs on returning nodes are told, in place of what they were told last round.
    void impose(std::map<JobId, Move>& imposed);
    /// Its deadline is so near that it is requeued, whether it has saved its state or not.
    [[nodiscard]] bool must_end(JobId job) const { return plan_.must_end.contains(job); }

    /// The round's steps: guards are set, the partition is filled, leases go to the NodeBook.
    void carry_out();
    /// These nodes' Extra is written: those that are home lose their guard.
    void finish(const std::vector<std::string>& written);
    /// By what this round knows: leases that are over, and where inference's demand decides, nodes
    /// that are lent or taken back. True where new leases are in the NodeBook, to be written.
    [[nodiscard]] bool decide(const Snapshot& snapshot, const Offers& offers);
    /// Arena is off: all that is lent is asked back. True as above.
    [[nodiscard]] bool ask_all_back();

    /// `arena loan`. Nothing is changed by what is refused; new leases are in the NodeBook, to be
    /// written at once. `at`: the last round's.
    struct Offered {
        std::vector<std::pair<std::string, std::string>> leases;  ///< id, node
    };
    Result<Offered> offer(const OfferWords& words);
    struct Returned {
        struct Node {
            std::string lease, node;
            std::int64_t deadline = 0;  ///< epoch seconds
        };
        std::vector<Node> nodes;
        std::vector<JobId> preempted, scaled_in;
        std::vector<JobId> ending;  ///< let run: they end in time, by what was said of their work
        std::size_t missing = 0;    ///< nodes that may not be back in time
        std::string why;            ///< of these
    };
    Result<Returned> reclaim(const ReclaimWords& words, const Snapshot& snapshot,
                             const Offers& offers);

    struct LeaseLine {
        std::string id, node, partition, state;
        std::int64_t since = 0, until = 0, deadline = 0;  ///< epoch seconds; 0 = none
        std::vector<JobId> jobs;
        std::string why;
    };
    struct Told {
        std::vector<LeaseLine> leases;
        std::string problem;  ///< why nothing can be lent, "" = it can
    };
    [[nodiscard]] Told told() const;

    [[nodiscard]] const LoanMemory& memory() const { return memory_; }
    /// Of the book of another configuration.
    void take_over(LoanMemory memory);
    /// Arena is off: what is not training's yet does not become so.
    void stop_lending() { state_.lends = false; }

    /// A round is needed although Slurm has no job of Arena's.
    [[nodiscard]] bool has_work() const { return !state_.has_looked || is_active(); }
    /// Steps were taken that others follow: the next round is to come soon.
    [[nodiscard]] bool hurries() const { return state_.hurries; }

  private:
    using Planned = LoanPlan::Node;
    [[nodiscard]] bool is_active() const;
    void read_leases();
    void note_clocks(const ClusterView& view);
    void count_use(double seconds);
    void notice_hands();
    void notice_partition();
    void break_lease(const std::string& node, const std::string& why);
    [[nodiscard]] LoanNode look(const std::string& node);
    void note_guard(const std::string& node, bool is_right);
    void note_gone(const std::string& node, LoanNode& is);
    void look_at_net();
    void plan_moves();
    void move_off(const Planned& planned);
    void yield(const Planned& planned);
    void set_guard(Planned& planned);
    void set_list();
    void keep_lease(const Planned& planned);
    void went_home(const Planned& planned);
    void put(const std::string& node, const Lease& lease);
    void drop(const std::string& node);
    [[nodiscard]] Status check_offer(const std::vector<std::string>& nodes) const;
    [[nodiscard]] std::string problem() const;
    [[nodiscard]] double left_s(const std::string& node) const;
    [[nodiscard]] double ending_s() const;
    [[nodiscard]] double to_end_s(double deadline_s) const;
    [[nodiscard]] EndsInTime ends_within(double deadline_s) const;
    Returned give_back(const std::vector<std::string>& nodes, double deadline_s, EndsInTime ends,
                       const Snapshot& snapshot, const Offers& offers);
    void announce(const std::vector<std::string>& nodes, const Snapshot& snapshot,
                  const Offers& offers, const EndsInTime& ends, Returned& returned);
    [[nodiscard]] std::vector<JobId> ending_on(const std::string& node,
                                               const Returned& returned) const;
    [[nodiscard]] bool is_let_run(const Planned& planned, JobId job);
    void note_doubts(const std::vector<std::string>& nodes, double deadline_s,
                     Returned& returned) const;
    [[nodiscard]] bool end_leases(const Snapshot& snapshot, const Offers& offers);
    [[nodiscard]] std::vector<std::string> wanted_by_inference(const Snapshot& snapshot,
                                                               const Offers& offers) const;
    [[nodiscard]] bool follow_demand(const Snapshot& snapshot, const Offers& offers);
    void lend(const std::vector<std::string>& nodes, std::int64_t until);
    void complain(const std::string& about, const std::string& why);

    struct Since {
        std::map<std::string, double> gone, home, open;  ///< nodes: when, by the monotonic clock
        std::set<JobId> overstayed;                      ///< that were told so
    };
    struct State {
        bool hurries = false, list_failed = false, lends = true;
        bool is_first = true;        ///< no round has been: what guards there are, are saved
        bool has_looked = false;     ///< for leases
        bool is_unfinished = false;  ///< a node is home, and Slurm would not take its guard away
    };

    Host& host_;
    const Config& config_;
    NodeBook& nodes_;
    LoanView view_;
    LoanMemory memory_;
    LoanHands hands_;
    LoanPlan plan_;
    Since since_;
    State state_;
    std::map<std::string, std::string> complaints_;
    LendingDesk desk_;
    LoanNet net_;
};

}  // namespace arena
