// SPDX-License-Identifier: GPL-2.0-or-later
// arena.yaml: what a site sets. Each key has a default, a unit and a range; unknown keys are
// refused with the nearest known one. Parsed once, swapped whole on reconfigure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

/// One GRES type of the site (`gpu:a40`) and the hardware entry that describes it.
struct GpuMapping {
    std::string gres_type;
    std::string hardware;
    bool operator==(const GpuMapping&) const = default;
};

struct Config {
    bool enabled = true;
    std::string mode = "act";  ///< or observe: decides, and Slurm schedules as if alone
    std::string policy = "arena";
    std::string objective = "jct";    ///< of policy arena: jct, throughput or fairness
    std::string order = "priority";   ///< of policy arena: priority or value
    double promise_slack = 0.1;       ///< share of its JCT that a promised job may end later, 0..10
    std::int64_t promise_depth = 10;  ///< steps of priority whose first job has a promise, 0..32
    double priority_step = 0.05;      ///< priorities this close count as equal, 0..1
    double interval_s = 5;            ///< longest time between rounds, 0.2..3600
    double min_gap_s = 0.5;           ///< shortest time between rounds, 0..60
    std::int64_t reserve_depth = 1;   ///< 0..100
    std::int64_t slice_ms = 20;       ///< longest time a write lock is held while applying, 1..1000
    std::vector<GpuMapping> gpu_types;  ///< key gpu_types: map GRES type -> hardware entry
    std::string hardware_file;          ///< extra hardware entries; "" = none
    std::string calibration_file;       ///< constants over the built-in ones; "" = none
    std::int64_t cpus_per_gpu = 0;      ///< 0 = even share of the node
    std::int64_t mem_per_gpu_mb = 0;    ///< 0 = even share of the node
    // observe:
    std::string observe_models;  ///< rules that say what ordinary jobs train; "" = none
    // profile:
    bool profile_enabled = true;
    std::string profile_user = "arena";  ///< service user that carrier jobs belong to
    double profile_budget_s = 60;        ///< device seconds per profile run, 1..3600
    double profile_time_limit_s = 300;   ///< wall limit of a carrier job, 10..86400
    std::int64_t profile_retries = 2;    ///< nodes tried before analytic estimates stand in, 1..2
    double profile_backoff_s = 600;      ///< before a failed profile is tried again, 0..86400
    std::string profile_spool = "/var/spool/slurm-arena";  ///< writable by the service user only
    std::string profile_store = "/var/lib/slurm-arena/profiles.db";
    double profile_max_wait_s = 60;  ///< a job waits for runs that begin within this, 0..86400
    std::int64_t profile_runs_per_hour = 60;  ///< of one user, 0..1000; 0 = any number
    bool use_reports = true;                  ///< what jobs report corrects offers
    std::string profile_partition;            ///< "" = the waiting job's partition
    // resize:
    std::string checkpoint_signal = "USR1";
    double checkpoint_grace_s = 120;      ///< 1..86400
    std::int64_t requeue_exit_code = 99;  ///< RequeueExitHold code, 1..255
    double cooldown_s = 600;              ///< a job runs this long before Arena moves it, 0..604800
    std::int64_t moves_per_hour = 3;      ///< Arena's own resizes of one job, 0..12
    double restart_checkpoint_s = 30;     ///< what a restart costs: see RestartCost; 0..86400
    double restart_per_gpu_s = 10, restart_launch_cap_s = 40;
    // slowdown:
    std::string slowdown_default = "off";     ///< of jobs that do not say: slowdown_modes
    double slowdown_poll_s = 5;               ///< between looks of a node's agent, 1..300
    double slowdown_threshold = 1.10;         ///< slower than this times healthy is slow, 1.01..10
    bool slowdown_precheck = true;            ///< GPUs and links are checked before the first step
    std::int64_t slowdown_confirmations = 2;  ///< different users, 1..100
    std::string slowdown_quarantine = "avoid";    ///< report, avoid, reserve or drain
    double slowdown_max_quarantined_percent = 5;  ///< of the nodes of a GPU type, 0..100
    double slowdown_recheck_s = 3600;             ///< between checks of a slow node, 60..2592000
    double slowdown_check_time_limit_s = 120;     ///< of a check carrier, 10..86400
    // loan:
    bool loan_enabled = false;
    std::vector<std::string> loan_inference_partitions;  ///< whose nodes may be lent
    std::string loan_partition = "loan";                 ///< of lent nodes, filled by Arena
    double loan_tick_s = 300;                            ///< between decisions to lend, 1..86400
    double loan_horizon_s = 900;           ///< of the forecast of inference's demand, 0..604800
    double loan_headroom_percent = 10;     ///< of that demand, 0..1000
    std::int64_t loan_headroom_nodes = 2;  ///< at the least, 0..4096
    double loan_deadline_s = 300;          ///< for a node to be back, 1..86400
    std::vector<std::string> loan_users;   ///< who may lend, beside root and SlurmUser
    std::string loan_source = "demand";    ///< or commands
    // array:
    bool array_enabled = false;           ///< job arrays are taken in: --arena-array
    std::int64_t array_max_members = 64;  ///< tasks of one that wait or run at a time, 1..4096
    std::int64_t array_exact_blocks = 40, array_exact_members = 30;  ///< see array::SolveOptions
    double array_solve_s = 3;            ///< of a search for a schedule, 0.01..600
    std::int64_t array_buffers = 2;      ///< members' states on a device, 2..1024
    std::int64_t array_member_cpus = 1;  ///< of a member beside its carrier, 1..4096
    double array_wait_s = 30;            ///< for siblings, where a size is asked for, 0..86400
    std::string array_mpi = "pmix";      ///< of srun, for a carrier's ranks
    // oversubscription:
    double leaf_oversubscription = 1;  ///< above a leaf; a hardware entry's where larger; 1..1000
    double pod_oversubscription = 1;   ///< above a pod, likewise; 1..1000
    std::string socket = "/run/slurm-arena/arena.sock";
    bool operator==(const Config&) const = default;
};

/// Whether Arena only watches: mode is observe.
inline bool observes(const Config& config) { return config.mode == "observe"; }

/// The hardware entry (name or alias) that gpu_types gives a GRES type; nullptr: none.
const std::string* hardware_of(const Config&, std::string_view gres_type);

/// Parses arena.yaml text; `name` is used in messages.
Result<Config> parse_config(std::string_view text, std::string_view name);
/// As a daemon reads it: only if nobody but root and `owner` (SlurmUser; left out, the caller)
/// could have written it (check_trusted()); links at its end are not followed.
Result<Config> load_config(const std::string& path);
Result<Config> load_config(const std::string& path, uid_t owner);
/// By the rule of config_place.h, and SLURM_CONF.
std::string config_path();
/// As a command reads it for a person: links are followed.
Result<Config> load_user_config(const std::string& path);
/// For commands that can do without a file: the one that the person names; "" = none named: that of
/// config_path(), or the defaults where there is none. One that is there must be readable
/// (ErrorCode::environment) and right (ErrorCode::usage); with `unread`, one that nobody named need
/// not be readable: the defaults then, and *unread says why.
Result<Config> load_config_or_defaults(const std::string& named, std::string* unread = nullptr);
/// The value of a key such as "interval_s" or "profile.user"; gpu_types as "a40: A40" lines.
Result<std::string> config_value(const Config&, std::string_view key);
/// Every key with default, unit, range and meaning, one per line: the source of the manual page.
std::string describe_config_keys();

}  // namespace arena
