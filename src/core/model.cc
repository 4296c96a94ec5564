// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/names.h"
#include "base/text.h"

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

using OperatorKind = LayerOperator::Kind;
constexpr std::array<Name<OperatorKind>, 7> operator_names{
    {{OperatorKind::gemm, "gemm"},
     {OperatorKind::bmm, "bmm"},
     {OperatorKind::attention, "attention"},
     {OperatorKind::causal_attention, "causal_attention"},
     {OperatorKind::conv, "conv"},
     {OperatorKind::memory, "memory"},
     {OperatorKind::loss, "loss"}}};

std::size_t size_count(OperatorKind kind) {
    switch (kind) {
        case OperatorKind::gemm:
            return 3;
        case OperatorKind::bmm:
        case OperatorKind::attention:
        case OperatorKind::causal_attention:
            return 4;
        case OperatorKind::conv:
            return 5;
        case OperatorKind::memory:
            return 1;
        case OperatorKind::loss:
            return 2;
    }
    return 1;
}

/// The sizes of "1024x3072x1024", each in range; nothing for other text.
std::vector<std::int64_t> parse_sizes(std::string_view text) {
    std::vector<std::int64_t> sizes;
    for (const std::string_view part : split(text, 'x')) {
        const std::optional<std::int64_t> size = parse_integer(part, 1, std::int64_t{1} << 40);
        if (!size) return {};
        sizes.push_back(*size);
    }
    return sizes;
}

}  // namespace

std::string to_string(const LayerOperator& op) {
    std::string text = op.count > 1 ? fmt::format("{} ", op.count) : "";
    text += name_of(operator_names, op.kind);
    for (std::size_t i = 0; i < size_count(op.kind); ++i)
        text += fmt::format("{}{}", i == 0 ? ' ' : 'x', op.sizes[i]);
    return text;
}

Result<LayerOperator> parse_layer_operator(std::string_view text) {
    const auto bad = [&](std::string_view why) {
        return usage_error(
            fmt::format("operator '{}' {}; accepted: [COUNT] KIND SIZES, for example gemm "
                        "1024x3072x1024, bmm and attention with 4 sizes, causal_attention, conv "
                        "with 5, memory with 1, loss with 2",
                        printable(text, 60), why));
    };
    LayerOperator op;
    std::string_view rest = text;
    if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
        const std::size_t space = std::min(rest.find(' '), rest.size());
        const auto count = parse_integer(rest.substr(0, space), 1, 1000000);
        if (!count) return bad("has no count from 1 to 1000000");
        op.count = *count;
        rest.remove_prefix(std::min(space + 1, rest.size()));
    }
    const std::size_t space = std::min(rest.find(' '), rest.size());
    const auto kind = value_of(operator_names, rest.substr(0, space));
    if (!kind) return bad("is of no known kind");
    op.kind = *kind;
    rest.remove_prefix(std::min(space + 1, rest.size()));
    const std::vector<std::int64_t> sizes = parse_sizes(rest);
    if (sizes.size() != size_count(op.kind))
        return bad(fmt::format("needs {} sizes from 1 to 2^40", size_count(op.kind)));
    std::copy(sizes.begin(), sizes.end(), op.sizes.begin());
    return op;
}

double operator_flops(const LayerOperator& op) {
    const auto at = [&](std::size_t i) { return static_cast<double>(op.sizes[i]); };
    const double times = static_cast<double>(op.count);
    switch (op.kind) {
        case OperatorKind::gemm:
            return times * 2 * at(0) * at(1) * at(2);
        case OperatorKind::bmm:
            return times * 2 * at(0) * at(1) * at(2) * at(3);
        case OperatorKind::attention:
        case OperatorKind::causal_attention:
            return times * 4 * at(0) * at(2) * at(2) * at(3);
        case OperatorKind::conv:
            return times * 2 * at(2) * at(2) * at(0) * at(1) * at(3) * at(3);
        case OperatorKind::memory:
        case OperatorKind::loss:
            return 0;
    }
    return 0;
}

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
