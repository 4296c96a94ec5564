// SPDX-License-Identifier: GPL-2.0-or-later
// JSON at the border: a bounded parser without exceptions and typed readers that name the key at
// fault. Slow to compile (nlohmann): include it only in .cc files that read or write JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace arena {

using Json = nlohmann::json;

struct JsonLimits {
    std::size_t bytes = std::size_t{64} << 20;
    std::size_t depth = 32;
};

/// Whether brackets outside strings nest deeper than `limit`, found without building anything: a
/// parser that recurses must not see such a text.
bool nests_deeper(std::string_view text, std::size_t limit);
/// Parses one JSON value. Never throws; depth is checked before anything is built.
Result<Json> parse_json(std::string_view text, const JsonLimits& = {});
/// One line; bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string dump_json(const Json&);

/// Typed reading of one object's members. The first mistake is kept in `error` and turns every
/// later read into nothing, so a reader is a plain list of fields followed by one check.
class JsonFields {
  public:
    JsonFields(const Json& value, std::string where, std::optional<Error>& error);

    [[nodiscard]] bool ok() const { return !error_; }
    [[nodiscard]] bool has(const char* key) const;  ///< present and not null
    void integer(const char* key, std::int64_t& out, std::int64_t min, std::int64_t max) const;
    void unsigned_integer(const char* key, std::uint64_t& out, std::uint64_t max) const;
    void number(const char* key, double& out, double min, double max) const;
    void boolean(const char* key, bool& out) const;
    /// At most max_length bytes, no control characters.
    void text(const char* key, std::string& out, std::size_t max_length = 256) const;
    void integers(const char* key, std::vector<std::int64_t>& out, std::int64_t min,
                  std::int64_t max, std::size_t max_items) const;
    void texts(const char* key, std::vector<std::string>& out, std::size_t max_items,
               std::size_t max_length = 256) const;
    /// A word that `parse` knows; `accepted` lists them for the message.
    template <typename E>
    void word(const char* key, E& out, std::optional<E> (*parse)(std::string_view),
              std::string_view accepted) const {
        std::string name;
        text(key, name);
        if (!ok()) return;
        if (const auto value = parse(name)) {
            out = *value;
        } else {
            refuse(key, accepted);
        }
    }
    /// The member when it has the right kind, else nullptr and an error.
    [[nodiscard]] const Json* list(const char* key, std::size_t max_items) const;
    [[nodiscard]] const Json* object(const char* key) const;
    [[nodiscard]] const Json* any(const char* key) const;
    /// "where.key", for readers of nested values.
    [[nodiscard]] std::string path(const char* key) const;
    void refuse(const char* key, std::string_view wanted) const;

  private:
    const Json* object_ = nullptr;
    std::string where_;
    std::optional<Error>& error_;
};

}  // namespace arena
