// SPDX-License-Identifier: GPL-2.0-or-later
// Hugging Face config.json -> Model. Every key must stand in config.table, where it is read, has no
// effect on cost, or is refused; the class in `architectures` must be one whose layers are those of
// the model_type; what a row of hf_types.h does not explain is refused, never guessed. seq_length
// is the longest position the model was made for; the seq-length setting overrides it. Left out:
// multi-token-prediction layers, which the library does not train, rotary scaling, quantised
// weights (training precision is torch_dtype's).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/text.h"
#include "planner/models/hf_reader.h"
#include "planner/models/hf_types.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/models/words.h"

namespace arena {

namespace {

using Json = HfReader::Json;
using Effect = WordTable::Effect;

// ---- words
// ------------------------------------------------------------------------------------------------

/// What of a class's name says which head it has, longest first.
constexpr std::array<std::string_view, 9> endings{"ForConditionalGeneration",
                                                  "ForImageClassification",
                                                  "ForPreTraining",
                                                  "ForCausalLM",
                                                  "ForMaskedLM",
                                                  "LMHeadModel",
                                                  "LMHeadCustomModel",
                                                  "PreTrainedModel",
                                                  "Model"};

std::string accepted_classes(std::uint64_t type) { return join(config_table().names(type), ", "); }

/// Why a class is not that of a model_type; "" = it is.
std::string class_obstacle(std::string_view given, std::uint64_t type) {
    const WordTable::Meaning* meaning = config_table().find(given, type);
    if (meaning != nullptr && meaning->effect == Effect::name) return {};
    const std::string shown = printable(given, 60);
    const std::string accepted = "accepted: " + accepted_classes(type);
    for (const char* classifier : {"Classification", "Reward", "QuestionAnswering", "Score"})
        if (given.find(classifier) != std::string_view::npos)
            return fmt::format(
                "{} has another head than one over the vocabulary, which is not "
                "priced; {}",
                shown, accepted);
    if (given.ends_with("Model") && !given.ends_with("LMHeadModel"))
        return fmt::format("{} has no head over the vocabulary, or layers of its own; {}", shown,
                           accepted);
    return fmt::format("{} is no known class of model_type {}; {}", shown,
                       config_table().titles(type), accepted);
}

/// "Llama" of LlamaForCausalLM.
std::string_view stem_of(std::string_view name) {
    for (const std::string_view ending : endings)
        if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
    return name;
}

/// Of the classes that a model's own code brings: those of the library with another file.
bool is_kin(std::string_view given, std::uint64_t type) {
    const std::vector<std::string> names = config_table().names(type);
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
        const std::string_view stem = stem_of(name);
        return given == name || (given.starts_with(stem) && stem_of(given) == stem) ||
               (given.starts_with(stem) && given.substr(stem.size()).starts_with("For"));
    });
}

/// One object of the text held against the table.
class WordCheck {
  public:
    WordCheck(const HfReader& reader, std::uint64_t type, IgnoredWords& ignored, WordFaults& faults)
        : reader_(reader), type_(type), ignored_(ignored), faults_(faults) {}

    void run() {
        classes();
        own_code();
        // What is known to matter before what nobody knows.
        for (const bool is_known : {true, false})
            for (const auto& [key, value] : reader_.object().items())
                if ((config_table().find(key, type_) != nullptr) == is_known) check(key, value);
    }

  private:
    void fail(const std::string& key, std::string sentence) {
        if (ignored_.take(key)) return;
        const bool is_told = faults_.is_first();  // each place costs a walk over the text
        faults_.add(is_told ? reader_.byte_of(key) : std::nullopt, key, std::move(sentence));
    }

    void classes() {
        const Json* list = reader_.find("architectures");
        if (list == nullptr) return;
        if (!list->is_array() || list->size() > 8)
            return fail("architectures", "must be a list of one class");
        for (const Json& name : *list) {
            const std::string obstacle =
                class_obstacle(name.is_string() ? name.get<std::string>() : "", type_);
            if (!obstacle.empty()) fail("architectures", obstacle);
        }
    }

    void own_code() {
        const Json* map = reader_.find("auto_map");
        if (map == nullptr) return;
        if (!map->is_object()) return fail("auto_map", "must be a map of classes");
        for (const auto& [key, value] : map->items()) {
            if (!key.starts_with("AutoModel")) continue;
            const std::string text = value.is_string() ? value.get<std::string>() : "";
            const std::string name = text.substr(text.rfind('.') + 1);
            if (!is_kin(name, type_))
                fail("auto_map", fmt::format("{} is a class of its own, which may have other "
                                             "layers; accepted: {}",
                                             printable(name, 60), accepted_classes(type_)));
        }
    }

    void check(const std::string& key, const Json& value) {
        if (value.is_null()) return;  // as if it were not there
        const WordTable::Meaning* meaning = config_table().find(key, type_);
        const bool is_told = faults_.is_first();
        if (meaning == nullptr || meaning->effect == Effect::name)
            fail(key, is_told ? unknown_word(config_table(), key, type_) : "");
        else if (meaning->effect == Effect::refused)
            fail(key, std::string(meaning->value));
        else if (meaning->effect == Effect::only && text_of(value) != meaning->value)
            fail(key, fmt::format("{} is not priced: accepted is {}", printable(text_of(value), 40),
                                  meaning->value));
    }

    static std::string text_of(const Json& value) {
        if (value.is_string()) return value.get<std::string>();
        return value.dump(-1, ' ', true, Json::error_handler_t::replace);
    }

    const HfReader& reader_;
    std::uint64_t type_;
    IgnoredWords& ignored_;
    WordFaults& faults_;
};

// ---- types
// ------------------------------------------------------------------------------------------------

Error unknown_type(const HfReader& reader, const std::optional<std::string>& type) {
    const std::string given = type ? "'" + printable(*type, 40) + "'" : "missing";
    bool has_experts = given.find("moe") != std::string::npos;
    for (const auto& [key, value] : reader.object().items())
        has_experts = has_experts || key.find("expert") != std::string::npos;
    return usage_error(
        fmt::format(
            "model_type is {}; accepted: {}. Any other transformer: its facts as YAML (family: {}, "
            "vocab, seq_length); any other model: YAML of family custom, a list of layers with "
            "forward_flops, parameter_bytes and activation_bytes; see arena-model(5)",
            given, accepted_types(),
            has_experts ? "moe, layers, hidden, heads, experts, top_k, moe_ffn_hidden"
                        : "llama, layers, hidden, heads, ffn_hidden"),
        std::string(reader.name()));
}

/// The object that describes the text model, and its type.
struct TextPart {
    const Json* inner = nullptr;  ///< null: the top one
    std::string type;
    std::uint64_t words = 0;  ///< dialects of its keys
};

/// Types whose text model is another type's, in a text_config (with _text behind the name) or, as
/// older releases wrote them, flat.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> text_types{
    {{"qwen2_vl", "qwen2"},
     {"qwen2_5_vl", "qwen2"},
     {"qwen3_vl", "qwen3"},
     {"qwen3_vl_moe", "qwen3_moe"}}};

std::string text_type_of(std::string_view type) {
    const std::string_view stem = type.ends_with("_text") ? type.substr(0, type.size() - 5) : type;
    for (const auto& [given, text] : text_types)
        if (given == stem) return std::string(text);
    return type == "llama4" ? "llama4_text" : std::string(type);
}

/// A model that sees images holds its text model in text_config.
TextPart text_part(HfReader& top, const std::string& type) {
    const Json* inner = top.find("text_config");
    const bool is_wrapper = find_type_row(type) == nullptr && config_table().dialect(type) != 0;
    const auto part = [&](const std::string& text) {
        const std::uint64_t own = inner == nullptr && is_wrapper ? config_table().dialect(type) : 0;
        return TextPart{is_wrapper ? inner : nullptr, text, config_table().dialect(text) | own};
    };
    if (inner == nullptr || !is_wrapper) return part(text_type_of(type));
    if (!inner->is_object()) {
        top.fail("text_config", "must be an object");
        return part(type);
    }
    const auto own = inner->find("model_type");
    if (own != inner->end() && own->is_string()) return part(text_type_of(own->get<std::string>()));
    const std::string usual = text_type_of(type);
    return part(usual != type ? usual : type == "mistral3" ? "mistral" : "llama");
}

// ---- facts that all types have
// ------------------------------------------------------------------------------------------------

std::string missing_keys(const HfReader& reader, const TypeRow& row, const Model& model) {
    std::string list;
    const auto demand = [&](bool is_there, std::string_view key) {
        if (!is_there) list += (list.empty() ? "" : ", ") + std::string(key);
    };
    demand(model.layers != 0, row.keys.layers[0]);
    demand(model.hidden != 0, row.keys.hidden[0]);
    demand(model.heads != 0, row.keys.heads[0]);
    if (!row.demanded.empty())
        for (const std::string_view key : split(row.demanded, ','))
            demand(reader.mentions(key), key);
    demand(model.vocab != 0, "vocab_size");
    demand(model.seq_length != 0, row.keys.positions[0]);
    return list;
}

bool is_read(const TypeRow& row, std::string_view key) {
    const WordTable& table = config_table();
    const WordTable::Meaning* meaning = table.find(key, table.dialect(row.model_type));
    return meaning != nullptr && meaning->effect == Effect::read;
}

Model read_facts(HfReader& reader, const TypeRow& row) {
    Model model;
    model.family = row.family;
    set_family_flags(model);
    model.layers = reader.integer(row.keys.layers, "layers");
    model.hidden = reader.integer(row.keys.hidden, "hidden");
    model.heads = reader.integer(row.keys.heads, "heads");
    model.ffn_hidden = reader.integer(row.keys.ffn, "ffn_hidden");
    model.vocab = reader.integer({"vocab_size"}, "vocab");
    model.seq_length = reader.integer(row.keys.positions, "seq_length");
    model.tied_embedding = reader.boolean("tie_word_embeddings").value_or(row.tied);
    if (is_read(row, "num_key_value_heads"))
        model.kv_heads = reader.integer({"num_key_value_heads"}, "kv_heads");
    if (is_read(row, "head_dim")) model.head_dim = reader.integer({"head_dim"}, "head_dim");
    row.special(reader, model);
    read_precision(reader, model);
    return model;
}

/// "gpt2-xl" of "openai-community/gpt2-xl", else the file's stem, else its directory.
std::string model_name(HfReader& reader) {
    std::string path(reader.name());
    if (const auto given = reader.text("_name_or_path"); given && !given->empty()) path = *given;
    while (!path.empty() && path.back() == '/') path.pop_back();
    std::vector<std::string_view> parts = split(path, '/');
    std::string_view last = parts.empty() ? std::string_view() : parts.back();
    const std::string_view directory = parts.size() > 1 ? parts[parts.size() - 2] : "";
    if (last == "config.json" && !directory.empty() && !directory.starts_with('.'))
        last = directory;
    if (last.ends_with(".json")) last.remove_suffix(5);
    return clean_model_name(last);
}

Status read_own_ignores(HfReader& top, IgnoredWords& ignored) {
    for (std::string& word : top.texts("arena.ignore")) {
        if (const auto words = read_ignored_words(word); !words || words->size() != 1)
            top.fail("arena.ignore", "must be a list of keys");
        ignored.ask(std::move(word));
    }
    return top.error() ? Status(*top.error()) : Status(Done{});
}

}  // namespace

namespace {

Result<Model> read_config(const Json& json, std::string_view text, std::string_view name,
                          IgnoredWords& ignored) {
    HfReader top(json, text, name);
    if (Status s = read_own_ignores(top, ignored); !s) return s.error();
    std::optional<std::string> type = top.text("model_type");
    if (!type) type = top.text("_class_name");  // of diffusers
    if (top.error()) return *top.error();
    const TextPart part = text_part(top, type.value_or(""));
    if (top.error()) return *top.error();
    const TypeRow* row = find_type_row(part.type);
    HfReader reader =
        part.inner ? HfReader(*part.inner, text, name, "text_config") : HfReader(json, text, name);
    if (row == nullptr && !is_listed_type(part.type))
        return unknown_type(reader, part.inner ? std::optional(part.type) : type);
    WordFaults faults(text, name);
    if (part.inner) WordCheck(top, config_table().dialect(*type), ignored, faults).run();
    WordCheck(reader, part.words, ignored, faults).run();
    if (const std::optional<Error> error = faults.error()) return *error;
    if (row && top.find("vision_config") != nullptr) ignored.note("vision_config");

    Model model = row ? read_facts(reader, *row) : read_listed_model(reader, part.type);
    model.name = model_name(reader);
    if (part.inner && !reader.text("dtype") && !reader.text("torch_dtype"))
        read_precision(top, model);
    if (top.error()) return *top.error();
    if (reader.error()) return *reader.error();
    if (row)
        if (const std::string missing = missing_keys(reader, *row, model); !missing.empty())
            return usage_error(
                fmt::format("the config of model_type {} lacks {}", row->model_type, missing),
                std::string(name));
    return complete_model(std::move(model), name);
}

}  // namespace

Result<Model> parse_hf_config(std::string_view text, std::string_view name, IgnoredWords& ignored) {
    const Result<Json> json = parse_hf_object(text, name);
    if (!json) return json.error();
    return read_config(*json, text, name, ignored);
}

// ---- the same keys as YAML
// ------------------------------------------------------------------------------------------------

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 2> short_names{
    {{"dit", "DiTTransformer2DModel"}, {"unet", "UNet2DConditionModel"}}};

std::string_view type_of_family(std::string_view family) {
    for (const auto& [given, type] : short_names)
        if (given == family) return type;
    return is_listed_type(family) ? family : std::string_view();
}

/// As YAML 1.2 reads plain scalars.
Json json_of_scalar(const YamlNode& node) {
    if (node.quoted) return node.scalar;
    const std::string& text = node.scalar;
    if (text.empty() || text == "null" || text == "~") return nullptr;
    if (text == "true" || text == "false") return text == "true";
    if (const auto whole = parse_integer(text, std::numeric_limits<std::int64_t>::min() + 1,
                                         std::numeric_limits<std::int64_t>::max()))
        return *whole;
    if (const auto number = parse_number(text, -1e300, 1e300)) return *number;
    return text;
}

Json json_of(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::scalar) return json_of_scalar(node);
    Json json = node.kind == YamlNode::Kind::map ? Json::object() : Json::array();
    for (const YamlNode& item : node.items) json.push_back(json_of(item));
    for (const auto& [key, member] : node.members) json[key] = json_of(member);
    return json;
}

/// Our word for a precision in the library's.
Status put_precision(const YamlNode& root, std::string_view file, Json& json) {
    const YamlNode* node = root.find("precision");
    json.erase("precision");
    if (node == nullptr) return Done{};
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> words{
        {{"fp32", "float32"}, {"fp16", "float16"}, {"bf16", "bfloat16"}, {"fp8", "float8_e4m3fn"}}};
    for (const auto& [ours, theirs] : words)
        if (node->scalar == ours) json["dtype"] = theirs;
    return json.contains("dtype")
               ? Status(Done{})
               : usage_error(fmt::format("precision '{}' is none of fp32, fp16, bf16, fp8",
                                         printable(node->scalar, 40)),
                             node->where(file));
}

}  // namespace

bool is_listed_family(std::string_view family) { return !type_of_family(family).empty(); }

std::string listed_families() {
    std::string list = listed_types();
    for (const auto& [given, type] : short_names) list.replace(list.find(type), type.size(), given);
    return list;
}

Result<Model> read_listed_family(const YamlNode& root, std::string_view file,
                                 IgnoredWords& ignored) {
    Json json = json_of(root);
    const std::string family = root.find("family")->scalar;
    for (const char* ours : {"family", "name"}) json.erase(ours);
    json["model_type"] = type_of_family(family);
    if (Status s = put_precision(root, file, json); !s) return s.error();
    Result<Model> model = read_config(json, "", file, ignored);
    if (const YamlNode* name = root.find("name"); model && name != nullptr)
        model->name = clean_model_name(name->scalar);
    return model;
}

}  // namespace arena
