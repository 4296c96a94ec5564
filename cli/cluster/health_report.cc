// SPDX-License-Identifier: GPL-2.0-or-later
// See health_report.h.
#include "cli/cluster/health_report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/file_descriptor.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cluster/ask_scheduler.h"
#include "cli/cluster/send_report.h"
#include "cli/common/ask.h"
#include "health/reader.h"
#include "reports/slow_report.h"

namespace arena::cli {
namespace {

using health::Finding;
using health::Severity;

// ---- the machine -------------------------------------------------------------------------------

std::string small_file(const std::string& path) {
    const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 1 << 16> buffer{};
    const ssize_t got = fd.get() < 0 ? -1 : ::read(fd.get(), buffer.data(), buffer.size());
    return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
}

/// The rest of the line of a file that begins so.
std::string line_of(const std::string& path, std::string_view key) {
    const std::string text = small_file(path);
    for (const std::string_view line : split(text, '\n'))
        if (line.starts_with(key)) return std::string(trim(line.substr(key.size())));
    return {};
}

std::string host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return {};
    const std::string_view whole = name.data();
    return std::string(whole.substr(0, whole.find('.')));
}

/// The index of each GPU by its address, as NVIDIA's driver tells it without nvidia-smi.
std::map<std::string, std::int64_t> driver_indexes() {
    std::map<std::string, std::int64_t> indexes;
    std::error_code none;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
        const std::string minor = line_of(entry.path() / "information", "Device Minor:");
        const std::string bus = health::bus_of(entry.path().filename().string());
        if (const auto index = parse_integer(minor, 0, 4095); index && !bus.empty())
            indexes[bus] = *index;
    }
    return indexes;
}

health::Machine this_machine(const std::string& node) {
    return {.boot_s = parse_integer(line_of("/proc/stat", "btime "), 0, INT64_MAX).value_or(0),
            .now_s = std::time(nullptr),
            .indexes = driver_indexes(),
            .host = node};
}

// ---- what is read ------------------------------------------------------------------------------

/// Lines of any length, in bounded memory.
class Lines {
  public:
    explicit Lines(health::Reader& reader) : reader_(reader) {}
    void add(std::string_view text) {
        for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
            append(text.substr(0, end)), finish();
        append(text);
    }
    void finish() {
        if (std::exchange(too_long_, false))
            reader_.skip_line();
        else
            reader_.parse_line(line_);
        line_.clear();
    }
    [[nodiscard]] bool is_open() const { return too_long_ || !line_.empty(); }

  private:
    void append(std::string_view part) {
        too_long_ |= line_.size() + part.size() > health::max_line_bytes;
        too_long_ ? line_.clear() : static_cast<void>(line_.append(part));
    }
    health::Reader& reader_;
    std::string line_;
    bool too_long_ = false;
};

Status read_file(const std::string& file, health::Reader& reader) {
    const FileDescriptor opened(
        file == "-" ? -1 : ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    const int fd = file == "-" ? STDIN_FILENO : opened.get();
    if (fd < 0) return environment_error(std::strerror(errno), file);
    Lines lines(reader);
    std::array<char, 1 << 16> buffer{};
    for (ssize_t got; (got = ::read(fd, buffer.data(), buffer.size())) != 0;) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return environment_error(std::strerror(errno), file == "-" ? "standard input" : file);
        lines.add({buffer.data(), static_cast<std::size_t>(got)});
    }
    if (lines.is_open()) lines.finish();
    return Done{};
}

// ---- what is said ------------------------------------------------------------------------------

Result<health::NodeComment> read_comment(const std::string& node) {
    const auto shown = run_program({"scontrol", "show", "node", node});
    if (!shown) return shown.error();
    const std::string said(trim(shown->err.empty() ? shown->out : shown->err));
    if (said.find("not found") != said.npos || said.find("Invalid node name") != said.npos)
        return usage_error(
            fmt::format("Slurm has no node \"{}\"; --node names another than "
                        "SLURMD_NODENAME or this host",
                        printable(node)));
    if (shown->status != 0) return environment_error(printable(said, 200), "scontrol show node");
    const auto fields = parse_scontrol_fields(shown->out);
    const auto comment = fields.find("Comment");
    return health::parse_health_comment(comment == fields.end() ? "" : comment->second);
}

Status write_comment(const std::string& node, const health::NodeComment& comment) {
    const auto sent = run_program({"scontrol", "update", "NodeName=" + node,
                                   "Comment=" + health::format_health_comment(comment)});
    if (!sent) return sent.error();
    if (sent->status == 0) return Done{};
    const std::string said(trim(sent->err.empty() ? sent->out : sent->err));
    if (said.find("denied") != said.npos || said.find("Invalid user id") != said.npos)
        return usage_error(fmt::format("slurmctld refuses it ({}): root, SlurmUser and operators "
                                       "alone may say so of a node",
                                       printable(said, 120)),
                           node);
    return environment_error(printable(said, 200), "scontrol update");
}

bool is_unfit(const Finding& finding) { return finding.severity >= Severity::slow; }

std::string tools_of(const health::Report& report) {
    std::vector<std::string> names;
    for (const health::Tool tool : report.heard) {
        std::string name(health::name(tool));
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return join(names, ", ");
}

void print_report(const std::string& node, const std::vector<Finding>& findings,
                  const health::Report& report) {
    for (const Finding& f : findings)
        fmt::print("{}: {} ({}{})\n", node, health::words_of(f), health::name(f.severity),
                   f.at == 0 ? "" : ", since " + utc_time(static_cast<double>(f.at)) + " UTC");
    for (const Finding& f : report.notes) fmt::print("{}: {}\n", node, health::words_of(f));
    if (!report.unknown_xids.empty())
        fmt::print("{}: not in the table, and left out: XID {}\n", node,
                   fmt::join(report.unknown_xids, ", "));
    const auto& counts = report.counts;
    const std::uint64_t unknown = counts.lines - counts.known;
    fmt::print("{}: {} of {}", node, counted(counts.known, "line"), tools_of(report));
    if (counts.before_boot) fmt::print("; {} before this boot", counts.before_boot);
    if (counts.elsewhere) fmt::print("; {} of other hosts", counts.elsewhere);
    if (unknown) fmt::print("; {} not known and left out", unknown);
    if (counts.beyond) fmt::print("; {} beyond the first", counted(counts.beyond, "finding"));
    fmt::print("\n");
}

Json finding_json(const Finding& f) {
    const health::Sign* sign = health::find_sign(f.code);
    Json json{{"code", f.code},
              {"place", f.place},
              {"severity", health::name(f.severity)},
              {"words", health::words_of(f)}};
    if (f.at != 0) json["at"] = f.at;
    if (sign) json.update({{"culprit", health::name(sign->culprit)}, {"source", sign->source}});
    return json;
}

int show_report(const std::string& node, const std::vector<Finding>& findings,
                const health::Report& report, bool is_sent) {
    Json list = Json::array(), notes = Json::array(), heard = Json::array();
    for (const Finding& f : findings) list.push_back(finding_json(f));
    for (const Finding& f : report.notes) notes.push_back(finding_json(f));
    for (const health::Tool tool : report.heard) heard.push_back(health::name(tool));
    return show_json({{"schema_version", 1},
                      {"node", node},
                      {"findings", std::move(list)},
                      {"notes", std::move(notes)},
                      {"heard", std::move(heard)},
                      {"unknown_xids", report.unknown_xids},
                      {"lines", report.counts.lines},
                      {"unknown_lines", report.counts.lines - report.counts.known},
                      {"sent", is_sent}});
}

/// What becomes of it, for people.
void print_end(const std::string& node, const std::vector<Finding>& findings, bool dry_run,
               bool is_sent) {
    const bool unfit = std::any_of(findings.begin(), findings.end(), is_unfit);
    fmt::print("{}: {}{}\n", node,
               unfit              ? "not fit for jobs of Arena's"
               : findings.empty() ? "nothing is held against it"
                                  : "to be watched",
               dry_run   ? "; nothing was sent"
               : is_sent ? "; slurmctld has it"
                         : "; slurmctld has it already");
}

Result<health::Report> read_all(const HealthOptions& options, const health::Machine& machine) {
    health::Reader reader(machine);
    for (const std::string& file : options.files)
        if (auto read = read_file(file, reader); !read) return read.error();
    health::Report report = reader.finish();
    if (report.heard.empty())
        return no_error(fmt::format(
            "{} read, and none of a tool that is known (nvidia-smi -q, --query-gpu with its "
            "header, nvlink -s and -e; dcgmi health -c, diag; dmesg, journalctl -k; perfquery, "
            "ibqueryerrors): nothing is said of the node",
            counted(report.counts.lines, "line")));
    return report;
}

/// "XID 79", "HW Slowdown: Active, Yes or 1", "SymbolErrorCounter above 10".
std::string said_of(const health::Sign& sign) {
    const std::string_view keys = sign.keys.empty() ? sign.also : sign.keys;
    std::string said = fmt::format("{}{}", sign.code == "xid" ? "XID " : "", keys);
    std::replace(said.begin(), said.end(), '|', ',');
    if (sign.test == health::Test::yes) return said + ": Active, Yes or 1";
    if (sign.test == health::Test::begins) return fmt::format("{}: {}...", said, sign.text);
    return sign.test == health::Test::above ? fmt::format("{} above {:g}", said, sign.than) : said;
}

}  // namespace

int report_health(const Globals& globals, const HealthOptions& options) {
    std::string node = options.node.empty() ? environment("SLURMD_NODENAME") : options.node;
    if (node.empty()) node = host_name();
    const auto place = parse_slow_place(node, "--node");
    if (!place || place->gpu != any_gpu)
        return fail(
            globals,
            usage_error(fmt::format("\"{}\" is no name of a node", printable(node)), "--node"));
    const health::Machine machine = this_machine(node);
    const auto report = read_all(options, machine);
    if (!report) return fail(globals, report.error());
    health::NodeComment comment;
    if (!options.dry_run) {
        auto known = read_comment(node);
        if (!known) return fail(globals, known.error());
        comment = std::move(*known);
    }
    const std::vector<Finding> findings =
        health::merge_findings(comment.findings, *report, machine);
    const bool is_news = findings != comment.findings || !comment.broken.empty();
    comment.findings = findings;
    if (is_news && !options.dry_run)
        if (auto sent = write_comment(node, comment); !sent) return fail(globals, sent.error());
    const bool unfit = std::any_of(findings.begin(), findings.end(), is_unfit);
    if (globals.json) {
        show_report(node, findings, *report, is_news && !options.dry_run);
    } else {
        print_report(node, findings, *report);
        print_end(node, findings, options.dry_run, is_news);
    }
    return options.dry_run && unfit ? exit_no : exit_yes;
}

int show_signs(const Globals& globals) {
    Json list = Json::array();
    std::string title;
    const auto new_table = [] {
        return Table({{"says", false},
                      {"of", false, Wide::whole},
                      {"is", false, Wide::whole},
                      {"meaning", false}});
    };
    Table table = new_table();
    const auto print = [&] {
        if (!title.empty()) fmt::print("{}\n{}\n", title, table.text());
    };
    for (const health::Sign& sign : health::signs()) {
        list.push_back({{"tool", health::name(sign.tool)},
                        {"says", said_of(sign)},
                        {"query", sign.also},
                        {"code", sign.code},
                        {"culprit", health::name(sign.culprit)},
                        {"severity", health::name(sign.severity)},
                        {"words", sign.words},
                        {"source", sign.source}});
        if (globals.json) continue;
        const std::string now = fmt::format("{} ({})", health::name(sign.tool), sign.source);
        if (now != title) print(), table = new_table(), title = now;
        table.add({said_of(sign), std::string(health::name(sign.culprit)),
                   std::string(health::name(sign.severity)), std::string(sign.words)});
    }
    if (globals.json) return show_json({{"schema_version", 1}, {"signs", std::move(list)}});
    print();
    return exit_yes;
}

}  // namespace arena::cli
