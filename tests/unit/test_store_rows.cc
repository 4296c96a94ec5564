// SPDX-License-Identifier: GPL-2.0-or-later
// Rows of the profile store: reports and collectives come back as they were kept, and rows that
// cannot be (another program's, a failing disk's) are named by verify() and refused wherever they
// would be used.
#include "store_cases.h"

using namespace arena;
using namespace arena::test;

START_TEST(what_jobs_observed_comes_back_and_the_latest_of_a_shape_stays) {
    auto store = must_open();
    must(store->keep_observed(observed_run(1.5, 1)));
    must(store->keep_observed(observed_run(0.8, 2)));
    must(store->keep_observed(observed_run(1.25, 1)));
    for (const double wrong : {0.0, -1.0, 8.0, 0.125})
        ck_assert(!store->keep_observed(observed_run(wrong, 1)).ok());
    store.reset();
    store = must_open();
    const auto runs = store->observed();
    ck_assert(runs.ok());
    ck_assert_uint_eq(runs->size(), 2);
    ck_assert((*runs)[0] == observed_run(0.8, 2) && (*runs)[1] == observed_run(1.25, 1));
    ck_assert(store->verify()->empty());
    ck_assert(store->prune(1700000001).ok());
    ck_assert(store->observed()->empty());
}
END_TEST

START_TEST(communication_times_come_back_and_newer_ones_replace_older) {
    auto store = must_open();
    CommTime t{"a40", CommOp::all_reduce, 8, 2, 1, 1 << 20, 1e-3, 2e-3, 3e-3};
    CommTime small = t;
    small.bytes = 1024;
    ck_assert_int_eq(store->import_comm({t, small}, "nccl").value(), 2);
    t.median_s = 1.5e-3;
    ck_assert_int_eq(store->import_comm({t}, "nccl").value(), 1);
    const auto rows = store->comm("a40");
    ck_assert(rows.ok());
    ck_assert_uint_eq(rows->size(), 2);
    ck_assert(rows->front() == small && rows->back() == t);
    ck_assert(store->comm("v100")->empty());
    CommTime bad = t;
    bad.nodes = 3;
    ck_assert(!store->import_comm({small, bad}, "x").ok());
    ck_assert_uint_eq(store->comm("")->size(), 2);
}
END_TEST

START_TEST(verify_names_the_bad_rows) {
    fill(1);
    sql("UPDATE entries SET op_key = 'gemm/forward/fp32/9x9x9x9' WHERE d0 = 5 AND d2 = 7;"
        "UPDATE entries SET spread = 99 WHERE d0 = 6 AND d2 = 7;"
        "PRAGMA foreign_keys = OFF; UPDATE entries SET run = 77 WHERE d0 = 8 AND d2 = 7");
    const auto wrong = must_open()->verify();
    ck_assert(wrong.ok());
    ck_assert_uint_eq(wrong->size(), 3);
}
END_TEST

/// What another program or a failing disk may leave; an open for writing would set the store aside.
START_TEST(rows_that_cannot_be_are_refused_wherever_they_are_read) {
    const std::string by_force = "PRAGMA ignore_check_constraints = 1; UPDATE ";
    fill(1);
    fs::copy_file(db_path(), directory + "/whole");
    const Profile whole = *ProfileStore::open_read_only(db_path()).value()->load(nonce_of(0));
    const auto damaged = [&](const std::string& update) {
        fs::copy_file(directory + "/whole", db_path(), fs::copy_options::overwrite_existing);
        sql(by_force + update);
        auto store = ProfileStore::open_read_only(db_path());
        ck_assert(store.ok());
        ck_assert_msg(store.value()->verify()->size() == 1, "%s", update.c_str());
        return std::move(store).value();
    };
    for (const char* seconds : {"-1", "0", "1e9", "9e999"}) {
        auto store =
            damaged("entries SET seconds = " + std::string(seconds) + " WHERE d0 = 5 AND d2 = 7");
        test::assert_refused(store->load(nonce_of(0)),
                             "has no possible time; `arena profile verify`");
        test::assert_refused(store->table(whole.gpu_type), "has no possible time");
        const auto again = store->measured_on(whole.gpu_type, whole.device.identity());
        ck_assert_uint_eq(again->size(), whole.entries.size() - 1);  // it is measured again
    }
    auto store =
        damaged("entries SET op_key = 'gemm/forward/fp32/9x9x9x9' WHERE d0 = 5 AND d2 = 7");
    test::assert_refused(store->load(nonce_of(0)), "is not the operator that its row tells of");
    store.reset();
    store = damaged("runs SET status = 'odd'");
    test::assert_refused(store->load(nonce_of(0)), "has no status that this program knows");
}
END_TEST

namespace {

CommTime all_reduce_time() {
    return {"a40", CommOp::all_reduce, 8, 2, 1, 1 << 20, 1e-3, 2e-3, 3e-3};
}

/// A store of two reports and two collectives of which `update` has damaged one row.
std::unique_ptr<ProfileStore> damaged_by(const std::string& update) {
    fs::remove(db_path());
    CommTime small = all_reduce_time();
    small.bytes = 1024;
    {
        auto store = must_open();
        must(store->keep_observed(observed_run(1.5, 1)));
        must(store->keep_observed(observed_run(0.8, 2)));
        ck_assert_int_eq(store->import_comm({all_reduce_time(), small}, "nccl").value(), 2);
        ck_assert(store->verify()->empty());
    }
    sql("PRAGMA ignore_check_constraints = 1; UPDATE " + update);
    auto store = ProfileStore::open_read_only(db_path());
    ck_assert_msg(store.ok(), "%s", update.c_str());
    return std::move(store).value();
}

/// verify() has one line, which says what is wrong with which row, and so does `read`.
template <typename R>
void assert_one_bad_row(ProfileStore& store, const R& read, const std::string& row,
                        const std::string& wrong) {
    const auto named = store.verify();
    ck_assert(named.ok());
    ck_assert_uint_eq(named->size(), 1);
    for (const std::string& part : {row, wrong})
        ck_assert_msg(named->front().find(part) != std::string::npos, "\"%s\" lacks \"%s\"",
                      named->front().c_str(), part.c_str());
    assert_refused(read, row);
    assert_refused(read, wrong + "; `arena profile verify` names every bad row");
    ck_assert(read.error().code == ErrorCode::environment);
}

struct Damage {
    const char* update;
    const char* wrong;
};

}  // namespace

START_TEST(collectives_that_cannot_be_are_refused) {
    const char* seconds = "cannot be: seconds must be 0 < min <= median <= p95 <= 3600";
    for (const Damage& d :
         {Damage{"median_s = -1", seconds},
          {"median_s = 9e999", seconds},
          {"p95_s = 1e-9", seconds},
          {"min_s = 'fast'", seconds},
          {"nodes = 3", "cannot be: ranks must be 2 to 65536 and a multiple of nodes"},
          {"groups = 0", "cannot be: groups must be 1 to 65536"},
          {"op = 'gossip'", "is not one that this program knows"}}) {
        auto store = damaged_by("comm SET " + std::string(d.update) + " WHERE bytes > 1024");
        assert_one_bad_row(*store, store->comm("a40"), "of a40, 8 ranks x ", d.wrong);
        ck_assert(!store->comm("").ok());
        ck_assert(store->comm("v100").ok());  // its rows are good: it has none
        ck_assert(store->observed().ok());
    }
}
END_TEST

START_TEST(reports_that_cannot_be_are_refused) {
    const char* times =
        "cannot be: observed times must be positive, and within a factor of 8 of the estimate";
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
        auto store =
            damaged_by("observed SET " + std::string(d.update) + " WHERE gpus_per_node = 1");
        assert_one_bad_row(*store, store->observed(), "report of job 7 on a40", d.wrong);
        ck_assert_uint_eq(store->comm("")->size(), 2);
    }
}
END_TEST

START_TEST(reports_that_cannot_be_are_not_kept) {
    auto store = must_open();
    ObservedRun run = observed_run(1, 2);
    run.observation.grid.stages = 2;
    assert_refused(store->keep_observed(run), "does not fill the grid 2xa40 of 2 stages");
    run = observed_run(1, 2);
    run.observation.spread = -1;
    assert_refused(store->keep_observed(run), "spread must be 0 or more");
    ck_assert(store->observed()->empty());
}
END_TEST

int main() {
    return arena::test::run_suite("store rows",
                                  {
                                      what_jobs_observed_comes_back_and_the_latest_of_a_shape_stays,
                                      communication_times_come_back_and_newer_ones_replace_older,
                                      verify_names_the_bad_rows,
                                      rows_that_cannot_be_are_refused_wherever_they_are_read,
                                      collectives_that_cannot_be_are_refused,
                                      reports_that_cannot_be_are_refused,
                                      reports_that_cannot_be_are_not_kept,
                                  },
                                  {make_directory, remove_directory, 60});
}
