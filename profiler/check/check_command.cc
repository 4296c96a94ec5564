// SPDX-License-Identifier: GPL-2.0-or-later
// See check_command.h.
#include "profiler/check/check_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>

#include "base/json.h"
#include "base/text.h"
#include "checks/judge.h"
#include "profiler/core/options.h"
#include "profiler/core/request.h"

namespace arena {
namespace {

constexpr std::string_view state_words[] = {"healthy", "slow", "unknown"};

std::string_view word_of(DeviceVerdict::State state) {
    return state_words[static_cast<std::size_t>(state)];
}

Json json_of(const CheckVerdict& verdict) {
    Json devices = Json::array(), links = Json::array();
    for (const DeviceVerdict& device : verdict.devices)
        devices.push_back(
            {{"device", device.device},
             {"state", word_of(device.state)},
             {"factor", device.factor},
             {"beside",
              device.state == DeviceVerdict::State::unknown ? "" : words_of(device.from)}});
    for (const LinkVerdict& link : verdict.slow_links)
        links.push_back({{"from", link.from}, {"to", link.to}, {"factor", link.factor}});
    return {{"slow", verdict.is_slow()},
            {"healthy", verdict.is_healthy()},
            {"words", words_of(verdict)},
            {"devices", std::move(devices)},
            {"slow_links", std::move(links)}};
}

std::string beside(double seconds, const Reference* known) {
    return known == nullptr
               ? std::string()
               : fmt::format("  {:6.3f} times {:.4g} ms ({})", seconds / known->seconds,
                             1000 * known->seconds, words_of(known->from));
}

template <typename Times, typename Key>
const Reference* find(const Times& times, const Key& key) {
    const auto at = times.find(key);
    return at == times.end() ? nullptr : &at->second;
}

void print(const NodeCheck& check, const References& known, const CheckVerdict& verdict) {
    for (const ProductTime& time : check.products)
        fmt::print("GPU {:<3} {:<44} {:10.4f} ms  +-{:4.1f} %{}\n", time.device, op_key(time.shape),
                   1000 * time.seconds, 100 * time.spread,
                   beside(time.seconds, find(known.products, std::pair(time.device, time.shape))));
    for (const LinkTime& link : check.links)
        fmt::print("{:>3} > {:<3} {:<42} {:10.4f} ms  {:.1f} GB/s{}\n", link.from, link.to,
                   check.link_kind, 1000 * link.seconds,
                   static_cast<double>(check.link_bytes) / link.seconds / 1e9,
                   beside(link.seconds, find(known.links, std::pair(link.from, link.to))));
    if (!check.devices.empty() && check.devices.front().device.kind == "cpu")
        fmt::print("a CPU was measured ({} of the same one), no GPU\n", check.devices.size());
    fmt::print("{}: {}\n", check.node, words_of(verdict));
}

Result<References> known_of(const CheckOptions& options, const NodeCheck& check) {
    References known;
    if (!options.baseline.empty()) {
        const auto before = read_node_check(options.baseline);
        if (!before) return before.error();
        if (!before->failure.empty())
            return usage_error("is of a check that failed: " + before->failure, options.baseline);
        for (const CheckedDevice& now : check.devices)
            for (const CheckedDevice& then : before->devices)
                if (now.index == then.index && now.device.identity() != then.device.identity())
                    return usage_error("was measured on " + printable(then.device.identity(), 200) +
                                           ", GPU " + std::to_string(now.index) + " here is " +
                                           printable(now.device.identity(), 200),
                                       options.baseline);
        known = references_of(*before);
    }
    add_beside(check, known);
    return known;
}

/// As the shell's exit code says it: see result_of_run().
std::string why(const RunEnd& end, const std::string& about_file) {
    if (end.exit_code == 124) return "the check timed out and was stopped";
    if (end.exit_code == 137) return "the check was killed: it timed out, or memory ran out";
    if (end.exit_code == 75) return "another profiler kept this host's lock";
    if (end.exit_code > 1) return "the check ended with exit code " + std::to_string(end.exit_code);
    return "the check wrote no usable result: " + about_file;
}

NodeCheck failed(const CheckRequest& request, const RunEnd& end, const std::string& about_file) {
    NodeCheck check;
    check.nonce = request.nonce;
    check.gpu_type = request.gpu_type;
    check.hardware = request.hardware;
    check.node = host_name();
    check.failure = printable(why(end, about_file), 240);
    return check;
}

}  // namespace

int run_check_command(const CheckOptions& options, const CheckRequest& request,
                      const CheckTools& tools) {
    if (!options.out.empty())
        if (auto s = check_output(options.out, options.json); !s) return fail(s.error());
    if (!options.baseline.empty())
        if (const auto before = read_node_check(options.baseline); !before)
            return fail(before.error());
    std::vector<std::int64_t> indices(static_cast<std::size_t>(request.devices));
    std::iota(indices.begin(), indices.end(), 0);
    NodeCheck check = run_check(request, indices, tools);
    if (!options.node.empty()) check.node = options.node;
    if (!check.failure.empty()) return fail(environment_error(check.failure));
    const auto known = known_of(options, check);
    if (!known) return fail(known.error());
    const CheckVerdict verdict = judge(check, *known);
    if (!options.out.empty())
        if (auto s = write_file_atomic(options.out, to_json(check) + "\n", 0644); !s)
            return fail(s.error());
    if (options.json) {
        Json json = Json::parse(to_json(check));
        json["verdict"] = json_of(verdict);
        std::cout << dump_json(json) << '\n';
    } else {
        print(check, *known, verdict);
    }
    return verdict.is_slow() ? 1 : 0;
}

int run_requested_check(const CheckRequest& request, const std::string& out,
                        const std::string& node, const CheckTools& tools) {
    const auto indices =
        device_indices(std::getenv("CUDA_VISIBLE_DEVICES"), request.devices, request.node_devices);
    NodeCheck check;
    if (indices)
        check = run_check(request, *indices, tools);
    else
        check = failed(request, {.part_path = {}, .log_path = {}}, {});
    if (!indices) check.failure = indices.error().message();
    if (!node.empty()) check.node = node;
    if (!check.failure.empty()) std::fprintf(stderr, "arena-profiler: %s\n", check.failure.c_str());
    const std::string text = to_json(check) + "\n";
    if (out == "-") {
        std::cout << text;
    } else if (auto s = write_file_atomic(out, text, 0644); !s) {
        return fail(s.error());
    }
    return check.failure.empty() ? 0 : 1;
}

NodeCheck result_of_check(const CheckRequest& request, const RunEnd& end) {
    const auto text = read_regular_file(end.part_path, max_profile_bytes);
    if (!text) return failed(request, end, text.error().text);
    auto check = parse_node_check(*text);
    if (!check) return failed(request, end, check.error().message());
    if (check->nonce != request.nonce || check->gpu_type != request.gpu_type ||
        check->hardware != request.hardware)
        return failed(request, end, "it answers another request");
    return std::move(check).value();
}

}  // namespace arena
