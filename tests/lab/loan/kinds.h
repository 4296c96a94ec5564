// SPDX-License-Identifier: GPL-2.0-or-later
// The kinds of files about loans that the commands take: how each is told by its keys, how a case
// is solved, and how the answer is held against the known one. One row per kind; the functions of a
// row stand in a file of their own.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace arena::cli {

/// One case of a file: an object, and what it is called.
struct LoanCase {
    const Json& json;
    const JsonFields& fields;
    std::string name;
};

/// What an evaluation counts.
struct LoanReport {
    std::size_t cases = 0;
    Json failed = Json::array();    ///< {"case", "got", "want"}
    Json metrics = Json::object();  ///< names and values
    void expect(const std::string& name, bool passed, const Json& got, const Json& want);
    /// A metric that adds up, or is the largest.
    void add(const char* metric, double value);
    void most(const char* metric, double value);
};

struct LoanKind {
    std::string_view name;
    std::string_view mode;  ///< what an answer counts and what not, for people
    /// Keys of a case, and of the first of its jobs ("jobs.work"): all must be there.
    std::vector<std::string_view> keys;
    std::vector<std::string_view> columns;  ///< of the answer as text: keys of its JSON
    /// Errors of fields are kept there; the answer counts only without.
    Result<Json> (*solve)(const LoanCase&);
    /// `own`: what solve() answered.
    void (*evaluate)(const LoanCase&, const Json& own, LoanReport&);
    /// After the last case; may be nullptr.
    void (*finish)(LoanReport&);
};

LoanKind reclaim_kind();
LoanKind knapsack_kind();
LoanKind two_phase_kind();
std::span<const LoanKind> loan_kinds();

struct LoanFile {
    std::string path;
    const LoanKind* kind = nullptr;
    Json json;
};

/// A file of at most 256 MiB with {"instances": [...]}. Errors: unreadable (environment), of no
/// kind, no case in it (usage).
Result<LoanFile> read_loan_file(const std::string& path);

/// Calls `each` with every case; its error, or the first of a field.
Status each_loan_case(const LoanFile&, Status (*each)(const LoanCase&, void*), void* context);

/// A number of the known answer; absent: an error that says so.
double known_number(const LoanCase&, const char* key);
/// Within 1e-6, relative above 1.
bool is_near(double own, double known);

}  // namespace arena::cli
