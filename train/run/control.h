// SPDX-License-Identifier: GPL-2.0-or-later
// What a run is told between two steps, besides to go on and to leave: to split its micro-batches
// anew, to let two ranks change roles, to park. Who tells it is an interface; here is the one
// of a script (--control).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/core/pipeline.h"

namespace arena::train {

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
using Word = std::variant<Split, Swap, Park>;

/// A rank that nobody releases leaves a park by itself then.
inline constexpr double longest_park_s = 60;

/// "split 3,1", "swap 0 2", "park 5s", and back; not yet held against a plan.
std::string to_text(const Word&);
Result<Word> read_word(std::string_view text);
/// Whether a run of this plan can obey it.
Status check_word(const Word&, const TrainPlan&);

/// One on each rank.
class Control {
  public:
    Control() = default;
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;
    virtual ~Control() = default;
    /// On rank 0, once before each step, which counts from 1: what all ranks do before it, in this
    /// order; words that check_word() takes. Never waits.
    virtual std::vector<Word> before(Index step) = 0;
    /// On each rank, many times a second while it is parked: whether it goes on before its time.
    virtual bool is_released() = 0;
};

/// Lines "STEP WORD", empty ones and those that begin with #: the word is said before that step. A
/// park ends early where a file of the script's name with .release behind it exists. Rank 0 reads
/// the script; the others know its name.
class ControlScript final : public Control {
  public:
    static Result<std::unique_ptr<Control>> open(const std::string& path, const TrainPlan&,
                                                 bool is_chief);
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
