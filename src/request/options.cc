// SPDX-License-Identifier: GPL-2.0-or-later
// See options.h. Knows nothing of the cluster; what a launcher, a model and a plan forbid each
// other is planner/requests/pin_rules.h.
#include "request/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "core/limits.h"
#include "core/model_fields.h"
#include "request/launchers.h"

namespace arena {
namespace {

constexpr std::string_view anything = "any";  ///< of gpus, types and plan: no limit

constexpr std::string_view no_adapters = "none";

std::string number_or_nothing(std::int64_t n) { return n == 0 ? "" : std::to_string(n); }

Status parse_model_ignore(std::string_view text, Request& request) {
    Result<std::vector<std::string>> words = read_ignored_words(text);
    if (!words) return usage_error(words.error().text);
    request.model_ignore = std::move(*words);
    return Done{};
}

Status parse_seq_length(std::string_view text, Request& request) {
    const IntegerField& field = *find_integer_field("seq_length");
    std::int64_t seq_length = 0;
    if (Status s = read_integer(text, field.min, field.max, seq_length); !s) return s;
    set_seq_length(request.model, seq_length);
    return Done{};
}

Status parse_precision_option(std::string_view text, Request& request) {
    const std::optional<Precision> precision = parse_precision(text);
    if (!precision)
        return usage_error(
            fmt::format("'{}' is not one of {}", printable(text, 40), accepted_precisions));
    request.model.precision = *precision;
    return Done{};
}

/// A later word replaces the rank of an earlier one, never that of the model's own text.
Status parse_lora(std::string_view text, Request& request) {
    const IntegerField& field = *find_integer_field("lora_rank");
    Model& model = request.model;
    if (request.lora_rank != 0) model.lora_rank = request.lora_rank = 0;
    std::int64_t rank = 0;
    if (text == no_adapters) return Done{};
    if (!parse_integer(text, 1, field.max))
        return usage_error(fmt::format("'{}' is not an integer from 1 to {} or {}",
                                       printable(text, 40), field.max, no_adapters));
    if (Status s = read_integer(text, 1, field.max, rank); !s) return s;
    if (Status added = add_adapters(model, rank); !added) return added;
    request.lora_rank = rank;
    return Done{};
}

Status parse_gpus(std::string_view text, Request& request) {
    request.min_gpus = 1;
    request.max_gpus = 0;
    if (text == anything) return Done{};
    return read_gpu_range(text, request.min_gpus, request.max_gpus);
}

std::string format_gpus(const Request& r) {
    if (pin_sets_range(r) || (r.min_gpus == 1 && r.max_gpus == 0)) return {};
    return fmt::format("{}-{}", r.min_gpus, r.max_gpus);
}

Status parse_types(std::string_view text, Request& request) {
    std::vector<std::string>& types = request.gpu_types;
    types.clear();
    if (text == anything) return Done{};
    for (std::string_view name : split(text, ',')) {
        if (!is_type_name(name))
            return usage_error(
                fmt::format("'{}' is not a list of GPU types like a40,a100", printable(text, 60)));
        if (std::find(types.begin(), types.end(), name) != types.end())
            return usage_error(fmt::format("'{}' is there twice", printable(name, 40)));
        types.emplace_back(name);
    }
    if (types.size() > limits::gpu_types)
        return usage_error(fmt::format("{} types given; at most {} are accepted", types.size(),
                                       limits::gpu_types));
    return Done{};
}

/// With the batch and the size of a micro-batch their number says the replicas; pin_obstacle() says
/// where it cannot.
void pin_replicas(PlanPin& pin, std::int64_t batch) {
    const std::int64_t each = pin.micro_batch * pin.num_micro_batches;
    if (each == 0 || pin.dp != 0 || batch % each != 0 || batch / each > limits::gpus) return;
    pin.dp = batch / each;
    pin.num_micro_batches = 0;  // the batch says it now
}

/// As Slurm's own options have it: megabytes, or a unit; kilobytes are rounded up.
Status parse_mem_per_gpu(std::string_view text, Request& request) {
    constexpr std::string_view units = "KMGT";
    constexpr std::array<std::int64_t, 4> kilobytes{1, 1 << 10, 1 << 20, std::int64_t{1} << 30};
    std::size_t unit = text.empty() ? units.npos : units.find(text.back());
    const std::string_view digits = unit == units.npos ? text : text.substr(0, text.size() - 1);
    if (unit == units.npos) unit = 1;
    const auto value = parse_integer(digits, 1, (max_memory_mb << 10) / kilobytes[unit]);
    if (!value)
        return usage_error(fmt::format(
            "'{}' is not a size from 1 to {} MB, such as 8000 or 8G (units: K, M, G, T)",
            printable(text, 40), max_memory_mb));
    request.mem_per_gpu_mb = (*value * kilobytes[unit] + 1023) >> 10;
    return Done{};
}

Status parse_plan(std::string_view text, Request& request) {
    request.pin = {};
    if (text == anything) return Done{};
    const Result<PlanPin> pin = parse_plan_pin(text);
    if (!pin) return usage_error(pin.error().text);
    request.pin = *pin;
    pin_replicas(request.pin, request.global_batch);
    return Done{};
}

Status parse_launcher_option(std::string_view text, Request& request) {
    const Result<LauncherChoice> choice = parse_launcher(text);
    if (!choice) return usage_error(choice.error().text);
    request.launcher = choice->launcher->name;
    request.launcher_by_default = false;
    request.launcher_version = choice->version ? to_string(*choice->version) : "";
    return Done{};
}

Status parse_slowdown(std::string_view text, Request& request) {
    request.slowdown = parse_slowdown_mode(text);
    if (request.slowdown) return Done{};
    return usage_error(
        fmt::format("'{}' is not one of {}", printable(text, 40), fmt::join(slowdown_modes, ", ")));
}

/// As many members as an array of arena-train takes at once.
constexpr std::int64_t most_siblings = 1024;

Status parse_array(std::string_view text, Request& request) {
    request.array_size = 0;
    if (text == "yes" || text == "no") return read_yes_or_no(text, request.array);
    if (!parse_integer(text, 2, most_siblings))
        return usage_error(fmt::format("'{}' is not yes, no or an integer from 2 to {}",
                                       printable(text, 40), most_siblings));
    request.array = true;
    return read_integer(text, 2, most_siblings, request.array_size);
}

Status parse_elastic(std::string_view text, Request& request) {
    request.inplace = text == "inplace";
    request.elastic = request.inplace || text == "yes";
    if (request.elastic || text == "no") return Done{};
    return usage_error(fmt::format("'{}' is not yes, no or inplace", printable(text, 40)));
}

std::string format_elastic(const Request& r) {
    return r.inplace ? "inplace" : r.elastic ? "yes" : "";
}

std::string format_array(const Request& r) {
    if (r.array_size > 0) return std::to_string(r.array_size);
    return r.array ? "yes" : "";
}

constexpr Option option_rows[] = {
    {.key = "model",
     .argument = "NAME|FILE",
     .usage = "model to train: a built-in name, a config.json or a YAML file"},
    {.key = "model-ignore",
     .argument = "WORD,...",
     .usage = "keys or options of the model's file that do not change its cost",
     .parse = parse_model_ignore,
     .format = [](const Request& r) { return join(r.model_ignore, ","); },
     .offers = false},
    {.key = "batch",
     .argument = "N",
     .usage = "samples per iteration over all GPUs (global batch), 1 to 16777216",
     .parse = [](std::string_view text,
                 Request& r) { return read_integer(text, 1, limits::batch, r.global_batch); },
     .format = [](const Request& r) { return number_or_nothing(r.global_batch); }},
    {.key = "seq-length",
     .argument = "N",
     .usage = "tokens per sample, instead of the model's own",
     .parse = parse_seq_length},
    {.key = "precision",
     .argument = "NAME",
     .usage = "instead of the model's own, one of ",
     .accepted = [] { return std::string(accepted_precisions); },
     .parse = parse_precision_option},
    {.key = "lora",
     .argument = "RANK",
     .usage = "train adapters of this rank beside the model, whose weights are frozen",
     .parse = parse_lora,
     .format = [](const Request& r) { return number_or_nothing(r.lora_rank); },
     .change = "RANK|none",
     .offers = false},
    {.key = "gpus",
     .argument = "MIN-MAX",
     .usage = "how many GPUs the job may get (default: any number)",
     .parse = parse_gpus,
     .format = format_gpus,
     .change = "MIN-MAX|any"},
    {.key = "types",
     .argument = "TYPE,...",
     .usage = "GPU types the job may get (default: any)",
     .parse = parse_types,
     .format = [](const Request& r) { return join(r.gpu_types, ","); },
     .change = "TYPE,...|any",
     .offers = false},
    {.key = "cpus-per-gpu",
     .argument = "N",
     .usage = "CPUs for each GPU (default: the site's, or an even share of a node)",
     .parse = [](std::string_view text,
                 Request& r) { return read_integer(text, 1, limits::gpus, r.cpus_per_gpu); },
     .format = [](const Request& r) { return number_or_nothing(r.cpus_per_gpu); },
     .offers = false},
    {.key = "mem-per-gpu",
     .argument = "SIZE",
     .usage = "memory for each GPU, in MB or with K, M, G, T (default as for CPUs)",
     .parse = parse_mem_per_gpu,
     .format = [](const Request& r) { return number_or_nothing(r.mem_per_gpu_mb); },
     .offers = false},
    {.key = "plan",
     .argument = "PIN",
     .usage = "fix parts of the plan, for example pp2,dp2,tp1",
     .parse = parse_plan,
     .format = [](const Request& r) { return to_string(r.pin); },
     .change = "pp2,dp2,tp1|any"},
    {.key = "launcher",
     .argument = "NAME[@VERSION]",
     .usage = "NAME or NAME@VERSION, of ",
     .accepted = launcher_names,
     .parse = parse_launcher_option,
     .format = launcher_of,
     .change = "NAME[@VERSION]"},
    {.key = "elastic",
     .argument = "yes|no|inplace",
     .usage = "the job checkpoints and restarts when Arena resizes it, inplace: inside the job",
     .parse = parse_elastic,
     .format = format_elastic,
     .bare = true,
     .offers = false},
    {.key = "steps",
     .argument = "N",
     .usage = "iterations to do (default: as many as the time limit allows)",
     .parse = [](std::string_view text,
                 Request& r) { return read_integer(text, 1, max_steps, r.steps); },
     .format = [](const Request& r) { return number_or_nothing(r.steps); },
     .offers = false},
    {.key = "slowdown",
     .argument = "off|watch|mitigate",
     .usage = "find slow GPUs and links (watch), and work around them (mitigate)",
     .parse = parse_slowdown,
     .format =
         [](const Request& r) { return std::string(r.slowdown ? to_string(*r.slowdown) : ""); },
     .change = "off|watch|mitigate",
     .offers = false},
    {.key = "loan",
     .argument = "yes|no",
     .usage = "the job, which is elastic, may have nodes that inference lends",
     .parse = [](std::string_view text, Request& r) { return read_yes_or_no(text, r.loan); },
     .format = [](const Request& r) { return std::string(r.loan ? "yes" : ""); },
     .bare = true,
     .offers = false},
    {.key = "array",
     .argument = "yes|no|SIZE",
     .usage = "tasks of the job's --array are Arena jobs, SIZE of which may share a pipeline",
     .parse = parse_array,
     .format = format_array,
     .bare = true,
     .offers = false},
};

Error refuse(std::string_view key, std::string text) {
    return usage_error(std::move(text), option_spelling(key));
}

}  // namespace

std::span<const Option> options() { return option_rows; }

const Option* find_option(std::string_view key) {
    for (const Option& option : option_rows)
        if (option.key == key) return &option;
    return nullptr;
}

std::string usage_of(const Option& option) {
    return fmt::format("[arena] {}{}", option.usage, option.accepted ? option.accepted() : "");
}

std::string option_spelling(std::string_view key) {
    return fmt::format("--arena-{0} (#ARENA {0})", key);
}

std::vector<std::string_view> setting_keys() {
    std::vector<std::string_view> keys;
    for (const Option& option : option_rows) keys.push_back(option.key);
    for (std::string_view key : inline_model_keys())
        if (find_option(key) == nullptr) keys.push_back(key);
    return keys;
}

Status apply_options(const std::vector<Setting>& settings, Request& request) {
    for (const Option& option : option_rows) {
        if (option.parse == nullptr) continue;
        for (const auto& [key, text] : settings) {
            if (key != option.key) continue;
            if (Status parsed = option.parse(text, request); !parsed)
                return refuse(key, parsed.error().text);
        }
    }
    if (request.global_batch != 0) return Done{};
    return refuse("batch",
                  fmt::format("missing: give the samples per iteration, an integer from 1 to {}",
                              limits::batch));
}

std::vector<Setting> option_settings(const Request& request) {
    std::vector<Setting> settings;
    for (const Option& option : option_rows)
        if (std::string text = option.format ? option.format(request) : ""; !text.empty())
            settings.emplace_back(option.key, std::move(text));
    return settings;
}

std::string offer_settings(const Request& request) {
    std::string text;
    for (const auto& [key, value] : option_settings(request))
        if (find_option(key)->offers) text += fmt::format("|{}={}", key, value);
    return text;
}

Status read_integer(std::string_view text, std::int64_t min, std::int64_t max,
                    std::int64_t& target) {
    const auto value = parse_integer(text, min, max);
    if (!value)
        return usage_error(
            fmt::format("'{}' is not an integer from {} to {}", printable(text, 40), min, max));
    target = *value;
    return Done{};
}

Status read_gpu_range(std::string_view text, std::int64_t& min, std::int64_t& max) {
    const std::vector<std::string_view> parts = split(text, '-');
    const auto low = parse_integer(parts.front(), 1, limits::gpus);
    const auto high = parse_integer(parts.back(), 1, limits::gpus);
    if (parts.size() > 2 || !low || !high)
        return usage_error(fmt::format("'{}' is not N or MIN-MAX with numbers from 1 to {}",
                                       printable(text, 40), limits::gpus));
    if (*low > *high)
        return usage_error(
            fmt::format("'{}' is an empty range: MIN must not exceed MAX", printable(text, 40)));
    min = *low, max = *high;
    return Done{};
}

Status read_yes_or_no(std::string_view text, bool& target) {
    if (text != "yes" && text != "no")
        return usage_error(fmt::format("'{}' is not yes or no", printable(text, 40)));
    target = text == "yes";
    return Done{};
}

bool pin_sets_range(const Request& request) {
    const std::int64_t product = request.pin.gpus();
    return request.pin != PlanPin{} && request.min_gpus == product &&
           request.max_gpus == (request.pin.fixes_gpus() ? product : 0);
}

Status fit_range_to_pin(Request& request, bool gpus_given) {
    const PlanPin& pin = request.pin;
    if (pin == PlanPin{}) return Done{};
    const std::int64_t product = pin.gpus();
    if (product > limits::gpus)
        return refuse("plan", fmt::format("pp*dp*tp*cp exceeds {} GPUs", limits::gpus));
    const bool complete = pin.fixes_gpus();
    if (!gpus_given) {
        request.min_gpus = product;
        request.max_gpus = complete ? product : 0;
        return Done{};
    }
    const std::int64_t largest = request.max_gpus / product * product;
    const bool fits = complete ? product >= request.min_gpus && product <= request.max_gpus
                               : largest >= std::max(request.min_gpus, product);
    if (fits) return Done{};
    return refuse("plan",
                  fmt::format("{} takes {} {} GPUs, which --arena-gpus={}-{} does not allow",
                              to_string(pin), complete ? "exactly" : "a multiple of", product,
                              request.min_gpus, request.max_gpus));
}

}  // namespace arena
