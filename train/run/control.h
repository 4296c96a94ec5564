// SPDX-License-Identifier: GPL-2.0-or-later
// What a run is told between two steps, besides to go on and to leave: to split its micro-batches
// anew, to let two ranks change roles, to park, to check its devices and links. Who tells it is an
// interface; here is the one of a script (--control), chief_control.h has that of a watched job.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/core/pipeline.h"

namespace arena::train {

struct CheckResult;

struct Split {
    std::vector<Index> micro_batches;  ///< of each replica
    bool operator==(const Split&) const = default;
};
/// Ranks as they were started, whatever roles they have by now.
struct Swap {
    Index a = 0, b = 0;
    bool operator==(const Swap&) const = default;
};
/// All ranks wait, for so long at the most.
struct Park {
    double seconds = 0;  ///< 0 to longest_park_s
    bool operator==(const Park&) const = default;
};
/// Every device multiplies the same matrices; then the passes, one after another: the links of a
/// pass each carry the same bytes. Ranks as they were started. What comes of it: hardware_check.h.
struct Check {
    struct Link {
        Index from = 0, to = 0;
        bool operator==(const Link&) const = default;
    };
    using Pass = std::vector<Link>;  ///< no rank is in two links
    Index id = 0;                    ///< of whoever asks
    bool gpus = false;
    std::vector<Pass> passes;
    bool operator==(const Check&) const = default;
};
using Word = std::variant<Split, Swap, Park, Check>;

/// A rank that nobody releases leaves a park by itself then.
inline constexpr double longest_park_s = 60;
inline constexpr double longest_check_s = 60;    ///< in which ranks wait for one that hangs
inline constexpr std::size_t most_passes = 256;  ///< of a check

/// "split 3,1", "swap 0 2", "park 5s", "check 7 gpus links 0>1,2>3|1>2" (passes apart by |; either
/// half may be left out), and back; not yet held against a plan. Untrusted: the chief's words come
/// over the network; numbers in range, at most most_passes passes.
std::string to_text(const Word&);
Result<Word> parse_word(std::string_view text);
/// Whether a run of this plan can obey it.
Status check_word(const Word&, const TrainPlan&);

/// What is said of a step that has ended.
struct StepFacts {
    Index step = 0;  ///< from 1
    double seconds = 0;
    Index tokens = 0;
    /// Of each replica: computing of its slowest rank per micro-batch; empty: not measured.
    std::vector<double> micro_batch_s;
};

/// On rank 0: the others do what all ranks agree on.
class Control {
  public:
    Control() = default;
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;
    virtual ~Control() = default;
    /// Once before each step, which counts from 1: what all ranks do before it, in this order;
    /// words that check_word() takes. Never waits, but before the first one for some seconds.
    virtual std::vector<Word> before(Index step) = 0;
    /// Many times a second in a park: whether it ends before its time.
    virtual bool is_released() = 0;

    virtual void step_done(const StepFacts&) {}
    /// A word before this step, in so many seconds; and what a check has found.
    virtual void obeyed(Index /*step*/, const Word&, double /*seconds*/) {}
    virtual void checked(const CheckResult&) {}
    /// Replicas have so many micro-batches now; a checkpoint took so long.
    virtual void dealt(const std::vector<Index>& /*micro_batches*/) {}
    virtual void saved(double /*seconds*/) {}
    /// Something is slow: these steps say nothing of how long the plan's steps take.
    [[nodiscard]] virtual bool is_event_open() const { return false; }
};

/// Lines "STEP WORD", empty ones and those that begin with #: the word is said before that step. A
/// park ends early where a file of the script's name with .release behind it exists.
class ControlScript final : public Control {
  public:
    static Result<std::unique_ptr<Control>> open(const std::string& path, const TrainPlan&);
    std::vector<Word> before(Index step) override;
    bool is_released() override;

  private:
    struct Line {
        Index step = 0;
        Word word;
    };
    explicit ControlScript(std::string path) : path_(std::move(path)) {}
    Status read(std::string_view text, const TrainPlan&);
    Status read_line(std::string_view line, const TrainPlan&);

    std::string path_;
    std::vector<Line> lines_;
};

}  // namespace arena::train
