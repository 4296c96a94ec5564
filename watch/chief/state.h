// SPDX-License-Identifier: GPL-2.0-or-later
// The inside of the chief. It keeps what it wants (another split, other places, a check) apart from
// what is so: at each turn the trainer is told at most one word that leads from here to there.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "slowdown/ski_rental.h"
#include "slowdown/waits.h"
#include "watch/chief/answers.h"
#include "watch/chief/checks.h"
#include "watch/chief/chief.h"
#include "watch/chief/culprits.h"
#include "watch/chief/lines.h"
#include "watch/chief/profile.h"
#include "watch/chief/tracking.h"
#include "watch/chief/trainer.h"

namespace arena::watch {

class Chief::State {
  public:
    explicit State(const ChiefOptions& options);

    void on(PeerId from, const Frame& frame, const Now& now);
    void gone(PeerId peer, const Now& now);
    void tick(const Now& now);
    /// What has been decided since the last call.
    Actions take();

  private:
    struct Agent {
        std::string node;
        std::int64_t number = 0;            ///< in their order
        std::set<std::int64_t> ranks = {};  ///< the first few
    };
    enum class Phase {
        profiling,  ///< communicators are timed
        checking,   ///< a check is said, or about to be
        pausing,    ///< checks said nothing: again at until_s
        known,      ///< what is slow, or that nobody can find out
    };
    enum class Purpose { baseline, validation, recheck };
    /// The event that is open.
    struct Open {
        double healthy = 0;  ///< seconds, or seconds per token, of a step before it
        std::int64_t onset_ms = 0;
        double opened_s = 0, lost_s = 0;
        std::size_t steps = 0;  ///< since it was opened
        double settled = 0;     ///< level since the last verdict or word
        Phase phase = Phase::profiling;
        double until_s = 0;
        int attempts = 0;        ///< checks that said nothing
        bool is_narrow = false;  ///< suspicious groups' links alone are checked
        std::vector<slowdown::Pass> passes = {};
        std::optional<slowdown::SkiRental> rental = {};
        std::vector<slowdown::Strategy> due = {};
        std::vector<slowdown::Look> looks = {};  ///< at slow steps, in a job that nobody can check
        int rounds_of_looks = 0;
        bool wants_restart = false, is_told_stuck = false;
        double next_recheck_s = 0, next_redo_s = 0, decided_s = 0;
    };
    // ---- frames (chief.cc)
    void hello(PeerId from, const AgentHello& hello);
    void hello(PeerId from, const TrainerHello& hello);
    void on_agent(PeerId from, Agent& agent, const Frame& frame);
    void on_trainer(const Frame& frame);
    void take_plan(const TrainerPlan& plan);
    void tell_gone(std::int64_t step_end_ms);
    void take_rank(PeerId from, Agent& agent, const RankHere& here);
    void take_iterations(const Agent& agent, const Iterations& iterations);
    void take_step(const StepDone& step);
    void forget_trainer();
    void note_some(LogLine line, TokenBucket& bucket);
    void complain(std::string text);
    void tell_trainer();
    void tell_agents(const Frame& frame);
    [[nodiscard]] SlowPlace place_of(std::int64_t rank) const;

    // ---- the event (event.cc)
    void on_steps(const JobSteps& seen);
    void count_step(const IterationTime& step);
    [[nodiscard]] bool is_slow_still() const;
    [[nodiscard]] double present_level() const;
    void open();
    void worsened();
    void close(std::int64_t relief_ms);
    void begin_profile();
    void end_profile();
    void begin_checks(bool is_narrow);
    void conclude_without_checks();
    void tell_unexplained();
    /// told: what was measured well enough to forgive whoever is not in the verdict.
    void conclude(const slowdown::Verdict& verdict, const slowdown::CheckRound& told);
    void begin_rental();
    void forget_answers();
    [[nodiscard]] bool is_decided() const {
        return open_->phase == Phase::known || open_->phase == Phase::pausing;
    }

    // ---- who waits for whom, where nobody can check (waiting.cc)
    void look_while_healthy();
    void keep_healthy_look();
    void forget_looks_since(double at_s);
    [[nodiscard]] slowdown::Look healthy_look() const;
    [[nodiscard]] double usual_step_s() const;
    [[nodiscard]] double look_within_s(std::int64_t iterations) const;
    [[nodiscard]] std::int64_t iterations_of_look() const;
    void look_again();
    void take_look();
    void conclude_by_waiting(const slowdown::WaitVerdict& verdict);
    [[nodiscard]] std::vector<Culprits::Suspicion> suspicions(
        const slowdown::WaitVerdict& verdict) const;
    void begin_restart_rental();
    [[nodiscard]] bool all_told() const {
        return !places_.empty() && profile_.ranks() >= places_.size();
    }

    [[nodiscard]] Situation situation() const;
    [[nodiscard]] StepLevel level_of(bool before) const;

    // ---- checks (validation.cc)
    void on_checked(const Checked& checked);
    void take_baseline(const slowdown::CheckRound& round, double seconds);
    void tell_odd_gpus();
    void take_validation(const slowdown::CheckRound& round, double seconds);
    void take_recheck(const slowdown::CheckRound& round, double seconds);
    [[nodiscard]] slowdown::CheckRound told_by(const Judged& judged) const;
    void tell_healthy();
    void over_by_check();
    void nothing_slow(const Judged& judged);
    void nothing_found(const std::string& why);
    void check_failed(Purpose purpose, const std::string& why);
    void check_hung(Purpose purpose, const std::string& why);
    [[nodiscard]] std::optional<Purpose> wanted_check() const;
    void say_check(Purpose purpose);
    [[nodiscard]] std::vector<slowdown::Pass> links_of_culprits() const;

    // ---- what is done (steer.cc)
    void turn();
    void expire();
    void steer();
    void steer_known();
    void answer_due();
    bool answer(slowdown::Strategy strategy);
    void redo_split();
    void tell_stuck();
    void on_obeyed(const Obeyed& obeyed);
    void on_lost(const Trainer::Word& word);
    void speak();
    bool say_move();
    void report();
    [[nodiscard]] bool is_mitigating() const;
    [[nodiscard]] bool is_moving() const;

    void note(LogLine line) { actions_.lines.push_back(std::move(line)); }

    ChiefOptions options_;
    Now now_;
    Actions actions_;
    TokenBucket complaints_{{.burst = 20, .every_s = 5}, 0};
    TokenBucket remarks_{{.burst = 256, .every_s = 1}, 0};
    TokenBucket tells_{{.burst = 20, .every_s = 10}, 0};
    TokenBucket estimates_{{.burst = 256, .every_s = 0.5}, 0};

    std::map<PeerId, Agent> agents_;
    std::int64_t agents_so_far_ = 0;
    std::map<std::int64_t, SlowPlace> places_;  ///< as agents say
    std::set<std::int64_t> silent_;
    std::map<std::string, std::int64_t> gone_agents_;  ///< by node: when, until it is told
    Trainer trainer_;
    struct LastTrainer {
        std::vector<std::string> nodes;
        Placement placement;  ///< of its ranks
    };
    LastTrainer last_trainer_;
    Tracking tracking_;
    GroupProfile profile_;
    struct HealthyLook {
        double end_s = 0;
        slowdown::Look look;
    };
    struct HealthyLooks {
        std::deque<HealthyLook> kept;
        std::optional<double> begun_s;  ///< one goes on
        double next_s = 0;
        std::size_t told = 0;  ///< how many are kept, since the last event
    };
    HealthyLooks healthy_looks_;

    /// Steps that the trainer told, the last few; those behind since_word_ are of one level.
    std::deque<StepDone> steps_;
    std::deque<IterationTime> recent_;  ///< of the job, since the last word
    std::size_t steps_since_word_ = 0;
    std::int64_t steps_watched_ = 0;
    StepLevel healthy_;
    double quiet_until_s_ = 0;  ///< no event opens before

    Rounds baseline_;
    int baseline_wanted_ = usual_rounds, baseline_failures_ = 0;
    Rounds rounds_;
    slowdown::Verdict found_before_;  ///< by the check before this one, of the same event
    std::optional<Purpose> check_;    ///< said, not answered
    std::int64_t checks_ = 0;

    std::optional<Open> open_;
    Culprits culprits_;
    std::vector<slowdown::SlowGpu> slow_gpus_;
    slowdown::CheckRound found_by_;  ///< what the last verdict rests on
    slowdown::Cause cause_ = slowdown::Cause::compute;
    std::optional<Counts> wanted_counts_;
    std::optional<Placement> wanted_placement_;
    int words_lost_ = 0;
    bool placement_is_known_ = true;
};

}  // namespace arena::watch
