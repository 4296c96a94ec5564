// SPDX-License-Identifier: GPL-2.0-or-later
// The checks of `arena doctor`, apart from their printing. Each judges Facts, which were read
// before, and the files that those name. What is wrong comes with the commands that mend it, to be
// typed as root as they stand.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/hardware.h"
#include "site/config.h"
#include "site/slurm_conf.h"

namespace arena::cli {

/// skip: could not be looked at from here, or is not this host's concern.
enum class Verdict { ok, warn, fail, skip };
std::string_view to_string(Verdict);

struct Finding {
    std::string check;  ///< what was looked at
    Verdict verdict = Verdict::ok;
    std::string text;  ///< what was found
    std::vector<std::string> remedy =
        {};  ///< command lines; "on HOST: ..." where they belong to another host
};

/// A node as `scontrol show node` tells of it.
struct SlurmNode {
    std::string name, host, state, reason;
    std::vector<std::string> gpu_types;  ///< "" = a GPU without type
    std::vector<std::string> partitions = {};
    bool operator==(const SlurmNode&) const = default;
};

/// A partition as `scontrol show partition` tells of it.
struct SlurmPartition {
    std::string name, state, preempt_mode;
    std::int64_t priority_tier = 1, grace_s = 0;
    bool has_topology = false;  ///< one that topology.yaml gives it (25.05)
    bool operator==(const SlurmPartition&) const = default;
};

/// What `scontrol show topology` tells of the cluster's default: leaf switches or blocks, and of
/// each node which it is on.
struct SlurmNetwork {
    bool blocks = false;
    std::int64_t leaves = 0;
    std::map<std::string, std::string> leaf_of;
    bool operator==(const SlurmNetwork&) const = default;
};

/// What this host is to Slurm; a login node, and any other, is neither.
struct HostRole {
    std::string name;  ///< without its domain
    bool controller = false, compute = false;
    /// A controller that would take over: another one's slurmctld is in charge.
    bool standby = false;
    std::string controller_name;  ///< that in charge, else the first SlurmctldHost; "" = unknown
    std::string why;              ///< "SlurmctldHost=n1, NodeName=n1"
    bool known = false;           ///< whether anything said what it is
};

/// What slurmdbd has.
struct Accounts {
    Result<std::vector<std::string>> own = environment_error("not read");  ///< of the service user
    Result<std::vector<std::string>> all = environment_error("not read");
};

/// What `arena doctor` reads before it judges.
struct Facts {
    std::string config_path;  ///< that this command reads
    /// That a Prolog reads which this host's slurmd starts; "" = its environment may not be looked
    /// at.
    std::string slurmd_config_path;
    Result<Config> config = environment_error("not read");
    std::string config_sum;  ///< of the file's text; "" = unknown
    Result<std::string> controller_sum =
        environment_error("not asked");  ///< of the controller's, for other hosts
    Result<std::vector<GpuType>> hardware = environment_error("not read");
    std::string slurm_conf_path;
    Result<SlurmConf> slurm_conf = environment_error("not read");  ///< this host's file
    Result<std::string> slurm_version =
        environment_error("not read");  ///< of this host's commands: "22.05.8"
    Result<std::map<std::string, std::string>> slurm_config =
        environment_error("not read");  ///< slurmctld's
    Result<std::vector<SlurmNode>> nodes = environment_error("not read");
    /// Of several SlurmctldHosts the one in charge; read where there are several.
    Result<std::string> in_charge = environment_error("not asked");
    Result<std::vector<SlurmPartition>> partitions = environment_error("not read");
    Result<SlurmNetwork> network = environment_error("not read");
    HostRole host;
    Accounts accounts;  ///< read where slurmctld wants associations
    /// Where `make install` of this program puts the plug-ins, and the Prolog.
    std::string plugin_dir, libexec_dir;
};

/// "slurm-wlm 22.05.8" -> "22.05.8".
std::string parse_slurm_version(std::string_view text);
/// The controller in charge, of `scontrol ping`: the first that is up; "" = none.
std::string parse_ping(std::string_view scontrol_ping);
/// Names of SlurmctldHost, the first the primary.
std::vector<std::string> controllers(const Facts&);
/// The nodes of `scontrol show node`.
std::vector<SlurmNode> parse_nodes(std::string_view scontrol_show_node);
/// Lines of leaf switches, which have nodes and no switches, and of blocks.
SlurmNetwork parse_network(std::string_view scontrol_show_topology);
/// The partitions of `scontrol show partition`.
std::vector<SlurmPartition> parse_partitions(std::string_view scontrol_show_partition);
/// Whether AccountingStorageEnforce refuses jobs of a user without association.
bool wants_associations(std::string_view enforce);
Accounts read_accounts(const std::string& user);
/// The sum in sbatch's words.
Result<std::string> parse_controller_sum(std::string_view sbatch_says);
/// Whether a list such as "1,5-9,99" (RequeueExitHold) has the code.
bool list_has_code(std::string_view list, std::int64_t code);
/// Facts::slurmd_config_path, by the environment of the process that SlurmdPidFile names.
std::string slurmd_config_path(const Facts&);
/// What the host is, by the names that slurm.conf or slurmctld has for its hosts.
HostRole find_role(const Facts&, std::string_view host_name);

Finding check_host(const Facts&);
std::vector<Finding> check_slurm(const Facts&);  ///< slurm.conf and what slurmctld runs with
std::vector<Finding> check_prolog(const Facts&);
std::vector<Finding> check_spank(const Facts&);   ///< plugstack.conf
std::vector<Finding> check_config(const Facts&);  ///< arena.yaml
std::vector<Finding> check_gres(const Facts&);
std::vector<Finding> check_devices(const Facts&);  ///< of gres.conf, on a compute node
std::vector<Finding> check_nodes(const Facts&);
std::vector<Finding> check_network(const Facts&);  ///< where Slurm knows switches or blocks
std::vector<Finding> check_loans(const Facts&);    ///< where loan.enabled is true
std::vector<Finding> check_accounts(const Facts&);
std::vector<Finding> check_profile_files(const Facts&);
/// Whether hosts that have to share the spool and the store do, where there are several.
std::vector<Finding> check_shared(const Facts&);
std::vector<Finding> check_controller(const Facts&);  ///< the plug-in's socket
std::vector<Finding> check_all(const Facts&);

}  // namespace arena::cli
