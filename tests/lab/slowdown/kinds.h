// SPDX-License-Identifier: GPL-2.0-or-later
// The kinds of files about slowdowns that the commands take: how each is told by its columns or
// keys, how it is solved, and how an answer is held against the known one. One row per kind; the
// functions of a row stand in a file of their own.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "slowdown/verify.h"

namespace arena::cli {

struct SlowdownFile {
    std::string path, text;
    Json json;  ///< of a file that is an object; else null
};

/// The files of one problem, by role (SlowdownKind::Part).
class SlowdownFiles {
  public:
    [[nodiscard]] bool has(std::string_view role) const { return find(role) != nullptr; }
    /// A role that is there.
    [[nodiscard]] const SlowdownFile& at(std::string_view role) const { return *find(role); }
    void put(std::string_view role, SlowdownFile file) {
        files_.insert_or_assign(std::string(role), std::move(file));
    }

  private:
    [[nodiscard]] const SlowdownFile* find(std::string_view role) const {
        const auto at = files_.find(role);
        return at == files_.end() ? nullptr : &at->second;
    }
    std::map<std::string, SlowdownFile, std::less<>> files_;
};

/// What an evaluation counts.
struct SlowdownReport {
    std::size_t cases = 0;
    Json failed = Json::array();    ///< {"case", "got", "want"}
    Json metrics = Json::object();  ///< names and values
    void expect(const std::string& name, bool passed, const Json& got, const Json& want);
};

struct SlowdownAnswer {
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows;
    Json json = Json::object();  ///< the same and more
};

struct SlowdownKind {
    struct Part {
        std::string_view role;
        /// Columns, or keys of the object and of the first object in its lists: all must be there.
        std::vector<std::string_view> words;
        /// The end of the file's name: parts lie beside each other and differ in it.
        std::string_view suffix;
        bool is_needed = true;  ///< to evaluate
    };
    std::string_view name;
    std::string_view
        command;  ///< of `arena-lab slowdown` that solves it by the first part; "": none
    std::vector<Part> parts;
    Status (*evaluate)(const SlowdownFiles&, const slowdown::DetectorOptions&, SlowdownReport&);
    Result<SlowdownAnswer> (*solve)(const SlowdownFiles&, const slowdown::DetectorOptions&);
};

SlowdownKind detection_kind();
SlowdownKind period_kind();
SlowdownKind pattern_kind();
SlowdownKind estimates_kind();
SlowdownKind candidates_kind();
SlowdownKind timeline_kind();
SlowdownKind schedule_kind();
SlowdownKind benchmarks_kind();
SlowdownKind passes_kind();
SlowdownKind micro_batches_kind();
SlowdownKind roles_kind();
SlowdownKind ski_rental_kind();

std::span<const SlowdownKind> slowdown_kinds();

/// One problem that a command was given: files of one kind that belong together.
struct SlowdownProblem {
    const SlowdownKind* kind = nullptr;
    std::string stem;  ///< path without the part's suffix
    SlowdownFiles files;
};
/// Reads the files (at most 256 MiB each), tells their kinds and puts parts together, by their
/// names; `beside`: also what lies beside them and was not named. Errors: unreadable, of no kind.
Result<std::vector<SlowdownProblem>> read_slowdown_files(const std::vector<std::string>& paths,
                                                         bool beside);
/// The first part that is needed and not there; nullptr: complete.
const SlowdownKind::Part* missing_part(const SlowdownProblem& problem);

}  // namespace arena::cli
