// SPDX-License-Identifier: GPL-2.0-or-later
// The profile store on SQLite. One writer (the scheduler plug-in as SlurmUser), readers beside it.
// A cache: losing it costs profiling again, so a corrupt file is set aside and never stops a round.
//
// Schema, user_version 1, application_id "ARNA" (a newer user_version is refused, never converted
// down):
//   runs     one row per profile run. seq grows with each import and is what "newest" means: node
//            clocks differ, the order of import does not. nonce is unique. Device fields as in
//            Device.
//   entries  one row per measured operator of a run: op_key (unique in the run) and the shape it
//   stands
//            for, seconds, repeats, spread. Failed runs have none.
#include "store/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <optional>
#include <set>
#include <utility>

#include "core/text.h"
#include "store/sql.h"

namespace arena {
namespace {

using sql::Database;
using sql::Statement;
using sql::Transaction;

constexpr std::int64_t schema_version = 1;
constexpr std::int64_t application_id = 0x41524e41;

constexpr const char* schema = R"(
CREATE TABLE runs(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  nonce TEXT NOT NULL UNIQUE,
  gpu_type TEXT NOT NULL, hardware TEXT NOT NULL,
  model_name TEXT NOT NULL, model_fingerprint TEXT NOT NULL,
  kind TEXT NOT NULL, name TEXT NOT NULL, uuid TEXT NOT NULL, driver TEXT NOT NULL,
  library TEXT NOT NULL, memory_bytes INTEGER NOT NULL, threads INTEGER NOT NULL,
  node TEXT NOT NULL, device_identity TEXT NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('complete','partial','failed')),
  reason TEXT NOT NULL, started_s REAL NOT NULL, device_seconds REAL NOT NULL);
CREATE INDEX runs_by_model ON runs(model_fingerprint, gpu_type, seq);
CREATE INDEX runs_by_type ON runs(gpu_type, device_identity, seq);
CREATE TABLE entries(
  run INTEGER NOT NULL REFERENCES runs(seq),
  op_key TEXT NOT NULL,
  kind TEXT NOT NULL, pass TEXT NOT NULL, precision TEXT NOT NULL,
  d0 INTEGER NOT NULL, d1 INTEGER NOT NULL, d2 INTEGER NOT NULL, d3 INTEGER NOT NULL,
  variant TEXT NOT NULL,
  seconds REAL NOT NULL CHECK(seconds > 0), repeats INTEGER NOT NULL CHECK(repeats >= 1),
  spread REAL NOT NULL,
  PRIMARY KEY(run, op_key)) WITHOUT ROWID;
)";

constexpr std::string_view run_columns =
    "SELECT nonce, gpu_type, hardware, model_name, model_fingerprint, device_identity, node, "
    "reason,"
    " status, started_s, device_seconds, (SELECT count(*) FROM entries WHERE run = seq) FROM runs ";

bool is_corrupt(int code) {
    return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

Error sql_error(sqlite3* db, const std::string& path, std::string_view doing) {
    const int code = sqlite3_errcode(db) & 0xff;
    std::string text = "profile store: " + std::string(doing) + ": " + sqlite3_errmsg(db);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        text += " (another process holds it; tried for 50 ms)";
    if (code == SQLITE_FULL) text += " (the disk is full)";
    return environment_error(std::move(text), path);
}

int execute(sqlite3* db, const std::string& text) {
    return sqlite3_exec(db, text.c_str(), nullptr, nullptr, nullptr);
}

// ---- opening ----------------------------------------------------------------------------------

/// The directory must not let others put a file (or a -wal of theirs) in our place.
Status check_parent(const std::string& path) {
    const auto slash = path.rfind('/');
    const std::string dir = slash == std::string::npos ? "."
                            : slash == 0               ? "/"
                                                       : path.substr(0, slash);
    struct stat st {};
    if (::stat(dir.c_str(), &st) != 0)
        return environment_error(std::string("directory of the profile store: ") +
                                     std::strerror(errno) +
                                     "; create it for SlurmUser with mode 0700",
                                 dir);
    if ((st.st_mode & 022) != 0)
        return environment_error(
            "directory of the profile store is writable by group or others; "
            "chmod 0700 it",
            dir);
    return Done{};
}

/// Creates the file, or checks owner and kind of the one there, and makes its mode 0600. An
/// existing file is never opened here: closing it would drop the locks of another connection of
/// this process.
Status prepare_file(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        ::close(fd);
        return Done{};
    }
    if (errno != EEXIST)
        return environment_error(
            std::string("cannot create the profile store: ") + std::strerror(errno), path);
    struct stat st {};
    if (::lstat(path.c_str(), &st) != 0) return environment_error(std::strerror(errno), path);
    if (S_ISLNK(st.st_mode)) return environment_error("profile store is a symbolic link", path);
    if (!S_ISREG(st.st_mode)) return environment_error("profile store is not a regular file", path);
    if (st.st_uid != ::geteuid() && ::geteuid() != 0)
        return environment_error("profile store belongs to uid " + std::to_string(st.st_uid), path);
    if ((st.st_mode & 07777) != 0600 && ::chmod(path.c_str(), 0600) != 0)
        return environment_error(std::string("cannot chmod 0600: ") + std::strerror(errno), path);
    return Done{};
}

/// What one attempt to open said: usable, corrupt (set it aside), or an error to report.
enum class Health { good, corrupt, error };
struct Attempt {
    Database db;
    Health health = Health::error;
    std::optional<Error> error;
};

Attempt failed(Database db, const std::string& path, std::string_view doing) {
    Attempt a;
    a.health = is_corrupt(sqlite3_errcode(db.get())) ? Health::corrupt : Health::error;
    a.error = sql_error(db.get(), path, doing);
    a.db = std::move(db);
    return a;
}

Attempt refused(Database db, Error error) {
    return {std::move(db), Health::error, std::move(error)};
}

std::optional<std::int64_t> pragma_integer(sqlite3* db, std::string_view text) {
    Statement s(db, text);
    if (!s.step()) return {};
    return s.integer(0);
}

/// True: our schema. False: an empty file. Nothing: SQLite error (see errcode) or a refusal in
/// *error.
std::optional<bool> recognise(sqlite3* db, const std::string& path, std::optional<Error>* error) {
    const auto version = pragma_integer(db, "PRAGMA user_version");
    if (!version) return {};
    const auto id = pragma_integer(db, "PRAGMA application_id");
    if (!id) return {};
    const auto tables = pragma_integer(db, "SELECT count(*) FROM sqlite_schema");
    if (!tables) return {};
    if (*version == 0 && *id == 0 && *tables == 0) return false;
    if (*id != application_id)
        *error =
            environment_error("is an SQLite file but not a profile store; give another path", path);
    else if (*version > schema_version)
        *error =
            environment_error("profile store has schema version " + std::to_string(*version) +
                                  ", this program knows up to " + std::to_string(schema_version) +
                                  "; upgrade slurm-arena, or move the file away",
                              path);
    if (*error) return {};
    return true;
}

int quick_check(sqlite3* db, std::vector<std::string>* wrong) {
    Statement s(db, "PRAGMA quick_check(20)");
    while (s.step())
        if (const auto line = s.text(0); line != "ok") wrong->push_back(line);
    return s.code();
}

/// All of the schema or nothing. Two processes may meet here: the later one finds it done.
std::optional<Error> create_schema(sqlite3* db, const std::string& path) {
    Transaction t(db);
    if (t.code() != SQLITE_OK) return sql_error(db, path, "create");
    if (pragma_integer(db, "PRAGMA user_version") == schema_version) return {};
    const auto id = "PRAGMA application_id=" + std::to_string(application_id);
    const auto version = "PRAGMA user_version=" + std::to_string(schema_version);
    if (execute(db, schema) != SQLITE_OK || execute(db, id) != SQLITE_OK ||
        execute(db, version) != SQLITE_OK || t.commit() != SQLITE_OK)
        return sql_error(db, path, "create");
    return {};
}

/// SQLite takes a file shorter than its smallest page for an empty one; we wrote whole pages.
bool is_stump(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 && st.st_size > 0 && st.st_size < 512;
}

Attempt try_open(const std::string& path, bool writable) {
    sqlite3* raw = nullptr;
    const int flags = (writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) |
                      SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_EXRESCODE;
    const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
    Database db(raw);
    if (!db) return {nullptr, Health::error, environment_error("out of memory", path)};
    if (code != SQLITE_OK) return failed(std::move(db), path, "open");
    sqlite3_busy_timeout(db.get(), 50);
    sqlite3_db_config(db.get(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(db.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    std::optional<Error> error;
    const auto ours = recognise(db.get(), path, &error);
    if (error) return refused(std::move(db), *error);
    if (ours == false && is_stump(path))
        return {std::move(db), Health::corrupt,
                environment_error("profile store is cut off", path)};
    if (!ours) return failed(std::move(db), path, "read");
    std::vector<std::string> wrong;
    if (quick_check(db.get(), &wrong) != SQLITE_OK)
        return failed(std::move(db), path, "quick_check");
    if (!wrong.empty())
        return {std::move(db), Health::corrupt,
                environment_error("profile store: " + wrong.front(), path)};
    if (!writable && !*ours)
        return refused(std::move(db), environment_error("profile store is empty", path));
    if (!writable) return {std::move(db), Health::good, {}};
    if (execute(db.get(),
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON") !=
        SQLITE_OK)
        return failed(std::move(db), path, "journal");
    if (!*ours)
        if (auto e = create_schema(db.get(), path); e) return refused(std::move(db), *e);
    return {std::move(db), Health::good, {}};
}

/// Renames the file and its journals; returns the new name.
Result<std::string> set_aside(const std::string& path) {
    char stamp[32];
    const std::time_t now = std::time(nullptr);
    struct tm parts {};
    ::gmtime_r(&now, &parts);
    std::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &parts);
    std::string name = path + ".corrupt-" + stamp;
    for (int i = 1; ::access(name.c_str(), F_OK) == 0; ++i)
        name = path + ".corrupt-" + stamp + "." + std::to_string(i);
    if (::rename(path.c_str(), name.c_str()) != 0)
        return environment_error(
            std::string("cannot set the corrupt profile store aside: ") + std::strerror(errno),
            path);
    for (const char* suffix : {"-wal", "-shm", "-journal"})
        if (::rename((path + suffix).c_str(), (name + suffix).c_str()) != 0 && errno != ENOENT)
            return environment_error("cannot set the corrupt profile store's journal aside",
                                     path + suffix);
    return name;
}

// ---- rows -------------------------------------------------------------------------------------

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
    r.entries = s.integer(11);
    return r;
}

/// Columns kind, pass, precision, d0..d3, variant from `first` on.
std::optional<OpShape> shape_of(const Statement& s, int first) {
    const auto kind = parse_op_kind(s.text(first));
    const auto pass = parse_pass(s.text(first + 1));
    const auto precision = parse_precision(s.text(first + 2));
    if (!kind || !pass || !precision) return {};
    OpShape shape{*kind, *pass, *precision, {}, s.text(first + 7)};
    for (int i = 0; i < 4; ++i) shape.dims[static_cast<std::size_t>(i)] = s.integer(first + 3 + i);
    return shape;
}

/// What import() demands of a value that did not come through parse_profile.
Status check_profile(const Profile& p) {
    std::set<std::string> keys;
    if (!is_nonce(p.nonce)) return usage_error("a nonce is 16 to 64 letters and digits");
    for (const auto& e : p.entries) {
        const auto key = op_key(e.shape);
        if (!keys.insert(key).second)
            return usage_error("operator measured twice in one profile", key);
        if (!std::isfinite(e.seconds) || e.seconds <= 0 || e.seconds > 3600 || e.repeats < 1 ||
            !std::isfinite(e.spread) || e.spread < 0)
            return usage_error("seconds must be in (0, 3600], repeats at least 1, spread finite",
                               key);
    }
    return Done{};
}

class SqliteStore final : public ProfileStore {
  public:
    SqliteStore(Database db, std::string path) : db_(std::move(db)), path_(std::move(path)) {}

    Status import(const Profile& p, const std::string& model_name) override {
        if (auto s = check_profile(p); !s) return s;
        Transaction t(db_.get());
        if (t.code() != SQLITE_OK) return error("import");
        Statement known(db_.get(), "SELECT 1 FROM runs WHERE nonce = ?");
        if (known.bind(p.nonce).step())
            return no_error("profile run " + p.nonce + " was imported before");
        if (known.code() != SQLITE_OK || insert_run(p, model_name) != SQLITE_OK)
            return error("import");
        if (insert_entries(p, sqlite3_last_insert_rowid(db_.get())) != SQLITE_OK)
            return error("import");
        if (t.commit() != SQLITE_OK) return error("import");
        return Done{};
    }

    Result<ProfileTable> table(const std::string& gpu_type) override {
        Statement s(
            db_.get(),
            "SELECT op_key, seconds FROM entries JOIN runs ON seq = run WHERE gpu_type = ?1 AND"
            " device_identity = (SELECT device_identity FROM runs WHERE gpu_type = ?1 AND"
            "   status != 'failed' AND EXISTS(SELECT 1 FROM entries WHERE run = seq) ORDER BY seq "
            "DESC LIMIT 1) ORDER BY "
            "seq");
        s.bind(gpu_type);
        ProfileTable table;
        while (s.step()) table[s.text(0)] = s.number(1);
        if (s.code() != SQLITE_OK) return error("table");
        return table;
    }

    Result<KnownOperators> known(const std::string& gpu_type, const std::string& node) override {
        KnownOperators known;
        Statement device(db_.get(),
                         "SELECT device_identity FROM runs WHERE gpu_type = ? AND status != 'failed' AND"
                         " EXISTS(SELECT 1 FROM entries WHERE run = seq) ORDER BY node = ? DESC, seq DESC LIMIT 1");
        if (!device.bind(gpu_type).bind(node).step()) {
            if (device.code() != SQLITE_OK) return error("known");
            return known;
        }
        known.device_identity = device.text(0);
        Statement keys(db_.get(),
                       "SELECT DISTINCT op_key FROM entries JOIN runs ON seq = run WHERE gpu_type = ? AND"
                       " device_identity = ? ORDER BY op_key");
        keys.bind(gpu_type).bind(known.device_identity);
        while (keys.step()) known.op_keys.push_back(keys.text(0));
        if (keys.code() != SQLITE_OK) return error("known");
        return known;
    }

    Result<std::vector<ProfileRun>> runs() override {
        Statement s(db_.get(), std::string(run_columns) + "ORDER BY seq DESC");
        std::vector<ProfileRun> rows;
        while (s.step()) rows.push_back(run_of(s));
        if (s.code() != SQLITE_OK) return error("list");
        return rows;
    }

    Result<ProfileRun> find(const std::string& fingerprint, const std::string& gpu_type) override {
        Statement s(db_.get(),
                    std::string(run_columns) +
                        "WHERE model_fingerprint = ? AND gpu_type = ? AND status != 'failed'"
                        " ORDER BY seq DESC LIMIT 1");
        if (s.bind(fingerprint).bind(gpu_type).step()) return run_of(s);
        if (s.code() != SQLITE_OK) return error("find");
        return no_error("no profile of model " + printable(fingerprint) + " on " +
                        printable(gpu_type));
    }

    Result<Profile> load(const std::string& nonce) override;
    Result<std::vector<std::string>> verify() override;
    Result<std::int64_t> prune(double before_s) override;

  private:
    Error error(std::string_view doing) const { return sql_error(db_.get(), path_, doing); }
    int insert_run(const Profile& p, const std::string& model_name);
    int insert_entries(const Profile& p, std::int64_t run);
    Database db_;
    std::string path_;
};

int SqliteStore::insert_run(const Profile& p, const std::string& model_name) {
    Statement s(
        db_.get(),
        "INSERT INTO runs(nonce, gpu_type, hardware, model_name, model_fingerprint, kind, name,"
        " uuid, driver, library, memory_bytes, threads, node, device_identity, status, reason,"
        " started_s, device_seconds) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    const Device& d = p.device;
    s.bind(p.nonce).bind(p.gpu_type).bind(p.hardware).bind(model_name).bind(p.model_fingerprint);
    s.bind(d.kind).bind(d.name).bind(d.uuid).bind(d.driver).bind(d.library).bind(d.memory_bytes);
    s.bind(d.threads).bind(d.node).bind(d.identity()).bind(to_string(p.status)).bind(p.reason);
    return s.bind(p.started_s).bind(p.device_seconds).run();
}

int SqliteStore::insert_entries(const Profile& p, std::int64_t run) {
    Statement s(db_.get(), "INSERT INTO entries VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)");
    for (const auto& e : p.entries) {
        s.bind(run)
            .bind(op_key(e.shape))
            .bind(to_string(e.shape.kind))
            .bind(to_string(e.shape.pass));
        s.bind(to_string(e.shape.precision));
        for (const auto d : e.shape.dims) s.bind(d);
        s.bind(e.shape.variant).bind(e.seconds).bind(e.repeats).bind(e.spread).run();
    }
    return s.code();
}

Result<Profile> SqliteStore::load(const std::string& nonce) {
    Statement s(
        db_.get(),
        "SELECT seq, gpu_type, hardware, model_fingerprint, kind, name, uuid, driver, library,"
        " memory_bytes, threads, node, status, reason, started_s, device_seconds"
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
    p.device = {s.text(4), s.text(5),    s.text(6),     s.text(7),
                s.text(8), s.integer(9), s.integer(10), s.text(11)};
    p.status = parse_profile_status(s.text(12)).value_or(ProfileStatus::failed);
    p.reason = s.text(13);
    p.started_s = s.number(14);
    p.device_seconds = s.number(15);
    Statement rows(db_.get(),
                   "SELECT kind, pass, precision, d0, d1, d2, d3, variant, seconds, repeats,"
                   " spread, op_key FROM entries WHERE run = ? ORDER BY op_key");
    rows.bind(s.integer(0));
    while (rows.step()) {
        const auto shape = shape_of(rows, 0);
        if (!shape)
            return environment_error("operator is not one this program knows: " + rows.text(11),
                                     path_);
        p.entries.push_back({*shape, rows.number(8), rows.integer(9), rows.number(10)});
    }
    if (rows.code() != SQLITE_OK) return error("load");
    return p;
}

Result<std::vector<std::string>> SqliteStore::verify() {
    std::vector<std::string> wrong;
    if (quick_check(db_.get(), &wrong) != SQLITE_OK && !is_corrupt(sqlite3_errcode(db_.get())))
        return error("quick_check");
    Statement s(db_.get(),
                "SELECT kind, pass, precision, d0, d1, d2, d3, variant, seconds, repeats,"
                " spread, op_key, run, (SELECT nonce FROM runs WHERE seq = run) FROM entries");
    while (s.step()) {
        const auto shape = shape_of(s, 0);
        const std::string row =
            "run " + s.text(13) + " operator " + printable(s.text(11), 160) + ": ";
        if (s.text(13).empty()) wrong.push_back(row + "belongs to no run (" + s.text(12) + ")");
        if (!shape || op_key(*shape) != s.text(11))
            wrong.push_back(row + "the key does not match the shape");
        if (const double t = s.number(8); !std::isfinite(t) || t <= 0 || t > 3600)
            wrong.push_back(row + "seconds outside (0, 3600]");
        if (s.integer(9) < 1) wrong.push_back(row + "repeats below 1");
        if (const double w = s.number(10); !(w >= 0 && w <= 10))
            wrong.push_back(row + "spread outside [0, 10]");
    }
    if (s.code() != SQLITE_OK && !is_corrupt(s.code())) return error("verify");
    if (s.code() != SQLITE_OK) wrong.push_back("entries cannot be read to the end");
    Statement r(db_.get(),
                "SELECT nonce FROM runs WHERE length(nonce) NOT BETWEEN 16 AND 64 OR"
                " (status = 'failed' AND EXISTS(SELECT 1 FROM entries WHERE run = seq))");
    while (r.step())
        wrong.push_back("run " + printable(r.text(0)) + ": bad nonce, or failed with entries");
    return wrong;
}

Result<std::int64_t> SqliteStore::prune(double before_s) {
    Transaction t(db_.get());
    if (t.code() != SQLITE_OK) return error("prune");
    Statement entries(
        db_.get(), "DELETE FROM entries WHERE run IN (SELECT seq FROM runs WHERE started_s < ?)");
    if (entries.bind(before_s).run() != SQLITE_OK) return error("prune");
    Statement runs(db_.get(), "DELETE FROM runs WHERE started_s < ?");
    if (runs.bind(before_s).run() != SQLITE_OK) return error("prune");
    const std::int64_t gone = sqlite3_changes64(db_.get());
    if (t.commit() != SQLITE_OK) return error("prune");
    return gone;
}

}  // namespace

Result<std::unique_ptr<ProfileStore>> ProfileStore::open(const std::string& path,
                                                         std::string* notice) {
    if (auto s = check_parent(path); !s) return s.error();
    if (auto s = prepare_file(path); !s) return s.error();
    auto attempt = try_open(path, true);
    if (attempt.health == Health::corrupt) {
        attempt.db.reset();
        const auto aside = set_aside(path);
        if (!aside) return aside.error();
        if (notice != nullptr)
            *notice = "profile store was corrupt (" + attempt.error->text + "); it is kept as " +
                      *aside + " and an empty store takes its place: models are profiled again";
        if (auto s = prepare_file(path); !s) return s.error();
        attempt = try_open(path, true);
    }
    if (attempt.health != Health::good) return *attempt.error;
    return std::unique_ptr<ProfileStore>(
        std::make_unique<SqliteStore>(std::move(attempt.db), path));
}

Result<std::unique_ptr<ProfileStore>> ProfileStore::open_read_only(const std::string& path) {
    auto attempt = try_open(path, false);
    if (attempt.health != Health::good) return *attempt.error;
    return std::unique_ptr<ProfileStore>(
        std::make_unique<SqliteStore>(std::move(attempt.db), path));
}

}  // namespace arena
