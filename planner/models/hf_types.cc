// SPDX-License-Identifier: GPL-2.0-or-later
// See hf_types.h. What a row does not explain is refused, never guessed.
#include "planner/models/hf_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/text.h"
#include "planner/models/layers.h"

namespace arena {

namespace {

using Names = HfReader::Names;

constexpr FactKeys gpt2_keys{{"n_layer", "num_hidden_layers"},
                             {"n_embd", "hidden_size"},
                             {"n_head", "num_attention_heads"},
                             {"n_inner"},
                             {"n_positions", "max_position_embeddings", "n_ctx"}};
constexpr FactKeys llama4_keys{{"num_hidden_layers"},
                               {"hidden_size"},
                               {"num_attention_heads"},
                               {"intermediate_size_mlp"},
                               {"max_position_embeddings"}};
constexpr FactKeys usual_keys{{"num_hidden_layers"},
                              {"hidden_size"},
                              {"num_attention_heads"},
                              {"intermediate_size"},
                              {"max_position_embeddings"}};

// ---- what is special --------------------------------------------------------------------------

void no_more(HfReader&, Model&) {}

}  // namespace

void must_be(HfReader& reader, std::string_view key, bool wanted, std::string_view why) {
    if (reader.boolean(key).value_or(wanted) != wanted)
        reader.fail(key, fmt::format("{} is not supported: {}", !wanted, why));
}

void must_divide(HfReader& reader, std::string_view key, double parts, double whole,
                 std::string_view of) {
    if (!reader.error() && std::fmod(whole, parts) != 0)
        reader.fail(key, fmt::format("{:.0f} does not divide the {:.0f} of {}", parts, whole, of));
}

namespace {

/// SantaCoder's own class over gpt2: all query heads share one key and value head.
void gpt2(HfReader& reader, Model& model) {
    const std::string type = reader.text("attention_head_type").value_or("multihead");
    if (type == "multiquery")
        model.kv_heads = 1;
    else if (type != "multihead")
        reader.fail("attention_head_type",
                    fmt::format("'{}' is not one of multihead, multiquery", printable(type, 40)));
}

void gpt_bigcode(HfReader& reader, Model& model) {
    if (reader.boolean("multi_query").value_or(true)) model.kv_heads = 1;
}

void gpt_neox(HfReader& reader, Model& model) {
    model.learned_positions = false;
    must_be(reader, "attention_bias", true, "the biases of gpt_neox stand in all matrices");
}

/// llama and its kin: biases in the projections, in everything, or nowhere.
void optional_biases(HfReader& reader, Model& model) {
    const bool attention = reader.boolean("attention_bias").value_or(false);
    const bool mlp = reader.boolean("mlp_bias").value_or(false);
    if (mlp && !attention)
        reader.fail("mlp_bias", "true without attention_bias is not supported: accepted are both");
    model.linear_bias = attention && mlp;
    model.qkv_bias = model.qkv_bias || (attention && !mlp);
}

/// Layers that see all tokens must be each n-th one; the others see `window` of them.
void set_windows(HfReader& reader, std::string_view key, const std::vector<bool>& is_full,
                 std::int64_t window, Model& model) {
    if (static_cast<std::int64_t>(is_full.size()) != model.layers)
        return reader.fail(
            key, fmt::format("has {} entries for {} layers", is_full.size(), model.layers));
    std::size_t every = 0;  // the first full layer, counted from 1; 0 = none
    while (every < is_full.size() && !is_full[every]) ++every;
    every = every == is_full.size() ? 0 : every + 1;
    for (std::size_t i = 0; i < is_full.size(); ++i)
        if (is_full[i] != (every > 0 && (i + 1) % every == 0))
            return reader.fail(key,
                               "accepted are patterns in which each n-th layer is full_attention");
    model.window = every == 1 ? 0 : window;
    model.full_attention_every = every == 1 ? 0 : static_cast<std::int64_t>(every);
}

/// layer_types when it is there (each n-th layer full), else the window on all layers.
void read_window(HfReader& reader, Model& model, std::int64_t window,
                 std::string_view local = "sliding_attention") {
    const std::vector<std::string> types = reader.texts("layer_types");
    model.window = window;
    if (types.empty() || window == 0) {
        if (!types.empty() && static_cast<std::int64_t>(types.size()) != model.layers)
            reader.fail("layer_types",
                        fmt::format("has {} entries for {} layers", types.size(), model.layers));
        return;
    }
    std::vector<bool> is_full;
    for (const std::string& type : types) {
        is_full.push_back(type == "full_attention");
        if (!is_full.back() && type != local)
            return reader.fail("layer_types", fmt::format("'{}' is not one of full_attention, {}",
                                                          printable(type, 40), local));
    }
    set_windows(reader, "layer_types", is_full, window, model);
}

void mistral(HfReader& reader, Model& model) {
    constexpr std::int64_t library_default = 4096;  // of a config that does not mention the key
    const bool is_default = !reader.mentions("sliding_window");
    read_window(reader, model,
                is_default ? library_default : reader.integer({"sliding_window"}, "window"));
    optional_biases(reader, model);
}

void phi3(HfReader& reader, Model& model) {
    read_window(reader, model, reader.integer({"sliding_window"}, "window"));
}

/// Each layer's four norms are priced as two.
void gemma2(HfReader& reader, Model& model) {
    must_be(reader, "use_bidirectional_attention", false, "attention is causal here");
    optional_biases(reader, model);
    constexpr std::int64_t library_default = 4096;
    model.full_attention_every = 2;  // the library's own pattern
    read_window(reader, model,
                reader.mentions("sliding_window") ? reader.integer({"sliding_window"}, "window")
                                                  : library_default);
    if (model.window == 0) model.full_attention_every = 0;
}

/// Its norms of queries and keys go over all heads at once.
void olmo2(HfReader& reader, Model& model) {
    model.qk_norm = true;
    optional_biases(reader, model);
}

/// use_sliding_window turns the window on for layers from max_window_layers on.
void read_switched_window(HfReader& reader, Model& model) {
    if (!reader.boolean("use_sliding_window").value_or(false)) return;
    const std::int64_t window = reader.integer({"sliding_window"}, "window");
    if (!reader.texts("layer_types").empty()) return read_window(reader, model, window);
    const std::int64_t first = reader.integer({"max_window_layers"}, "dense_layers");
    if (first != 0 && first < model.layers)
        return reader.fail("max_window_layers",
                           fmt::format("{} is not supported: accepted are 0 and the {} layers",
                                       first, model.layers));
    model.window = first == 0 ? window : 0;
}

void qwen2(HfReader& reader, Model& model) {
    model.qkv_bias = true;
    read_switched_window(reader, model);
}

void qwen3(HfReader& reader, Model& model) {
    model.qk_norm = true;
    optional_biases(reader, model);
    read_switched_window(reader, model);
}

void mixtral(HfReader& reader, Model& model) {
    model.experts = reader.integer({"num_local_experts"}, "experts");
    model.top_k = reader.integer({"num_experts_per_tok"}, "top_k");
    model.moe_ffn_hidden = reader.integer({"intermediate_size"}, "moe_ffn_hidden");
    read_window(reader, model, reader.integer({"sliding_window"}, "window"));
}

/// Layers that keep a dense MLP must be the first ones.
void read_dense_layers(HfReader& reader, Model& model) {
    const HfReader::Json* list = reader.find("mlp_only_layers");
    if (list == nullptr) return;
    std::int64_t next = 0;
    const bool is_prefix =
        list->is_array() && std::all_of(list->begin(), list->end(), [&](const HfReader::Json& v) {
            return v.is_number_integer() && v == next++;
        });
    if (!is_prefix || (next > 0 && model.moe_every > 1))
        return reader.fail("mlp_only_layers",
                           "accepted are [] and, with decoder_sparse_step 1, [0, 1, ...]: the "
                           "first layers");
    model.dense_layers = next;
}

void qwen_experts(HfReader& reader, Model& model) {
    model.experts = reader.integer({"num_experts", "num_local_experts"}, "experts");
    model.top_k = reader.integer({"num_experts_per_tok"}, "top_k");
    model.moe_ffn_hidden = reader.integer({"moe_intermediate_size"}, "moe_ffn_hidden");
    model.moe_every = reader.integer({"decoder_sparse_step"}, "moe_every");
    read_dense_layers(reader, model);
}

void qwen3_moe(HfReader& reader, Model& model) {
    qwen3(reader, model);
    qwen_experts(reader, model);
}

void qwen2_moe(HfReader& reader, Model& model) {
    model.qkv_bias = reader.boolean("qkv_bias").value_or(true);
    read_switched_window(reader, model);
    qwen_experts(reader, model);
    model.shared_ffn_hidden =
        reader.integer({"shared_expert_intermediate_size"}, "shared_ffn_hidden");
}

/// Its norms of queries and keys go over all heads at once.
void olmoe(HfReader& reader, Model& model) {
    olmo2(reader, model);
    model.experts = reader.integer({"num_experts", "num_local_experts"}, "experts");
    model.top_k = reader.integer({"num_experts_per_tok"}, "top_k");
    model.moe_ffn_hidden = reader.integer({"intermediate_size"}, "moe_ffn_hidden");
}

void granitemoe(HfReader& reader, Model& model) {
    optional_biases(reader, model);
    model.experts = reader.integer({"num_local_experts"}, "experts");
    model.top_k = reader.integer({"num_experts_per_tok"}, "top_k");
    model.moe_ffn_hidden = reader.integer({"intermediate_size"}, "moe_ffn_hidden");
}

void gpt_oss(HfReader& reader, Model& model) {
    must_be(reader, "attention_bias", true, "gpt_oss has biases in all matrices");
    model.linear_bias = true;
    model.experts = reader.integer({"num_local_experts", "num_experts"}, "experts");
    model.top_k = reader.integer({"num_experts_per_tok", "experts_per_token"}, "top_k");
    model.moe_ffn_hidden = reader.integer({"intermediate_size"}, "moe_ffn_hidden");
    model.full_attention_every = 2;  // the library's own pattern
    read_window(reader, model, reader.integer({"sliding_window"}, "window"));
    if (model.window == 0) model.full_attention_every = 0;
}

/// Version 2 too, whose smallest model does not compress its queries.
void deepseek(HfReader& reader, Model& model) {
    must_be(reader, "attention_bias", false, "latent attention has no biases");
    model.experts = reader.integer({"n_routed_experts"}, "experts");
    model.top_k = reader.integer({"num_experts_per_tok"}, "top_k");
    model.moe_ffn_hidden = reader.integer({"moe_intermediate_size"}, "moe_ffn_hidden");
    model.dense_layers = reader.integer({"first_k_dense_replace"}, "dense_layers");
    const std::int64_t shared = reader.integer({"n_shared_experts"}, "dense_layers");
    model.shared_ffn_hidden = shared * model.moe_ffn_hidden;
    if (const std::int64_t every = reader.integer({"moe_layer_freq"}, "moe_every"); every > 1)
        reader.fail("moe_layer_freq", fmt::format("{} is not supported: accepted is 1", every));
    model.q_lora_rank = reader.integer({"q_lora_rank"}, "q_lora_rank");
    model.kv_lora_rank = reader.integer({"kv_lora_rank"}, "kv_lora_rank");
    model.qk_nope_head_dim = reader.integer({"qk_nope_head_dim"}, "qk_nope_head_dim");
    model.qk_rope_head_dim = reader.integer({"qk_rope_head_dim"}, "qk_rope_head_dim");
    model.v_head_dim = reader.integer({"v_head_dim"}, "v_head_dim");
}

/// Integers of a list, nothing when it is no such list or has none.
std::vector<std::int64_t> read_layer_numbers(HfReader& reader, std::string_view key,
                                             std::int64_t most) {
    std::vector<std::int64_t> numbers;
    const HfReader::Json* list = reader.find(key);
    if (list == nullptr) return numbers;
    const bool is_list =
        list->is_array() && std::all_of(list->begin(), list->end(), [&](const HfReader::Json& v) {
            return v.is_number_integer() && v >= 0 && v <= most;
        });
    if (!is_list)
        reader.fail(key, fmt::format("must be a list of integers from 0 to {}", most));
    else
        for (const HfReader::Json& v : *list) numbers.push_back(v.get<std::int64_t>());
    return numbers;
}

/// Which layers have experts: moe_layers, or each n-th one.
void read_interleaved_experts(HfReader& reader, Model& model) {
    model.moe_every = reader.integer({"interleave_moe_layer_step"}, "moe_every");
    if (reader.find("moe_layers") == nullptr) return;
    std::vector<int> has_experts(static_cast<std::size_t>(model.layers), 0);
    for (const std::int64_t layer : read_layer_numbers(reader, "moe_layers", model.layers - 1))
        has_experts[static_cast<std::size_t>(layer)] = 1;
    const std::optional<LayerStep> step = regular_layers(has_experts, model.layers);
    if (!step)
        return reader.fail("moe_layers",
                           "accepted are lists of each n-th layer, from one on to the last");
    model.moe_every = step->every;
    model.dense_layers = step->before;
}

/// Layers with rotary positions see chunks of the tokens, the others (each fourth) all. A chunk is
/// priced as a window of that size: the same for samples of one chunk, too dear for longer ones.
void read_chunks(HfReader& reader, Model& model) {
    const std::int64_t chunk = reader.mentions("attention_chunk_size")
                                   ? reader.integer({"attention_chunk_size"}, "window")
                                   : 8192;
    if (!reader.texts("layer_types").empty())
        return read_window(reader, model, chunk, "chunked_attention");
    const std::vector<std::int64_t> rotary = read_layer_numbers(reader, "no_rope_layers", 1);
    if (!rotary.empty() && chunk != 0) {
        std::vector<bool> is_full;
        for (std::size_t i = 0; i < rotary.size() && i < static_cast<std::size_t>(model.layers);
             ++i)
            is_full.push_back(rotary[i] == 0);
        return set_windows(reader, "no_rope_layers", is_full, chunk, model);
    }
    const std::int64_t every = reader.integer({"no_rope_layer_interval"}, "full_attention_every");
    model.window = chunk;
    model.full_attention_every = chunk == 0 ? 0 : every == 0 ? 4 : every;
}

/// The text part; what sees images is left out.
void llama4(HfReader& reader, Model& model) {
    must_be(reader, "attention_bias", false, "llama4 has no biases");
    model.qk_norm = reader.boolean("use_qk_norm").value_or(true);
    model.experts = reader.integer({"num_local_experts"}, "experts");
    model.top_k = reader.integer({"num_experts_per_tok"}, "top_k");
    model.moe_ffn_hidden = reader.integer({"intermediate_size"}, "moe_ffn_hidden");
    model.shared_ffn_hidden = model.moe_ffn_hidden;
    read_interleaved_experts(reader, model);
    read_chunks(reader, model);
}

// ---- the table ----------------------------------------------------------------------------------

constexpr std::string_view deepseek_demands =
    "intermediate_size,n_routed_experts,n_shared_experts,num_experts_per_tok,"
    "moe_intermediate_size,first_k_dense_replace,kv_lora_rank,q_lora_rank,qk_nope_head_dim,"
    "qk_rope_head_dim,v_head_dim";

constexpr std::array<TypeRow, 23> type_rows{{
    {"gpt2", Family::gpt, gpt2_keys, true, gpt2, ""},
    {"gpt_bigcode", Family::gpt, gpt2_keys, true, gpt_bigcode, ""},
    {"gpt_neox", Family::gpt, usual_keys, false, gpt_neox, "intermediate_size"},
    {"llama", Family::llama, usual_keys, false, optional_biases, "intermediate_size"},
    {"mistral", Family::llama, usual_keys, false, mistral, "intermediate_size,num_key_value_heads"},
    {"qwen2", Family::llama, usual_keys, false, qwen2, "intermediate_size,num_key_value_heads"},
    {"qwen3", Family::llama, usual_keys, false, qwen3,
     "intermediate_size,num_key_value_heads,head_dim"},
    {"gemma", Family::llama, usual_keys, true, optional_biases,
     "intermediate_size,num_key_value_heads,head_dim"},
    {"gemma2", Family::llama, usual_keys, true, gemma2,
     "intermediate_size,num_key_value_heads,head_dim"},
    {"phi3", Family::llama, usual_keys, false, phi3, "intermediate_size"},
    {"olmo2", Family::llama, usual_keys, false, olmo2, "intermediate_size"},
    {"granite", Family::llama, usual_keys, false, optional_biases, "intermediate_size"},
    {"bert", Family::bert, usual_keys, true, no_more, "intermediate_size"},
    {"mixtral", Family::moe, usual_keys, false, mixtral,
     "intermediate_size,num_key_value_heads,num_local_experts,num_experts_per_tok"},
    {"qwen2_moe", Family::moe, usual_keys, false, qwen2_moe,
     "num_key_value_heads,num_experts,num_experts_per_tok,moe_intermediate_size,"
     "shared_expert_intermediate_size"},
    {"qwen3_moe", Family::moe, usual_keys, false, qwen3_moe,
     "num_key_value_heads,head_dim,num_experts,num_experts_per_tok,moe_intermediate_size"},
    {"olmoe", Family::moe, usual_keys, false, olmoe,
     "intermediate_size,num_experts,num_experts_per_tok"},
    {"granitemoe", Family::moe, usual_keys, false, granitemoe,
     "intermediate_size,num_local_experts,num_experts_per_tok"},
    {"gpt_oss", Family::moe, usual_keys, false, gpt_oss,
     "intermediate_size,num_key_value_heads,head_dim,num_local_experts,num_experts_per_tok,"
     "sliding_window"},
    {"llama4_text", Family::moe, llama4_keys, false, llama4,
     "intermediate_size,intermediate_size_mlp,num_key_value_heads,head_dim,num_local_experts,"
     "num_experts_per_tok"},
    {"deepseek_v2", Family::moe, usual_keys, false, deepseek, deepseek_demands},
    {"deepseek_v3", Family::moe, usual_keys, false, deepseek, deepseek_demands},
    {"kimi_k2", Family::moe, usual_keys, false, deepseek, deepseek_demands},
}};

}  // namespace

void read_precision(HfReader& reader, Model& model) {
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

const TypeRow* find_type_row(std::string_view model_type) {
    for (const TypeRow& row : type_rows)
        if (row.model_type == model_type) return &row;
    return nullptr;
}

std::string accepted_types() {
    std::string list;
    for (const TypeRow& row : type_rows)
        list += std::string(row.model_type == "llama4_text" ? "llama4" : row.model_type) + ", ";
    return list + listed_types();
}

// ---- lists of layers --------------------------------------------------------------------------

void LayerWriter::layer(std::string name, std::int64_t count, double output) {
    layers_.push_back({.name = std::move(name), .count = count, .output_bytes = output * width_});
}

void LayerWriter::add(LayerOperator::Kind kind, std::initializer_list<double> sizes, double times) {
    LayerOperator op{kind, {}, std::llround(times)};
    std::transform(sizes.begin(), sizes.end(), op.sizes.begin(),  // check_model() refuses 2^41
                   [](double size) { return std::llround(std::clamp(size, 1.0, 0x1p41)); });
    CustomLayer& layer = layers_.back();
    layer.forward_flops += operator_flops(op);
    const auto same = std::find_if(layer.operators.begin(), layer.operators.end(),
                                   [&](const LayerOperator& other) {
                                       return other.kind == op.kind && other.sizes == op.sizes;
                                   });
    if (same != layer.operators.end())
        same->count += op.count;
    else
        layer.operators.push_back(op);
}

void LayerWriter::gemm(double rows, double n, double k, bool bias, bool keeps, double times) {
    add(LayerOperator::Kind::gemm, {rows, n, k}, times);
    parameters(times * (n * k + (bias ? n : 0)));
    if (keeps) keep(times * rows * k);
}

void LayerWriter::bmm(double m, double n, double k, double batch) {
    add(LayerOperator::Kind::bmm, {m, n, k, batch});
}

void LayerWriter::attention(double heads, double kv_heads, double tokens, double dim, bool causal) {
    add(causal ? LayerOperator::Kind::causal_attention : LayerOperator::Kind::attention,
        {heads, kv_heads, tokens, dim});
    keep(2 * (heads + kv_heads) * tokens * dim);
}

void LayerWriter::cross_attention(double heads, double queries, double keys, double dim) {
    add(LayerOperator::Kind::attention, {heads, heads, std::sqrt(queries * keys), dim});
    keep(2 * heads * (queries + keys) * dim);
}

void LayerWriter::conv(double in, double out, double edge, double kernel, double stride,
                       bool bias) {
    add(LayerOperator::Kind::conv, {in, out, edge, kernel, stride});
    parameters(in * out * kernel * kernel + (bias ? out : 0));
    keep(in * edge * edge * stride * stride);
}

void LayerWriter::depthwise(double rows, double channels, double taps) {
    layers_.back().forward_flops += 2 * rows * channels * taps;
    parameters(channels * taps + channels);
    pass(2 * rows * channels, rows * channels);
}

void LayerWriter::norm(double rows, double cols, double vectors) {
    parameters(vectors * cols);
    pass(2 * rows * cols, rows * cols);
}

void LayerWriter::pass(double moved, double kept) {
    keep(kept);
    constexpr double least_width = 2;  // fp8 is the products' alone
    add(LayerOperator::Kind::memory, {moved * std::max(width_, least_width)});
}

void LayerWriter::loss(double rows, double classes) {
    add(LayerOperator::Kind::loss, {rows, classes});
    keep(rows * classes);
}

void LayerWriter::attention_block(double tokens, double hidden, double heads, double kv_heads,
                                  double dim, bool causal, bool bias) {
    gemm(tokens, (heads + 2 * kv_heads) * dim, hidden, bias);
    attention(heads, kv_heads, tokens, dim, causal);
    gemm(tokens, hidden, heads * dim, bias, false);
}

void LayerWriter::mlp(double rows, double hidden, double width, bool gated, bool bias) {
    gemm(rows, (gated ? 2 : 1) * width, hidden, bias);
    pass((gated ? 3 : 2) * rows * width, (gated ? 2 : 1) * rows * width);
    gemm(rows, hidden, width, bias);
}

}  // namespace arena
