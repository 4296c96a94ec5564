// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.h"
#include "base/text.h"
#include "core/limits.h"

namespace arena {
namespace {

constexpr std::array<Name<Recompute>, 3> recompute_names{
    {{Recompute::none, "none"}, {Recompute::selective, "selective"}, {Recompute::full, "full"}}};

constexpr std::array<Name<Schedule>, 4> schedule_names{{{Schedule::one_f_one_b, "1f1b"},
                                                        {Schedule::zb_h1, "zbh1"},
                                                        {Schedule::zb_v, "zbv"},
                                                        {Schedule::dual_pipe_v, "dualpipev"}}};

struct PinKey {
    std::string_view name;
    std::int64_t PlanPin::*field;
};
constexpr std::array<PinKey, 9> pin_keys{{{"pp", &PlanPin::pp},
                                          {"dp", &PlanPin::dp},
                                          {"tp", &PlanPin::tp},
                                          {"mb", &PlanPin::micro_batch},
                                          {"vpp", &PlanPin::vpp},
                                          {"cp", &PlanPin::cp},
                                          {"ep", &PlanPin::ep},
                                          {"etp", &PlanPin::etp},
                                          {"hsdp", &PlanPin::hsdp}}};

/// False where it is set already.
template <typename T>
bool set_once(std::optional<T>& field, T value) {
    if (field) return false;
    field = value;
    return true;
}

/// "full", "zero1", "sp"; false when the word is none of them or not the first of its kind.
bool read_setting(PlanPin& pin, std::string_view word) {
    if (const auto recompute = parse_recompute(word)) return set_once(pin.recompute, *recompute);
    if (const auto schedule = parse_schedule(word)) return set_once(pin.schedule, *schedule);
    if (word == "sp" || word == "sp0" || word == "sp1")
        return set_once(pin.sequence_parallel, word != "sp0");
    if (!word.starts_with("zero")) return false;
    const auto stage = parse_integer(word.substr(4), 0, 3);
    return stage && set_once(pin.zero_stage, *stage);
}

/// "pp2", "mb4", "mb4x16"; false as above.
bool read_degree(PlanPin& pin, std::string_view word) {
    const std::size_t digits = std::min(word.find_first_of("0123456789"), word.size());
    const auto key = std::find_if(pin_keys.begin(), pin_keys.end(), [&](const PinKey& k) {
        return k.name == word.substr(0, digits);
    });
    if (key == pin_keys.end() || pin.*key->field != 0) return false;
    std::string_view value = word.substr(digits);
    if (const std::size_t x = value.find('x'); key->name == "mb" && x != std::string_view::npos) {
        pin.num_micro_batches = parse_integer(value.substr(x + 1), 1, limits::batch).value_or(0);
        if (pin.num_micro_batches == 0) return false;
        value = value.substr(0, x);
    }
    pin.*key->field = parse_integer(value, 1, limits::gpus).value_or(0);
    return pin.*key->field != 0;
}

/// Whether it says all that short_form() always says.
bool is_whole(const PlanPin& pin) {
    return pin.fixes_gpus() && pin.micro_batch != 0 && pin.num_micro_batches != 0;
}

void fix_the_rest(PlanPin& pin) {
    const Plan rest;
    for (std::int64_t* degree : {&pin.vpp, &pin.cp, &pin.ep, &pin.etp})
        if (*degree == 0) *degree = 1;
    pin.schedule = pin.schedule.value_or(rest.schedule);
    pin.recompute = pin.recompute.value_or(rest.recompute);
    pin.zero_stage = pin.zero_stage.value_or(rest.zero_stage);
    pin.sequence_parallel = pin.sequence_parallel.value_or(rest.sequence_parallel);
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
    return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v == wanted; });
}

}  // namespace

std::string_view to_string(Recompute r) { return name_of(recompute_names, r); }
std::optional<Recompute> parse_recompute(std::string_view s) {
    return value_of(recompute_names, s);
}

std::string_view to_string(Schedule s) { return name_of(schedule_names, s); }
std::optional<Schedule> parse_schedule(std::string_view s) { return value_of(schedule_names, s); }

std::int64_t Plan::gpus() const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < stage_dp.size() && i < stage_tp.size(); ++i) {
        sum += stage_dp[i] * stage_tp[i];
    }
    return cp * sum;
}

std::string short_form(const Plan& plan) {
    std::string text =
        fmt::format("pp{},dp{},tp{},mb{}x{}", plan.pp(), per_stage(plan.stage_dp),
                    per_stage(plan.stage_tp), plan.micro_batch, plan.num_micro_batches);
    for (const auto& [key, value] :
         {std::pair{"vpp", plan.vpp}, {"cp", plan.cp}, {"ep", plan.ep}, {"etp", plan.etp}}) {
        if (value != 1) text += fmt::format(",{}{}", key, value);
    }
    if (plan.schedule != Schedule::one_f_one_b)
        text += fmt::format(",{}", to_string(plan.schedule));
    if (plan.recompute != Recompute::none) text += fmt::format(",{}", to_string(plan.recompute));
    if (plan.zero_stage != 0) text += fmt::format(",zero{}", plan.zero_stage);
    if (plan.hsdp != 0) text += fmt::format(",hsdp{}", plan.hsdp);
    return plan.sequence_parallel ? text + ",sp" : text;
}

bool is_same_layout(const Grid& a, const Grid& b) {
    if (!a.is_uneven() || !b.is_uneven()) return a == b;
    return a.gpu_type == b.gpu_type && a.stages == b.stages && a.gpus() == b.gpus();
}

void set_split(Grid& grid, std::vector<std::int64_t> gpus) {
    grid.nodes = static_cast<std::int64_t>(gpus.size());
    const auto [least, most] = std::minmax_element(gpus.begin(), gpus.end());
    grid.gpus_per_node = *most;
    grid.split.clear();
    if (*least != *most) grid.split = std::move(gpus);
}

std::string short_form(const Grid& grid) {
    if (grid.is_uneven()) return fmt::format("{}x{}", fmt::join(grid.split, "+"), grid.gpu_type);
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
    PlanPin pin;
    for (const std::string_view word : split(text, ',')) {
        if (read_setting(pin, word) || read_degree(pin, word)) continue;
        if (word.find('+') != std::string_view::npos)
            return usage_error(fmt::format(
                "plan \"{}\" has stages that differ in dp or tp, which no launcher can be "
                "told: give one dp and one tp, for example pp2,dp2,tp1",
                printable(text)));
        return usage_error(fmt::format(
            "plan \"{}\" is not understood; accepted are pp, dp, tp, mb, vpp, cp, ep, etp and "
            "hsdp, "
            "each once with a number of 1 to {}, mb also as mb4x16, one of none, selective and "
            "full, zero0 to zero3, sp and sp0, one of 1f1b, zbh1, zbv and dualpipev, for example "
            "pp2,dp2,tp1",
            printable(text), limits::gpus));
    }
    if (pin.vpp == 0 && pin.schedule && is_v_shaped(*pin.schedule)) pin.vpp = 2;
    if (is_whole(pin)) fix_the_rest(pin);
    return pin;
}

std::string to_string(const PlanPin& pin) {
    PlanPin rest = pin;
    fix_the_rest(rest);
    const bool is_shown = is_whole(pin) && rest == pin;  // then what it does not name is not free
    std::vector<std::string> parts;
    for (const PinKey& key : pin_keys) {
        const std::int64_t value = pin.*key.field;
        const bool may_be_left_out =
            key.name == "vpp" || key.name == "cp" || key.name == "ep" || key.name == "etp";
        if (value == 0 || (is_shown && may_be_left_out && value == 1)) continue;
        parts.push_back(fmt::format("{}{}", key.name, value));
        if (key.name == "mb" && pin.num_micro_batches != 0 && (is_shown || !is_whole(pin)))
            parts.back() += fmt::format("x{}", pin.num_micro_batches);
    }
    if (pin.schedule && !(is_shown && *pin.schedule == Schedule::one_f_one_b))
        parts.emplace_back(to_string(*pin.schedule));
    if (pin.recompute && !(is_shown && *pin.recompute == Recompute::none))
        parts.emplace_back(to_string(*pin.recompute));
    if (pin.zero_stage && !(is_shown && *pin.zero_stage == 0))
        parts.push_back(fmt::format("zero{}", *pin.zero_stage));
    if (pin.sequence_parallel && !(is_shown && !*pin.sequence_parallel))
        parts.emplace_back(*pin.sequence_parallel ? "sp" : "sp0");
    return join(parts, ",");
}

bool matches(const PlanPin& pin, const Plan& plan) {
    const auto agrees = [](std::int64_t pinned, std::int64_t value) {
        return pinned == 0 || pinned == value;
    };
    return agrees(pin.pp, plan.pp()) && all_equal_to(pin.dp, plan.stage_dp) &&
           all_equal_to(pin.tp, plan.stage_tp) && agrees(pin.micro_batch, plan.micro_batch) &&
           agrees(pin.num_micro_batches, plan.num_micro_batches) && agrees(pin.vpp, plan.vpp) &&
           agrees(pin.cp, plan.cp) && agrees(pin.ep, plan.ep) && agrees(pin.hsdp, plan.hsdp) &&
           agrees(pin.etp, plan.etp) && pin.schedule.value_or(plan.schedule) == plan.schedule &&
           pin.recompute.value_or(plan.recompute) == plan.recompute &&
           pin.zero_stage.value_or(plan.zero_stage) == plan.zero_stage &&
           pin.sequence_parallel.value_or(plan.sequence_parallel) == plan.sequence_parallel;
}

}  // namespace arena
