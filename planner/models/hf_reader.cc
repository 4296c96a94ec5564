// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/models/hf_reader.h"

#include <fmt/format.h>

#include <functional>
#include <set>

#include "base/json.h"
#include "base/json_place.h"
#include "base/text.h"
#include "planner/models/readers.h"

namespace arena {

namespace {

using Json = nlohmann::json;

constexpr std::size_t max_depth = 16;
constexpr std::size_t max_listed = 10000;

std::string place(std::string_view name, const TextPlace& place) {
    return fmt::format("{}:{}:{}", name, place.line, place.column);
}

std::string shown(const Json& value) {
    return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace), 40);
}

}  // namespace

Result<Json> parse_hf_object(std::string_view text, std::string_view name) {
    const std::string where(name);
    if (text.size() > max_model_bytes)
        return usage_error(fmt::format("the model file has {} bytes; at most {} are accepted",
                                       text.size(), max_model_bytes),
                           where);
    if (nests_deeper(text, max_depth))
        return usage_error(fmt::format("the JSON nests deeper than {} levels", max_depth), where);
    std::set<std::string, std::less<>> keys;
    std::string repeated;
    const auto note_key = [&](int depth, Json::parse_event_t event, Json& value) {
        if (event == Json::parse_event_t::key && depth == 1)
            if (!keys.insert(value.get<std::string>()).second) repeated = value.get<std::string>();
        return true;
    };
    Json json = Json::parse(text, note_key, false);
    if (json.is_discarded()) {
        const JsonFault fault = find_json_fault(text);
        return usage_error("not valid JSON: " + fault.what, place(name, fault.place));
    }
    if (!json.is_object())
        return usage_error("this is not a JSON object: expected a Hugging Face config.json", where);
    if (!repeated.empty()) {
        const auto second = find_json_key(text, {repeated});
        return usage_error(fmt::format("{}: the key is there twice", printable(repeated, 40)),
                           second ? place(name, place_in(text, *second)) : where);
    }
    return json;
}

const Json* HfReader::find(std::string_view key) const {
    const auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
}

std::int64_t HfReader::integer(const Names& names, std::string_view field_key) {
    std::int64_t found = 0;
    for (std::string_view key : names) {
        const Json* value = key.empty() ? nullptr : find(key);
        if (value == nullptr) continue;
        const std::int64_t number = checked(*value, key, *find_integer_field(field_key));
        if (found != 0 && number != 0 && number != found)
            fail(key, fmt::format("{} contradicts {} = {}", number, names[0], found));
        found = found == 0 ? number : found;
    }
    return found;
}

double HfReader::number(std::string_view key, double usual, double min, double max) {
    const Json* value = find(key);
    if (value == nullptr) return usual;
    const double found = value->is_number() ? value->get<double>() : min - 1;
    if (found >= min && found <= max) return found;
    fail(key, fmt::format("must be a number from {} to {}, not {}", min, max, shown(*value)));
    return usual;
}

std::optional<bool> HfReader::boolean(std::string_view key) {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) fail(key, "must be true or false, not " + shown(*value));
    return value->is_boolean() && value->get<bool>();
}

std::optional<std::string> HfReader::text(std::string_view key) {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) fail(key, "must be text, not " + shown(*value));
    return value->is_string() ? value->get<std::string>() : std::string();
}

std::vector<std::string> HfReader::texts(std::string_view key) {
    const Json* value = find(key);
    std::vector<std::string> words;
    if (value == nullptr) return words;
    if (!value->is_array() || value->size() > max_listed) {
        fail(key, "must be a list of words, not " + shown(*value));
        return words;
    }
    for (const Json& item : *value) {
        if (!item.is_string()) fail(key, "must be a list of words, not " + shown(*value));
        words.push_back(item.is_string() ? item.get<std::string>() : std::string());
    }
    return words;
}

std::optional<std::size_t> HfReader::byte_of(std::string_view key) const {
    return inside_.empty() ? find_json_key(text_, {key}) : find_json_key(text_, {inside_, key});
}

void HfReader::fail(std::string_view key, std::string_view sentence) {
    if (error_) return;
    const auto at = byte_of(key);
    error_ = usage_error(fmt::format("{}: {}", key, sentence),
                         at ? place(name_, place_in(text_, *at)) : std::string(name_));
}

std::int64_t HfReader::checked(const Json& value, std::string_view key, const IntegerField& field) {
    const bool unsigned_big = value.is_number_unsigned() && value.get<std::uint64_t>() >> 63 != 0;
    if (value.is_number_integer() && !unsigned_big) {
        const auto number = value.get<std::int64_t>();
        if (number >= field.min && number <= field.max) return number;
    }
    fail(key, fmt::format("must be an integer from {} to {}, not {}", field.min, field.max,
                          shown(value)));
    return 0;
}

std::int64_t number_of(HfReader& reader, std::string_view key, std::int64_t usual,
                       std::int64_t least, std::int64_t most) {
    const HfReader::Json* value = reader.find(key);
    if (value == nullptr) return usual;
    if (value->is_number_integer() && *value >= least && *value <= most)
        return value->get<std::int64_t>();
    reader.fail(key, fmt::format("must be an integer from {} to {}", least, most));
    return usual;
}

std::int64_t needed_number(HfReader& reader, std::string_view key, std::int64_t most) {
    if (reader.find(key) == nullptr) reader.fail(key, "is missing");
    return number_of(reader, key, 1, 1, most);
}

std::vector<std::int64_t> numbers_of(HfReader& reader, std::string_view key, std::int64_t most,
                                     std::vector<std::int64_t> usual, std::int64_t least,
                                     std::size_t longest) {
    const HfReader::Json* list = reader.find(key);
    if (list == nullptr) return usual;
    std::vector<std::int64_t> values;
    const bool is_short = list->is_array() && !list->empty() && list->size() <= longest;
    for (const HfReader::Json& value : is_short ? *list : HfReader::Json::array())
        if (value.is_number_integer() && value >= least && value <= most)
            values.push_back(value.get<std::int64_t>());
    if (is_short && values.size() == list->size()) return values;
    reader.fail(
        key, fmt::format("must be a list of 1 to {} integers from {} to {}", longest, least, most));
    return usual;
}

}  // namespace arena
