// SPDX-License-Identifier: GPL-2.0-or-later
// Families that are read as lists of layers: parameters and FLOPs as published, the operators of a
// layer in text and in prices, and that a described layer costs what its family's costs.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "planner/hardware/hardware.h"
#include "planner/models/layers.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/operators/cost.h"
#include "planner/operators/operators.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

std::string config(std::string_view type, std::string_view facts) {
    return fmt::format(R"({{"model_type":"{}",{}}})", type, facts);
}

double parameters(std::string_view text) { return parameter_count(must(parse_model(text, "m"))); }

void refused(std::string_view text, std::string_view part) {
    const Result<Model> model = parse_model(text, "bad");
    ck_assert_msg(!model.ok(), "accepted: %.200s", std::string(text).c_str());
    ck_assert_msg(model.error().message().find(part) != std::string::npos, "'%s' lacks '%s'",
                  model.error().message().c_str(), std::string(part).c_str());
}

const std::string t5_base =
    R"("architectures":["T5ForConditionalGeneration"],"d_ff":3072,"d_kv":64,"d_model":768,)"
    R"("is_encoder_decoder":true,"num_heads":12,"num_layers":12,"n_positions":512,"vocab_size":32128)";
const std::string mamba_130m =
    R"("architectures":["MambaForCausalLM"],"hidden_size":768,"intermediate_size":1536,)"
    R"("num_hidden_layers":24,"state_size":16,"time_step_rank":48,"vocab_size":50280,)"
    R"("use_bias":false,"use_conv_bias":true,"conv_kernel":4,"expand":2)";
const std::string sd15 =
    R"({"_class_name":"UNet2DConditionModel","_diffusers_version":"0.6.0","act_fn":"silu",)"
    R"("attention_head_dim":8,"block_out_channels":[320,640,1280,1280],"center_input_sample":false,)"
    R"("cross_attention_dim":768,"down_block_types":["CrossAttnDownBlock2D",)"
    R"("CrossAttnDownBlock2D","CrossAttnDownBlock2D","DownBlock2D"],"downsample_padding":1,)"
    R"("flip_sin_to_cos":true,"freq_shift":0,"in_channels":4,"layers_per_block":2,)"
    R"("mid_block_scale_factor":1,"norm_eps":1e-05,"norm_num_groups":32,"out_channels":4,)"
    R"("sample_size":64,"up_block_types":["UpBlock2D","CrossAttnUpBlock2D",)"
    R"("CrossAttnUpBlock2D","CrossAttnUpBlock2D"]})";

}  // namespace

/// Counts of the published checkpoints, as Hugging Face's hub and torchvision 0.20 print them.
TEST(families_that_are_lists_have_the_published_parameters) {
    const auto whisper = [](int d, int layers, int heads, int mels, int vocab) {
        return config("whisper",
                      fmt::format(R"("d_model":{},"encoder_layers":{},"decoder_layers":{},)"
                                  R"("encoder_attention_heads":{},"decoder_attention_heads":{},)"
                                  R"("encoder_ffn_dim":{},"decoder_ffn_dim":{},)"
                                  R"("num_mel_bins":{},"vocab_size":{},"is_encoder_decoder":true)",
                                  d, layers, layers, heads, heads, 4 * d, 4 * d, mels, vocab));
    };
    const auto swin = [](int dim, const char* depths, const char* heads) {
        return config("swin",
                      fmt::format(R"("embed_dim":{},"depths":{},"num_heads":{},"image_size":224,)"
                                  R"("num_labels":1000)",
                                  dim, depths, heads));
    };
    struct Published {
        const char* name;
        std::string text;
        double parameters;
    };
    const Published list[] = {
        {"t5-base", config("t5", t5_base), 222903552},
        {"t5-small",
         config("t5", R"("d_ff":2048,"d_kv":64,"d_model":512,"num_heads":8,"num_layers":6,)"
                      R"("n_positions":512,"vocab_size":32128)"),
         60506624},
        {"flan-t5-xl",
         config("t5", R"("d_ff":5120,"d_kv":64,"d_model":2048,"num_heads":32,"num_layers":24,)"
                      R"("num_decoder_layers":24,"feed_forward_proj":"gated-gelu",)"
                      R"("tie_word_embeddings":false,"vocab_size":32128)"),
         2849757184},
        {"whisper-tiny", whisper(384, 4, 6, 80, 51865), 37760640},
        {"whisper-large-v3", whisper(1280, 32, 20, 128, 51866), 1543490560},
        {"mamba-130m", config("mamba", mamba_130m), 129135360},
        {"mamba2-130m",
         config("mamba2",
                R"("hidden_size":768,"num_hidden_layers":24,"num_heads":24,"head_dim":64,)"
                R"("n_groups":1,"state_size":128,"vocab_size":50288,)"
                R"("tie_word_embeddings":true)"),
         128989632},
        {"Jamba-v0.1",
         config("jamba",
                R"("hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,)"
                R"("num_attention_heads":32,"num_key_value_heads":8,"vocab_size":65536,)"
                R"("mamba_d_conv":4,"mamba_d_state":16,"mamba_dt_rank":256,"mamba_expand":2,)"
                R"("num_experts":16,"num_experts_per_tok":2,"tie_word_embeddings":false)"),
         51570323328},
        {"Falcon-H1-0.5B",
         config("falcon_h1",
                R"("hidden_size":1024,"intermediate_size":2048,"num_hidden_layers":36,)"
                R"("num_attention_heads":8,"num_key_value_heads":2,"head_dim":64,)"
                R"("mamba_d_ssm":1536,"mamba_n_heads":24,"mamba_d_head":64,"mamba_d_state":128,)"
                R"("vocab_size":32784,"projectors_bias":false)"),
         521411104},
        {"Qwen3-Next-80B-A3B",
         config("qwen3_next",
                R"("hidden_size":2048,"intermediate_size":5120,"num_hidden_layers":48,)"
                R"("num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,)"
                R"("full_attention_interval":4,"mlp_only_layers":[],"vocab_size":151936)"),
         79674391296},
        {"swin-t", swin(96, "[2,2,6,2]", "[3,6,12,24]"), 28288354},
        {"swin-b", swin(128, "[2,2,18,2]", "[4,8,16,32]"), 87768224},
        {"Stable Diffusion 1.5", sd15, 859520964},
        {"Stable Diffusion XL",
         R"({"_class_name":"UNet2DConditionModel","addition_embed_type":"text_time",)"
         R"("addition_time_embed_dim":256,"attention_head_dim":[5,10,20],)"
         R"("block_out_channels":[320,640,1280],"cross_attention_dim":2048,)"
         R"("down_block_types":["DownBlock2D","CrossAttnDownBlock2D","CrossAttnDownBlock2D"],)"
         R"("layers_per_block":2,"projection_class_embeddings_input_dim":2816,"sample_size":128,)"
         R"("transformer_layers_per_block":[1,2,10],"use_linear_projection":true,)"
         R"("up_block_types":["CrossAttnUpBlock2D","CrossAttnUpBlock2D","UpBlock2D"]})",
         2567463684},
    };
    for (const Published& one : list)
        ck_assert_msg(parameters(one.text) == one.parameters, "%s: %.0f, published %.0f", one.name,
                      parameters(one.text), one.parameters);
    // Published to three digits.
    const double nemotron = parameters(config(
        "nemotron_h",
        R"("hidden_size":4096,"intermediate_size":21504,"num_hidden_layers":52,)"
        R"("hybrid_override_pattern":"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",)"
        R"("num_attention_heads":32,"num_key_value_heads":8,"attention_head_dim":128,)"
        R"("mamba_num_heads":128,"mamba_head_dim":64,"n_groups":8,"ssm_state_size":128,)"
        R"("vocab_size":131072)"));
    ck_assert_msg(std::fabs(nemotron / 8.10e9 - 1) < 0.001, "%.0f", nemotron);
    const double bamba = parameters(
        config("bamba", R"("hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,)"
                        R"("num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,)"
                        R"("attn_layer_indices":[9,18,27],"mamba_d_state":128)"));
    ck_assert_msg(std::fabs(bamba / 9.78e9 - 1) < 0.001, "%.0f", bamba);
    std::string types;
    for (int i = 0; i < 40; ++i) types += i % 10 == 5 ? R"(,"attention")" : R"(,"mamba")";
    const double granite = parameters(
        config("granitemoehybrid",
               R"("hidden_size":1536,"intermediate_size":512,"num_hidden_layers":40,)"
               R"("num_attention_heads":12,"num_key_value_heads":4,"num_local_experts":64,)"
               R"("num_experts_per_tok":6,"shared_intermediate_size":1024,"mamba_n_heads":48,)"
               R"("mamba_d_head":64,"mamba_d_state":128,"vocab_size":100352,)"
               R"("tie_word_embeddings":true,"layer_types":[)" +
                   types.substr(1) + "]"));
    ck_assert_msg(std::fabs(granite / 6.94e9 - 1) < 0.001, "%.0f", granite);
    // DiT-XL/2 has 675,129,632 with its fixed positions, and one embedding of step and class;
    // in diffusers' module each of 28 blocks has its own, of 2,777,472.
    const double dit = parameters(
        R"({"_class_name":"DiTTransformer2DModel","num_layers":28,"num_attention_heads":16,)"
        R"("attention_head_dim":72,"in_channels":4,"out_channels":8,"sample_size":32})");
    ck_assert_msg(dit == 675129632 - 256 * 1152 + 27 * 2777472.0, "%.0f", dit);
}

/// Multiplications of torchvision 0.20's swin_t, as its documentation has them. Of the U-Net Kim et
/// al. 2023 (BK-SDM, table 2) have 339 billion, by a counter that leaves products of activations
/// out.
TEST(families_of_images_have_the_published_flops) {
    const auto macs = [](const std::string& text) {
        return forward_flops(must(parse_model(text, "m"))) / 2;
    };
    const std::string t =
        config("swin", R"("embed_dim":96,"depths":[2,2,6,2],"num_heads":[3,6,12,24],)"
                       R"("image_size":224,"num_labels":1000)");
    ck_assert_double_eq_tol(macs(t) / 4.491e9, 1, 0.01);
    double products = 0;
    for (const CustomLayer& layer : must(parse_model(sd15, "m")).custom_layers)
        for (const LayerOperator& op : layer.operators)
            if (op.kind == LayerOperator::Kind::attention) products += operator_flops(op) / 2;
    ck_assert_double_eq_tol((macs(sd15) - products) / 339e9, 1, 0.01);
}

TEST(a_family_in_yaml_has_the_keys_of_its_config) {
    const Model json = must(parse_model(config("mamba", mamba_130m), "m"));
    const Model yaml =
        must(parse_model("family: mamba\nname: mine\nprecision: bf16\nhidden_size: 768\n"
                         "num_hidden_layers: 24\nvocab_size: 50280\ntime_step_rank: auto\n",
                         "m.yaml"));
    ck_assert_str_eq(yaml.name.c_str(), "mine");
    ck_assert(fingerprint(json) == fingerprint(yaml));
    ck_assert(forward_flops(must(parse_model("family: unet\ncross_attention_dim: 768\n", "m"))) >
              1e11);
    refused("family: mamba\nhidden_size: 768\nvocab_size: 50280\n",
            "num_hidden_layers: is missing");
    refused("family: mamba\nhidden_sise: 768\nvocab_size: 50280\nnum_hidden_layers: 2\n",
            "hidden_size");
    refused("family: mamba\nprecision: fp7\n", "fp32, fp16, bf16, fp8");
    refused("family: mammoth\n", "mamba2");
    Model longer = yaml;
    set_seq_length(longer, 4096);
    ck_assert(check_model(longer).error().text.find("arena.seq_length") != std::string::npos);
    // Twice the tokens are twice the work of a scan, and the memory.
    const auto flops = [](int tokens) {
        return forward_flops(must(parse_model(
            fmt::format("family: mamba\nhidden_size: 768\nnum_hidden_layers: 24\nvocab_size: "
                        "50280\narena.seq_length: {}\n",
                        tokens),
            "m")));
    };
    ck_assert_double_eq_tol(flops(4096) / flops(2048), 2, 1e-9);
}

TEST(what_a_listed_family_cannot_price_is_refused_by_name) {
    refused(config("nemotron_h",
                   R"("hidden_size":64,"intermediate_size":64,"num_hidden_layers":2,)"
                   R"("num_attention_heads":4,"vocab_size":100,"hybrid_override_pattern":"ME")"),
            "hybrid_override_pattern");
    refused(config("t5", R"("d_model":64)"), "is missing");
    refused(config("swin", R"("depths":[2,2],"num_heads":[3])"), "num_heads");
    refused(config("swin", R"("use_absolute_embeddings":true)"), "use_absolute_embeddings");
    refused(R"({"_class_name":"UNet2DConditionModel","down_block_types":["AttnDownBlock2D"]})",
            "down_block_types");
    refused(config("mamba", R"("hidden_size":8,"vocab_size":8,"num_hidden_layers":20000)"),
            "from 1 to 10000");
    refused(R"({"_class_name":"UNet2DConditionModel","layers_per_block":1000})",
            "layers_per_block");
    refused(
        config("jamba",
               R"("hidden_size":64,"intermediate_size":64,"num_hidden_layers":8,"vocab_size":8,)"
               R"("num_attention_heads":4,"num_experts":16777216)"),
        "runs more than 1000000 times");
    refused(config("vit", R"("hidden_size":16777216,"intermediate_size":16777216,)"
                          R"("num_attention_heads":1,"num_hidden_layers":1,"image_size":16777216,)"
                          R"("patch_size":1)"),
            "FLOPs and bytes must be numbers");
    refused(config("vit", R"("hidden_size":100,"intermediate_size":64,"num_attention_heads":3,)"
                          R"("num_hidden_layers":1,"image_size":64,"patch_size":16)"),
            "num_attention_heads: 3 does not divide the 100 of hidden_size");
    refused(config("swin", R"("embed_dim":100,"depths":[1,1],"num_heads":[3,6])"),
            "3 does not divide the 100 of stage 0's width");
    refused(config("whisper", R"("d_model":384,"vocab_size":10,"encoder_layers":1,)"
                              R"("decoder_layers":1,"encoder_attention_heads":7,)"
                              R"("decoder_attention_heads":6,"encoder_ffn_dim":4,)"
                              R"("decoder_ffn_dim":4)"),
            "7 does not divide the 384 of d_model");
    refused(R"({"_class_name":"UNet2DConditionModel","attention_head_dim":7})",
            "7 does not divide the 320 of block_out_channels");
    refused(config("bamba", R"("hidden_size":64,"intermediate_size":64,"num_hidden_layers":1,)"
                            R"("num_attention_heads":6,"vocab_size":8)"),
            "6 does not divide the 64 of hidden_size");
    refused(config("granitemoehybrid",
                   R"("hidden_size":64,"intermediate_size":64,"num_hidden_layers":2,)"
                   R"("num_attention_heads":4,"vocab_size":8,"layer_types":["mamba"])"),
            "a word for each of 2 layers");
    refused(config("qwen3_next", R"("hidden_size":64,"intermediate_size":64,"num_hidden_layers":2,)"
                                 R"("num_attention_heads":4,"vocab_size":8,"mlp_only_layers":[1])"),
            "mlp_only_layers");
    // Their library's defaults are numbers of one certain model.
    const std::string small = R"("hidden_size":64,"intermediate_size":64,"num_hidden_layers":2,)"
                              R"("num_attention_heads":4,"vocab_size":8)";
    const std::string grouped = small + R"(,"num_key_value_heads":2)";
    refused(config("falcon_h1", small + R"(,"mamba_d_ssm":64)"), "num_key_value_heads: is missing");
    refused(config("falcon_h1", grouped), "mamba_d_ssm: is missing");
    refused(config("qwen3_next", small + R"(,"head_dim":16)"), "num_key_value_heads: is missing");
    refused(config("qwen3_next", grouped), "head_dim: is missing");
    const std::string few = grouped + R"(,"head_dim":16,"num_experts":8)";
    refused(config("qwen3_next", few + R"(,"num_experts_per_tok":9)"), "an integer from 1 to 8");
    refused(
        config("granitemoehybrid", grouped + R"(,"num_local_experts":4,"num_experts_per_tok":5,)"
                                             R"("mamba_n_heads":2,"mamba_d_head":64)"),
        "an integer from 1 to 4");
    refused(R"({"_class_name":"FluxTransformer2DModel"})",
            "model_type is 'FluxTransformer2DModel'");
}

TEST(operators_of_a_layer_are_text_and_back) {
    for (const char* text : {"gemm 1024x3072x1024", "bmm 512x512x64x12",
                             "12 attention 12x12x197x64", "causal_attention 32x8x8192x128",
                             "conv 64x128x28x3x2", "7 memory 4194304", "loss 1024x50257"})
        ck_assert(to_string(must(parse_layer_operator(text))) == text);
    for (const char* text : {"", "gemm", "gemm 1x2", "gemm 1x2x3x4", "gemm 0x2x3", "gemm 1x2x-3",
                             "gem 1x2x3", "0 gemm 1x2x3", "2", "9999999 gemm 1x2x3", "memory 1e9",
                             "memory 2199023255552", "gemm  1x2x3", "loss 1x"})
        ck_assert_msg(!parse_layer_operator(text).ok(), "accepted: %s", text);
    const std::string layer =
        "family: custom\nlayers:\n  - forward_flops: {}\n    parameter_bytes: 2\n"
        "    activation_bytes: 2\n    operators: [gemm 10x20x30, memory 100]\n";
    const Model model = must(parse_model(fmt::format(fmt::runtime(layer), 12000), "m"));
    ck_assert_uint_eq(model.custom_layers[0].operators.size(), 2);
    ck_assert(must(parse_model_json(to_json(model))) == model);
    Model other = model;
    other.custom_layers[0].operators[1].sizes[0] = 101;
    ck_assert(fingerprint(other) != fingerprint(model));
    refused(fmt::format(fmt::runtime(layer), 11000), "more than its forward_flops");
}

/// A layer of GPT-2 medium by hand, as describe-model writes it, in both passes.
TEST(a_layer_of_operators_costs_what_the_familys_costs) {
    const Model gpt =
        must(parse_model("family: gpt\nlayers: 24\nhidden: 1024\nheads: 16\n"
                         "vocab: 50257\nseq_length: 1024\n",
                         "m"));
    const Model listed = must(parse_model(
        "family: custom\nlayers:\n  - {count: 24, forward_flops: 30064771072, parameter_bytes: "
        "25192448, activation_bytes: 35000000, output_bytes: 2097152, operators: [gemm "
        "1024x3072x1024, causal_attention 16x16x1024x64, gemm 1024x1024x1024, gemm 1024x4096x1024, "
        "gemm 1024x1024x4096, 2 memory 4194304, memory 16777216, 2 memory 6291456]}\n",
        "m"));
    const GpuType h100 = must(find_hardware(must(load_hardware("")), "H100-SXM-80GB"));
    for (const std::int64_t micro_batch : {1, 8, 32}) {
        const auto seconds = [&](const Model& model, bool backward) {
            const ShardOperators ops =
                shard_operators(model, Precision::bf16, {.micro_batch = micro_batch});
            double sum = 0;
            for (const OpCount& op : backward ? ops.layer_backward : ops.layer_forward)
                sum += op.count * analytic_seconds(h100, op.shape);
            return sum;
        };
        for (const bool backward : {false, true})
            ck_assert_double_eq_tol(seconds(listed, backward) / seconds(gpt, backward), 1, 0.05);
    }
}

TEST(flops_that_no_operator_covers_are_priced_as_one_more) {
    const auto operators = [](std::string_view list) {
        return shard_operators(
                   must(parse_model(
                       fmt::format(
                           "family: custom\nlayers: [{{forward_flops: 3e9, parameter_bytes: "
                           "1e6, activation_bytes: 1e6{}}}]\n",
                           list),
                       "m")),
                   Precision::bf16, {.micro_batch = 2})
            .layer_forward;
    };
    const auto none = operators(""), all = operators(", operators: [gemm 1000x1500x1000]"),
               part = operators(", operators: [gemm 1000x500x1000, memory 4000]");
    ck_assert(none.size() == 1 && none[0].shape.kind == OpKind::custom);
    ck_assert_int_eq(none[0].shape.dims[0], 6000);
    ck_assert(all.size() == 1 && all[0].shape.kind == OpKind::gemm);
    ck_assert_int_eq(all[0].shape.dims[0], 2000);
    ck_assert(part.size() == 3 && part[1].shape.kind == OpKind::elementwise);
    ck_assert_double_eq(op_bytes(part[1].shape), 8000);
    ck_assert_int_eq(part[2].shape.dims[0], 4000);
}
