// SPDX-License-Identifier: GPL-2.0-or-later
// What `arena doctor` makes of Slurm's answers, and how --fixed and scontrol's fields are read.
#include "cli/doctor/doctor.h"

#include <elf.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "cli/common/ask.h"
#include "cli/planning/plan_input.h"
#include "directory.h"
#include "installed_paths.h"
#include "site/config_sum.h"
#include "site/gres_conf.h"
#include "site/plugin_version.h"
#include "suite.h"

using namespace arena;
using namespace arena::cli;
using arena::test::assert_refused;
using arena::test::assert_text;
using arena::test::must;

namespace {

const Finding& finding(const std::vector<Finding>& all, const std::string& check) {
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const Finding& f) { return f.check == check; });
    ck_assert_msg(at != all.end(), "no check \"%s\"", check.c_str());
    return *at;
}

void assert_verdict(const std::vector<Finding>& all, const std::string& check, Verdict verdict,
                    const std::string& needle) {
    const Finding& f = finding(all, check);
    ck_assert_msg(f.verdict == verdict, "%s: %s", check.c_str(), f.text.c_str());
    ck_assert_msg(f.text.find(needle) != std::string::npos, "%s: \"%s\" does not say \"%s\"",
                  check.c_str(), f.text.c_str(), needle.c_str());
}

std::string own_user() {
    const passwd* entry = ::getpwuid(::geteuid());
    ck_assert(entry != nullptr);
    return entry->pw_name;
}

std::map<std::string, std::string> good_slurm(const std::string& plugin_dir) {
    return {{"PluginDir", plugin_dir},
            {"SchedulerType", "sched/arena"},
            {"JobSubmitPlugins", "lua,arena"},
            {"RequeueExitHold", "3,90-99"},
            {"PrologEpilogTimeout", "360"},
            {"BatchStartTimeout", "400 sec"},
            {"GresTypes", "gpu"},
            {"SlurmUser", "slurm(64030)"}};
}

Facts good_facts(const std::string& plugin_dir) {
    Facts facts;
    facts.config = Config{};
    facts.config_path = plugin_dir + "/arena.yaml";
    facts.slurm_version = std::string(ARENA_SLURM_VERSION);
    facts.slurm_config = good_slurm(plugin_dir);
    facts.slurm_conf_path = plugin_dir + "/slurm.conf";
    facts.plugin_dir = facts.libexec_dir = plugin_dir;
    return facts;
}

/// As slurm.conf on the controller says it, with slurmctld running with something else, perhaps.
Facts with_file(const std::string& plugin_dir, const std::string& text) {
    Facts facts = good_facts(plugin_dir);
    facts.slurm_conf = SlurmConf{parse_slurm_conf(text)};
    for (SlurmConfLine& line : facts.slurm_conf.value().lines) line.file = facts.slurm_conf_path;
    facts.host = find_role(facts, "n1.site.org");
    return facts;
}

std::string first_remedy(const Finding& finding) {
    return finding.remedy.empty() ? "" : finding.remedy.front();
}

struct Directory : test::Directory {
    Directory() {
        for (const char* file : {"sched_arena.so", "job_submit_arena.so", "spank_arena.so"})
            std::ofstream(*this / file) << "x";
    }
};

}  // namespace

TEST(slurms_words_are_read) {
    assert_text(parse_slurm_version("slurm-wlm 22.05.8\n"), "22.05.8");
    assert_text(parse_slurm_version("slurm 24.11.0"), "24.11.0");
    const auto nodes = parse_nodes(
        "NodeName=n1 Arch=x86_64\n   Gres=gpu:a40:4(S:0-1),gpu:a100:2,shard:8\n   NodeAddr=n1 "
        "NodeHostName=n1 Version=22\n"
        "   State=IDLE+DRAIN ThreadsPerCore=1\n   Reason=Prolog error "
        "[root@2026-01-01T00:00:00]\n\n"
        "NodeName=n2\n   Gres=(null)\nNodeName=n3\n   Gres=gpu:4\n");
    ck_assert_uint_eq(nodes.size(), 3);
    const SlurmNode first{"n1", "n1", "IDLE+DRAIN", "Prolog error", {"a100", "a40"}};
    ck_assert(nodes[0] == first);
    ck_assert(nodes[1].gpu_types.empty());
    ck_assert(nodes[2].gpu_types == std::vector<std::string>{""});
    ck_assert(list_has_code("1,5-9,99", 99) && list_has_code("1,5-9,99", 7));
    ck_assert(!list_has_code("1,5-9", 10) && !list_has_code("", 99) && !list_has_code("(null)", 0));
}

TEST(scontrols_fields_are_read) {
    const auto fields = parse_scontrol_fields(
        "JobId=7 JobName=a b=c\n   JobState=PENDING Reason=Arena:_waits Dependency=(null)\n"
        "   AdminComment=arena:v1 state=held grid=4xa40\n   TresPerNode=gres:gpu:a40:4\n");
    assert_text(fields.at("JobState"), "PENDING");
    assert_text(fields.at("Reason"), "Arena:_waits");
    assert_text(fields.at("AdminComment"), "arena:v1 state=held grid=4xa40");
    assert_text(fields.at("TresPerNode"), "gres:gpu:a40:4");
    const auto config = parse_scontrol_config("PluginDir               = /a:/b\nx\nEmpty = \n");
    assert_text(config.at("PluginDir"), "/a:/b");
    assert_text(config.at("Empty"), "");
}

TEST(pyxis_stands_behind_our_line) {
    const Directory dir;
    std::ofstream(dir / "libarena_spank.so") << "x";
    const Facts facts = with_file(dir.path(), "SlurmctldHost=ctl\n");
    const std::string ours = "optional " + dir.path() + "/spank_arena.so\n",
                      pyxis = "required /usr/lib/slurm/spank_pyxis.so\n";
    const auto found = [&](const std::string& stack) {
        std::ofstream(dir / "plugstack.conf") << stack;
        return check_spank(facts);
    };
    ck_assert_uint_eq(found(ours + pyxis).size(), 1);
    ck_assert_uint_eq(found(ours).size(), 1);
    const auto behind = found(pyxis + ours);
    ck_assert_uint_eq(behind.size(), 2);
    ck_assert_msg(behind[1].text.find("spank_pyxis.so stands before") != std::string::npos, "%s",
                  behind[1].text.c_str());
    for (const std::string& command : behind[1].remedy)
        ck_assert_int_eq(std::system(command.c_str()), 0);
    ck_assert_uint_eq(check_spank(facts).size(), 1);
}

TEST(a_host_knows_what_it_is) {
    const Directory dir;
    Facts facts =
        with_file(dir.path(), "SlurmctldHost=ctl(10.0.0.1)\nSlurmctldHost=ctl2\nNodeName=n[1-4]\n");
    facts.nodes = parse_nodes("NodeName=gpu1 A=b\n   NodeHostName=n1\n");
    const auto role = [&](const char* name) { return find_role(facts, name); };
    ck_assert(role("ctl.site").controller && !role("ctl.site").compute && role("ctl2").controller);
    ck_assert(role("n1").compute && !role("n1").controller);
    assert_text(role("n1").why, "NodeName=gpu1");
    assert_text(role("n1").controller_name, "ctl");
    ck_assert(!role("login").compute && !role("login").controller && role("login").known);
    ck_assert(!find_role(Facts{}, "login").known);
}

TEST(remedies_are_commands_for_the_host_they_belong_to) {
    const Directory dir;
    const std::string conf = dir.path() + "/slurm.conf", plugins = "PluginDir=" + dir.path() + "\n";
    const auto scheduler = [&](const std::string& text) {
        return finding(check_slurm(with_file(dir.path(), plugins + text)), "SchedulerType");
    };
    // The file has no such line: slurmctld's value counts, and it is good.
    ck_assert(scheduler("SlurmctldHost=n1\n").verdict == Verdict::ok);
    const Finding wrong = scheduler("SlurmctldHost=n1\nschedulertype = sched/builtin\n");
    ck_assert(wrong.remedy ==
              (std::vector<std::string>{
                  "sed -i 's|^[ \\t]*SchedulerType[ \\t]*=.*|SchedulerType=sched/arena|I' " + conf,
                  "systemctl restart slurmctld"}));
    // Elsewhere slurmctld's is right: this host's file is the wrong one.
    assert_text(first_remedy(scheduler("SlurmctldHost=ctl\nSchedulerType=sched/builtin\n")),
                "scp ctl:" + conf + " " + conf);
    Facts facts = with_file(dir.path(), plugins + "SlurmctldHost=ctl\nSchedulerType=sched/arena\n");
    facts.slurm_config.value()["SchedulerType"] = "sched/backfill";
    const Finding stale = finding(check_slurm(facts), "SchedulerType");
    ck_assert_msg(stale.text.find("still runs with sched/backfill") != std::string::npos, "%s",
                  stale.text.c_str());
    assert_text(first_remedy(stale), "on ctl: systemctl restart slurmctld");
}

TEST(a_prolog_is_needed_and_runs_ours) {
    const Directory dir;
    const auto prolog = [&](const std::string& line, bool on_node, const char* shown = "Prolog") {
        Facts facts = with_file(dir.path(), "SlurmctldHost=n1\n" + line);
        facts.slurm_config.value()[shown] = facts.slurm_conf->value("Prolog");
        facts.host.compute = on_node;
        return finding(check_prolog(facts), "Prolog");
    };
    ck_assert(prolog("", false).verdict == Verdict::fail);
    ck_assert(prolog("Prolog=/no/such\n", false).verdict == Verdict::ok);  // it is run elsewhere
    ck_assert(prolog("Prolog=/no/such\n", false, "Prolog[0]").verdict == Verdict::ok);
    ck_assert(prolog("Prolog=/no/such\n", false, "Epilog").verdict == Verdict::fail);
    ck_assert(prolog("Prolog=/no/such\n", true).verdict == Verdict::fail);
    const std::string theirs = dir.path() + "/theirs", wrapper = dir.path() + "/wrapper";
    std::ofstream(theirs) << "#!/bin/sh\n";
    std::ofstream(wrapper) << "#!/bin/sh\nexec /x/arena-prolog\n";
    assert_verdict({prolog("Prolog=" + theirs + "\n", true)}, "Prolog", Verdict::fail,
                   "cannot be executed");
    for (const std::string& file : {theirs, wrapper})
        std::filesystem::permissions(file, std::filesystem::perms(0755));
    const Finding other = prolog("Prolog=" + theirs + "\n", true);
    assert_verdict({other}, "Prolog", Verdict::fail, "does not run arena-prolog");
    assert_text(first_remedy(other), "install -d " + dir.path() + "/prolog.d");
    ck_assert(prolog("Prolog=" + dir.path() + "/w*\n", true).verdict == Verdict::ok);
    Facts facts = with_file(dir.path(), "SlurmctldHost=n1\nSlurmdUser=daemon\n");
    assert_verdict(check_prolog(facts), "Prolog", Verdict::fail, "SlurmdUser is daemon");
}

TEST(nodes_that_a_prolog_drained_are_told) {
    Facts facts;
    facts.nodes = parse_nodes(
        "NodeName=n1\n Gres=gpu:a:1\n State=IDLE\nNodeName=n2\n Gres=gpu:a:1\n State=IDLE+DRAIN\n"
        " Reason=Prolog error [x]\nNodeName=n3\n Gres=gpu:a:1\n State=DOWN*\n Reason=fan [x]\n");
    const auto found = check_nodes(facts);
    ck_assert_uint_eq(found.size(), 2);
    assert_verdict(found, "node n2", Verdict::fail, "Prolog error");
    assert_text(first_remedy(found[0]), "scontrol update NodeName=n2 State=RESUME");
    assert_verdict(found, "node n3", Verdict::warn, "fan");
}

TEST(a_network_is_counted_and_nodes_outside_it_are_told) {
    Facts facts;
    facts.slurm_config = std::map<std::string, std::string>{{"TopologyPlugin", "topology/tree"}};
    facts.nodes = parse_nodes(
        "NodeName=n1\n Gres=gpu:a:1\nNodeName=n2\n Gres=gpu:a:1\nNodeName=n3\n Gres=(null)\n");
    facts.network = parse_network(
        "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n1\nSwitchName=leaf2 Level=0 Nodes=n2\n"
        "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-2] Switches=leaf[1-2]\n");
    assert_verdict(check_network(facts), "network", Verdict::ok, "topology/tree: 2 leaf switches");
    facts.network = parse_network("SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n1\n");
    assert_verdict(check_network(facts), "network", Verdict::warn,
                   "no leaf switch has n2: no job is started there");
    facts.slurm_config = std::map<std::string, std::string>{{"TopologyPlugin", "topology/block"}};
    facts.network = parse_network(
        "BlockName=block1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
        "AggregatedBlock=block[1-2] BlockIndex=2 Nodes=n[1-4] BlockSize=4\n");
    assert_verdict(check_network(facts), "network", Verdict::ok, "topology/block: 1 block");
    facts.nodes = parse_nodes(
        "NodeName=n1\n Gres=gpu:a:1\nNodeName=n2\n Gres=gpu:a:1\nNodeName=n3\n Gres=gpu:a:1\n");
    facts.network = parse_network("BlockName=b1 Nodes=n[1,3]\nBlockName=b2 Nodes=n2\n");
    for (const auto& [version, remedy] :
         {std::pair("24.11.5", "together in slurm.conf"), {"25.11.2", "=BlockAsNodeRank"}}) {
        facts.slurm_version = std::string(version);
        assert_verdict(check_network(facts), "network", Verdict::warn, remedy);
        assert_verdict(check_network(facts), "network", Verdict::warn,
                       "nodes of b2 and b1 alternate in Slurm's order of nodes");
    }
    facts.slurm_config = std::map<std::string, std::string>{{"TopologyPlugin", "topology/tree"}};
    facts.network = parse_network("SwitchName=l1 Nodes=n[1,3]\nSwitchName=l2 Nodes=n2\n");
    for (const auto& [version, remedy] :
         {std::pair("22.05.8", "name the nodes"), {"24.11.5", "=SwitchAsNodeRank"}}) {
        facts.slurm_version = std::string(version);
        assert_verdict(check_network(facts), "network", Verdict::warn, remedy);
    }
    facts.slurm_version = std::string("26.05.4");  // it orders ranks by itself
    assert_verdict(check_network(facts), "network", Verdict::ok, "2 leaf switches");
    facts.slurm_config.value()["SelectTypeParameters"] = "CR_CORE_MEMORY,CR_NO_DIST_TOPO_BLOCK";
    assert_verdict(check_network(facts), "network", Verdict::warn, "=SwitchAsNodeRank");
    facts.slurm_config = std::map<std::string, std::string>{{"TopologyPlugin", "topology/none"}};
    facts.network = parse_network("");
    ck_assert(check_network(facts).empty());
    facts.network = environment_error("no answer");
    ck_assert(check_network(facts).empty());
}

/// TopologyPlugin keeps its default beside topology.yaml (seen in 26.05's source): what counts is
/// what slurmctld has.
TEST(a_network_of_topology_yaml_is_found_and_nodes_of_another_partition_s_are_not_lost) {
    Facts facts;
    facts.slurm_config = std::map<std::string, std::string>{{"TopologyPlugin", "topology/flat"}};
    facts.nodes = parse_nodes(
        "NodeName=n1\n Gres=gpu:a:1\n Partitions=main\nNodeName=n2\n Gres=gpu:a:1\n "
        "Partitions=main,own\nNodeName=n3\n Gres=gpu:a:1\n Partitions=own\n");
    facts.network = parse_network("BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n");
    assert_verdict(check_network(facts), "network", Verdict::warn, "no block has n3");
    facts.partitions = parse_partitions(
        "PartitionName=main\n   State=UP\nPartitionName=own\n   Topology=flat State=UP\n");
    assert_verdict(check_network(facts), "network", Verdict::ok,
                   "topology/block of topology.yaml: 1 block");
    facts.network = parse_network("BlockName=b1 BlockIndex=0 Nodes=n1 BlockSize=2\n");
    assert_verdict(check_network(facts), "network", Verdict::warn, "no block has n2");
}

TEST(a_good_installation_has_nothing_bad) {
    const Directory dir;
    for (const Finding& f : check_slurm(good_facts(dir.path()))) {
        ck_assert_msg(f.verdict != Verdict::fail, "%s: %s", f.check.c_str(), f.text.c_str());
    }
}

TEST(each_mistake_is_bad_and_says_what_to_do) {
    const Directory dir;
    const auto with = [&](const char* key, const std::string& value) {
        Facts facts = good_facts(dir.path());
        facts.slurm_config.value()[key] = value;
        return check_slurm(facts);
    };
    assert_verdict(with("PluginDir", dir.path() + ":/no/such"), "PluginDir", Verdict::fail,
                   "/no/such");
    assert_verdict(with("GresTypes", "(null)"), "GresTypes", Verdict::fail, "without gpu");
    assert_verdict(with("PluginDir", "/tmp"), "plug-in files", Verdict::fail, "sched_arena.so");
    assert_verdict(with("SchedulerType", "sched/backfill"), "SchedulerType", Verdict::fail,
                   "sched/arena");
    assert_verdict(with("JobSubmitPlugins", "lua"), "JobSubmitPlugins", Verdict::fail,
                   "without arena");
    assert_verdict(with("JobSubmitPlugins", "arena,lua"), "JobSubmitPlugins", Verdict::fail,
                   "last");
    assert_verdict(with("RequeueExitHold", "(null)"), "RequeueExitHold", Verdict::fail, "99");
    const double limit_s = good_facts(dir.path()).config->profile_time_limit_s;
    const auto seconds = [&](double more) {
        return std::to_string(static_cast<int>(limit_s + more));
    };
    assert_verdict(with("PrologEpilogTimeout", seconds(19)), "PrologEpilogTimeout", Verdict::fail,
                   seconds(20));
    assert_verdict(with("PrologEpilogTimeout", seconds(20)), "PrologEpilogTimeout", Verdict::ok,
                   "");
    assert_verdict(with("PrologEpilogTimeout", "65534"), "PrologEpilogTimeout", Verdict::ok,
                   "65534");
    assert_verdict(with("BatchStartTimeout", "10 sec"), "BatchStartTimeout", Verdict::fail,
                   "time_limit_s");
    assert_verdict(with("BatchStartTimeout", seconds(20) + " sec"), "BatchStartTimeout",
                   Verdict::ok, "");
    Facts facts = good_facts(dir.path());
    facts.slurm_version = std::string("1.2.3");
    assert_verdict(check_slurm(facts), "Slurm version", Verdict::fail, "1.2.3");
    facts.slurm_config = environment_error("no answer");
    assert_verdict(check_slurm(facts), "slurmctld", Verdict::skip, "no answer");
    facts.slurm_conf = SlurmConf{};
    assert_verdict(check_slurm(facts), "slurmctld", Verdict::fail, "no answer");
}

TEST(a_slurm_conf_that_is_a_link_is_followed_where_only_its_owner_sets_it) {
    const Directory dir;
    const std::string link = dir.path() + "/slurm.conf", shared = dir.path() + "/shared";
    std::filesystem::create_directory(shared);
    std::ofstream(shared + "/slurm.conf") << "SlurmUser=slurm\nInclude more.conf\n";
    std::ofstream(dir.path() + "/more.conf")
        << "PluginDir=/here\n";  // beside the link, as Slurm looks for it
    ck_assert_int_eq(::chmod(shared.c_str(), 0755), 0);
    ck_assert_int_eq(::chmod((shared + "/slurm.conf").c_str(), 0644), 0);
    std::filesystem::create_symlink("shared/slurm.conf", link);
    assert_text(*read_slurm_user(link), "slurm");
    assert_text(read_slurm_conf(link)->value("PluginDir"), "/here");
    ck_assert_int_eq(::chmod((shared + "/slurm.conf").c_str(), 0666), 0);
    assert_refused(read_slurm_conf(link),
                   "symbolic link by way of " + shared + "/slurm.conf, which others may write");
    ck_assert_int_eq(::chmod((shared + "/slurm.conf").c_str(), 0644), 0);
    ck_assert_int_eq(::chmod(shared.c_str(), 0777), 0);
    assert_refused(read_slurm_conf(link),
                   "symbolic link by way of " + shared + ", which others may write");
    ck_assert_int_eq(::chmod(shared.c_str(), 0755), 0);
    std::filesystem::remove(shared + "/slurm.conf");
    assert_refused(read_slurm_conf(link), "symbolic link to what cannot be found");
    std::filesystem::remove(link);
    std::filesystem::create_symlink("slurm.conf", link);
    assert_refused(read_slurm_conf(link), "leads through too many links");
}

TEST(all_hosts_have_the_controllers_arena_yaml) {
    const std::string said =
        "sbatch: error: arena: arena.yaml of the controller has sum 0123abcd\nsbatch: error: Batch";
    assert_text(*parse_controller_sum(said), "0123abcd");
    for (const char* other :
         {"", "Submitted batch job 4", "arena.yaml of the controller has sum 0123",
          "arena.yaml of the controller has sum 0123ABCD"})
        assert_refused(parse_controller_sum(other), "slurmctld does not tell");
    const Directory dir;
    Facts facts = good_facts(dir.path());
    std::ofstream(facts.config_path) << "enabled: true\n";
    ::chmod(facts.config_path.c_str(), 0644);
    facts.config_sum = "0123abcd";
    facts.host.controller_name = "ctl";
    facts.controller_sum = std::string("0123abcd");
    facts.slurm_config.value()["SlurmUser"] = ::getpwuid(::geteuid())->pw_name;
    assert_verdict(check_config(facts), "arena.yaml", Verdict::ok, "as on the controller");
    facts.controller_sum = std::string("99999999");
    assert_verdict(check_config(facts), "arena.yaml", Verdict::fail,
                   "that of the controller 99999999");
    assert_text(finding(check_config(facts), "arena.yaml").remedy.front(),
                "scp ctl:" + facts.config_path + " " + facts.config_path);
}

TEST(of_several_controllers_the_first_that_is_up_is_in_charge) {
    assert_text(parse_ping("Slurmctld(primary) at c1 is DOWN\n"
                           "Slurmctld(backup) at c2 is UP\n"),
                "c2");
    assert_text(parse_ping("Slurmctld(primary) at c1 is UP\n"
                           "Slurmctld(backup) at c2 is UP\n*****\n"),
                "c1");
    assert_text(parse_ping("Slurmctld(primary) at c1 is DOWN\n"), "");
    assert_text(parse_ping("is UP ) at x"), "");
}

TEST(a_standby_has_no_plug_in_to_answer_and_is_not_wrong) {
    const Directory dir;
    Facts facts = with_file(dir.path(), "SlurmctldHost=c1\nSlurmctldHost=c2(10.0.0.2)\n");
    facts.config->socket = dir.path() + "/arena.sock";
    ck_assert(::chmod(dir.path().c_str(), 0755) == 0);
    facts.slurm_config.value()["SlurmUser"] = own_user() + "(0)";
    facts.in_charge = std::string("c1");
    facts.host = find_role(facts, "c2.site");
    ck_assert(facts.host.controller && facts.host.standby);
    assert_text(facts.host.controller_name, "c1");
    ck_assert(check_host(facts).text.find(
                  "standby controller (SlurmctldHost=c2; c1 is in charge") != std::string::npos);
    assert_verdict(check_controller(facts), "socket", Verdict::skip, "the one in charge, on c1");
    facts.in_charge = std::string("c2");
    facts.host = find_role(facts, "c2");
    ck_assert(!facts.host.standby);
    assert_verdict(check_controller(facts), "socket", Verdict::fail, "arena.sock");
    facts.in_charge = environment_error("no answer");
    ck_assert(!find_role(facts, "c2").standby);
}

TEST(the_store_of_two_controllers_is_where_their_state_is) {
    const Directory dir;
    Facts facts = with_file(dir.path(), "SlurmctldHost=c1\nSlurmctldHost=c2\nStateSaveLocation=" +
                                            dir.path() + "/state\n");
    facts.host = find_role(facts, "c1");
    std::filesystem::create_directories(dir.path() + "/state");
    facts.config->profile_store = dir.path() + "/store/profiles.db";
    std::filesystem::create_directories(dir.path() + "/store");
    assert_verdict(check_shared(facts), "store shared", Verdict::ok,
                   "is on the file system of StateSaveLocation");
    facts.config->profile_store = "/proc/self/profiles.db";  // another file system
    const auto found = check_shared(facts);
    assert_verdict(found, "store shared", Verdict::warn, "the one that takes over (c2)");
    assert_text(finding(found, "store shared").remedy.back(), "systemctl restart slurmctld");
    facts.slurm_conf->lines.erase(facts.slurm_conf->lines.begin() + 1);
    facts.host = find_role(facts, "c1");
    ck_assert(check_shared(facts).empty());
}

TEST(a_spool_that_hosts_do_not_share_is_told_by_probes) {
    const Directory node_dir, controller_dir;
    const auto facts_on = [&](const char* host, const std::string& spool) {
        Facts facts = with_file(controller_dir.path(), "SlurmctldHost=c1\n");
        facts.nodes = std::vector<SlurmNode>{{"n1", "n1", "IDLE", "", {"a40"}}};
        facts.config->profile_user = own_user();
        facts.config->profile_spool = spool;
        facts.host = find_role(facts, host);
        return facts;
    };
    const std::string shared = node_dir.path();
    assert_verdict(check_shared(facts_on("c1", shared)), "spool shared", Verdict::skip,
                   "run arena doctor as root on a compute node");
    ck_assert(std::filesystem::exists(shared + "/doctor-c1.probe"));
    assert_verdict(check_shared(facts_on("n1", shared)), "spool shared", Verdict::ok,
                   "wrote on c1");
    assert_verdict(check_shared(facts_on("c1", shared)), "spool shared", Verdict::ok,
                   "wrote on n1");
    // Each its own directory of that name.
    const std::string apart = controller_dir.path();
    std::filesystem::remove(shared + "/doctor-c1.probe");
    (void)check_shared(facts_on("c1", apart));
    assert_verdict(check_shared(facts_on("n1", shared)), "spool shared", Verdict::warn,
                   "has nothing that arena doctor wrote on c1");
    // One of last week says nothing of now.
    std::ofstream(shared + "/doctor-c1.probe") << "";
    std::filesystem::last_write_time(
        shared + "/doctor-c1.probe",
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(7 * 24));
    assert_verdict(check_shared(facts_on("n1", shared)), "spool shared", Verdict::warn, "nothing");
    // All on one host.
    Facts one = facts_on("c1", shared);
    one.nodes = std::vector<SlurmNode>{{"n1", "c1", "IDLE", "", {"a40"}}};
    ck_assert(check_shared(one).empty());
}

TEST(a_prolog_and_commands_that_read_different_texts_are_told) {
    const Directory dir;
    Facts facts = with_file(dir.path(), "Prolog=" + dir.path() + "/wrapper\n");
    facts.host = {.name = "n1", .compute = true, .controller_name = {}, .why = {}, .known = true};
    facts.slurm_config = environment_error("no answer");
    const std::string ours = dir.path() + "/ours.yaml", theirs = dir.path() + "/theirs.yaml";
    ck_assert(write_file_atomic(ours, "interval_s: 7\n").ok());
    ck_assert(write_file_atomic(theirs, "interval_s: 8\n").ok());
    facts.config_path = facts.slurmd_config_path = ours;
    facts.config_sum = config_sum(ours).value();
    const auto with = [&](const std::string& wrapper) {
        std::ofstream(dir.path() + "/wrapper") << "#!/bin/sh\n" << wrapper << "\n";
        ck_assert(::chmod((dir.path() + "/wrapper").c_str(), 0755) == 0);
        return check_prolog(facts);
    };
    assert_verdict(with("exec /x/arena-prolog"), "Prolog", Verdict::ok, "wrapper");
    assert_verdict(with("export ARENA_CONF=" + ours + "\nexec /x/arena-prolog"), "Prolog",
                   Verdict::ok, "wrapper");
    assert_verdict(with("ARENA_CONF=\"" + theirs + "\" exec /x/arena-prolog"), "Prolog",
                   Verdict::fail, "it reads " + theirs);
    facts.slurmd_config_path = theirs;  // by slurmd's own environment
    assert_verdict(with("exec /x/arena-prolog"), "Prolog", Verdict::fail, "it reads " + theirs);
    ck_assert(write_file_atomic(theirs, "interval_s: 7\n").ok());
    assert_verdict(with("exec /x/arena-prolog"), "Prolog", Verdict::ok, "wrapper");
    facts.slurmd_config_path.clear();  // not to be seen
    assert_verdict(with("exec /x/arena-prolog"), "Prolog", Verdict::ok, "wrapper");
}

TEST(devices_of_this_node_must_be_there) {
    const Directory dir;
    Facts facts = good_facts(dir.path());
    facts.host = {.name = "n2",
                  .controller = false,
                  .compute = true,
                  .controller_name = {},
                  .why = {},
                  .known = true};
    facts.nodes = std::vector<SlurmNode>{{"node02", "n2.site", "IDLE", "", {"a40"}}};
    const auto with = [&](const std::string& text) {
        std::ofstream(dir.path() + "/gres.conf") << text;
        return check_devices(facts);
    };
    assert_verdict(with("Name=gpu Type=a40 File=/dev/null\n"), "GPU devices", Verdict::ok, "1 of ");
    assert_verdict(with("Name=gpu File=/dev/nu[0-1]\n"), "GPU devices", Verdict::fail,
                   "/dev/nu0 of ");
    assert_verdict(
        with("NodeName=node[01-03] Name=gpu File=/dev/null,/dev/nu[07-08]\n"), "GPU devices",
        Verdict::fail,
        "/dev/nu07 of " + dir.path() + "/gres.conf is not on this node (2 of 3 are missing)");
    assert_verdict(with("nodename=node[03-09] name=gpu file=/dev/nu0\n#Name=gpu "
                        "File=/dev/nu1\nName=nic File=/dev/nu2\n"),
                   "GPU devices", Verdict::skip, "names none");
    assert_verdict(with("AutoDetect=nvml\n"), "GPU devices", Verdict::skip,
                   "names none for this node: AutoDetect=nvml finds them");
    assert_verdict(with("Nodename=node[01-03] \tName=gpu \\\n Type=m2070q\tFile=\"/dev/nu0\"\n"),
                   "GPU devices", Verdict::fail, "/dev/nu0 of ");
    assert_verdict(with("NodeName=node02 Name=gpu MultipleFiles=/dev/null,/dev/nu1 "
                        "AutoDetect=nvml\n"),
                   "GPU devices", Verdict::fail, "(1 of 2 are missing)");
    assert_verdict(with("Name=gpu File=/dev/null\nName=nic File=/dev/nu2\n"), "other devices",
                   Verdict::fail, "/dev/nu2 of ");
    assert_verdict(with("Name=gpu File=/dev/null\nType=a40 Name=gpu\n"), "GPU devices",
                   Verdict::fail, "gres.conf:2: begins with type");
    facts.host.compute = false;
    ck_assert(with("Name=gpu File=/dev/nu0\n").empty());
    ck_assert(
        expand_list("a[1-3]b[08-09],c") ==
        (std::vector<std::string>{"a1b08", "a1b09", "a2b08", "a2b09", "a3b08", "a3b09", "c"}));
    for (const char* odd : {"", "a[", "]a[", "a[1-", "a[x-y]", "a[5-1]"})
        ck_assert_uint_le(expand_list(odd).size(), 1);
    ck_assert_uint_le(expand_list("a[0-99999999]").size(), 65536);
}

TEST(the_service_user_needs_an_association_where_slurm_wants_one) {
    Facts facts = good_facts("/");
    ck_assert(check_accounts(facts).empty());
    facts.slurm_config.value()["AccountingStorageEnforce"] = "limits,qos";
    facts.accounts = {std::vector<std::string>{}, std::vector<std::string>{"root", "physics"}};
    assert_verdict(check_accounts(facts), "association", Verdict::fail,
                   "no profile run is accepted");
    assert_text(check_accounts(facts).front().remedy.front(),
                "sacctmgr -i add user arena account=physics");
    facts.accounts.own = std::vector<std::string>{"physics", "main"};
    assert_verdict(check_accounts(facts), "association", Verdict::ok, "arena in physics, main");
    facts.accounts.own = environment_error("no slurmdbd");
    assert_verdict(check_accounts(facts), "association", Verdict::skip, "no slurmdbd");
    for (const char* none : {"", "none", "nosteps,nojobs"}) ck_assert(!wants_associations(none));
    for (const char* some : {"associations", "qos", "nosteps,safe"})
        ck_assert(wants_associations(some));
}

/// The smallest file that has the symbol: null, dynsym, dynstr and rodata.
std::string plugin_of(std::uint32_t version) {
    const std::string strings = std::string("\0plugin_version\0", 16);
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64, header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_shentsize = sizeof(Elf64_Shdr), header.e_shnum = 4;
    Elf64_Sym symbols[2]{};
    symbols[1].st_name = 1, symbols[1].st_shndx = 3, symbols[1].st_value = 0x1000;
    const std::uint64_t symbols_at = sizeof header, strings_at = symbols_at + sizeof symbols,
                        version_at = strings_at + strings.size();
    header.e_shoff = version_at + sizeof version;
    Elf64_Shdr sections[4]{};
    sections[1].sh_type = SHT_DYNSYM, sections[1].sh_link = 2, sections[1].sh_offset = symbols_at;
    sections[1].sh_size = sizeof symbols;
    sections[2].sh_type = SHT_STRTAB, sections[2].sh_offset = strings_at,
    sections[2].sh_size = strings.size();
    sections[3].sh_type = SHT_PROGBITS, sections[3].sh_addr = 0x1000,
    sections[3].sh_offset = version_at;
    sections[3].sh_size = sizeof version;
    const auto bytes = [](const auto& value) {
        return std::string(reinterpret_cast<const char*>(&value), sizeof value);
    };
    return bytes(header) + bytes(symbols) + strings + bytes(version) + bytes(sections);
}

TEST(a_plug_in_tells_its_slurm) {
    const std::string file = plugin_of(0x160508);
    ck_assert(parse_plugin_version(file) == "22.05.8");
    ck_assert(parse_plugin_version(plugin_of(0x170b0a)) == "23.11.10");
    for (std::size_t size = 0; size < file.size(); ++size)
        ck_assert(!parse_plugin_version(file.substr(0, size)));
    const Directory dir;
    for (const char* name : {"sched_arena.so", "job_submit_arena.so", "spank_arena.so"})
        std::ofstream(dir.path() + "/" + name) << plugin_of(0x160501);
    assert_verdict(check_slurm(good_facts(dir.path())), "Slurm version",
                   std::string(ARENA_SLURM_VERSION) == "none" ? Verdict::skip : Verdict::fail,
                   std::string(ARENA_SLURM_VERSION) == "none"
                       ? "no plug-ins"
                       : "sched_arena.so was built for 22.05.1");
}

TEST(every_gres_type_needs_a_hardware_entry) {
    Facts facts;
    facts.config = Config{};
    facts.config->gpu_types = {{"a40", "A40"}, {"cpu", "emulated"}, {"x", "missing"}};
    GpuType a40, emulated;
    a40.name = "A40";
    emulated.name = "emulated";
    emulated.emulated = true;
    GpuType a100, other;
    a100.name = "A100-SXM-80GB";
    a100.aliases = {"A100-SXM4-80GB"};
    other.name = "A100-PCIe-80GB";
    facts.hardware = std::vector<GpuType>{a40, emulated, other, a100};
    facts.nodes = std::vector<SlurmNode>{{"n1", "n1", "IDLE", "", {"", "a40", "cpu"}},
                                         {"n2", "n2", "IDLE", "", {"h100", "x"}},
                                         {"n3", "n3", "IDLE", "", {"nvidia_a100-sxm4-80gb"}}};
    const auto found = check_gres(facts);
    assert_verdict(found, "gpu:a40", Verdict::ok, "A40");
    assert_verdict(found, "gpu:cpu", Verdict::ok, "emulated by this CPU");
    assert_verdict(found, "gpu:h100", Verdict::fail, "hardware.yaml");
    assert_verdict(found, "gpu:x", Verdict::fail, "missing");
    const Finding& driver = finding(found, "gpu:nvidia_a100-sxm4-80gb");
    ck_assert(driver.remedy.front().find("nvidia_a100-sxm4-80gb: A100-SXM-80GB") !=
              std::string::npos);
    ck_assert(driver.text.find("which of") == std::string::npos);
    assert_verdict(found, "gpu", Verdict::fail, "without a type");
}

/// Four nodes, of which inference has n3 and n4; all as it should be.
Facts lending_facts(const std::string& plugin_dir) {
    Facts facts = good_facts(plugin_dir);
    facts.config->loan_enabled = true;
    facts.config->loan_inference_partitions = {"infer"};
    facts.config->gpu_types = {{"a40", "A40"}, {"t4", "T4"}};
    facts.slurm_config.value()["PreemptType"] = "preempt/partition_prio";
    facts.slurm_config.value()["ReconfigFlags"] = "KeepPartState,KeepPartInfo";
    facts.nodes = parse_nodes(
        "NodeName=n1\n Gres=gpu:a40:4\n Partitions=train,loan \nNodeName=n2\n Gres=gpu:a40:4\n"
        " Partitions=train,loan\nNodeName=n3\n Gres=gpu:t4:8\n Partitions=infer\n"
        "NodeName=n4\n Gres=gpu:a40:4\n Partitions=infer,loan\nNodeName=n5\n Gres=(null)\n");
    facts.partitions = parse_partitions(
        "PartitionName=train\n   State=UP PriorityTier=10\nPartitionName=infer\n"
        "   PriorityTier=100 RootOnly=NO\n   PreemptMode=OFF\n   State=UP TotalCPUs=64\n"
        "PartitionName=loan\n   GraceTime=120 Hidden=NO\n   Nodes=n[1-2]\n"
        "   PriorityTier=1 RootOnly=NO\n   OverTimeLimit=NONE PreemptMode=REQUEUE\n   State=UP\n");
    return facts;
}

TEST(partitions_are_read) {
    const Facts facts = lending_facts("/");
    ck_assert_uint_eq(facts.partitions->size(), 3);
    const SlurmPartition loan{"loan", "UP", "REQUEUE", 1, 120};
    ck_assert(facts.partitions->back() == loan);
    ck_assert((*facts.nodes)[3].partitions == (std::vector<std::string>{"infer", "loan"}));
    ck_assert(parse_partitions("No partitions in the system\n").empty());
}

TEST(where_loans_are_off_nothing_is_asked_of_them) {
    const Directory dir;
    Facts facts = lending_facts(dir.path());
    facts.config->loan_enabled = false;
    facts.slurm_config.value().erase("ReconfigFlags");
    ck_assert(check_loans(facts).empty());
    for (const Finding& f : check_slurm(facts)) ck_assert(f.check != "ReconfigFlags");
}

TEST(a_site_that_lends_as_it_should_has_nothing_bad) {
    const Directory dir;
    const Facts facts = lending_facts(dir.path());
    const auto found = check_loans(facts);
    for (const Finding& f : found)
        ck_assert_msg(f.verdict == Verdict::ok, "%s: %s", f.check.c_str(), f.text.c_str());
    assert_verdict(found, "partition infer", Verdict::ok, "2 nodes with GPUs");
    assert_verdict(found, "lent GPU types", Verdict::ok, "a40, t4");
    assert_verdict(found, "preemption", Verdict::ok, "requeues jobs of loan after 120 s");
    assert_verdict(check_slurm(facts), "ReconfigFlags", Verdict::ok, "KeepPartInfo");
}

TEST(each_mistake_of_a_site_that_lends_is_told) {
    const Directory dir;
    const auto with = [&](auto&& change) {
        Facts facts = lending_facts(dir.path());
        change(facts);
        return check_loans(facts);
    };
    const auto without = with([](Facts& f) { f.partitions.value().pop_back(); });
    assert_verdict(without, "loan partition", Verdict::fail, "loan does not exist");
    assert_text(first_remedy(finding(without, "loan partition")),
                "sed -i '$a PartitionName=loan PriorityTier=1 MaxTime=INFINITE' " + dir.path() +
                    "/slurm.conf");
    const auto down = with([](Facts& f) { f.partitions.value().back().state = "DOWN"; });
    assert_verdict(down, "loan partition", Verdict::fail, "loan is DOWN");
    assert_text(first_remedy(down.front()), "scontrol update PartitionName=loan State=UP");
    assert_verdict(with([](Facts& f) { f.config->loan_inference_partitions = {"infre"}; }),
                   "partition infre", Verdict::fail, "does not exist");
    assert_verdict(with([](Facts& f) {
                       f.nodes.value()[2].gpu_types.clear();
                       f.nodes.value()[3].gpu_types.clear();
                   }),
                   "partition infer", Verdict::fail, "no node with GPUs");
    assert_verdict(with([](Facts& f) { f.config->gpu_types.pop_back(); }), "lent GPU types",
                   Verdict::fail, "t4 of inference partitions");
    assert_verdict(with([](Facts& f) { f.partitions = environment_error("no answer"); }), "loans",
                   Verdict::skip, "no answer");
}

TEST(loans_keep_slurms_own_preemption_as_a_net) {
    const Directory dir;
    Facts facts = lending_facts(dir.path());
    facts.partitions.value()[1].priority_tier = 1;
    assert_verdict(check_loans(facts), "preemption", Verdict::warn,
                   "PriorityTier of infer is 1, not above that of loan (1)");
    facts.partitions.value()[2].preempt_mode = "OFF";
    assert_verdict(check_loans(facts), "preemption", Verdict::warn, "PreemptMode of loan is OFF");
    facts.slurm_config.value().erase("PreemptType");
    const Finding none = finding(check_loans(facts), "preemption");
    assert_verdict({none}, "preemption", Verdict::warn, "PreemptType is preempt/none");
    ck_assert(none.remedy ==
              (std::vector<std::string>{
                  "sed -i '$a PreemptMode=REQUEUE' " + dir.path() + "/slurm.conf",
                  "sed -i '$a PreemptType=preempt/partition_prio' " + dir.path() + "/slurm.conf",
                  "systemctl restart slurmctld"}));
    facts.slurm_config.value()["ReconfigFlags"] = "(null)";
    const Finding flags = finding(check_slurm(facts), "ReconfigFlags");
    assert_verdict({flags}, "ReconfigFlags", Verdict::fail, "without KeepPartInfo");
    assert_text(first_remedy(flags),
                "sed -i '$a ReconfigFlags=KeepPartInfo' " + dir.path() + "/slurm.conf");
}

TEST(whoever_may_lend_exists_and_reaches_the_socket) {
    const Directory dir;
    Facts facts = lending_facts(dir.path());
    facts.host.controller = true;
    facts.config->loan_users = {"no-such-user-of-ours"};
    assert_verdict(check_loans(facts), "loan.users", Verdict::fail, "does not exist");
    facts.config->loan_users = {"nobody"};
    std::filesystem::create_directory(dir.path() + "/run");
    facts.config->socket = dir.path() + "/run/arena.sock";
    ck_assert_int_eq(::chmod(dir.path().c_str(), 0755), 0);
    ck_assert_int_eq(::chmod((dir.path() + "/run").c_str(), 0700), 0);
    const Finding closed = finding(check_loans(facts), "loan.users");
    assert_verdict({closed}, "loan.users", Verdict::fail,
                   "nobody may not enter " + dir.path() + "/run");
    assert_text(first_remedy(closed), "chmod a+x " + dir.path() + "/run");
    ck_assert_int_eq(::chmod((dir.path() + "/run").c_str(), 0755), 0);
    assert_verdict(check_loans(facts), "loan.users", Verdict::ok, "nobody may say arena loan");
    std::ofstream(facts.config->socket) << "";
    ck_assert_int_eq(::chmod(facts.config->socket.c_str(), 0644), 0);
    assert_verdict(check_loans(facts), "loan.users", Verdict::fail, "nobody may not write to");
    facts.host.controller = false;
    assert_verdict(check_loans(facts), "loan.users", Verdict::ok, "nobody");
}

TEST(profile_files_are_checked_for_owner_and_mode) {
    const Directory dir;
    Facts facts = with_file(dir.path(), "SlurmctldHost=n1\nSlurmUser=daemon\n");
    facts.config->profile_user = "no-such-user-of-ours";
    facts.config->profile_spool = dir.path() + "/spool";
    facts.config->profile_store = dir.path() + "/store/profiles.db";
    auto found = check_profile_files(facts);
    assert_verdict(found, "service user", Verdict::fail, "does not exist");
    assert_verdict(found, "profile spool", Verdict::fail, "No such file");
    assert_text(
        first_remedy(finding(found, "profile spool")),
        "install -d -o no-such-user-of-ours -g daemon -m 2750 " + facts.config->profile_spool);
    assert_verdict(found, "profile store", Verdict::fail, "No such file");
    assert_text(first_remedy(finding(found, "profile store")),
                "install -d -o daemon -g daemon -m 0700 " + dir.path() + "/store");
    std::filesystem::create_directory(facts.config->profile_spool);
    std::filesystem::create_directory(dir.path() + "/store");
    found = check_profile_files(facts);
    assert_verdict(found, "profile spool", Verdict::fail, "belongs to");
    assert_verdict(found, "profile store", Verdict::fail, "belongs to");
    if (::geteuid() == 0) {
        facts.config->profile_user = "nobody";
        facts.config->profile_spool = dir.path() + "/spool";
        ck_assert_int_eq(::chmod(dir.path().c_str(), 0755), 0);
        ck_assert_int_eq(::chown(facts.config->profile_spool.c_str(), 65534, 0), 0);
        ck_assert_int_eq(::chmod(facts.config->profile_spool.c_str(), 0750), 0);
        assert_verdict(check_profile_files(facts), "profile spool", Verdict::fail,
                       "SlurmUser daemon cannot read it");
        ck_assert_int_eq(::chown(facts.config->profile_spool.c_str(), 65534, 1), 0);
        assert_verdict(check_profile_files(facts), "profile spool", Verdict::ok, "0750");
        ck_assert_int_eq(::chmod(facts.config->profile_spool.c_str(), 0755), 0);
        assert_verdict(check_profile_files(facts), "profile spool", Verdict::warn, "every user");
    }
    facts.config->profile_enabled = false;
    assert_verdict(check_profile_files(facts), "profiling", Verdict::skip, "enabled");
}

TEST(fixed_plans_are_read_to_the_letter) {
    const auto fixed = parse_fixed("pp=2,dp=4,tp=1,micro_batch=2,recompute=full,zero=1,sp=1,vpp=1");
    ck_assert(fixed.ok() && fixed->gpus() == 8 && fixed->zero == 1 && fixed->sequence_parallel);
    ck_assert(fixed->recompute == Recompute::full);
    Model model;
    model.layers = 13;
    const auto plan = must(make_plan(*fixed, model, 64, LayerSplit::any));
    ck_assert(plan.stage_layers == (std::vector<std::int64_t>{7, 6}));
    ck_assert_int_eq(plan.num_micro_batches, 8);
    ck_assert_int_eq(plan.gpus(), 8);
    assert_refused(make_plan(*fixed, model, 63, LayerSplit::any), "does not divide");
    model.layers = 1;
    assert_refused(make_plan(*fixed, model, 64, LayerSplit::any), "2 stages for 1 layers");
    for (const char* bad : {"", "pp", "pp=0", "pp=2,pp=2", "pp=2,", "sp=2", "zero=4",
                            "recompute=some", "pp=1,dp=1,tp=1,micro_batch=1,gpus=2"}) {
        assert_refused(parse_fixed(bad), "not understood");
    }
    assert_refused(parse_fixed("pp=1,dp=1,tp=1"), "micro_batch are needed");
    // What explain, queue and scontrol print: settings that it does not say are off; without the x8
    // they are free.
    const auto shown = parse_fixed("pp2,dp4,tp1,mb2x8");
    ck_assert(shown.ok() && shown->num_micro_batches == 8 && !shown->free_zero &&
              !shown->free_recompute);
    assert_text(to_string(shown->pin()), "pp2,dp4,tp1,mb2x8");
    assert_text(to_string(parse_fixed("pp2,dp4,tp2,mb2x8,full,zero1,sp")->pin()),
                "pp2,dp4,tp2,mb2x8,full,zero1,sp");
    const auto part = parse_fixed("pp2,dp4,tp1,mb2");
    ck_assert(part->free_zero && part->free_recompute && part->free_sequence_parallel);
    model.layers = 13;
    ck_assert(make_plan(*shown, model, 64, LayerSplit::any).ok());
    assert_refused(make_plan(*shown, model, 128, LayerSplit::any),
                   "mb2x8 of dp4 makes 64 samples, not the global batch of 128");
    ck_assert_uint_eq(settings_of(*shown, model, Capabilities{}).size(), 1);
    ck_assert_uint_eq(settings_of(*part, model, Capabilities{}).size(),
                      6);  // 3 ways to recompute, ZeRO 0 and 1
    ck_assert_uint_eq(settings_of(*fixed, model, Capabilities{}).size(), 1);
    const auto said = parse_fixed("pp2,dp4,tp1,mb2,zero1,sp1,full");
    ck_assert(*make_plan(*said, model, 64, LayerSplit::any) == plan);
    ck_assert(!said->free_zero && !said->free_recompute && !said->free_sequence_parallel);
    for (const char* bad :
         {"pp2,dp4,tp1,mb2x", "pp2,dp2+1,tp1,mb2", "full,full", "zero4", "mb2,micro_batch=2"})
        assert_refused(parse_fixed(bad), "not understood");
    const auto wide = parse_fixed("pp=2,dp=4,tp=1,micro_batch=2,vpp=3,cp=2,ep=4");
    ck_assert_int_eq(wide->gpus(), 16);
    model.layers = 13;
    const auto interleaved = make_plan(*wide, model, 64, LayerSplit::any);
    ck_assert(interleaved->vpp == 3 && interleaved->cp == 2 && interleaved->ep == 4);
}

TEST(programs_are_run_without_a_shell_and_with_their_status) {
    const auto out = run_program({"printf", "%s", "a; echo $HOME"});
    ck_assert(out.ok());
    assert_text(out->out, "a; echo $HOME");
    ck_assert_int_eq(run_program({"false"})->status, 1);
    assert_refused(program_text({"ls", "/no/such/file"}), "ls /no/such/file");
    assert_refused(run_program({"no-such-program-of-ours"}), "not in PATH");
    assert_refused(ask_socket("/no/such/socket", "stats"), "does not answer");
    assert_refused(ask_socket(std::string(200, 'x'), "stats"), "107 bytes");
}
