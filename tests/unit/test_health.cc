// SPDX-License-Identifier: GPL-2.0-or-later
// What a node's tools say: each tool's words become findings by the one table, whatever else is in
// between; what is no fault is none; hostile input is counted. The texts are written here, in the
// documented formats.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>

#include "base/text.h"
#include "health/finding.h"
#include "health/reader.h"
#include "health/signs.h"
#include "suite.h"

using namespace arena::health;
using arena::test::assert_text;

namespace {

constexpr std::int64_t boot = 1790000000, today = 1790100000;
const Machine n3{.boot_s = boot, .now_s = today, .indexes = {}, .host = "n3"};

Report read(const std::string& text, const Machine& machine = n3) {
    Reader reader(machine);
    for (const std::string_view line : arena::split(text, '\n')) reader.parse_line(line);
    return reader.finish();
}

/// "gone xid79/gpu2, watch ..."; of notes their codes.
std::string found(const std::vector<Finding>& findings) {
    std::string all;
    for (const Finding& f : findings)
        all +=
            fmt::format("{}{} {}/{}", all.empty() ? "" : ", ", name(f.severity), f.code, f.place);
    return all;
}
std::string found(const std::string& text) { return found(read(text).findings); }

const std::string csv_head =
    "index, pci.bus_id, clocks_event_reasons.hw_thermal_slowdown, "
    "clocks_event_reasons.sw_power_cap, power.limit [W], power.default_limit [W], "
    "remapped_rows.failure\n";

TEST(the_kernels_xids) {
    assert_text(
        found("[  100.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."),
        "gone xid79/0000:3b:00");
    assert_text(found("Sep 23 10:00:00 n3 kernel: NVRM: Xid (0000:3b:00): 63, row remapped"),
                "watch xid63/0000:3b:00");
    assert_text(found("[9.1] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 x"),
                "gone nvswitch_fatal/node");
    assert_text(found("[9.1] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Severity 1 x"), "");
    const Report apps = read(
        "[9.1] NVRM: Xid (PCI:0000:3b:00): 13, pid=7, name=python\n"
        "[9.1] NVRM: Xid (PCI:0000:3b:00): 999, what");
    assert_text(found(apps.findings), "");
    assert_text(found(apps.notes), "note xid13/0000:3b:00");
    ck_assert(apps.unknown_xids == std::set<std::string>{"999"});
    // The driver's latest word of what it asks for counts.
    const std::string changed =
                          "[9.1] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed "
                          "from 0x0 (None) to 0x1 (GPU Reset Required)\n",
                      back =
                          "[9.9] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed "
                          "from 0x1 (GPU Reset Required) to 0x0 (None)\n";
    assert_text(found(changed), "gone xid154/0000:3b:00");
    assert_text(found(changed + back), "");
}

TEST(when_the_kernel_said_it) {
    setenv("TZ", "UTC", 1);
    tzset();
    const auto at = [](const std::string& before) { return parse_kernel_time(before, n3); };
    ck_assert_int_eq(at("[  100.6] "), boot + 101);
    ck_assert_int_eq(at("[Mon Sep 21 13:33:20 2026] "), 1789997600);
    ck_assert_int_eq(at("2026-09-21T13:33:20+0000 n3 kernel: "), 1789997600);
    ck_assert_int_eq(at("2026-09-21T15:33:20.123456+02:00 n3 kernel: "), 1789997600);
    ck_assert_int_eq(at("2026-09-21T13:33:20Z n3 kernel: "), 1789997600);
    ck_assert_int_eq(at("Sep 21 13:33:20 n3 kernel: "), 1789997600);
    ck_assert_int_eq(at("Sep  1 13:33:20 n3 kernel: [ 5.0] "), boot + 5);
    ck_assert_int_eq(at("Dec 31 13:33:20 n3 kernel: "), 1767188000);  // of last year
    for (const char* none : {"", "kernel: ", "[x] ", "Foo 21 13:33:20 ", "2026-13-21T13:33:20 ",
                             "[Mon Sep 41 13:33:20 2026] ", "2026-09-21T13:33:20+0"})
        ck_assert_msg(at(none) == 0, "%s", none);
    const Report old = read("Sep 21 13:33:19 n3 kernel: NVRM: Xid (PCI:0000:3b:00): 79, x");
    ck_assert(old.findings.empty() && old.counts.before_boot == 1);
}

TEST(nvidia_smi_as_csv) {
    assert_text(
        found(csv_head + "0, 00000000:3B:00.0, Not Active, Active, 300.00 W, 300.00 W, No\n" +
              "1, 00000000:5E:00.0, Active, Not Active, 300.00 W, 300.00 W, No\n" +
              "2, 00000000:86:00.0, Not Active, Active, 300.00 W, 300.00 W, Yes"),
        "gone remap_failure/gpu2, slow hw_thermal/gpu1");
    assert_text(found("clocks_throttle_reasons.active, index\n0x0000000000000040, 4"),
                "slow hw_thermal/gpu4");
    assert_text(found(csv_head + "0, 00000000:3B:00.0, [GPU is lost], [N/A], [N/A], [N/A], [N/A]"),
                "gone gpu_lost/gpu0");
    assert_text(found(csv_head + "0, 00000000:3B:00.0, [GPU requires reset], x, x, x, x"),
                "gone reset_required/gpu0");
    assert_text(found("0, 00000000:3B:00.0, Active"), "");  // without its header it says nothing
    assert_text(found("hello, world\nActive, Active"), "");
}

TEST(a_power_cap_is_no_slow_gpu) {
    const Report capped =
        read(csv_head + "0, 00000000:3B:00.0, Not Active, Active, 250.00 W, 300.00 W, No");
    ck_assert(capped.findings.empty());
    assert_text(found(capped.notes), "note power_cap/gpu0, note power_limit/gpu0");
    ck_assert(words_of(capped.notes[0]).find("no fault: it is not slow") != std::string::npos);
}

const std::string query = R"(==============NVSMI LOG==============

Driver Version                            : 570.10

GPU 00000000:3B:00.0
    Product Name                          : NVIDIA X
    Minor Number                          : 3
    GPU Recovery Action                   : None
    PCI
        GPU Link Info
            Link Width
                Max                       : 16x
                Current                   : 16x
    Clocks Event Reasons
        Idle                              : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : BRAKE
    Clocks Event Reasons Counters
        HW Thermal Slowdown               : 12 us
    ECC Errors
        Volatile
            DRAM Uncorrectable            : 0
        Aggregate
            DRAM Uncorrectable            : 7
    Remapped Rows
        Pending                           : PENDING
)";

std::string with(std::string text, const std::string& old, const std::string& now) {
    const std::size_t at = text.find(old);
    ck_assert(at != std::string::npos);
    return text.replace(at, old.size(), now);
}

TEST(nvidia_smi_q) {
    const std::string sound = with(with(query, "BRAKE", "Not Active"), "PENDING", "No");
    const Report healthy = read(sound);
    assert_text(found(healthy.findings) + found(healthy.notes), "");
    ck_assert(healthy.heard == std::set<Tool>{Tool::smi});
    ck_assert_uint_eq(healthy.counts.lines, healthy.counts.known);
    assert_text(found(with(with(query, "BRAKE", "Active"), "PENDING", "Yes")),
                "slow power_brake/gpu3, watch remap_pending/gpu3");
    assert_text(
        found(with(sound, "Action                   : None", "Action                   : Reset")),
        "gone recovery/gpu3");
    assert_text(found(with(sound, "Volatile\n            DRAM Uncorrectable            : 0",
                           "Volatile\n            DRAM Uncorrectable            : 1")),
                "watch ecc_uncorrected/gpu3");
    // An XID of the same GPU has its index from there.
    assert_text(found("[1.0] NVRM: Xid (PCI:0000:3b:00): 79, x\n" + sound), "gone xid79/gpu3");
}

TEST(nvidia_smi_that_fails) {
    assert_text(found("Unable to determine the device handle for GPU0000:CB:00.0: Unknown Error"),
                "gone gpu_lost/0000:cb:00");
    assert_text(found("Unable to determine the device handle for GPU0: 0000:CB:00.0: GPU is lost."),
                "gone gpu_lost/0000:cb:00");
    assert_text(
        found("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        "gone driver/node");
    assert_text(found("No devices were found"), "gone no_devices/node");
}

TEST(lanes_and_links_are_compared_with_the_nodes_others) {
    const std::string head = "index, pcie.link.width.current, pcie.link.width.max\n";
    assert_text(found(head + "0, 16, 16\n1, 8, 16\n2, 16, 16"), "slow pcie_width/gpu1");
    assert_text(found(head + "0, 8, 16\n1, 8, 16"), "");  // slots of eight
    const auto status = [](int gpu, int up, int down) {
        std::string text = fmt::format("GPU {}: NVIDIA X (UUID: GPU-{})\n", gpu, gpu);
        for (int i = 0; i < up + down; ++i)
            text += fmt::format("\t Link {}: {}\n", i, i < up ? "25 GB/s" : "<inactive>");
        return text;
    };
    assert_text(found(status(0, 4, 0) + status(1, 4, 0) + status(2, 3, 1)),
                "slow nvlink_down/gpu2");
    assert_text(found(status(0, 4, 0) + status(1, 4, 0) +
                      "GPU 2: NVIDIA X (UUID: GPU-2)\nNVML: Unable to retrieve NVLink information "
                      "as all links are inactive"),
                "slow nvlink_down/gpu2");
    // Bridges that join two of four, and the same list twice.
    assert_text(found(status(0, 4, 0) + status(1, 4, 0) + status(2, 0, 4) + status(3, 0, 4)), "");
    assert_text(found(status(0, 4, 0) + status(1, 4, 0) + status(2, 4, 0) + status(0, 4, 0)), "");
    assert_text(found("GPU 1: NVIDIA X (UUID: GPU-1)\n\t Link 0: Replay Errors: 0\n"
                      "\t Link 3: Recovery Errors: 2\n\t Link 3: Tx discards: 9"),
                "watch nvlink_recovery/gpu1.link3");
}

TEST(dcgmi) {
    assert_text(found("Health Monitor Report\n"
                      "| Group 0   | Overall Health: Failure |\n+====+====+\n"
                      "| GPU 3     | Memory:  Failure        |\n"
                      "|           |   row remappings        |\n"
                      "|           | PCIe:  Warning          |\n"),
                "gone dcgm_memory/gpu3, watch dcgm_warning/gpu3");
    assert_text(found("Health Monitor Report\n| Overall Health:    Warning |\n"
                      "| GPU ID: 1 | Warning |\n| | PCIe system: Warning - replays |\n"),
                "watch dcgm_warning/gpu1");
    const std::string diag =
        "Successfully ran diagnostic for group.\n| Diagnostic | Result |\n"
        "|-----  Deployment  --------+------|\n";
    assert_text(found(diag + "| software | Fail |\n| | GPU0: Fail |\n| memory | Fail |\n"
                             "| | GPU0: Pass |\n| | GPU1: Fail |\n"),
                "gone diag_memory/gpu1");
    assert_text(found(diag + "| Persistence Mode | Fail |\n| GPU Memory | Fail - GPU 3 |\n"
                             "| PCIe | Pass - All |\n"),
                "gone diag_memory/gpu3");
}

TEST(infiniband) {
    assert_text(found("# Port counters: Lid 17 port 1 (CapMask: 0x5A00)\n"
                      "PortSelect:......................1\n"
                      "SymbolErrorCounter:..............11\n"
                      "LinkErrorRecoveryCounter:........10\n"
                      "PortXmitWait:....................4294967295\n"),
                "watch ib_symbol/lid17.1");
    assert_text(found("Errors for \"n3 mlx5 \xe4=@\"\nSymbolErrorCounter:....11\n"
                      "   GUID 0x7c port 1;: [SymbolErrorCounter == 12]"),
                "watch ib_symbol/mlx5____.1_");
    const Report fabric = read(
        "Errors for \"n3 mlx5_0\"\n"
        "   GUID 0x7c port 1: [LinkDownedCounter == 48] [PortXmitWait == 9]\n"
        "Errors for \"n4 mlx5_0\"\n"
        "   GUID 0x7d port 1: [LinkDownedCounter == 99]\n"
        "Errors for 0x2c \"MF0;sw:SX/U1\"\n"
        "   GUID 0x2c port ALL: [LinkDownedCounter == 99]\n");
    assert_text(found(fabric.findings), "watch ib_downed/mlx5_0.1");
    ck_assert_uint_eq(fabric.counts.elsewhere, 2);
}

TEST(one_behind_the_other_in_any_order) {
    const std::string all = csv_head + "1, 00000000:5E:00.0, Active, x, 1 W, 1 W, No\n" +
                            "[1.0] NVRM: Xid (PCI:0000:5e:00): 79, x\n" +
                            "# Port counters: Lid 17 port 1 (CapMask: 0x5A00)\n"
                            "SymbolErrorCounter:..............11\n";
    assert_text(found(all), "gone xid79/gpu1, slow hw_thermal/gpu1, watch ib_symbol/lid17.1");
    ck_assert_uint_eq(read(all).heard.size(), 4);
}

TEST(a_finding_ends_with_its_tools_word_and_the_kernels_with_a_boot) {
    const std::vector<Finding> before{{"xid79", "gpu1", Severity::gone, boot + 100},
                                      {"xid63", "gpu0", Severity::watch, boot - 100},
                                      {"hw_thermal", "gpu1", Severity::slow, boot + 200},
                                      {"ib_symbol", "lid17.1", Severity::watch, boot + 300},
                                      {"of_later", "node", Severity::gone, boot + 300}};
    const auto now = [&](const std::string& text) {
        return merge_findings(before, read(text), n3);
    };
    const std::string log = "[5.0] Linux version 6.1";
    assert_text(found(now(log)), "gone xid79/gpu1, slow hw_thermal/gpu1, watch ib_symbol/lid17.1");
    const std::string cool =
        csv_head + "1, 00000000:5E:00.0, Not Active, x, 300.00 W, 300.00 W, No\n";
    assert_text(found(now(cool)), "gone xid79/gpu1, watch ib_symbol/lid17.1");
    // What goes on is as old as it was; what the kernel says again is as new as that.
    const auto on = now(with(cool, "Not Active", "Active"));
    assert_text(found(on), "gone xid79/gpu1, slow hw_thermal/gpu1, watch ib_symbol/lid17.1");
    ck_assert_int_eq(on[1].at, boot + 200);
    const auto again = now("[900.0] NVRM: Xid (PCI:0000:5e:00): 79, x\n" + cool);
    ck_assert_int_eq(again[0].at, boot + 900);
    ck_assert_int_eq(merge_findings({},
                                    read("clocks_event_reasons.hw_thermal_slowdown, index\n"
                                         "Active, 0"),
                                    n3)[0]
                         .at,
                     today);
    // Two scripts of a site, in turn: nothing is news.
    const auto cold = read(with(cool, "Not Active", "Active"));
    const auto first = merge_findings(on, read(log), n3);
    ck_assert(first == merge_findings(first, cold, n3) && first == on);
    // The same place twice, by its address and by its index.
    const std::vector<Finding> twice{{"xid79", "0000:5e:00", Severity::gone, boot + 100},
                                     {"xid79", "gpu1", Severity::gone, boot + 200}};
    assert_text(found(merge_findings(twice, read(cool), n3)), "gone xid79/gpu1");
    // A place that was an address, once its index is known.
    const std::vector<Finding> bus{{"xid79", "0000:5e:00", Severity::gone, boot + 100}};
    assert_text(found(merge_findings(bus, read(cool), n3)), "gone xid79/gpu1");
}

TEST(hostile_input_is_counted) {
    ck_assert(read("").heard.empty());
    std::string noise;
    for (int i = 0; i < 4096; ++i) noise += static_cast<char>(i * 131 + i / 7);
    const Report random = read(noise);
    ck_assert(random.findings.empty() && random.counts.known == 0);
    Reader reader(n3);
    reader.parse_line(std::string(max_line_bytes + 1, 'x'));
    ck_assert_uint_eq(reader.finish().counts.too_long, 1);
    for (const char* odd :
         {"NVRM: Xid (", "NVRM: Xid (PCI:0000:3b:00): ", "NVRM: Xid (): 79",
          "NVRM: Xid (PCI:0000:3b:00): -1, x", "NVRM: Xid (PCI:0000:3b:00): 79x", "GPU : x",
          "GPU 99999: x", "Errors for ", "Errors for \"", "# Port counters: "})
        (void)read(std::string(odd) + "\n| |\n:..\n Link : \n[a == b]\n");
    std::string many;
    for (int i = 0; i < 200; ++i)
        many += fmt::format("[1.0] NVRM: Xid (PCI:0000:{:02x}:00): 79, x\n", i);
    const Report full = read(many);
    ck_assert(full.findings.size() == max_findings && full.counts.beyond == 200 - max_findings);
}

TEST(a_comment_has_what_is_not_arenas_as_it_was) {
    const std::string word =
        "arena:health:v1;gone=xid79/gpu2@1790000000;watch=ib_symbol/mlx5_0.1@1790000001";
    for (const char* around : {"", "rack 7 ", "see ticket \"4\" "}) {
        const std::string text = around + word + (*around ? " and so on" : "");
        const NodeComment comment = parse_health_comment(text);
        assert_text(comment.broken, "");
        ck_assert_uint_eq(comment.findings.size(), 2);
        assert_text(format_health_comment(comment), text);
    }
    NodeComment sound = parse_health_comment("rack 7 " + word);
    assert_text(words_of(sound.findings[0]), "GPU 2: XID 79, it has fallen off the bus");
    assert_text(words_of(sound.findings[1]), "port mlx5_0.1: symbol errors");
    sound.findings.clear();
    assert_text(format_health_comment(sound), "rack 7");
    assert_text(format_health_comment(parse_health_comment("nothing of arena:health here")),
                "nothing of arena:health here");
    for (const char* bad : {"arena:health:v2;x", "arena:health:", "arena:health:v1;gone",
                            "arena:health:v1;gone=xid79/gpu2@-1", "arena:health:v1;dead=a/b@1",
                            "arena:health:v1;gone=/b@1", "arena:health:v1;gone=a/b@1;"})
        ck_assert_msg(
            !parse_health_comment(bad).broken.empty() && parse_health_comment(bad).findings.empty(),
            "%s", bad);
    assert_text(words_of({"of_later", "gpu1", Severity::slow, 1}), "GPU 1: of_later");
}

TEST(each_row_of_the_table_can_be_met_and_says_where_it_is_from) {
    std::map<std::string, std::string> words;
    for (const Sign& sign : signs()) {
        ck_assert(!sign.words.empty() && !sign.source.empty() && !sign.code.empty());
        ck_assert(!sign.keys.empty() || !sign.also.empty());
        const char separator = sign.tool == Tool::xid && sign.code == "xid" ? ' ' : '|';
        for (const std::string_view key : arena::split(sign.keys, separator))
            if (!key.empty()) {
                const auto rows = signs_of(sign.tool, key);
                ck_assert_msg(std::find(rows.begin(), rows.end(), &sign) != rows.end(), "%s",
                              std::string(key).c_str());
            }
        if (sign.code != "xid" && sign.severity != Severity::note)
            ck_assert(find_sign(sign.code)->severity == sign.severity ||
                      find_sign(sign.code)->code == sign.code);
    }
    assert_text(std::string(find_sign("xid120")->words),
                "its system processor (GSP) does not answer");
    ck_assert(find_sign("xid999") == nullptr && find_sign("") == nullptr);
}

}  // namespace
