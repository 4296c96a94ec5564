// SPDX-License-Identifier: GPL-2.0-or-later
// See open.h. Schema, user_version 7, application_id "ARNA" (a newer user_version is refused, never
// converted down):
//   runs     one row per profile run. seq grows with each import and is what "newest" means: node
//            clocks differ, the order of import does not. nonce is unique. Device fields as in
//            Device.
//   entries  one row per measured operator of a run: op_key (unique in the run) and the shape it
//            stands for, seconds, repeats, spread. Failed runs have none.
//   comm     one row per measured collective: group of `ranks` over `nodes` that lie `span` apart,
//            with `groups` of them at the same time, and the bytes of the buffer on each rank. The
//            newest import stays. Before version 7 nobody said a span: ''.
//   observed one row per user, model, batch, launcher, grid and plan that a job ran and reported:
//   the
//            latest report. seq grows with each: what "latest" means. plan is JSON. user is a uid,
//            -1 where it is not known; shared: an administrator has made it everybody's, of whom
//            there is one row, whoever reported it; agreeing: job ids, see note_agreeing().
//   observed_before_6  reports that are found by a fingerprint which could be forged (see
//            to_version_6): set aside, read by nobody.
//   device_checks  one row per time that a check of a node's GPUs measured: see checks.cc.
#include "store/open.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

#include "base/file_descriptor.h"
#include "base/text.h"
#include "store/recognise.h"

namespace arena::sql {
namespace {

constexpr std::int64_t schema_version = 7;

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
  reason TEXT NOT NULL, started_s REAL NOT NULL, device_seconds REAL NOT NULL,
  wanted INTEGER NOT NULL DEFAULT 0, reused INTEGER NOT NULL DEFAULT 0,
  direct_seconds REAL NOT NULL DEFAULT 0, clock_mhz REAL NOT NULL DEFAULT 0,
  temperature_c REAL NOT NULL DEFAULT 0, power_limit_w REAL NOT NULL DEFAULT 0,
  place TEXT NOT NULL DEFAULT '');
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

/// The key's columns stand first: quick_check of SQLite 3.40 finds others damaged.
constexpr const char* comm_schema = R"(
CREATE TABLE comm(
  gpu_type TEXT NOT NULL, op TEXT NOT NULL,
  ranks INTEGER NOT NULL CHECK(ranks >= 2), nodes INTEGER NOT NULL CHECK(nodes >= 1),
  groups INTEGER NOT NULL CHECK(groups >= 1), bytes INTEGER NOT NULL CHECK(bytes >= 1),
  span TEXT NOT NULL,
  min_s REAL NOT NULL CHECK(min_s > 0), median_s REAL NOT NULL CHECK(median_s > 0),
  p95_s REAL NOT NULL CHECK(p95_s > 0), source TEXT NOT NULL,
  PRIMARY KEY(gpu_type, op, ranks, nodes, groups, bytes, span)) WITHOUT ROWID;
)";

constexpr const char* observed_schema = R"(
CREATE TABLE observed(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  model_fingerprint TEXT NOT NULL, model_name TEXT NOT NULL,
  global_batch INTEGER NOT NULL CHECK(global_batch >= 1), launcher TEXT NOT NULL,
  gpu_type TEXT NOT NULL, nodes INTEGER NOT NULL CHECK(nodes >= 1),
  gpus_per_node INTEGER NOT NULL CHECK(gpus_per_node >= 1), stages INTEGER NOT NULL CHECK(stages >= 1),
  plan TEXT NOT NULL,
  iteration_s REAL NOT NULL CHECK(iteration_s > 0), estimated_s REAL NOT NULL CHECK(estimated_s > 0),
  spread REAL NOT NULL CHECK(spread >= 0), steps INTEGER NOT NULL, job INTEGER NOT NULL, at_s REAL NOT NULL,
  user INTEGER NOT NULL, shared INTEGER NOT NULL CHECK(shared IN (0, 1)), agreeing TEXT NOT NULL);
CREATE UNIQUE INDEX observed_by_user ON observed(model_fingerprint, global_batch, launcher, gpu_type,
  nodes, gpus_per_node, plan, CASE shared WHEN 1 THEN -2 ELSE user END);
)";

/// Beside every version since 5: see checks.cc.
constexpr const char* checks_schema = R"(
CREATE TABLE IF NOT EXISTS device_checks(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  nonce TEXT NOT NULL, node TEXT NOT NULL, gpu_type TEXT NOT NULL,
  device INTEGER NOT NULL CHECK(device >= 0), peer INTEGER NOT NULL CHECK(peer >= -1),
  identity TEXT NOT NULL, model TEXT NOT NULL, what TEXT NOT NULL,
  seconds REAL NOT NULL CHECK(seconds > 0),
  verdict TEXT NOT NULL CHECK(verdict IN ('healthy','slow','unknown')), at_s REAL NOT NULL);
CREATE INDEX IF NOT EXISTS device_checks_by_node ON device_checks(node, verdict, seq);
CREATE INDEX IF NOT EXISTS device_checks_by_type ON device_checks(gpu_type, seq);
)";

/// From version 1: what a run re-used and saved, the device's state, and communication tables.
constexpr const char* to_version_2 = R"(
ALTER TABLE runs ADD COLUMN wanted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN reused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN direct_seconds REAL NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN clock_mhz REAL NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN temperature_c REAL NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN power_limit_w REAL NOT NULL DEFAULT 0;
)";
/// From version 2: where the GPU sits, as JSON; "" = not known.
constexpr const char* to_version_3 = "ALTER TABLE runs ADD COLUMN place TEXT NOT NULL DEFAULT '';";

/// Until version 5 a model's fingerprint was 64 bits that whoever wrote a model could choose. What
/// such a row is of cannot be told anew: the operators of a run stay, for each names its shape, but
/// of no model; reports are set aside.
constexpr const char* to_version_6 = R"(
UPDATE runs SET model_fingerprint = printf('%064d', 0);
)";
constexpr const char* set_reports_aside = R"(
ALTER TABLE observed RENAME TO observed_before_6;
DROP INDEX IF EXISTS observed_by_user;
)";

constexpr const char* set_comm_aside = "ALTER TABLE comm RENAME TO comm_before_7;";
constexpr const char* take_comm_back = R"(
INSERT INTO comm SELECT gpu_type, op, ranks, nodes, groups, bytes, '', min_s, median_s, p95_s, source
  FROM comm_before_7;
DROP TABLE comm_before_7;
)";

int execute(sqlite3* db, const std::string& text) {
    return sqlite3_exec(db, text.c_str(), nullptr, nullptr, nullptr);
}

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

/// Creates the file, or checks owner and kind of the one there. An
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
    return Done{};
}

/// Once it is known to be ours, with the journals that SQLite made as open as the file was.
Status close_to_others(const std::string& path) {
    for (const char* suffix : {"", "-wal", "-shm"}) {
        const std::string name = path + suffix;
        struct stat st {};
        if (::lstat(name.c_str(), &st) != 0 || (st.st_mode & 07777) == 0600) continue;
        if (::chmod(name.c_str(), 0600) != 0)
            return environment_error(std::string("cannot chmod 0600: ") + std::strerror(errno),
                                     name);
    }
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

/// All of the schema or nothing. Two processes may meet here: the later one finds it done.
std::optional<Error> create_schema(sqlite3* db, const std::string& path) {
    Transaction t(db);
    if (t.code() != SQLITE_OK) return sql_error(db, path, "create");
    if (pragma_integer(db, "PRAGMA user_version") == schema_version) return {};
    const auto id = "PRAGMA application_id=" + std::to_string(application_id);
    const auto version = "PRAGMA user_version=" + std::to_string(schema_version);
    if (execute(db, schema) != SQLITE_OK || execute(db, comm_schema) != SQLITE_OK ||
        execute(db, observed_schema) != SQLITE_OK || execute(db, id) != SQLITE_OK ||
        execute(db, version) != SQLITE_OK || t.commit() != SQLITE_OK)
        return sql_error(db, path, "create");
    return {};
}

/// An older schema becomes today's, or stays as it is. Says in *notice what it set aside.
std::optional<Error> upgrade_schema(sqlite3* db, const std::string& path, std::string* notice) {
    Transaction t(db);
    if (t.code() != SQLITE_OK) return sql_error(db, path, "upgrade");
    const auto found = pragma_integer(db, "PRAGMA user_version");
    if (found == schema_version) return {};
    const auto version = "PRAGMA user_version=" + std::to_string(schema_version);
    const bool is_first = found == 1, has_place = found >= 3, has_forged = found == 4 || found == 5,
               is_before_6 = found < 6;
    const std::int64_t reports =
        has_forged ? pragma_integer(db, "SELECT count(*) FROM observed").value_or(0) : 0;
    if ((is_first && execute(db, to_version_2) != SQLITE_OK) ||
        (!is_first && execute(db, set_comm_aside) != SQLITE_OK) ||
        execute(db, comm_schema) != SQLITE_OK ||
        (!is_first && execute(db, take_comm_back) != SQLITE_OK) ||
        (!has_place && execute(db, to_version_3) != SQLITE_OK) ||
        (has_forged && execute(db, set_reports_aside) != SQLITE_OK) ||
        (is_before_6 && execute(db, observed_schema) != SQLITE_OK) ||
        (is_before_6 && execute(db, to_version_6) != SQLITE_OK) ||
        execute(db, version) != SQLITE_OK || t.commit() != SQLITE_OK)
        return sql_error(db, path, "upgrade");
    if (reports > 0 && notice != nullptr)
        *notice =
            "profile store was of an older version, which found a model's reports by a sum "
            "that could be forged: " +
            std::to_string(reports) +
            " reports of iteration times count no more (table observed_before_6); measured "
            "operators stay";
    return {};
}

/// Without a lock where it is there: another process may have the store to itself.
bool has_checks(sqlite3* db) {
    return pragma_integer(db,
                          "SELECT count(*) FROM sqlite_schema WHERE name IN"
                          " ('device_checks_by_node', 'device_checks_by_type')") == 2;
}

/// SQLite takes a file shorter than its smallest page for an empty one; we wrote whole pages.
bool is_stump(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 && st.st_size > 0 && st.st_size < 512;
}

Attempt try_open(const std::string& path, bool writable, std::string* notice) {
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
    const auto version = pragma_integer(db.get(), "PRAGMA user_version");
    if (!writable && version != schema_version)
        return refused(std::move(db),
                       environment_error("profile store has an older schema; slurmctld converts it "
                                         "when it starts with this version of slurm-arena",
                                         path));
    if (!writable) return {std::move(db), Health::good, {}};
    if (execute(db.get(),
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON") !=
        SQLITE_OK)
        return failed(std::move(db), path, "journal");
    if (!*ours)
        if (auto e = create_schema(db.get(), path); e) return refused(std::move(db), *e);
    if (*ours && version != schema_version)
        if (auto e = upgrade_schema(db.get(), path, notice); e) return refused(std::move(db), *e);
    if (!has_checks(db.get()) && execute(db.get(), checks_schema) != SQLITE_OK)
        return refused(std::move(db), sql_error(db.get(), path, "create device_checks"));
    // The file itself says what it is from now on, not only its journal: see check_left_of_store().
    if (!*ours)
        sqlite3_wal_checkpoint_v2(db.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
    return {std::move(db), Health::good, {}};
}

/// What is there may be anybody's: profile.store was mistyped. Called without a connection of this
/// process: see prepare_file().
Status check_left_of_store(const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat st {};
    if (file.get() < 0 || ::fstat(file.get(), &st) != 0)
        return environment_error(std::string("cannot look at it: ") + std::strerror(errno), path);
    std::string start(looked_at_bytes, '\0');
    const ssize_t got =
        S_ISREG(st.st_mode) ? ::pread(file.get(), start.data(), start.size(), 0) : 0;
    start.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    if (is_left_of_store(start, static_cast<std::size_t>(st.st_size))) return Done{};
    return environment_error(
        "is no profile store, whole or damaged, and stays as it is: give another path as "
        "profile.store, or move the file away",
        path);
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

}  // namespace

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

/// Without the CHECKs, which SQLite looks at on connections for writing alone: one value that
/// cannot be is no damaged file, and who reads the row finds it (rows.h).
int quick_check(sqlite3* db, std::vector<std::string>* wrong) {
    execute(db, "PRAGMA ignore_check_constraints = ON");
    Statement s(db, "PRAGMA quick_check(20)");
    while (s.step())
        if (const auto line = s.text(0); line != "ok") wrong->push_back(line);
    // ends before `s` does: its end, where it failed, leaves SQLite the code and message of that
    execute(db, "PRAGMA ignore_check_constraints = OFF");
    return s.code();
}

Result<Database> open_store(const std::string& path, std::string* notice) {
    if (auto s = check_parent(path); !s) return s.error();
    if (auto s = prepare_file(path); !s) return s.error();
    auto attempt = try_open(path, true, notice);
    if (attempt.health == Health::corrupt) {
        attempt.db.reset();
        if (auto s = check_left_of_store(path); !s) return s.error();
        const auto aside = set_aside(path);
        if (!aside) return aside.error();
        if (notice != nullptr)
            *notice = "profile store was corrupt (" + attempt.error->text + "); it is kept as " +
                      *aside + " and an empty store takes its place: models are profiled again";
        if (auto s = prepare_file(path); !s) return s.error();
        attempt = try_open(path, true, nullptr);
    }
    if (attempt.health != Health::good) return *attempt.error;
    if (auto s = close_to_others(path); !s) return s.error();
    return std::move(attempt.db);
}

Result<Database> open_store_read_only(const std::string& path) {
    auto attempt = try_open(path, false, nullptr);
    if (attempt.health != Health::good) return *attempt.error;
    return std::move(attempt.db);
}

}  // namespace arena::sql
