// SPDX-License-Identifier: GPL-2.0-or-later
// Names of the enumerations and the short forms that people read.
// JSON lives in values_json.cc.
#include "core/values.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/text.h"

namespace arena {
namespace {

template <typename E>
struct Name {
    E value;
    std::string_view name;
};

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
constexpr std::array<Name<Recompute>, 3> recompute_names{{{Recompute::none, "none"},
                                                          {Recompute::selective, "selective"},
                                                          {Recompute::full, "full"}}};
constexpr std::array<Name<Source>, 3> source_names{{{Source::analytic, "analytic"},
                                                    {Source::profiled, "profiled"},
                                                    {Source::observed, "observed"}}};
constexpr std::array<Name<ActionKind>, 5> action_names{
    {{ActionKind::start, "start"},
     {ActionKind::reshape_and_wait, "reshape_and_wait"},
     {ActionKind::resize, "resize"},
     {ActionKind::profile, "profile"},
     {ActionKind::preempt, "preempt"}}};

template <typename E, std::size_t N>
std::string_view name_of(const std::array<Name<E>, N>& names, E value) {
    for (const auto& entry : names) {
        if (entry.value == value) return entry.name;
    }
    return "?";
}

template <typename E, std::size_t N>
std::optional<E> value_of(const std::array<Name<E>, N>& names, std::string_view name) {
    for (const auto& entry : names) {
        if (entry.name == name) return entry.value;
    }
    return std::nullopt;
}

struct PinKey {
    std::string_view name;
    std::int64_t PlanPin::*field;
};
constexpr std::array<PinKey, 7> pin_keys{{{"pp", &PlanPin::pp},
                                          {"dp", &PlanPin::dp},
                                          {"tp", &PlanPin::tp},
                                          {"mb", &PlanPin::micro_batch},
                                          {"vpp", &PlanPin::vpp},
                                          {"cp", &PlanPin::cp},
                                          {"ep", &PlanPin::ep}}};

/// The 4 of "4x16", as short_form() writes micro-batches. Their number is the batch's to say: who knows the batch
/// checks it (build_request.cc).
std::optional<std::int64_t> read_micro_batch(std::string_view value) {
    const std::size_t x = value.find('x');
    if (!parse_integer(value.substr(x + 1), 1, 1 << 24)) return std::nullopt;
    return parse_integer(value.substr(0, x), 1, 65536);
}

/// "2" when every stage has 2, else "2+1+1".
std::string per_stage(const std::vector<std::int64_t>& values) {
    if (values.empty()) return "1";
    const bool uniform = std::all_of(values.begin(), values.end(),
                                     [&](std::int64_t v) { return v == values.front(); });
    if (uniform) return fmt::format("{}", values.front());
    return fmt::format("{}", fmt::join(values, "+"));
}

bool all_equal_to(std::int64_t wanted, const std::vector<std::int64_t>& values) {
    if (wanted == 0) return true;
    if (values.empty()) return wanted == 1;
    return std::all_of(values.begin(), values.end(),
                       [&](std::int64_t v) { return v == wanted; });
}

}  // namespace

std::string_view to_string(Family f) { return name_of(family_names, f); }
std::string_view to_string(Precision p) { return name_of(precision_names, p); }
std::string_view to_string(Recompute r) { return name_of(recompute_names, r); }
std::string_view to_string(Source s) { return name_of(source_names, s); }
std::string_view to_string(ActionKind a) { return name_of(action_names, a); }
std::optional<Family> parse_family(std::string_view s) { return value_of(family_names, s); }
std::optional<Precision> parse_precision(std::string_view s) {
    return value_of(precision_names, s);
}
std::optional<Recompute> parse_recompute(std::string_view s) {
    return value_of(recompute_names, s);
}
std::optional<Source> parse_source(std::string_view s) { return value_of(source_names, s); }
std::optional<ActionKind> parse_action_kind(std::string_view s) { return value_of(action_names, s); }

std::int64_t Plan::gpus() const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < stage_dp.size() && i < stage_tp.size(); ++i) {
        sum += stage_dp[i] * stage_tp[i];
    }
    return cp * sum;
}

std::string short_form(const Plan& plan) {
    std::string text = fmt::format("pp{},dp{},tp{},mb{}x{}", plan.pp(), per_stage(plan.stage_dp),
                                   per_stage(plan.stage_tp), plan.micro_batch, plan.num_micro_batches);
    for (const auto& [key, value] : {std::pair{"vpp", plan.vpp}, {"cp", plan.cp}, {"ep", plan.ep}}) {
        if (value != 1) text += fmt::format(",{}{}", key, value);
    }
    return text;
}

std::string short_form(const Grid& grid) {
    if (grid.nodes == 1) return fmt::format("{}x{}", grid.gpus_per_node, grid.gpu_type);
    return fmt::format("{}x{}x{}", grid.nodes, grid.gpus_per_node, grid.gpu_type);
}

std::int64_t PlanPin::gpus() const {
    std::int64_t product = 1;
    for (const std::int64_t degree : {pp, dp, tp, cp})
        product = std::min(product * std::max<std::int64_t>(1, degree), std::int64_t{1} << 40);
    return product;
}

Result<PlanPin> parse_plan_pin(std::string_view text) {
    constexpr std::string_view accepted =
        "accepted are pp, dp, tp, mb, vpp, cp and ep, each once with a number of 1 to 65536, mb also as mb4x16, "
        "for example pp2,dp2,tp1";
    PlanPin pin;
    for (const std::string_view part : split(text, ',')) {
        const std::size_t digits = std::min(part.find_first_of("0123456789"), part.size());
        const auto key = std::find_if(pin_keys.begin(), pin_keys.end(), [&](const PinKey& k) {
            return k.name == part.substr(0, digits);
        });
        const std::string_view value = part.substr(digits);
        const bool counts = part.starts_with("mb") && value.find('x') != std::string_view::npos;
        const auto number = counts ? read_micro_batch(value) : parse_integer(value, 1, 65536);
        if (key == pin_keys.end() || !number || pin.*key->field != 0) {
            return usage_error(
                fmt::format("plan \"{}\" is not understood; {}", printable(text), accepted));
        }
        pin.*key->field = *number;
    }
    return pin;
}

std::string to_string(const PlanPin& pin) {
    std::vector<std::string> parts;
    for (const PinKey& key : pin_keys) {
        if (pin.*key.field != 0) parts.push_back(fmt::format("{}{}", key.name, pin.*key.field));
    }
    return join(parts, ",");
}

bool matches(const PlanPin& pin, const Plan& plan) {
    const auto agrees = [](std::int64_t pinned, std::int64_t value) {
        return pinned == 0 || pinned == value;
    };
    return agrees(pin.pp, plan.pp()) && all_equal_to(pin.dp, plan.stage_dp) &&
           all_equal_to(pin.tp, plan.stage_tp) && agrees(pin.micro_batch, plan.micro_batch) &&
           agrees(pin.vpp, plan.vpp) && agrees(pin.cp, plan.cp) && agrees(pin.ep, plan.ep);
}

const std::vector<Offer>& SharedOffers::get() const {
    static const std::vector<Offer> none;
    return list_ ? *list_ : none;
}

std::vector<Offer>& SharedOffers::own() {
    auto mine = std::make_shared<std::vector<Offer>>(get());
    std::vector<Offer>& list = *mine;
    list_ = std::move(mine);
    return list;
}

}  // namespace arena
