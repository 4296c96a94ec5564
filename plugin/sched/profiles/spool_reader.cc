// SPDX-License-Identifier: GPL-2.0-or-later
// See spool_reader.h.
#include "plugin/sched/profiles/spool_reader.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>
#include <variant>

#include "store/store.h"

namespace arena {
namespace {

using Clock = std::chrono::steady_clock;

/// Threads left behind in this process, which a spool that never comes back must not fill.
constexpr int max_left_behind = 4;
std::atomic<int> left_behind{0};
/// Answers that nobody has fetched, of runs that are gone.
constexpr std::size_t max_unfetched = 256;

/// The thread that is left behind runs this library's code.
void keep_library() {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<void*>(&keep_library), &info) != 0 && info.dli_fname)
        (void)::dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace

struct SpoolReader::State {
    using Answer = std::variant<Result<Profile>, Result<ProfileProgress>, Result<NodeCheck>>;
    using Question = std::pair<std::size_t, std::string>;  ///< Answer's index, nonce
    static Answer answer_to(const Question& question, const Source& source);
    std::mutex mutex;
    std::condition_variable asked, answered, ended;
    std::deque<Question> questions;  ///< the first is being looked at
    std::map<Question, Answer> answers;
    Clock::time_point since;  ///< of the first question
    bool late = false;        ///< somebody has waited for the first one in vain
    bool stopping = false, left = false, done = false;
};

SpoolReader::State::Answer SpoolReader::State::answer_to(const Question& question,
                                                         const Source& source) {
    const auto& [kind, nonce] = question;
    if (kind == 0) return source.result(nonce);
    if (kind == 1) return source.progress(nonce);
    return source.check(nonce);
}

void SpoolReader::work(const std::shared_ptr<State>& state, const Source& source) {
    std::unique_lock lock(state->mutex);
    while (!state->stopping) {
        if (state->questions.empty()) {
            state->asked.wait(lock);
            continue;
        }
        const State::Question question = state->questions.front();
        lock.unlock();
        State::Answer answer = State::answer_to(question, source);
        lock.lock();
        if (state->answers.size() >= max_unfetched) state->answers.clear();
        state->answers.insert_or_assign(question, std::move(answer));
        state->questions.pop_front();
        state->since = Clock::now();
        state->late = false;
        state->answered.notify_all();
    }
    state->done = true;
    if (state->left) --left_behind;
    state->ended.notify_all();
}

SpoolReader::SpoolReader(Source source) : state_(std::make_shared<State>()) {
    if (left_behind >= max_left_behind) return;  // the spool is away: nothing is answered
    thread_ = std::thread([state = state_, source = std::move(source)] { work(state, source); });
}

SpoolReader::~SpoolReader() {
    if (!thread_.joinable()) return;
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->asked.notify_all();
    const auto is_done = [&] { return state_->done; };
    const bool done = state_->ended.wait_for(lock, stop_wait, is_done);
    if (!done) {
        state_->left = true;
        ++left_behind;
    }
    lock.unlock();
    if (done) {
        thread_.join();
    } else {
        keep_library();
        thread_.detach();
    }
}

template <class Answer>
std::optional<Answer> SpoolReader::ask(const std::string& nonce) {
    constexpr std::size_t kind = std::is_same_v<Answer, Result<Profile>>           ? 0
                                 : std::is_same_v<Answer, Result<ProfileProgress>> ? 1
                                                                                   : 2;
    const State::Question question{kind, nonce};
    std::unique_lock lock(state_->mutex);
    auto& questions = state_->questions;
    if (!state_->answers.contains(question) &&
        std::find(questions.begin(), questions.end(), question) == questions.end()) {
        if (questions.empty()) state_->since = Clock::now();
        questions.push_back(question);
        state_->asked.notify_all();
    }
    const auto is_answered = [&] { return state_->answers.contains(question); };
    if (!state_->late && thread_.joinable() &&
        !state_->answered.wait_for(lock, patience, is_answered))
        state_->late = true;
    const auto at = state_->answers.find(question);
    if (at == state_->answers.end()) return std::nullopt;
    std::optional<Answer> answer(std::get<Answer>(std::move(at->second)));
    state_->answers.erase(at);
    return answer;
}

std::optional<Result<Profile>> SpoolReader::result(const std::string& nonce) {
    return ask<Result<Profile>>(nonce);
}

std::optional<Result<ProfileProgress>> SpoolReader::progress(const std::string& nonce) {
    return ask<Result<ProfileProgress>>(nonce);
}

std::optional<Result<NodeCheck>> SpoolReader::check(const std::string& nonce) {
    return ask<Result<NodeCheck>>(nonce);
}

double SpoolReader::silent_s() const {
    const std::lock_guard lock(state_->mutex);
    if (state_->questions.empty()) return 0;
    return std::chrono::duration<double>(Clock::now() - state_->since).count();
}

SpoolReader::Source spool_source(const std::string& directory, unsigned owner_uid) {
    return {
        [=](const std::string& nonce) { return read_spool_profile(directory, nonce, owner_uid); },
        [=](const std::string& nonce) { return read_spool_progress(directory, nonce, owner_uid); },
        [=](const std::string& nonce) { return read_spool_check(directory, nonce, owner_uid); }};
}

}  // namespace arena
