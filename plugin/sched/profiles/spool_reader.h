// SPDX-License-Identifier: GPL-2.0-or-later
// SpoolReader: looks into the profile spool on a thread of its own. The spool is shared with the
// nodes: a file server that is away blocks open() for as long as it likes, and neither a round nor
// the end of slurmctld's plug-in may wait for that. A thread that does not come back is left behind
// with all that it needs, and the library stays loaded for it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "checks/node_check.h"
#include "core/profile.h"

namespace arena {

/// How long a finished carrier's missing result is waited for, and a spool that does not answer.
inline constexpr double result_grace_s = 3, silence_grace_s = 30;

class SpoolReader {
  public:
    /// What is asked of the spool, by nonce. Copied into the thread: must own what it uses.
    struct Source {
        std::function<Result<Profile>(const std::string&)> result;
        std::function<Result<ProfileProgress>(const std::string&)> progress;
        std::function<Result<NodeCheck>(const std::string&)> check = {};
    };
    explicit SpoolReader(Source source);
    /// Waits at most stop_wait.
    ~SpoolReader();
    SpoolReader(const SpoolReader&) = delete;
    SpoolReader& operator=(const SpoolReader&) = delete;

    /// Each asks, and waits for the answer while the spool answers at all: at most `patience` until
    /// something is left unanswered, then not at all. Nothing: not answered yet, ask again later.
    std::optional<Result<Profile>> result(const std::string& nonce);
    std::optional<Result<ProfileProgress>> progress(const std::string& nonce);
    std::optional<Result<NodeCheck>> check(const std::string& nonce);
    /// Since when the spool owes an answer, in seconds; 0: it owes none.
    [[nodiscard]] double silent_s() const;

    static constexpr std::chrono::milliseconds patience{500}, stop_wait{500};

  private:
    struct State;
    static void work(const std::shared_ptr<State>& state, const Source& source);
    template <class Answer>
    std::optional<Answer> ask(const std::string& nonce);

    std::shared_ptr<State> state_;
    std::thread thread_;
};

/// Of a directory whose files belong to the user; see read_spool_profile().
SpoolReader::Source spool_source(const std::string& directory, unsigned owner_uid);

}  // namespace arena
