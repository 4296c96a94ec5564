// SPDX-License-Identifier: GPL-2.0-or-later
// arena-profiler: measures a model's operators on this machine's CPU or on one GPU. The CUDA
// back-end is a program of its own, arena-profiler-cuda, that this one becomes when a GPU is asked
// for: a machine without CUDA starts and measures its CPU without loading (or having) a CUDA
// library.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "config.h"
#include "core/config.h"
#include "core/json.h"
#include "core/request.h"
#include "core/text.h"
#include "planner/planner.h"
#include "profiler/operator.h"
#include "profiler/prolog_help.h"
#include "profiler/recorder.h"
#include "profiler/request.h"
#include "profiler/session.h"

namespace arena {
namespace {

struct Options {
    std::string request, request_env;
    std::string model, hardware = "emulated-cpu", hardware_file, gpu_type;
    std::int64_t batch = 0, max_gpus = 8, gpus_per_node = 8, threads = 0;
    std::string device = "auto", out = "-", node;
    double budget_s = 0;
    bool json = false, verbose = false;
    std::string config, slurm_conf;  // site
    RunEnd end;                      // finish
    std::string spool;
};

int fail(const Error& error) {
    std::fprintf(stderr, "arena-profiler: %s\n", error.message().c_str());
    return error.code == ErrorCode::usage ? 2 : error.code == ErrorCode::no ? 1 : 3;
}

Result<Model> model_of(const std::string& word) {
    if (word.find('/') == std::string::npos && !std::filesystem::exists(word))
        return find_zoo_model(word);
    const auto text = read_regular_file(word, max_model_file_bytes);
    if (!text) return text.error();
    return parse_model(*text, word);
}

Result<ProfileRequest> request_of_flags(const Options& o) {
    if (o.model.empty()) return usage_error("give --request, --request-env or --model");
    if (o.batch < 1) return usage_error("give the global batch, at least 1", "--batch");
    const auto model = model_of(o.model);
    if (!model) return model.error();
    ProfileRequest r;
    r.nonce = make_nonce();
    r.hardware = o.hardware;
    r.gpu_type = o.gpu_type.empty() ? o.hardware : o.gpu_type;
    r.model = *model;
    r.global_batch = o.batch;
    r.max_gpus = o.max_gpus;
    r.gpus_per_node = o.gpus_per_node;
    return r;
}

Result<ProfileRequest> request_of(const Options& o) {
    Result<ProfileRequest> r = request_of_flags(o);
    if (!o.request_env.empty()) {
        const char* text = std::getenv(o.request_env.c_str());
        if (text == nullptr) return usage_error("is not set", o.request_env);
        r = parse_profile_request(text);
    } else if (!o.request.empty()) {
        r = parse_profile_request(o.request);
    }
    if (!r) return r;
    if (o.budget_s > 0)
        r->budget_s = o.request.empty() && o.request_env.empty()
                          ? o.budget_s
                          : std::min(o.budget_s, r->budget_s);
    return r;
}

Result<std::unique_ptr<Backend>> backend_of(const std::string& kind,
                                            [[maybe_unused]] const Options& o) {
#ifdef ARENA_WITH_CUDA
    if (kind == "cuda") return make_cuda_backend();
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
#ifndef ARENA_WITH_CUDA
    std::error_code ignored;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
    const auto other = self.parent_path() / "arena-profiler-cuda";
    if (::access(other.c_str(), X_OK) == 0) ::execv(other.c_str(), argv);
#endif
}

Profile blank_profile(const ProfileRequest& r) {
    Profile p;
    p.nonce = r.nonce;
    p.gpu_type = r.gpu_type;
    p.hardware = r.hardware;
    p.model_fingerprint = fingerprint(r.model);
    return p;
}

void tell(const ProfileEntry& e) {
    std::fprintf(stderr, "%-52s %10s  x%-6lld +-%.1f %%\n", op_key(e.shape).c_str(),
                 human_seconds(e.seconds).c_str(), static_cast<long long>(e.repeats),
                 100 * e.spread);
}

/// Seconds of another driver or library are not this device's: there, nothing is known yet.
std::vector<std::string> known_for(const ProfileRequest& request, const Device& device) {
    const bool same = request.known_device.empty() || request.known_device == device.identity();
    return same ? request.known : std::vector<std::string>();
}

int measure_with(Backend& backend, const std::vector<OpShape>& shapes,
                 const ProfileRequest& request, const Options& o, Recorder& recorder) {
    Device device = backend.device();
    if (!o.node.empty()) device.node = o.node;
    recorder.set_device(device);
    SessionOptions session;
    session.budget_s = request.budget_s;
    session.known = known_for(request, device);
    session.now = monotonic_s;
    session.on_begin = [&](const OpShape& s) { recorder.begin(s); };
    session.on_entry = [&](const ProfileEntry& e) {
        recorder.add(e);
        if (o.verbose) tell(e);
    };
    const SessionOutcome done = run_session(backend, shapes, session);
    if (!done.reason.empty()) std::fprintf(stderr, "arena-profiler: %s\n", done.reason.c_str());
    return recorder.finish(done.status, done.reason, done.device_seconds);
}

int run(const Options& o, char** argv) {
    const auto request = request_of(o);
    if (!request) return fail(request.error());
    const auto work = assign(*request, o.hardware_file);
    if (!work) return fail(work.error());
    const auto kind = device_kind(o.device, work->emulated, request->hardware);
    if (!kind) return fail(kind.error());
    if (!o.request_env.empty()) ::close_range(3, ~0U, 0);  // from a Prolog: nothing open is for us
    if (*kind == "cuda") become_cuda(argv);
    Recorder recorder(blank_profile(*request), o.out);
    recorder.watch(request->budget_s * 1.1 + 2);
    auto backend = backend_of(*kind, o);
    if (!backend) return fail(backend.error());
    return measure_with(**backend, work->shapes, *request, o, recorder);
}

int list_operators(const Options& o) {
    const auto request = request_of(o);
    if (!request) return fail(request.error());
    const auto work = assign(*request, o.hardware_file);
    if (!work) return fail(work.error());
    Json list = Json::array();
    for (const auto& s : wanted_shapes(work->shapes, request->known)) {
        if (o.json)
            list.push_back({{"op", op_key(s)},
                            {"hash", hash_hex(op_key(s))},
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

int finish_run(const Options& o) {
    const auto request = request_of(o);
    if (!request) return fail(request.error());
    const Profile p = result_of_run(*request, o.end);
    const auto path = o.spool + "/" + request->nonce + ".json";
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

void add_device_flags(CLI::App& c, Options& o) {
    c.add_option("--device", o.device, "cpu, cuda or auto")->capture_default_str();
    c.add_option("--threads", o.threads,
                 "CPU: at most this many (default: all CPUs it may run on)");
}

int main_of(int argc, char** argv) {
    CLI::App app("measures the operators of a model on one device", "arena-profiler");
    app.set_version_flag("--version", PACKAGE_STRING);
    app.require_subcommand(1);
    Options o;
    auto* run_app = app.add_subcommand("run", "measure, and write a profile");
    add_request_flags(*run_app, o);
    add_device_flags(*run_app, o);
    run_app->add_option("--out", o.out, "file, or - for standard output")->capture_default_str();
    run_app->add_option("--node", o.node,
                        "node name written into the profile (default: host name)");
    run_app->add_flag("-v,--verbose", o.verbose, "one line per operator on standard error");
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
    site_app->add_option("--slurm-conf", o.slurm_conf, "slurm.conf, for SlurmUser; included files are followed");
    auto* finish_app =
        app.add_subcommand("finish", "for the Prolog: turn the end of a run into a spool file");
    finish_app->add_option("--request-env", o.request_env, "variable that holds the request")
        ->required();
    finish_app->add_option("--part", o.end.part_path, "what the run wrote")->required();
    finish_app->add_option("--log", o.end.log_path, "its standard error")->required();
    finish_app->add_option("--exit-code", o.end.exit_code, "how it ended")->required();
    finish_app->add_option("--spool", o.spool, "directory of results")->required();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? 0 : 2;
    }
    if (*run_app) return run(o, argv);
    if (*ops_app) return list_operators(o);
    if (*request_app) return show_request(o);
    if (*device_app) return show_device(o, argv);
    return *site_app ? show_site(o) : finish_run(o);
}

}  // namespace
}  // namespace arena

int main(int argc, char** argv) {
    try {
        return arena::main_of(argc, argv);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "arena-profiler: %s\n", e.what());
        return 3;
    }
}
