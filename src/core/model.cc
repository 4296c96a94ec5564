// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/model.h"

#include <fmt/format.h>

#include "base/names.h"

namespace arena {
namespace {

constexpr std::array<Name<Family>, 6> family_names{{{Family::gpt, "gpt"},
                                                    {Family::llama, "llama"},
                                                    {Family::bert, "bert"},
                                                    {Family::moe, "moe"},
                                                    {Family::wide_resnet, "wide_resnet"},
                                                    {Family::custom, "custom"}}};
constexpr std::array<Name<Precision>, 7> precision_names{{{Precision::fp32, "fp32"},
                                                          {Precision::tf32, "tf32"},
                                                          {Precision::fp16, "fp16"},
                                                          {Precision::bf16, "bf16"},
                                                          {Precision::fp8, "fp8"},
                                                          {Precision::mxfp8, "mxfp8"},
                                                          {Precision::nvfp4, "nvfp4"}}};

}  // namespace

std::string_view to_string(Family f) { return name_of(family_names, f); }
std::optional<Family> parse_family(std::string_view s) { return value_of(family_names, s); }
std::string_view to_string(Precision p) { return name_of(precision_names, p); }
std::optional<Precision> parse_precision(std::string_view s) {
    return value_of(precision_names, s);
}

void set_seq_length(Model& model, std::int64_t seq_length) {
    const std::int64_t rows = model.positions == 0 ? model.seq_length : model.positions;
    model.seq_length = seq_length;
    model.positions = model.learned_positions && model.vocab > 0 && rows > seq_length ? rows : 0;
}

Status add_adapters(Model& model, std::int64_t rank) {
    if (model.family == Family::wide_resnet || model.family == Family::custom)
        return usage_error(
            fmt::format("only transformers (family gpt, llama, bert, moe) have adapters, and {} is "
                        "of family {}",
                        model.name, to_string(model.family)));
    if (model.lora_rank != 0 && model.lora_rank != rank)
        return usage_error(
            fmt::format("{} says itself that its adapters have rank {}, not {}: give one of them",
                        model.name, model.lora_rank, rank));
    model.lora_rank = rank;
    return Done{};
}

}  // namespace arena
