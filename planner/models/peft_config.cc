// SPDX-License-Identifier: GPL-2.0-or-later
// PEFT's adapter_config.json says rank and modules of adapters; the model that they stand beside is
// a file or a published name that it refers to. Every key must stand in peft.table, as those of a
// config.json in config.table. Left out: the optimizer's and the data's settings, which PEFT does
// not keep; whether the weights are stored in few bits is what the base's own config.json says.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/text.h"
#include "core/model_fields.h"
#include "planner/models/hf_reader.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/models/words.h"

namespace arena {

namespace {

using Json = HfReader::Json;
using Effect = WordTable::Effect;

// ---- words -------------------------------------------------------------------------------------

/// As PEFT writes what is not set.
bool is_unset(const Json& value) {
    return value.is_null() || value == false || value == "" ||
           ((value.is_array() || value.is_object()) && value.empty());
}

std::string text_of(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// What is wrong with a key; "" = nothing.
std::string obstacle(const std::string& key, const Json& value) {
    const WordTable& table = peft_table();
    const WordTable::Meaning* meaning = table.find(key, table.all());
    if (value.is_null()) return {};
    if (meaning == nullptr) return unknown_word(table, key, table.all());
    if (is_unset(value)) return {};
    if (meaning->effect == Effect::refused) return std::string(meaning->value);
    if (meaning->effect == Effect::only && text_of(value) != meaning->value)
        return fmt::format("{} is not priced: accepted is {}", printable(text_of(value), 40),
                           meaning->value);
    return {};
}

Status check_words(const HfReader& reader, std::string_view text, IgnoredWords& ignored) {
    WordFaults faults(text, reader.name());
    for (const auto& [key, value] : reader.object().items())
        if (std::string wrong = obstacle(key, value); !wrong.empty() && !ignored.take(key))
            faults.add(reader.byte_of(key), key, std::move(wrong));
    if (std::optional<Error> error = faults.error()) return *error;
    return Done{};
}

Status check_kind(HfReader& reader) {
    const std::string kind = reader.text("peft_type").value_or("");
    if (kind != "LORA")
        reader.fail("peft_type",
                    fmt::format("{} is a kind of adapter that is not priced; accepted: LORA",
                                kind.empty() ? "none" : printable(kind, 40)));
    for (const std::string& word : reader.texts("arena.ignore"))
        if (const auto words = read_ignored_words(word); !words || words->size() != 1)
            reader.fail("arena.ignore", "must be a list of keys");
    return reader.error() ? Status(*reader.error()) : Status(Done{});
}

// ---- modules -----------------------------------------------------------------------------------
// Sources: the modules' names in transformers' own code of each type; PEFT's
// TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING and check_target_module_exists().

/// `matrix` 0: a module that is there, and whose adapter is not priced.
struct Module {
    std::string_view parent, name;
    std::int64_t matrix;
};

struct ModuleSet {
    std::string_view types, defaults;  ///< joined by ','
    std::span<const Module> modules;
};

namespace modules_of {

using lora_target::q_proj, lora_target::k_proj, lora_target::v_proj, lora_target::o_proj,
    lora_target::gate_proj, lora_target::up_proj, lora_target::down_proj, lora_target::qkv_proj,
    lora_target::gate_up_proj;

constexpr Module llama[] = {{"self_attn", "q_proj", q_proj}, {"self_attn", "k_proj", k_proj},
                            {"self_attn", "v_proj", v_proj}, {"self_attn", "o_proj", o_proj},
                            {"mlp", "gate_proj", gate_proj}, {"mlp", "up_proj", up_proj},
                            {"mlp", "down_proj", down_proj}};
/// Whether experts are modules depends on the release of transformers.
constexpr Module experts[] = {{"self_attn", "q_proj", q_proj},
                              {"self_attn", "k_proj", k_proj},
                              {"self_attn", "v_proj", v_proj},
                              {"self_attn", "o_proj", o_proj},
                              {"mlp", "gate_proj", 0},
                              {"mlp", "up_proj", 0},
                              {"mlp", "down_proj", 0},
                              {"mlp", "gate", 0},
                              {"mlp", "router", 0},
                              {"mlp", "gate_up_proj", 0},
                              {"experts", "w1", 0},
                              {"experts", "w2", 0},
                              {"experts", "w3", 0}};
constexpr Module latent[] = {{"self_attn", "q_proj", 0},    {"self_attn", "q_a_proj", 0},
                             {"self_attn", "q_b_proj", 0},  {"self_attn", "kv_a_proj_with_mqa", 0},
                             {"self_attn", "kv_b_proj", 0}, {"self_attn", "o_proj", 0},
                             {"mlp", "gate_proj", 0},       {"mlp", "up_proj", 0},
                             {"mlp", "down_proj", 0}};
constexpr Module phi3[] = {{"self_attn", "qkv_proj", qkv_proj},
                           {"self_attn", "o_proj", o_proj},
                           {"mlp", "gate_up_proj", gate_up_proj},
                           {"mlp", "down_proj", down_proj}};
constexpr Module gpt2[] = {{"attn", "c_attn", qkv_proj},
                           {"attn", "c_proj", o_proj},
                           {"mlp", "c_fc", up_proj},
                           {"mlp", "c_proj", down_proj}};
constexpr Module gpt_neox[] = {{"attention", "query_key_value", qkv_proj},
                               {"attention", "dense", o_proj},
                               {"mlp", "dense_h_to_4h", up_proj},
                               {"mlp", "dense_4h_to_h", down_proj}};
constexpr Module opt[] = {{"self_attn", "q_proj", q_proj},
                          {"self_attn", "k_proj", k_proj},
                          {"self_attn", "v_proj", v_proj},
                          {"self_attn", "out_proj", o_proj},
                          {"", "fc1", up_proj},
                          {"", "fc2", down_proj}};
/// "dense" is in attention, in the MLP, in the pooler and before the head.
constexpr Module bert[] = {{"self", "query", q_proj},
                           {"self", "key", k_proj},
                           {"self", "value", v_proj},
                           {"output", "dense", 0}};

}  // namespace modules_of

constexpr ModuleSet sets[] = {
    {"llama,mistral,gemma,gemma2,qwen2,qwen3", "q_proj,v_proj", modules_of::llama},
    {"olmo2,granite", "", modules_of::llama},
    {"mixtral", "q_proj,v_proj", modules_of::experts},
    {"qwen2_moe,qwen3_moe,olmoe,granitemoe,gpt_oss,llama4_text", "", modules_of::experts},
    {"deepseek_v2,deepseek_v3,kimi_k2", "", modules_of::latent},
    {"phi3", "", modules_of::phi3},
    {"gpt2,gpt_bigcode", "c_attn", modules_of::gpt2},
    {"gpt_neox", "query_key_value", modules_of::gpt_neox},
    {"opt", "q_proj,v_proj", modules_of::opt},
    {"bert", "query,value", modules_of::bert}};

const ModuleSet* set_of(std::string_view type) {
    for (const ModuleSet& set : sets)
        for (const std::string_view known : split(set.types, ','))
            if (known == type) return &set;
    return nullptr;
}

bool is_named(const Module& module, std::string_view word) {
    if (word == module.name) return true;
    return !module.parent.empty() && word.size() == module.parent.size() + 1 + module.name.size() &&
           word.starts_with(module.parent) && word.ends_with(module.name) &&
           word[module.parent.size()] == '.';
}

Error not_known(std::string_view type) {
    return usage_error(fmt::format(
        "the modules of {} are not known: give its facts as YAML with lora_rank and lora_targets",
        type.empty() ? "this model" : printable(type, 40)));
}

Error not_priced(std::string_view word, std::string_view type) {
    return usage_error(fmt::format(
        "an adapter on {} of {} is not priced: give the model's facts as YAML with lora_rank", word,
        type));
}

Error unknown(std::string_view word, const ModuleSet& set) {
    std::vector<std::string> accepted;
    for (const Module& module : set.modules)
        if (module.matrix != 0) accepted.emplace_back(module.name);
    return usage_error(fmt::format("'{}' is no module whose adapter is priced; accepted: {}{}",
                                   printable(word, 60), join(accepted, ", "),
                                   accepted.empty() ? "none of this type" : ""));
}

/// Of another type's modules, so that it matches nothing here.
bool is_of_another(std::string_view word) {
    return std::any_of(std::begin(sets), std::end(sets), [&](const ModuleSet& set) {
        return std::any_of(set.modules.begin(), set.modules.end(),
                           [&](const Module& module) { return is_named(module, word); });
    });
}

/// Bits of lora_target for the modules of a list as PEFT matches it: a module whose path ends in
/// one of the words. Words that name modules of other types only match nothing.
Result<std::int64_t> matrices_of(std::string_view type, const std::vector<std::string>& words) {
    const ModuleSet* set = set_of(type);
    if (set == nullptr) return not_known(type);
    std::int64_t matrices = 0;
    for (const std::string& word : words) {
        bool is_there = false;
        for (const Module& module : set->modules) {
            if (!is_named(module, word)) continue;
            if (module.matrix == 0) return not_priced(word, type);
            matrices |= module.matrix;
            is_there = true;
        }
        if (!is_there && !is_of_another(word)) return unknown(word, *set);
    }
    if (matrices == 0) return unknown(words.empty() ? std::string("nothing") : words.front(), *set);
    return matrices;
}

/// Those of "all-linear".
Result<std::int64_t> all_matrices_of(std::string_view type) {
    const ModuleSet* set = set_of(type);
    if (set == nullptr) return not_known(type);
    std::int64_t matrices = 0;
    for (const Module& module : set->modules) {
        if (module.matrix == 0) return not_priced(module.name, type);
        matrices |= module.matrix;
    }
    return matrices;
}

/// What PEFT adapts where target_modules is null; empty = it wants them named.
std::vector<std::string> default_modules_of(std::string_view type) {
    std::vector<std::string> words;
    const ModuleSet* set = set_of(type);
    if (set == nullptr || set->defaults.empty()) return words;
    for (const std::string_view word : split(set->defaults, ',')) words.emplace_back(word);
    return words;
}

/// The model_type of a built-in model; "" = it has no modules that are known.
std::string_view type_of_zoo(std::string_view name) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 14> starts{
        {{"gpt2", "gpt2"},
         {"opt-", "opt"},
         {"bert-", "bert"},
         {"llama-", "llama"},
         {"tinyllama-", "llama"},
         {"mistral-", "mistral"},
         {"qwen2-", "qwen2"},
         {"qwen3-30b-a3b", "qwen3_moe"},
         {"qwen3-235b-a22b", "qwen3_moe"},
         {"qwen3-", "qwen3"},
         {"gpt-neox-", "gpt_neox"},
         {"mixtral-", "mixtral"},
         {"gpt-oss-", "gpt_oss"},
         {"deepseek-v3", "deepseek_v3"}}};
    for (const auto& [start, type] : starts)
        if (name.starts_with(start)) return type;
    return {};
}

// ---- the base ----------------------------------------------------------------------------------

struct Base {
    Model model;
    std::string type;  ///< a model_type; "" = none that is known
};

/// Bits of the frozen weights by the quantization_config of the base's config.json; 0 = all.
std::int64_t bits_of(HfReader& config) {
    const Json* stored = config.find("quantization_config");
    if (stored == nullptr) return 0;
    const auto says = [&](const char* key) {
        return stored->is_object() && stored->contains(key) && (*stored)[key] == true;
    };
    if (says("load_in_4bit") || says("_load_in_4bit")) return 4;
    if (says("load_in_8bit") || says("_load_in_8bit")) return 8;
    config.fail("quantization_config",
                "under adapters, weights of few bits are priced as those of bitsandbytes alone: "
                "load_in_4bit or load_in_8bit");
    return 0;
}

Result<Base> read_base_config(std::string_view text, const std::string& path,
                              IgnoredWords& ignored) {
    Result<Model> model = parse_hf_config(text, path, ignored);
    if (!model) return model.error();
    const Result<Json> json = parse_hf_object(text, path);
    if (!json) return json.error();
    HfReader config(*json, text, path);
    if (config.find("text_config") != nullptr)
        config.fail("text_config",
                    "adapters of a model that sees images may be on what sees them, too, which is "
                    "not priced");
    model->base_bits = bits_of(config);
    if (config.error()) return *config.error();
    return Base{std::move(*model), config.text("model_type").value_or("")};
}

/// The file, or directory with a config.json, that the word names from the adapter's directory.
Result<std::optional<Base>> read_base_file(const std::string& word, std::string_view adapter,
                                           IgnoredWords& ignored, const ReadBase& read) {
    const std::size_t slash = adapter.rfind('/');
    const std::string directory(
        word.starts_with('/') || slash == adapter.npos ? "" : adapter.substr(0, slash + 1));
    std::string path = directory + word;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    for (const std::string& file : {path + "/config.json", path}) {
        if (!file.ends_with(".json")) continue;
        const Result<std::optional<std::string>> text = read(file);
        if (!text) return text.error();
        if (!*text) continue;
        Result<Base> base = read_base_config(**text, file, ignored);
        if (!base) return base.error();
        return std::optional<Base>(std::move(*base));
    }
    return std::optional<Base>();
}

Result<Base> find_base(HfReader& adapter, IgnoredWords& ignored, const ReadBase& read) {
    constexpr const char* key = "base_model_name_or_path";
    const std::string word = adapter.text(key).value_or("");
    if (word.empty())
        adapter.fail(key,
                     "names no model: give a directory with its config.json, a built-in name "
                     "(arena models), or --arena-model=NAME --arena-lora=RANK");
    if (adapter.error()) return *adapter.error();
    if (read) {
        Result<std::optional<Base>> base = read_base_file(word, adapter.name(), ignored, read);
        if (!base) return base.error();
        if (*base) return std::move(**base);
    }
    const std::string_view zoo = zoo_name_of(word);
    if (!zoo.empty()) {
        Result<Model> model = find_zoo_model(std::string(zoo));
        if (!model) return model.error();
        return Base{std::move(*model), std::string(type_of_zoo(zoo))};
    }
    adapter.fail(key, fmt::format("no config.json is in {0}, and {0} is no name that is known "
                                  "(arena models): name a directory that has the model's "
                                  "config.json",
                                  printable(word, 100)));
    return *adapter.error();
}

// ---- adapters ----------------------------------------------------------------------------------

std::int64_t rank_of(HfReader& reader) {
    const std::int64_t rank = reader.integer({"r"}, "lora_rank");
    if (rank == 0) reader.fail("r", "the rank is missing, an integer from 1 to 65536");
    const Json* pattern = reader.find("rank_pattern");
    if (pattern == nullptr) return rank;
    const bool is_even =
        pattern->is_object() && std::all_of(pattern->begin(), pattern->end(),
                                            [&](const Json& other) { return other == rank; });
    if (!is_even) reader.fail("rank_pattern", "ranks that differ are not priced: accepted is {}");
    return rank;
}

Result<std::int64_t> matrices_of(HfReader& reader, const std::string& type) {
    const Json* targets = reader.find("target_modules");
    if (targets == nullptr || is_unset(*targets)) {
        const std::vector<std::string> usual = default_modules_of(type);
        if (usual.empty())
            return usage_error("is missing: list the modules, as q_proj and v_proj, or all-linear");
        return matrices_of(type, usual);
    }
    if (!targets->is_string()) return matrices_of(type, reader.texts("target_modules"));
    std::string word = targets->get<std::string>();
    std::transform(word.begin(), word.end(), word.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (word == "all-linear") return all_matrices_of(type);
    return usage_error(
        "a regular expression is not worked out; accepted: a list of modules, or "
        "all-linear");
}

}  // namespace

bool looks_like_peft(std::string_view text) {
    const Result<Json> json = parse_hf_object(text, "");
    return json && json->contains("peft_type");
}

Result<Model> parse_peft_config(std::string_view text, std::string_view name, IgnoredWords& ignored,
                                const ReadBase& read) {
    const Result<Json> json = parse_hf_object(text, name);
    if (!json) return json.error();
    HfReader reader(*json, text, name);
    if (Status s = check_kind(reader); !s) return s.error();
    for (std::string& word : reader.texts("arena.ignore")) ignored.ask(std::move(word));
    if (Status s = check_words(reader, text, ignored); !s) return s.error();
    Result<Base> base = find_base(reader, ignored, read);
    if (!base) return base.error();
    const std::int64_t rank = rank_of(reader);
    const Result<std::int64_t> matrices = matrices_of(reader, base->type);
    if (!matrices) reader.fail("target_modules", matrices.error().text);
    if (reader.error()) return *reader.error();
    base->model.lora_targets = *matrices;
    if (Status added = add_adapters(base->model, rank); !added) return added.error();
    return complete_model(std::move(base->model), name);
}

}  // namespace arena
