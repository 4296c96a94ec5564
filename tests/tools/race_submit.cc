// SPDX-License-Identifier: GPL-2.0-or-later
// race_submit PLUGIN ARENA_YAML [THREADS [ROUNDS]]: as slurmctld of 23.02 and later does, THREADS
// (default 8) call job_submit() of the plug-in at the same time, ROUNDS (default 200) times each,
// while arena.yaml is written anew, well and badly. slurmctld's own words that the plug-in links to
// are here: two nodes with GPUs in one partition. Every answer has to be what a single caller gets.
// For ThreadSanitizer: tests/soak/submit-race. exit: 0 as it should be, 1 an answer is not, 2
// usage, 3 the plug-in does not load
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "planner/models/readers.h"
#include "request/request.h"

// after the C++ headers: it defines words of its own
#include "plugin/common/slurm_compat.h"

namespace {

part_record_t* partition = nullptr;

}  // namespace

// What is slurmctld's, and not of libslurmfull.
extern "C" {
part_record_t* default_part_loc = nullptr;
slurmdb_federation_rec_t* fed_mgr_fed_rec = nullptr;
time_t last_job_update = 0;
void* acct_db_conn = nullptr;
part_record_t* find_part_record(char* name) {
    return std::string_view(name) == "main" ? partition : nullptr;
}
bool validate_operator(uid_t uid) { return uid == 0; }
void acct_policy_remove_accrue_time(job_record_t*, bool) {}
}

namespace {

using Submit = int (*)(job_desc_msg_t*, std::uint32_t, char**);

node_record_t* make_node(int index) {
    auto* config = static_cast<config_record_t*>(xmalloc(sizeof(config_record_t)));
    config->magic = CONFIG_MAGIC;
    config->gres = xstrdup("gpu:a40:8");
    config->cpus = 64;
    config->real_memory = 512000;
    auto* node = static_cast<node_record_t*>(xmalloc(sizeof(node_record_t)));
    node->magic = NODE_MAGIC;
    node->index = static_cast<decltype(node->index)>(index);
    node->name = xstrdup(("n" + std::to_string(index)).c_str());
    node->config_ptr = config;
    return node;
}

void make_cluster() {
    static node_record_t* table[2] = {make_node(0), make_node(1)};
    node_record_table_ptr = table;
    node_record_count = 2;
    partition = static_cast<part_record_t*>(xmalloc(sizeof(part_record_t)));
    partition->magic = PART_MAGIC;
    partition->name = xstrdup("main");
    partition->node_bitmap = bit_alloc(2);
    bit_nset(partition->node_bitmap, 0, 1);
    partition->max_time = partition->default_time = 60;
    partition->max_nodes = INFINITE;
    default_part_loc = partition;
    slurm_conf.cluster_name = xstrdup("race");
    slurm_conf.state_save_location = xstrdup("/nonexistent");
}

struct Case {
    const char* name;
    std::string record;  ///< "": an ordinary job
    const char* partition;
    bool is_taken;
};

std::string record_of(std::string_view model, std::int64_t most_gpus) {
    arena::Request request;
    request.model = arena::find_zoo_model(model).value();
    request.global_batch = 64;
    request.max_gpus = most_gpus;
    return arena::format_record(request).value();
}

std::vector<Case> cases() {
    return {{"a model", record_of("gpt2", 8), nullptr, true},
            {"another, over both nodes", record_of("gpt2-xl", 16), "main", true},
            {"no Arena job", "", "main", true},
            {"a record that is none", "{\"v\":1,", nullptr, false},
            {"more GPUs than there are", record_of("gpt2", 8), "elsewhere", false}};
}

/// Of what is here: slurm_free_job_desc_msg() would load Slurm's plug-ins.
void free_job(job_desc_msg_t* job) {
    for (std::uint32_t i = 0; i < job->spank_job_env_size; ++i) xfree(job->spank_job_env[i]);
    xfree(job->spank_job_env);
    xfree(job->script);
    xfree(job->partition);
    xfree(job->admin_comment);
    xfree(job);
}

/// "" or what is wrong with the answer.
std::string fault_of(Submit submit, const Case& that) {
    auto* job = static_cast<job_desc_msg_t*>(xmalloc(sizeof(job_desc_msg_t)));
    slurm_init_job_desc_msg(job);
    job->het_job_offset = NO_VAL;  // as slurmctld has it of a job by itself
    job->script = xstrdup("#!/bin/sh\ntrue\n");
    if (that.partition) job->partition = xstrdup(that.partition);
    if (!that.record.empty()) {
        job->spank_job_env = static_cast<char**>(xcalloc(2, sizeof(char*)));
        const std::string entry = std::string(arena::record_variable) + "=" + that.record;
        job->spank_job_env[0] = xstrdup(entry.c_str());
        job->spank_job_env_size = 1;
    }
    char* said = nullptr;
    const int rc = submit(job, 1000, &said);
    const bool is_held = job->admin_comment && job->priority == 0;
    std::string fault;
    if ((rc == SLURM_SUCCESS) != that.is_taken)
        fault = "answer " + std::to_string(rc) + ": " + (said ? said : "");
    else if (that.is_taken && is_held == that.record.empty())
        fault = "held, or not held, where it should not be";
    else if (!that.is_taken && (!said || !*said))
        fault = "refused without a word";
    xfree(said);
    free_job(job);
    return fault.empty() ? fault : std::string(that.name) + ": " + fault;
}

/// As an editor leaves it: a whole file in place of another one.
void write(const std::string& path, std::string_view text) {
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
}

std::string site_with(std::string_view policy) {
    return "gpu_types: {a40: A40}\npolicy: " + std::string(policy) + "\n";
}

int run(Submit submit, const std::string& path, int threads, int rounds) {
    std::atomic<int> faults{0}, answers{0};
    std::atomic<bool> over{false};
    const std::vector<Case> all = cases();
    std::vector<std::thread> callers;
    for (int thread = 0; thread < threads; ++thread)
        callers.emplace_back([&, thread] {
            for (int i = 0; i < rounds; ++i, ++answers) {
                const Case& that = all[static_cast<std::size_t>(thread + i) % all.size()];
                const std::string fault = fault_of(submit, that);
                if (!fault.empty() && faults++ < 10) std::printf("%s\n", fault.c_str());
            }
        });
    std::thread editor([&] {
        for (int n = 0; !over; ++n) {
            write(path, n % 3 == 2 ? "policy: [" : site_with(n % 3 == 0 ? "arena" : "fifo"));
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    });
    for (std::thread& caller : callers) caller.join();
    over = true;
    editor.join();
    std::printf("%d threads: %d submissions, %d wrong answers\n", threads, answers.load(),
                faults.load());
    return faults == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: race_submit PLUGIN ARENA_YAML [THREADS [ROUNDS]]\n");
        return 2;
    }
    const std::string path = argv[2];
    write(path, site_with("arena"));
    setenv("ARENA_CONF", path.c_str(), 1);
    make_cluster();
    void* plugin = dlopen(argv[1], RTLD_NOW);
    if (!plugin) std::fprintf(stderr, "race_submit: %s\n", dlerror());
    if (!plugin) return 3;
    const auto init = reinterpret_cast<int (*)()>(dlsym(plugin, "init"));
    const auto fini = reinterpret_cast<int (*)()>(dlsym(plugin, "fini"));
    const auto submit = reinterpret_cast<Submit>(dlsym(plugin, "job_submit"));
    if (!init || !fini || !submit || init() != SLURM_SUCCESS) {
        std::fprintf(stderr, "race_submit: %s is no job_submit plug-in that starts\n", argv[1]);
        return 3;
    }
    const int rc =
        run(submit, path, argc > 3 ? std::atoi(argv[3]) : 8, argc > 4 ? std::atoi(argv[4]) : 200);
    fini();
    return rc;
}
