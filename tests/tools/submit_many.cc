// SPDX-License-Identifier: GPL-2.0-or-later
// submit_many COUNT [OPTIONS]: fills a queue through Slurm's public API, as many sbatch would, in
// seconds instead of minutes. Each job carries a record as the SPANK part writes it.
//   --kib N        records of about N KiB (a custom model of many unequal layers); default: of the
//                  models below, about 400 bytes each
//   --distinct     each job has a model of its own; else there are four
//   --ordinary     not for Arena: held jobs that carry the same bytes under another name
//   --processes N  clients at work at the same time (default 4)
//   --minutes N    time limit (default 60)
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "planner/models/readers.h"
#include "request/request.h"

// after the C++ headers: it defines words of its own
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

namespace {

struct Options {
    int count = 0, kib = 0, processes = 4;
    std::uint32_t minutes = 60;
    bool distinct = false, ordinary = false;
};

arena::Model model_of(const Options& options, int number) {
    static const char* const zoo[] = {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"};
    const int kind = options.distinct ? number : number % 4;
    if (options.kib == 0) {
        arena::Model model = arena::find_zoo_model(zoo[kind % 4]).value();
        if (options.distinct) model.name += "-" + std::to_string(number);
        if (options.distinct) model.vocab += number;
        return model;
    }
    constexpr int bytes_per_layer = 132;  // as written below, in JSON
    arena::Model model;
    model.name = "custom-" + std::to_string(kind);
    model.family = arena::Family::custom;
    for (int i = 0; i < options.kib * 1024 / bytes_per_layer; ++i) {
        arena::CustomLayer layer;
        layer.name = "layer-" + std::to_string(1000 + i);
        layer.forward_flops = 1e10 + 1e4 * kind + i % 7;
        layer.parameter_bytes = 1e6 + 2 * i;
        layer.activation_bytes = 1e6;
        layer.output_bytes = 1e5;
        model.custom_layers.push_back(layer);
        ++model.layers;
    }
    return model;
}

std::string record_of(const Options& options, int number) {
    arena::Request request;
    request.model = model_of(options, number);
    request.global_batch = 64 << number % 3;
    request.min_gpus = 1 << number % 4;
    request.max_gpus = 8 << number % 3;
    const auto record = arena::format_record(request);
    if (record) return *record;
    std::fprintf(stderr, "submit_many: %s\n", record.error().message().c_str());
    std::exit(2);
}

bool submit(const Options& options, int number) {
    static std::string script = "#!/bin/sh\ntrue\n", path = "PATH=/usr/bin:/bin", name = "many";
    static std::string output = "/dev/null", directory = "/tmp";
    char* environment[] = {path.data(), nullptr};
    std::string entry = std::string(options.ordinary ? "BENCH_RECORD" : arena::record_variable) +
                        "=" + record_of(options, number);
    char* control[] = {entry.data(), nullptr};
    job_desc_msg_t job;
    slurm_init_job_desc_msg(&job);
    job.name = name.data();
    job.user_id = getuid();
    job.group_id = getgid();
    job.work_dir = directory.data();
    job.script = script.data();
    job.environment = environment;
    job.env_size = 1;
    job.min_nodes = 1;
    job.time_limit = options.minutes;
    job.std_out = output.data();
    job.spank_job_env = control;
    job.spank_job_env_size = 1;
    if (options.ordinary) job.priority = 0;
    submit_response_msg_t* response = nullptr;
    for (int attempt = 0; attempt < 5; ++attempt) {
        if (slurm_submit_batch_job(&job, &response) == SLURM_SUCCESS) return true;
        if (errno != SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT &&
            errno != SLURM_COMMUNICATIONS_RECEIVE_ERROR)
            break;
    }
    std::fprintf(stderr, "submit_many: %s: %s\n", slurm_strerror(errno),
                 response && response->job_submit_user_msg ? response->job_submit_user_msg : "");
    return false;
}

int run(const Options& options) {
    slurm_init(nullptr);
    for (int process = 0; process < options.processes; ++process) {
        if (fork() != 0) continue;
        bool good = true;
        for (int i = process; good && i < options.count; i += options.processes)
            good = submit(options, i);
        _exit(good ? 0 : 1);
    }
    bool good = true;
    for (int process = 0, status = 0; process < options.processes; ++process)
        good = wait(&status) > 0 && status == 0 && good;
    return good ? 0 : 1;
}

int usage() {
    std::fputs(
        "usage: submit_many COUNT [--kib N] [--distinct] [--ordinary] [--processes N] [--minutes "
        "N]\n",
        stderr);
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (argc < 2 || (options.count = std::atoi(argv[1])) <= 0) return usage();
    for (int i = 2; i < argc; ++i) {
        const std::string word = argv[i];
        const bool flag = word == "--distinct" || word == "--ordinary";
        if (!flag && i + 1 == argc) return usage();
        if (word == "--distinct")
            options.distinct = true;
        else if (word == "--ordinary")
            options.ordinary = true;
        else if (word == "--kib")
            options.kib = std::atoi(argv[++i]);
        else if (word == "--processes")
            options.processes = std::atoi(argv[++i]);
        else if (word == "--minutes")
            options.minutes = static_cast<std::uint32_t>(std::atoi(argv[++i]));
        else
            return usage();
    }
    return run(options);
}
