// SPDX-License-Identifier: GPL-2.0-or-later
// The diary of an observing Arena: of each job that it planned, when and with what Slurm ran it,
// and when and with what it would have run under Arena. A file beside the profile store, so that a
// restart of slurmctld forgets nothing of what was compared.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "core/cluster.h"
#include "plugin/sched/history/line_file.h"

namespace arena {

/// A job's run, Slurm's own or the one that it would have had. Seconds since the epoch, 0: not yet.
struct DiaryRun {
    double start_s = 0;  ///< the first
    double end_s = 0;
    std::string grid;  ///< "2x4xa40", of its last start; "" = not yet
    double gpu_s = 0;  ///< held in all
    bool operator==(const DiaryRun&) const = default;
};

struct DiaryLine {
    JobId job = 0;
    std::uint32_t uid = 0;
    std::string name, account, partition;
    bool as_if = false;     ///< an ordinary job, whose script says what it trains
    double eligible_s = 0;  ///< since when it waits
    DiaryRun actual, planned;
    std::int64_t moves = 0;  ///< that an elastic job would have made
    bool operator==(const DiaryLine&) const = default;
};

/// Times closer than this count as one.
inline constexpr double same_start_s = 10;
/// "would have started 40.0 min earlier on 8xa100 (Slurm: 4xa100)", "would have started 12.0 min
/// ago on 8xa100; Slurm has it wait", "would have waited 2.0 min longer at least (Slurm: 4xa40)";
/// "" where there is nothing to say yet. plan_s: until when the plan is known, now_s at most.
std::string words_of(const DiaryLine& line, double now_s, double plan_s);

/// A JSON object in one line, at most 4 KiB.
std::string format_diary_line(const DiaryLine&);
/// Errors: not such a line.
Result<DiaryLine> parse_diary_line(std::string_view);

/// Of the jobs that are over in both worlds.
struct DiaryTotals {
    std::int64_t jobs = 0, as_if = 0, earlier = 0, later = 0, moves = 0;
    double wait_actual_s = 0, wait_planned_s = 0;
    double jct_actual_s = 0, jct_planned_s = 0;  ///< from eligible to the end
    double gpu_actual_s = 0, gpu_planned_s = 0;
    void add(const DiaryLine& line);
};

class Diary {
  public:
    static constexpr std::size_t most_lines = 500;  ///< that are kept in memory

    explicit Diary(const std::string& profile_store)
        : file_(LineFile::path_beside(profile_store, "diary.jsonl"), "the diary") {}
    /// What earlier lives wrote. "" or why it was not read.
    std::string recall();
    /// Of a job that is over in both worlds.
    Status write(DiaryLine line);
    [[nodiscard]] const DiaryTotals& totals() const { return totals_; }
    [[nodiscard]] const std::deque<DiaryLine>& lines() const { return lines_; }  ///< oldest first

  private:
    void add(DiaryLine line);

    LineFile file_;
    DiaryTotals totals_;
    std::deque<DiaryLine> lines_;
};

Json to_json(const DiaryTotals&);
Json to_json(const DiaryLine&);

}  // namespace arena
