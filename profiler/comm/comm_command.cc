// SPDX-License-Identifier: GPL-2.0-or-later
// See comm_command.h. Rank 0 alone writes; the others only say on standard error what failed.
#include "profiler/comm/comm_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <thread>

#include "base/json.h"
#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "profiler/comm/comm_world.h"
#include "profiler/comm/host_communicator.h"
#include "profiler/core/cpu_memory.h"
#include "profiler/core/options.h"
#include "profiler/core/recorder.h"
#include "profiler/core/topology.h"
#include "site/config.h"

namespace arena {
namespace {

constexpr std::int64_t max_comm_size = std::int64_t{1} << 40;
constexpr std::int64_t default_host_ranks = 8;

bool is_on_host(const CommCommand& command) { return command.device == "cpu"; }

std::string largest_size(const CommCommand& command) {
    return !command.max_bytes.empty() ? command.max_bytes : is_on_host(command) ? "64M" : "1G";
}

volatile std::sig_atomic_t stop_requested = 0;
void on_stop(int) { stop_requested = 1; }

/// Ctrl-C keeps what was measured: the loop ends between two samples, on all ranks. A second one
/// ends the process.
void install_stop_handlers() {
    struct sigaction action {};
    action.sa_handler = on_stop;
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
}

/// One rank from its first to its last step.
class CommRank {
  public:
    CommRank(const CommCommand& command, const CommQuery& query, const CommSetup& setup,
             const PeerPlace& peers)
        : command_(command), query_(query), setup_(setup), peers_(peers) {}

    int run(const std::function<void()>& on_joined) {
        install_stop_handlers();
        auto communicator = join();
        on_joined();
        if (!communicator) return fail(communicator.error());
        CommHooks hooks;
        hooks.now = monotonic_s;
        hooks.is_stopped = [] { return stop_requested != 0; };
        if (is_first()) hooks.on_time = [this](const CommTime& t) { keep(t); };
        const CommOutcome outcome = measure_comm(**communicator, setup_.world, query_, hooks);
        const bool is_complete = outcome.measured == outcome.wanted;
        if (!is_complete && (is_first() || outcome.has_failed))
            std::fprintf(stderr, "arena-profiler: rank %lld measured %zu of %zu sizes: %s\n",
                         static_cast<long long>(setup_.world.rank), outcome.measured,
                         outcome.wanted, outcome.reason.c_str());
        if (!outcome.has_failed && lifeline_) lifeline_->leave();
        const int written = is_first() ? write((*communicator)->device(), outcome) : 0;
        return written != 0 ? written : is_complete ? 0 : 1;
    }

  private:
    [[nodiscard]] bool is_first() const { return setup_.world.rank == 0; }

    /// TCP tells by itself that a rank is gone; NCCL's ranks watch each other beside it.
    Result<std::unique_ptr<Communicator>> join() {
        if (is_on_host(command_)) return make_host_communicator(setup_, peers_);
        setup_.lost = [this] { return lifeline_ ? lifeline_->lost() : std::string(); };
        auto communicator = make_communicator(setup_);
        if (!communicator) return communicator;
        // NCCL has met, so all are here: whoever has no connection after a part of the time gets
        // none.
        PeerPlace place = peers_;
        place.timeout_s /= 4;
        auto lifeline = Lifeline::join(setup_.world, place);  // rank 0: until all have come so far
        if (lifeline)
            lifeline_ = std::move(lifeline).value();
        else
            std::fprintf(
                stderr, "arena-profiler: rank %lld goes on with NCCL's own watch alone: %s\n",
                static_cast<long long>(setup_.world.rank), lifeline.error().message().c_str());
        // All or none: a rank that hears nothing of the others would take those without for dead.
        try {
            if ((*communicator)->largest({lifeline_ ? 0.0 : 1.0}).front() > 0 && lifeline_) {
                lifeline_->leave();
                lifeline_.reset();
            }
        } catch (const std::exception& error) {
            return environment_error(error.what());
        }
        return communicator;
    }

    void keep(const CommTime& time) {
        times_.push_back(time);
        if (command_.verbose)
            std::fprintf(
                stderr, "%-14s %3lld ranks %2lld nodes %2lld groups %10s  %10s  %.1f GB/s\n",
                std::string(to_string(time.op)).c_str(), static_cast<long long>(time.ranks),
                static_cast<long long>(time.nodes), static_cast<long long>(time.groups),
                human_bytes(static_cast<double>(time.bytes)).c_str(),
                human_seconds(time.median_s).c_str(), bus_bytes_per_s(time) / 1e9);
    }

    Json record(const Device& device, const CommOutcome& outcome) const {
        Json times = Json::array();
        for (const CommTime& t : times_)
            times.push_back({{"op", to_string(t.op)},
                             {"ranks", t.ranks},
                             {"nodes", t.nodes},
                             {"groups", t.groups},
                             {"bytes", t.bytes},
                             {"min_s", t.min_s},
                             {"median_s", t.median_s},
                             {"p95_s", t.p95_s},
                             {"bus_bytes_per_s", bus_bytes_per_s(t)}});
        Json json = {{"schema_version", 1},
                     {"gpu_type", query_.gpu_type},
                     {"device",
                      {{"name", device.name},
                       {"driver", device.driver},
                       {"library", device.library},
                       {"node", device.node}}},
                     {"nodes", setup_.world.nodes},
                     {"gpus_per_node", setup_.world.ranks_per_node},
                     {"wanted", outcome.wanted},
                     {"measured", outcome.measured},
                     {"reason", outcome.reason},
                     {"times", times}};
        const auto topology = read_topology();
        json["topology"] = topology ? json_of(*topology) : Json(nullptr);
        if (!topology) json["topology_reason"] = topology.error().message();
        return json;
    }

    /// A table without a row is no table: nothing is written then.
    int write(const Device& device, const CommOutcome& outcome) const {
        if (times_.empty()) return 1;
        const std::string csv = to_csv(times_);
        if (command_.out != "-")
            if (auto s = write_file_atomic(command_.out, csv); !s) return fail(s.error());
        const std::string text = command_.json ? dump_json(record(device, outcome)) + "\n" : csv;
        if (!command_.json && command_.out != "-") return 0;
        const bool good = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
                          std::fflush(stdout) == 0;
        return good ? 0 : fail(environment_error(std::strerror(errno), "standard output"));
    }

    const CommCommand& command_;
    const CommQuery& query_;
    CommSetup setup_;
    const PeerPlace& peers_;
    std::unique_ptr<Lifeline> lifeline_;
    std::vector<CommTime> times_;
};

int run_rank(const CommCommand& command, const CommWorld& world, const std::string& path,
             const std::function<void()>& on_joined) {
    const MeetingPlace place(path, world.rank == 0, command.timeout_s);
    const auto query = query_of(command, world);
    if (!query) return world.rank == 0 ? fail(query.error()) : 2;
    CommSetup setup;
    setup.world = world;
    setup.max_bytes = query->max_bytes;
    setup.timeout_s = command.timeout_s;
    setup.share = [&](const auto& make, std::size_t size) { return place.share(make, size); };
    const PeerPlace peers{path + "-peers", command.timeout_s};
    return CommRank(command, *query, setup, peers).run([&] {
        place.leave();  // joined: all have read it
        on_joined();
    });
}

/// Host memory is everybody's: buffers that leave no room for the rest of the node are refused.
Status check_memory(const CommCommand& command, const CommWorld& world) {
    if (!is_on_host(command)) return Done{};
    const auto query = query_of(command, world);
    if (!query) return query.error();
    const double wanted =
        2.5 * static_cast<double>(world.ranks_per_node) * static_cast<double>(query->max_bytes);
    const double available = static_cast<double>(cpu::available_memory());
    if (wanted <= available / 2) return Done{};
    return environment_error(std::to_string(world.ranks_per_node) + " ranks need " +
                             human_bytes(wanted) + ", more than half of the " +
                             human_bytes(available) +
                             " that are available; give fewer --gpus or a smaller --max-bytes");
}

/// One of the tasks that srun started.
int run_in_step(const CommCommand& command, const CommWorld& world) {
    const std::string name = name_of_step(::getenv);
    if (auto s = check_memory(command, world); !s)
        return world.rank % world.ranks_per_node == 0 ? fail(s.error()) : 2;
    if (name.empty()) return fail(environment_error("srun has not named this step (SLURM_JOB_ID)"));
    const std::string directory = command.meet.empty() ? "." : command.meet;
    if (world.rank == 0 && ::access(directory.c_str(), W_OK | X_OK) != 0)
        return fail(environment_error(std::string("rank 0 cannot write there: ") +
                                          std::strerror(errno) +
                                          "; give --meet a directory that all nodes see",
                                      directory));
    return run_rank(command, world, directory + "/" + name, [] {});
}

Result<std::int64_t> count_devices(const CommCommand& command) {
    if (is_on_host(command))
        return command.gpus > 0 ? command.gpus
                                : std::min<std::int64_t>(std::thread::hardware_concurrency(),
                                                         default_host_ranks);
    return count_in_child(count_comm_devices);
}

/// The built-in hardware entries and, where there is an arena.yaml, the site's.
struct SiteHardware {
    Config config;
    std::vector<GpuType> entries;
    std::string unread;  ///< why the site's, which nobody named, is left out; "" = it is not
    /// Behind a GRES type that arena.yaml maps, or of that name.
    [[nodiscard]] Result<GpuType> find(const std::string& gpu_type) const {
        const std::string* mapped = hardware_of(config, gpu_type);
        return find_hardware(entries, mapped == nullptr ? gpu_type : *mapped);
    }
    [[nodiscard]] std::string emulated() const {
        std::vector<std::string> names;
        for (const GpuType& entry : entries)
            if (entry.emulated) names.push_back(entry.name);
        return join(names, ", ");
    }
};

/// The built-in types need no arena.yaml: one that this user may not read keeps nobody from them.
Result<SiteHardware> read_site_hardware(const std::string& config_option) {
    SiteHardware site;
    auto config = load_config_or_defaults(config_option, &site.unread);
    if (!config) return config.error();
    if (!site.unread.empty()) site.unread += ": types of the site's own are not known";
    auto entries = load_hardware(config->hardware_file);
    if (!entries) return entries.error();
    site.config = std::move(*config);
    site.entries = std::move(*entries);
    return site;
}

Status check_device(const CommCommand& command) {
    if (command.device == "cuda") return Done{};
    if (!is_on_host(command))
        return usage_error("accepted are cpu and cuda, not '" + printable(command.device, 40) + "'",
                           "--device");
    // Times of host memory must never pass as a GPU's.
    const auto hardware = read_site_hardware(command.config);
    if (!hardware) return hardware.error();
    const auto type = hardware->find(command.gpu_type);
    const std::string& unread = hardware->unread;
    if (type && type->emulated) {
        if (!unread.empty()) std::fprintf(stderr, "arena-profiler: %s\n", unread.c_str());
        return Done{};
    }
    return usage_error("--device cpu measures for an emulated type (" + hardware->emulated() +
                           "), not '" + printable(command.gpu_type, 40) + "'" +
                           (unread.empty() ? "" : "; " + unread),
                       "--gpu-type");
}

/// All ranks are ours.
int run_on_this_node(const CommCommand& command) {
    std::int64_t gpus = command.gpus;
    const auto found = count_devices(command);
    if (!found) return fail(found.error());
    if (gpus == 0) gpus = *found;
    if (gpus > *found)
        return fail(
            usage_error("this node has " + std::to_string(*found) + " visible GPUs", "--gpus"));
    if (gpus < 2)
        return fail(
            environment_error("one GPU has nobody to talk to: at least 2 must be visible, or tasks "
                              "on several nodes (srun)"));
    if (auto query = query_of(command, {0, 1, gpus}); !query) return fail(query.error());
    if (auto s = check_memory(command, {0, 1, gpus}); !s) return fail(s.error());
    const char* base = ::getenv("TMPDIR");
    std::string directory = std::string(base == nullptr ? "/tmp" : base) + "/arena-comm-XXXXXX";
    if (::mkdtemp(directory.data()) == nullptr)
        return fail(environment_error(std::strerror(errno), directory));
    const int code = run_in_children(gpus, [&](std::int64_t rank) {
        return run_rank(command, {rank, 1, gpus}, directory + "/meet", [] {});
    });
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    return code;
}

}  // namespace

Result<std::int64_t> parse_size(std::string_view text, const std::string& where) {
    std::int64_t unit = 1;
    const std::string_view units = "KMG";
    if (!text.empty())
        if (const auto at = units.find(
                static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
            at != std::string_view::npos) {
            unit = std::int64_t{1} << (10 * (at + 1));
            text.remove_suffix(1);
        }
    const auto value = parse_integer(text, 1, max_comm_size / unit);
    if (!value) return usage_error("must be bytes from 1 to 1024G, as 4096, 1K, 32M or 1G", where);
    return *value * unit;
}

Result<CommPlacement> parse_placement(std::string_view text, const CommWorld& world) {
    const auto words = split(text, 'x');
    CommPlacement p;
    std::int64_t* const fields[] = {&p.ranks, &p.nodes, &p.groups};
    bool is_good = words.size() <= 3;
    for (std::size_t i = 0; is_good && i < words.size(); ++i) {
        const auto value = parse_integer(words[i], 1, 65536);
        is_good = value.has_value();
        *fields[i] = value.value_or(0);
    }
    if (!is_good || p.ranks < 2 || p.ranks % p.nodes != 0)
        return usage_error("'" + printable(text, 40) +
                               "' must be RANKS, RANKSxNODES or RANKSxNODESxGROUPS, "
                               "with at least 2 ranks, the same number on each node",
                           "--groups");
    if (p.nodes > world.nodes || p.ranks / p.nodes * p.groups > world.ranks_per_node)
        return usage_error("'" + printable(text, 40) + "' has no room: there are " +
                               std::to_string(world.nodes) + " nodes of " +
                               std::to_string(world.ranks_per_node) + " GPUs",
                           "--groups");
    return p;
}

Result<CommQuery> query_of(const CommCommand& command, const CommWorld& world) {
    CommQuery q;
    q.gpu_type = command.gpu_type;
    q.budget_s = command.budget_s;
    q.factor = command.factor;
    const auto least = parse_size(command.min_bytes, "--min-bytes"),
               most = parse_size(largest_size(command), "--max-bytes");
    if (!least) return least.error();
    if (!most) return most.error();
    q.min_bytes = *least;
    q.max_bytes = *most;
    if (q.min_bytes > q.max_bytes) return usage_error("is more than --max-bytes", "--min-bytes");
    if (q.factor < 2 || q.factor > 1024) return usage_error("must be 2 to 1024", "--factor");
    if (!(q.budget_s > 0) || q.budget_s > 86400)
        return usage_error("must be above 0, up to 86400 s", "--budget");
    if (!(command.timeout_s >= 1) || command.timeout_s > 3600)
        return usage_error("must be 1 to 3600 s", "--timeout");
    for (const std::string& word : command.ops) {
        const auto op = parse_comm_op(word);
        if (!op)
            return usage_error(
                "accepted are all_reduce, all_gather, reduce_scatter, all_to_all and send, not '" +
                    printable(word, 40) + "'",
                "--ops");
        q.ops.push_back(*op);
    }
    if (q.ops.empty())
        q.ops = {CommOp::all_reduce, CommOp::all_gather, CommOp::reduce_scatter, CommOp::all_to_all,
                 CommOp::send};
    for (const std::string& word : command.groups) {
        const auto placement = parse_placement(word, world);
        if (!placement) return placement.error();
        q.placements.push_back(*placement);
    }
    if (q.placements.empty()) q.placements = all_placements(world);
    const CommTime example{q.gpu_type, q.ops[0], 2, 1, 1, 1, 1, 1, 1};
    if (auto s = check_comm_time(example); !s) return usage_error(s.error().text, "--gpu-type");
    return q;
}

int run_comm_command(const CommCommand& command) {
    if (auto s = check_output(command.out, command.json); !s) return fail(s.error());
    if (auto s = check_device(command); !s) return fail(s.error());
    if (command.gpus < 0 || command.gpus > 1024)
        return fail(usage_error("must be 1 to 1024", "--gpus"));
    const auto world = world_of_step(::getenv);
    if (!world) return fail(world.error());
    if (*world) return run_in_step(command, **world);
    return run_on_this_node(command);
}

}  // namespace arena
