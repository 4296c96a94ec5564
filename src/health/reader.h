// SPDX-License-Identifier: GPL-2.0-or-later
// Reader: lines of nvidia-smi, dcgmi, the kernel's log, perfquery and ibqueryerrors, in any order
// and one behind the other, become findings by the table of signs. Untrusted: any bytes, in
// bounded memory. What it does not know it counts, and never guesses.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "health/finding.h"
#include "health/signs.h"

namespace arena::health {

/// Of a line; what is beyond belongs to no line of these tools.
inline constexpr std::size_t max_line_bytes = 4096;

/// Where and when the lines are read.
struct Machine {
    std::int64_t boot_s = 0;  ///< epoch seconds: older events are over; 0 = not known
    std::int64_t now_s = 0;   ///< epoch seconds, for log lines without a year
    /// Of GPUs whose index the driver tells, by bus_of() of their address.
    std::map<std::string, std::int64_t> indexes = {};
    std::string host;  ///< whose ports ibqueryerrors names first; others are left out
};

struct Report {
    std::vector<Finding> findings;  ///< of `watch` and above, the worst first, each once
    std::vector<Finding> notes;     ///< what is no fault
    std::set<Tool> heard;           ///< whose output was there, sound or not
    std::map<std::string, std::int64_t> indexes;  ///< of GPUs, by bus
    std::set<std::string> unknown_xids;           ///< not in the table; some
    struct Counts {
        std::uint64_t lines = 0, known = 0;
        std::uint64_t too_long = 0;     ///< of the others: longer than max_line_bytes
        std::uint64_t before_boot = 0;  ///< of the known: events of an earlier boot
        std::uint64_t elsewhere = 0;    ///< of the known: other hosts' ports
        std::uint64_t beyond = 0;       ///< findings beyond max_findings, which are left out
    } counts;
};

class Reader {
  public:
    explicit Reader(Machine machine) : machine_(std::move(machine)) {}
    /// One line, without its end.
    void parse_line(std::string_view line);
    /// A line that was too long to be kept.
    void skip_line();
    [[nodiscard]] Report finish();

  private:
    enum class Section { none, query, csv, nvlink, health, diag, port };
    struct Gpu {
        std::string name;
        double limit_w = 0, default_w = 0;
        std::int64_t width = 0, width_max = 0;
        std::int64_t links = -1;  ///< active NVLinks; -1 = not heard
    };
    struct Heading {
        std::size_t indent = 0;
        std::string name;
    };

    bool take(std::string_view line);
    bool take_kernel(std::string_view line);
    bool take_event(std::string_view line, std::size_t at, bool is_switch);
    bool take_head(std::string_view line);
    bool take_csv_head(std::string_view line);
    bool take_failure(std::string_view line);
    bool take_query(std::string_view line);
    bool take_csv(std::string_view line);
    bool take_nvlink(std::string_view line);
    bool take_health(std::string_view line);
    bool take_diag(std::string_view line);
    bool take_port(std::string_view line);
    bool take_errors(std::string_view line);
    void begin(Section section, Tool tool);
    void take_fact(const std::string& place, std::string_view key, std::string_view value);
    void note_index(const std::string& bus, std::int64_t index);
    void take_reasons(const std::string& place, std::string_view mask);
    void note(Tool tool, std::string_view key, std::string_view value, const std::string& place,
              std::int64_t at = 0);
    void add(const Sign& sign, const std::string& code, const std::string& place, std::int64_t at);
    void derive();
    void derive_width(const std::string& place, const Gpu& gpu);
    void derive_links(const std::string& place, const Gpu& gpu);

    Machine machine_;
    Report report_;
    Section section_ = Section::none;
    std::vector<Heading> headings_;
    std::vector<std::string> columns_;
    std::string place_ = "node", test_;
    bool own_port_ = false, is_perfquery_ = false, new_list_ = false;
    std::map<std::string, Gpu> gpus_;                               ///< by place
    std::map<std::pair<std::string, std::string>, Finding> found_;  ///< by code and place
};

/// What is to be said of the node now, of what was said of it and what has been read: what the
/// kernel said holds until a boot, other findings until their tool says them no more.
std::vector<Finding> merge_findings(const std::vector<Finding>& before, const Report& report,
                                    const Machine& machine);

/// Places by GPUs' indexes, where these are known.
std::string known_place(const std::string& place,
                        const std::map<std::string, std::int64_t>& indexes);

/// "00000000:3B:00.0" -> "0000:3b:00"; "" where it is no address of PCI's.
std::string bus_of(std::string_view text);
/// When a line of the kernel's log was said, by what stands before its words, in epoch seconds; 0 =
/// it does not say. Local times, without a year the latest that is not in the future.
std::int64_t parse_kernel_time(std::string_view before, const Machine& machine);

}  // namespace arena::health
