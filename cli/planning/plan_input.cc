// SPDX-License-Identifier: GPL-2.0-or-later
// The inputs of `arena plan`: see plan_input.h.
#include "cli/planning/plan_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/text.h"
#include "cli/planning/site_tables.h"
#include "core/limits.h"
#include "planner/hardware/hardware.h"
#include "planner/hardware/measured_links.h"
#include "planner/hardware/shipped_profile.h"
#include "planner/models/megatron_args.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/operators/operators.h"
#include "planner/search/grids.h"
#include "planner/search/offers.h"
#include "request/launchers.h"
#include "request/options.h"

namespace arena::cli {
namespace {

constexpr std::string_view fixed_keys =
    "pp, dp, tp, micro_batch (or mb4, mb4x16), recompute=none|selective|full, zero=0..3, sp=0|1, "
    "vpp, cp, ep, etp, hsdp=2.., schedule=1f1b|zbh1|zbv|dualpipev";

Error fixed_error(std::string_view part) {
    return usage_error(fmt::format("\"{}\" is not understood; accepted are {}, each once",
                                   printable(part), fixed_keys),
                       "--fixed");
}

std::int64_t* fixed_number(FixedPlan& plan, std::string_view key) {
    if (key == "pp") return &plan.pp;
    if (key == "dp") return &plan.dp;
    if (key == "tp") return &plan.tp;
    if (key == "vpp") return &plan.vpp;
    if (key == "cp") return &plan.cp;
    if (key == "ep") return &plan.ep;
    if (key == "etp") return &plan.etp;
    if (key == "hsdp") return &plan.hsdp;
    return nullptr;
}

/// "4", or "4x16" where their number is said too.
bool read_micro_batch(FixedPlan& plan, std::string_view value) {
    const std::size_t x = value.find('x');
    const auto size = parse_integer(value.substr(0, x), 1, limits::gpus);
    const auto count =
        x == std::string_view::npos ? 0 : parse_integer(value.substr(x + 1), 1, limits::batch);
    if (size) plan.micro_batch = *size;
    if (count) plan.num_micro_batches = *count;
    return size && count;
}

/// Reads one key and its value; false when it is not one.
bool read_fixed(FixedPlan& plan, std::string_view key, std::string_view value) {
    if (key == "micro_batch") return read_micro_batch(plan, value);
    if (std::int64_t* field = fixed_number(plan, key); field != nullptr) {
        const auto number = parse_integer(value, key == "hsdp" ? 2 : 1, limits::gpus);
        if (number) *field = *number;
        return number.has_value();
    }
    if (key == "recompute") {
        const auto recompute = parse_recompute(value);
        if (recompute) plan.recompute = *recompute;
        return recompute.has_value();
    }
    if (key == "schedule") {
        const auto schedule = parse_schedule(value);
        if (schedule) plan.schedule = *schedule;
        return schedule.has_value();
    }
    const bool is_switch = key == "sp", is_zero = key == "zero";
    const auto number = parse_integer(value, is_switch || is_zero ? 0 : 1,
                                      is_switch ? 1
                                      : is_zero ? 3
                                                : limits::gpus);
    if (!number) return false;
    if (is_zero) plan.zero = *number;
    if (is_switch) plan.sequence_parallel = *number == 1;
    return is_zero || is_switch;
}

/// "pp=2" and "pp2", "micro_batch=4" and "mb4x16", "recompute=full" and "full", "sp=1" and "sp":
/// key and value.
std::pair<std::string_view, std::string_view> split_fixed(std::string_view word) {
    if (word == "none" || word == "selective" || word == "full") return {"recompute", word};
    if (word == "sp") return {"sp", "1"};
    if (parse_schedule(word)) return {"schedule", word};
    const std::size_t end = std::min(word.find_first_of("=0123456789"), word.size());
    const bool has_equals = end < word.size() && word[end] == '=';
    const std::string_view key = word.substr(0, end);
    return {key == "mb" ? "micro_batch" : key, word.substr(has_equals ? end + 1 : end)};
}

bool names_a_file(std::string_view word) {
    return word.find('/') != std::string_view::npos || word.ends_with(".json") ||
           word.ends_with(".yaml") || word.ends_with(".yml");
}

/// The hardware entry behind a word: what arena.yaml's gpu_types say of it, where they do; the
/// site's a100_80gb may be another card than ours of a like name.
Result<GpuType> resolve_gpu_type(const Globals& globals, const std::vector<GpuType>& hardware,
                                 const std::string& word) {
    const Result<Config> config = load_site_config(globals);
    const std::string* mapped = config ? hardware_of(*config, word) : nullptr;
    Result<GpuType> type =
        find_hardware(hardware, mapped == nullptr ? std::string_view(word) : *mapped);
    if (!type || !config) return type;
    GpuType entry = std::move(type).value();
    set_oversubscription(entry, config->leaf_oversubscription, config->pod_oversubscription);
    return entry;
}

Result<ProfileTable> table_of_file(const std::string& file, const GpuPool& pool) {
    const auto profile = read_user_profile(file);
    if (!profile) return profile.error();
    if (profile->hardware != pool.hardware.name && profile->gpu_type != pool.gpu_type) {
        return usage_error(fmt::format("is a profile of {} ({}), not of {}", profile->hardware,
                                       profile->gpu_type, pool.gpu_type),
                           file);
    }
    return ProfileTable(*profile);
}

void correct(std::vector<GridResult>& results, const std::vector<Observation>& observations) {
    std::vector<Offer> offers;
    for (const GridResult& r : results)
        if (r.estimate.iteration_s > 0)
            offers.push_back(
                {.grid = r.grid, .plan = r.plan, .estimate = r.estimate, .segment = r.segment});
    for (const Offer& offer : correct_offers(std::move(offers), observations))
        for (GridResult& r : results)
            if (r.grid == offer.grid && r.plan == offer.plan && r.segment == offer.segment)
                r.estimate = offer.estimate;
}

/// What comes with slurm-arena for the pool's hardware.
ProfileTable table_of_shipped(const GpuPool& pool) {
    ShippedProfile shipped = shipped_profile(pool.hardware.name);
    for (const std::string& complaint : shipped.complaints)
        fmt::print(stderr, "arena: {}; it is left out\n", printable(complaint, 400));
    return std::move(shipped.table);
}

/// A store that knows nothing of the pool leaves it to what comes with slurm-arena.
Status take_from_store(const PlanStore& store, GpuPool& pool) {
    const auto links = store.links(pool.gpu_type);
    if (!links) return links.error();
    auto table = store.table(pool);
    if (!table) return table.error();
    pool.profile = std::move(*table);
    if (pool.profile.empty()) pool.profile = table_of_shipped(pool);
    if (pool.profile.empty() && links->empty() && !store.knows(pool))
        return no_error(fmt::format("has no profile of {}", pool.gpu_type), store.file());
    pool.hardware = with_measured_links(pool.hardware, *links);
    return Done{};
}

/// What --profiles says, where it is no store.
Result<ProfileTable> profile_of(const std::string& file, const GpuPool& pool) {
    if (file == "none") return ProfileTable();
    if (file.empty()) return table_of_shipped(pool);
    return table_of_file(file, pool);
}

}  // namespace

PlanPin FixedPlan::pin() const {
    PlanPin pin{.pp = pp,
                .dp = dp,
                .tp = tp,
                .micro_batch = micro_batch,
                .vpp = vpp,
                .cp = cp,
                .ep = ep,
                .num_micro_batches = num_micro_batches,
                .hsdp = hsdp,
                .etp = etp,
                .schedule = schedule};
    if (!free_recompute) pin.recompute = recompute;
    if (!free_zero) pin.zero_stage = zero;
    if (!free_sequence_parallel) pin.sequence_parallel = sequence_parallel;
    return pin;
}

Result<FixedPlan> parse_fixed(std::string_view text) {
    FixedPlan plan;
    std::set<std::string_view> seen;
    for (const std::string_view part : split(text, ',')) {
        const auto [key, value] = split_fixed(part);
        if (!seen.insert(key).second || !read_fixed(plan, key, value)) return fixed_error(part);
    }
    if (is_v_shaped(plan.schedule) && !seen.contains("vpp")) plan.vpp = 2;
    plan.as_shown = text.find('=') == std::string_view::npos;
    const bool may_be_free = plan.as_shown && plan.num_micro_batches == 0;
    plan.free_recompute = may_be_free && !seen.contains("recompute");
    plan.free_zero = may_be_free && !seen.contains("zero");
    plan.free_sequence_parallel = may_be_free && !seen.contains("sp");
    if (plan.pp == 0 || plan.dp == 0 || plan.tp == 0 || plan.micro_batch == 0) {
        return usage_error(
            "pp, dp, tp and micro_batch are needed, for example "
            "pp=2,dp=2,tp=1,micro_batch=4 or pp2,dp2,tp1,mb4",
            "--fixed");
    }
    return plan;
}

std::vector<FixedPlan> settings_of(const FixedPlan& fixed, const Model& model,
                                   const Capabilities& can) {
    std::vector<Recompute> recomputes{fixed.recompute};
    if (fixed.free_recompute && can.degree(Feature::recompute_selective) == Degree::free)
        recomputes.push_back(Recompute::selective);
    if (fixed.free_recompute && can.degree(Feature::recompute_full) == Degree::free)
        recomputes.push_back(Recompute::full);
    std::vector<std::int64_t> zeros;
    for (std::int64_t zero = 0; fixed.free_zero && zero <= (fixed.dp * fixed.cp > 1 ? 3 : 0);
         ++zero)
        if (can.has_zero(zero, fixed.pp)) zeros.push_back(zero);
    if (zeros.empty()) zeros.push_back(fixed.zero);
    std::vector<FixedPlan> all;
    for (const Recompute recompute : recomputes)
        for (const std::int64_t zero : zeros) {
            FixedPlan& one = all.emplace_back(fixed);
            one.recompute = recompute;
            one.zero = zero;
            if (fixed.free_sequence_parallel)
                one.sequence_parallel =
                    can.told.has(Feature::sp) && default_sequence_parallel(model, fixed.tp);
        }
    return all;
}

Result<Plan> make_plan(const FixedPlan& fixed, const Model& model, std::int64_t global_batch,
                       LayerSplit split) {
    const std::int64_t per_step = fixed.dp * fixed.micro_batch;
    if (global_batch % per_step != 0) {
        return usage_error(
            fmt::format("a global batch of {} does not divide by dp * micro_batch = {}",
                        global_batch, per_step),
            "--fixed");
    }
    if (fixed.num_micro_batches != 0 && fixed.num_micro_batches * per_step != global_batch) {
        return usage_error(
            fmt::format(
                "mb{}x{} of dp{} makes {} samples, not the global batch of {}: give mb{} alone",
                fixed.micro_batch, fixed.num_micro_batches, fixed.dp,
                fixed.num_micro_batches * per_step, global_batch, fixed.micro_batch),
            "--fixed");
    }
    const std::int64_t layers = model.layers;
    if (fixed.pp > layers) {
        return usage_error(fmt::format("{} stages for {} layers", fixed.pp, layers), "--fixed");
    }
    return uniform_plan(
        {fixed.tp, fixed.micro_batch, fixed.sequence_parallel, fixed.cp, fixed.ep, fixed.etp},
        {.stages = fixed.pp,
         .dp = fixed.dp,
         .micro_batches = global_batch / per_step,
         .recompute = fixed.recompute,
         .zero_stage = fixed.zero,
         .vpp = fixed.vpp,
         .cp = fixed.cp,
         .ep = fixed.ep,
         .hsdp = fixed.hsdp,
         .schedule = fixed.schedule},
        spread_layers(split, layers, fixed.pp));
}

namespace {

Result<std::optional<std::string>> read_base(const std::string& path) {
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(path, unknown)) return std::optional<std::string>();
    Result<std::string> text = read_user_file(path, max_model_bytes);
    if (!text) return text.error();
    return std::optional<std::string>(std::move(*text));
}

}  // namespace

Result<Model> read_model(const PlanOptions& options) {
    Result<Model> model = usage_error("no model");
    IgnoredWords ignored;
    if (!options.model_ignore.empty()) {
        Result<std::vector<std::string>> words = read_ignored_words(options.model_ignore);
        if (!words) return usage_error(words.error().text, "--model-ignore");
        ignored = IgnoredWords(std::move(*words));
    }
    if (!looks_like_megatron(options.model) && names_a_file(options.model)) {
        const auto text = read_user_file(options.model, max_model_bytes);
        if (!text) return text.error();
        model = parse_model(*text, options.model, ignored, read_base);
    } else if (looks_like_megatron(options.model)) {
        model = parse_megatron_args(options.model, "--model", ignored);
    } else {
        model = find_zoo_model(options.model);
    }
    if (!model) return model;
    if (const std::vector<std::string> idle = ignored.idle(); !idle.empty())
        return usage_error(fmt::format("the model's text has no word '{}' that could be ignored",
                                       printable(idle.front(), 60)),
                           "--model-ignore");
    if (!ignored.taken().empty())
        fmt::print(stderr, "arena: the model was read without {}\n", join(ignored.taken(), ", "));
    if (options.lora > 0)
        if (const Status added = add_adapters(*model, options.lora); !added)
            return usage_error(added.error().text, "--lora");
    if (options.seq_length == 0) return model;
    set_seq_length(*model, options.seq_length);
    if (const Status status = check_model(*model); !status) return status.error();
    return model;
}

Result<Capabilities> read_launcher(const PlanOptions& options) {
    if (options.launcher == "any") return all_capabilities();
    const Result<LauncherChoice> choice = parse_launcher(options.launcher);
    if (!choice) return usage_error(choice.error().text + "; or any", "--launcher");
    return choice->can();
}

std::string launcher_name(const PlanOptions& options) {
    return options.launcher.substr(0, options.launcher.find('@'));
}

Result<std::vector<GpuRange>> read_gpu_ranges(const PlanOptions& options) {
    std::vector<GpuRange> ranges;
    for (const std::string& text : options.gpus) {
        GpuRange range;
        if (Status read = read_gpu_range(text, range.min, range.max); !read)
            return usage_error(read.error().text, "--gpus");
        ranges.push_back(range);
    }
    return ranges;
}

void set_network(const PlanOptions& options, GpuPool& pool) {
    pool.leaf_nodes = options.leaf_nodes;
    pool.pod_nodes = options.leaf_nodes * options.pod_leaves;
    pool.domain_nodes = options.domain_nodes;
    for (std::size_t level = 0; level < options.oversubscription.size(); ++level)
        pool.hardware.uplinks[level].oversubscription = options.oversubscription[level];
}

Result<PlanStore> open_profiles(const PlanOptions& options) {
    if (!options.profiles.ends_with(".db")) return PlanStore();
    return PlanStore::open(options.profiles);
}

Result<std::vector<GpuPool>> read_pools(const Globals& globals, const PlanOptions& options,
                                        const PlanStore& store) {
    const auto tables = read_site_tables(globals, options.hardware, options.calibration);
    if (!tables) return tables.error();
    std::vector<GpuPool> pools;
    for (const std::string& word : options.gpu_types) {
        const auto entry = resolve_gpu_type(globals, tables->hardware, word);
        if (!entry) return entry.error();
        GpuPool pool{.gpu_type = word,
                     .hardware = *entry,
                     .gpus_per_node = options.gpus_per_node,
                     .max_gpus = 1};
        set_network(options, pool);
        if (pool.gpus_per_node == 0)
            pool.gpus_per_node = std::max<std::int64_t>(entry->gpus_per_node, 1);
        pool.framework = launcher_name(options);
        pool.constants = tables->calibration.constants(entry->name, pool.framework);
        if (store.is_open()) {
            if (const Status taken = take_from_store(store, pool); !taken) return taken.error();
        } else {
            auto table = profile_of(options.profiles, pool);
            if (!table) return table.error();
            pool.profile = std::move(*table);
        }
        pools.push_back(std::move(pool));
    }
    return pools;
}

Result<std::vector<GpuPool>> read_pools(const Globals& globals, const PlanOptions& options) {
    const auto store = open_profiles(options);
    if (!store) return store.error();
    return read_pools(globals, options, *store);
}

void correct_by_reports(const PlanStore& store, const PlanOptions& options, const Model& model,
                        const std::vector<GpuPool>& pools, std::vector<GridResult>& results) {
    std::vector<Observation> observations;
    for (const GpuPool& pool : pools)
        for (Observation& o : store.observations(
                 {fingerprint(model), options.global_batch, launcher_name(options)}, pool))
            observations.push_back(std::move(o));
    if (!observations.empty()) correct(results, observations);
}

}  // namespace arena::cli
