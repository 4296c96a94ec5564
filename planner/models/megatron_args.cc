// SPDX-License-Identifier: GPL-2.0-or-later
// Arguments of Megatron-LM and its forks -> Model, with their defaults. What each option says, and
// which are refused, is megatron.table.
#include "planner/models/megatron_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "planner/models/layers.h"
#include "planner/models/megatron_words.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"

namespace arena {

namespace {

constexpr std::int64_t gpt2_vocabulary = 50257;
/// The planner pads the vocabulary to this much of each rank by itself.
constexpr std::int64_t usual_padding = 128;

struct IntegerOption {
    std::string_view name;
    std::string_view field;  ///< of integer_fields(): target and range
};
constexpr IntegerOption integer_options[] = {
    {"--num-layers", "layers"},
    {"--hidden-size", "hidden"},
    {"--num-attention-heads", "heads"},
    {"--num-query-groups", "kv_heads"},
    {"--num-key-value-heads", "kv_heads"},
    {"--kv-channels", "head_dim"},
    {"--ffn-hidden-size", "ffn_hidden"},
    {"--vocab-size", "vocab"},
    {"--padded-vocab-size", "vocab"},
    {"--pad-vocab-size-to", "vocab"},
    {"--seq-length", "seq_length"},
    {"--max-position-embeddings", "positions"},
    {"--num-experts", "experts"},
    {"--moe-router-topk", "top_k"},
    {"--topk", "top_k"},
    {"--moe-ffn-hidden-size", "moe_ffn_hidden"},
    {"--moe-intermediate-size", "moe_ffn_hidden"},
    {"--moe-shared-expert-intermediate-size", "shared_ffn_hidden"},
    {"--expert-interval", "moe_every"},
    {"--first-k-dense-replace", "dense_layers"},
    {"--q-lora-rank", "q_lora_rank"},
    {"--kv-lora-rank", "kv_lora_rank"},
    {"--qk-head-dim", "qk_nope_head_dim"},
    {"--qk-nope-head-dim", "qk_nope_head_dim"},
    {"--qk-pos-emb-head-dim", "qk_rope_head_dim"},
    {"--qk-rope-head-dim", "qk_rope_head_dim"},
    {"--v-head-dim", "v_head_dim"},
    {"--mtp-num-layers", "mtp_layers"},
    {"--num-nextn-predict-layers", "mtp_layers"},
};

std::string lower(std::string text) {
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return text;
}

class Arguments {
  public:
    Arguments(std::string_view text, std::string_view name, MegatronWords words)
        : text_(text), name_(name), dialect_(words.dialect), is_bert_(words.is_bert) {
        // The last of two equal options counts, as in Megatron.
        for (GivenOption& given : words.read) {
            std::string option = given.option;
            if (option == "--bert-no-binary-head") is_bert_ = true;
            values_[std::move(option)] = std::move(given);
        }
    }

    Result<Model> model() {
        read_experts_list();
        model_.family = family();
        set_flags();
        for (const IntegerOption& option : integer_options) read(option);
        layout();
        read_vocabulary();
        read_attention();
        read_positions();
        read_experts();
        read_precision();
        read_spec();
        if (error_) return *error_;
        if (const std::string missing = missing_options(); !missing.empty())
            return usage_error("the Megatron arguments lack " + missing, std::string(name_));
        return complete_model(std::move(model_), name_);
    }

  private:
    void fail(std::string_view option, std::string_view sentence) {
        if (error_) return;
        const auto given = values_.find(option);
        std::string where(name_);
        if (given != values_.end()) {
            const TextPlace place = place_in(text_, given->second.at);
            where += fmt::format(":{}:{}", place.line, place.column);
        }
        error_ = usage_error(fmt::format("{}: {}", option, sentence), where);
    }
    bool has(std::string_view option) const { return values_.find(option) != values_.end(); }
    std::string value(std::string_view option) const {
        const auto it = values_.find(option);
        return it == values_.end() ? "" : it->second.value;
    }
    bool is(MegatronDialect dialect) const { return dialect_ == dialect; }

    /// One of these words, "" = not given.
    std::string choice(std::string_view option, std::initializer_list<std::string_view> accepted) {
        const std::string given = lower(value(option));
        if (given.empty()) return {};
        std::string list;
        for (const std::string_view word : accepted) {
            if (lower(std::string(word)) == given) return given;
            list += (list.empty() ? "" : ", ") + std::string(word);
        }
        fail(option, fmt::format("'{}' is not one of {}", printable(value(option), 40), list));
        return {};
    }

    /// Megatron-DeepSpeed takes a number for each MoE layer, and 1 for none.
    void read_experts_list() {
        const auto given = values_.find(std::string_view("--num-experts"));
        if (given == values_.end()) return;
        std::string& text = given->second.value;
        const std::vector<std::string_view> counts = split(text, ' ');
        if (std::any_of(counts.begin(), counts.end(),
                        [&](std::string_view c) { return c != counts[0]; }))
            return fail("--num-experts",
                        fmt::format("'{}': layers with different numbers of experts are not priced",
                                    printable(text, 40)));
        text = std::string(counts[0]);
        if (is(MegatronDialect::deepspeed) && text == "1") values_.erase(given);
    }

    Family family() const {
        if (has("--num-experts")) return Family::moe;
        if (is_bert_) return Family::bert;
        return lower(value("--normalization")) == "rmsnorm" ? Family::llama : Family::gpt;
    }

    void set_flags() {
        const std::string norm = choice("--normalization", {"LayerNorm", "RMSNorm"});
        const std::string position = choice(
            "--position-embedding-type",
            {"learned_absolute", "absolute", "rope", "rotary", "yarn", "none", "mrope", "alibi"});
        const std::string glu = choice("--glu-activation", {"geglu", "liglu", "reglu", "swiglu"});
        const bool learned =
            position.empty() || position == "learned_absolute" || position == "absolute";
        model_.rms_norm = norm == "rmsnorm";
        model_.learned_positions =
            learned && !has("--use-rotary-position-embeddings") && !has("--no-position-embedding");
        model_.tied_embedding = !has("--untie-embeddings-and-output-weights");
        model_.gated_mlp =
            has("--swiglu") || has("--quick-geglu") || has("--geglu") || !glu.empty();
        model_.linear_bias = !has("--disable-bias-linear");
        model_.qkv_bias = has("--add-qkv-bias") && !model_.linear_bias;
        model_.qk_norm = has("--qk-layernorm") && !is_latent();
    }

    bool is_latent() const {
        return has("--multi-latent-attention") || has("--multi-head-latent-attention");
    }

    void read(const IntegerOption& option) {
        if (!has(option.name)) return;
        if (option.field == "dense_layers" && value(option.name) == "-1") return;  // none
        const IntegerField& field = *find_integer_field(option.field);
        const std::string text = value(option.name);
        const auto number = parse_integer(text, field.min, field.max);
        if (!number)
            return fail(option.name, fmt::format("'{}' is not an integer from {} to {}",
                                                 printable(text, 40), field.min, field.max));
        model_.*field.member = *number;
    }

    /// Megatron's default width: 4 hidden, under --swiglu two thirds of it in steps of 64.
    void layout() {
        if (model_.ffn_hidden != 0) return;
        model_.ffn_hidden = has("--swiglu") ? model_.hidden * 8 / 3 / 64 * 64 : model_.hidden * 4;
    }

    void read_vocabulary() {
        if (model_.vocab == 0 && value("--tokenizer-type") == "GPT2BPETokenizer")
            model_.vocab = gpt2_vocabulary;
        const std::string text = value("--make-vocab-size-divisible-by");
        if (text.empty()) return;
        const auto multiple = parse_integer(text, 1, find_integer_field("vocab")->max);
        if (!multiple)
            return fail("--make-vocab-size-divisible-by",
                        fmt::format("'{}' is not an integer from 1 to {}", printable(text, 40),
                                    find_integer_field("vocab")->max));
        if (*multiple > usual_padding && !has("--padded-vocab-size"))
            model_.vocab = (model_.vocab + *multiple - 1) / *multiple * *multiple;
    }

    void read_attention() {
        if (!has("--group-query-attention") && has("--num-query-groups") && !is_latent())
            fail("--num-query-groups",
                 "Megatron ignores it without --group-query-attention: add that");
        if (has("--group-query-attention") && model_.kv_heads == 0) model_.kv_heads = 1;
        if (choice("--attention-head-type", {"multihead", "multiquery"}) == "multiquery")
            model_.kv_heads = 1;
        if (is_latent())
            latent_defaults();
        else
            model_.q_lora_rank = model_.kv_lora_rank = model_.qk_nope_head_dim =
                model_.qk_rope_head_dim = model_.v_head_dim = 0;  // Megatron does not look at them
        read_window();
    }

    void latent_defaults() {
        const bool has_defaults = has("--multi-latent-attention");
        if (model_.kv_lora_rank == 0 && has_defaults) model_.kv_lora_rank = 32;
        if (model_.qk_nope_head_dim == 0 && has_defaults) model_.qk_nope_head_dim = 128;
        if (model_.qk_rope_head_dim == 0 && has_defaults) model_.qk_rope_head_dim = 64;
        if (model_.v_head_dim == 0 && has_defaults) model_.v_head_dim = 128;
        if (model_.kv_lora_rank == 0)
            fail("--multi-head-latent-attention",
                 "it needs --kv-lora-rank, --qk-nope-head-dim, --qk-rope-head-dim, --v-head-dim");
        model_.kv_heads = model_.head_dim = 0;
    }

    /// A table of positions has its own number of rows.
    void read_positions() {
        if (!model_.learned_positions) model_.positions = 0;
        if (model_.positions != 0 && model_.positions < model_.seq_length)
            fail("--max-position-embeddings",
                 fmt::format("{} positions are fewer than the {} tokens of --seq-length",
                             model_.positions, model_.seq_length));
    }

    /// "(128,0)" or "128,0": keys to the left.
    void read_window() {
        std::string text = value("--window-size");
        if (text.empty()) return;
        std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == '[' || c == ']'; });
        const std::string_view left = split(text, ',').front();
        const auto window = parse_integer(left, 1, find_integer_field("window")->max);
        if (!window)
            return fail("--window-size",
                        fmt::format("'{}' is not a pair such as 128,0", printable(text, 40)));
        model_.window = *window;
        read_full_layers(value("--window-attn-skip-freq"));
    }

    /// N: each N-th layer sees all; a pattern: those of 0.
    void read_full_layers(const std::string& text) {
        if (text.empty()) return;
        if (const auto number = parse_integer(text, 1, 10000)) {
            model_.full_attention_every = *number;
            return;
        }
        std::vector<int> layers = layer_pattern(text);
        for (int& one : layers) one = 1 - one;
        const std::optional<LayerStep> step = regular_layers(layers, model_.layers);
        if (!step || step->before != 0)
            return fail("--window-attn-skip-freq",
                        fmt::format("'{}' is not understood: accepted are an integer from 1 to "
                                    "10000 and patterns of all layers in which each n-th one is 0",
                                    printable(text, 40)));
        model_.full_attention_every = step->every;
    }

    void read_experts() {
        if (model_.family != Family::moe) {
            model_.top_k = model_.moe_ffn_hidden = model_.shared_ffn_hidden = 0;
            model_.moe_every = model_.dense_layers = 0;
            return;
        }
        const bool is_deepspeed = is(MegatronDialect::deepspeed);
        if (model_.top_k == 0) model_.top_k = is_deepspeed ? 1 : 2;
        if (model_.moe_every == 0 && is_deepspeed) model_.moe_every = 2;
        if (model_.moe_ffn_hidden == 0) model_.moe_ffn_hidden = model_.ffn_hidden;
        read_shared_experts();
        if (is_deepspeed)
            read_deepspeed_capacity();
        else
            read_capacity("--moe-expert-capacity-factor");
        read_moe_layers();
    }

    void read_shared_experts() {
        const std::string text = value("--n-shared-experts");
        if (text.empty()) return;
        const auto number = parse_integer(text, 0, 1024);
        if (!number)
            return fail("--n-shared-experts",
                        fmt::format("'{}' is not an integer from 0 to 1024", printable(text, 40)));
        model_.shared_ffn_hidden = *number * model_.moe_ffn_hidden;
    }

    /// Rows beyond an expert's share are dropped unless the user says otherwise.
    void read_deepspeed_capacity() {
        if (has("--disable-moe-token-dropping")) return;
        model_.capacity_factor = 1;
        read_capacity("--moe-train-capacity-factor");
    }

    void read_capacity(std::string_view option) {
        const std::string text = value(option);
        if (text.empty() || text == "None") return;
        const auto factor = parse_number(text, 1e-3, max_capacity_factor);
        if (!factor)
            return fail(option, fmt::format("'{}' is not a number from 0.001 to {}",
                                            printable(text, 40), max_capacity_factor));
        model_.capacity_factor = *factor;
    }

    /// N, or a pattern such as "([0]*3+[1]*58)" and "([0,1]*24)".
    void read_moe_layers() {
        const std::string text = value("--moe-layer-freq");
        if (text.empty()) return;
        if (text == "-1" && is(MegatronDialect::mindspeed)) return;
        if (const auto every = parse_integer(text, 1, 10000)) {
            if ((model_.layers - model_.dense_layers) % *every != 0 ||
                (*every > 1 && model_.dense_layers > 0))
                return fail("--moe-layer-freq",
                            fmt::format("{} does not divide the {} layers", *every, model_.layers));
            model_.moe_every = *every;
            return;
        }
        const std::optional<LayerStep> step = regular_layers(layer_pattern(text), model_.layers);
        if (!step)
            return fail("--moe-layer-freq",
                        fmt::format("'{}' is not understood: accepted are an integer and a pattern "
                                    "of all layers, as ([0]*K+[1]*N) or ([0,1]*N), in which each "
                                    "n-th layer after K dense ones has experts",
                                    printable(text, 40)));
        model_.dense_layers = step->before;
        model_.moe_every = step->every;
    }

    void read_precision() {
        model_.precision = has("--bf16")   ? Precision::bf16
                           : has("--fp16") ? Precision::fp16
                                           : Precision::fp32;
        if (has("--fp8-format") || has("--fp8-hybrid") || has("--fp8-e4m3"))
            model_.precision = value("--fp8-recipe") == "mxfp8" ? Precision::mxfp8 : Precision::fp8;
        if (has("--fp4-format")) model_.precision = Precision::nvfp4;
    }

    /// A user's own layers are behind any other word.
    void read_spec() {
        // MindSpeed's build the layers that their options say.
        static constexpr std::array<std::string_view, 5> known{
            "local", "te", "megatron.core.models.gpt.gpt_layer_specs",
            "mindspeed_llm.tasks.models.spec.qwen3_spec",
            "mindspeed_llm.tasks.models.spec.deepseek_spec"};
        const std::string spec = value("--spec");
        if (spec.empty() || std::find(known.begin(), known.end(), spec) != known.end()) return;
        fail("--spec", fmt::format("'{}' are layers that are not priced: accepted is "
                                   "megatron.core.models.gpt.gpt_layer_specs",
                                   printable(spec, 60)));
    }

    std::string missing_options() const {
        std::string list;
        for (const char* option :
             {"--num-layers", "--hidden-size", "--num-attention-heads", "--seq-length"})
            if (!has(option)) list += (list.empty() ? "" : ", ") + std::string(option);
        if (model_.vocab == 0)
            list += (list.empty() ? "" : ", ") +
                    std::string("--vocab-size (Megatron asks the tokenizer for it)");
        return list;
    }

    std::string_view text_, name_;
    MegatronDialect dialect_;
    bool is_bert_;
    std::map<std::string, GivenOption, std::less<>> values_;
    Model model_;
    std::optional<Error> error_;
};

}  // namespace

bool looks_like_megatron(std::string_view text) {
    const auto separates = [](char c) {
        return std::string_view(" \t\n\r'\"").find(c) != std::string_view::npos;
    };
    for (const std::string_view option : {"--num-layers", "--hidden-size"})
        for (std::size_t at = text.find(option); at != std::string_view::npos;
             at = text.find(option, at + 1)) {
            const std::size_t end = at + option.size();
            const bool starts = at == 0 || separates(text[at - 1]) || text[at - 1] == '(';
            if (starts && (end == text.size() || separates(text[end]) || text[end] == '='))
                return true;
        }
    return false;
}

Result<Model> parse_megatron_args(std::string_view text, std::string_view name,
                                  IgnoredWords& ignored) {
    if (text.size() > max_model_bytes)
        return usage_error(fmt::format("the model file has {} bytes; at most {} are accepted",
                                       text.size(), max_model_bytes),
                           std::string(name));
    Result<MegatronWords> words = parse_megatron_words(text, name, ignored);
    if (!words) return words.error();
    Result<Model> model = Arguments(text, name, std::move(*words)).model();
    if (!model) return model;
    std::string_view stem = name.substr(name.rfind('/') + 1);
    model->name =
        clean_model_name(name.starts_with("--") ? "megatron" : stem.substr(0, stem.rfind('.')));
    return model;
}

}  // namespace arena
