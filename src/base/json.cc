// SPDX-License-Identifier: GPL-2.0-or-later
// Bounded JSON parsing and typed member readers: see json.h.
#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_place.h"
#include "base/text.h"

namespace arena {

bool nests_deeper(std::string_view text, std::size_t limit) {
    std::size_t depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') ++i;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > limit) return true;
        } else if ((c == ']' || c == '}') && depth > 0) {
            --depth;
        }
    }
    return false;
}

namespace {

bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7f;
    });
}

bool fits(const Json& value, std::int64_t min, std::int64_t max, std::int64_t& out) {
    if (!value.is_number_integer()) return false;
    if (value.is_number_unsigned() &&
        value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
        return false;
    }
    const auto number = value.get<std::int64_t>();
    if (number < min || number > max) return false;
    out = number;
    return true;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
    if (text.size() > limits.bytes) {
        return usage_error(fmt::format("JSON is larger than {} bytes", limits.bytes));
    }
    if (nests_deeper(text, limits.depth)) {
        return usage_error(fmt::format("JSON is nested deeper than {} levels", limits.depth));
    }
    Json value = Json::parse(text, nullptr, false);
    if (!value.is_discarded()) return value;
    const JsonFault fault = find_json_fault(text);
    return usage_error(fmt::format("not valid JSON at line {}, column {}: {}", fault.place.line,
                                   fault.place.column, fault.what));
}

std::string dump_json(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

JsonFields::JsonFields(const Json& value, std::string where, std::optional<Error>& error)
    : where_(std::move(where)), error_(error) {
    if (value.is_object()) {
        object_ = &value;
    } else if (!error_) {
        error_ = usage_error("an object is needed here", where_.empty() ? "document" : where_);
    }
}

std::string JsonFields::path(const char* key) const {
    return where_.empty() ? key : fmt::format("{}.{}", where_, key);
}

void JsonFields::refuse(const char* key, std::string_view wanted) const {
    if (!error_) error_ = usage_error(fmt::format("{} is needed here", wanted), path(key));
}

bool JsonFields::has(const char* key) const {
    if (object_ == nullptr) return false;
    const auto at = object_->find(key);
    return at != object_->end() && !at->is_null();
}

const Json* JsonFields::any(const char* key) const {
    if (error_ || object_ == nullptr) return nullptr;
    const auto at = object_->find(key);
    if (at != object_->end()) return &*at;
    error_ = usage_error("is missing", path(key));
    return nullptr;
}

void JsonFields::integer(const char* key, std::int64_t& out, std::int64_t min,
                         std::int64_t max) const {
    const Json* value = any(key);
    if (value != nullptr && !fits(*value, min, max, out)) {
        refuse(key, fmt::format("an integer from {} to {}", min, max));
    }
}

void JsonFields::unsigned_integer(const char* key, std::uint64_t& out, std::uint64_t max) const {
    const Json* value = any(key);
    if (value == nullptr) return;
    if (value->is_number_unsigned() && value->get<std::uint64_t>() <= max) {
        out = value->get<std::uint64_t>();
    } else {
        refuse(key, fmt::format("an integer from 0 to {}", max));
    }
}

void JsonFields::number(const char* key, double& out, double min, double max) const {
    const Json* value = any(key);
    if (value == nullptr) return;
    const double number = value->is_number() ? value->get<double>() : NAN;
    if (number >= min && number <= max) {
        out = number;
    } else {
        refuse(key, fmt::format("a number from {:.15g} to {:.15g}", min, max));
    }
}

void JsonFields::boolean(const char* key, bool& out) const {
    const Json* value = any(key);
    if (value == nullptr) return;
    if (value->is_boolean()) {
        out = value->get<bool>();
    } else {
        refuse(key, "true or false");
    }
}

void JsonFields::text(const char* key, std::string& out, std::size_t max_length) const {
    const Json* value = any(key);
    if (value == nullptr) return;
    const auto* string = value->get_ptr<const std::string*>();
    if (string == nullptr || string->size() > max_length || has_control(*string)) {
        return refuse(
            key, fmt::format("a text of at most {} bytes without control characters", max_length));
    }
    out = *string;
}

void JsonFields::integers(const char* key, std::vector<std::int64_t>& out, std::int64_t min,
                          std::int64_t max, std::size_t max_items) const {
    const Json* values = list(key, max_items);
    if (values == nullptr) return;
    out.clear();
    for (const Json& value : *values) {
        if (!fits(value, min, max, out.emplace_back())) {
            return refuse(key, fmt::format("a list of integers from {} to {}", min, max));
        }
    }
}

void JsonFields::texts(const char* key, std::vector<std::string>& out, std::size_t max_items,
                       std::size_t max_length) const {
    const Json* values = list(key, max_items);
    if (values == nullptr) return;
    out.clear();
    for (const Json& value : *values) {
        const auto* string = value.get_ptr<const std::string*>();
        if (string == nullptr || string->size() > max_length || has_control(*string)) {
            return refuse(key, fmt::format("a list of texts of at most {} bytes", max_length));
        }
        out.push_back(*string);
    }
}

const Json* JsonFields::list(const char* key, std::size_t max_items) const {
    const Json* value = any(key);
    if (value == nullptr) return nullptr;
    if (value->is_array() && value->size() <= max_items) return value;
    refuse(key, fmt::format("a list of at most {} items", max_items));
    return nullptr;
}

const Json* JsonFields::object(const char* key) const {
    const Json* value = any(key);
    if (value == nullptr) return nullptr;
    if (value->is_object()) return value;
    refuse(key, "an object");
    return nullptr;
}

}  // namespace arena
