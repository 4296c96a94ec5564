// SPDX-License-Identifier: GPL-2.0-or-later
// What jobs reported, in the profile store: the table `observed` (open.cc).
#include <optional>
#include <utility>

#include "store/open.h"
#include "store/rows.h"
#include "store/sql.h"
#include "store/store.h"

namespace arena {

using sql::Statement;
using sql::Transaction;

/// Rows left out that are named one by one.
static constexpr std::size_t max_named_rows = 8;

Error ReportStore::error(std::string_view doing) const { return sql::sql_error(db_, path_, doing); }

/// What this one takes the place of; nothing where that cannot be read either.
Result<std::optional<ObservedRun>> ReportStore::kept_before(const ObservedRun& run) {
    const Grid& grid = run.observation.grid;
    Statement s(db_, std::string(sql::select_observed) +
                         "WHERE model_fingerprint = ? AND global_batch = ? AND launcher = ? AND"
                         " gpu_type = ? AND nodes = ? AND gpus_per_node = ? AND plan = ? AND"
                         " shared = ? AND (shared OR user = ?)");
    s.bind(run.model_fingerprint).bind(run.global_batch).bind(run.launcher).bind(grid.gpu_type);
    s.bind(grid.nodes).bind(grid.gpus_per_node).bind(to_json(run.observation.plan));
    std::optional<ObservedRun> before;
    if (s.bind(std::int64_t{run.shared}).bind(run.user).step())
        if (auto row = sql::observed_of(s)) before = std::move(*row);
    if (s.code() != SQLITE_OK) return error("keep what was observed");
    return before;
}

Status ReportStore::keep(ObservedRun run) {
    if (auto good = sql::check_observed(run); !good) return good;
    Transaction t(db_);
    if (t.code() != SQLITE_OK) return error("keep what was observed");
    const auto before = kept_before(run);
    if (!before) return before.error();
    note_agreeing(run, before->has_value() ? &**before : nullptr);
    if (insert(run) != SQLITE_OK || t.commit() != SQLITE_OK) return error("keep what was observed");
    return Done{};
}

int ReportStore::insert(const ObservedRun& run) {
    const Observation& o = run.observation;
    Statement s(
        db_,
        "INSERT OR REPLACE INTO observed(model_fingerprint, model_name, global_batch, launcher,"
        " gpu_type, nodes, gpus_per_node, stages, plan, iteration_s, estimated_s, spread, steps,"
        " job, at_s, user, shared, agreeing) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    s.bind(run.model_fingerprint).bind(run.model_name).bind(run.global_batch).bind(run.launcher);
    s.bind(o.grid.gpu_type).bind(o.grid.nodes).bind(o.grid.gpus_per_node).bind(o.grid.stages);
    s.bind(to_json(o.plan)).bind(o.iteration_s).bind(o.estimated_s).bind(o.spread).bind(run.steps);
    s.bind(static_cast<std::int64_t>(run.job)).bind(run.at_s).bind(run.user);
    return s.bind(std::int64_t{run.shared}).bind(sql::text_of(run.agreeing)).run();
}

/// What is shared anew takes the place of what was; what is taken back gives way to what its user
/// has reported since.
Result<std::int64_t> ReportStore::share(const WhichObserved& which, bool shared) {
    constexpr std::string_view those =
        " WHERE shared != ?1 AND (?2 < 0 OR job = ?2) AND (?3 < 0 OR user = ?3) AND"
        " (?4 = '' OR gpu_type = ?4)";
    const auto run = [&](const std::string& what) {
        Statement s(db_, what + std::string(those));
        s.bind(std::int64_t{shared}).bind(which.job ? std::int64_t{*which.job} : -1);
        return s.bind(which.user.value_or(-1)).bind(which.gpu_type).run() == SQLITE_OK;
    };
    Transaction t(db_);
    if (t.code() != SQLITE_OK) return error("share what was observed");
    const std::int64_t before = sqlite3_total_changes64(db_);
    if (!run(shared ? "UPDATE OR REPLACE observed SET shared = ?1"
                    : "UPDATE OR IGNORE observed SET shared = ?1"))
        return error("share what was observed");
    const std::int64_t changed = sqlite3_changes64(db_);
    if (!shared && !run("DELETE FROM observed")) return error("share what was observed");
    const std::int64_t all = sqlite3_total_changes64(db_) - before;
    if (t.commit() != SQLITE_OK) return error("share what was observed");
    return shared ? changed : all;
}

/// Each report stands for itself: one that cannot be takes no other with it. Collectives and
/// operators are used together, as a fit or a sum, which without one of them would be another.
Result<ObservedRuns> ReportStore::all() {
    Statement s(db_, std::string(sql::select_observed) + "ORDER BY seq");
    ObservedRuns observed;
    std::size_t bad = 0;
    while (s.step()) {
        auto run = sql::observed_of(s);
        if (run)
            observed.runs.push_back(std::move(*run));
        else if (++bad <= max_named_rows)
            observed.bad.push_back(path_ + ": " + sql::told(run.error()) +
                                   "; it is left out, `arena profile verify --remove` removes it");
    }
    if (s.code() != SQLITE_OK) return error("observed");
    if (bad > max_named_rows)
        observed.bad.push_back(path_ + ": " + std::to_string(bad - max_named_rows) +
                               " more rows of observed cannot be and are left out; `arena profile "
                               "verify` names them");
    return observed;
}

}  // namespace arena
