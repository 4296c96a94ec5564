// SPDX-License-Identifier: GPL-2.0-or-later
// Words of a model's text that its reader does not know and the user declares to be without effect
// on cost: `arena.ignore` of a file, --arena-model-ignore of a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

/// Words that a reader passes over because the user says so, and which of them it met.
class IgnoredWords {
  public:
    IgnoredWords() = default;
    explicit IgnoredWords(std::vector<std::string> asked) : asked_(std::move(asked)) {}
    void ask(std::string word) { asked_.push_back(std::move(word)); }
    /// Whether the word is to be passed over; it is then one of taken().
    bool take(std::string_view word);
    /// A part of the text that the reader always passes over.
    void note(std::string word) { taken_.push_back(std::move(word)); }
    /// In the order of the text, each once.
    [[nodiscard]] const std::vector<std::string>& taken() const { return taken_; }
    /// Asked for, but not in the text.
    [[nodiscard]] std::vector<std::string> idle() const;

  private:
    std::vector<std::string> asked_, taken_;
};

/// "--some-option,some_key": 1 to 64 words, each of 1 to 128 characters of a key or an option.
Result<std::vector<std::string>> read_ignored_words(std::string_view list);

}  // namespace arena
