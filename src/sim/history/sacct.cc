// SPDX-License-Identifier: GPL-2.0-or-later
// Readers of sacct's and scontrol's lines: see sacct.h.
#include "sim/history/sacct.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "base/csv.h"
#include "base/hostlist.h"
#include "base/text.h"
#include "core/limits.h"
#include "site/gpu_facts.h"

namespace arena::sim {
namespace {

constexpr double latest_s = 1e12;
constexpr double minute_s = 60;

/// Seconds since the epoch; local times as if they were UTC. Below 0: "Unknown", "None" and the
/// like.
std::optional<double> time_of(std::string_view text) {
    if (text.empty() || text == "Unknown" || text == "None" || text == "N/A") return -1;
    if (const auto seconds = parse_number(text, 0, latest_s)) return *seconds;
    std::tm parts{};
    const std::string copy(text);
    const char* end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    if (end == nullptr || *end != '\0') return std::nullopt;
    return static_cast<double>(::timegm(&parts));
}

/// "[D-]HH:MM:SS" and its like as sacct prints a limit; 0 for none.
std::optional<double> limit_of(std::string_view text, bool minutes) {
    if (text.empty() || text == "UNLIMITED" || text == "Partition_Limit" || text == "INVALID")
        return 0;
    if (const auto number = minutes ? parse_number(text, 0, latest_s) : std::nullopt)
        return *number * minute_s;
    return parse_elapsed(text);
}

/// "billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=64G,node=1"; false: that is no TRES.
bool read_gpus(std::string_view tres, std::map<std::string, std::int64_t>& out) {
    constexpr std::string_view key = "gres/gpu";
    std::int64_t untyped = 0, typed = 0;
    for (const std::string_view part : split(tres, ',')) {
        if (part.empty()) continue;
        const std::size_t equals = part.find('=');
        if (equals == std::string_view::npos) return false;
        std::string_view name = part.substr(0, equals);
        if (!name.starts_with(key)) continue;
        name.remove_prefix(key.size());
        if (!name.empty() && name.front() != ':') continue;  // gres/gpumem and the like
        const auto count = parse_integer(part.substr(equals + 1), 0, limits::gpus);
        if (!count) return false;
        (name.empty() ? untyped : typed) += *count;
        if (!name.empty() && *count > 0) out[std::string(name.substr(1))] += *count;
    }
    if (typed == 0 && untyped > 0) out[""] = untyped;
    return true;
}

/// Reads one row after the other of an open table.
class SacctReader {
  public:
    explicit SacctReader(Csv& csv)
        : csv_(csv),
          id_(csv.has("JobIDRaw") ? "JobIDRaw" : "JobID"),
          limit_(csv.has("TimelimitRaw") ? "TimelimitRaw" : "Timelimit") {}
    std::vector<PastJob> jobs();

  private:
    double time(std::string_view column);
    [[nodiscard]] std::string text(std::string_view column) const {
        return csv_.has(column) ? std::string(csv_.cell(column)) : std::string();
    }
    void read_tres(PastJob&);
    PastJob job();

    Csv& csv_;
    std::string_view id_, limit_;
};

double SacctReader::time(std::string_view column) {
    if (!csv_.has(column)) return -1;
    const auto seconds = time_of(csv_.cell(column));
    if (seconds) return *seconds;
    csv_.refuse(
        fmt::format("{}: \"{}\" is neither seconds since 1970 nor a time like "
                    "2026-11-30T12:00:00",
                    column, printable(csv_.cell(column))));
    return -1;
}

void SacctReader::read_tres(PastJob& job) {
    for (const char* column : {"AllocTRES", "ReqTRES"}) {
        if (!job.gpus.empty() || !csv_.has(column)) continue;
        if (read_gpus(csv_.cell(column), job.gpus)) continue;
        csv_.refuse(fmt::format("{}: \"{}\" is no list of NAME=COUNT", column,
                                printable(csv_.cell(column))));
    }
}

PastJob SacctReader::job() {
    PastJob out;
    out.line = csv_.line();
    out.id = csv_.word(id_);
    out.user = text("User");
    out.account = text("Account");
    out.partition = text("Partition");
    out.name = text("JobName");
    out.state = text("State");
    out.state = out.state.substr(0, out.state.find_first_of(" +"));
    out.submit_s = time("Submit");
    out.eligible_s = time("Eligible");
    out.start_s = time("Start");
    out.end_s = time("End");
    if (csv_.has(limit_)) {
        const auto limit_s = limit_of(csv_.cell(limit_), limit_ == "TimelimitRaw");
        if (!limit_s)
            csv_.refuse(
                fmt::format("{}: \"{}\" is no time limit", limit_, printable(csv_.cell(limit_))));
        out.limit_s = limit_s.value_or(0);
    }
    if (csv_.has("Priority") && !csv_.cell("Priority").empty())
        out.priority = csv_.number("Priority", 0, 1e12);
    if (csv_.has("NNodes") && !csv_.cell("NNodes").empty())
        out.nodes = csv_.integer("NNodes", 0, limits::gpus);
    read_tres(out);
    if (const std::string hosts = text("NodeList"); hosts != "None assigned" && !hosts.empty())
        out.first_host = parse_first_host(hosts).value_or("");
    return out;
}

std::vector<PastJob> SacctReader::jobs() {
    std::vector<PastJob> out;
    while (csv_.next()) {
        const std::string_view id = csv_.cell(id_);
        if (id.find('.') != std::string_view::npos) continue;  // a step
        out.push_back(job());
    }
    return out;
}

PastNode node_of(std::string_view gres) {
    std::map<std::string, std::int64_t> types;
    for (const NodeGpus& gpus : parse_gres_config(gres))
        types[gpus.type.empty() ? "gpu" : gpus.type] += gpus.count;
    PastNode most;
    for (const auto& [type, count] : types)
        if (count > most.gpus) most = {type, count};
    return most;
}

/// The value of " KEY=" in a line of scontrol; "" where there is none.
std::string_view value_of(std::string_view line, std::string_view key) {
    std::size_t at = 0;
    while ((at = line.find(key, at)) != std::string_view::npos) {
        const bool is_word = at == 0 || line[at - 1] == ' ';
        at += key.size();
        if (is_word) return line.substr(at, line.find(' ', at) - at);
    }
    return {};
}

}  // namespace

std::int64_t PastJob::gpu_count() const {
    std::int64_t sum = 0;
    for (const auto& [type, count] : gpus) sum += count;
    return sum;
}

Result<std::vector<PastJob>> parse_sacct(std::string_view text, const std::string& name) {
    const std::string_view header = text.substr(0, text.find('\n'));
    const bool has_raw = header.find("JobIDRaw") != std::string_view::npos;
    const bool has_allocated = header.find("AllocTRES") != std::string_view::npos;
    Result<Csv> csv = Csv::open(text, name,
                                {has_raw ? "JobIDRaw" : "JobID", "State", "Submit", "Start", "End",
                                 has_allocated ? "AllocTRES" : "ReqTRES"},
                                {'|', "JobName"});
    if (!csv)
        return usage_error(fmt::format("{}; print it with: {}", csv.error().text, sacct_command),
                           csv.error().where);
    std::vector<PastJob> jobs = SacctReader(*csv).jobs();
    if (csv->error()) return *csv->error();
    return jobs;
}

Result<std::map<std::string, PastNode>> parse_nodes(std::string_view text,
                                                    const std::string& name) {
    std::map<std::string, PastNode> nodes;
    bool some = false;
    for (const std::string_view line : split(text, '\n')) {
        const std::string_view node = value_of(line, "NodeName=");
        if (node.empty()) continue;
        some = true;
        const PastNode found = node_of(value_of(line, "Gres="));
        if (found.gpus > 0) nodes[std::string(node)] = found;
    }
    if (!some)
        return usage_error("no line has NodeName=; print it with: scontrol -o show node",
                           name + ":1");
    if (nodes.empty()) return usage_error("no node has GPUs (Gres=gpu:TYPE:N)", name + ":1");
    return nodes;
}

Cluster cluster_of(const std::map<std::string, PastNode>& nodes) {
    std::map<std::pair<std::string, std::int64_t>, std::int64_t> counts;
    for (const auto& [name, node] : nodes) ++counts[{node.gpu_type, node.gpus}];
    Cluster cluster;
    for (const auto& [key, count] : counts) {
        NodeGroup& group = cluster.groups.emplace_back();
        group.gpu_type = key.first;
        group.count = count;
        group.gpus_per_node = key.second;
        group.prefix = fmt::format("{}-", key.first);
    }
    return cluster;
}

std::string format_cluster(const Cluster& cluster) {
    std::string out = "nodes:\n";
    for (const NodeGroup& group : cluster.groups)
        out += fmt::format("  - {{gpu_type: \"{}\", count: {}, gpus_per_node: {}, name: \"{}\"}}\n",
                           group.gpu_type, group.count, group.gpus_per_node, group.prefix);
    return out;
}

}  // namespace arena::sim
