// SPDX-License-Identifier: GPL-2.0-or-later
// arena-profiler: measures a model's operators on this machine's CPU or on one GPU. The CUDA
// back-end is a program of its own, arena-profiler-cuda, that this one becomes when a GPU is asked
// for: a machine without CUDA starts and measures its CPU without loading (or having) a CUDA
// library.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "base/json.h"
#include "base/text.h"
#include "base/user_file.h"
#include "checks/node_check.h"
#include "config.h"
#include "planner/hardware/hardware.h"
#include "profiler/check/check_command.h"
#include "profiler/comm/comm_command.h"
#include "profiler/core/operator.h"
#include "profiler/core/options.h"
#include "profiler/core/prolog_help.h"
#include "profiler/core/request.h"
#include "profiler/core/topology.h"
#include "profiler/cpu/cpu_backend.h"
#include "profiler/cuda/cuda_backend.h"
#include "profiler/cuda/cuda_links.h"
#include "profiler/run/predict.h"
#include "profiler/run/run_command.h"
#include "profiler/run/session.h"
#include "request/request.h"
#include "site/config.h"
#include "site/slurm_conf.h"
#ifndef ARENA_WITH_CUDA
#include "profiler/run/direct_command.h"
#endif

namespace arena {
namespace {

Result<std::unique_ptr<Backend>> backend_of([[maybe_unused]] const std::string& kind,
                                            [[maybe_unused]] const Options& o,
                                            [[maybe_unused]] std::int64_t device = 0) {
#ifdef ARENA_FAULTY
    return make_faulty_backend(device);
#elif defined(ARENA_WITH_CUDA)
    if (kind == "cuda") return make_cuda_backend(static_cast<int>(device));
    return environment_error("this is the CUDA half; arena-profiler measures CPUs");
#else
    if (kind == "cuda")
        return environment_error(
            "this build has no CUDA back-end (arena-profiler-cuda); configure with CUDA");
    return make_cpu_backend(o.threads);
#endif
}

/// Becomes arena-profiler-cuda, when that is beside this program. Returns when it is not.
void become_cuda([[maybe_unused]] char** argv) {
#if !defined(ARENA_WITH_CUDA) && !defined(ARENA_FAULTY)
    std::error_code ignored;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
    const auto other = self.parent_path() / "arena-profiler-cuda";
    if (::access(other.c_str(), X_OK) == 0) ::execv(other.c_str(), argv);
#endif
}

// ---- checks

CheckTools check_tools(const std::string& kind, const Options& o) {
    CheckTools tools;
    tools.backend = [kind, &o](std::int64_t device) { return backend_of(kind, o, device); };
#ifdef ARENA_FAULTY
    tools.links = [](std::int64_t) { return make_faulty_links(); };
#elif defined(ARENA_WITH_CUDA)
    tools.links = make_cuda_links;
#else
    tools.links = make_host_links;
#endif
    return tools;
}

/// How many there are of it here.
Result<std::int64_t> count_devices([[maybe_unused]] const std::string& kind) {
#if defined(ARENA_WITH_CUDA) && !defined(ARENA_FAULTY)
    if (kind == "cuda") return count_cuda_devices();
#endif
    return 1;
}

Result<CheckRequest> check_request_of(const Options& o) {
    const char* text =
        o.request_env.empty() ? o.request.c_str() : std::getenv(o.request_env.c_str());
    if (text == nullptr) return usage_error("is not set", o.request_env);
    return parse_check_request(text);
}

bool asks_for_check(const Options& o) {
    const char* text =
        o.request_env.empty() ? o.request.c_str() : std::getenv(o.request_env.c_str());
    return text != nullptr && request_kind(text) == RequestKind::check;
}

/// A request for a check, as its Prolog hands it on.
int run_check_request(const Options& o, char** argv) {
    const auto request = check_request_of(o);
    if (!request) return fail(request.error());
    const auto all = load_hardware(o.hardware_file);
    if (!all) return fail(all.error());
    const auto hardware = find_hardware(*all, request->hardware);
    if (!hardware) return fail(hardware.error());
    const auto kind = device_kind(o.device, hardware->emulated, request->hardware);
    if (!kind) return fail(kind.error());
    if (!o.request_env.empty()) ::close_range(3, ~0U, 0);
    if (*kind == "cuda") become_cuda(argv);
    return run_requested_check(*request, o.out, o.node, check_tools(*kind, o));
}

int check(const Options& o, CheckOptions options, char** argv) {
    if (o.device != "cpu" && o.device != "cuda" && o.device != "auto")
        return fail(usage_error("accepted are cpu, cuda and auto", "--device"));
    const bool has_gpu = ::access("/dev/nvidiactl", R_OK) == 0;
    const std::string kind = o.device == "auto" ? (has_gpu ? "cuda" : "cpu") : o.device;
    if (kind == "cuda") become_cuda(argv);
    const auto here = count_devices(kind);
    if (!here) return fail(here.error());
    if (*here > 1 && options.devices > *here)
        return fail(usage_error("there are " + std::to_string(*here) + " here", "--devices"));
    CheckRequest request;
    request.nonce = make_nonce();
    request.hardware = kind == "cpu" ? "emulated-cpu" : "by-hand";
    request.gpu_type = o.gpu_type.empty() ? request.hardware : o.gpu_type;
    request.devices = request.node_devices = options.devices > 0 ? options.devices : *here;
    options.node = o.node;
    options.json = o.json;
    return run_check_command(options, request, check_tools(kind, o));
}

int run(const Options& o, char** argv) {
    if (asks_for_check(o)) return run_check_request(o, argv);
    if (auto s = check_output(o.out, o.json); !s) return fail(s.error());
    const auto request = checked_request_of(o);
    if (!request) return fail(request.error());
    const auto work = work_of(*request, o.hardware_file);
    if (!work) return fail(work.error());
    const auto kind = device_kind(o.device, work->emulated, request->hardware);
    if (!kind) return fail(kind.error());
    if (!o.request_env.empty()) ::close_range(3, ~0U, 0);  // from a Prolog: nothing open is for us
    if (*kind == "cuda") become_cuda(argv);
    return run_request(o, *request, *work, [&] { return backend_of(*kind, o); });
}

int list_operators(const Options& o) {
    const auto request = checked_request_of(o);
    if (!request) return fail(request.error());
    const auto work = work_of(*request, o.hardware_file);
    if (!work) return fail(work.error());
    Json list = Json::array();
    for (const auto& s : wanted_shapes(work->shapes, request->known)) {
        if (o.json)
            list.push_back({{"op", op_key(s)},
                            {"hash", op_hash(s)},
                            {"flops", op_flops(s)},
                            {"bytes", op_bytes(s)}});
        else
            std::printf("%-56s %10.3g FLOP  %s\n", op_key(s).c_str(), op_flops(s),
                        human_bytes(op_bytes(s)).c_str());
    }
    if (o.json) std::cout << dump_json({{"schema_version", 1}, {"operators", list}}) << '\n';
    return 0;
}

int show_request(const Options& o) {
    const auto request = request_of(o);
    if (!request) return fail(request.error());
    std::cout << to_json(*request) << '\n';
    return 0;
}

int show_device(const Options& o, char** argv) {
    if (o.device != "cpu" && o.device != "cuda" && o.device != "auto")
        return fail(usage_error("accepted are cpu, cuda and auto", "--device"));
    const std::string kind = o.device == "auto" ? "cpu" : o.device;
    if (kind == "cuda") become_cuda(argv);
    const auto backend = backend_of(kind, o);
    if (!backend) return fail(backend.error());
    const Device d = (*backend)->device();
    std::cout << dump_json({{"schema_version", 1},
                            {"kind", d.kind},
                            {"name", d.name},
                            {"uuid", d.uuid},
                            {"driver", d.driver},
                            {"library", d.library},
                            {"memory_bytes", d.memory_bytes},
                            {"threads", d.threads},
                            {"node", d.node},
                            {"identity", d.identity()}})
              << '\n';
    return 0;
}

int comm(const CommCommand& command, char** argv) {
    if (command.device == "cuda") become_cuda(argv);
    return run_comm_command(command);
}

int show_topology(const std::string& xml, bool json) {
    Result<NodeTopology> topology = read_topology_of(xml);
    if (!topology) return fail(topology.error());
    if (json) {
        Json all = json_of(*topology);
        all["schema_version"] = 1;
        std::cout << dump_json(all) << '\n';
        return 0;
    }
    std::cout << to_text(*topology);
    return 0;
}

int show_site(const Options& o) {
    std::string slurm_user;
    if (!o.slurm_conf.empty()) {
        auto named = read_slurm_user(o.slurm_conf);
        if (!named) return fail(named.error());
        slurm_user = std::move(named).value();
    }
    const auto facts = site_facts(o.config.empty() ? config_path() : o.config, slurm_user);
    if (!facts) return fail(facts.error());
    std::cout << *facts;
    return 0;
}

/// NONCE.json in place of what the run wrote, or did not write.
int finish_check(const Options& o) {
    const auto request = check_request_of(o);
    if (!request) return fail(request.error());
    const NodeCheck check = result_of_check(*request, o.end);
    const auto path = o.spool + "/" + request->nonce + ".json";
    if (auto s = write_file_atomic(path, to_json(check) + "\n", 0644); !s) return fail(s.error());
    return check.failure.empty() ? 0 : 1;
}

int finish_run(const Options& o) {
    if (asks_for_check(o)) return finish_check(o);
    const auto request = request_of(o);
    if (!request) return fail(request.error());
    RunEnd end = o.end;
    end.progress_path = o.spool + "/" + request->nonce + ".progress";
    const Profile p = result_of_run(*request, end);
    const auto path = o.spool + "/" + request->nonce + ".json";
    std::error_code ignored;
    std::filesystem::remove(end.progress_path, ignored);
    if (auto s = write_file_atomic(path, to_json(p) + "\n", 0644); !s) return fail(s.error());
    if (p.status == ProfileStatus::failed)
        std::fprintf(stderr, "arena-profiler: %s\n", p.reason.c_str());
    return p.status == ProfileStatus::failed ? 1 : 0;
}

void add_request_flags(CLI::App& c, Options& o) {
    c.add_option("--request", o.request, "a profile request, as one line of JSON");
    c.add_option("--request-env", o.request_env,
                 "name of the environment variable that holds the request");
    c.add_option("--model", o.model, "model name of the zoo, or a file (config.json or YAML)");
    c.add_option("--batch", o.batch, "global batch, samples per iteration");
    c.add_option("--max-gpus", o.max_gpus, "most GPUs a plan may use")->capture_default_str();
    c.add_option("--gpus-per-node", o.gpus_per_node, "GPUs of one node")->capture_default_str();
    c.add_option("--hardware", o.hardware, "hardware entry that the device stands for")
        ->capture_default_str();
    c.add_option("--hardware-file", o.hardware_file, "the site's own hardware entries");
    c.add_option("--gpu-type", o.gpu_type,
                 "GRES type written into the profile (default: the hardware entry)");
    c.add_option("--budget", o.budget_s,
                 "seconds; with a request the smaller of the two counts (default 60)");
}

void add_comm_flags(CLI::App& c, CommCommand& o) {
    c.add_option("--gpu-type", o.gpu_type, "GRES type written into the table")->required();
    c.add_option("--out", o.out, "CSV file, or - for standard output")->capture_default_str();
    c.add_option("--ops", o.ops, "all_reduce, all_gather, reduce_scatter, all_to_all, send")
        ->delimiter(',');
    c.add_option("--groups", o.groups, "RANKS[xNODES[xGROUPS]] (default: all powers of two)")
        ->delimiter(',');
    c.add_option(
        "--span", o.span,
        "leaf, pod, pods or domain: how far apart the nodes lie (default: what Slurm says)");
    c.add_option("--min-bytes", o.min_bytes, "smallest size")->capture_default_str();
    c.add_option("--max-bytes", o.max_bytes, "largest size (default 1G; cpu: 64M)");
    c.add_option("--factor", o.factor, "from one size to the next")->capture_default_str();
    c.add_option("--device", o.device, "cuda: NCCL; cpu: host memory, for an emulated type")
        ->capture_default_str();
    c.add_option("--config", o.config, "arena.yaml, for the site's own emulated types");
    c.add_option("--gpus", o.gpus, "of this node (default: all that are visible; cpu: up to 8)");
    c.add_option("--budget", o.budget_s, "seconds")->capture_default_str();
    c.add_option("--timeout", o.timeout_s,
                 "seconds after which a rank that does not answer ends the run")
        ->capture_default_str();
    c.add_flag("--json", o.json, "a record with the topology of rank 0's node on standard output");
    c.add_flag("-v,--verbose", o.verbose, "one line per size on standard error");
}

void add_predict_flags(CLI::App& c, Options& o) {
    c.add_option("--model", o.model, "model name of the zoo, or a file")->required();
    c.add_option("--profile", o.profile, "profile to predict from")->required();
    c.add_option("--seq-length", o.seq_length, "tokens of a sample (the model's)");
    c.add_option("--layers", o.layers, "of the model's first kind")->capture_default_str();
    c.add_option("--tp", o.tp, "tensor-parallel ranks that share a layer")->capture_default_str();
    c.add_option("--micro-batch", o.micro_batch, "samples")->capture_default_str();
    c.add_option("--hardware", o.hardware, "hardware entry of the profile")->capture_default_str();
    c.add_option("--hardware-file", o.hardware_file, "the site's own hardware entries");
    c.add_flag("--json", o.json, "for programs");
}

#ifndef ARENA_WITH_CUDA
void add_direct_flags(CLI::App& c, Options& o) {
    c.add_option("--model", o.model, "model name of the zoo, or a file")->required();
    c.add_option("--seq-length", o.seq_length, "tokens of a sample (the model's)");
    c.add_option("--layers", o.layers, "layers to run")->capture_default_str();
    c.add_option("--tp", o.tp, "tensor-parallel ranks that share a layer")->capture_default_str();
    c.add_option("--micro-batch", o.micro_batch, "samples")->capture_default_str();
    c.add_option("--iterations", o.iterations, "timed passes")->capture_default_str();
    c.add_option("--threads", o.threads, "at most this many");
    c.add_option("--hardware", o.hardware, "hardware entry to predict with")->capture_default_str();
    c.add_option("--hardware-file", o.hardware_file, "the site's own hardware entries");
    c.add_option("--profile", o.profile, "profile of this CPU to predict from");
    c.add_flag("--json", o.json, "for programs");
}
#endif

void add_device_flags(CLI::App& c, Options& o) {
    c.add_option("--device", o.device, "cpu, cuda or auto")->capture_default_str();
    c.add_option("--threads", o.threads,
                 "CPU: at most this many (default: all CPUs it may run on)");
}

void add_check_flags(CLI::App& c, Options& o, CheckOptions& check) {
    add_device_flags(c, o);
    c.add_option("--devices", check.devices,
                 "so many of the GPUs (default: all; of a CPU, which stands for one, 1)")
        ->check(CLI::Range(std::int64_t{1}, max_check_devices));
    c.add_option("--baseline", check.baseline,
                 "what --out wrote when they were healthy: they are compared with it");
    c.add_option("--out", check.out, "file for what was measured, a later --baseline");
    c.add_option("--gpu-type", o.gpu_type, "GRES type written into it");
    c.add_option("--node", o.node, "node name written into it (default: host name)");
    c.add_flag("--json", o.json, "for programs");
}

void add_run_flags(CLI::App& c, Options& o) {
    add_request_flags(c, o);
    add_device_flags(c, o);
    c.add_option("--out", o.out, "file, or - for standard output")->capture_default_str();
    c.add_option("--node", o.node, "node name written into the profile (default: host name)");
    c.add_flag("-v,--verbose", o.verbose, "one line per operator on standard error");
    c.add_flag("--json", o.json, "one line of JSON per operator on standard output");
    c.add_option("--reuse", o.reuse,
                 "profiles of this device: what they hold is not measured again");
    c.add_option("--progress", o.progress,
                 "directory for NONCE.progress, which the scheduler shows");
}

void add_finish_flags(CLI::App& c, Options& o) {
    c.add_option("--request-env", o.request_env, "variable that holds the request")->required();
    c.add_option("--part", o.end.part_path, "what the run wrote")->required();
    c.add_option("--log", o.end.log_path, "its standard error")->required();
    c.add_option("--exit-code", o.end.exit_code, "how it ended")->required();
    c.add_option("--spool", o.spool, "directory of results")->required();
}

int main_of(int argc, char** argv) {
    CLI::App app("measures the operators of a model on one device", "arena-profiler");
    app.set_version_flag("--version", PACKAGE_STRING);
    app.require_subcommand(1);
    Options o;
    auto* run_app = app.add_subcommand("run", "measure, and write a profile");
    add_run_flags(*run_app, o);
    auto* ops_app = app.add_subcommand("ops", "list the operators that run would measure");
    add_request_flags(*ops_app, o);
    ops_app->add_flag("--json", o.json, "for programs");
    auto* request_app =
        app.add_subcommand("request", "print a request for run --request, from flags");
    add_request_flags(*request_app, o);
    auto* device_app = app.add_subcommand("device", "print who the device is, as JSON");
    add_device_flags(*device_app, o);
    auto* site_app = app.add_subcommand("site", "for the Prolog: facts of arena.yaml");
    site_app->add_option("--config", o.config, "arena.yaml");
    site_app->add_option("--slurm-conf", o.slurm_conf,
                         "slurm.conf, for SlurmUser; included files are followed");
    auto* finish_app =
        app.add_subcommand("finish", "for the Prolog: turn the end of a run into a spool file");
    add_finish_flags(*finish_app, o);
    CheckOptions checked;
    auto* check_app = app.add_subcommand(
        "check", "measure this node's GPUs and the links between them: is one slow?");
    add_check_flags(*check_app, o, checked);
    CommCommand c;
    auto* comm_app = app.add_subcommand(
        "comm", "measure collectives between GPUs, of one node or of an MPI launcher's ranks");
    add_comm_flags(*comm_app, c);
    std::string xml;
    auto* topology_app = app.add_subcommand("topology", "show where the GPUs of this node sit");
    topology_app->add_option("--xml", xml, "of another node, as lstopo writes it");
    topology_app->add_flag("--json", o.json, "for programs");
    auto* predict_app =
        app.add_subcommand("predict", "what the planner makes of a profile for whole layers");
    add_predict_flags(*predict_app, o);
#ifndef ARENA_WITH_CUDA
    auto* direct_app = app.add_subcommand(
        "direct", "run whole layers on the CPU, beside what a profile predicts for them");
    add_direct_flags(*direct_app, o);
#endif
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? 0 : 2;
    }
    if (*run_app) return run(o, argv);
    if (*ops_app) return list_operators(o);
    if (*check_app) return check(o, checked, argv);
    if (*comm_app) return comm(c, argv);
    if (*topology_app) return show_topology(xml, o.json);
    if (*predict_app) return run_predict_command(o);
#ifndef ARENA_WITH_CUDA
    if (*direct_app) return run_direct_command(o);
#endif
    if (*request_app) return show_request(o);
    if (*device_app) return show_device(o, argv);
    return *site_app ? show_site(o) : finish_run(o);
}

}  // namespace
}  // namespace arena

int main(int argc, char** argv) {
    return arena::run_program(
        "arena-profiler", [&] { return arena::main_of(argc, argv); },
        [](const std::exception& e) { std::fprintf(stderr, "arena-profiler: %s\n", e.what()); });
}
