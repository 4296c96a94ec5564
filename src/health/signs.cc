// SPDX-License-Identifier: GPL-2.0-or-later
// See signs.h. Severities follow what the sources ask for: a reset, a reboot or a replacement
// before the GPU is used again is `gone`; what makes it slow now is `slow`; what may wait, and sums
// since a start of which nobody knows the rate, is `watch`; an application's own error is a `note`.
#include "health/signs.h"

#include <algorithm>
#include <array>

#include "base/names.h"
#include "base/text.h"

namespace arena::health {
namespace {

constexpr std::array<Name<Tool>, 8> tools{{
    {Tool::xid, "kernel log"},
    {Tool::sxid, "kernel log"},
    {Tool::smi, "nvidia-smi"},
    {Tool::nvlink_status, "nvidia-smi nvlink -s"},
    {Tool::nvlink_errors, "nvidia-smi nvlink -e"},
    {Tool::dcgm_health, "dcgmi health -c"},
    {Tool::dcgm_diag, "dcgmi diag"},
    {Tool::ib, "perfquery, ibqueryerrors"},
}};
constexpr std::array<Name<Culprit>, 3> culprits{{
    {Culprit::gpu, "GPU"},
    {Culprit::link, "link"},
    {Culprit::node, "node"},
}};

constexpr std::string_view xids = "docs.nvidia.com/deploy/xid-errors, catalog";
constexpr std::string_view fabric = "NVIDIA Fabric Manager User Guide, NVSwitch SXid errors";
constexpr std::string_view smi = "nvidia-smi(1)";
constexpr std::string_view reasons = "docs.nvidia.com/deploy/nvml-api, NvmlClocksEventReasons";
constexpr std::string_view memory = "docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt";
constexpr std::string_view nvml = "docs.nvidia.com/deploy/nvml-api, NvLink methods";
constexpr std::string_view dcgm = "docs.nvidia.com/datacenter/dcgm, dcgmi health";
constexpr std::string_view diag = "docs.nvidia.com/datacenter/dcgm, dcgmi diag";
constexpr std::string_view ports =
    "InfiniBand Architecture Specification 1, PortCounters; infiniband-diags, error_thresholds";

constexpr Sign xid(std::string_view numbers, Culprit culprit, Severity severity,
                   std::string_view words) {
    return {.tool = Tool::xid,
            .keys = numbers,
            .code = "xid",
            .culprit = culprit,
            .severity = severity,
            .words = words,
            .source = xids};
}

constexpr Sign reason(std::string_view key, std::string_view also, std::string_view code,
                      Severity severity, double factor, std::string_view words) {
    return {.keys = key,
            .also = also,
            .test = Test::yes,
            .code = code,
            .severity = severity,
            .factor = factor,
            .words = words,
            .source = reasons};
}

constexpr Sign flag(std::string_view key, std::string_view also, std::string_view code,
                    Severity severity, std::string_view words, std::string_view source = memory) {
    return {.keys = key,
            .also = also,
            .test = Test::yes,
            .code = code,
            .severity = severity,
            .words = words,
            .source = source};
}

constexpr Sign said(Tool tool, std::string_view key, std::string_view code, Culprit culprit,
                    Severity severity, std::string_view words, std::string_view source) {
    return {.tool = tool,
            .keys = key,
            .code = code,
            .culprit = culprit,
            .severity = severity,
            .words = words,
            .source = source};
}

/// Where the value begins so; `also`: the key's name in `nvidia-smi -q`.
constexpr Sign begins(std::string_view text, std::string_view also, Sign sign) {
    sign.test = Test::begins;
    sign.text = text;
    sign.also = also;
    return sign;
}

/// Where the value is a number above that.
constexpr Sign above(double than, std::string_view also, Sign sign) {
    sign.test = Test::above;
    sign.than = than;
    sign.also = also;
    return sign;
}

using enum Severity;
constexpr Culprit gpu = Culprit::gpu, link = Culprit::link, node = Culprit::node;

constexpr auto table = std::to_array<Sign>({
    // ---- the kernel's log: NVRM: Xid (PCI:0000:3b:00): 79, ... ----
    xid("79", gpu, gone, "it has fallen off the bus"),
    xid("48", gpu, gone, "its memory has a double-bit error"),
    xid("64", gpu, gone, "a bad row of its memory cannot be remapped"),
    xid("95", gpu, gone, "an uncontained memory error"),
    xid("140", gpu, gone, "its memory has an error that ECC does not recover"),
    xid("46", gpu, gone, "it has stopped"),
    xid("62", gpu, gone, "its micro-controller has halted"),
    xid("109", gpu, gone, "a switch of contexts has timed out"),
    xid("110", gpu, gone, "a security fault"),
    xid("119 120", gpu, gone, "its system processor (GSP) does not answer"),
    xid("143", gpu, gone, "it cannot be initialized"),
    xid("155 158", gpu, gone, "a fatal error, which asks for a reset"),
    xid("136", link, gone, "its NVLinks cannot be trained"),
    xid("74", link, slow, "an NVLink error"),
    xid("144 145 146 147 148 149 150", link, watch, "an NVLink event of fifth generation"),
    xid("156", gpu, watch, "a part of it is retired at its next reset"),
    xid("157", gpu, gone, "a bad part of it cannot be retired"),
    xid("63", gpu, watch, "a bad row of its memory is remapped at its next reset"),
    xid("92", gpu, watch, "many single-bit errors"),
    xid("94", gpu, watch, "a contained memory error, which ended an application"),
    xid("93", gpu, watch, "its InfoROM wears out"),
    xid("121", link, watch, "an error between GPU and CPU (C2C)"),
    xid("54", node, gone, "a GPU's power cable is not connected"),
    xid("8 11 13 25 31 32 37 38 39 40 41 43 44 45 60 66 67 68 69 70 80 137 141", gpu, note,
        "an application's own error, as a rule"),
    {.tool = Tool::xid,
     .keys = "154:None",
     .code = "xid154",
     .severity = note,
     .words = "the driver asks for nothing",
     .source = xids},
    {.tool = Tool::xid,
     .keys = "154:GPU|154:Drain|154:Node",
     .code = "xid154",
     .severity = gone,
     .words = "the driver asks for a reset or a reboot",
     .source = xids},
    said(Tool::sxid, "Fatal", "nvswitch_fatal", node, gone, "a fatal error of an NVSwitch", fabric),
    said(Tool::sxid, "Non-fatal", "nvswitch", node, watch, "an error of an NVSwitch", fabric),
    // ---- nvidia-smi: csv names, and those of -q ----
    reason("clocks_event_reasons.hw_thermal_slowdown", "Clocks Event Reasons/HW Thermal Slowdown",
           "hw_thermal", slow, 2, "its clocks are halved, or less, because it is too hot"),
    reason("clocks_event_reasons.hw_power_brake_slowdown",
           "Clocks Event Reasons/HW Power Brake Slowdown", "power_brake", slow, 2,
           "its clocks are halved, or less, because the node's power supply asks for it"),
    reason("clocks_event_reasons.hw_slowdown", "Clocks Event Reasons/HW Slowdown", "hw_slowdown",
           watch, 1, "its hardware lowers the clocks; which also a change of clocks may show"),
    reason("clocks_event_reasons.sw_thermal_slowdown", "Clocks Event Reasons/SW Thermal Slowdown",
           "sw_thermal", watch, 1, "the driver lowers its clocks because it is warm"),
    reason("clocks_event_reasons.sw_power_cap", "Clocks Event Reasons/SW Power Cap", "power_cap",
           note, 1, "it keeps to its power limit, which is no fault: it is not slow"),
    reason("clocks_event_reasons.applications_clocks_setting",
           "Clocks Event Reasons/Applications Clocks Setting", "clocks_set", note, 1,
           "an administrator has set its clocks, which is no fault: it is not slow"),
    said(Tool::smi, "power.limit below power.default_limit", "power_limit", gpu, note,
         "its power limit is below the default, which is no fault: it is not slow", smi),
    said(Tool::smi, "pcie.link.width.current below others", "pcie_width", link, slow,
         "its PCIe link has fewer lanes than those of the node's other GPUs", smi),
    said(Tool::smi, "lost", "gpu_lost", gpu, gone, "nvidia-smi cannot reach it", smi),
    said(Tool::smi, "driver", "driver", node, gone, "nvidia-smi cannot reach the driver", smi),
    said(Tool::smi, "no devices", "no_devices", node, gone, "nvidia-smi finds no GPU", smi),
    said(Tool::smi, "reset required", "reset_required", gpu, gone, "it has to be reset", smi),
    begins("Re", "GPU Recovery Action",
           said(Tool::smi, "gpu_recovery_action", "recovery", gpu, gone,
                "the driver asks for a reset or a reboot", smi)),
    begins("Drain", "GPU Recovery Action",
           said(Tool::smi, "gpu_recovery_action", "recovery_drain", gpu, gone,
                "the driver asks that jobs leave it, and for a reset", smi)),
    flag("remapped_rows.failure", "Remapped Rows/Remapping Failure Occurred", "remap_failure", gone,
         "a bad row of its memory cannot be remapped"),
    flag("remapped_rows.pending", "Remapped Rows/Pending", "remap_pending", watch,
         "a bad row of its memory is remapped at its next reset"),
    flag("retired_pages.pending", "Retired Pages/Pending Page Blacklist", "retire_pending", watch,
         "a bad page of its memory is retired at its next reset",
         "docs.nvidia.com/deploy/dynamic-page-retirement"),
    flag("", "ECC Errors/Channel Repair Pending", "channel_repair", watch,
         "a channel of its memory is repaired at its next reset", smi),
    flag("", "ECC Errors/TPC Repair Pending", "tpc_repair", watch,
         "a part of it is repaired at its next reset", smi),
    flag("", "ECC Errors/Unrepairable Memory", "unrepairable", gone,
         "its memory cannot be repaired", smi),
    flag("", "ECC Errors/Aggregate/SRAM Threshold Exceeded", "sram_threshold", gone,
         "its SRAM has had more errors than it may", memory),
    above(0, "ECC Errors/Volatile/DRAM Uncorrectable",
          said(Tool::smi, "ecc.errors.uncorrected.volatile.total", "ecc_uncorrected", gpu, watch,
               "uncorrectable memory errors since the driver was loaded", memory)),
    above(0, "ECC Errors/Volatile/SRAM Uncorrectable",
          said(Tool::smi, "ecc.errors.uncorrected.volatile.sram", "ecc_sram", gpu, watch,
               "uncorrectable SRAM errors since the driver was loaded", memory)),
    // ---- nvidia-smi nvlink -s, -e ----
    said(Tool::nvlink_status, "fewer than others", "nvlink_down", link, slow,
         "it has fewer active NVLinks than most of the node's GPUs of its kind", nvml),
    above(0, "",
          said(Tool::nvlink_errors, "Replay Errors", "nvlink_replay", link, watch,
               "packets were sent again", nvml)),
    above(0, "",
          said(Tool::nvlink_errors, "Recovery Errors", "nvlink_recovery", link, watch,
               "the link was trained again", nvml)),
    above(0, "",
          said(Tool::nvlink_errors, "CRC Errors", "nvlink_crc", link, watch, "checksums were wrong",
               nvml)),
    above(0, "",
          said(Tool::nvlink_errors, "CRC Flit Errors", "nvlink_crc", link, watch,
               "checksums were wrong", nvml)),
    above(0, "",
          said(Tool::nvlink_errors, "CRC Data Errors", "nvlink_crc", link, watch,
               "checksums were wrong", nvml)),
    above(0, "",
          said(Tool::nvlink_errors, "Link recovery failed events", "nvlink_untrained", link, watch,
               "the link could not be trained again", nvml)),
    above(0, "",
          said(Tool::nvlink_errors, "Local link integrity Errors", "nvlink_integrity", link, watch,
               "the link's own errors", nvml)),
    // ---- dcgmi health -c ----
    begins("Fail", "",
           said(Tool::dcgm_health, "memory", "dcgm_memory", gpu, gone, "DCGM: its memory fails",
                dcgm)),
    begins("Fail", "",
           said(Tool::dcgm_health, "driver", "dcgm_driver", gpu, gone, "DCGM: its driver fails",
                dcgm)),
    begins("Fail", "",
           said(Tool::dcgm_health, "nvlink", "dcgm_nvlink", link, slow, "DCGM: its NVLinks fail",
                dcgm)),
    begins("Fail", "",
           said(Tool::dcgm_health, "pcie", "dcgm_pcie", link, slow, "DCGM: its PCIe link fails",
                dcgm)),
    begins(
        "Fail", "",
        said(Tool::dcgm_health, "thermal", "dcgm_thermal", gpu, slow, "DCGM: it is too hot", dcgm)),
    begins("Fail", "",
           said(Tool::dcgm_health, "power", "dcgm_power", gpu, slow, "DCGM: its power supply fails",
                dcgm)),
    begins("Fail", "",
           said(Tool::dcgm_health, "inforom", "dcgm_inforom", gpu, watch, "DCGM: its InfoROM fails",
                dcgm)),
    begins("Fail", "",
           said(Tool::dcgm_health, "nvswitch", "dcgm_nvswitch", node, gone,
                "DCGM: an NVSwitch fails", dcgm)),
    begins("Warn", "",
           said(Tool::dcgm_health, "memory|driver|nvlink|pcie|thermal|power|inforom|nvswitch",
                "dcgm_warning", gpu, watch, "DCGM warns of it", dcgm)),
    // ---- dcgmi diag ----
    begins("Fail", "",
           said(Tool::dcgm_diag, "memory|gpu memory|memtest", "diag_memory", gpu, gone,
                "DCGM's test of its memory fails", diag)),
    begins("Fail", "",
           said(Tool::dcgm_diag, "diagnostic", "diag_compute", gpu, gone,
                "DCGM's test of its results fails", diag)),
    begins("Fail", "",
           said(Tool::dcgm_diag, "pcie|nvbandwidth", "diag_pcie", link, slow,
                "DCGM's test of its link fails", diag)),
    begins("Fail", "",
           said(Tool::dcgm_diag,
                "targeted_stress|targeted stress|targeted_power|targeted power|memory_bandwidth|"
                "memory bandwidth|sm stress|pulse_test|pulse test",
                "diag_stress", gpu, slow, "DCGM's test of its speed fails", diag)),
    begins("Fail", "",
           said(Tool::dcgm_diag, "page retirement/row remap", "diag_remap", gpu, watch,
                "DCGM's test of retired memory fails", diag)),
    // ---- perfquery, ibqueryerrors ----
    above(10, "",
          said(Tool::ib, "SymbolErrorCounter", "ib_symbol", link, watch, "symbol errors", ports)),
    above(10, "",
          said(Tool::ib, "LinkErrorRecoveryCounter", "ib_recovery", link, watch,
               "the link was trained again", ports)),
    above(
        10, "",
        said(Tool::ib, "LinkDownedCounter", "ib_downed", link, watch, "the link was down", ports)),
    above(
        10, "",
        said(Tool::ib, "PortRcvErrors", "ib_receive", link, watch, "packets came damaged", ports)),
    above(10, "",
          said(Tool::ib, "LocalLinkIntegrityErrors", "ib_integrity", link, watch,
               "the link's own errors", ports)),
    above(10, "",
          said(Tool::ib, "ExcessiveBufferOverrunErrors", "ib_overrun", link, watch,
               "its buffers ran over", ports)),
});

bool lists(std::string_view keys, std::string_view key, char separator) {
    const auto all = split(keys, separator);
    return std::find(all.begin(), all.end(), key) != all.end();
}

bool is_key(const Sign& sign, std::string_view key) {
    if (key.empty()) return false;
    if (sign.keys == key || sign.also == key) return true;
    return lists(sign.keys, key, '|') || (sign.tool == Tool::xid && lists(sign.keys, key, ' '));
}

}  // namespace

std::span<const Sign> signs() { return table; }

const Sign* find_sign(std::string_view code) {
    const Sign* found = nullptr;
    for (const Sign& sign : table) {
        const bool is_it = sign.code == code || (sign.code == "xid" && code.starts_with("xid") &&
                                                 is_key(sign, code.substr(3)));
        if (is_it && (found == nullptr || found->severity == note)) found = &sign;
    }
    return found;
}

std::vector<const Sign*> signs_of(Tool tool, std::string_view key) {
    std::vector<const Sign*> found;
    for (const Sign& sign : table)
        if (sign.tool == tool && is_key(sign, key)) found.push_back(&sign);
    return found;
}

bool holds(const Sign& sign, std::string_view value) {
    switch (sign.test) {
        case Test::said:
            return true;
        case Test::yes:
            return value == "Active" || value == "Yes" || value == "1";
        case Test::begins:
            return value.starts_with(sign.text);
        case Test::above:
            break;
    }
    const auto number = parse_number(value.substr(0, value.find(' ')), 0, 1e18);
    return number && *number > sign.than;
}

std::string_view name(Tool tool) { return name_of(tools, tool); }
std::string_view name(Culprit culprit) { return name_of(culprits, culprit); }

}  // namespace arena::health
