// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`: what lending nodes of inference partitions to training rests on: partitions, GPU
// types, Slurm's own preemption as the net below it, and who may say `arena loan`. Asked only where
// loans are on.
#include <fmt/format.h>
#include <pwd.h>

#include <algorithm>
#include <set>

#include "base/count_text.h"
#include "base/text.h"
#include "cli/doctor/doctor_parts.h"

namespace arena::cli {
namespace {

bool has(const std::vector<std::string>& list, const std::string& word) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

void read_partition_field(SlurmPartition& partition, std::string_view word) {
    const auto value = [&](std::string_view key) { return word.substr(key.size()); };
    const auto number = [&](std::string_view key) {
        return parse_integer(value(key), 0, INT64_MAX).value_or(0);
    };
    if (word.starts_with("State=")) partition.state = value("State=");
    if (word.starts_with("PreemptMode=")) partition.preempt_mode = value("PreemptMode=");
    if (word.starts_with("PriorityTier=")) partition.priority_tier = number("PriorityTier=");
    if (word.starts_with("GraceTime=")) partition.grace_s = number("GraceTime=");
    if (word.starts_with("Topology=")) partition.has_topology = true;
}

const SlurmPartition* find_partition(const Facts& facts, const std::string& name) {
    for (const SlurmPartition& partition : *facts.partitions)
        if (partition.name == name) return &partition;
    return nullptr;
}

/// GPU types of the nodes of these partitions; GPUs without a type are another check's.
std::set<std::string> types_in(const Facts& facts, const std::vector<std::string>& partitions) {
    std::set<std::string> types;
    for (const SlurmNode& node : *facts.nodes)
        for (const std::string& name : node.partitions)
            if (has(partitions, name)) types.insert(node.gpu_types.begin(), node.gpu_types.end());
    types.erase("");
    return types;
}

/// Without nodes: Arena gives it those that are lent.
Remedy make_partition(const Facts& facts) {
    const std::string line = fmt::format("$a PartitionName={} PriorityTier=1 MaxTime=INFINITE",
                                         facts.config->loan_partition);
    return on_controller(facts,
                         {"sed -i " + shell_word(line) + " " + shell_word(facts.slurm_conf_path),
                          apply_command(Apply::reconfigure)});
}

Finding check_loan_partition(const Facts& facts) {
    const std::string& name = facts.config->loan_partition;
    const SlurmPartition* partition = find_partition(facts, name);
    if (partition == nullptr)
        return fail("loan partition", name + " does not exist: no lent node can be used",
                    make_partition(facts));
    if (partition->state != "UP")
        return fail("loan partition",
                    fmt::format("{} is {}: no lent node can be used", name, partition->state),
                    {fmt::format("scontrol update PartitionName={} State=UP", name)});
    return ok("loan partition", name);
}

Finding check_inference_partition(const Facts& facts, const std::string& name) {
    const std::string check = "partition " + name;
    if (find_partition(facts, name) == nullptr)
        return fail(check, "does not exist; loan.inference_partitions of " + facts.config_path +
                               " names it: correct that, or make it");
    const auto count =
        std::count_if(facts.nodes->begin(), facts.nodes->end(), [&](const SlurmNode& node) {
            return has(node.partitions, name) && !node.gpu_types.empty();
        });
    if (count == 0)
        return fail(check,
                    "has no node with GPUs: it has nothing to lend; take it out of "
                    "loan.inference_partitions in " +
                        facts.config_path);
    return ok(check, fmt::format("{} with GPUs can be lent", counted(count, "node")));
}

/// Types that are mapped are judged one by one as gpu:TYPE; here it counts that they can be lent.
Finding check_lent_types(const Facts& facts) {
    std::vector<std::string> known, unknown;
    for (const std::string& type : types_in(facts, facts.config->loan_inference_partitions))
        (hardware_of(*facts.config, type) != nullptr ? known : unknown).push_back(type);
    if (!unknown.empty())
        return fail("lent GPU types",
                    join(unknown, ", ") +
                        " of inference partitions: no hardware entry, so that no job could use "
                        "such nodes; mend gpu:" +
                        unknown.front() + " above");
    return ok("lent GPU types", known.empty() ? "none" : join(known, ", "));
}

/// What Slurm's preemption lacks to take nodes back by itself where a reclaim does not suffice; ""
/// = nothing.
std::string missing_net(const Facts& facts, const SlurmPartition& loan) {
    if (const std::string type = running_value(facts, "PreemptType");
        type != "preempt/partition_prio")
        return fmt::format("PreemptType is {}, not preempt/partition_prio",
                           type.empty() ? "preempt/none" : printable(type));
    if (loan.preempt_mode != "REQUEUE" && loan.preempt_mode != "CANCEL")
        return fmt::format("PreemptMode of {} is {}; set REQUEUE in slurm.conf", loan.name,
                           loan.preempt_mode.empty() ? "not known" : loan.preempt_mode);
    for (const std::string& name : facts.config->loan_inference_partitions) {
        const SlurmPartition* inference = find_partition(facts, name);
        if (inference != nullptr && inference->priority_tier <= loan.priority_tier)
            return fmt::format(
                "PriorityTier of {} is {}, not above that of {} ({}); set it in "
                "slurm.conf",
                name, inference->priority_tier, loan.name, loan.priority_tier);
    }
    return {};
}

Finding check_preemption(const Facts& facts, const SlurmPartition& loan) {
    const std::string name = "preemption", missing = missing_net(facts, loan);
    if (missing.empty())
        return ok(name, fmt::format("a spike beyond what comes back requeues jobs of {} after {} s",
                                    loan.name, loan.grace_s));
    Remedy remedy;
    if (missing.starts_with("PreemptType")) {
        remedy = set_in_slurm_conf(facts, "PreemptType", "preempt/partition_prio",
                                   Apply::restart_slurmctld);
        const std::string mode = wanted_value(facts, "PreemptMode");
        if (mode.empty() || mode == "OFF") {
            const Remedy more =
                set_in_slurm_conf(facts, "PreemptMode", "REQUEUE", Apply::restart_slurmctld);
            remedy.insert(remedy.begin(), more.front());
        }
    }
    return warn(name, missing + ": an inference job that finds no node waits until one is returned",
                std::move(remedy));
}

Finding check_loan_user(const Facts& facts, const std::string& user) {
    const std::string check = "loan.users";
    if (::getpwnam(user.c_str()) == nullptr)
        return fail(check, fmt::format("{} does not exist on this host; correct it in {}", user,
                                       facts.config_path));
    if (!facts.host.controller) return ok(check, user);
    const std::string& socket = facts.config->socket;
    if (const std::string part = closed_way(socket, user); !part.empty())
        return fail(check,
                    fmt::format("{} may not enter {}: no arena loan of theirs arrives", user, part),
                    {"chmod a+x " + shell_word(part)});
    struct stat info {};
    if (::stat(socket.c_str(), &info) == 0 && !mode_allows(info, user, 2))
        return fail(check,
                    fmt::format("{} may not write to {} ({}): no arena loan of theirs arrives",
                                user, socket, owner_text(info)),
                    {apply_command(Apply::reconfigure)});
    return ok(check, user + " may say arena loan");
}

}  // namespace

std::vector<SlurmPartition> parse_partitions(std::string_view text) {
    std::vector<SlurmPartition> partitions;
    for (const std::string_view line : split(text, '\n'))
        for (const std::string_view word : split(trim(line), ' ')) {
            if (word.starts_with("PartitionName="))
                partitions.emplace_back().name = word.substr(14);
            if (!partitions.empty()) read_partition_field(partitions.back(), word);
        }
    return partitions;
}

std::vector<Finding> check_loans(const Facts& facts) {
    if (!facts.config || !facts.config->loan_enabled) return {};
    if (!facts.partitions) return {skip("loans", facts.partitions.error().message())};
    if (!facts.nodes) return {skip("loans", facts.nodes.error().message())};
    std::vector<Finding> found{check_loan_partition(facts)};
    for (const std::string& name : facts.config->loan_inference_partitions)
        found.push_back(check_inference_partition(facts, name));
    found.push_back(check_lent_types(facts));
    if (const SlurmPartition* loan = find_partition(facts, facts.config->loan_partition))
        found.push_back(check_preemption(facts, *loan));
    for (const std::string& user : facts.config->loan_users)
        found.push_back(check_loan_user(facts, user));
    return found;
}

}  // namespace arena::cli
