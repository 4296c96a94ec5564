// SPDX-License-Identifier: GPL-2.0-or-later
// The profile store: one SQLite file (mode 0600, SlurmUser's) with every operator ever measured and
// every profile run. A corrupt file is renamed *.corrupt-TIME and an empty one takes its place.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checks/judge.h"
#include "core/comm_table.h"
#include "core/observation.h"
#include "core/profile.h"

struct sqlite3;

namespace arena {

struct ProfileRun {  ///< one row of `arena profile list`
    std::string nonce, gpu_type, hardware, model_name, model_fingerprint, device_identity, node,
        reason;
    ProfileStatus status = ProfileStatus::complete;
    double started_s = 0, device_seconds = 0;
    std::int64_t wanted = 0, reused = 0;
    double direct_seconds =
        0;  ///< what measuring the grids directly would have cost; 0 = not known
    std::int64_t entries = 0;
    bool operator==(const ProfileRun&) const = default;
};

struct KnownOperators {
    std::string device_identity;  ///< "" = nothing was measured
    std::set<OpShape> operators;
};

struct ObservedRuns {
    std::vector<ObservedRun> runs;  ///< oldest first
    std::vector<std::string>
        bad;  ///< a sentence for each row left out that cannot be: which, why, what to do
};

/// Reports that fit all that is given.
struct WhichObserved {
    std::optional<JobId> job;
    std::optional<std::int64_t> user;
    std::string gpu_type;  ///< "" = of any
};

/// What jobs reported of their iterations.
class ReportStore {
  public:
    ReportStore(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}
    /// Keeps what a job observed in place of what was kept of the same user, model, batch,
    /// launcher, grid and plan, and notes whether it agrees with that (see note_agreeing()).
    Status keep(ObservedRun);
    /// Makes reports count for everybody, or (shared false) for their users again; how many
    /// changed.
    Result<std::int64_t> share(const WhichObserved&, bool shared);
    /// All that can be.
    Result<ObservedRuns> all();

  private:
    [[nodiscard]] Error error(std::string_view doing) const;
    Result<std::optional<ObservedRun>> kept_before(const ObservedRun&);
    int insert(const ObservedRun&);

    sqlite3* db_;
    std::string path_;
};

/// Measured collectives.
class CommStore {
  public:
    CommStore(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}
    /// Replaces those of the same key, in one transaction; how many.
    Result<std::int64_t> import(const std::vector<CommTime>&, const std::string& source);
    /// All of a GRES type ("" = of all), sorted by key; an error where a row cannot be.
    Result<std::vector<CommTime>> times(const std::string& gpu_type);

  private:
    sqlite3* db_;
    std::string path_;
};

/// What checks of nodes' GPUs measured: what later ones are compared with.
class CheckStore {
  public:
    CheckStore(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}
    Result<bool> knows(const std::string& nonce);
    /// The latest eight of a node are kept, of those that were slow, healthy, neither.
    Status keep(const NodeCheck&, const CheckVerdict&);
    /// The median of the same device's healthy checks, else, of its products, that of what the
    /// type's GPUs of the same model took in the newest checks of other nodes.
    Result<References> references(const NodeCheck&);

  private:
    Status add_own(const NodeCheck&, References&);
    Status add_others(const NodeCheck&, References&);

    sqlite3* db_;
    std::string path_;
};

/// The file, and in it what profile runs measured.
class ProfileStore {
  public:
    /// Opens or creates; busy_timeout 50 ms, WAL, user_version checked. Sets *notice when a corrupt
    /// file was set aside.
    static Result<std::unique_ptr<ProfileStore>> open(const std::string& path,
                                                      std::string* notice = nullptr);
    static Result<std::unique_ptr<ProfileStore>> open_read_only(const std::string& path);

    ReportStore& reports() { return reports_; }
    CommStore& comm() { return comm_; }
    CheckStore& checks() { return checks_; }

    /// Whether what was asked of it has shown that the file is damaged: open() would set it aside.
    [[nodiscard]] bool is_damaged() const { return damaged_; }

    /// One transaction; the same nonce twice is refused (ErrorCode::no).
    Status import(const Profile&, const std::string& model_name);
    /// Measured seconds for a GRES type: the newest entry of the newest device identity.
    Result<ProfileTable> table(const std::string& gpu_type);
    /// Operators measured already on the device that `node` last showed, else on the newest of that
    /// GPU type.
    Result<KnownOperators> known(const std::string& gpu_type, const std::string& node);
    /// Every operator measured on exactly this device, newest seconds, sorted by op key.
    Result<std::vector<ProfileEntry>> measured_on(const std::string& gpu_type,
                                                  const std::string& device_identity);
    /// Runs, newest first.
    Result<std::vector<ProfileRun>> runs();
    /// Newest run of (fingerprint, gpu_type) that is complete or partial and still holds: its node
    /// has not shown another driver or library since. ErrorCode::no when none.
    Result<ProfileRun> find(const std::string& fingerprint, const std::string& gpu_type);
    Result<Profile> load(const std::string& nonce);

    /// quick_check and per-row checks; the list of what is wrong, empty = good.
    Result<std::vector<std::string>> verify();
    /// Removes the rows that verify() names, in one transaction. The model of a bad operator's run
    /// is measured again, but for the run's other operators.
    Status remove_bad();
    /// Removes the runs that started before an epoch second, with their entries, and what was
    /// observed before; how many runs went.
    Result<std::int64_t> prune(double before_s);

  private:
    ProfileStore(std::shared_ptr<sqlite3>, const std::string& path);
    [[nodiscard]] Error error(std::string_view doing) const;
    int insert_run(const Profile&, const std::string& model_name);
    int insert_entries(const Profile&, std::int64_t run);

    std::shared_ptr<sqlite3> db_;
    std::string path_;
    ReportStore reports_;
    CommStore comm_;
    CheckStore checks_;
    mutable bool damaged_ = false;
};

/// Reads a spool file NONCE.json as untrusted: O_NOFOLLOW, regular, owned by `owner_uid`, at most 1
/// MiB, nonce inside equal to the file's and to the expected one, entries sane (parse_profile).
Result<Profile> read_spool_profile(const std::string& spool, const std::string& nonce,
                                   unsigned owner_uid);
/// The same of a check.
Result<NodeCheck> read_spool_check(const std::string& spool, const std::string& nonce,
                                   unsigned owner_uid);
/// NONCE.progress of a run that goes on, as untrusted; ErrorCode::no when there is none (yet, or
/// any more).
Result<ProfileProgress> read_spool_progress(const std::string& spool, const std::string& nonce,
                                            unsigned owner_uid);

}  // namespace arena
