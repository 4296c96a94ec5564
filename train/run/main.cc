// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-train`: ranks from MPI where an MPI launcher started it, else threads of this process.
// Exit codes: 0 all steps done, 1 told to leave and not saved, 2 usage, 3 environment,
// --requeue-code saved and to be started again.
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>

#include "base/signals.h"
#include "base/text.h"
#include "base/user_file.h"
#include "profiler/cpu/cpu_kernels.h"
#include "train/cpu/cpu_device.h"
#include "train/run/device_choice.h"
#include "train/run/options.h"

using namespace arena::train;

namespace {

std::optional<std::string> environment(std::string_view name) {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return value;
}

extern "C" void leave(int) { told_to_leave = true; }

constexpr std::initializer_list<int> leave_signals{SIGUSR1, SIGTERM};

void catch_signals() {
    struct sigaction action {};
    action.sa_handler = leave;
    action.sa_flags = SA_RESTART;
    for (const int number : leave_signals) sigaction(number, &action, nullptr);
    std::signal(SIGXFSZ, SIG_IGN);
}

void print_error(const arena::Error& error) {
    if (!error.text.empty()) fmt::print(stderr, "arena-train: {}\n", error.message());
}

int code_of(const arena::Error& error) {
    Outcome outcome;
    outcome.status = error;
    return exit_code(outcome, {});
}

int serve_rank(const TrainOptions& options, const ArrayFlags& flags, Comm& world,
               const DeviceMaker& device) {
    const auto end = serve_array(options, flags, world, device);
    if (end) return end->told ? options.requeue_code : 0;
    print_error(end.error());
    return arena::exit_code(end.error().code);
}

/// Every rank says why it ends, where it is the one that knows.
int run_rank(const TrainOptions& options, const ArrayFlags& array, Comm& world,
             const DeviceMaker& device) {
    if (!array.serve.empty()) return serve_rank(options, array, world, device);
    const Outcome outcome = train(options, world, device);
    if (!outcome.status) print_error(outcome.status.error());
    return exit_code(outcome, options);
}

void print_exception(const std::string& who, const std::exception& error) {
    const bool memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
    // what a GPU or NCCL says stands for itself
    const bool runtime = dynamic_cast<const std::runtime_error*>(&error) != nullptr;
    fmt::print(stderr, "arena-train: {}{}\n", who,
               memory ? "not enough memory: more stages or shards, smaller micro-batches or "
                        "--recompute full need less"
                      : fmt::format("{}{}", runtime ? "" : "internal error: ",
                                    arena::printable(error.what(), 1000)));
}

int run_with_mpi(const CommandLine& line, const DeviceMaker& device) {
    int code = 0;
    const auto body = [&](Comm& world) {
        const auto options = complete(line, environment, world.size());
        if (!options && world.rank() == 0) print_error(options.error());
        code = options ? run_rank(*options, line.array, world, device) : code_of(options.error());
    };
    MpiFaults faults;
    faults.failed = [](int rank, const std::exception& error) {
        print_exception(fmt::format("rank {}: ", rank), error);
    };
    faults.stall_limit_s = line.stall_limit_s;
    faults.stalled = [&](int rank) {
        fmt::print(stderr,
                   "arena-train: rank {}: no other rank has answered for {} s (--stall-limit); the "
                   "last checkpoint stands\n",
                   rank, line.stall_limit_s);
    };
    run_mpi(body, faults);
    return code;
}

int run_with_threads(const CommandLine& line, const DeviceMaker& device) {
    const auto options = complete(line, environment, line.ranks);
    if (!options) {
        print_error(options.error());
        return code_of(options.error());
    }
    int code = 0;
    std::mutex mutex;
    run_threads(static_cast<int>(options->plan.layout.size()), [&](Comm& world) {
        const int mine = run_rank(*options, line.array, world, device);
        const std::lock_guard lock(mutex);
        code = mine;
    });
    return code;
}

/// Under an MPI launcher, unless --ranks says otherwise.
bool has_mpi_ranks(const CommandLine& line) {
    return line.ranks == 0 && have_mpi() && started_by_mpi();
}

/// Ranks of this machine; 0 = not known, or what is wrong will be said later.
Index ranks_of_node(const CommandLine& line) {
    if (has_mpi_ranks(line)) return launched_ranks(environment);
    const auto options = complete(line, environment, line.ranks);
    return options ? options->plan.layout.size() : 0;
}

arena::Result<DeviceMaker> take_cpu(int threads) {
    if (!arena::cpu::have_gemm())
        return arena::environment_error(
            "this build has no GEMM: install libopenblas-dev and configure again");
    arena::cpu::set_gemm_threads(threads);
    return DeviceMaker([](int n, Comm&) { return make_cpu_device(n); });
}

arena::Result<DeviceMaker> take_device(CommandLine& line) {
    const std::string module = cuda_module();
    const auto choice = choose_device(
        line.device, {!module.empty(), count_gpus, [&] { return ranks_of_node(line); }});
    if (!choice) return choice.error();
    line.run.device_note = choice->why;
    return choice->is_gpu ? open_module(module) : take_cpu(line.run.threads);
}

/// Tasks that do not know of each other would each train the whole plan, into the same files.
arena::Status check_tasks(const CommandLine& line) {
    const auto tasks = environment("SLURM_STEP_NUM_TASKS");
    if (has_mpi_ranks(line) || !tasks || arena::parse_integer(*tasks, 2, INT32_MAX) == std::nullopt)
        return arena::Done{};
    return arena::usage_error(fmt::format(
        "this step has {} tasks that do not know of each other, each of which would train the "
        "whole plan; start them with srun --mpi=pmix, or one (srun -N1 -n1) whose ranks are "
        "threads",
        arena::printable(*tasks, 20)));
}

/// An array trains it, elsewhere.
int run_as_member(const CommandLine& line, const arena::BlockedSignals& blocked) {
    const auto array = find_array(environment);
    const auto member =
        array ? complete_member(line, environment) : arena::Result<MemberOptions>(array.error());
    if (!member) {
        print_error(member.error());
        return code_of(member.error());
    }
    const arena::SignalThread handlers(blocked);
    return run_member(*array, *member, line.run.log, line.run.quiet);
}

int run(CommandLine& line, const arena::BlockedSignals& blocked) {
    if (line.array.serve.empty() && environment("ARENA_ARRAY")) return run_as_member(line, blocked);
    if (const auto status = check_tasks(line); !status) {
        print_error(status.error());
        return code_of(status.error());
    }
    const auto device = take_device(line);
    if (!device) {
        print_error(device.error());
        return code_of(device.error());
    }
    const arena::SignalThread handlers(blocked);  // a signal from before waits for whoever trains
    return has_mpi_ranks(line) ? run_with_mpi(line, *device) : run_with_threads(line, *device);
}

}  // namespace

int main(int argc, char** argv) {
    CommandLine line;
    return arena::run_program(
        "arena-train",
        [&] {
            catch_signals();
            const arena::BlockedSignals blocked(leave_signals);
            const ParsedLine parsed = parse_command_line(argc, argv, line);
            return parsed.go ? run(line, blocked) : parsed.exit_code;
        },
        [](const std::exception& error) { print_exception("", error); });
}
