// SPDX-License-Identifier: GPL-2.0-or-later
// The profile store: what goes in comes out, the newest measurement wins, and no state of the file
// (corrupt, cut, locked, foreign, newer, linked) is silently accepted or stops the caller.
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <fstream>

#include "store_cases.h"

using namespace arena;
using namespace arena::test;

TEST(profile_comes_back_as_it_was) {
    auto store = must_open();
    Profile p = sample(nonce_of(1), 0.001);
    must(store->import(p, "gpt2"));
    store.reset();
    store = must_open();
    auto back = must(store->load(p.nonce));
    std::swap(p.entries[0], p.entries[1]);  // the store answers in order of op_key
    if (op_key(p.entries[0].shape) > op_key(p.entries[1].shape))
        std::swap(p.entries[0], p.entries[1]);
    ck_assert(back == p);
    auto runs = must(store->runs());
    ck_assert_uint_eq(runs.size(), 1);
    ck_assert_str_eq(runs.front().model_name.c_str(), "gpt2");
    ck_assert_int_eq(runs.front().entries, 2);
    ck_assert(runs.front().device_identity == p.device.identity());
    auto found = store->find(p.model_fingerprint, "a40");
    ck_assert(found.ok() && *found == runs.front());
    ck_assert(store->verify().ok() && store->verify()->empty());
}

TEST(file_has_mode_0600_even_if_it_was_wider) {
    must_open().reset();
    struct stat st {};
    ck_assert_int_eq(stat(db_path().c_str(), &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0600);
    chmod(db_path().c_str(), 0664);
    auto store = must_open();
    must(store->import(sample(nonce_of(1), 1), "m"));
    for (const auto& e : fs::directory_iterator(directory)) {
        ck_assert_int_eq(stat(e.path().c_str(), &st), 0);
        ck_assert_msg((st.st_mode & 077) == 0, "%s is open to others", e.path().c_str());
    }
}

TEST(same_nonce_twice_is_refused_and_changes_nothing) {
    auto store = must_open();
    must(store->import(sample(nonce_of(1), 0.001), "m"));
    const auto again = store->import(sample(nonce_of(1), 0.5), "m");
    ck_assert(!again.ok());
    ck_assert(again.error().code == ErrorCode::no);
    ck_assert_uint_eq(store->runs()->size(), 1);
    ck_assert_double_eq(store->table("a40")->rows().front().second > 0.1, 0);
}

TEST(same_operator_twice_in_one_profile_is_refused_whole) {
    auto store = must_open();
    Profile p = sample(nonce_of(1), 0.001);
    p.entries.push_back(p.entries[0]);
    ck_assert(!store->import(p, "m").ok());
    ck_assert(store->runs()->empty());
    p = sample(nonce_of(2), 0.001);
    p.entries[1].seconds = 0;
    ck_assert(!store->import(p, "m").ok());
    ck_assert(store->runs()->empty());
}

TEST(table_has_the_newest_seconds_of_the_newest_device) {
    auto store = must_open();
    ck_assert(store->table("a40").ok() && store->table("a40")->empty());
    must(store->import(sample(nonce_of(1), 0.001), "m"));
    Profile second = sample(nonce_of(2), 0.002);
    second.entries.pop_back();
    must(store->import(second, "m"));
    auto table = store->table("a40");
    ck_assert_uint_eq(table->rows().size(), 2);
    ck_assert_double_eq(seconds_of(*table, second.entries[0].shape), 0.004);
    must(store->import(sample(nonce_of(3), 0.003, "other library"), "m"));
    table = store->table("a40");
    ck_assert_double_eq(seconds_of(*table, second.entries[0].shape), 0.006);
    Profile failed = sample(nonce_of(4), 1, "third library");
    failed.status = ProfileStatus::failed;
    failed.entries.clear();
    must(store->import(failed, "m"));
    ck_assert_uint_eq(store->table("a40")->rows().size(), 2);
    Profile nothing_new = sample(nonce_of(5), 1, "fourth library");  // all operators were known
    nothing_new.entries.clear();
    must(store->import(nothing_new, "m"));
    ck_assert_uint_eq(store->table("a40")->rows().size(), 2);
    ck_assert(store->table("h100")->empty());
}

TEST(what_is_known_for_a_node_is_that_of_its_own_device) {
    auto store = must_open();
    ck_assert(store->known("a40", "n1").ok() && store->known("a40", "n1")->operators.empty());
    const Profile old_library = sample(nonce_of(1), 0.001);
    must(store->import(old_library, "m"));
    Profile updated = sample(nonce_of(2), 0.002, "other library");
    updated.device.node = "updated";
    updated.entries.pop_back();
    must(store->import(updated, "m"));
    const auto known_on = [&](const std::string& node) {
        return store->known("a40", node).value();
    };
    ck_assert(known_on("updated").device_identity == updated.device.identity());
    ck_assert_uint_eq(known_on("updated").operators.size(), 1);
    ck_assert(known_on(old_library.device.node).device_identity == old_library.device.identity());
    ck_assert_uint_eq(known_on(old_library.device.node).operators.size(), 2);
    ck_assert(known_on("never seen").device_identity == updated.device.identity());
}

TEST(failed_run_is_listed_but_never_found) {
    auto store = must_open();
    Profile p = sample(nonce_of(1), 1);
    p.status = ProfileStatus::failed;
    p.reason = "timed out";
    p.entries.clear();
    must(store->import(p, "m"));
    ck_assert(store->runs()->front().reason == "timed out");
    const auto r = store->find(p.model_fingerprint, "a40");
    ck_assert(!r.ok() && r.error().code == ErrorCode::no);
    must(store->import(sample(nonce_of(2), 1), "m"));
    ck_assert(store->find(p.model_fingerprint, "a40")->nonce == nonce_of(2));
    ck_assert(!store->find(p.model_fingerprint, "h100").ok());
    ck_assert(store->runs()->front().nonce == nonce_of(2));
}

TEST(corrupt_file_is_set_aside_with_a_notice) {
    must(must_open()->import(sample(nonce_of(1), 1), "m"));
    std::fstream(db_path(), std::ios::in | std::ios::out | std::ios::binary)
        << "this is no header of a database, only words over one";
    std::string notice;
    auto store = must_open(&notice);
    ck_assert_msg(notice.find(".corrupt-") != std::string::npos, "notice: %s", notice.c_str());
    ck_assert(store->runs()->empty());
    ck_assert_int_eq(count_named("profiles.db.corrupt-"), 1);
    must(store->import(sample(nonce_of(2), 1), "m"));
    std::string none;
    store.reset();
    ck_assert_uint_eq(must_open(&none)->runs()->size(), 1);
    ck_assert_str_eq(none.c_str(), "");
}

/// profile.store named another file by mistake: it used to be renamed, and closed to its group
/// before anybody had looked.
TEST(a_file_that_is_no_store_is_refused_and_stays_as_it_is) {
    const std::string json = R"({"key": "gemm/forward/fp32/1x1x1x1"})", page(4096, 'x');
    for (const std::string& text :
         {std::string("a"), std::string("interval_s: 5\n"), std::string(512, 'x'),
          std::string(5000, 'x'), page + page, json, json + std::string(8192 - json.size(), ' '),
          std::string("SQLite format 2\0", 16), std::string(8192, '\0')}) {
        std::ofstream(db_path(), std::ios::binary) << text;
        fs::permissions(db_path(), fs::perms(0640));
        std::string notice;
        const auto r = ProfileStore::open(db_path(), &notice);
        ck_assert_msg(!r.ok(), "%zu bytes beginning with '%.10s' became a store", text.size(),
                      text.c_str());
        ck_assert_msg(
            r.error().text.find("no profile store, whole or damaged, and stays as it is") !=
                std::string::npos,
            "%s", r.error().text.c_str());
        ck_assert_str_eq(notice.c_str(), "");
        std::ifstream now(db_path(), std::ios::binary);
        ck_assert(std::string(std::istreambuf_iterator<char>(now), {}) == text);
        ck_assert_int_eq(static_cast<int>(fs::status(db_path()).permissions()), 0640);
        ck_assert_int_eq(count_named("profiles.db"), 1);
    }
}

/// Cut or damaged at any place: never a crash, never an error, never rows that verify() would
/// refuse.
TEST(file_cut_at_any_place_opens_with_all_rows_or_a_notice) {
    fill(20);
    const auto size = fs::file_size(db_path());
    ck_assert_uint_gt(size, 20000);
    fs::copy_file(db_path(), directory + "/whole");
    int set_aside = 0;
    for (std::uintmax_t at = 1; at < size; at += 1013) {
        fs::copy_file(directory + "/whole", db_path(), fs::copy_options::overwrite_existing);
        fs::resize_file(db_path(), at);
        std::string notice;
        auto store = must_open(&notice);
        const auto rows = store->runs()->size();
        set_aside += !notice.empty();
        ck_assert_msg(notice.empty() ? rows == 20 : rows == 0, "cut at %ju: %zu rows, notice '%s'",
                      at, rows, notice.c_str());
        ck_assert(store->verify()->empty());
    }
    ck_assert_int_gt(set_aside, 10);
}

TEST(pages_of_garbage_are_noticed_on_open_or_by_verify) {
    fill(20);
    const auto size = fs::file_size(db_path());
    fs::copy_file(db_path(), directory + "/whole");
    for (std::uintmax_t at = 0; at + 4096 <= size; at += 4096) {
        fs::copy_file(directory + "/whole", db_path(), fs::copy_options::overwrite_existing);
        {
            std::fstream f(db_path(), std::ios::in | std::ios::out | std::ios::binary);
            f.seekp(static_cast<std::streamoff>(at));
            f << std::string(4096, '\xa5');
        }
        std::string notice;
        auto store = must_open(&notice);
        ck_assert_msg(!notice.empty(), "page at %ju was garbage and nobody said so", at);
        ck_assert(store->runs()->empty());
    }
}

TEST(locked_file_is_an_error_and_stays) {
    must_open().reset();
    sqlite3* db = nullptr;
    ck_assert_int_eq(sqlite3_open(db_path().c_str(), &db), SQLITE_OK);
    auto store = must_open();
    ck_assert_int_eq(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
    const auto r = store->import(sample(nonce_of(1), 1), "m");  // comes back while the lock is held
    ck_assert(!r.ok() && r.error().code == ErrorCode::environment);
    ck_assert_msg(r.error().text.find("another process") != std::string::npos, "%s",
                  r.error().text.c_str());
    ck_assert(store->runs().ok());  // readers go on
    sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr);
    must(store->import(sample(nonce_of(1), 1), "m"));
    store.reset();
    ck_assert_int_eq(
        sqlite3_exec(db,
                     "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=DELETE; BEGIN EXCLUSIVE",
                     nullptr, nullptr, nullptr),
        SQLITE_OK);
    const auto locked = ProfileStore::open(db_path());
    ck_assert(!locked.ok() && locked.error().code == ErrorCode::environment);
    ck_assert_int_eq(count_named("corrupt"), 0);
    sqlite3_close(db);
    ck_assert_uint_eq(must_open()->runs()->size(), 1);
}

TEST(newer_schema_and_foreign_database_are_refused_untouched) {
    must_open().reset();
    sql("PRAGMA user_version = 8");
    auto r = ProfileStore::open(db_path());
    ck_assert(!r.ok());
    ck_assert_msg(r.error().text.find("version 8") != std::string::npos, "%s",
                  r.error().text.c_str());
    ck_assert(!ProfileStore::open_read_only(db_path()).ok());
    fs::remove(db_path());
    sql("CREATE TABLE others(x)");
    fs::permissions(db_path(), fs::perms(0644));
    r = ProfileStore::open(db_path());
    ck_assert(!r.ok());
    ck_assert_msg(r.error().text.find("not a profile store") != std::string::npos, "%s",
                  r.error().text.c_str());
    ck_assert_int_eq(count_named("corrupt"), 0);
    ck_assert_int_eq(static_cast<int>(fs::status(db_path()).permissions()), 0644);
}

TEST(read_only_sees_rows_and_cannot_write_nor_create) {
    ck_assert(!ProfileStore::open_read_only(db_path()).ok());
    ck_assert(!fs::exists(db_path()));
    auto writer = must_open();
    must(writer->import(sample(nonce_of(1), 1), "m"));
    auto reader = must(ProfileStore::open_read_only(db_path()));
    ck_assert_uint_eq(reader->runs()->size(), 1);
    const auto refused = reader->import(sample(nonce_of(2), 1), "m");
    ck_assert(!refused.ok() && refused.error().code == ErrorCode::environment);
    std::ofstream(directory + "/words")
        << "no database, just many words, more than a header has room for; "
           "one hundred bytes are needed for that much";
    ck_assert(!ProfileStore::open_read_only(directory + "/words").ok());
    ck_assert_int_eq(count_named("corrupt"), 0);
}

/// The table of reports of version 4, as it was, with two jobs' reports and one measured by hand.
const char* observed_of_version_4 =
    "DROP TABLE observed; CREATE TABLE observed(seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " model_fingerprint TEXT NOT NULL, model_name TEXT NOT NULL,"
    " global_batch INTEGER NOT NULL CHECK(global_batch >= 1), launcher TEXT NOT NULL,"
    " gpu_type TEXT NOT NULL, nodes INTEGER NOT NULL CHECK(nodes >= 1),"
    " gpus_per_node INTEGER NOT NULL CHECK(gpus_per_node >= 1), stages INTEGER NOT NULL "
    "CHECK(stages >= 1),"
    " plan TEXT NOT NULL, iteration_s REAL NOT NULL CHECK(iteration_s > 0),"
    " estimated_s REAL NOT NULL CHECK(estimated_s > 0), spread REAL NOT NULL CHECK(spread >= 0),"
    " steps INTEGER NOT NULL, job INTEGER NOT NULL, at_s REAL NOT NULL,"
    " UNIQUE(model_fingerprint, global_batch, launcher, gpu_type, nodes, gpus_per_node, plan));";

/// Rows that version 5 and before kept are found by a sum that could be forged.
constexpr const char* old_fingerprint = "0123456789abcdef";

std::string old_report(const std::string& table_rows, int seq, std::int64_t dp) {
    const ObservedRun run = observed_run(1.5, dp);
    return fmt::format(
        "INSERT INTO observed VALUES({}, '{}', 'gpt2', 64, 'arena-train', 'a40', 1, {}, 1, '{}',"
        " 1.5, 1, 0.02, 40, 7, 1700000000.5{});",
        seq, old_fingerprint, dp, to_json(run.observation.plan), table_rows);
}

void assert_reports_set_aside(int rows) {
    std::string notice;
    auto store = must(ProfileStore::open(db_path(), &notice));
    ck_assert_msg(notice.find(fmt::format("{} reports of iteration times count no more", rows)) !=
                      std::string::npos,
                  "%s", notice.c_str());
    ck_assert(store->reports().all()->runs.empty());
    must(store->reports().keep(observed_run(1.5, 1)));
    ck_assert(store->verify()->empty());
    store.reset();
    sql(
        fmt::format("CREATE TABLE counted(n CHECK(n = {}));"
                    "INSERT INTO counted SELECT count(*) FROM observed_before_6",
                    rows));
    notice.clear();
    ck_assert_uint_eq(must(ProfileStore::open(db_path(), &notice))->reports().all()->runs.size(),
                      1);
    assert_text(notice, "");
}

TEST(reports_of_a_store_of_version_4_are_set_aside_for_their_models_cannot_be_told) {
    must_open().reset();
    sql(observed_of_version_4 + old_report("", 4, 1) + old_report("", 5, 2) +
        "PRAGMA user_version = 4;");
    assert_reports_set_aside(2);
}

TEST(runs_of_a_store_of_version_5_are_of_no_model_and_keep_their_operators) {
    Profile old = sample(nonce_of(1), 1);
    old.model_fingerprint = old_fingerprint;
    must(must_open()->import(old, "gpt2"));
    sql(old_report(", 1001, 0, '7'", 1, 1) + old_report(", -1, 1, '7'", 2, 1) +
        old_report(", 1001, 0, '7'", 3, 2) + "PRAGMA user_version = 5;");
    assert_reports_set_aside(3);
    auto store = must_open();
    ck_assert(!store->find(old_fingerprint, "a40").ok());
    const Profile kept = must(store->load(nonce_of(1)));
    ck_assert(kept.entries.size() == 2 && kept.model_fingerprint == no_fingerprint);
    ck_assert(parse_profile(to_json(kept)).ok());
    ck_assert(store->known("a40", "")->operators.contains(kept.entries[0].shape));
}

TEST(reports_of_users_lie_apart_and_a_shared_one_is_replaced_by_none_of_theirs) {
    auto store = must_open();
    const auto keep = [&](std::int64_t user, JobId job, double iteration_s) {
        ObservedRun run = observed_run(iteration_s, 1);
        run.user = user, run.job = job;
        must(store->reports().keep(run));
    };
    keep(1001, 1, 1.5);
    keep(1002, 2, 0.8);
    ck_assert_uint_eq(store->reports().all()->runs.size(), 2);
    ck_assert_int_eq(
        store->reports().share({.job = {}, .user = 1001, .gpu_type = "h100"}, true).value(), 0);
    ck_assert_int_eq(
        store->reports().share({.job = {}, .user = 1001, .gpu_type = "a40"}, true).value(), 1);
    keep(1001, 3, 7);  // a lie, for itself alone
    auto runs = store->reports().all()->runs;
    ck_assert_uint_eq(runs.size(), 3);
    ck_assert(runs[0].shared && runs[0].observation.iteration_s == 1.5);
    ck_assert(!runs[2].shared && runs[2].agreeing == std::vector<JobId>{3});
    keep(1001, 4, 7.5), keep(1001, 4, 7.5), keep(1001, 5, 6.9);
    runs = store->reports().all()->runs;
    ck_assert(runs[2].agreeing == (std::vector<JobId>{3, 4, 5}));
    keep(1001, 6, 1);
    ck_assert(store->reports().all()->runs[2].agreeing == std::vector<JobId>{6});
    ck_assert_int_eq(store->reports().share({.job = 1, .user = {}, .gpu_type = {}}, false).value(),
                     1);
    runs = store->reports().all()->runs;
    ck_assert_uint_eq(runs.size(), 2);
    ck_assert(runs[1].job == 6 && !runs[1].shared);  // what its user reported since stays
    ck_assert(store->verify()->empty());
}

/// The schema of version 1, as it was.
const char* version_1 =
    "CREATE TABLE runs(seq INTEGER PRIMARY KEY AUTOINCREMENT, nonce TEXT NOT NULL UNIQUE,"
    " gpu_type TEXT NOT NULL, hardware TEXT NOT NULL, model_name TEXT NOT NULL, model_fingerprint "
    "TEXT NOT NULL,"
    " kind TEXT NOT NULL, name TEXT NOT NULL, uuid TEXT NOT NULL, driver TEXT NOT NULL, library "
    "TEXT NOT NULL,"
    " memory_bytes INTEGER NOT NULL, threads INTEGER NOT NULL, node TEXT NOT NULL, device_identity "
    "TEXT NOT NULL,"
    " status TEXT NOT NULL CHECK(status IN ('complete','partial','failed')), reason TEXT NOT NULL,"
    " started_s REAL NOT NULL, device_seconds REAL NOT NULL);"
    "CREATE INDEX runs_by_model ON runs(model_fingerprint, gpu_type, seq);"
    "CREATE INDEX runs_by_type ON runs(gpu_type, device_identity, seq);"
    "CREATE TABLE entries(run INTEGER NOT NULL REFERENCES runs(seq), op_key TEXT NOT NULL, kind "
    "TEXT NOT NULL,"
    " pass TEXT NOT NULL, precision TEXT NOT NULL, d0 INTEGER NOT NULL, d1 INTEGER NOT NULL, d2 "
    "INTEGER NOT NULL,"
    " d3 INTEGER NOT NULL, variant TEXT NOT NULL, seconds REAL NOT NULL CHECK(seconds > 0),"
    " repeats INTEGER NOT NULL CHECK(repeats >= 1), spread REAL NOT NULL, PRIMARY KEY(run, "
    "op_key)) WITHOUT ROWID;"
    "INSERT INTO runs VALUES(1, 'nonce0000000000000001', 'a40', 'emulated-cpu', 'gpt2', "
    "'0123456789abcdef', 'cpu',"
    " 'AMD EPYC', '', '6.1', 'OpenBLAS', 1, 2, 'n1', 'cpu|AMD EPYC|6.1|OpenBLAS|2', 'complete', "
    "'', 1.7e9, 1.5);"
    "INSERT INTO entries VALUES(1, 'gemm/forward/fp32/64x32x16x1', 'gemm', 'forward', 'fp32', 64, "
    "32, 16, 1, '',"
    " 0.001, 5, 0.01);"
    "PRAGMA application_id = 1095913025; PRAGMA user_version = 1;";

TEST(store_of_version_1_is_converted_with_all_rows) {
    sql(version_1);
    const auto early = ProfileStore::open_read_only(db_path());
    ck_assert(!early.ok() && early.error().text.find("older schema") != std::string::npos);
    auto store = must_open();
    const auto old = must(store->load("nonce0000000000000001"));
    ck_assert_uint_eq(old.entries.size(), 1);
    ck_assert_int_eq(old.reused, 0);
    must(store->import(sample(nonce_of(2), 0.5), "m"));
    ck_assert(store->verify().ok() && store->verify()->empty());
    store.reset();
    ck_assert_uint_eq(must_open()->runs()->size(), 2);
    ck_assert(ProfileStore::open_read_only(db_path()).ok());
    ck_assert_int_eq(count_named("corrupt"), 0);
}

TEST(store_of_version_2_is_converted_with_all_rows) {
    must(must_open()->import(sample(nonce_of(1), 1), "m"));
    sql("ALTER TABLE runs DROP COLUMN place; DROP TABLE observed; PRAGMA user_version = 2");
    ck_assert(!ProfileStore::open_read_only(db_path()).ok());
    auto store = must_open();
    Profile as_before = sample(nonce_of(1), 1);
    as_before.place = {};
    as_before.model_fingerprint = no_fingerprint;
    ck_assert(*store->load(nonce_of(1)) == as_before);
    must(store->import(sample(nonce_of(2), 0.5), "m"));
    ck_assert(store->load(nonce_of(2))->place == sample(nonce_of(2), 0.5).place);
    ck_assert_uint_eq(store->comm().times("").value().size(), 0);
}

TEST(store_of_version_3_is_converted_and_takes_reports) {
    must(must_open()->import(sample(nonce_of(1), 1), "m"));
    sql("DROP TABLE observed; PRAGMA user_version = 3");
    auto store = must_open();
    ck_assert(store->load(nonce_of(1))->entries == sample(nonce_of(1), 1).entries);
    must(store->reports().keep(observed_run(1.5, 1)));
    ck_assert_uint_eq(store->reports().all()->runs.size(), 1);
}

TEST(store_of_version_6_keeps_its_collectives_and_takes_spans) {
    CommTime t{"a40", CommOp::all_reduce, 8, 2, 1, 1 << 20, 1e-3, 2e-3, 3e-3};
    must(must_open()->reports().keep(observed_run(1.5, 1)));
    must(must_open()->comm().import({t}, "nccl"));
    sql("CREATE TABLE old(gpu_type TEXT NOT NULL, op TEXT NOT NULL, ranks INTEGER NOT NULL,"
        " nodes INTEGER NOT NULL, groups INTEGER NOT NULL, bytes INTEGER NOT NULL, min_s REAL,"
        " median_s REAL, p95_s REAL, source TEXT NOT NULL,"
        " PRIMARY KEY(gpu_type, op, ranks, nodes, groups, bytes)) WITHOUT ROWID;"
        "INSERT INTO old SELECT gpu_type, op, ranks, nodes, groups, bytes, min_s, median_s, p95_s,"
        " source FROM comm; DROP TABLE comm; ALTER TABLE old RENAME TO comm;"
        "PRAGMA user_version = 6");
    auto store = must_open();
    ck_assert(must(store->comm().times("")) == std::vector<CommTime>{t});
    ck_assert_uint_eq(store->reports().all()->runs.size(), 1);  // they were sound before
    CommTime far = t;
    far.span = CommSpan::pod;
    must(store->comm().import({far}, "nccl"));
    ck_assert_uint_eq(store->comm().times("")->size(), 2);
    ck_assert(store->verify()->empty());
}

TEST(a_profile_ages_out_when_its_node_shows_another_driver_or_library) {
    auto store = must_open();
    must(store->import(sample(nonce_of(1), 1), "old"));
    Profile elsewhere = sample(nonce_of(2), 1, "OpenBLAS 2");
    elsewhere.device.node = "n2";
    elsewhere.model_fingerprint = sha256_hex("other");
    must(store->import(elsewhere, "other"));
    ck_assert(
        store->find(sha256_hex("gpt2"), "a40").ok());  // another node says nothing about this one
    Profile failed = sample(nonce_of(3), 1, "OpenBLAS 2");
    failed.status = ProfileStatus::failed;
    failed.entries.clear();
    must(store->import(failed, "other"));
    ck_assert(store->find(sha256_hex("gpt2"), "a40").ok());
    Profile upgraded = sample(nonce_of(4), 1, "OpenBLAS 2");
    upgraded.model_fingerprint = sha256_hex("other");
    must(store->import(upgraded, "other"));
    const auto aged = store->find(sha256_hex("gpt2"), "a40");
    ck_assert(!aged.ok() && aged.error().code == ErrorCode::no);
    ck_assert(store->find(sha256_hex("other"), "a40").ok());
    must(store->import(sample(nonce_of(5), 1, "OpenBLAS 2"), "old"));
    ck_assert(store->find(sha256_hex("gpt2"), "a40").ok());
}

TEST(what_was_measured_on_a_device_is_that_devices_alone) {
    auto store = must_open();
    const Profile first = sample(nonce_of(1), 1), again = sample(nonce_of(2), 2);
    must(store->import(first, "m"));
    must(store->import(sample(nonce_of(3), 5, "other library"), "m"));
    must(store->import(again, "m"));
    const auto rows = must(store->measured_on("a40", first.device.identity()));
    ck_assert_uint_eq(rows.size(), 2);
    for (const ProfileEntry& e : rows)
        ck_assert_double_eq(e.seconds, has_variant(e.shape, Gradient::weights) ? 4 : 2);
    ck_assert(store->measured_on("a40", "nobody")->empty());
}

TEST(link_fifo_and_open_directory_are_refused) {
    fs::create_symlink(directory + "/elsewhere", db_path());
    ck_assert(!ProfileStore::open(db_path()).ok());
    ck_assert(!fs::exists(directory + "/elsewhere"));
    fs::remove(db_path());
    ck_assert_int_eq(mkfifo(db_path().c_str(), 0600), 0);
    ck_assert(!ProfileStore::open(db_path()).ok());
    fs::remove(db_path());
    chmod(directory.c_str(), 0777);
    const auto r = ProfileStore::open(db_path());
    ck_assert(!r.ok());
    ck_assert_msg(r.error().text.find("chmod 0700") != std::string::npos, "%s",
                  r.error().text.c_str());
    ck_assert(!ProfileStore::open(directory + "/none/profiles.db").ok());
}

SUITE({make_directory, remove_directory, 60});
