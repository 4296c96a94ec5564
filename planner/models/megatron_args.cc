// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/models/megatron_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "planner/models/hf_config.h"
#include "planner/models/model.h"

namespace arena {

namespace {

constexpr std::size_t max_words = 4096;
constexpr std::int64_t gpt2_vocabulary = 50257;

struct IntegerOption {
    std::string_view name;
    std::string_view field;  ///< of integer_fields(): target and range
};
constexpr IntegerOption integer_options[] = {
    {"--num-layers", "layers"},
    {"--hidden-size", "hidden"},
    {"--num-attention-heads", "heads"},
    {"--num-query-groups", "kv_heads"},
    {"--kv-channels", "head_dim"},
    {"--ffn-hidden-size", "ffn_hidden"},
    {"--vocab-size", "vocab"},
    {"--seq-length", "seq_length"},
    {"--num-experts", "experts"},
    {"--moe-router-topk", "top_k"},
    {"--moe-ffn-hidden-size", "moe_ffn_hidden"},
    {"--moe-shared-expert-intermediate-size", "shared_ffn_hidden"},
    {"--q-lora-rank", "q_lora_rank"},
    {"--kv-lora-rank", "kv_lora_rank"},
    {"--qk-head-dim", "qk_nope_head_dim"},
    {"--qk-pos-emb-head-dim", "qk_rope_head_dim"},
    {"--v-head-dim", "v_head_dim"},
};

/// Options with one word behind them that facts() interprets.
constexpr std::array<std::string_view, 11> word_options{"--normalization",
                                                        "--position-embedding-type",
                                                        "--moe-layer-freq",
                                                        "--window-size",
                                                        "--window-attn-skip-freq",
                                                        "--fp8-format",
                                                        "--fp8-recipe",
                                                        "--fp4-format",
                                                        "--fp4-recipe",
                                                        "--tokenizer-type",
                                                        "--moe-expert-capacity-factor"};

constexpr std::array<std::string_view, 11> switches{"--swiglu",
                                                    "--group-query-attention",
                                                    "--untie-embeddings-and-output-weights",
                                                    "--disable-bias-linear",
                                                    "--add-qkv-bias",
                                                    "--qk-layernorm",
                                                    "--multi-latent-attention",
                                                    "--use-rotary-position-embeddings",
                                                    "--bf16",
                                                    "--fp16",
                                                    "--squared-relu"};

/// Architectures that Model cannot hold.
constexpr std::array<std::string_view, 12> unpriced{"--encoder-num-layers",
                                                    "--decoder-num-layers",
                                                    "--encoder-seq-length",
                                                    "--decoder-seq-length",
                                                    "--retro-add-retriever",
                                                    "--is-hybrid-model",
                                                    "--hybrid-override-pattern",
                                                    "--hybrid-attention-ratio",
                                                    "--hybrid-mlp-ratio",
                                                    "--mamba-state-dim",
                                                    "--glu-linear",
                                                    "--heterogeneous-layers-config-path"};

template <typename List>
bool contains(const List& list, std::string_view word) {
    return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

const IntegerOption* find_integer_option(std::string_view word) {
    for (const IntegerOption& option : integer_options)
        if (option.name == word) return &option;
    return nullptr;
}

// ---- words
// ------------------------------------------------------------------------------------------

bool separates(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\'' || c == '"';
}

/// Words without quotes and comments; a lone backslash (a continued line) is no word.
std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words(1);
    bool comment = false;
    for (const char c : text) {
        if (c == '\n') comment = false;
        if (c == '#' && words.back().empty()) comment = true;
        if (comment) continue;
        if (!separates(c))
            words.back() += c;
        else if (words.back() == "\\")
            words.back().clear();
        else if (!words.back().empty() && words.size() <= max_words)
            words.emplace_back();
    }
    return words;
}

/// An option with its value; a value glued on by '=' is taken apart.
struct Given {
    std::string option, value;
};

bool takes_value(std::string_view option) {
    return find_integer_option(option) != nullptr || contains(word_options, option);
}

std::vector<Given> options_of(const std::vector<std::string>& words) {
    std::vector<Given> given;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string word = words[i];
        if (!word.starts_with("--")) continue;
        while (word.ends_with(')') || word.ends_with('\\')) word.pop_back();
        const std::size_t equal = word.find('=');
        Given one{word.substr(0, equal), equal == std::string::npos ? "" : word.substr(equal + 1)};
        const bool has_next = i + 1 < words.size() && !words[i + 1].starts_with("--");
        if (equal == std::string::npos && has_next && takes_value(one.option)) {
            one.value = words[++i];
            const bool is_pattern = one.value.find('(') != std::string::npos ||
                                    one.value.find('[') != std::string::npos;
            while (!is_pattern && one.value.ends_with(')')) one.value.pop_back();
            while (is_pattern && i + 1 < words.size() && !words[i + 1].starts_with("--") &&
                   std::count(one.value.begin(), one.value.end(), '(') >
                       std::count(one.value.begin(), one.value.end(), ')'))
                one.value += words[++i];
        }
        given.push_back(std::move(one));
    }
    return given;
}

// ---- facts
// ------------------------------------------------------------------------------------------

class Arguments {
  public:
    explicit Arguments(std::string_view name) : name_(name) {}

    /// Keeps what concerns the architecture; the last of two equal options counts, as in Megatron.
    Status take(const Given& given) {
        const std::string shown = printable(given.option, 60);
        if (contains(unpriced, given.option))
            return refuse(shown,
                          "this architecture is not supported: accepted are one decoder "
                          "or encoder stack of attention and MLP or MoE layers");
        if (given.option.starts_with("--bert-")) is_bert_ = true;
        const bool needs_value = takes_value(given.option);
        if (!needs_value && !contains(switches, given.option)) return check_spelling(given.option);
        if (needs_value && given.value.empty()) return refuse(shown, "its value is missing");
        if (given.value.find('$') != std::string::npos)
            return refuse(shown, fmt::format("'{}' is a shell variable: give its value",
                                             printable(given.value, 40)));
        values_[given.option] = given.value;
        return Done{};
    }

    void set_bert() { is_bert_ = true; }

    Result<Model> model() {
        model_.family = family();
        set_flags();
        for (const IntegerOption& option : integer_options) read(option);
        layout();
        read_vocabulary();
        read_attention();
        read_experts();
        read_precision();
        if (error_) return *error_;
        if (const std::string missing = missing_options(); !missing.empty())
            return usage_error("the Megatron arguments lack " + missing, std::string(name_));
        return complete_model(std::move(model_), name_);
    }

  private:
    Error refuse(std::string_view option, std::string_view sentence) const {
        return usage_error(fmt::format("{}: {}", option, sentence), std::string(name_));
    }
    void fail(std::string_view option, std::string_view sentence) {
        if (!error_) error_ = refuse(option, sentence);
    }
    bool has(const std::string& option) const { return values_.contains(option); }
    std::string value(const std::string& option) const {
        const auto it = values_.find(option);
        return it == values_.end() ? "" : it->second;
    }

    /// Training options are Megatron's business, but a slip in one of ours must not pass. Linear in
    /// the option: a pasted script has hundreds.
    Status check_spelling(std::string_view option) const {
        std::string_view near;
        const auto look = [&](std::string_view ours) {
            if (near.empty() && is_slip(option, ours)) near = ours;
        };
        for (const std::string_view ours : switches) look(ours);
        for (const std::string_view ours : word_options) look(ours);
        for (const IntegerOption& ours : integer_options) look(ours.name);
        if (near.empty()) return Done{};
        return refuse(printable(option, 60), fmt::format("unknown, did you mean '{}'?", near));
    }

    /// One letter more, less or other, or '_' for '-'.
    static bool is_slip(std::string_view a, std::string_view b) {
        if (a.size() > b.size() + 1 || b.size() > a.size() + 1) return false;
        const std::size_t prefix = static_cast<std::size_t>(
            std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
        a.remove_prefix(prefix), b.remove_prefix(prefix);
        while (!a.empty() && !b.empty() && a.back() == b.back())
            a.remove_suffix(1), b.remove_suffix(1);
        if (a.size() <= 1 && b.size() <= 1) return true;
        std::string dashed(a);
        std::replace(dashed.begin(), dashed.end(), '_', '-');
        return dashed == b;
    }

    Family family() const {
        if (has("--num-experts")) return Family::moe;
        if (is_bert_) return Family::bert;
        return value("--normalization") == "RMSNorm" ? Family::llama : Family::gpt;
    }

    void set_flags() {
        const std::string norm = value("--normalization"),
                          position = value("--position-embedding-type");
        if (!norm.empty() && norm != "LayerNorm" && norm != "RMSNorm")
            fail("--normalization",
                 fmt::format("'{}' is not one of LayerNorm, RMSNorm", printable(norm, 40)));
        const bool learned = position.empty() || position == "learned_absolute";
        if (!learned && position != "rope" && position != "yarn" && position != "none" &&
            position != "mrope")
            fail("--position-embedding-type",
                 fmt::format("'{}' is not one of learned_absolute, rope, yarn, mrope, none",
                             printable(position, 40)));
        model_.rms_norm = norm == "RMSNorm";
        model_.learned_positions = learned && !has("--use-rotary-position-embeddings");
        model_.tied_embedding = !has("--untie-embeddings-and-output-weights");
        model_.gated_mlp = has("--swiglu");
        model_.linear_bias = !has("--disable-bias-linear");
        model_.qkv_bias = has("--add-qkv-bias") && !model_.linear_bias;
        model_.qk_norm = has("--qk-layernorm") && !has("--multi-latent-attention");
    }

    void read(const IntegerOption& option) {
        const std::string name(option.name);
        if (!has(name)) return;
        const IntegerField& field = *find_integer_field(option.field);
        const auto number = parse_integer(value(name), field.min, field.max);
        if (!number)
            return fail(name, fmt::format("'{}' is not an integer from {} to {}",
                                          printable(value(name), 40), field.min, field.max));
        model_.*field.member = *number;
    }

    /// Megatron's default width: 4 hidden, under SwiGLU two thirds of it in steps of 64.
    void layout() {
        if (model_.ffn_hidden != 0) return;
        model_.ffn_hidden = model_.gated_mlp ? model_.hidden * 8 / 3 / 64 * 64 : model_.hidden * 4;
    }

    void read_vocabulary() {
        if (model_.vocab == 0 && value("--tokenizer-type") == "GPT2BPETokenizer")
            model_.vocab = gpt2_vocabulary;
    }

    void read_attention() {
        if (!has("--group-query-attention") && has("--num-query-groups"))
            fail("--num-query-groups",
                 "Megatron ignores it without --group-query-attention: add that");
        if (has("--group-query-attention") && model_.kv_heads == 0) model_.kv_heads = 1;
        if (!has("--multi-latent-attention"))
            model_.q_lora_rank = model_.kv_lora_rank = model_.qk_nope_head_dim =
                model_.qk_rope_head_dim = model_.v_head_dim = 0;  // Megatron does not look at them
        else
            latent_defaults();
        read_window();
    }

    void latent_defaults() {
        if (model_.kv_lora_rank == 0) model_.kv_lora_rank = 32;
        if (model_.qk_nope_head_dim == 0) model_.qk_nope_head_dim = 128;
        if (model_.qk_rope_head_dim == 0) model_.qk_rope_head_dim = 64;
        if (model_.v_head_dim == 0) model_.v_head_dim = 128;
        model_.kv_heads = model_.head_dim = 0;
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
        const std::string every = value("--window-attn-skip-freq");
        if (every.empty()) return;
        const auto number = parse_integer(every, 1, 10000);
        if (!number)
            return fail("--window-attn-skip-freq", fmt::format("'{}' is not an integer from 1 to "
                                                               "10000; lists are not supported",
                                                               printable(every, 40)));
        model_.full_attention_every = *number;
    }

    void read_experts() {
        if (model_.family != Family::moe) {
            model_.top_k = model_.moe_ffn_hidden = model_.shared_ffn_hidden = 0;
            return;
        }
        if (model_.top_k == 0) model_.top_k = 2;
        if (model_.moe_ffn_hidden == 0) model_.moe_ffn_hidden = model_.ffn_hidden;
        read_capacity();
        read_moe_layers();
    }

    void read_capacity() {
        const std::string text = value("--moe-expert-capacity-factor");
        if (text.empty() || text == "None") return;
        const auto factor = parse_number(text, 1e-3, max_capacity_factor);
        if (!factor)
            return fail("--moe-expert-capacity-factor",
                        fmt::format("'{}' is not a number from 0.001 to {}", printable(text, 40),
                                    max_capacity_factor));
        model_.capacity_factor = *factor;
    }

    /// N, or "([0]*3+[1]*58)": dense layers first, then MoE layers.
    void read_moe_layers() {
        std::string text = value("--moe-layer-freq");
        if (text.empty()) return;
        if (const auto every = parse_integer(text, 1, 10000)) {
            if (model_.layers % *every != 0)
                return fail("--moe-layer-freq",
                            fmt::format("{} does not divide the {} layers", *every, model_.layers));
            model_.moe_every = *every;
            return;
        }
        if (!read_moe_pattern(text))
            fail("--moe-layer-freq",
                 fmt::format("'{}' is not understood: accepted are an integer and "
                             "([0]*K+[1]*N), K dense layers before N MoE layers",
                             printable(text, 40)));
    }

    /// Terms [0] or [1], each perhaps times a number, joined by '+'; zeros before ones.
    bool read_moe_pattern(std::string text) {
        std::erase_if(text, [](char c) { return c == '(' || c == ')'; });
        std::int64_t counts[2] = {0, 0};
        for (const std::string_view term : split(text, '+')) {
            const bool is_moe = term.starts_with("[1]");
            if (!is_moe && !term.starts_with("[0]")) return false;
            const std::string_view rest = term.substr(3);
            const auto times = rest.empty()            ? std::optional<std::int64_t>(1)
                               : rest.starts_with('*') ? parse_integer(rest.substr(1), 0, 10000)
                                                       : std::nullopt;
            if (!times || (!is_moe && counts[1] > 0)) return false;
            counts[is_moe ? 1 : 0] += *times;
        }
        model_.dense_layers = counts[0];
        return counts[0] + counts[1] == model_.layers;
    }

    void read_precision() {
        model_.precision = has("--bf16")   ? Precision::bf16
                           : has("--fp16") ? Precision::fp16
                                           : Precision::fp32;
        if (has("--fp8-format"))
            model_.precision = value("--fp8-recipe") == "mxfp8" ? Precision::mxfp8 : Precision::fp8;
        if (has("--fp4-format")) model_.precision = Precision::nvfp4;
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

    std::string_view name_;
    std::map<std::string, std::string> values_;
    bool is_bert_ = false;
    Model model_;
    std::optional<Error> error_;
};

}  // namespace

bool looks_like_megatron(std::string_view text) {
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

Result<Model> parse_megatron_args(std::string_view text, std::string_view name) {
    if (text.size() > max_model_bytes)
        return usage_error(fmt::format("the model file has {} bytes; at most {} are accepted",
                                       text.size(), max_model_bytes),
                           std::string(name));
    const std::vector<std::string> words = words_of(text);
    if (words.size() > max_words)
        return usage_error(fmt::format("more than {} words of arguments", max_words),
                           std::string(name));
    Arguments arguments(name);
    for (const std::string& word : words) {
        if (word.find("pretrain_bert") != std::string::npos) arguments.set_bert();
        if (word.find("pretrain_t5") != std::string::npos)
            return usage_error(
                "pretrain_t5 is not supported: accepted are pretrain_gpt and "
                "pretrain_bert",
                std::string(name));
    }
    for (const Given& given : options_of(words))
        if (Status s = arguments.take(given); !s) return s.error();
    Result<Model> model = arguments.model();
    if (!model) return model;
    std::string_view stem = name.substr(name.rfind('/') + 1);
    model->name =
        clean_model_name(name.starts_with("--") ? "megatron" : stem.substr(0, stem.rfind('.')));
    return model;
}

}  // namespace arena
