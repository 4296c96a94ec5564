// SPDX-License-Identifier: GPL-2.0-or-later
// See comm_command.h. Rank 0 alone writes; the others only say on standard error what failed.
#include "profiler/comm/comm_command.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "profiler/comm/host_ranks.h"
#include "profiler/comm/launcher.h"
#include "profiler/comm/node_span.h"
#include "profiler/comm/thread_transport.h"
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

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);
void on_stop(int) { stop_requested = true; }

/// Ctrl-C keeps what was measured: the loop ends between two samples, on all ranks. A second one
/// ends the process.
void install_stop_handlers() {
    struct sigaction action {};
    action.sa_handler = on_stop;
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
}

/// Rank 0's table, in its place from the first row on: whatever ends the run later leaves the rows
/// that were measured, each of them whole.
class Table {
  public:
    explicit Table(const CommCommand& command) : command_(command) {}
    [[nodiscard]] const std::vector<CommTime>& rows() const { return rows_; }
    /// The exit code of writing.
    [[nodiscard]] int code() const { return written_ ? 0 : fail(written_.error()); }

    void add(const CommTime& time) {
        rows_.push_back(time);
        const std::string csv = to_csv(rows_);
        if (command_.out != "-")
            written_ = write_file_atomic(command_.out, csv);
        else
            print(csv.substr(std::exchange(printed_, csv.size())));
    }
    void print(const std::string& text) {
        if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
            std::fflush(stdout) != 0)
            written_ = environment_error(std::strerror(errno), "standard output");
    }

  private:
    const CommCommand& command_;
    std::vector<CommTime> rows_;
    std::size_t printed_ = 0;  ///< of the table
    Status written_ = Done{};
};

/// One rank from its first to its last step.
class CommRank {
  public:
    CommRank(const CommCommand& command, const CommQuery& query, HostRanks& ranks)
        : command_(command), query_(query), ranks_(ranks), table_(command) {}

    int run() {
        if (auto joined = join(); !joined) {
            const int code = fail(joined.error());
            ranks_.give_up(code);
            return code;
        }
        CommHooks hooks;
        hooks.now = monotonic_s;
        hooks.is_stopped = [] { return stop_requested.load(); };
        if (is_first()) hooks.on_time = [this](const CommTime& t) { keep(t); };
        const CommOutcome outcome = measure_comm(communicator(), ranks_.world(), query_, hooks);
        const bool is_complete = outcome.measured == outcome.wanted;
        if (!is_complete && (is_first() || outcome.has_failed))
            std::fprintf(stderr, "arena-profiler: rank %lld measured %zu of %zu sizes: %s\n",
                         static_cast<long long>(ranks_.world().rank), outcome.measured,
                         outcome.wanted, outcome.reason.c_str());
        const int written = is_first() ? finish(outcome) : 0,
                  code = std::max(written, is_complete ? 0 : 1);
        if (outcome.has_failed) ranks_.give_up(code);
        return code;
    }

  private:
    [[nodiscard]] bool is_first() const { return ranks_.world().rank == 0; }
    Communicator& communicator() { return nccl_ ? *nccl_ : ranks_; }

    Status join() {
        if (is_on_host(command_)) return ranks_.reserve(query_.max_bytes);
        CommSetup setup;
        setup.world = ranks_.world();
        setup.max_bytes = query_.max_bytes;
        setup.timeout_s = command_.timeout_s;
        setup.share = [this](const auto& make, std::size_t n) { return ranks_.share(make, n); };
        setup.lost = [this] { return ranks_.lost(); };
        auto made = make_communicator(setup);
        if (!made) return made.error();
        nccl_ = std::move(made).value();
        return Done{};
    }

    void keep(const CommTime& time) {
        table_.add(time);
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
        for (const CommTime& t : table_.rows())
            times.push_back({{"op", to_string(t.op)},
                             {"ranks", t.ranks},
                             {"nodes", t.nodes},
                             {"span", to_string(t.span)},
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
                     {"nodes", ranks_.world().nodes},
                     {"gpus_per_node", ranks_.world().ranks_per_node},
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
    int finish(const CommOutcome& outcome) {
        if (table_.rows().empty()) return 1;
        if (command_.json) table_.print(dump_json(record(communicator().device(), outcome)) + "\n");
        return table_.code();
    }

    const CommCommand& command_;
    const CommQuery& query_;
    HostRanks& ranks_;
    std::unique_ptr<Communicator> nccl_;
    Table table_;
};

Status check_timeout(const CommCommand& command) {
    if (command.timeout_s >= 1 && command.timeout_s <= 3600) return Done{};
    return usage_error("must be 1 to 3600 s", "--timeout");
}

/// Host memory is everybody's: buffers that leave no room for the rest of the node are refused.
Status check_memory(const CommCommand& command, const CommWorld& world, std::int64_t max_bytes) {
    if (!is_on_host(command)) return Done{};
    const double wanted =
        2.5 * static_cast<double>(world.ranks_per_node) * static_cast<double>(max_bytes);
    const double available = static_cast<double>(cpu::available_memory());
    if (wanted <= available / 2) return Done{};
    return environment_error(std::to_string(world.ranks_per_node) + " ranks need " +
                             human_bytes(wanted) + ", more than half of the " +
                             human_bytes(available) +
                             " that are available; give fewer --gpus or a smaller --max-bytes");
}

Error nobody_to_talk_to() {
    return environment_error(
        "one GPU has nobody to talk to: at least 2 must be visible, or ranks on several nodes "
        "(srun --mpi=pmix)");
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

/// What each task knows of its own node from Slurm, put together.
std::vector<CommSpan> spans_told(const CommCommand& command, const CommWorld& world,
                                 HostRanks& ranks) {
    const std::vector<NodePlace> places = places_of_nodes(world, place_of_node(::getenv), ranks);
    const auto site = read_site_hardware(command.config);
    const auto type = site ? site->find(command.gpu_type) : Result<GpuType>(site.error());
    return spans_of_nodes(places, type && type->domain_gpus > world.ranks_per_node);
}

int run_rank(const CommCommand& command, const CommWorld& world, Transport& transport) {
    HostRanks ranks(transport, world, command.timeout_s);
    auto query = query_of(command, world);
    if (!query) return world.rank == 0 ? fail(query.error()) : 2;  // all ranks see the same
    int code = 0;
    if (world.local() == 0)
        if (auto s = check_memory(command, world, query->max_bytes); !s) code = fail(s.error());
    code = static_cast<int>(ranks.largest({static_cast<double>(code)})[0]);
    if (code == 0 && query->spans.empty()) query->spans = spans_told(command, world, ranks);
    return code != 0 ? code : CommRank(command, *query, ranks).run();
}

/// An exception is the end of all ranks.
int run_guarded(Transport& transport, const std::function<int()>& body) {
    try {
        return body();
    } catch (const std::exception& error) {
        const std::string rank = "rank " + std::to_string(transport.rank());
        const int code = fail(environment_error(error.what(), rank));
        transport.give_up(code);
        return code;
    }
}

/// One of the processes that an MPI launcher started.
int run_launched(const CommCommand& command) {
    Watch watch("MPI", command.timeout_s);
    watch.begin("start");
    auto transport = open_mpi();
    if (!transport) return fail(transport.error());
    const int code = run_guarded(**transport, [&] {
        watch.begin("find the nodes");
        const auto world = world_of((*transport)->rank(), (*transport)->first_on_node());
        watch.end();
        if (!world) return fail(world.error());
        return world->ranks() < 2 ? fail(nobody_to_talk_to())
                                  : run_rank(command, *world, **transport);
    });
    watch.begin("leave");
    (*transport).reset();
    return code;
}

Result<std::int64_t> count_devices(const CommCommand& command) {
    if (is_on_host(command))
        return command.gpus > 0 ? command.gpus
                                : std::min<std::int64_t>(std::thread::hardware_concurrency(),
                                                         default_host_ranks);
    return count_comm_devices();
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
    const auto found = count_devices(command);
    if (!found) return fail(found.error());
    const std::int64_t gpus = command.gpus == 0 ? *found : command.gpus;
    if (gpus > *found)
        return fail(
            usage_error("this node has " + std::to_string(*found) + " visible GPUs", "--gpus"));
    if (gpus < 2) return fail(nobody_to_talk_to());
    return run_in_threads(static_cast<int>(gpus), [&](Transport& transport) {
        const CommWorld world{transport.rank(), 1, gpus};
        return run_guarded(transport, [&] { return run_rank(command, world, transport); });
    });
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
    if (auto s = check_timeout(command); !s) return s.error();
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
    const auto span = parse_comm_span(command.span);
    if (!span)
        return usage_error(
            "accepted are leaf, pod, pods and domain, not '" + printable(command.span, 40) + "'",
            "--span");
    if (*span != CommSpan::unsaid) q.spans.assign(static_cast<std::size_t>(world.nodes), *span);
    const CommTime example{
        .gpu_type = q.gpu_type, .op = q.ops[0], .min_s = 1, .median_s = 1, .p95_s = 1};
    if (auto s = check_comm_time(example); !s) return usage_error(s.error().text, "--gpu-type");
    return q;
}

int run_comm_command(const CommCommand& command) {
    if (auto s = check_output(command.out, command.json); !s) return fail(s.error());
    if (auto s = check_device(command); !s) return fail(s.error());
    if (command.gpus < 0 || command.gpus > 1024)
        return fail(usage_error("must be 1 to 1024", "--gpus"));
    if (auto s = check_timeout(command); !s) return fail(s.error());
    const auto launched = is_launched(::getenv);
    if (!launched) return fail(launched.error());
    install_stop_handlers();
    return *launched ? run_launched(command) : run_on_this_node(command);
}

}  // namespace arena
