// SPDX-License-Identifier: GPL-2.0-or-later
// Models by their well-known names. Dimensions are public facts (model cards and papers); the unit
// test holds each against its published parameter count.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.h"
#include "planner/model.h"
#include "planner/planner.h"

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

/// The up to three known names closest to a misspelt one, for the message.
std::string suggestions(std::string_view name) {
    std::vector<std::string_view> candidates;
    for (const ZooRow& row : rows) candidates.push_back(row.name);
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
    for (const ZooRow& row : rows)
        if (row.name == name) return to_model(row);
    return usage_error(
        fmt::format("'{}' is not a built-in model; nearest: {}; a path to a config.json "
                    "or YAML file is accepted too",
                    printable(name, 64), suggestions(name)));
}

std::vector<std::string> zoo_names() {
    std::vector<std::string> names;
    for (const ZooRow& row : rows) names.emplace_back(row.name);
    return names;
}

}  // namespace arena
