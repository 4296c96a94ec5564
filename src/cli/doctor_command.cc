// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`: one line per check, what to do where something is bad; exit 1 when anything is.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "core/json.h"
#include "planner/planner.h"

namespace arena::cli {
namespace {

Facts collect(const Globals& globals) {
    Facts facts;
    facts.config_path = site_config_path(globals);
    facts.config = load_site_config(globals);
    facts.hardware = load_hardware(facts.config ? facts.config->hardware_file : std::string());
    if (const auto text = program_text({"scontrol", "version"})) {
        facts.slurm_version = parse_slurm_version(*text);
    } else {
        facts.slurm_version = text.error();
    }
    if (const auto text = program_text({"scontrol", "show", "config"})) {
        facts.slurm_config = parse_scontrol_config(*text);
    } else {
        facts.slurm_config = text.error();
    }
    if (const auto text = program_text({"scontrol", "show", "node"})) {
        facts.gres_types = parse_gres_types(*text);
    } else {
        facts.gres_types = text.error();
    }
    return facts;
}

Finding check_socket(const Facts& facts) {
    if (!facts.config) return {"socket", Verdict::skip, "arena.yaml is not readable"};
    const std::string& path = facts.config->socket;
    const auto answer = ask_socket(path, "stats");
    if (!answer) return {"socket", Verdict::skip, answer.error().message() + " (not the controller?)"};
    if (answer->find('{') == std::string::npos) {
        return {"socket", Verdict::bad, path + ": the plug-in runs but is off; see slurmctld's log"};
    }
    return {"socket", Verdict::ok, path};
}

int report(const Globals& globals, const std::vector<Finding>& findings) {
    Json list = Json::array();
    int bad = 0;
    for (const Finding& finding : findings) {
        bad += finding.verdict == Verdict::bad ? 1 : 0;
        list.push_back({{"check", finding.check},
                        {"verdict", to_string(finding.verdict)},
                        {"text", finding.text}});
        if (!globals.json) {
            fmt::print("{:<5} {}: {}\n", to_string(finding.verdict), finding.check, finding.text);
        }
    }
    if (globals.json) {
        fmt::print("{}\n", dump_json({{"schema_version", 1}, {"ok", bad == 0}, {"checks", list}}));
    }
    return bad == 0 ? exit_yes : exit_no;
}

int doctor(const Globals& globals) {
    const Facts facts = collect(globals);
    std::vector<Finding> findings;
    for (const auto& part : {check_config(facts), check_slurm(facts), check_gres(facts),
                             check_profile_files(facts)}) {
        findings.insert(findings.end(), part.begin(), part.end());
    }
    findings.push_back(check_socket(facts));
    return report(globals, findings);
}

}  // namespace

void add_doctor(CLI::App& app, Globals& globals) {
    CLI::App* command = app.add_subcommand("doctor", "check the installation and say what to do");
    command->callback([&globals] { globals.status = doctor(globals); });
}

}  // namespace arena::cli
