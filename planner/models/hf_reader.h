// SPDX-License-Identifier: GPL-2.0-or-later
// Private to the reader of Hugging Face configs: typed members of one JSON object. The first
// mistake is kept, so that a reader is a plain list of facts followed by one question.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "core/model_fields.h"

namespace arena {

class HfReader {
  public:
    using Json = nlohmann::json;
    /// Spellings of one key, preferred first ("" = no such spelling).
    using Names = std::array<std::string_view, 3>;

    /// All must outlive the reader; json is an object of the text: the top one, or its member
    /// `inside`.
    HfReader(const Json& json, std::string_view text, std::string_view name,
             std::string_view inside = {})
        : json_(json), text_(text), name_(name), inside_(inside) {}

    /// The key's value, or nullptr when absent or null.
    [[nodiscard]] const Json* find(std::string_view key) const;
    [[nodiscard]] const Json& object() const { return json_; }
    /// Where the key stands in the text.
    [[nodiscard]] std::optional<std::size_t> byte_of(std::string_view key) const;
    /// Present, be it null.
    [[nodiscard]] bool mentions(std::string_view key) const { return json_.contains(key); }
    /// 0 when no spelling is there. Two spellings that disagree are an error. The field gives the
    /// range.
    std::int64_t integer(const Names&, std::string_view field_key);
    /// `usual` when the key is absent.
    double number(std::string_view key, double usual, double min, double max);
    std::optional<bool> boolean(std::string_view key);
    std::optional<std::string> text(std::string_view key);
    /// At most 10000 words; empty when absent.
    std::vector<std::string> texts(std::string_view key);

    /// The error names the key's line and column where the text has it.
    void fail(std::string_view key, std::string_view sentence);
    [[nodiscard]] const std::optional<Error>& error() const { return error_; }
    [[nodiscard]] std::string_view name() const { return name_; }

  private:
    std::int64_t checked(const Json& value, std::string_view key, const IntegerField&);

    const Json& json_;
    std::string_view text_, name_, inside_;
    std::optional<Error> error_;
};

/// A number of the config, or the library's default of it; `least` to `most`.
std::int64_t number_of(HfReader&, std::string_view key, std::int64_t usual, std::int64_t least = 1,
                       std::int64_t most = std::int64_t{1} << 24);
/// A number that the config must have.
std::int64_t needed_number(HfReader&, std::string_view key,
                           std::int64_t most = std::int64_t{1} << 24);
/// A list of 1 to `longest` integers from `least` to `most`, or the library's default.
std::vector<std::int64_t> numbers_of(HfReader&, std::string_view key, std::int64_t most,
                                     std::vector<std::int64_t> usual, std::int64_t least = 1,
                                     std::size_t longest = 16);

/// One JSON object of at most max_model_bytes and 16 levels, no key twice at the top.
Result<nlohmann::json> parse_hf_object(std::string_view text, std::string_view name);

}  // namespace arena
