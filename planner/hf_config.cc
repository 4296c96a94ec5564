// SPDX-License-Identifier: GPL-2.0-or-later
// Hugging Face config.json -> Model. One row per model_type says which keys hold which fact; a
// config that the row does not explain fully is refused, never guessed. seq_length is the longest
// position the model was made for; the seq-length setting overrides it.
#include "planner/hf_config.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/text.h"
#include "planner/model.h"

namespace arena {

namespace {

using Json = nlohmann::json;

constexpr std::size_t max_depth = 16;

/// Key names of one fact, preferred spelling first ("" = no such spelling).
using Names = std::array<std::string_view, 3>;

struct FactKeys {
    Names layers, hidden, heads, ffn, positions;
};

constexpr FactKeys gpt2_keys{{"n_layer", "num_hidden_layers"},
                             {"n_embd", "hidden_size"},
                             {"n_head", "num_attention_heads"},
                             {"n_inner"},
                             {"n_positions", "max_position_embeddings", "n_ctx"}};
constexpr FactKeys usual_keys{{"num_hidden_layers"},
                              {"hidden_size"},
                              {"num_attention_heads"},
                              {"intermediate_size"},
                              {"max_position_embeddings"}};

struct TypeRow {
    std::string_view model_type;
    Family family;
    FactKeys keys;
    bool tied;      ///< the library's default of tie_word_embeddings
    bool needs_kv;  ///< num_key_value_heads has a default of its own there: demand it
};

constexpr std::array<TypeRow, 5> rows{{
    {"gpt2", Family::gpt, gpt2_keys, true, false},
    {"llama", Family::llama, usual_keys, false, false},
    {"mistral", Family::llama, usual_keys, false, true},
    {"qwen2", Family::llama, usual_keys, false, true},
    {"bert", Family::bert, usual_keys, true, false},
}};

const TypeRow* find_row(std::string_view model_type) {
    for (const TypeRow& row : rows)
        if (row.model_type == model_type) return &row;
    return nullptr;
}

std::string accepted_types() {
    std::string list;
    for (const TypeRow& row : rows)
        list += (list.empty() ? "" : ", ") + std::string(row.model_type);
    return list;
}

/// Reads one config; keeps the first error, so that callers can read all fields and ask once.
class Reader {
  public:
    Reader(const Json& json, std::string_view name) : json_(json), name_(name) {}

    /// The key's value, or nullptr when absent or null.
    const Json* find(std::string_view key) const {
        const auto it = json_.find(key);
        return it == json_.end() || it->is_null() ? nullptr : &*it;
    }

    /// 0 when no spelling is there. Two spellings that disagree are an error.
    std::int64_t integer(const Names& names, std::string_view field_key) {
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

    std::optional<bool> boolean(std::string_view key) {
        const Json* value = find(key);
        if (value == nullptr) return std::nullopt;
        if (!value->is_boolean()) fail(key, "must be true or false, not " + shown(*value));
        return value->is_boolean() && value->get<bool>();
    }

    std::optional<std::string> text(std::string_view key) {
        const Json* value = find(key);
        if (value == nullptr) return std::nullopt;
        if (!value->is_string()) fail(key, "must be text, not " + shown(*value));
        return value->is_string() ? value->get<std::string>() : std::string();
    }

    void fail(std::string_view key, std::string_view sentence) {
        if (!error_) error_ = usage_error(fmt::format("{}: {}", key, sentence), std::string(name_));
    }
    const std::optional<Error>& error() const { return error_; }

  private:
    static std::string shown(const Json& value) {
        return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace), 40);
    }

    std::int64_t checked(const Json& value, std::string_view key, const IntegerField& field) {
        const bool unsigned_big =
            value.is_number_unsigned() && value.get<std::uint64_t>() >> 63 != 0;
        if (value.is_number_integer() && !unsigned_big) {
            const auto number = value.get<std::int64_t>();
            if (number >= field.min && number <= field.max) return number;
        }
        fail(key, fmt::format("must be an integer from {} to {}, not {}", field.min, field.max,
                              shown(value)));
        return 0;
    }

    const Json& json_;
    std::string_view name_;
    std::optional<Error> error_;
};

/// Deepest nesting of brackets outside strings: checked before the parser recurses over the tree.
std::size_t nesting(std::string_view text) {
    std::size_t depth = 0, deepest = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            deepest = std::max(deepest, ++depth);
        } else if ((c == '}' || c == ']') && depth > 0) {
            --depth;
        }
    }
    return deepest;
}

Result<Json> parse_object(std::string_view text, std::string_view name) {
    const std::string where(name);
    if (text.size() > max_model_bytes)
        return usage_error(fmt::format("the model file has {} bytes; at most {} are accepted",
                                       text.size(), max_model_bytes),
                           where);
    if (nesting(text) > max_depth)
        return usage_error(fmt::format("the JSON nests deeper than {} levels", max_depth), where);
    std::set<std::string, std::less<>> keys;
    std::string repeated;
    const auto note_key = [&](int depth, Json::parse_event_t event, Json& value) {
        if (event == Json::parse_event_t::key && depth == 1)
            if (!keys.insert(value.get<std::string>()).second) repeated = value.get<std::string>();
        return true;
    };
    Json json = Json::parse(text, note_key, false);
    if (json.is_discarded() || !json.is_object())
        return usage_error("this is not a JSON object: expected a Hugging Face config.json", where);
    if (!repeated.empty())
        return usage_error(fmt::format("{}: the key is there twice", printable(repeated, 40)),
                           where);
    return json;
}

void read_precision(Reader& reader, Model& model) {
    static constexpr std::array<std::pair<std::string_view, Precision>, 6> names{
        {{"float32", Precision::fp32},
         {"float", Precision::fp32},
         {"float16", Precision::fp16},
         {"half", Precision::fp16},
         {"bfloat16", Precision::bf16},
         {"float8_e4m3fn", Precision::fp8}}};
    for (const char* key : {"dtype", "torch_dtype"}) {
        std::optional<std::string> text = reader.text(key);
        if (!text || text->empty()) continue;
        if (text->starts_with("torch.")) text->erase(0, 6);
        bool known = false;
        for (const auto& [word, precision] : names)
            if (word == *text) model.precision = precision, known = true;
        if (!known)
            reader.fail(key,
                        fmt::format("'{}' is not one of float32, float16, bfloat16, float8_e4m3fn",
                                    printable(*text, 40)));
    }
}

/// Switches that change the architecture in a way that Model has no field for.
void refuse_unpriced(Reader& reader, const Model& model) {
    for (const char* key : {"add_cross_attention", "is_encoder_decoder"})
        if (reader.boolean(key).value_or(false))
            reader.fail(
                key, "true is not supported: only encoders and decoders of one stack are priced");
    const std::int64_t head_dim = reader.integer({"head_dim"}, "hidden");
    if (head_dim != 0 && model.heads != 0 && head_dim * model.heads != model.hidden)
        reader.fail("head_dim",
                    fmt::format("{} times {} heads is not the hidden size {}; only equal "
                                "shares are priced",
                                head_dim, model.heads, model.hidden));
}

std::string missing_keys(const TypeRow& row, const Model& model) {
    std::string list;
    const auto demand = [&](std::int64_t value, std::string_view key) {
        if (value == 0) list += (list.empty() ? "" : ", ") + std::string(key);
    };
    demand(model.layers, row.keys.layers[0]);
    demand(model.hidden, row.keys.hidden[0]);
    demand(model.heads, row.keys.heads[0]);
    if (row.family != Family::gpt) demand(model.ffn_hidden, row.keys.ffn[0]);
    if (row.needs_kv) demand(model.kv_heads, "num_key_value_heads");
    demand(model.vocab, "vocab_size");
    demand(model.seq_length, row.keys.positions[0]);
    return list;
}

Model read_facts(Reader& reader, const TypeRow& row) {
    Model model;
    model.family = row.family;
    set_family_flags(model);
    model.layers = reader.integer(row.keys.layers, "layers");
    model.hidden = reader.integer(row.keys.hidden, "hidden");
    model.heads = reader.integer(row.keys.heads, "heads");
    model.ffn_hidden = reader.integer(row.keys.ffn, "ffn_hidden");
    model.vocab = reader.integer({"vocab_size"}, "vocab");
    model.seq_length = reader.integer(row.keys.positions, "seq_length");
    if (row.family == Family::llama)
        model.kv_heads = reader.integer({"num_key_value_heads"}, "kv_heads");
    model.tied_embedding = reader.boolean("tie_word_embeddings").value_or(row.tied);
    read_precision(reader, model);
    refuse_unpriced(reader, model);
    return model;
}

/// "gpt2-xl" of "openai-community/gpt2-xl", else the file's stem, else its directory.
std::string model_name(Reader& reader, std::string_view file) {
    std::string path(file);
    if (const auto given = reader.text("_name_or_path"); given && !given->empty()) path = *given;
    while (!path.empty() && path.back() == '/') path.pop_back();
    std::vector<std::string_view> parts = split(path, '/');
    std::string_view last = parts.empty() ? std::string_view() : parts.back();
    if (last == "config.json" && parts.size() > 1) last = parts[parts.size() - 2];
    if (last.ends_with(".json")) last.remove_suffix(5);
    return clean_model_name(last);
}

}  // namespace

Result<Model> parse_hf_config(std::string_view text, std::string_view name) {
    const Result<Json> json = parse_object(text, name);
    if (!json) return json.error();
    Reader reader(*json, name);
    const std::optional<std::string> type = reader.text("model_type");
    if (reader.error()) return *reader.error();
    const TypeRow* row = find_row(type.value_or(""));
    if (row == nullptr) {
        const std::string given = type ? "'" + printable(*type, 40) + "'" : "missing";
        return usage_error(fmt::format("model_type is {}; accepted: {}", given, accepted_types()),
                           std::string(name));
    }
    Model model = read_facts(reader, *row);
    model.name = model_name(reader, name);
    if (reader.error()) return *reader.error();
    if (const std::string missing = missing_keys(*row, model); !missing.empty())
        return usage_error(
            fmt::format("the config of model_type {} lacks {}", row->model_type, missing),
            std::string(name));
    return complete_model(std::move(model), name);
}

}  // namespace arena
