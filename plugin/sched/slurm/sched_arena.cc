// SPDX-License-Identifier: GPL-2.0-or-later
// sched/arena: Slurm's entry points and the one thread. init() only loads the stock backfill and
// starts the thread: it is called with locks held, before jobs are recovered. fini() stops and
// joins.
#include <poll.h>
#include <pwd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>

#include "base/json.h"
#include "base/text.h"
#include "base/trusted_path.h"
#include "planner/hardware/hardware.h"
#include "plugin/common/shared.h"
#include "plugin/common/slurm_layout.h"
#include "plugin/sched/live/live_json.h"
#include "plugin/sched/observe/observer.h"
#include "plugin/sched/round/scheduler.h"
#include "plugin/sched/slurm/host_slurm.h"
#include "plugin/sched/slurm/host_slurm_apply.h"
#include "plugin/sched/socket/socket_server.h"
#include "plugin/sched/socket/verbs.h"
#include "policy/arena/slurm_policies.h"
#include "site/config.h"
#include "site/config_place.h"
#include "site/config_sum.h"
#include "site/kept_config.h"
#include "site/model_rules.h"

namespace arena {
namespace {

using Clock = std::chrono::steady_clock;

/// Three faults in this time and Arena stays out of the way until the next reconfigure.
constexpr auto fault_window = std::chrono::minutes(10);
constexpr std::size_t max_faults = 3;
/// Shortest pause between looks at Slurm's change stamps.
constexpr double look_s = 0.25;

double now_s() { return static_cast<double>(time(nullptr)); }

/// What arena.yaml and the files that it names say together.
struct SiteTables {
    Config config;
    std::vector<GpuType> hardware;
    Calibration calibration;
};

class Plugin {
  public:
    void start();
    void stop();
    void reconfig();

  private:
    void run() noexcept;
    bool controller_is_ready();
    void load();
    void observe(const SiteTables& tables, Observer::Kept seen);
    bool layout_is_sound();
    void wait_for_event();
    bool round_is_due();
    void round_if_due();
    bool look_is_due();
    void take_in_reports();
    void guarded_round() noexcept;
    void note_fault(const char* what);
    PlanLimits plan_limits() const;
    std::vector<Verb> verbs(const Asker& asker);
    void add_loan_verbs(std::vector<Verb>& known);
    void add_live_verbs(std::vector<Verb>& known, const Asker& asker);
    std::string live();
    std::string stats(const Asker& asker);
    std::string answer(std::string_view line, std::uint32_t uid);

    StockBackfill backfill_;
    std::thread thread_;
    std::atomic<bool> stopping_{false}, reload_{false};
    int wake_fd_ = -1;

    /// Who decides and answers.
    [[nodiscard]] Scheduler& deciding() { return observer_ ? observer_->scheduler() : *scheduler_; }

    std::unique_ptr<Host> host_;
    /// Who acts. Where Arena observes it makes no rounds: it keeps what was promised and lent.
    std::unique_ptr<Scheduler> scheduler_;
    std::unique_ptr<Observer> observer_;
    Config config_;
    /// The file in force, for the doctor.
    struct ConfigFile {
        std::string path, sum;
    };
    ConfigFile config_file_;
    SocketServer socket_;
    std::vector<std::uint32_t> loan_users_;  ///< uids
    bool off_ = false, woken_ = false;
    bool unsound_ = false;  ///< off because Slurm's records are not those of the headers
    Clock::time_point last_round_{};
    Clock::time_point looked_at_{};  ///< when somebody last looked at the cluster
    std::int64_t last_round_second_ = 0;
    std::vector<Clock::time_point> faults_;
};

void Plugin::start() {
    const std::string problem = backfill_.load();
    if (!problem.empty())
        error(
            "arena: Slurm's own backfill could not be loaded: %s: ordinary jobs are scheduled by "
            "the main loop only",
            problem.c_str());
    stopping_ = false;
    forget_awaited_ends();
    wake_fd_ = open_round_fd();
    thread_ = std::thread([this] { run(); });
}

void Plugin::stop() {
    stopping_ = true;
    request_round();
    if (thread_.joinable()) thread_.join();
    socket_.close();
    observer_.reset();
    scheduler_.reset();
    host_.reset();
    close_round_fd();
    backfill_.unload();
}

void Plugin::reconfig() {
    backfill_.reconfig();
    reload_ = true;
    request_round();
}

bool Plugin::controller_is_ready() {
    return job_list && node_record_table_ptr && avail_node_bitmap && up_node_bitmap &&
           idle_node_bitmap && share_node_bitmap && cg_node_bitmap && rs_node_bitmap &&
           !slurmctld_config.scheduling_disabled &&
           !slurmctld_config.shutdown_time;  // it saves nothing while somebody holds a lock
}

/// Asked before each round: a controller that starts without jobs shows only later how its jobs
/// lie.
bool Plugin::layout_is_sound() {
    std::string what;
    if (host_->layout_is_sound(&what)) return true;
    error("%s",
          layout_error(what, "sched_arena.so", "scheduling by Arena is switched off").c_str());
    off_ = unsound_ = true;
    return false;
}

/// Those of the users whom Slurm's host knows.
std::vector<std::uint32_t> uids_of(const std::vector<std::string>& names) {
    std::vector<std::uint32_t> uids;
    for (const std::string& name : names) {
        if (const passwd* user = ::getpwnam(name.c_str()))
            uids.push_back(user->pw_uid);
        else
            error("arena: loan.users: no user is called %s", name.c_str());
    }
    return uids;
}

/// Of a file that arena.yaml names, perhaps.
Status check_own(const std::string& file) {
    return file.empty() ? Status(Done{}) : check_trusted(file, ::geteuid());
}

/// Where others could put a socket of theirs in its place, there is none.
Status open_socket(SocketServer& server, const std::string& path) {
    const Status status = check_trusted(path.substr(0, path.rfind('/') + 1), ::geteuid());
    return status ? server.open(path) : status;
}

Result<SiteTables> read_tables(Result<Config> config, const std::string& path) {
    if (!config) return config.error();
    for (const std::string& file : {config->hardware_file, config->calibration_file})
        if (auto status = check_own(file); !status) return status.error();
    auto hardware = load_hardware(config->hardware_file);
    if (!hardware) return hardware.error();
    auto calibration = load_calibration(config->calibration_file);
    if (!calibration) return calibration.error();
    if (const auto rules = load_model_rules(config->observe_models); !rules) return rules.error();
    if (!find_slurm_policy(config->policy))
        return usage_error("policy \"" + config->policy +
                               "\" is no policy of sched/arena; accepted: " + slurm_policy_names(),
                           path);
    return SiteTables{std::move(*config), std::move(*hardware), std::move(*calibration)};
}

/// arena.yaml as it is, or as it was when it was last good and this slurmctld, perhaps an earlier
/// one, read it; nothing where the one in force stays or there is none.
std::optional<SiteTables> read_site(bool has_one, std::string& path) {
    const std::string directory =
        kept_config_directory(slurm_conf.state_save_location ? slurm_conf.state_save_location : "");
    Result<SiteTables> tables = read_tables(load_config(path), path);
    if (tables) {
        if (const Status kept = keep_config(directory, path, tables->config); !kept)
            error("arena: %s: the configuration cannot be kept for the next slurmctld",
                  kept.error().message().c_str());
        return std::move(*tables);
    }
    const std::string why = tables.error().message();
    Result<SiteTables> kept = environment_error("");
    if (!has_one) kept = read_tables(load_kept_config(directory), kept_config_path(directory));
    if (has_one || !kept) {
        error("arena: %s: %s", why.c_str(),
              has_one ? "the configuration in force stays"
                      : "Arena is off; mend it and run scontrol reconfigure");
        return std::nullopt;
    }
    path = kept_config_path(directory);
    error("arena: %s: the last one that was good is in force, from %s", why.c_str(), path.c_str());
    return std::move(*kept);
}

/// On failure the old ones stay.
void Plugin::load() {
    std::string path = config_path_beside(slurm_conf.slurm_conf);
    config_file_.path = path;
    std::optional<SiteTables> tables = read_site(scheduler_ != nullptr, path);
    if (!tables) return;
    config_ = std::move(tables->config);
    const auto sum = config_sum(path);
    config_file_.sum = sum ? *sum : std::string();
    Scheduler::Kept kept = scheduler_ ? scheduler_->keep() : Scheduler::Kept{};
    Observer::Kept seen = observer_ ? observer_->keep() : Observer::Kept{};
    observer_.reset();
    scheduler_.reset();
    unsound_ = false;
    loan_users_ = uids_of(config_.loan_users);
    const HostMode mode = observes(config_) ? HostMode::observes : HostMode::acts;
    host_ = make_slurm_host(config_.slice_ms, config_.loan_enabled ? config_.loan_partition : "",
                            mode, stopping_);
    if (!layout_is_sound()) return;
    off_ = !config_.enabled;
    faults_.clear();
    if (mode == HostMode::observes) observe(*tables, std::move(seen));
    // One that keeps what an acting Arena promised recalls it, too; it makes no rounds.
    Config acting = config_;
    acting.mode = "act";
    scheduler_ = std::make_unique<Scheduler>(*host_, std::move(acting), std::move(tables->hardware),
                                             std::move(tables->calibration), plan_limits());
    scheduler_->take_over(std::move(kept));
    if (auto status = open_socket(socket_, config_.socket); !status)
        error("arena: %s: arena explain falls back to scontrol", status.error().message().c_str());
    info("arena: policy %s, %zu GPU types, configuration %s%s", config_.policy.c_str(),
         config_.gpu_types.size(), path.c_str(),
         off_        ? ": enabled is false"
         : observer_ ? ": mode is observe, Slurm schedules all jobs"
                     : "");
}

/// What was seen before stays known.
void Plugin::observe(const SiteTables& tables, Observer::Kept seen) {
    if (!seen.watched) {
        seen.watched = std::make_unique<Watched>(config_.profile_store);
        if (const std::string problem = seen.watched->diary.recall(); !problem.empty())
            error("arena: %s", problem.c_str());
    }
    observer_ = std::make_unique<Observer>(*host_, std::move(seen.watched), config_,
                                           tables.hardware, tables.calibration, plan_limits());
    observer_->scheduler().take_over(std::move(seen.scheduler));
}

PlanLimits Plugin::plan_limits() const {
    PlanLimits limits = slurm_plan_limits();
    limits.stop = &stopping_;
    limits.on_done = request_round;
    return limits;
}

void Plugin::wait_for_event() {
    pollfd fds[2] = {{wake_fd_, POLLIN, 0}, {socket_.fd(), POLLIN, 0}};
    const int timeout_ms =
        static_cast<int>(1000 * std::max(std::min(config_.min_gap_s, 1.0), look_s));
    if (::poll(fds, socket_.fd() >= 0 ? 2 : 1, timeout_ms) <= 0) return;
    if (fds[0].revents & POLLIN) {
        std::uint64_t count = 0;
        [[maybe_unused]] const auto got = ::read(wake_fd_, &count, sizeof count);
        woken_ = true;
    }
    if (socket_.fd() < 0 || !(fds[1].revents & POLLIN)) return;
    // What ended since the last round is told as over.
    round_if_due();
    for (Question& question : socket_.take())
        question.reply.send(answer(question.line, question.uid));
}

bool Plugin::round_is_due() {
    const double since_s = std::chrono::duration<double>(Clock::now() - last_round_).count();
    if (since_s < config_.min_gap_s) return false;
    // Slurm stamps changes in whole seconds: a change in the second of the last round may be new.
    return woken_ || scheduler_->hurries() || (observer_ && observer_->is_due()) ||
           since_s >= config_.interval_s || host_->last_change() >= last_round_second_;
}

void Plugin::round_if_due() {
    if (scheduler_ && !unsound_ && controller_is_ready() && round_is_due()) guarded_round();
}

void Plugin::note_fault(const char* what) {
    error("arena: internal fault: %s: stock order for this round", what);
    if (scheduler_) deciding().count_fault();
    const auto now = Clock::now();
    faults_.push_back(now);
    std::erase_if(faults_, [&](auto at) { return now - at > fault_window; });
    if (faults_.size() < max_faults) return;
    off_ = true;
    error("arena: %zu faults in 10 minutes: Arena is off until scontrol reconfigure",
          faults_.size());
}

/// Outside rounds: a job that reports at its end leaves nothing that would make one. A report that
/// fails is no fault of a round, and costs the others nothing. What is slow first: it says which
/// times teach nothing.
void Plugin::take_in_reports() {
    if (off_ || !scheduler_) return;
    const double now_s = arena::now_s();
    for (const LeftSlowReport& report : take_slow_reports()) {
        try {
            deciding().on_slow_report(report, now_s);
        } catch (const std::exception& fault) {
            error("arena: JobId=%u its report is left out: %s", report.job, fault.what());
        }
    }
    for (const LeftReport& report : take_reports()) {
        try {
            deciding().observe(report, now_s);
        } catch (const std::exception& fault) {
            error("arena: JobId=%u its report is left out: %s", report.job, fault.what());
        }
    }
}

/// Without a job of Arena's there are no rounds; who watches sees the cluster as it is all the
/// same, as often as it is looked at without changes.
bool Plugin::look_is_due() {
    const auto interval = std::chrono::duration<double>(config_.interval_s);
    const double age_s = now_s() - deciding().last_round().view.snapshot.time_s;
    return Clock::now() - looked_at_ < 2 * interval && std::abs(age_s) >= config_.interval_s;
}

void Plugin::guarded_round() noexcept {
    woken_ = false;
    last_round_ = Clock::now();
    last_round_second_ = static_cast<std::int64_t>(time(nullptr));
    try {
        for (const LeftUpdate& update : take_updates()) deciding().note_update(update);
        const auto has_work = [&] {
            return host_->has_work() || deciding().has_work() || look_is_due() ||
                   (observer_ && observer_->has_work());
        };
        const bool is_idle = off_ || observer_;
        if (off_ && !scheduler_->has_work()) return;
        if (!layout_is_sound()) return;
        if (is_idle && scheduler_->has_work()) scheduler_->keep_deadlines();
        if (off_ || !has_work()) return;
        if (observer_)
            observer_->round();
        else
            scheduler_->round();
    } catch (const std::exception& fault) {
        note_fault(fault.what());
    } catch (...) {
        note_fault("unknown");
    }
    // From the end of the round on: what the round itself changed is no reason for another.
    last_round_ = Clock::now();
}

/// A document with what an observing Arena has to say beside it.
std::string with_observe(const std::string& document, Json seen) {
    Json json = Json::parse(document, nullptr, false);
    if (!json.is_object() || seen.is_null()) return document;
    if (seen.contains("seen_s")) json["seen_s"] = seen["seen_s"];  // not the plan's time
    json["observe"] = std::move(seen);
    return dump_json(json) + "\n";
}

/// Of a job that the plan has no more, for it is over there, the diary alone speaks.
std::string explain_observed(const std::string& known, JobId job, Json seen, const Asker& asker) {
    if (!known.empty()) return with_observe(known, std::move(seen));
    if (seen.is_null() || (!asker.privileged && seen["uid"] != asker.uid)) return {};
    const Json& actual = seen["actual"];
    const char* state = actual["end_s"] > 0     ? "over"
                        : actual["start_s"] > 0 ? "running"
                                                : "waiting";
    return dump_json({{"schema_version", 1},
                      {"job", job},
                      {"state", state},
                      {"reason", ""},
                      {"chosen", -1},
                      {"offers", Json::array()},
                      {"infeasible", Json::array()},
                      {"observe", seen}}) +
           "\n";
}

/// To who asks for a change of what is held against a node.
std::string refuse_observing() {
    return error_json(no_error("Arena only observes: mode: act lets it write to nodes"));
}

std::string Plugin::stats(const Asker& asker) {
    const std::string counted = deciding().stats_json(asker, slow_report_counts());
    const bool all = asker.privileged || asker.sees_others;
    return observer_ ? with_observe(counted, observer_->json(true, all ? std::nullopt
                                                                       : std::optional(asker.uid)))
                     : counted;
}

/// What may be said on the socket. Where nothing says why, an empty answer is the refusal.
std::vector<Verb> Plugin::verbs(const Asker& asker) {
    const auto slowdown = [this, asker](SlowdownVerb verb) {
        return [this, asker, verb](std::string_view word) {
            const bool changes = verb == SlowdownVerb::clear || verb == SlowdownVerb::check;
            return observer_ && changes ? refuse_observing()
                                        : deciding().slowdown(verb, word, asker);
        };
    };
    const auto check = [this, slowdown](std::string_view word) {
        return off_
                   ? error_json(no_error("Arena is off (slurmctld's log says why): mend it and run "
                                         "scontrol reconfigure"))
                   : slowdown(SlowdownVerb::check)(word);
    };
    const auto explain = [this, asker](std::string_view word) {
        const auto job = parse_integer(word, 1, UINT32_MAX);
        if (!job) return std::string();
        const auto id = static_cast<JobId>(*job);
        const std::string known = deciding().explain(id, asker);
        return observer_ ? explain_observed(known, id, observer_->json_of(id), asker) : known;
    };
    const auto stats = [this, asker](std::string_view) { return this->stats(asker); };
    const auto stats_reset = [this, stats](std::string_view word) {
        deciding().forget_times();
        return stats(word);
    };
    return {
        {.name = "config",
         .answer =
             [this](std::string_view) {
                 return dump_json({{"schema_version", 1},
                                   {"path", config_file_.path},
                                   {"sum", config_file_.sum}}) +
                        "\n";
             }},
        {.name = "array list",
         .answer = [this, asker](std::string_view) { return deciding().arrays(asker); }},
        {.name = "explain", .subject = "JOB", .answer = explain},
        {.name = "queue",
         .answer = [this, asker](std::string_view) { return deciding().queue_json(asker); }},
        {.name = "snapshot",
         .right = Right::administrator,
         .answer = [this](std::string_view) { return deciding().snapshot_json(); }},
        {.name = "stats", .answer = stats},
        {.name = "stats reset", .right = Right::administrator, .answer = stats_reset},
        {.name = "slowdown list", .answer = slowdown(SlowdownVerb::list)},
        {.name = "slowdown show", .subject = "JOB", .answer = slowdown(SlowdownVerb::show)},
        {.name = "slowdown clear",
         .subject = "NODE",
         .right = Right::administrator,
         .says_why = true,
         .answer = slowdown(SlowdownVerb::clear)},
        {.name = "slowdown check",
         .subject = "NODE",
         .right = Right::administrator,
         .says_why = true,
         .answer = check},
    };
}

void Plugin::add_loan_verbs(std::vector<Verb>& known) {
    const auto loan = [this](LoanVerb verb) {
        return [this, verb](std::string_view words) { return scheduler_->loan(verb, words); };
    };
    known.insert(known.end(), {
                                  {.name = "loan list", .answer = loan(LoanVerb::list)},
                                  {.name = "loan offer",
                                   .subject = "NODES",
                                   .more = true,
                                   .right = Right::listed,
                                   .listed = loan_users_,
                                   .says_why = true,
                                   .answer = loan(LoanVerb::offer)},
                                  {.name = "loan reclaim",
                                   .subject = "NODES|COUNT",
                                   .more = true,
                                   .right = Right::listed,
                                   .listed = loan_users_,
                                   .says_why = true,
                                   .answer = loan(LoanVerb::reclaim)},
                              });
}

/// To everybody, whoever asks: what HTTP clients see whom nobody knows.
std::string Plugin::live() {
    looked_at_ = Clock::now();
    const bool shows_jobs = !(slurm_conf.private_data & PRIVATE_DATA_JOBS);
    const double plan_s = observer_ ? observer_->plan_s() : 0;  // 0: no round yet
    const LiveState state{.books = deciding().books(),
                          .round = deciding().last_round(),
                          .stats = deciding().stats(),
                          .enabled = !off_,
                          .observe = observer_ ? observer_->json(shows_jobs) : Json(),
                          .now_s = plan_s > 0 ? plan_s : now_s()};
    return live_json(
        state, {.jobs = shows_jobs, .nodes = !(slurm_conf.private_data & PRIVATE_DATA_NODES)});
}

void Plugin::add_live_verbs(std::vector<Verb>& known, const Asker& asker) {
    known.push_back({.name = "live", .answer = [this](std::string_view) { return live(); }});
    known.push_back(
        {.name = "history", .subject = "JOB", .answer = [this, asker](std::string_view word) {
             const auto job = parse_integer(word, 1, UINT32_MAX);
             return job ? deciding().history_json(static_cast<JobId>(*job), asker)
                        : error_json(usage_error("is no job id", printable(word)));
         }});
}

std::string Plugin::answer(std::string_view line, std::uint32_t uid) {
    if (!scheduler_) return {};
    const bool privileged = uid == 0 || uid == slurm_conf.slurm_user_id;
    const Asker asker{privileged, uid, !(slurm_conf.private_data & PRIVATE_DATA_JOBS)};
    std::vector<Verb> known = verbs(asker);
    add_loan_verbs(known);
    add_live_verbs(known, asker);
    std::string_view word;
    const Verb* verb = find_verb(known, line, word);
    if (verb == nullptr) return {};
    if (may(*verb, uid, slurm_conf.slurm_user_id)) return verb->answer(word);
    if (!verb->says_why) return {};
    const std::string why = words_of_refusal(*verb, uid);
    return error_json(verb->right == Right::listed ? usage_error(why) : no_error(why));
}

void Plugin::run() noexcept {
    bool loaded = false;
    while (!stopping_) {
        try {
            wait_for_event();
            if (stopping_) break;
            if (!controller_is_ready()) continue;
            const bool is_asked =
                reload_.exchange(false);  // before the first load, too: once is enough
            const bool is_new = !std::exchange(loaded, true);
            if (is_new || is_asked) {
                load();
                woken_ = true;
            }
            take_in_reports();
            // Where Arena is off, too: what was told to leave is not to wait for it.
            if (scheduler_ && !unsound_) scheduler_->settle_ends(is_new);
            round_if_due();
        } catch (const std::exception& fault) {
            note_fault(fault.what());
        } catch (...) {
            note_fault("unknown");
        }
    }
}

/// Made in init(), gone in fini(): a controller that gives up and takes over again starts afresh.
std::unique_ptr<Plugin> plugin;

}  // namespace
}  // namespace arena

extern "C" {

extern const char plugin_name[];
extern const char plugin_type[];
extern const std::uint32_t plugin_version;
const char plugin_name[] = "Arena: scheduling with knowledge of adaptive parallelism";
const char plugin_type[] = "sched/arena";
const std::uint32_t plugin_version = SLURM_VERSION_NUMBER;

int init(void) noexcept {
    if (slurmctld_config.scheduling_disabled) return SLURM_SUCCESS;
    try {
        arena::plugin = std::make_unique<arena::Plugin>();
        arena::plugin->start();
        info("arena: scheduler plug-in loaded, Slurm %s", arena::built_for().c_str());
    } catch (const std::exception& fault) {
        error("arena: cannot start: %s", fault.what());
        return SLURM_ERROR;
    }
    return SLURM_SUCCESS;
}

int fini(void) noexcept {
    if (!arena::plugin) return SLURM_SUCCESS;
    try {
        arena::plugin->stop();
    } catch (const std::exception& fault) {
        error("arena: while stopping: %s", fault.what());
    }
    arena::plugin.reset();
    return SLURM_SUCCESS;
}

int sched_p_reconfig(void) noexcept {
    if (arena::plugin) arena::plugin->reconfig();
    return SLURM_SUCCESS;
}

}  // extern "C"
