// SPDX-License-Identifier: GPL-2.0-or-later
// A profile spool whose file server is away: neither a round nor the end waits for it.
#include <fcntl.h>

#include <condition_variable>
#include <mutex>

#include "plugin/sched/profiles/spool_reader.h"
#include "suite.h"

using namespace arena;

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Answers while it is open; who asks while it is shut hangs, as open() does on a dead NFS server.
struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = true;
    int asked = 0, gone = 0;

    void pass() {
        std::unique_lock lock(mutex);
        ++asked;
        changed.notify_all();
        changed.wait(lock, [&] { return open; });
        ++gone;
        changed.notify_all();
    }
    void set(bool to) {
        const std::lock_guard lock(mutex);
        open = to;
        changed.notify_all();
    }
    bool wait_gone(int count) {
        std::unique_lock lock(mutex);
        return changed.wait_for(lock, 30s, [&] { return gone >= count; });
    }
};

SpoolReader::Source source_of(const std::shared_ptr<Gate>& gate) {
    return {[gate](const std::string& nonce) -> Result<Profile> {
                gate->pass();
                Profile profile;
                profile.nonce = nonce;
                return profile;
            },
            [gate](const std::string&) -> Result<ProfileProgress> {
                gate->pass();
                return no_error("no progress yet");
            }};
}

TEST(a_spool_that_answers_answers_at_once) {
    const auto gate = std::make_shared<Gate>();
    SpoolReader reader(source_of(gate));
    for (const char* nonce : {"a", "b", "a"}) {
        const auto result = reader.result(nonce);
        ck_assert(result && result->ok() && (*result)->nonce == nonce);
        const auto progress = reader.progress(nonce);
        ck_assert(progress && !progress->ok());
    }
    ck_assert_int_eq(gate->gone, 6);
    ck_assert_double_eq(reader.silent_s(), 0);
}

TEST(one_that_hangs_is_waited_for_once_and_answers_when_it_is_back) {
    const auto gate = std::make_shared<Gate>();
    gate->set(false);
    SpoolReader reader(source_of(gate));
    auto start = Clock::now();
    ck_assert(!reader.result("a"));
    ck_assert_double_lt(seconds_since(start), 5);
    start = Clock::now();
    for (int i = 0; i < 1000; ++i) ck_assert(!reader.result("a") && !reader.progress("b"));
    ck_assert_double_lt(seconds_since(start),
                        0.5 * std::chrono::duration<double>(SpoolReader::patience).count() * 10);
    ck_assert_double_gt(reader.silent_s(), 0.4);
    gate->set(true);
    ck_assert(gate->wait_gone(2));
    const auto deadline = Clock::now() + 30s;
    std::optional<Result<Profile>> result;
    while (!result && Clock::now() < deadline) result = reader.result("a");
    ck_assert(result && (*result)->nonce == "a");
    ck_assert_msg(reader.result("c").has_value(), "it is waited for again");
}

TEST(the_end_does_not_wait_for_a_spool_that_hangs) {
    const auto gate = std::make_shared<Gate>();
    gate->set(false);
    {
        auto reader = std::make_unique<SpoolReader>(source_of(gate));
        ck_assert(!reader->result("a"));
        const auto start = Clock::now();
        reader.reset();
        ck_assert_msg(seconds_since(start) < 1 + 2, "%f s",
                      seconds_since(start));  // half a second on an idle machine
    }
    gate->set(true);  // the thread comes back to what it needs, and ends
    ck_assert(gate->wait_gone(1));
    SpoolReader next(source_of(gate));
    ck_assert(next.result("b").has_value());
}

TEST(a_spool_that_never_comes_back_fills_no_process_with_threads) {
    const auto gate = std::make_shared<Gate>();
    gate->set(false);
    for (int i = 0; i < 7; ++i) {
        SpoolReader reader(source_of(gate));
        ck_assert(!reader.result("a"));
    }
    ck_assert_int_le(gate->asked, 4);
    gate->set(true);
    ck_assert(gate->wait_gone(4));
}

}  // namespace
