// SPDX-License-Identifier: GPL-2.0-or-later
// The profile store on SQLite. One writer (the scheduler plug-in as SlurmUser), readers beside it.
// A cache: losing it costs profiling again, so a corrupt file is set aside and never stops a round.
// Tables and their meaning: open.cc.
#include "store/store.h"

#include <cmath>
#include <set>
#include <utility>

#include "base/text.h"
#include "store/open.h"
#include "store/rows.h"
#include "store/sql.h"
#include "store/verify.h"

namespace arena {
namespace {

using sql::is_corrupt;
using sql::is_time;
using sql::quick_check;
using sql::shape_of;
using sql::Statement;
using sql::Transaction;

constexpr std::string_view run_columns =
    "SELECT nonce, gpu_type, hardware, model_name, model_fingerprint, device_identity, node, "
    "reason,"
    " status, started_s, device_seconds, wanted, reused, direct_seconds,"
    " (SELECT count(*) FROM entries WHERE run = seq) FROM runs ";

/// A run whose node has shown another driver or library since measured a device that is no more.
constexpr std::string_view still_holds =
    " NOT EXISTS(SELECT 1 FROM runs later WHERE later.gpu_type = runs.gpu_type AND later.node = "
    "runs.node"
    " AND later.kind = runs.kind AND later.status != 'failed' AND later.seq > runs.seq"
    " AND (later.driver != runs.driver OR later.library != runs.library)) ";

ProfileRun run_of(const Statement& s) {
    ProfileRun r;
    r.nonce = s.text(0);
    r.gpu_type = s.text(1);
    r.hardware = s.text(2);
    r.model_name = s.text(3);
    r.model_fingerprint = s.text(4);
    r.device_identity = s.text(5);
    r.node = s.text(6);
    r.reason = s.text(7);
    r.status = parse_profile_status(s.text(8)).value_or(ProfileStatus::failed);
    r.started_s = s.number(9);
    r.device_seconds = s.number(10);
    r.wanted = s.integer(11);
    r.reused = s.integer(12);
    r.direct_seconds = s.number(13);
    r.entries = s.integer(14);
    return r;
}

/// What import() demands of a value that did not come through parse_profile.
Status check_profile(const Profile& p) {
    std::set<OpShape> seen;
    if (!is_nonce(p.nonce)) return usage_error("a nonce is 16 to 64 letters and digits");
    for (const auto& e : p.entries) {
        if (!seen.insert(e.shape).second)
            return usage_error("operator measured twice in one profile", op_key(e.shape));
        if (!is_time(e.seconds) || e.repeats < 1 || !std::isfinite(e.spread) || e.spread < 0)
            return usage_error("seconds must be in (0, 3600], repeats at least 1, spread finite",
                               op_key(e.shape));
    }
    return Done{};
}

/// A row that some other program wrote, or a failing disk.
Error bad_row(const std::string& path, const std::string& name, const std::string& what) {
    return sql::bad_row(path, printable(name, 160) + " " + what);
}

}  // namespace

ProfileStore::ProfileStore(std::shared_ptr<sqlite3> db, const std::string& path)
    : db_(std::move(db)),
      path_(path),
      reports_(db_.get(), path),
      comm_(db_.get(), path),
      checks_(db_.get(), path) {}

Error ProfileStore::error(std::string_view doing) const {
    damaged_ = damaged_ || sql::is_corrupt(sqlite3_errcode(db_.get()));
    return sql::sql_error(db_.get(), path_, doing);
}

Status ProfileStore::import(const Profile& p, const std::string& model_name) {
    if (auto s = check_profile(p); !s) return s;
    Transaction t(db_.get());
    if (t.code() != SQLITE_OK) return error("import");
    Statement known(db_.get(), "SELECT 1 FROM runs WHERE nonce = ?");
    if (known.bind(p.nonce).step())
        return no_error("profile run " + p.nonce + " was imported before");
    if (known.code() != SQLITE_OK || insert_run(p, model_name) != SQLITE_OK) return error("import");
    if (insert_entries(p, sqlite3_last_insert_rowid(db_.get())) != SQLITE_OK)
        return error("import");
    if (t.commit() != SQLITE_OK) return error("import");
    return Done{};
}

Result<ProfileTable> ProfileStore::table(const std::string& gpu_type) {
    Statement s(
        db_.get(),
        "SELECT op_key, seconds FROM entries JOIN runs ON seq = run WHERE gpu_type = ?1 AND"
        " device_identity = (SELECT device_identity FROM runs WHERE gpu_type = ?1 AND"
        "   status != 'failed' AND EXISTS(SELECT 1 FROM entries WHERE run = seq) ORDER BY seq "
        "DESC LIMIT 1) ORDER BY "
        "seq");
    s.bind(gpu_type);
    OpSeconds seconds;
    while (s.step()) {
        if (!is_time(s.number(1))) return bad_row(path_, s.text(0), "has no possible time");
        if (const auto shape = parse_op_key(s.text(0))) seconds[*shape] = s.number(1);
    }
    if (s.code() != SQLITE_OK) return error("table");
    return ProfileTable(seconds);
}

Result<KnownOperators> ProfileStore::known(const std::string& gpu_type, const std::string& node) {
    KnownOperators known;
    Statement device(
        db_.get(),
        "SELECT device_identity FROM runs WHERE gpu_type = ? AND status != 'failed' AND"
        " EXISTS(SELECT 1 FROM entries WHERE run = seq) ORDER BY node = ? DESC, seq DESC LIMIT "
        "1");
    if (!device.bind(gpu_type).bind(node).step()) {
        if (device.code() != SQLITE_OK) return error("known");
        return known;
    }
    known.device_identity = device.text(0);
    Statement keys(
        db_.get(),
        "SELECT DISTINCT op_key FROM entries JOIN runs ON seq = run WHERE gpu_type = ? AND"
        " device_identity = ?");
    keys.bind(gpu_type).bind(known.device_identity);
    while (keys.step())
        if (const auto shape = parse_op_key(keys.text(0))) known.operators.insert(*shape);
    if (keys.code() != SQLITE_OK) return error("known");
    return known;
}

Result<std::vector<ProfileRun>> ProfileStore::runs() {
    Statement s(db_.get(), std::string(run_columns) + "ORDER BY seq DESC");
    std::vector<ProfileRun> rows;
    while (s.step()) rows.push_back(run_of(s));
    if (s.code() != SQLITE_OK) return error("list");
    return rows;
}

Result<ProfileRun> ProfileStore::find(const std::string& fingerprint, const std::string& gpu_type) {
    Statement s(db_.get(),
                std::string(run_columns) +
                    "WHERE model_fingerprint = ? AND gpu_type = ? AND status != 'failed' AND" +
                    std::string(still_holds) + "ORDER BY seq DESC LIMIT 1");
    if (s.bind(fingerprint).bind(gpu_type).step()) return run_of(s);
    if (s.code() != SQLITE_OK) return error("find");
    return no_error("no profile of model " + printable(fingerprint) + " on " + printable(gpu_type));
}

int ProfileStore::insert_run(const Profile& p, const std::string& model_name) {
    Statement s(
        db_.get(),
        "INSERT INTO runs(nonce, gpu_type, hardware, model_name, model_fingerprint, kind, name,"
        " uuid, driver, library, memory_bytes, threads, node, device_identity, status, reason,"
        " started_s, device_seconds, wanted, reused, direct_seconds, clock_mhz, temperature_c,"
        " power_limit_w, place) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    const Device& d = p.device;
    s.bind(p.nonce).bind(p.gpu_type).bind(p.hardware).bind(model_name).bind(p.model_fingerprint);
    s.bind(d.kind).bind(d.name).bind(d.uuid).bind(d.driver).bind(d.library).bind(d.memory_bytes);
    s.bind(d.threads).bind(d.node).bind(d.identity()).bind(to_string(p.status)).bind(p.reason);
    s.bind(p.started_s).bind(p.device_seconds).bind(p.wanted).bind(p.reused);
    s.bind(p.direct_seconds).bind(p.state.clock_mhz).bind(p.state.temperature_c);
    return s.bind(p.state.power_limit_w).bind(to_json(p.place)).run();
}

int ProfileStore::insert_entries(const Profile& p, std::int64_t run) {
    Statement s(db_.get(), "INSERT INTO entries VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)");
    for (const auto& e : p.entries) {
        s.bind(run)
            .bind(op_key(e.shape))
            .bind(to_string(e.shape.kind))
            .bind(to_string(e.shape.pass));
        s.bind(to_string(e.shape.precision));
        for (const auto d : e.shape.dims) s.bind(d);
        s.bind(variant_name(e.shape.variant)).bind(e.seconds).bind(e.repeats).bind(e.spread).run();
    }
    return s.code();
}

Result<Profile> ProfileStore::load(const std::string& nonce) {
    Statement s(
        db_.get(),
        "SELECT seq, gpu_type, hardware, model_fingerprint, kind, name, uuid, driver, library,"
        " memory_bytes, threads, node, status, reason, started_s, device_seconds, wanted, reused,"
        " direct_seconds, clock_mhz, temperature_c, power_limit_w, place"
        " FROM runs WHERE nonce = ?");
    if (!s.bind(nonce).step()) {
        if (s.code() != SQLITE_OK) return error("load");
        return no_error("no profile run " + printable(nonce) + " in the store");
    }
    Profile p;
    p.nonce = nonce;
    p.gpu_type = s.text(1);
    p.hardware = s.text(2);
    p.model_fingerprint = s.text(3);
    p.device = {.kind = s.text(4),
                .name = s.text(5),
                .uuid = s.text(6),
                .driver = s.text(7),
                .library = s.text(8),
                .memory_bytes = s.integer(9),
                .threads = s.integer(10),
                .node = s.text(11)};
    const auto status = parse_profile_status(s.text(12));
    if (!status) return bad_row(path_, nonce, "has no status that this program knows");
    p.status = *status;
    p.reason = s.text(13);
    p.started_s = s.number(14);
    p.device_seconds = s.number(15);
    p.wanted = s.integer(16);
    p.reused = s.integer(17);
    p.direct_seconds = s.number(18);
    p.state = {s.number(19), s.number(20), s.number(21)};
    p.place = parse_gpu_place(s.text(22)).value_or(GpuPlace{});
    Statement rows(db_.get(),
                   "SELECT kind, pass, precision, d0, d1, d2, d3, variant, seconds, repeats,"
                   " spread, op_key FROM entries WHERE run = ? ORDER BY op_key");
    rows.bind(s.integer(0));
    while (rows.step()) {
        const auto shape = shape_of(rows, 0);
        if (!shape || op_key(*shape) != rows.text(11))
            return bad_row(path_, rows.text(11), "is not the operator that its row tells of");
        if (!is_time(rows.number(8))) return bad_row(path_, rows.text(11), "has no possible time");
        p.entries.push_back({*shape, rows.number(8), rows.integer(9), rows.number(10)});
    }
    if (rows.code() != SQLITE_OK) return error("load");
    return p;
}

Result<std::vector<ProfileEntry>> ProfileStore::measured_on(const std::string& gpu_type,
                                                            const std::string& device_identity) {
    Statement s(db_.get(),
                "SELECT entries.kind, pass, precision, d0, d1, d2, d3, variant, seconds, repeats,"
                " spread, op_key FROM entries JOIN runs ON seq = run WHERE gpu_type = ? AND"
                " device_identity = ? ORDER BY op_key, seq");
    s.bind(gpu_type).bind(device_identity);
    std::vector<ProfileEntry> entries;
    while (s.step()) {
        const auto shape = shape_of(s, 0);
        if (!shape || op_key(*shape) != s.text(11) || !is_time(s.number(8)))
            continue;  // verify() names it; it is measured again
        if (!entries.empty() && entries.back().shape == *shape) entries.pop_back();
        entries.push_back({*shape, s.number(8), s.integer(9), s.number(10)});
    }
    if (s.code() != SQLITE_OK) return error("measured_on");
    return entries;
}

Result<std::vector<std::string>> ProfileStore::verify() {
    std::vector<std::string> wrong;
    if (quick_check(db_.get(), &wrong) != SQLITE_OK && !is_corrupt(sqlite3_errcode(db_.get())))
        return error("quick_check");
    const auto rows = sql::find_bad_rows(db_.get(), path_);
    if (!rows) return rows.error();
    wrong.insert(wrong.end(), rows->begin(), rows->end());
    return wrong;
}

Status ProfileStore::remove_bad() { return sql::remove_bad_rows(db_.get(), path_); }

Result<std::int64_t> ProfileStore::prune(double before_s) {
    Transaction t(db_.get());
    if (t.code() != SQLITE_OK) return error("prune");
    Statement entries(
        db_.get(), "DELETE FROM entries WHERE run IN (SELECT seq FROM runs WHERE started_s < ?)");
    if (entries.bind(before_s).run() != SQLITE_OK) return error("prune");
    Statement runs(db_.get(), "DELETE FROM runs WHERE started_s < ?");
    if (runs.bind(before_s).run() != SQLITE_OK) return error("prune");
    const std::int64_t gone = sqlite3_changes64(db_.get());
    Statement observed(db_.get(), "DELETE FROM observed WHERE at_s < ?");
    if (observed.bind(before_s).run() != SQLITE_OK) return error("prune");
    Statement checks(db_.get(), "DELETE FROM device_checks WHERE at_s < ?");
    if (checks.bind(before_s).run() != SQLITE_OK) return error("prune");
    if (t.commit() != SQLITE_OK) return error("prune");
    return gone;
}

Result<std::unique_ptr<ProfileStore>> ProfileStore::open(const std::string& path,
                                                         std::string* notice) {
    auto db = sql::open_store(path, notice);
    if (!db) return db.error();
    return std::unique_ptr<ProfileStore>(new ProfileStore(std::move(db).value(), path));
}

Result<std::unique_ptr<ProfileStore>> ProfileStore::open_read_only(const std::string& path) {
    auto db = sql::open_store_read_only(path);
    if (!db) return db.error();
    return std::unique_ptr<ProfileStore>(new ProfileStore(std::move(db).value(), path));
}

}  // namespace arena
