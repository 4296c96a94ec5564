// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`, on a compute node: whether the devices that gres.conf names are there. slurmd
// does not start without one of them.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/text.h"
#include "cli/doctor/doctor_parts.h"
#include "site/gres_conf.h"
#include "site/slurm_conf.h"

namespace arena::cli {
namespace {

constexpr const char* devices_name = "GPU devices";

/// The names that slurm.conf has for this host.
std::vector<std::string> own_nodes(const Facts& facts) {
    std::vector<std::string> names{facts.host.name};
    if (facts.nodes)
        for (const SlurmNode& node : *facts.nodes)
            if (node.host.substr(0, node.host.find('.')) == facts.host.name)
                names.push_back(node.name);
    return names;
}

Finding missing_device(const std::string& check, const std::string& conf,
                       const std::vector<std::string>& missing, std::size_t all) {
    const std::string& device = missing.front();
    const std::string text =
        fmt::format("{} of {} is not on this node ({} of {} are missing): slurmd does not start",
                    device, conf, missing.size(), all);
    constexpr const char *prefix = "/dev/nvidia", *maker = "/usr/bin/nvidia-modprobe";
    const auto minor = parse_integer(
        device.starts_with(prefix) ? std::string_view(device).substr(11) : "", 0, 255);
    if (minor && ::access(maker, X_OK) == 0)
        return fail(
            check, text,
            {fmt::format("nvidia-modprobe -c {}", *minor), apply_command(Apply::restart_slurmd)});
    return fail(check, text + fmt::format("; load the device's driver, or take it out of {} and "
                                          "of Gres= in slurm.conf",
                                          conf));
}

/// What the lines of this node name.
struct OwnDevices {
    std::vector<std::string> gpus, others;
    std::string auto_detect;  ///< of its own line, else of all; "" = none
};

OwnDevices own_devices(const GresConf& conf, const std::vector<std::string>& nodes) {
    OwnDevices own{.gpus = {}, .others = {}, .auto_detect = conf.auto_detect};
    for (const GresLine& line : conf.lines) {
        if (!applies_to(line, nodes)) continue;
        if (line.has_nodes && !line.auto_detect.empty()) own.auto_detect = line.auto_detect;
        auto& files = lower_case(line.name) == "gpu" ? own.gpus : own.others;
        files.insert(files.end(), line.files.begin(), line.files.end());
    }
    return own;
}

std::vector<std::string> missing_of(const std::vector<std::string>& files) {
    std::vector<std::string> missing;
    for (const std::string& file : files)
        if (::access(file.c_str(), F_OK) != 0) missing.push_back(file);
    return missing;
}

Finding judge_gpus(const std::string& conf, const OwnDevices& own) {
    if (const auto missing = missing_of(own.gpus); !missing.empty())
        return missing_device(devices_name, conf, missing, own.gpus.size());
    if (!own.gpus.empty()) return ok(devices_name, fmt::format("{} of {}", own.gpus.size(), conf));
    const std::string& finder = own.auto_detect;
    return skip(devices_name, conf + " names none for this node" +
                                  (finder.empty() || lower_case(finder) == "off"
                                       ? ""
                                       : ": AutoDetect=" + printable(finder, 20) + " finds them"));
}

}  // namespace

std::vector<Finding> check_devices(const Facts& facts) {
    if (!facts.host.compute) return {};
    const std::string conf =
        std::filesystem::path(facts.slurm_conf_path).parent_path() / "gres.conf";
    const auto read = read_gres_conf(conf);
    if (!read) return {skip(devices_name, read.error().message())};
    if (!read->faults.empty())
        return {fail(devices_name, read->faults.front() + ": slurmd does not start")};
    const OwnDevices own = own_devices(*read, own_nodes(facts));
    std::vector<Finding> found{judge_gpus(conf, own)};
    if (const auto missing = missing_of(own.others); !missing.empty())
        found.push_back(missing_device("other devices", conf, missing, own.others.size()));
    return found;
}

}  // namespace arena::cli
