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
#include "profiler/cpu/cpu_kernels.h"
#include "train/run/gpu_program.h"
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

/// Every rank says why it ends, where it is the one that knows.
int run_rank(const TrainOptions& options, Comm& world) {
    const Outcome outcome = train(options, world);
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
                      : fmt::format("{}{}", runtime ? "" : "internal error: ", error.what()));
}

int run_with_mpi(const CommandLine& line) {
    int code = 0;
    const auto body = [&](Comm& world) {
        const auto options = complete(line, environment, world.size());
        if (!options && world.rank() == 0) print_error(options.error());
        code = options ? run_rank(*options, world) : code_of(options.error());
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

int run_with_threads(const CommandLine& line) {
    const auto options = complete(line, environment, line.ranks);
    if (!options) {
        print_error(options.error());
        return code_of(options.error());
    }
    int code = 0;
    std::mutex mutex;
    run_threads(static_cast<int>(options->plan.layout.size()), [&](Comm& world) {
        const int mine = run_rank(*options, world);
        const std::lock_guard lock(mutex);
        code = mine;
    });
    return code;
}

#ifdef ARENA_TRAIN_DEVICE

/// This is the program that arena-train becomes: the choice has been made.
int run(CommandLine& line, char**, const arena::BlockedSignals& blocked) {
    const arena::SignalThread handlers(blocked);
    if (line.device == "cpu") {
        print_error(
            arena::usage_error("is arena-train's; this program trains on GPUs", "--device"));
        return 2;
    }
    if (line.ranks == 0 && have_mpi() && started_by_mpi()) return run_with_mpi(line);
    return run_with_threads(line);
}

#else

/// Ranks of this machine; 0 = not known, or what is wrong will be said later.
Index ranks_of_node(const CommandLine& line) {
    if (line.ranks == 0 && have_mpi() && started_by_mpi()) return launched_ranks(environment);
    const auto options = complete(line, environment, line.ranks);
    return options ? options->plan.layout.size() : 0;
}

/// Does not return where GPUs are chosen.
arena::Status take_device(CommandLine& line, char** argv) {
    const std::string program = gpu_program();
    const auto choice = choose_device(
        line.device, {!program.empty(), count_gpus, [&] { return ranks_of_node(line); }});
    if (!choice) return choice.error();
    if (choice->is_gpu) return become(program, argv);
    line.run.device_note = choice->why;
    return arena::Done{};
}

int run(CommandLine& line, char** argv, const arena::BlockedSignals& blocked) {
    if (const arena::Status status = take_device(line, argv); !status) {
        print_error(status.error());
        return code_of(status.error());
    }
    const arena::SignalThread handlers(blocked);  // a signal from before waits for whoever trains
    if (!arena::cpu::have_gemm()) {
        fmt::print(
            stderr,
            "arena-train: this build has no GEMM: install libopenblas-dev and configure again\n");
        return 3;
    }
    arena::cpu::set_gemm_threads(line.run.threads);
    if (line.ranks == 0 && have_mpi() && started_by_mpi()) return run_with_mpi(line);
    return run_with_threads(line);
}

#endif

}  // namespace

int main(int argc, char** argv) {
    CommandLine line;
    try {
        catch_signals();
        const arena::BlockedSignals blocked(leave_signals);
        const ParsedLine parsed = parse_command_line(argc, argv, line);
        return parsed.go ? run(line, argv, blocked) : parsed.exit_code;
    } catch (const std::exception& error) {
        print_exception("", error);
        return 3;
    }
}
