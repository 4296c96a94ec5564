// SPDX-License-Identifier: GPL-2.0-or-later
// What sbatch's --arena-* options say, in plain C++: which value counts when an option comes from
// several places, when a model is a file, and the record made of it all. No Slurm here:
// unit-tested.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "request/request.h"

namespace arena {

/// Where Slurm found an option. A later one overrides an earlier one, as for Slurm's own options.
enum class OptionSource { script, environment, command_line };

/// Collects option values. Slurm may report one value several times (that is no conflict); two
/// different values from one place are the user's mistake.
class OptionSet {
  public:
    /// In the order in which Slurm reports them (script, environment, command line). No source: it
    /// cannot be told (a flag without value); then the later value counts and nothing conflicts.
    void add(std::string_view key, std::string_view value, std::optional<OptionSource> source);
    [[nodiscard]] bool empty() const { return values_.empty(); }
    [[nodiscard]] const std::string* find(std::string_view key) const;
    [[nodiscard]] std::vector<Setting> settings() const;
    /// The first conflict.
    [[nodiscard]] Status status() const;

  private:
    struct Value {
        std::string text;
        std::optional<OptionSource> source;
    };
    std::map<std::string, Value, std::less<>> values_;
    std::optional<Error> conflict_;
};

/// A path, or the name of a regular file here that is no built-in model.
bool names_model_file(const std::string& model);

/// The file as the calling user. An ordinary user may name a symbolic link (a Hugging Face cache is
/// made of them); root may not.
Result<std::string> read_model_file(const std::string& path, bool is_root);

/// Opens the model file, nothing else.
Result<Request> make_request(const OptionSet& options, bool is_root);
/// The same as record text for ARENA_RECORD.
Result<std::string> make_record(const OptionSet& options, bool is_root);

}  // namespace arena
