// SPDX-License-Identifier: GPL-2.0-or-later
// What the scheduler plug-in said last, for however many want to know: one question at a time, by a
// thread of its own, and none while the last answer is young. Who comes meanwhile gets that one.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"

namespace arena::cli {

enum class DocumentKind { stats, live };

struct Document {
    std::string text;     ///< JSON; "" = none
    std::string problem;  ///< why there is none; "" = there is
    double took_s = 0;    ///< how long the answer took
};

struct DocumentCounts {
    std::uint64_t questions = 0, failures = 0;
};

class Documents {
  public:
    using Clock = std::chrono::steady_clock;
    using Ask = std::function<Result<std::string>()>;
    struct Limits {
        /// An answer is given out again for so long, by kind.
        std::array<Clock::duration, 2> young = {std::chrono::seconds(1),
                                                std::chrono::milliseconds(500)};
        /// Who waits longer for an answer is told that there is none.
        Clock::duration patience = std::chrono::seconds(4);
    };

    /// `on_answer` is called by the thread.
    Documents(std::array<Ask, 2> ask, Limits limits, std::function<void()> on_answer);
    /// Waits for the question that is being asked.
    ~Documents();
    Documents(const Documents&) = delete;
    Documents& operator=(const Documents&) = delete;

    /// A young one, or one that says that none came in time; null: it is being asked for, ask again
    /// after on_answer or a moment. Takes a moment at most.
    std::shared_ptr<const Document> get(DocumentKind kind, Clock::time_point now = Clock::now());
    [[nodiscard]] DocumentCounts counts() const;

  private:
    struct Slot {
        std::shared_ptr<const Document> last;
        Clock::time_point at{};                   ///< when it came
        std::optional<Clock::time_point> wanted;  ///< since when somebody waits
    };
    void run();
    std::optional<std::size_t> next_question();

    std::array<Ask, 2> ask_;
    Limits limits_;
    std::function<void()> on_answer_;
    mutable std::mutex mutex_;
    std::condition_variable wanted_;
    std::array<Slot, 2> slots_;
    DocumentCounts counts_;
    bool stopping_ = false;
    std::thread thread_;  ///< last: it uses all above
};

}  // namespace arena::cli
