// SPDX-License-Identifier: GPL-2.0-or-later
// Models by their well-known names. Dimensions are public facts (model cards and papers); the unit
// test holds each against its published parameter count.
#include <fmt/format.h>

#include <optional>

#include "base/text.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"

namespace arena {

namespace {

struct ZooRow {
    std::string_view name;
    Family family;
    std::int64_t layers, hidden, heads, kv_heads, ffn_hidden, vocab, seq_length;
    bool tied;
};

constexpr Family gpt = Family::gpt, bert = Family::bert, llama = Family::llama;

constexpr ZooRow rows[] = {
    // Radford et al. 2019
    {"gpt2", gpt, 12, 768, 12, 12, 3072, 50257, 1024, true},
    {"gpt2-medium", gpt, 24, 1024, 16, 16, 4096, 50257, 1024, true},
    {"gpt2-large", gpt, 36, 1280, 20, 20, 5120, 50257, 1024, true},
    {"gpt2-xl", gpt, 48, 1600, 25, 25, 6400, 50257, 1024, true},
    // Brown et al. 2020 (GPT-3), table 2.1; head counts that divide the hidden size
    {"gpt-125m", gpt, 12, 768, 12, 12, 3072, 50257, 2048, true},
    {"gpt-350m", gpt, 24, 1024, 16, 16, 4096, 50257, 2048, true},
    {"gpt-760m", gpt, 24, 1536, 16, 16, 6144, 50257, 2048, true},
    {"gpt-1.3b", gpt, 24, 2048, 16, 16, 8192, 50257, 2048, true},
    {"gpt-2.7b", gpt, 32, 2560, 32, 32, 10240, 50257, 2048, true},
    {"gpt-6.7b", gpt, 32, 4096, 32, 32, 16384, 50257, 2048, true},
    {"gpt-13b", gpt, 40, 5120, 40, 40, 20480, 50257, 2048, true},
    {"gpt-175b", gpt, 96, 12288, 96, 96, 49152, 50257, 2048, true},
    // Narayanan et al. 2021 (Megatron-LM, SC'21), table 1; Korthikanti et al. 2022 (22B)
    {"gpt-1.7b", gpt, 24, 2304, 24, 24, 9216, 51200, 2048, true},
    {"gpt-3.6b", gpt, 30, 3072, 32, 32, 12288, 51200, 2048, true},
    {"gpt-7.5b", gpt, 36, 4096, 32, 32, 16384, 51200, 2048, true},
    {"gpt-18.4b", gpt, 40, 6144, 48, 48, 24576, 51200, 2048, true},
    {"gpt-22b", gpt, 48, 6144, 64, 64, 24576, 51200, 2048, true},
    {"gpt-39.1b", gpt, 48, 8192, 64, 64, 32768, 51200, 2048, true},
    {"gpt-76.1b", gpt, 60, 10240, 80, 80, 40960, 51200, 2048, true},
    {"gpt-145.6b", gpt, 80, 12288, 96, 96, 49152, 51200, 2048, true},
    {"gpt-310.1b", gpt, 96, 16384, 128, 128, 65536, 51200, 2048, true},
    {"gpt-530b", gpt, 105, 20480, 128, 128, 81920, 51200, 2048, true},
    {"gpt-1t", gpt, 128, 25600, 160, 160, 102400, 51200, 2048, true},
    // Zhang et al. 2022 (OPT)
    {"opt-1.3b", gpt, 24, 2048, 32, 32, 8192, 50272, 2048, true},
    {"opt-2.7b", gpt, 32, 2560, 32, 32, 10240, 50272, 2048, true},
    {"opt-6.7b", gpt, 32, 4096, 32, 32, 16384, 50272, 2048, true},
    {"opt-13b", gpt, 40, 5120, 40, 40, 20480, 50272, 2048, true},
    {"opt-30b", gpt, 48, 7168, 56, 56, 28672, 50272, 2048, true},
    // Devlin et al. 2018
    {"bert-base", bert, 12, 768, 12, 12, 3072, 30522, 512, true},
    {"bert-large", bert, 24, 1024, 16, 16, 4096, 30522, 512, true},
    // Touvron et al. 2023; Llama 3 model cards
    {"llama-7b", llama, 32, 4096, 32, 32, 11008, 32000, 2048, false},
    {"llama-13b", llama, 40, 5120, 40, 40, 13824, 32000, 2048, false},
    {"llama-30b", llama, 60, 6656, 52, 52, 17920, 32000, 2048, false},
    {"llama-65b", llama, 80, 8192, 64, 64, 22016, 32000, 2048, false},
    {"llama-2-7b", llama, 32, 4096, 32, 32, 11008, 32000, 4096, false},
    {"llama-2-13b", llama, 40, 5120, 40, 40, 13824, 32000, 4096, false},
    {"llama-2-70b", llama, 80, 8192, 64, 8, 28672, 32000, 4096, false},
    {"llama-3-8b", llama, 32, 4096, 32, 8, 14336, 128256, 8192, false},
    {"llama-3-70b", llama, 80, 8192, 64, 8, 28672, 128256, 8192, false},
    {"llama-3.1-405b", llama, 126, 16384, 128, 8, 53248, 128256, 8192, false},
    {"llama-3.2-1b", llama, 16, 2048, 32, 8, 8192, 128256, 8192, true},
    {"llama-3.2-3b", llama, 28, 3072, 24, 8, 8192, 128256, 8192, true},
    {"tinyllama-1.1b", llama, 22, 2048, 32, 4, 5632, 32000, 2048, false},
    // Jiang et al. 2023; Qwen2 model cards
    {"mistral-7b", llama, 32, 4096, 32, 8, 14336, 32000, 8192, false},
    {"qwen2-0.5b", llama, 24, 896, 14, 2, 4864, 151936, 4096, true},
    {"qwen2-1.5b", llama, 28, 1536, 12, 2, 8960, 151936, 4096, true},
    {"qwen2-7b", llama, 28, 3584, 28, 4, 18944, 152064, 4096, false},
    {"qwen2-72b", llama, 80, 8192, 64, 8, 29568, 152064, 4096, false},
};

/// Models that a row of seven numbers does not hold, as model YAML.
struct ZooText {
    std::string_view name, yaml;
};

constexpr ZooText texts[] = {
    // Black et al. 2022 (GPT-NeoX-20B)
    {"gpt-neox-20b",
     "family: gpt\nlayers: 44\nhidden: 6144\nheads: 64\nvocab: 50432\nseq_length: 2048\n"
     "learned_positions: false\ntied_embedding: false\nprecision: fp16\n"},
    // Qwen3 model cards
    {"qwen3-0.6b",
     "family: llama\nlayers: 28\nhidden: 1024\nheads: 16\nkv_heads: 8\nhead_dim: 128\n"
     "ffn_hidden: 3072\nvocab: 151936\nseq_length: 4096\nqk_norm: true\ntied_embedding: true\n"},
    {"qwen3-1.7b",
     "family: llama\nlayers: 28\nhidden: 2048\nheads: 16\nkv_heads: 8\nhead_dim: 128\n"
     "ffn_hidden: 6144\nvocab: 151936\nseq_length: 4096\nqk_norm: true\ntied_embedding: true\n"},
    {"qwen3-4b",
     "family: llama\nlayers: 36\nhidden: 2560\nheads: 32\nkv_heads: 8\nhead_dim: 128\n"
     "ffn_hidden: 9728\nvocab: 151936\nseq_length: 4096\nqk_norm: true\ntied_embedding: true\n"},
    {"qwen3-8b",
     "family: llama\nlayers: 36\nhidden: 4096\nheads: 32\nkv_heads: 8\nhead_dim: 128\n"
     "ffn_hidden: 12288\nvocab: 151936\nseq_length: 4096\nqk_norm: true\n"},
    {"qwen3-14b",
     "family: llama\nlayers: 40\nhidden: 5120\nheads: 40\nkv_heads: 8\nhead_dim: 128\n"
     "ffn_hidden: 17408\nvocab: 151936\nseq_length: 4096\nqk_norm: true\n"},
    {"qwen3-32b",
     "family: llama\nlayers: 64\nhidden: 5120\nheads: 64\nkv_heads: 8\nhead_dim: 128\n"
     "ffn_hidden: 25600\nvocab: 151936\nseq_length: 4096\nqk_norm: true\n"},
    {"qwen3-30b-a3b",
     "family: moe\nlayers: 48\nhidden: 2048\nheads: 32\nkv_heads: 4\nhead_dim: 128\n"
     "experts: 128\ntop_k: 8\nmoe_ffn_hidden: 768\nvocab: 151936\nseq_length: 4096\n"
     "qk_norm: true\n"},
    {"qwen3-235b-a22b",
     "family: moe\nlayers: 94\nhidden: 4096\nheads: 64\nkv_heads: 4\nhead_dim: 128\n"
     "experts: 128\ntop_k: 8\nmoe_ffn_hidden: 1536\nvocab: 151936\nseq_length: 4096\n"
     "qk_norm: true\n"},
    // Jiang et al. 2024
    {"mixtral-8x7b",
     "family: moe\nlayers: 32\nhidden: 4096\nheads: 32\nkv_heads: 8\nexperts: 8\ntop_k: 2\n"
     "moe_ffn_hidden: 14336\nvocab: 32000\nseq_length: 4096\n"},
    {"mixtral-8x22b",
     "family: moe\nlayers: 56\nhidden: 6144\nheads: 48\nkv_heads: 8\nexperts: 8\ntop_k: 2\n"
     "moe_ffn_hidden: 16384\nvocab: 32000\nseq_length: 4096\n"},
    // OpenAI 2025
    {"gpt-oss-20b",
     "family: moe\nlayers: 24\nhidden: 2880\nheads: 64\nkv_heads: 8\nhead_dim: 64\n"
     "experts: 32\ntop_k: 4\nmoe_ffn_hidden: 2880\nvocab: 201088\nseq_length: 4096\n"
     "linear_bias: true\nwindow: 128\nfull_attention_every: 2\n"},
    {"gpt-oss-120b",
     "family: moe\nlayers: 36\nhidden: 2880\nheads: 64\nkv_heads: 8\nhead_dim: 64\n"
     "experts: 128\ntop_k: 4\nmoe_ffn_hidden: 2880\nvocab: 201088\nseq_length: 4096\n"
     "linear_bias: true\nwindow: 128\nfull_attention_every: 2\n"},
    // DeepSeek-AI 2024, without the multi-token-prediction layer
    {"deepseek-v3",
     "family: moe\nlayers: 61\nhidden: 7168\nheads: 128\nffn_hidden: 18432\ndense_layers: 3\n"
     "experts: 256\ntop_k: 8\nmoe_ffn_hidden: 2048\nshared_ffn_hidden: 2048\n"
     "q_lora_rank: 1536\nkv_lora_rank: 512\nqk_nope_head_dim: 128\nqk_rope_head_dim: 64\n"
     "v_head_dim: 128\nvocab: 129280\nseq_length: 4096\n"},
    // He et al. 2015; Zagoruyko and Komodakis 2016
    {"resnet-50", "family: wide_resnet\ndepth: 50\nbase_channels: 64\nimage_size: 224\n"},
    {"resnet-101", "family: wide_resnet\ndepth: 101\nbase_channels: 64\nimage_size: 224\n"},
    {"resnet-152", "family: wide_resnet\ndepth: 152\nbase_channels: 64\nimage_size: 224\n"},
    {"wide-resnet-50-2",
     "family: wide_resnet\ndepth: 50\nbase_channels: 64\nwidth_factor: 2\nimage_size: 224\n"},
    {"wide-resnet-101-2",
     "family: wide_resnet\ndepth: 101\nbase_channels: 64\nwidth_factor: 2\nimage_size: 224\n"},
};

/// The mixtures of experts of Alpa and Arena: every other layer GShard, groups of 2048 tokens.
struct GshardRow {
    std::string_view name;
    std::int64_t layers, hidden, experts;
};
constexpr GshardRow gshard_rows[] = {{"moe-690m", 8, 768, 16},   {"moe-1.3b", 16, 768, 16},
                                     {"moe-2.4b", 16, 1024, 16}, {"moe-10b", 16, 1536, 32},
                                     {"moe-27b", 16, 2048, 48},  {"moe-70b", 32, 2048, 64}};

/// Their residual networks: only the 3x3 convolutions are widened.
struct ResnetRow {
    std::string_view name;
    std::int64_t depth, width_factor, base_channels;
};
constexpr ResnetRow resnet_rows[] = {
    {"wide-resnet-500m", 50, 2, 224},  {"wide-resnet-1b", 50, 2, 320},
    {"wide-resnet-2b", 50, 2, 448},    {"wide-resnet-4b", 50, 2, 640},
    {"wide-resnet-6.8b", 50, 16, 320}, {"wide-resnet-13b", 101, 16, 320}};

constexpr std::string_view vgg19 = "vgg-19";

Model gshard_model(const GshardRow& row) {
    Model model;
    model.family = Family::moe;
    model.layers = row.layers;
    model.hidden = row.hidden;
    model.heads = 16;
    model.ffn_hidden = model.moe_ffn_hidden = 8 * row.hidden;
    model.vocab = 32000;
    model.seq_length = 1024;
    model.precision = Precision::fp16;
    model.experts = row.experts;
    model.top_k = 2;
    model.moe_every = 2;
    model.capacity_factor = 1;
    model.moe_group_size = 2048;
    return model;  // flags are those of bert, Model's own
}

Model resnet_model(const ResnetRow& row) {
    Model model;
    model.family = Family::wide_resnet;
    model.depth = row.depth;
    model.width_factor = row.width_factor;
    model.base_channels = row.base_channels;
    model.image_size = 224;
    model.classes = 1024;
    model.widen_first = false;
    model.precision = Precision::fp32;
    return model;
}

/// Simonyan and Zisserman 2015, configuration E, for images of 224: a layer is a convolution with
/// its ReLU and the pooling behind it, or a fully connected one. Kept: what the ReLU has made.
Model vgg19_model() {
    struct Convolution {
        double in, out, edge;
        bool pools;
        std::int64_t count = 1;
    };
    constexpr Convolution convolutions[] = {
        {3, 64, 224, false},   {64, 64, 224, true},      {64, 128, 112, false},
        {128, 128, 112, true}, {128, 256, 56, false},    {256, 256, 56, false, 2},
        {256, 256, 56, true},  {256, 512, 28, false},    {512, 512, 28, false, 2},
        {512, 512, 28, true},  {512, 512, 14, false, 3}, {512, 512, 14, true}};
    constexpr std::pair<double, double> connections[] = {
        {7 * 7 * 512, 4096}, {4096, 4096}, {4096, 1000}};
    constexpr double bytes = 2;  // of an element, in bf16
    Model model;
    model.family = Family::custom;
    model.precision = Precision::bf16;
    for (const Convolution& c : convolutions) {
        const double weights = 9 * c.in * c.out, pixels = c.edge * c.edge;
        const double made = c.out * pixels * bytes;
        model.custom_layers.push_back({.name = "convolution",
                                       .count = c.count,
                                       .forward_flops = 2 * weights * pixels,
                                       .parameter_bytes = (weights + c.out) * bytes,
                                       .activation_bytes = made,
                                       .output_bytes = c.pools ? made / 4 : made});
    }
    for (const auto& [in, out] : connections)
        model.custom_layers.push_back({.name = "connected",
                                       .forward_flops = 2 * in * out,
                                       .parameter_bytes = (in * out + out) * bytes,
                                       .activation_bytes = out * bytes,
                                       .output_bytes = out * bytes});
    return model;
}

Model to_model(const ZooRow& row) {
    Model model;
    model.name = row.name;
    model.family = row.family;
    model.layers = row.layers;
    model.hidden = row.hidden;
    model.heads = row.heads;
    model.kv_heads = row.kv_heads;
    model.ffn_hidden = row.ffn_hidden;
    model.vocab = row.vocab;
    model.seq_length = row.seq_length;
    set_family_flags(model);
    model.tied_embedding = row.tied;
    model.qkv_bias = row.name.starts_with("qwen2-");
    return model;
}

/// Nothing when no list has the name.
std::optional<Result<Model>> find_any(std::string_view name) {
    for (const ZooRow& row : rows)
        if (row.name == name) return to_model(row);
    for (const ZooText& row : texts)
        if (row.name == name) {
            IgnoredWords none;
            return parse_yaml_model(row.yaml, row.name, none);
        }
    for (const GshardRow& row : gshard_rows)
        if (row.name == name) return complete_model(gshard_model(row), name);
    for (const ResnetRow& row : resnet_rows)
        if (row.name == name) return complete_model(resnet_model(row), name);
    if (name == vgg19) return complete_model(vgg19_model(), name);
    return std::nullopt;
}

std::vector<std::string_view> all_names() {
    std::vector<std::string_view> names;
    const auto add = [&](const auto& list) {
        for (const auto& row : list) names.push_back(row.name);
    };
    add(rows), add(texts), add(gshard_rows), add(resnet_rows);
    names.push_back(vgg19);
    return names;
}

/// The up to three known names closest to a misspelt one, for the message.
std::string suggestions(std::string_view name) {
    std::vector<std::string_view> candidates = all_names();
    std::vector<std::string> near;
    while (near.size() < 3) {
        const std::string best = nearest(name, candidates);
        if (best.empty()) break;
        near.push_back(best);
        std::erase(candidates, std::string_view(best));
    }
    return near.empty() ? "gpt2, bert-base, llama-2-7b, ..." : join(near, ", ");
}

}  // namespace

Result<Model> find_zoo_model(std::string_view name) {
    if (std::optional<Result<Model>> model = find_any(name)) {
        if (*model) (*model)->name = name;
        return *model;
    }
    return usage_error(
        fmt::format("'{}' is not a built-in model; nearest: {}; a path to a config.json "
                    "or YAML file is accepted too",
                    printable(name, 64), suggestions(name)));
}

std::vector<std::string> zoo_names() {
    const std::vector<std::string_view> names = all_names();
    return {names.begin(), names.end()};
}

namespace {

/// Published models with the layers of a built-in one; those of other window, vocabulary or rotary
/// scaling that costs are left out.
constexpr std::pair<std::string_view, std::string_view> published_names[] = {
    {"openai-community/gpt2", "gpt2"},
    {"openai-community/gpt2-medium", "gpt2-medium"},
    {"openai-community/gpt2-large", "gpt2-large"},
    {"openai-community/gpt2-xl", "gpt2-xl"},
    {"facebook/opt-1.3b", "opt-1.3b"},
    {"facebook/opt-2.7b", "opt-2.7b"},
    {"facebook/opt-6.7b", "opt-6.7b"},
    {"facebook/opt-13b", "opt-13b"},
    {"facebook/opt-30b", "opt-30b"},
    {"google-bert/bert-base-uncased", "bert-base"},
    {"bert-base-uncased", "bert-base"},
    {"google-bert/bert-large-uncased", "bert-large"},
    {"bert-large-uncased", "bert-large"},
    {"huggyllama/llama-7b", "llama-7b"},
    {"huggyllama/llama-13b", "llama-13b"},
    {"huggyllama/llama-30b", "llama-30b"},
    {"huggyllama/llama-65b", "llama-65b"},
    {"meta-llama/Llama-2-7b-hf", "llama-2-7b"},
    {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"},
    {"meta-llama/Llama-2-13b-hf", "llama-2-13b"},
    {"meta-llama/Llama-2-13b-chat-hf", "llama-2-13b"},
    {"meta-llama/Llama-2-70b-hf", "llama-2-70b"},
    {"meta-llama/Llama-2-70b-chat-hf", "llama-2-70b"},
    {"meta-llama/Meta-Llama-3-8B", "llama-3-8b"},
    {"meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"},
    {"meta-llama/Meta-Llama-3-70B", "llama-3-70b"},
    {"meta-llama/Meta-Llama-3-70B-Instruct", "llama-3-70b"},
    {"meta-llama/Llama-3.1-8B", "llama-3-8b"},
    {"meta-llama/Llama-3.1-8B-Instruct", "llama-3-8b"},
    {"meta-llama/Llama-3.1-70B", "llama-3-70b"},
    {"meta-llama/Llama-3.1-70B-Instruct", "llama-3-70b"},
    {"meta-llama/Llama-3.3-70B-Instruct", "llama-3-70b"},
    {"meta-llama/Llama-3.1-405B", "llama-3.1-405b"},
    {"meta-llama/Llama-3.1-405B-Instruct", "llama-3.1-405b"},
    {"meta-llama/Llama-3.2-1B", "llama-3.2-1b"},
    {"meta-llama/Llama-3.2-1B-Instruct", "llama-3.2-1b"},
    {"meta-llama/Llama-3.2-3B", "llama-3.2-3b"},
    {"meta-llama/Llama-3.2-3B-Instruct", "llama-3.2-3b"},
    {"TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b"},
    {"mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b"},
    {"Qwen/Qwen2-0.5B", "qwen2-0.5b"},
    {"Qwen/Qwen2-0.5B-Instruct", "qwen2-0.5b"},
    {"Qwen/Qwen2-1.5B", "qwen2-1.5b"},
    {"Qwen/Qwen2-1.5B-Instruct", "qwen2-1.5b"},
    {"Qwen/Qwen2-7B", "qwen2-7b"},
    {"Qwen/Qwen2-7B-Instruct", "qwen2-7b"},
    {"Qwen/Qwen2-72B", "qwen2-72b"},
    {"Qwen/Qwen2-72B-Instruct", "qwen2-72b"},
    {"Qwen/Qwen2.5-0.5B", "qwen2-0.5b"},
    {"Qwen/Qwen2.5-0.5B-Instruct", "qwen2-0.5b"},
    {"Qwen/Qwen2.5-1.5B", "qwen2-1.5b"},
    {"Qwen/Qwen2.5-1.5B-Instruct", "qwen2-1.5b"},
    {"Qwen/Qwen2.5-7B", "qwen2-7b"},
    {"Qwen/Qwen2.5-7B-Instruct", "qwen2-7b"},
    {"Qwen/Qwen3-0.6B", "qwen3-0.6b"},
    {"Qwen/Qwen3-1.7B", "qwen3-1.7b"},
    {"Qwen/Qwen3-4B", "qwen3-4b"},
    {"Qwen/Qwen3-8B", "qwen3-8b"},
    {"Qwen/Qwen3-14B", "qwen3-14b"},
    {"Qwen/Qwen3-32B", "qwen3-32b"},
    {"Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"},
    {"Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"},
    {"EleutherAI/gpt-neox-20b", "gpt-neox-20b"},
    {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"},
    {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
    {"openai/gpt-oss-20b", "gpt-oss-20b"},
    {"openai/gpt-oss-120b", "gpt-oss-120b"}};

}  // namespace

std::string_view zoo_name_of(std::string_view published) {
    for (const auto& [name, zoo] : published_names)
        if (name == published || zoo == published) return zoo;
    return {};
}

}  // namespace arena
