// SPDX-License-Identifier: GPL-2.0-or-later
// Readers of experts, latent attention, windows, residual networks and users' own layers: published
// configurations give the published parameter counts in every form they may be written in, and what
// is missing or contradictory is refused in one sentence.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.h"
#include "core/model_fields.h"
#include "planner/models/layers.h"
#include "planner/models/megatron_args.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "request/request.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

Model good(std::string_view text) { return must(parse_model(text, "m")); }

void refused(std::string_view text, const std::string& part) {
    const Result<Model> model = parse_model(text, "bad");
    ck_assert_msg(!model.ok(), "accepted, wanted '%s': %.200s", part.c_str(),
                  std::string(text).c_str());
    const std::string message = model.error().message();
    ck_assert_msg(message.find(part) != std::string::npos, "'%s' lacks '%s'", message.c_str(),
                  part.c_str());
    ck_assert_msg(message.find('\n') == std::string::npos, "more than one line");
    ck_assert_uint_lt(message.size(), 700);
}

Model zoo(const char* name) { return must(find_zoo_model(name)); }

/// `text` with the value of a top-level JSON key replaced, or the key removed when value is "".
std::string changed(std::string text, const std::string& key, const std::string& value) {
    const std::size_t at = text.find("\"" + key + "\":");
    ck_assert_msg(at != std::string::npos, "%s", key.c_str());
    const std::size_t begin = at + key.size() + 3;
    int depth = 0;
    std::size_t end = begin;
    for (; end < text.size(); ++end) {
        if (depth == 0 && (text[end] == ',' || text[end] == '}')) break;
        if (text[end] == '[') ++depth;
        if (text[end] == ']') --depth;
    }
    if (!value.empty()) return text.replace(begin, end - begin, value);
    return text[end] == ',' ? text.erase(at, end - at + 1) : text.erase(at - 1, end - at + 1);
}

const std::string mixtral =
    R"({"model_type":"mixtral","hidden_size":4096,"intermediate_size":14336,)"
    R"("num_attention_heads":32,"num_key_value_heads":8,"num_hidden_layers":32,)"
    R"("num_local_experts":8,"num_experts_per_tok":2,"sliding_window":null,)"
    R"("max_position_embeddings":32768,"tie_word_embeddings":false,"torch_dtype":"bfloat16",)"
    R"("vocab_size":32000})";
const std::string qwen3_moe =
    R"({"model_type":"qwen3_moe","hidden_size":2048,"intermediate_size":6144,"head_dim":128,)"
    R"("num_attention_heads":32,"num_key_value_heads":4,"num_hidden_layers":48,)"
    R"("num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":768,)"
    R"("decoder_sparse_step":1,"mlp_only_layers":[],"use_sliding_window":false,)"
    R"("attention_bias":false,"max_position_embeddings":40960,"vocab_size":151936})";
const std::string gpt_oss =
    R"({"model_type":"gpt_oss","hidden_size":2880,"intermediate_size":2880,"head_dim":64,)"
    R"("num_attention_heads":64,"num_key_value_heads":8,"num_hidden_layers":4,)"
    R"("num_local_experts":32,"num_experts_per_tok":4,"sliding_window":128,)"
    R"("layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],)"
    R"("attention_bias":true,"max_position_embeddings":131072,"vocab_size":201088})";
const std::string deepseek =
    R"({"model_type":"deepseek_v3","hidden_size":7168,"intermediate_size":18432,)"
    R"("num_attention_heads":128,"num_key_value_heads":128,"num_hidden_layers":61,)"
    R"("n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,)"
    R"("moe_intermediate_size":2048,"first_k_dense_replace":3,"moe_layer_freq":1,)"
    R"("q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,)"
    R"("v_head_dim":128,"num_nextn_predict_layers":1,"max_position_embeddings":163840,)"
    R"("torch_dtype":"bfloat16","vocab_size":129280})";

const std::string gemma2 =
    R"({"model_type":"gemma2","hidden_size":2304,"intermediate_size":9216,"head_dim":256,)"
    R"("num_attention_heads":8,"num_key_value_heads":4,"num_hidden_layers":26,"sliding_window":4096,)"
    R"("attention_bias":false,"hidden_activation":"gelu_pytorch_tanh","attn_logit_softcapping":50.0,)"
    R"("tie_word_embeddings":true,"max_position_embeddings":8192,"vocab_size":256000})";
const std::string phi3 =
    R"({"model_type":"phi3","hidden_size":3072,"intermediate_size":8192,"num_attention_heads":32,)"
    R"("num_key_value_heads":32,"num_hidden_layers":32,"sliding_window":2047,"tie_word_embeddings":false,)"
    R"("max_position_embeddings":4096,"torch_dtype":"bfloat16","vocab_size":32064})";
const std::string olmo2 =
    R"({"model_type":"olmo2","hidden_size":4096,"intermediate_size":11008,"num_attention_heads":32,)"
    R"("num_key_value_heads":32,"num_hidden_layers":32,"attention_bias":false,"tie_word_embeddings":false,)"
    R"("max_position_embeddings":4096,"vocab_size":100352})";
const std::string deepseek_v2_lite =
    R"({"model_type":"deepseek_v2","hidden_size":2048,"intermediate_size":10944,)"
    R"("num_attention_heads":16,"num_key_value_heads":16,"num_hidden_layers":27,)"
    R"("n_routed_experts":64,"n_shared_experts":2,"num_experts_per_tok":6,)"
    R"("moe_intermediate_size":1408,"first_k_dense_replace":1,"moe_layer_freq":1,)"
    R"("q_lora_rank":null,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,)"
    R"("v_head_dim":128,"topk_method":"greedy","max_position_embeddings":163840,)"
    R"("torch_dtype":"bfloat16","vocab_size":102400})";
const std::string llama4 =
    R"({"model_type":"llama4","torch_dtype":"bfloat16","text_config":{"model_type":"llama4_text",)"
    R"("hidden_size":5120,"intermediate_size":8192,"intermediate_size_mlp":16384,"head_dim":128,)"
    R"("num_attention_heads":40,"num_key_value_heads":8,"num_hidden_layers":48,)"
    R"("num_local_experts":16,"num_experts_per_tok":1,"interleave_moe_layer_step":1,"moe_layers":null,)"
    R"("no_rope_layers":[],"attention_chunk_size":8192,"use_qk_norm":true,"attention_bias":false,)"
    R"("max_position_embeddings":10485760,"vocab_size":202048},"vision_config":{"hidden_size":1408}})";

const std::string megatron =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--vocab-size 51200 ";

}  // namespace

TEST(new_families_have_the_published_parameter_counts) {
    // Model cards and library documentation (torchvision lists exact counts).
    const std::pair<const char*, double> published[] = {
        {"gpt-neox-20b", 20554567680},    {"qwen3-0.6b", 596049920},
        {"qwen3-1.7b", 1720574976},       {"qwen3-4b", 4022468096},
        {"qwen3-8b", 8190735360},         {"qwen3-14b", 14768307200},
        {"qwen3-32b", 32762123264},       {"qwen3-30b-a3b", 30.5e9},
        {"qwen3-235b-a22b", 235.1e9},     {"mixtral-8x7b", 46702792704},
        {"mixtral-8x22b", 140.6e9},       {"gpt-oss-20b", 20.9e9},
        {"gpt-oss-120b", 116.8e9},        {"deepseek-v3", 671.0e9},
        {"resnet-50", 25557032},          {"resnet-101", 44549160},
        {"resnet-152", 60192808},         {"wide-resnet-50-2", 68883240},
        {"wide-resnet-101-2", 126886696}, {"moe-690m", 686539776},
        {"moe-1.3b", 1347717120},         {"moe-2.4b", 2384158720},
        {"moe-10b", 10171650048},         {"moe-27b", 26651049984},
        {"moe-70b", 70419578880},         {"vgg-19", 143667240}};
    for (const auto& [name, count] : published) {
        const double ours = parameter_count(zoo(name));
        ck_assert_msg(std::fabs(ours / count - 1) <= 0.005, "%s: %.0f, published %.0f", name, ours,
                      count);
    }
}

TEST(a_token_uses_the_published_share_of_the_experts) {
    // gpt-oss's model card does not count the input embedding.
    const double embedding = 201088.0 * 2880;
    ck_assert_double_eq_tol(active_parameter_count(zoo("mixtral-8x7b")) / 12.9e9, 1, 0.005);
    ck_assert_double_eq_tol(active_parameter_count(zoo("mixtral-8x22b")) / 39.1e9, 1, 0.005);
    ck_assert_double_eq_tol((active_parameter_count(zoo("gpt-oss-20b")) - embedding) / 3.61e9, 1,
                            0.005);
    ck_assert_double_eq_tol((active_parameter_count(zoo("gpt-oss-120b")) - embedding) / 5.13e9, 1,
                            0.005);
    ck_assert_double_eq_tol(active_parameter_count(zoo("qwen3-235b-a22b")) / 22e9, 1, 0.02);
    ck_assert_double_eq_tol(active_parameter_count(zoo("qwen3-30b-a3b")) / 3.3e9, 1, 0.02);
    ck_assert_double_eq_tol(active_parameter_count(zoo("deepseek-v3")) / 37e9, 1, 0.02);
    ck_assert_double_eq(active_parameter_count(zoo("gpt2")), parameter_count(zoo("gpt2")));
}

TEST(convolutions_have_the_published_flops) {
    const std::pair<const char*, double> multiply_adds[] = {
        {"resnet-50", 4.09e9}, {"resnet-101", 7.80e9},        {"resnet-152", 11.51e9},
        {"vgg-19", 19.63e9},   {"wide-resnet-50-2", 11.40e9}, {"wide-resnet-101-2", 22.75e9}};
    for (const auto& [name, count] : multiply_adds)
        ck_assert_double_eq_tol(forward_flops(zoo(name)) / (2 * count), 1, 0.005);
}

TEST(hugging_face_configs_of_experts_are_read) {
    const Model eight = good(mixtral);
    ck_assert(eight.family == Family::moe && eight.experts == 8 && eight.top_k == 2);
    ck_assert_double_eq(parameter_count(eight), parameter_count(zoo("mixtral-8x7b")));
    const Model qwen = good(qwen3_moe);
    ck_assert(qwen.qk_norm && qwen.head_dim == 128 && !qwen.linear_bias && !qwen.qkv_bias);
    ck_assert_double_eq(parameter_count(qwen), parameter_count(zoo("qwen3-30b-a3b")));
    const Model oss = good(gpt_oss);
    ck_assert(oss.linear_bias && oss.rms_norm && oss.window == 128);
    ck_assert_int_eq(oss.full_attention_every, 2);
    ck_assert_uint_eq(layer_list(oss).kinds.size(), 2);
    ck_assert_uint_eq(layer_list(oss).runs.size(), 4);
    const Model v3 = good(deepseek);
    ck_assert(is_latent(v3) && v3.dense_layers == 3 && v3.shared_ffn_hidden == 2048);
    ck_assert_double_eq(parameter_count(v3), 671026404352);
    const LayerList list = layer_list(v3);
    ck_assert(list.runs == (std::vector<LayerRun>{{0, 3}, {1, 58}}));
    const Model dense_first = good(changed(qwen3_moe, "mlp_only_layers", "[0,1]"));
    ck_assert(dense_first.dense_layers == 2 && dense_first.ffn_hidden == 6144);
    ck_assert_int_eq(good(changed(qwen3_moe, "decoder_sparse_step", "2")).moe_every, 2);
    ck_assert_int_eq(good(changed(deepseek, "q_lora_rank", "null")).q_lora_rank, 0);
}

/// Dimensions of the model cards; counts as published (2 % where a card rounds them).
TEST(later_hugging_face_configs_are_read_with_their_layers) {
    const Model gemma = good(gemma2);
    ck_assert(gemma.family == Family::llama && gemma.tied_embedding && gemma.rms_norm &&
              is_gated(gemma));
    ck_assert(gemma.head_dim == 256 && gemma.kv_heads == 4 && !gemma.learned_positions);
    ck_assert_double_eq_tol(parameter_count(gemma) / 2614341888, 1, 0.001);
    LayerList list = layer_list(gemma);  // 4096 tokens, then all 8192, by turns
    ck_assert(list.kinds.size() == 2 && list.runs.size() == 26);
    ck_assert(list.kinds[0].window == 4096 && list.kinds[1].window == 0 && list.runs[0].kind == 0);
    ck_assert_int_eq(good(changed(gemma2, "sliding_window", "null")).window, 0);
    ck_assert_int_eq(good(changed(gemma2, "sliding_window", "")).window, 4096);
    refused(changed(gemma2, "head_dim", ""), "lacks head_dim");
    refused(changed(gemma2, "tie_word_embeddings", "true,\"use_bidirectional_attention\":true"),
            "use_bidirectional_attention");
    const std::string gemma1 =
        changed(changed(changed(gemma2, "model_type", "\"gemma\""), "sliding_window", ""),
                "attn_logit_softcapping", "");
    ck_assert_int_eq(good(gemma1).window, 0);

    const Model phi = good(phi3);
    ck_assert(!phi.tied_embedding && !phi.linear_bias && phi.kv_heads == 32 && phi.window == 2047);
    ck_assert_double_eq(parameter_count(phi), 3821079552);
    ck_assert_int_eq(good(changed(phi3, "sliding_window", "null")).window, 0);
    ck_assert_int_eq(good(changed(phi3, "num_key_value_heads", "8")).kv_heads, 8);

    const Model olmo = good(olmo2);
    ck_assert(olmo.qk_norm && !olmo.tied_embedding && olmo.rms_norm);
    ck_assert_double_eq_tol(parameter_count(olmo) / 7298617344, 1, 0.0005);

    const Model lite = good(deepseek_v2_lite);
    ck_assert(is_latent(lite) && lite.q_lora_rank == 0 && lite.dense_layers == 1 &&
              lite.shared_ffn_hidden == 2816);
    ck_assert(layer_list(lite).runs == (std::vector<LayerRun>{{0, 1}, {1, 26}}));
    ck_assert_double_eq_tol(parameter_count(lite) / 15.7065e9, 1, 0.001);
    ck_assert_double_eq_tol(active_parameter_count(lite) / 2.66e9, 1, 0.02);
    refused(changed(deepseek_v2_lite, "q_lora_rank", ""),
            "lacks q_lora_rank");  // 1536 in the library
}

TEST(the_text_part_of_llama4_configs_is_read) {
    const Model scout = good(llama4);
    ck_assert(scout.family == Family::moe && scout.experts == 16 && scout.top_k == 1 &&
              scout.kv_heads == 8);
    ck_assert(scout.shared_ffn_hidden == 8192 && scout.moe_every == 0 &&
              scout.precision == Precision::bf16);
    ck_assert_int_eq(scout.seq_length, 10485760);
    ck_assert_double_eq_tol(parameter_count(scout) / 107.77e9, 1, 0.001);
    ck_assert_double_eq_tol(active_parameter_count(scout) / 17.2e9, 1, 0.01);
    ck_assert(scout.window == 8192 && scout.full_attention_every == 4);
    ck_assert_uint_eq(layer_list(scout).runs.size(), 24);  // three of a chunk, one of all
    const std::string maverick =
        changed(changed(llama4, "interleave_moe_layer_step", "2"), "num_local_experts", "128");
    ck_assert_double_eq_tol(parameter_count(good(maverick)) / 400.6e9, 1, 0.001);
    ck_assert(good(maverick).moe_every == 2 && good(maverick).ffn_hidden == 16384);
    std::string odd = "[1";
    for (int i = 3; i < 48; i += 2) odd += fmt::format(",{}", i);
    ck_assert(good(changed(llama4, "moe_layers", odd + "]")).moe_every == 2);
    for (const char* list : {"[]", "[0,1,5]", "[48]", "7", "[0.5]"})
        refused(changed(llama4, "moe_layers", list), "moe_layers");
    refused(changed(llama4, "no_rope_layers", "[1,0]"),
            "no_rope_layers: has 2 entries for 48 layers");
    const std::string chunked =
        changed(llama4, "no_rope_layers", "[],\"layer_types\":[\"chunked_attention\"]");
    refused(chunked, "layer_types: has 1 entries for 48 layers");
    ck_assert_int_eq(good(changed(llama4, "attention_chunk_size", "null")).window, 0);
    refused(changed(llama4, "intermediate_size_mlp", ""), "lacks intermediate_size_mlp");
    refused(R"({"model_type":"llama4"})", "lacks num_hidden_layers");
    refused(R"({"model_type":"llama4","text_config":7})", "text_config: must be an object");
}

/// As YAML errors do, so that an editor can jump there.
TEST(mistakes_in_json_are_told_with_line_and_column) {
    refused("{\n  \"model_type\": \"llama\"\n  \"hidden_size\": 64\n}",
            "bad:3:3: not valid JSON: ");
    refused("{\n  \"model_type\": \"llama\",", "bad:2:");
    refused("{\"model_type\": \"gpt2\",\n\n \"n_layer\": \"twelve\"}",
            "bad:3:2: n_layer: must be an integer");
    refused("{\"model_type\": \"gpt2\",\n \"n_layer\": 1,\n\t\"n_layer\": 2}",
            "bad:3:2: n_layer: the key is there twice");
    std::string lines = llama4;
    for (std::size_t at = 0; (at = lines.find(",\"", at)) != std::string::npos; ++at)
        lines.insert(at + 1, "\n");
    const std::string broken = changed(lines, "num_experts_per_tok", "true");
    const std::size_t key = broken.find("\"num_experts_per_tok\"");
    refused(broken,
            fmt::format("bad:{}:1: num_experts_per_tok: must be an integer",
                        1 + std::count(broken.begin(),
                                       broken.begin() + static_cast<std::ptrdiff_t>(key), '\n')));
    // The key of the object that is read, not one of the same name elsewhere.
    refused(
        "{\"task_specific_params\": {\"n_layer\": 1, \"b\": [{\"n_layer\": 3}]},\n\"model_type\": "
        "\"gpt2\",\n\"n_layer\": -1}",
        "bad:3:1: n_layer");
}

/// The advice for a model_type that is not known, followed to the letter.
TEST(a_model_of_an_unknown_type_is_accepted_as_the_message_says) {
    refused(changed(mixtral, "model_type", "\"rwkv\""),
            "(family: moe, layers, hidden, heads, experts, top_k, moe_ffn_hidden, vocab, "
            "seq_length)");
    refused(R"({"model_type":"rwkv","hidden_size":4096})",
            "(family: llama, layers, hidden, heads, ffn_hidden, vocab, seq_length)");
    ck_assert(good("family: moe\nlayers: 32\nhidden: 4096\nheads: 32\nexperts: 16\ntop_k: 2\n"
                   "moe_ffn_hidden: 14336\nvocab: 65536\nseq_length: 4096\n")
                  .experts == 16);
    ck_assert(
        good("family: llama\nlayers: 32\nhidden: 4096\nheads: 32\nffn_hidden: 14336\nvocab: 65536\n"
             "seq_length: 4096\n")
            .layers == 32);
    ck_assert(
        good("family: custom\nlayers:\n- {count: 32, forward_flops: 1e12, parameter_bytes: 4e8, "
             "activation_bytes: 1e8}\n")
            .layers == 32);
}

TEST(hugging_face_windows_and_biases_are_read) {
    const std::string mistral = changed(
        changed(changed(changed(mixtral, "model_type", "\"mistral\""), "num_local_experts", ""),
                "num_experts_per_tok", ""),
        "sliding_window", "4096");
    ck_assert_int_eq(good(mistral).window, 4096);
    ck_assert_int_eq(good(changed(mistral, "sliding_window", "null")).window, 0);
    ck_assert_int_eq(good(changed(mistral, "sliding_window", "")).window, 4096);
    const std::string neox =
        R"({"model_type":"gpt_neox","hidden_size":6144,"intermediate_size":24576,)"
        R"("num_attention_heads":64,"num_hidden_layers":44,"max_position_embeddings":2048,)"
        R"("torch_dtype":"float16","vocab_size":50432})";
    ck_assert(good(neox) == [] {
        Model m = zoo("gpt-neox-20b");
        m.name = "m";
        return m;
    }());
    const std::string qwen2 = changed(changed(mistral, "model_type", "\"qwen2\""), "sliding_window",
                                      "128,\"use_sliding_window\":false,\"max_window_layers\":28");
    ck_assert(good(qwen2).qkv_bias && good(qwen2).window == 0);
    refused(changed(qwen2, "use_sliding_window", "true"), "max_window_layers: 28");
    ck_assert_int_eq(
        good(changed(changed(qwen2, "use_sliding_window", "true"), "max_window_layers", "0"))
            .window,
        128);
    const std::string llama = changed(changed(mistral, "model_type", "\"llama\""), "sliding_window",
                                      "null,\"attention_bias\":true,\"mlp_bias\":true");
    ck_assert(good(llama).linear_bias && !good(changed(llama, "mlp_bias", "false")).linear_bias);
    ck_assert(good(changed(llama, "mlp_bias", "false")).qkv_bias);
    refused(changed(llama, "attention_bias", "false"), "mlp_bias");
}

TEST(expert_configs_that_lack_or_contradict_are_refused) {
    for (const char* key : {"num_local_experts", "num_experts_per_tok", "num_key_value_heads",
                            "intermediate_size", "vocab_size"})
        refused(changed(mixtral, key, ""), std::string("lacks ") + key);
    for (const char* key : {"kv_lora_rank", "qk_rope_head_dim", "n_routed_experts", "v_head_dim",
                            "first_k_dense_replace"})
        refused(changed(deepseek, key, ""), std::string("lacks ") + key);
    refused(changed(qwen3_moe, "head_dim", ""), "lacks head_dim");
    refused(changed(mixtral, "num_experts_per_tok", "9"), "top_k 9 is more than the 8 experts");
    refused(changed(mixtral, "num_local_experts", "0"), "num_local_experts");
    refused(changed(mixtral, "num_local_experts", "\"8\""), "num_local_experts");
    refused(changed(deepseek, "kv_lora_rank", "null"), "kv_lora_rank");
    refused(changed(deepseek, "num_key_value_heads", "8"), "kv_heads");
    refused(changed(deepseek, "first_k_dense_replace", "61"), "no MoE layer");
    refused(changed(deepseek, "moe_layer_freq", "2"), "moe_layer_freq: 2");
    refused(changed(qwen3_moe, "mlp_only_layers", "[3]"), "mlp_only_layers");
    refused(changed(qwen3_moe, "mlp_only_layers", "7"), "mlp_only_layers");
    refused(changed(gpt_oss, "layer_types", R"(["full_attention","sliding_attention"])"),
            "layer_types: has 2 entries for 4 layers");
    refused(changed(gpt_oss, "layer_types",
                    R"(["full_attention","sliding_attention","full_attention","full_attention"])"),
            "each n-th layer");
    refused(changed(gpt_oss, "layer_types",
                    R"(["chunked_attention","full_attention","full_attention","full_attention"])"),
            "chunked_attention");
    refused(changed(gpt_oss, "layer_types", "3"), "layer_types");
    refused(changed(gpt_oss, "attention_bias", "false"), "attention_bias");
    refused(changed(mixtral, "num_hidden_layers", "1000000000"), "num_hidden_layers");
    refused(changed(mixtral, "model_type", "\"rwkv\""), "family custom");
}

TEST(yaml_models_of_every_family_are_read) {
    const Model moe = good(
        "family: moe\nlayers: 4\nhidden: 64\nheads: 4\nexperts: 8\ntop_k: 2\nmoe_ffn_hidden: 128\n"
        "vocab: 100\nseq_length: 32\ncapacity_factor: 1.25\nmoe_group_size: 16\nmoe_every: 2\n"
        "ffn_hidden: 256\ngated_mlp: false\n");
    ck_assert(moe.capacity_factor == 1.25 && !moe.gated_mlp && moe.rms_norm);
    ck_assert(layer_list(moe).runs == (std::vector<LayerRun>{{0, 1}, {1, 1}, {0, 1}, {1, 1}}));
    const Model net = good(
        "family: wide_resnet\nblocks: [3, 4, 6, 3]\nbase_channels: 64\n"
        "image_size: 224\n");
    ck_assert_int_eq(net.layers, 16);
    ck_assert(fingerprint(net) == fingerprint(zoo("resnet-50")));
    const Model own = good(
        "family: custom\nprecision: fp16\nlayers:\n"
        "  - {name: stem, forward_flops: 1e9, parameter_bytes: 2e6, activation_bytes: 1e6}\n"
        "  - {name: body, count: 12, forward_flops: 4e9, parameter_bytes: 8e6, "
        "activation_bytes: 2e6, output_bytes: 5e5}\n");
    ck_assert_int_eq(own.layers, 13);
    ck_assert_double_eq(parameter_count(own), (2e6 + 12 * 8e6) / 2);
    ck_assert_double_eq(forward_flops(own), 1e9 + 12 * 4e9);
    ck_assert_double_eq(layer_output_elements(own, layer_list(own).kinds[1]), 5e5 / 2);
    ck_assert_double_eq(layer_output_elements(own, layer_list(own).kinds[0]), 1e6 / 2);
}

TEST(bad_yaml_models_name_what_is_wrong) {
    const std::string gpt =
        "family: gpt\nlayers: 2\nhidden: 64\nheads: 4\nvocab: 9\nseq_length: 8\n";
    const std::string moe =
        "family: moe\nlayers: 4\nhidden: 64\nheads: 4\nexperts: 8\ntop_k: 2\nmoe_ffn_hidden: 128\n"
        "vocab: 100\nseq_length: 32\n";
    const std::string net = "family: wide_resnet\nbase_channels: 64\nimage_size: 224\n";
    const std::string own = "family: custom\nlayers:\n";
    refused(gpt + "experts: 8\n", "experts is no fact of family gpt");
    refused(gpt + "widen_first: true\n", "widen_first is no fact of family gpt");
    refused(gpt + "capacity_factor: 2\n", "capacity_factor is no fact");
    refused(gpt + "blocks: [1]\n", "blocks is no fact");
    refused(gpt + "full_attention_every: 2\n", "needs a window");
    refused(gpt + "kv_lora_rank: 8\n", "qk_nope_head_dim");
    refused(gpt + "v_head_dim: 8\n", "go together");
    refused(gpt + "q_lora_rank: 8\n", "kv_lora_rank");
    refused(gpt + "heads: 3\n", "heads");
    refused(gpt + "trainable: lora\n", "trainable: lora needs lora_rank");
    refused(gpt + "trainable: some\n", "accepted: all, lora");
    refused(gpt + "lora_rank: 8\ntrainable: all\n", "leave lora_rank out");
    refused(gpt + "lora_mlp: 1\n", "lora_mlp needs lora_rank");
    refused(gpt + "base_bits: 4\n", "base_bits needs lora_rank");
    refused(gpt + "lora_rank: 8\nbase_bits: 5\n", "base_bits must be 4, 8 or 16");
    refused(net + "depth: 50\nlora_rank: 8\n", "lora_rank is no fact of family wide_resnet");
    refused(moe + "top_k: 3\n", "twice");
    refused(moe + "dense_layers: 4\nffn_hidden: 64\n", "no MoE layer");
    refused(moe + "dense_layers: 1\n", "ffn_hidden");
    refused(moe + "moe_group_size: 8\n", "capacity_factor");
    refused(moe + "capacity_factor: 1e9\n", "capacity_factor");
    refused(moe + "capacity_factor: .nan\n", "capacity_factor");
    refused(moe + "capacity_factor: two\n", "capacity_factor");
    refused("family: moe\n", "experts, top_k, moe_ffn_hidden");
    refused(net, "depth or blocks");
    refused(net + "depth: 18\n", "accepted: 50, 101, 152, 200");
    refused(net + "depth: 50\nblocks: [3, 4, 23, 3]\n", "give one of the two");
    refused(net + "blocks: [3, 0]\n", "blocks");
    refused(net + "blocks: 3\n", "for example [3, 4, 6, 3]");
    refused(net + "blocks: []\n", "depth or blocks");
    refused(net + "depth: 50\nhidden: 8\n", "hidden is no fact of family wide_resnet");
    refused(net + "depth: 50\ngated_mlp: true\n", "gated_mlp");
    refused(net + "blocks: [10000, 10000]\n", "layers");
    refused("family: wide_resnet\n", "base_channels, image_size, depth or blocks");
    refused("family: custom\n", "layers");
    refused("family: custom\nlayers: 3\n", "list of maps");
    refused("family: custom\nlayers: []\n", "list of maps");
    refused(own + "  - 3\n", "each entry is a map");
    refused(own + "  - {forward_flops: 1}\n", "lacks parameter_bytes");
    refused(own + "  - {forward_flops: 1, flops: 2}\n", "flops");
    refused(own + "  - {forward_flops: -1, parameter_bytes: 1, activation_bytes: 1}\n",
            "forward_flops");
    refused(own + "  - {forward_flops: .inf, parameter_bytes: 1, activation_bytes: 1}\n",
            "forward_flops");
    refused(own + "  - {forward_flops: 0, parameter_bytes: 0, activation_bytes: 0}\n", "above 0");
    refused(own + "  - {count: 0, forward_flops: 1, parameter_bytes: 1, activation_bytes: 1}\n",
            "count");
    refused(own + "  - {forward_flops: 1, parameter_bytes: 1e16, activation_bytes: 1}\n",
            "parameters");
}

TEST(megatron_arguments_are_a_model) {
    const Model gpt = good(megatron + "--bf16 --lr 1e-4 --tensor-model-parallel-size 8\n");
    ck_assert(gpt.family == Family::gpt && gpt.precision == Precision::bf16);
    ck_assert(gpt.ffn_hidden == 8192 && gpt.kv_heads == 16 && gpt.tied_embedding);
    ck_assert(gpt.learned_positions && gpt.linear_bias && !gpt.rms_norm);
    ck_assert(good(megatron).precision == Precision::fp32);
    const Model llama = good(
        "#!/bin/bash\n# a llama\nMODEL_ARGS=(\n    --num-layers 32 \\\n    --hidden-size 4096\n"
        "    --ffn-hidden-size 14336\n    --num-attention-heads 32\n    --group-query-attention\n"
        "    --num-query-groups 8\n    --seq-length=8192\n    --vocab-size \"128256\"\n    "
        "--swiglu\n"
        "    --normalization RMSNorm\n    --position-embedding-type rope\n    "
        "--disable-bias-linear\n"
        "    --untie-embeddings-and-output-weights\n    --bf16)\ntorchrun pretrain_gpt.py\n");
    ck_assert_double_eq(parameter_count(llama), 8030261248);
    ck_assert(fingerprint(llama) == fingerprint(zoo("llama-3-8b")));
    ck_assert_int_eq(good(megatron + "--swiglu").ffn_hidden, 5440);
    ck_assert_int_eq(good(megatron + "--group-query-attention").kv_heads, 1);
    ck_assert_int_eq(good(megatron + "--kv-channels 64").head_dim, 64);
    ck_assert(good(megatron + "--fp8-format hybrid --bf16").precision == Precision::fp8);
    ck_assert(good(megatron + "--fp8-format e4m3 --fp8-recipe mxfp8").precision ==
              Precision::mxfp8);
    ck_assert(good(megatron + "--bert-no-binary-head").family == Family::bert);
    ck_assert_int_eq(good("--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 8 "
                          "--tokenizer-type GPT2BPETokenizer")
                         .vocab,
                     50257);
}

TEST(megatron_arguments_of_deepseek_equal_its_config) {
    Model model = good(
        "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 "
        "--seq-length 4096 --vocab-size 129280 --swiglu --normalization RMSNorm "
        "--position-embedding-type rope --disable-bias-linear --qk-layernorm "
        "--untie-embeddings-and-output-weights --multi-latent-attention --q-lora-rank 1536 "
        "--kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 "
        "--num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 "
        "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq ([0]*3+[1]*58) "
        "--mtp-num-layers 1 --bf16");
    // The report: 671e9 without, 685e9 with the layer for a second token, its two tables shared.
    ck_assert_double_eq_tol(parameter_count(model) / 682.5e9, 1, 0.001);
    ck_assert_double_gt(forward_flops(model), 1.01 * forward_flops(zoo("deepseek-v3")));
    model.mtp_layers = 0;
    ck_assert(fingerprint(model) == fingerprint(zoo("deepseek-v3")));
}

TEST(bad_megatron_arguments_name_the_option) {
    refused("--num-layers 24 --hidden-size 2048",
            "lack --num-attention-heads, --seq-length, --vocab-size");
    refused(megatron + "--num-query-groups 4", "--group-query-attention");
    refused(megatron + "--ffn-hidden-size", "--ffn-hidden-size: its value is missing");
    refused(megatron + "--ffn-hidden-size $FFN", "shell variable");
    refused(megatron + "--ffn-hidden-size 8e3", "--ffn-hidden-size: '8e3'");
    refused(megatron + "--num-layers 99999999999999999999", "--num-layers");
    refused(megatron + "--num-attention-heads 15", "heads 15");
    refused(megatron + "--swiglue", "did you mean '--swiglu'");
    refused(megatron + "--ffn_hidden_size 8192", "did you mean '--ffn-hidden-size'");
    refused(megatron + "--encoder-num-layers 12", "--encoder-num-layers");
    refused(megatron + "--normalization BatchNorm", "LayerNorm, RMSNorm");
    refused(megatron + "--position-embedding-type relative", "--position-embedding-type");
    refused(megatron + "--num-experts 8 --moe-layer-freq 5", "--moe-layer-freq: 5");
    refused(megatron + "--num-experts 8 --moe-layer-freq [1]*3+[0]*21", "--moe-layer-freq");
    refused(megatron + "--num-experts 8 --moe-router-topk 9", "top_k 9");
    refused(megatron + "--num-experts 8 --moe-expert-capacity-factor x", "capacity-factor");
    refused(megatron + "--window-size wide", "--window-size");
    refused("pretrain_t5.py " + megatron, "pretrain_t5");
    ck_assert(!looks_like_megatron("family: gpt\nname: --num-layersX\n"));
}

TEST(every_zoo_model_survives_its_record_and_a_changed_one_does_not_pass) {
    for (const std::string& name : zoo_names()) {
        Request request;
        request.model = zoo(name.c_str());
        request.global_batch = 8;
        const Result<std::string> record = format_record(request);
        ck_assert_msg(record.ok(), "%s", name.c_str());
        const Result<Request> back = parse_record(*record);
        ck_assert_msg(back.ok() && back->model == request.model, "%s", name.c_str());
        Model forged = back->model;
        forged.layers += 1;
        forged.heads += 1;
        forged.blocks.push_back(99999);
        ck_assert_msg(!check_model(forged).ok(), "%s", name.c_str());
    }
}

TEST(every_fact_has_its_manual_entry) {
    const char* dir = std::getenv("ARENA_SRCDIR");
    const std::string page = must(read_regular_file(
        std::string(dir == nullptr ? "." : dir) + "/doc/man/arena-model.5", 1 << 20));
    std::vector<std::string> keys{"name", "family", "precision", "blocks", "capacity_factor"};
    for (const IntegerField& field : integer_fields()) keys.emplace_back(field.key);
    for (const FlagField& field : flag_fields()) keys.emplace_back(field.key);
    for (const std::string& key : keys)
        ck_assert_msg(page.find("\n.BR " + key + " \"") != std::string::npos, "%s", key.c_str());
}
