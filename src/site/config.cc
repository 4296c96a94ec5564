// SPDX-License-Identifier: GPL-2.0-or-later
// arena.yaml: one table of keys drives reading, checking, writing, `arena config get` and the text
// of the manual page, so that none of them can disagree with another.
#include "site/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <variant>

#include "base/text.h"
#include "base/trusted_path.h"
#include "base/user_file.h"
#include "base/yaml.h"
#include "core/cluster.h"
#include "core/limits.h"
#include "installed_paths.h"
#include "reports/slowdown_mode.h"
#include "site/config_place.h"
#include "site/leave_signals.h"

namespace arena {
namespace {

enum class Form {
    any,
    mode,
    path,
    optional_path,
    word,
    optional_word,
    user,
    signal,
    objective,
    order,
    slowdown,
    quarantine,
    loan_source
};

using Field =
    std::variant<bool Config::*, std::int64_t Config::*, double Config::*, std::string Config::*,
                 std::vector<std::string> Config::*, std::vector<GpuMapping> Config::*>;

struct Key {
    std::string_view group, name;
    Field field;
    double min, max;  ///< numbers
    Form form;        ///< texts, and each of a list of them
    std::string_view unit, meaning;

    [[nodiscard]] std::string path() const {
        return group.empty() ? std::string(name) : fmt::format("{}.{}", group, name);
    }
};

constexpr double no = 0;
constexpr std::array<Key, 69> keys{{
    {"", "enabled", &Config::enabled, no, no, Form::any, "",
     "whether Arena schedules at all; when false, Arena jobs stay held and ordinary jobs run as "
     "ever"},
    {"", "mode", &Config::mode, no, no, Form::mode, "",
     "act, or observe: Arena decides and keeps a diary of it, Slurm schedules all jobs as if Arena "
     "were not there"},
    {"", "policy", &Config::policy, no, no, Form::word, "", "name of the scheduling policy"},
    {"", "objective", &Config::objective, no, no, Form::objective, "",
     "what policy arena makes small or large: jct (mean completion time), throughput, or fairness"},
    {"", "order", &Config::order, no, no, Form::order, "",
     "whose turn it is: priority (Slurm's order is kept, jobs that stand first are promised an "
     "end) or value (priorities only weigh)"},
    {"", "promise_slack", &Config::promise_slack, 0, 10, Form::any, "of its JCT",
     "how much later than in Slurm's own order a promised job may end; 0 = not at all"},
    {"", "promise_depth", &Config::promise_depth, 0, 32, Form::any, "jobs",
     "steps of priority, from the highest, whose first job is promised an end; 0 = none"},
    {"", "priority_step", &Config::priority_step, 0, 1, Form::any, "of the largest priority",
     "priorities that differ by no more than this count as equal: such jobs stand by submission"},
    {"", "interval_s", &Config::interval_s, 0.2, 3600, Form::any, "seconds",
     "longest time between two rounds"},
    {"", "min_gap_s", &Config::min_gap_s, 0, 60, Form::any, "seconds",
     "shortest time between two rounds"},
    {"", "reserve_depth", &Config::reserve_depth, 0, 100, Form::any, "jobs",
     "waiting jobs for the same nodes that are released with a shape, for Slurm's backfill to "
     "reserve"},
    {"", "slice_ms", &Config::slice_ms, 1, 1000, Form::any, "milliseconds",
     "longest time that Slurm's write locks are held at once while a decision is applied"},
    {"", "hardware_file", &Config::hardware_file, no, no, Form::optional_path, "",
     "hardware entries that add to or replace the built-in ones; empty = none"},
    {"", "calibration_file", &Config::calibration_file, no, no, Form::optional_path, "",
     "calibrated constants of the planner over the built-in ones; empty = none"},
    {"", "cpus_per_gpu", &Config::cpus_per_gpu, 0, 4096, Form::any, "CPUs",
     "CPUs per GPU of a job that does not say; 0 = an even share of the node"},
    {"", "mem_per_gpu_mb", &Config::mem_per_gpu_mb, 0, 1 << 30, Form::any, "MiB",
     "memory per GPU of a job that does not say; 0 = an even share of the node"},
    {"", "socket", &Config::socket, no, no, Form::path, "",
     "unix socket on which the scheduler plug-in answers arena explain and arena stats"},
    {"", "gpu_types", &Config::gpu_types, no, no, Form::any, "",
     "map of the site's GRES types to hardware entries; a type without one is never offered"},
    {"observe", "models", &Config::observe_models, no, no, Form::optional_path, "",
     "with mode observe: a file of rules that say which model ordinary jobs train, as of arena "
     "trace import --models; empty = none"},
    {"profile", "enabled", &Config::profile_enabled, no, no, Form::any, "",
     "whether models are measured; when false, analytic estimates stand in"},
    {"profile", "user", &Config::profile_user, no, no, Form::user, "",
     "service user that carrier jobs and the profiler run as; never root"},
    {"profile", "budget_s", &Config::profile_budget_s, 1, 3600, Form::any, "seconds",
     "device time of one profile run"},
    {"profile", "time_limit_s", &Config::profile_time_limit_s, 10, 86400, Form::any, "seconds",
     "wall-clock limit of a carrier job; more than budget_s"},
    {"profile", "retries", &Config::profile_retries, 1, 2, Form::any, "nodes",
     "nodes that are tried before the analytic estimate stands in"},
    {"profile", "backoff_s", &Config::profile_backoff_s, 0, 86400, Form::any, "seconds",
     "time before a failed profile is tried again"},
    {"profile", "max_wait_s", &Config::profile_max_wait_s, 0, 86400, Form::any, "seconds",
     "how long a job waits for its profile runs to begin before the analytic estimate stands in"},
    {"profile", "runs_per_hour", &Config::profile_runs_per_hour, 0, 1000, Form::any, "runs",
     "profile runs that the jobs of one user may start within an hour; 0 = any number"},
    {"profile", "spool", &Config::profile_spool, no, no, Form::path, "",
     "directory of fresh results, writable by the service user only"},
    {"profile", "store", &Config::profile_store, no, no, Form::path, "",
     "profile store (SQLite), SlurmUser's, on a local disk"},
    {"profile", "partition", &Config::profile_partition, no, no, Form::optional_word, "",
     "partition of carrier jobs; empty = the waiting job's"},
    {"profile", "use_reports", &Config::use_reports, no, no, Form::any, "",
     "whether iteration times that jobs report correct the offers of later jobs; when false, they "
     "are kept only"},
    {"resize", "checkpoint_signal", &Config::checkpoint_signal, no, no, Form::signal, "",
     "signal that tells an elastic job to save its state and exit"},
    {"resize", "checkpoint_grace_s", &Config::checkpoint_grace_s, 1, 86400, Form::any, "seconds",
     "time that a signalled job has before it is requeued"},
    {"resize", "requeue_exit_code", &Config::requeue_exit_code, 1, 255, Form::any, "",
     "exit code of a job that saved its state; list it in slurm.conf RequeueExitHold"},
    {"resize", "cooldown_s", &Config::cooldown_s, 0, 604800, Form::any, "seconds",
     "time that a job runs before Arena itself moves it to another shape"},
    {"resize", "moves_per_hour", &Config::moves_per_hour, 0, 12, Form::any, "moves",
     "how often Arena itself moves a job within an hour; 0 = never"},
    {"resize", "restart_checkpoint_s", &Config::restart_checkpoint_s, 0, 86400, Form::any,
     "seconds", "what writing and reading a checkpoint costs; a move must pay for it"},
    {"resize", "restart_per_gpu_s", &Config::restart_per_gpu_s, 0, 86400, Form::any, "seconds",
     "what starting costs besides, for each GPU of the job"},
    {"resize", "restart_launch_cap_s", &Config::restart_launch_cap_s, 0, 86400, Form::any,
     "seconds", "the most that starting costs, however many the GPUs"},
    {"slowdown", "default", &Config::slowdown_default, no, no, Form::slowdown, "",
     "what --arena-slowdown is of a job that does not say"},
    {"slowdown", "poll_s", &Config::slowdown_poll_s, 1, 300, Form::any, "seconds",
     "time between two looks of a node's agent at the calls of a watched job"},
    {"slowdown", "threshold", &Config::slowdown_threshold, 1.01, 10, Form::any, "times",
     "how much slower than healthy a step, a GPU or a link is to count as slow"},
    {"slowdown", "precheck", &Config::slowdown_precheck, no, no, Form::any, "",
     "whether GPUs and links of a watched job are checked before its first step"},
    {"slowdown", "confirmations", &Config::slowdown_confirmations, 1, 100, Form::any, "users",
     "users whose jobs must have found a node slow before it is quarantined, unless a check has"},
    {"slowdown", "quarantine", &Config::slowdown_quarantine, no, no, Form::quarantine, "",
     "what becomes of a node that is found slow: it is reported only, avoided by Arena's jobs, "
     "reserved, or drained"},
    {"slowdown", "max_quarantined_percent", &Config::slowdown_max_quarantined_percent, 0, 100,
     Form::any, "percent", "the most nodes of a GPU type that are quarantined at a time"},
    {"slowdown", "recheck_s", &Config::slowdown_recheck_s, 60, 2592000, Form::any, "seconds",
     "time between two checks of a node that is quarantined"},
    {"slowdown", "check_time_limit_s", &Config::slowdown_check_time_limit_s, 10, 86400, Form::any,
     "seconds", "wall-clock limit of the job that checks a node"},
    {"loan", "enabled", &Config::loan_enabled, no, no, Form::any, "",
     "whether idle nodes of inference are lent to jobs with --arena-loan"},
    {"loan", "inference_partitions", &Config::loan_inference_partitions, no, no, Form::word, "",
     "list of the partitions whose nodes are inference's, to which they go back"},
    {"loan", "partition", &Config::loan_partition, no, no, Form::word, "",
     "partition that Arena fills with lent nodes; jobs that may have such are put there, too"},
    {"loan", "tick_s", &Config::loan_tick_s, 1, 86400, Form::any, "seconds",
     "time between two decisions to lend; what inference needs is taken back at once"},
    {"loan", "horizon_s", &Config::loan_horizon_s, 0, 604800, Form::any, "seconds",
     "how far inference's demand is looked ahead"},
    {"loan", "headroom_percent", &Config::loan_headroom_percent, 0, 1000, Form::any, "percent",
     "of that demand that stays idle with inference, or headroom_nodes where that is more"},
    {"loan", "headroom_nodes", &Config::loan_headroom_nodes, 0, 4096, Form::any, "nodes",
     "nodes that stay idle with inference at the least"},
    {"loan", "deadline_s", &Config::loan_deadline_s, 1, 86400, Form::any, "seconds",
     "time until a node that is asked back is inference's again"},
    {"loan", "users", &Config::loan_users, no, no, Form::user, "",
     "list of the users who may lend and take back by arena loan, beside root and SlurmUser"},
    {"loan", "source", &Config::loan_source, no, no, Form::loan_source, "",
     "who decides: demand (the jobs of inference_partitions say what inference needs) or commands "
     "(nobody but those who say arena loan)"},
    {"array", "enabled", &Config::array_enabled, no, no, Form::any, "",
     "whether job arrays with --arena-array are taken in; when false, all job arrays are refused"},
    {"array", "max_members", &Config::array_max_members, 1, 4096, Form::any, "tasks",
     "the most tasks of an array that wait or run as jobs of their own at a time"},
    {"array", "exact_blocks", &Config::array_exact_blocks, 0, 4096, Form::any, "blocks",
     "schedules of an array of no more blocks than this are searched for exactly"},
    {"array", "exact_members", &Config::array_exact_members, 0, 1024, Form::any, "members",
     "and those of no more members than this, as far as solve_s goes"},
    {"array", "solve_s", &Config::array_solve_s, 0.01, 600, Form::any, "seconds",
     "how long a search for a schedule may take"},
    {"array", "buffers", &Config::array_buffers, 2, 1024, Form::any, "states",
     "members' states on a device: those computed with and those fetched meanwhile"},
    {"array", "member_cpus", &Config::array_member_cpus, 1, 4096, Form::any, "CPUs",
     "of each member, on the first node of what trains it"},
    {"array", "wait_s", &Config::array_wait_s, 0, 86400, Form::any, "seconds",
     "how long members wait for as many siblings as --arena-array=SIZE asks for"},
    {"array", "mpi", &Config::array_mpi, no, no, Form::word, "",
     "which MPI srun starts the ranks of an array with (srun --mpi=)"},
    {"oversubscription", "leaf", &Config::leaf_oversubscription, 1, 1000, Form::any, "times",
     "how much less than inside a leaf of the network a node gets above it; a hardware entry may "
     "say more"},
    {"oversubscription", "pod", &Config::pod_oversubscription, 1, 1000, Form::any, "times",
     "how much less than between leaves of a pod a node gets between pods, likewise"},
}};
constexpr std::array<std::string_view, 7> groups{
    std::string_view("observe"), "profile", "resize", "slowdown", "loan", "array",
    "oversubscription"};

constexpr std::array<std::string_view, 2> modes{"act", "observe"};
constexpr std::array<std::string_view, 3> objectives{"jct", "throughput", "fairness"};
constexpr std::array<std::string_view, 2> queue_orders{"priority", "value"};
constexpr std::array<std::string_view, 4> quarantines{"report", "avoid", "reserve", "drain"};
constexpr std::array<std::string_view, 2> loan_sources{"demand", "commands"};
constexpr std::size_t max_names = 64;

/// The words of a form that is one of a few; none for another form.
std::span<const std::string_view> choices_of(Form form) {
    if (form == Form::signal) return leave_signal_names;
    if (form == Form::mode) return modes;
    if (form == Form::objective) return objectives;
    if (form == Form::order) return queue_orders;
    if (form == Form::slowdown) return slowdown_modes;
    if (form == Form::quarantine) return quarantines;
    if (form == Form::loan_source) return loan_sources;
    return {};
}

bool has_only(std::string_view text, std::string_view more) {
    return std::all_of(text.begin(), text.end(), [&](char c) {
        const bool alnum =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        return alnum || more.find(c) != std::string_view::npos;
    });
}

bool is_path(std::string_view text) {
    const bool controls = std::any_of(text.begin(), text.end(),
                                      [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    return text.starts_with('/') && text.size() <= 1024 && !controls;
}

bool is_word(std::string_view text) {
    return !text.empty() && text.size() <= 64 && has_only(text, "_.-");
}

bool is_user(std::string_view text) {
    return !text.empty() && text.size() <= 32 && has_only(text, "_-") && text.front() != '-' &&
           text != "root" && text != "nobody";
}

bool has_form(std::string_view text, Form form) {
    switch (form) {
        case Form::any:
            return true;
        case Form::path:
            return is_path(text);
        case Form::optional_path:
            return text.empty() || is_path(text);
        case Form::word:
            return is_word(text);
        case Form::optional_word:
            return text.empty() || is_word(text);
        case Form::user:
            return is_user(text);
        default:
            break;
    }
    const auto choices = choices_of(form);
    return std::find(choices.begin(), choices.end(), text) != choices.end();
}

std::string form_words(Form form) {
    switch (form) {
        case Form::any:
            return "a text";
        case Form::path:
            return "an absolute path";
        case Form::optional_path:
            return "an absolute path, or nothing";
        case Form::word:
            return "a name of letters, digits, '_', '.' and '-'";
        case Form::optional_word:
            return "a name of letters, digits, '_', '.' and '-', or nothing";
        case Form::user:
            return "a user name other than root and nobody";
        default:
            return fmt::format("one of {}", fmt::join(choices_of(form), ", "));
    }
}

// ---- reading --------------------------------------------------------------------------------

bool is_null(const YamlNode& node) {
    return node.kind == YamlNode::Kind::scalar && node.scalar.empty() && !node.quoted;
}

struct YamlKey {
    const YamlNode& node;
    std::string_view file;
    const Key& key;
};

template <typename T>
Status keep(Config& config, T Config::*field, Result<T> value) {
    if (!value) return value.error();
    config.*field = std::move(*value);
    return Done{};
}

Status read_field(const YamlKey& at, Config& config, bool Config::*field) {
    return keep(config, field, yaml_bool(at.node, at.file, at.key.path()));
}

Status read_field(const YamlKey& at, Config& config, std::int64_t Config::*field) {
    return keep(config, field,
                yaml_integer(at.node, at.file, at.key.path(), static_cast<std::int64_t>(at.key.min),
                             static_cast<std::int64_t>(at.key.max)));
}

Status read_field(const YamlKey& at, Config& config, double Config::*field) {
    return keep(config, field,
                yaml_number(at.node, at.file, at.key.path(), at.key.min, at.key.max));
}

Status read_field(const YamlKey& at, Config& config, std::string Config::*field) {
    Result<std::string> value = is_null(at.node)
                                    ? Result<std::string>(std::string())
                                    : yaml_string(at.node, at.file, at.key.path(), 1024);
    if (value && !has_form(*value, at.key.form)) {
        return usage_error(fmt::format("{}: \"{}\" is not accepted; give {}", at.key.path(),
                                       printable(*value), form_words(at.key.form)),
                           at.node.where(at.file));
    }
    return keep(config, field, std::move(value));
}

/// A list of names, or one of them alone.
Status read_field(const YamlKey& at, Config& config, std::vector<std::string> Config::*field) {
    const bool is_list = at.node.kind == YamlNode::Kind::sequence;
    const std::size_t count = is_list ? at.node.items.size() : is_null(at.node) ? 0 : 1;
    if (count > max_names)
        return usage_error(fmt::format("{}: more than {} names", at.key.path(), max_names),
                           at.node.where(at.file));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) {
        const YamlNode& item = is_list ? at.node.items[i] : at.node;
        auto name = yaml_string(item, at.file, at.key.path(), limits::name_bytes);
        if (!name) return name.error();
        const bool twice = std::find(names.begin(), names.end(), *name) != names.end();
        if (twice || !has_form(*name, at.key.form))
            return usage_error(
                fmt::format("{}: \"{}\" {}; give a list, each of it {}", at.key.path(),
                            printable(*name), twice ? "is there twice" : "is not accepted",
                            form_words(at.key.form)),
                item.where(at.file));
        names.push_back(std::move(*name));
    }
    config.*field = std::move(names);
    return Done{};
}

Status read_field(const YamlKey& at, Config& config, std::vector<GpuMapping> Config::*field) {
    if (!is_null(at.node) && at.node.kind != YamlNode::Kind::map) {
        return usage_error("gpu_types: give a map such as {a100: A100-SXM-80GB}",
                           at.node.where(at.file));
    }
    if (at.node.members.size() > limits::gpu_types) {
        return usage_error(fmt::format("gpu_types: more than {} types", limits::gpu_types),
                           at.node.where(at.file));
    }
    std::vector<GpuMapping> mappings;
    for (const auto& [name, node] : at.node.members) {
        const auto hardware =
            yaml_string(node, at.file, "gpu_types." + printable(name), limits::name_bytes);
        if (!hardware) return hardware.error();
        if (!is_word(name) || !is_word(*hardware)) {
            return usage_error(
                fmt::format("gpu_types: \"{}: {}\" is not accepted; give {} on both "
                            "sides",
                            printable(name), printable(*hardware), form_words(Form::word)),
                node.where(at.file));
        }
        mappings.push_back({name, *hardware});
    }
    config.*field = std::move(mappings);
    return Done{};
}

std::vector<std::string_view> known_names(std::string_view group) {
    std::vector<std::string_view> names;
    for (const Key& key : keys) {
        if (key.group == group) names.push_back(key.name);
    }
    if (group.empty()) names.insert(names.end(), groups.begin(), groups.end());
    return names;
}

Status read_group(const YamlNode& map, std::string_view file, std::string_view group,
                  Config& config) {
    if (Status known = yaml_check_keys(map, file, known_names(group)); !known) return known;
    for (const Key& key : keys) {
        const YamlNode* node = key.group == group ? map.find(key.name) : nullptr;
        if (node == nullptr) continue;
        const YamlKey at{*node, file, key};
        Status status =
            std::visit([&](auto field) { return read_field(at, config, field); }, key.field);
        if (!status) return status;
    }
    return Done{};
}

Status check_loan(const Config& config, std::string_view file) {
    const auto& inference = config.loan_inference_partitions;
    if (config.loan_enabled && inference.empty())
        return usage_error(
            "loan.enabled is true, and loan.inference_partitions names no partition: give those "
            "whose nodes may be lent",
            std::string(file));
    if (std::find(inference.begin(), inference.end(), config.loan_partition) != inference.end())
        return usage_error(
            fmt::format("loan.partition ({}) must be none of loan.inference_partitions: lent nodes "
                        "need a partition of their own",
                        config.loan_partition),
            std::string(file));
    return Done{};
}

Status check_together(const Config& config, std::string_view file) {
    if (config.min_gap_s > config.interval_s) {
        return usage_error(fmt::format("min_gap_s ({}) must not be larger than interval_s ({})",
                                       config.min_gap_s, config.interval_s),
                           std::string(file));
    }
    if (config.profile_time_limit_s <= config.profile_budget_s) {
        return usage_error(
            fmt::format("profile.time_limit_s ({}) must be larger than profile.budget_s ({}), "
                        "since a node needs time to start and finish a run",
                        config.profile_time_limit_s, config.profile_budget_s),
            std::string(file));
    }
    return check_loan(config, file);
}

// ---- writing --------------------------------------------------------------------------------

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(const std::string& value) { return value; }
std::string text_of(const std::vector<std::string>& names) { return join(names, ","); }
std::string text_of(const std::vector<GpuMapping>& mappings) {
    std::vector<std::string> lines;
    for (const GpuMapping& m : mappings) lines.push_back(m.gres_type + ": " + m.hardware);
    return join(lines, "\n");
}

std::string text_of_key(const Config& config, const Key& key) {
    return std::visit([&](auto field) { return text_of(config.*field); }, key.field);
}

std::string range_words(const Key& key) {
    if (std::holds_alternative<bool Config::*>(key.field)) return "true or false";
    if (std::holds_alternative<std::string Config::*>(key.field)) return form_words(key.form);
    if (std::holds_alternative<std::vector<GpuMapping> Config::*>(key.field)) return "a map";
    if (std::holds_alternative<std::vector<std::string> Config::*>(key.field))
        return "a list, each of it " + form_words(key.form);
    return fmt::format("{:.15g} to {:.15g}", key.min, key.max);
}

}  // namespace

const std::string* hardware_of(const Config& config, std::string_view gres_type) {
    for (const GpuMapping& mapping : config.gpu_types)
        if (mapping.gres_type == gres_type) return &mapping.hardware;
    return nullptr;
}

Result<Config> parse_config(std::string_view text, std::string_view name) {
    Result<YamlNode> root = parse_yaml(text, name);
    if (!root) return root.error();
    if (is_null(*root)) root->kind = YamlNode::Kind::map;  // an empty file: all defaults
    Config config;
    if (Status status = read_group(*root, name, {}, config); !status) return status.error();
    for (const std::string_view group : groups) {
        const YamlNode* map = root->find(group);
        if (map == nullptr || is_null(*map)) continue;
        if (Status status = read_group(*map, name, group, config); !status) return status.error();
    }
    if (Status status = check_together(config, name); !status) return status.error();
    return config;
}

Result<Config> load_config(const std::string& path) { return load_config(path, ::geteuid()); }

Result<Config> load_config(const std::string& path, uid_t owner) {
    if (Status status = check_trusted(path, owner); !status) return status.error();
    const Result<std::string> text = read_regular_file(path, YamlLimits{}.bytes);
    if (!text) return text.error();
    return parse_config(*text, path);
}

std::string config_path() { return config_path_beside(std::getenv("SLURM_CONF")); }

std::string config_path_beside(const char* slurm_conf) {
    return config_path_of(std::getenv("ARENA_CONF"), slurm_conf);
}

std::string config_path_of(const char* arena_conf, const char* slurm_conf) {
    const auto set = [](const char* text) { return text != nullptr && *text != '\0'; };
    if (set(arena_conf)) return arena_conf;
    const std::filesystem::path conf = set(slurm_conf) ? slurm_conf : "/etc/slurm/slurm.conf";
    const std::string beside = conf.parent_path() / "arena.yaml";
    std::error_code unknown;
    return std::filesystem::is_regular_file(beside, unknown) ? beside
                                                             : ARENA_SYSCONFDIR "/slurm/arena.yaml";
}

Result<Config> load_user_config(const std::string& path) {
    const Result<std::string> text = read_user_file(path, YamlLimits{}.bytes);
    if (!text) return text.error();
    return parse_config(*text, path);
}

Result<Config> load_config_or_defaults(const std::string& named, std::string* unread) {
    const std::string path = named.empty() ? config_path() : named;
    std::error_code unknown;  // not to be seen is not absent
    if (named.empty() && !std::filesystem::exists(path, unknown) && !unknown) return Config{};
    Result<Config> config = load_user_config(path);
    const bool goes_on = named.empty() && unread != nullptr;
    if (config || !goes_on || config.error().code != ErrorCode::environment) return config;
    *unread = config.error().message();
    return Config{};
}

Result<std::string> config_value(const Config& config, std::string_view name) {
    std::vector<std::string> paths;
    for (const Key& key : keys) {
        if (key.path() == name) return text_of_key(config, key);
        paths.push_back(key.path());
    }
    return usage_error(
        fmt::format("unknown key \"{}\"; known are {}", printable(name), fmt::join(paths, ", ")));
}

std::string describe_config_keys() {
    const Config defaults;
    std::string out;
    for (const Key& key : keys) {
        const std::string value = text_of_key(defaults, key);
        out += fmt::format("{}: {}; default {}; {}{}{}\n", key.path(), key.meaning,
                           value.empty() ? "none" : value, range_words(key),
                           key.unit.empty() ? "" : " ", key.unit);
    }
    return out;
}

}  // namespace arena
