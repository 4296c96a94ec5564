// SPDX-License-Identifier: GPL-2.0-or-later
// Rows of the profile store: reports and collectives come back as they were kept, and rows that
// cannot be (another program's, a failing disk's) are named by verify(), never used, and removed by
// remove_bad() alone. Neither of the two ways to open a store takes them for a damaged file.
#include <algorithm>
#include <functional>
#include <limits>

#include "store_cases.h"

using namespace arena;
using namespace arena::test;

TEST(what_jobs_observed_comes_back_and_the_latest_of_a_shape_stays) {
    auto store = must_open();
    must(store->reports().keep(observed_run(1.5, 1)));
    must(store->reports().keep(observed_run(0.8, 2)));
    must(store->reports().keep(observed_run(1.25, 1)));
    for (const double wrong : {0.0, -1.0, std::numeric_limits<double>::infinity()})
        ck_assert(!store->reports().keep(observed_run(wrong, 1)).ok());
    store.reset();
    store = must_open();
    const auto observed = store->reports().all();
    ck_assert(observed.ok() && observed->bad.empty());
    const auto& runs = observed->runs;
    ck_assert_uint_eq(runs.size(), 2);
    ck_assert(runs[0] == observed_run(0.8, 2) && runs[1] == observed_run(1.25, 1));
    ck_assert(store->verify()->empty());
    ck_assert(store->prune(1700000001).ok());
    ck_assert(store->reports().all()->runs.empty());
}

TEST(communication_times_come_back_and_newer_ones_replace_older) {
    auto store = must_open();
    CommTime t{"a40", CommOp::all_reduce, 8, 2, 1, 1 << 20, 1e-3, 2e-3, 3e-3};
    CommTime small = t;
    small.bytes = 1024;
    ck_assert_int_eq(store->comm().import({t, small}, "nccl").value(), 2);
    t.median_s = 1.5e-3;
    ck_assert_int_eq(store->comm().import({t}, "nccl").value(), 1);
    const auto rows = must(store->comm().times("a40"));
    ck_assert_uint_eq(rows.size(), 2);
    ck_assert(rows.front() == small && rows.back() == t);
    ck_assert(store->comm().times("v100")->empty());
    CommTime far = t;  // of nodes that lie elsewhere: beside the others
    far.span = CommSpan::pods;
    far.median_s = 2.5e-3;
    must(store->comm().import({far}, "nccl"));
    const auto all = must(store->comm().times("a40"));
    ck_assert(all.size() == 3 && std::ranges::find(all, far) != all.end());
    sql("DELETE FROM comm WHERE span = 'pods'");
    CommTime bad = t;
    bad.nodes = 3;
    ck_assert(!store->comm().import({small, bad}, "x").ok());
    ck_assert_uint_eq(store->comm().times("")->size(), 2);
}

TEST(verify_names_the_bad_rows) {
    fill(1);
    sql("UPDATE entries SET op_key = 'gemm/forward/fp32/9x9x9x9' WHERE d0 = 5 AND d2 = 7;"
        "UPDATE entries SET spread = 99 WHERE d0 = 6 AND d2 = 7;"
        "PRAGMA foreign_keys = OFF; UPDATE entries SET run = 77 WHERE d0 = 8 AND d2 = 7");
    const auto wrong = must(must_open()->verify());
    ck_assert_uint_eq(wrong.size(), 3);
}

namespace {

/// What another program or a failing disk may leave, values that the schema's CHECKs refuse as
/// well.
void damage(const std::string& update) {
    sql("PRAGMA ignore_check_constraints = 1; UPDATE " + update);
}

void assert_has(const std::string& text, const std::string& part) {
    ck_assert_msg(text.find(part) != std::string::npos, "\"%s\" lacks \"%s\"", text.c_str(),
                  part.c_str());
}

/// The same to whoever reads and whoever writes: the file is whole, verify() names one row.
void with_one_bad_row(const std::string& update, const std::function<void(ProfileStore&)>& check) {
    for (const bool writable : {false, true}) {
        std::string notice;
        const auto store = writable ? ProfileStore::open(db_path(), &notice)
                                    : ProfileStore::open_read_only(db_path());
        ck_assert_msg(store.ok() && notice.empty(), "%s: %s", update.c_str(), notice.c_str());
        const auto wrong = must(store.value()->verify());
        ck_assert_msg(wrong.size() == 1, "%s: %zu lines", update.c_str(), wrong.size());
        check(*store.value());
    }
}

/// No operator, collective or report is left that cannot be.
void remove_and_verify() {
    auto store = must_open();
    must(store->remove_bad());
    ck_assert(store->verify()->empty());
    must(store->remove_bad());  // of nothing
}

}  // namespace

TEST(operators_that_cannot_be_are_refused_and_their_model_is_measured_again) {
    fill(2);
    fs::copy_file(db_path(), directory + "/whole");
    const Profile whole = *must_open()->load(nonce_of(0));
    const std::string one = " WHERE run = 1 AND d0 = 5 AND d2 = 7";
    const auto damaged = [&](const std::string& update, const std::string& wrong) {
        fs::copy_file(directory + "/whole", db_path(), fs::copy_options::overwrite_existing);
        damage(update);
        with_one_bad_row(update, [&](ProfileStore& store) {
            test::assert_refused(store.load(nonce_of(0)), wrong + "; `arena profile verify` names");
            ck_assert(store.load(nonce_of(1)).ok());
        });
    };
    for (const char* seconds : {"-1", "0", "1e9", "9e999"}) {
        damaged("entries SET seconds = " + std::string(seconds) + one, "has no possible time");
        auto store = must_open();
        test::assert_refused(store->table(whole.gpu_type), "has no possible time");
        const auto again = store->measured_on(whole.gpu_type, whole.device.identity());
        ck_assert_uint_eq(again->size(),
                          2 * (whole.entries.size() - 2) + 1);  // it is measured again
        store.reset();
        remove_and_verify();
        store = must_open();
        ck_assert(!store->find(whole.model_fingerprint, whole.gpu_type).ok() ||
                  store->find(whole.model_fingerprint, whole.gpu_type)->nonce == nonce_of(1));
        ck_assert_uint_eq(store->load(nonce_of(0))->entries.size(), whole.entries.size() - 1);
        ck_assert(*store->load(nonce_of(1)) ==
                  *ProfileStore::open_read_only(db_path()).value()->load(nonce_of(1)));
        ck_assert(store->table(whole.gpu_type).ok());
    }
    damaged("entries SET op_key = 'gemm/forward/fp32/9x9x9x9'" + one,
            "is not the operator that its row tells of");
    remove_and_verify();
    damaged("runs SET status = 'odd' WHERE seq = 1", "has no status that this program knows");
    remove_and_verify();
    ck_assert_uint_eq(must_open()->runs()->size(), 1);
}

TEST(operators_of_no_run_are_removed) {
    fill(2);
    sql("PRAGMA foreign_keys = OFF; UPDATE entries SET run = 77 WHERE d0 = 8 AND d2 = 7");
    ck_assert_uint_eq(must_open()->verify()->size(), 2);
    remove_and_verify();
    auto store = must_open();
    ck_assert_uint_eq(store->load(nonce_of(0))->entries.size(), 60);
    ck_assert_uint_eq(store->load(nonce_of(1))->entries.size(), 60);
}

namespace {

CommTime all_reduce_time() {
    return {"a40", CommOp::all_reduce, 8, 2, 1, 1 << 20, 1e-3, 2e-3, 3e-3};
}

/// A store of two reports and two collectives of which `update` has damaged one row.
void make_damaged(const std::string& update) {
    remove_directory();
    fs::create_directory(directory);
    fs::permissions(directory, fs::perms::owner_all);
    CommTime small = all_reduce_time();
    small.bytes = 1024;
    {
        auto store = must_open();
        must(store->reports().keep(observed_run(1.5, 1)));
        must(store->reports().keep(observed_run(0.8, 2)));
        ck_assert_int_eq(store->comm().import({all_reduce_time(), small}, "nccl").value(), 2);
        ck_assert(store->verify()->empty());
    }
    damage(update);
}

struct Damage {
    const char* update;
    const char* wrong;
};

}  // namespace

TEST(collectives_that_cannot_be_are_refused_until_they_are_removed) {
    const char* seconds = "cannot be: seconds must be 0 < min <= median <= p95 <= 3600";
    for (const Damage& d :
         {Damage{"median_s = -1", seconds},
          {"median_s = 9e999", seconds},
          {"p95_s = 1e-9", seconds},
          {"min_s = 'fast'", seconds},
          {"nodes = 3", "cannot be: ranks must be 2 to 65536 and a multiple of nodes"},
          {"nodes = 'three'", "cannot be: ranks must be 2 to 65536 and a multiple of nodes"},
          {"groups = 0", "cannot be: groups must be 1 to 65536"},
          {"op = 'gossip'", "is not one that this program knows"},
          {"op = x'00ff'", "is not one that this program knows"}}) {
        const std::string update = "comm SET " + std::string(d.update) + " WHERE bytes > 1024";
        make_damaged(update);
        with_one_bad_row(update, [&](ProfileStore& store) {
            assert_has(store.verify()->front(), "row of comm, collective");
            assert_has(store.verify()->front(), "of a40, 8 ranks x ");
            assert_has(store.verify()->front(), d.wrong);
            for (const char* type : {"a40", ""})
                assert_refused(store.comm().times(type),
                               std::string(d.wrong) +
                                   "; `arena profile verify` names every bad row, "
                                   "with --remove it removes them");
            ck_assert(store.comm().times("a40").error().code == ErrorCode::environment);
            ck_assert(store.comm().times("v100").ok());  // its rows are good: it has none
            ck_assert_uint_eq(store.reports().all()->runs.size(), 2);
        });
        remove_and_verify();
        const auto rest = must_open()->comm().times("");
        ck_assert_uint_eq(rest->size(), 1);
        ck_assert_int_eq(rest->front().bytes, 1024);
    }
}

TEST(a_report_that_cannot_be_is_named_and_the_others_count) {
    const char* times = "cannot be: observed times must be positive and finite";
    const char* counts = "cannot be: batch, nodes, GPUs per node and stages must be at least 1";
    for (const Damage& d :
         {Damage{"iteration_s = -1", times},
          {"iteration_s = 9e999", times},
          {"estimated_s = 0", times},
          {"spread = -0.5", "cannot be: spread must be 0 or more"},
          {"spread = 9e999", "cannot be: spread must be 0 or more"},
          {"global_batch = 0", counts},
          {"nodes = 0", counts},
          {"stages = 2",
           "cannot be: the plan pp1,dp1,tp1,mb1x1 does not fill the grid 1xa40 of 2 stages"},
          {"gpus_per_node = 4", "does not fill the grid 4xa40 of 1 stages"},
          {"plan = '{}'", "has a plan that cannot be read"}}) {
        const std::string update =
            "observed SET " + std::string(d.update) + " WHERE gpus_per_node = 1";
        make_damaged(update);
        with_one_bad_row(update, [&](ProfileStore& store) {
            const std::string wrong =
                db_path() + ": " + store.verify()->front() +
                "; it is left out, `arena profile verify --remove` removes it";
            assert_has(wrong, "row 1 of observed, report of job 7 on a40, ");
            assert_has(wrong, d.wrong);
            for (int again = 0; again < 2; ++again) {
                const auto observed = must(store.reports().all());
                ck_assert(observed.runs == std::vector<ObservedRun>{observed_run(0.8, 2)});
                ck_assert(observed.bad == std::vector<std::string>{wrong});
            }
            ck_assert_uint_eq(store.comm().times("")->size(), 2);
        });
        remove_and_verify();
        auto store = must_open();
        ck_assert(store->reports().all()->bad.empty());
        ck_assert(store->reports().all()->runs == std::vector<ObservedRun>{observed_run(0.8, 2)});
        must(store->reports().keep(observed_run(1.5, 1)));
        ck_assert_uint_eq(store->reports().all()->runs.size(), 2);
    }
}

TEST(of_many_reports_that_cannot_be_eight_are_named_and_the_others_counted) {
    {
        auto store = must_open();
        for (int dp = 1; dp <= 12; ++dp) must(store->reports().keep(observed_run(1, dp)));
    }
    damage("observed SET iteration_s = -1 WHERE gpus_per_node > 1");
    auto store = must_open();
    const auto observed = store->reports().all();
    ck_assert(observed.ok());
    ck_assert_uint_eq(observed->runs.size(), 1);
    ck_assert_uint_eq(observed->bad.size(), 9);
    assert_has(observed->bad[0], "row 2 of observed");
    assert_has(observed->bad[7], "row 9 of observed");
    assert_has(observed->bad[8], ": 3 more rows of observed cannot be and are left out");
    ck_assert_uint_eq(store->verify()->size(), 11);
}

TEST(rows_are_not_removed_while_another_process_writes) {
    make_damaged("observed SET iteration_s = -1 WHERE gpus_per_node = 1");
    auto store = must_open();
    sqlite3* other = nullptr;
    ck_assert_int_eq(sqlite3_open(db_path().c_str(), &other), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
    const Status refused = store->remove_bad();
    ck_assert(!refused.ok());
    assert_has(refused.error().message(), "another process holds it");
    sqlite3_close(other);
    must(store->remove_bad());
    ck_assert(store->verify()->empty());
}

TEST(reports_that_cannot_be_are_not_kept) {
    auto store = must_open();
    ObservedRun run = observed_run(1, 2);
    run.observation.grid.stages = 2;
    assert_refused(store->reports().keep(run), "does not fill the grid 2xa40 of 2 stages");
    run = observed_run(1, 2);
    run.observation.spread = -1;
    assert_refused(store->reports().keep(run), "spread must be 0 or more");
    ck_assert(store->reports().all()->runs.empty());
}

SUITE({make_directory, remove_directory, 60});
