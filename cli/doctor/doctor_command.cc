// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`: reads what the checks judge; one line per check, below it the commands that mend
// what is wrong; exit 1 when anything is.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/json.h"
#include "base/text.h"
#include "cli/common/ask.h"
#include "cli/doctor/commands.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_parts.h"
#include "installed_paths.h"
#include "planner/hardware/hardware.h"
#include "site/config_sum.h"

namespace arena::cli {
namespace {

/// As Slurm finds it: $SLURM_CONF, the usual place, or what slurmd fetched from the controller.
std::string find_slurm_conf(const std::string& config_path) {
    const char* named = std::getenv("SLURM_CONF");
    if (named != nullptr && *named != '\0') return named;
    const std::string beside = std::filesystem::path(config_path).parent_path() / "slurm.conf";
    for (const std::string& path :
         {std::string("/etc/slurm/slurm.conf"), beside, std::string("/run/slurm/conf/slurm.conf")})
        if (::access(path.c_str(), F_OK) == 0) return path;
    return "/etc/slurm/slurm.conf";
}

Result<SlurmConf> read_host_slurm_conf(const std::string& path) {
    std::error_code missing;
    const auto real = std::filesystem::canonical(path, missing);
    if (missing) return environment_error(missing.message(), path);
    return read_slurm_conf(real);
}

std::string host_name() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

/// Where this program's `make install` put the rest, wherever its tree was staged.
void find_installed(Facts& facts) {
    std::error_code unknown;
    const auto prefix =
        std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path().parent_path();
    const auto staged = [&](const std::string& compiled, const char* below) {
        const std::string here = prefix / below;
        return ::access(compiled.c_str(), F_OK) == 0 || ::access(here.c_str(), F_OK) != 0 ? compiled
                                                                                          : here;
    };
    facts.plugin_dir = staged(ARENA_PKGLIBDIR, "lib/slurm-arena");
    facts.libexec_dir = staged(ARENA_LIBEXECDIR, "libexec/slurm-arena");
}

/// Asked of job_submit/arena, which takes no such job in; an older one does, and the job is taken
/// back.
Result<std::string> ask_controller_sum(const Facts& facts) {
    const bool is_told =
        facts.slurm_config &&
        running_value(facts, "JobSubmitPlugins").find("arena") != std::string::npos;
    const bool is_asked = !facts.host.controller || facts.host.standby;
    if (!is_asked || !facts.host.known || !is_told) return environment_error("not asked");
    const auto answer =
        run_program({"sbatch", "--parsable", "--hold", "--time=1", "--output=/dev/null",
                     "--chdir=/", std::string("--comment=") + ask_config_sum, "--wrap=true"});
    if (!answer) return answer.error();
    if (answer->status == 0) (void)run_program({"scancel", std::string(trim(answer->out))});
    return parse_controller_sum(answer->err);
}

Facts collect(const Globals& globals) {
    Facts facts;
    facts.config_path = site_config_path(globals);
    facts.config = load_site_config(globals);
    if (const auto sum = config_sum(facts.config_path)) facts.config_sum = *sum;
    facts.hardware = load_hardware(facts.config ? facts.config->hardware_file : std::string());
    facts.slurm_conf_path = find_slurm_conf(facts.config_path);
    facts.slurm_conf = read_host_slurm_conf(facts.slurm_conf_path);
    find_installed(facts);
    const auto text = [](const auto& argv, auto&& read) -> Result<decltype(read(std::string()))> {
        const auto answer = program_text(argv);
        if (!answer) return answer.error();
        return read(*answer);
    };
    using Words = std::vector<std::string>;
    facts.slurm_version = text(Words{"scontrol", "version"}, parse_slurm_version);
    facts.slurm_config = text(Words{"scontrol", "show", "config"}, parse_scontrol_config);
    facts.nodes = text(Words{"scontrol", "show", "node"}, parse_nodes);
    facts.network = text(Words{"scontrol", "show", "topology"}, parse_network);
    facts.partitions = text(Words{"scontrol", "-a", "show", "partition"}, parse_partitions);
    if (controllers(facts).size() > 1)
        facts.in_charge = text(Words{"scontrol", "ping"}, parse_ping);
    facts.host = find_role(facts, host_name());
    if (facts.host.compute) facts.slurmd_config_path = slurmd_config_path(facts);
    facts.controller_sum = ask_controller_sum(facts);
    const bool has_enforce =
        facts.slurm_config && facts.slurm_config->contains("AccountingStorageEnforce");
    if (facts.config && has_enforce &&
        wants_associations(facts.slurm_config->at("AccountingStorageEnforce")))
        facts.accounts = read_accounts(facts.config->profile_user);
    return facts;
}

std::string summary(const std::vector<Finding>& findings) {
    const auto count = [&](Verdict verdict) {
        return std::count_if(findings.begin(), findings.end(),
                             [&](const Finding& f) { return f.verdict == verdict; });
    };
    const auto wrong = count(Verdict::fail), doubtful = count(Verdict::warn),
               skipped = count(Verdict::skip);
    std::string text = wrong == 0 ? "all ok" : fmt::format("{} wrong", wrong);
    if (doubtful > 0) text += fmt::format(", {} to look at", doubtful);
    if (skipped > 0) text += fmt::format(", {} not looked at", skipped);
    if (wrong > 0) text += "; mend from the top and ask again";
    return text;
}

void print_text(const std::vector<Finding>& findings) {
    for (const Finding& finding : findings) {
        fmt::print("{:<5} {}: {}\n", to_string(finding.verdict), finding.check, finding.text);
        for (const std::string& line : finding.remedy) fmt::print("          {}\n", line);
    }
    fmt::print("{}\n", summary(findings));
}

void print_json(const std::vector<Finding>& findings, bool all_ok) {
    Json list = Json::array();
    for (const Finding& finding : findings)
        list.push_back({{"check", finding.check},
                        {"verdict", to_string(finding.verdict)},
                        {"text", finding.text},
                        {"remedy", finding.remedy}});
    fmt::print("{}\n", dump_json({{"schema_version", 1}, {"ok", all_ok}, {"checks", list}}));
}

int doctor(const Globals& globals) {
    const std::vector<Finding> findings = check_all(collect(globals));
    const bool all_ok = std::none_of(findings.begin(), findings.end(),
                                     [](const Finding& f) { return f.verdict == Verdict::fail; });
    if (globals.json) {
        print_json(findings, all_ok);
    } else {
        print_text(findings);
    }
    return all_ok ? exit_yes : exit_no;
}

}  // namespace

void add_doctor(CLI::App& app, Globals& globals) {
    CLI::App* command = app.add_subcommand("doctor", "check the installation and say what to do");
    command->callback([&globals] { globals.status = doctor(globals); });
}

}  // namespace arena::cli
