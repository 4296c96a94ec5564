// SPDX-License-Identifier: GPL-2.0-or-later
// From a measured row to model, plan, grid and hardware, and to its price. What a column says wins;
// what it leaves blank follows the framework's convention in the calibration table.
#include "planner/evaluate/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "base/text.h"
#include "core/limits.h"
#include "core/model_fields.h"
#include "planner/evaluate/image_rows.h"
#include "planner/hardware/hardware.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/search/grids.h"

namespace arena {

namespace {

constexpr std::int64_t resnet_base_channels = 64;  ///< He et al. 2015

char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::int64_t or_one(std::int64_t value) { return std::max<std::int64_t>(1, value); }

/// Words of the precision column: "amp_bf16", "16bit", "fp8-mx"; the rest as the planner spells
/// them.
std::optional<Precision> row_precision(std::string_view word) {
    static constexpr std::pair<std::string_view, std::string_view> words[] = {
        {"16bit", "fp16"},    {"amp-fp16", "fp16"}, {"amp_fp16", "fp16"},
        {"amp_bf16", "bf16"}, {"amp-bf16", "bf16"}, {"amp_fp8", "fp8"},
        {"fp8-cs", "fp8"},    {"fp8-mx", "mxfp8"},  {"float8", "fp8"}};
    for (const auto& [given, meant] : words)
        if (given == word) return parse_precision(meant);
    return parse_precision(word);
}

bool says(const MeasuredRow& row, std::string_view words) {
    return row.notes.find(words) != std::string::npos;
}

/// Samples of text as long as `limit` on average: what is left of longer ones is padding. Packs are
/// full.
std::int64_t tokens_of(const MeasuredRow& row, Family family, const FrameworkConstants& f) {
    const auto limit = static_cast<std::int64_t>(f.unpadded_tokens);
    const bool is_short = family == Family::bert && limit > 0 && !says(row, "count packs");
    return is_short ? std::min(row.seq, limit) : row.seq;
}

bool same_shape(const Model& model, const MeasuredRow& row) {
    return model.layers == row.layers && model.hidden == row.hidden && model.heads == row.heads &&
           model.vocab == row.vocab && model.experts == row.experts &&
           (row.experts == 0 || (model.top_k == row.top_k && model.moe_ffn_hidden == row.moe_ffn));
}

/// What the table has no columns for (head size, a tied table, latent ranks, shared experts, dense
/// first layers, windows) from the built-in model of the same shape; else the family's defaults.
Model known_shape(const MeasuredRow& row) {
    static const std::vector<Model> zoo = [] {
        std::vector<Model> models;
        for (const std::string& name : zoo_names())
            if (const Result<Model> model = find_zoo_model(name)) models.push_back(*model);
        return models;
    }();
    for (const Model& model : zoo)
        if (same_shape(model, row) && to_string(model.family) == row.family) return model;
    Model model;
    if (const auto family = parse_family(row.family)) {
        model.family = *family;
        set_family_flags(model);
    }
    return model;
}

/// Depth and image say all of a network of the usual width; of a wider one the table has no column.
Result<Model> resnet_model(const MeasuredRow& row, Precision precision) {
    std::string name = row.model;
    std::transform(name.begin(), name.end(), name.begin(), ascii_lower);
    if (name.find("wide") != std::string::npos)
        return usage_error("a wide residual network, whose width the table does not give");
    if (row.image_width == 0 || row.image_width != row.image_height)
        return usage_error("seq of a residual network is the size of a square image, as 224x224");
    Model model;
    model.name = clean_model_name(row.model);
    model.family = Family::wide_resnet;
    model.precision = precision;
    model.depth = row.layers;
    model.base_channels = resnet_base_channels;
    model.image_size = row.image_width;
    return complete_model(std::move(model), "row");
}

/// Matrices that are adapted where the notes do not say: by NVIDIA's recipes for speed the joint
/// one of queries, keys and values (Megatron Bridge, llama3_70b_lora_config_*: target_modules),
/// else all.
std::int64_t usual_targets(const MeasuredRow& row) {
    return row.framework == "Megatron-Bridge" ? lora_target::qkv_proj : 0;
}

/// "LoRA r32 ... on attention": rank 16 where nothing is said. Training in 8 bits keeps frozen
/// weights so.
void add_adapters(const MeasuredRow& row, Model& model) {
    constexpr std::int64_t usual_rank = 16;
    model.lora_rank = usual_rank;
    for (const std::string_view before : {"LoRA r", "rank "}) {
        const std::size_t at = row.notes.find(before);
        if (at == std::string::npos) continue;
        std::string_view digits = std::string_view(row.notes).substr(at + before.size());
        digits = digits.substr(0, digits.find_first_not_of("0123456789"));
        if (const auto rank = parse_integer(digits, 1, 65536)) model.lora_rank = *rank;
    }
    const bool is_attention = says(row, "on attention");
    if (!is_attention && !says(row, "on all")) model.lora_targets = usual_targets(row);
    model.lora_mlp = is_attention || model.lora_targets != 0 ? 0 : 1;
    if (says(row, "QLoRA") || says(row, "4-bit") || says(row, "4 bit")) {
        model.base_bits = 4;
    } else if (element_bytes(model.precision) <= 1) {
        model.base_bits = 8;
    }
}

Result<Model> row_model(const MeasuredRow& row, const FrameworkConstants& framework) {
    const std::optional<Precision> precision = row_precision(row.precision);
    if (!precision) return usage_error("precision '" + printable(row.precision, 20) + "'");
    if (is_image_row(row)) return image_row_model(row, *precision);
    if (row.family == "resnet") return resnet_model(row, *precision);
    const std::optional<Family> family = parse_family(row.family);
    if (!family) return usage_error("family '" + printable(row.family, 20) + "' is not priced");
    if (row.heads == 0) return usage_error("heads is blank");
    Model model = known_shape(row);
    if (row.mla && model.kv_lora_rank == 0)
        return usage_error("latent attention of a model whose ranks the table does not give");
    model.name = clean_model_name(row.model);
    model.family = *family;
    model.precision = *precision;
    model.layers = row.layers;
    model.hidden = row.hidden;
    model.heads = row.heads;
    if (row.kv_heads > 0) model.kv_heads = row.kv_heads;
    if (row.ffn_hidden > 0) model.ffn_hidden = row.ffn_hidden;
    model.vocab = row.vocab;
    model.seq_length = tokens_of(row, *family, framework);
    model.experts = row.experts;
    model.top_k = row.top_k;
    model.moe_ffn_hidden = row.moe_ffn;
    if (row.kind == "lora") add_adapters(row, model);
    return complete_model(std::move(model), "row");
}

std::optional<Recompute> row_recompute(const MeasuredRow& row, const FrameworkConstants& f) {
    if (row.recompute.empty()) return static_cast<Recompute>(static_cast<int>(f.recompute));
    if (row.recompute == "partial-op" || row.recompute == "selective-op")
        return Recompute::selective;
    return parse_recompute(row.recompute);
}

std::optional<std::int64_t> row_zero(const MeasuredRow& row) {
    if (row.sharding.empty()) return 0;
    if (row.sharding == "distopt") return 1;
    for (std::int64_t stage = 0; stage <= 3; ++stage)
        if (row.sharding == fmt::format("zero{}", stage)) return stage;
    return std::nullopt;
}

/// Whether the attention column names a kernel that keeps no scores.
bool is_fused(const MeasuredRow& row) {
    constexpr std::string_view kinds[] = {"flash", "Flash", "cudnn", "sdpa", "xformers"};
    return std::any_of(std::begin(kinds), std::end(kinds), [&](std::string_view kind) {
        return row.attention.find(kind) != std::string::npos;
    });
}

/// Why the row's words say something that has no price; a default in its place would be a guess.
std::string unknown_word(const MeasuredRow& row) {
    const auto unknown = [](std::string_view column, const std::string& word,
                            std::string_view known) {
        return fmt::format("not expressible: {} '{}'; known are {}", column, printable(word, 20),
                           known);
    };
    if (!row_zero(row))
        return unknown("sharding", row.sharding, "zero0 to zero3, distopt, nothing");
    const auto mentions = [&](const char* kind) {
        return row.attention.find(kind) != std::string::npos;
    };
    if (!row.attention.empty() && !is_fused(row) && !mentions("fused"))
        return unknown("attn", row.attention,
                       "flash, cudnn, sdpa, xformers, fused-softmax, unfused, nothing");
    if (row.status != "ok" && row.status != "OOM" && row.status != "memory_only" &&
        !row.status.empty())
        return unknown("status", row.status, "ok, OOM, memory_only, nothing");
    return {};
}

/// Layers per stage: equal, what is left over to the stages after the first, which has the
/// embedding; the last, with the head, comes last.
std::vector<std::int64_t> even_stages(std::int64_t layers, std::int64_t stages) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(stages), layers / stages);
    for (std::int64_t i = 0; i < layers % stages; ++i)
        ++out[static_cast<std::size_t>((i + 1) % stages)];
    return out;
}

/// The attention column decides over the framework's habit.
void apply_attention(const MeasuredRow& row, FrameworkConstants& constants) {
    if (is_fused(row)) constants.fused_attention = 1;
    if (row.attention.find("fused-softmax") != std::string::npos ||
        row.attention.find("unfused") != std::string::npos)
        constants.fused_attention = 0;
}

/// "norm and activation functions only", of notes that say "recomputes" this.
std::string recomputed_modules(const MeasuredRow& row) {
    constexpr std::string_view before = "recomputes ";
    const std::size_t at = row.notes.find(before);
    if (at == std::string::npos) return {};
    std::string words = row.notes.substr(at + before.size());
    words.resize(std::min(words.size(), words.find_first_of(",;(.")));
    std::transform(words.begin(), words.end(), words.begin(), ascii_lower);
    return words;
}

/// "expert tensor parallel 4": ranks that split an expert.
std::int64_t expert_split(const MeasuredRow& row) {
    constexpr std::string_view before = "expert tensor parallel ";
    const std::size_t at = row.notes.find(before);
    if (at == std::string::npos || row.ep <= 1) return 1;
    std::string_view digits = std::string_view(row.notes).substr(at + before.size());
    digits = digits.substr(0, digits.find_first_not_of("0123456789"));
    return parse_integer(digits, 1, limits::gpus).value_or(1);
}

/// What the notes say of states and of the loss decides over the framework's habit.
void apply_notes(const MeasuredRow& row, FrameworkConstants& constants) {
    constexpr double nothing = 1e-3;  // 0 means that nothing is said
    if (says(row, "nchw")) constants.conv_layout_passes = 1;
    const std::string modules = recomputed_modules(row);
    const auto repeats = [&](const char* word) { return modules.find(word) != std::string::npos; };
    if (repeats("norm") || repeats("activation")) constants.recompute_pointwise = 1;
    if (repeats("expert") || repeats("mlp")) constants.recompute_mlp = 1;
    if (says(row, "8-bit") && says(row, "optimizer")) constants.optimizer_state_bytes = 2;
    if (says(row, "bf16 optimizer states")) constants.optimizer_state_bytes = 4;
    if (says(row, "offloads optimizer") || says(row, "paged optimizer") ||
        says(row, "paged 8-bit optimizer"))
        constants.optimizer_state_bytes = nothing;
    if (says(row, "optimizer in backward")) constants.gradient_state_bytes = nothing;
    if (says(row, "fused loss") || says(row, "chunked loss") || says(row, "loss in chunks"))
        constants.logit_bytes = std::min(constants.logit_bytes, 2.0);
    // one kernel reads logits twice and writes their gradients over them; its authors fuse norms
    // and activation functions, too
    if (says(row, "fused loss")) constants.loss_bytes = std::min(constants.loss_bytes, 6.0);
    if (says(row, "Liger"))
        constants.elementwise_passes = std::min(constants.elementwise_passes, 1.5);
    if (says(row, "FlashAttention 3") || says(row, "FlashAttention 4"))
        constants.attention_share = 1;
}

Result<GpuPool> row_pool(const MeasuredRow& row, const EvaluateOptions& options) {
    const Result<GpuType> type = find_hardware(options.hardware, row.gpu);
    if (!type && row.gpu.find(" + ") != std::string::npos)
        return usage_error("a run on more than one GPU type, '" + printable(row.gpu, 40) + "'");
    if (!type) return usage_error("no hardware entry '" + printable(row.gpu, 40) + "'");
    GpuPool pool;
    pool.gpu_type = row.gpu;
    pool.hardware = *type;
    pool.gpus_per_node = row.gpus_per_node > 0 ? row.gpus_per_node : type->gpus_per_node;
    pool.max_gpus = row.gpus;
    pool.domain_nodes = row.gpus;  // runs of types with a domain were made in one
    pool.constants = options.calibration.constants(type->name, row.framework);
    apply_attention(row, pool.constants->framework);
    apply_notes(row, pool.constants->framework);
    const NetworkConstants& network =
        options.calibration.network(row.intra_link, row.inter_gbps.value_or(0), row.notes);
    pool.hardware.intra.bytes_per_s *= network.intra_share;
    double& spread = pool.constants->device.node_spread;
    spread = std::max(spread, network.node_spread);
    if (row.inter_gbps) {
        pool.hardware.inter.bytes_per_s = *row.inter_gbps / 8 * 1e9 * network.share;
        pool.hardware.inter.alpha_s = network.alpha_s;
        pool.hardware.inter.cross_rail_cost = network.cross_rail_cost;
    }
    return pool;
}

/// Whether the product is `whole`, of numbers that the product may overflow.
bool multiplies_to(std::int64_t whole, std::initializer_list<std::int64_t> factors) {
    for (const std::int64_t factor : factors) {
        if (whole % factor != 0) return false;
        whole /= factor;
    }
    return whole == 1;
}

struct Query {
    Model model;
    GpuPool pool;
    Grid grid;
    Plan plan = {};
    double micro_batches = 1;  ///< of a replica; a ragged last one counts by its share
};

Result<Query> row_query(const MeasuredRow& row, const EvaluateOptions& options) {
    Result<GpuPool> pool = row_pool(row, options);
    if (!pool) return pool.error();
    Result<Model> model = row_model(row, pool->constants->framework);
    if (!model) return model.error();
    const std::int64_t tp = or_one(row.tp), pp = or_one(row.pp), dp = or_one(row.dp),
                       cp = or_one(row.cp), gpus = or_one(row.gpus);
    if (!multiplies_to(gpus, {tp, pp, dp, cp}))
        return usage_error(
            fmt::format("tp {} * pp {} * dp {} * cp {} is not {} GPUs", tp, pp, dp, cp, gpus));
    const std::int64_t per_node = std::min(gpus, pool->gpus_per_node);
    if (gpus % per_node != 0) return usage_error("GPUs do not fill nodes equally");
    if (row.micro_batch < 1 || row.global_batch < 1) return usage_error("mbs or gbs is blank");
    if (row.global_batch > limits::batch)
        return usage_error(fmt::format("gbs is more than {}", limits::batch));
    if (std::string word = unknown_word(row); !word.empty()) return usage_error(std::move(word));
    const auto recompute = row_recompute(row, pool->constants->framework);
    if (!recompute) return usage_error("recompute '" + printable(row.recompute, 20) + "'");
    if (pp > model->layers) return usage_error("more stages than layers");
    Query query{.model = std::move(*model),
                .pool = std::move(*pool),
                .grid = {row.gpu, gpus / per_node, per_node, pp}};
    Plan& plan = query.plan;
    const auto staged = static_cast<std::int64_t>(query.pool.constants->framework.staged_zero);
    const std::int64_t zero = pp > 1 ? std::min(*row_zero(row), staged) : *row_zero(row);
    const std::int64_t micro_batch =
        std::min(row.micro_batch, std::max<std::int64_t>(1, row.global_batch / dp));
    plan = uniform_plan(
        {tp, micro_batch, row.sequence_parallel, cp, or_one(row.ep), expert_split(row)},
        {.stages = pp,
         .dp = dp,
         .recompute = *recompute,
         .zero_stage = zero,
         .vpp = or_one(row.vpp),
         .cp = cp,
         .ep = or_one(row.ep)},
        even_stages(query.model.layers, pp));
    query.micro_batches =
        std::max(1.0, real(row.global_batch) / (real(dp) * real(plan.micro_batch)));
    return query;
}

/// All times as far from `low` as `part` of the way to `high`; the memory that both need.
Estimate between(const Estimate& low, const Estimate& high, double part) {
    Estimate e = low;
    for (double Estimate::*field :
         {&Estimate::iteration_s, &Estimate::compute_s, &Estimate::tp_comm_s, &Estimate::pp_comm_s,
          &Estimate::dp_comm_s, &Estimate::bubble_s, &Estimate::optimizer_s})
        e.*field += part * (high.*field - low.*field);
    const double samples = low.samples_per_s * low.iteration_s,
                 more = high.samples_per_s * high.iteration_s;
    e.samples_per_s = (samples + part * (more - samples)) / e.iteration_s;
    e.tflops_per_gpu = low.tflops_per_gpu * e.samples_per_s / low.samples_per_s;
    e.memory_bytes_per_gpu = std::max(low.memory_bytes_per_gpu, high.memory_bytes_per_gpu);
    e.error_bound = std::max(low.error_bound, high.error_bound);
    return e;
}

/// Between the prices of the whole numbers of micro-batches around a ragged one.
Result<Estimate> price_query(Query& query) {
    const auto price = [&](double count) {
        Plan& plan = query.plan;
        plan.num_micro_batches = static_cast<std::int64_t>(count);
        const std::int64_t batch = plan.dp() * plan.micro_batch * plan.num_micro_batches;
        return price_plan(query.model, batch, query.grid, plan, query.pool);
    };
    const double low = std::floor(query.micro_batches), part = query.micro_batches - low;
    Result<Estimate> estimate = price(low);
    if (!estimate || part == 0) return estimate;
    const Result<Estimate> above = price(low + 1);
    if (!above) return above;
    return between(*estimate, *above, part);
}

/// A run whose recompute is not known recomputes what it must to fit.
bool fits(const MeasuredRow& row, Query query, const Estimate& estimate) {
    const double limit = real(query.pool.hardware.memory_bytes);
    if (estimate.memory_bytes_per_gpu <= limit) return true;
    if (!row.recompute.empty()) return false;
    query.plan.recompute = Recompute::full;
    const Result<Estimate> least = price_query(query);
    return least && least->memory_bytes_per_gpu <= limit;
}

/// Text of everything but the plan.
std::string choice_group(const MeasuredRow& row) {
    return fmt::format("{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}", row.family, row.layers,
                       row.hidden, row.heads, row.kv_heads, row.ffn_hidden, row.experts, row.seq,
                       row.vocab, row.precision, row.framework, row.gpu, row.gpus,
                       row.global_batch);
}

ErrorSummary summary_of(std::vector<double> errors, std::size_t skipped) {
    ErrorSummary summary;
    summary.n = errors.size();
    summary.skipped = skipped;
    if (errors.empty()) return summary;
    const double n = static_cast<double>(errors.size());
    for (double& e : errors) {
        summary.bias += e / n;
        e = std::fabs(e);
        summary.mean_abs += e / n;
    }
    std::sort(errors.begin(), errors.end());
    summary.median_abs = quantile(errors, 0.5);
    summary.p90_abs = quantile(errors, 0.9);
    return summary;
}

/// One group's part of ChoiceSummary.
struct GroupChoice {
    double regret = 0;
    std::size_t pairs = 0, right = 0, all_pairs = 0;
    double concordance = 0;
};

GroupChoice choose(const std::vector<const EvaluatedRow*>& rows) {
    GroupChoice choice;
    const auto measured = [](const EvaluatedRow* r) { return *r->row->iteration_s; };
    const auto estimated = [](const EvaluatedRow* r) { return r->estimate.iteration_s; };
    const EvaluatedRow* chosen = rows.front();
    double best = measured(chosen);
    for (const EvaluatedRow* row : rows) {
        if (estimated(row) < estimated(chosen)) chosen = row;
        best = std::min(best, measured(row));
    }
    choice.regret = measured(chosen) / best - 1;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            const double m = measured(rows[i]) - measured(rows[j]);
            const double e = estimated(rows[i]) - estimated(rows[j]);
            ++choice.all_pairs;
            choice.concordance += m * e > 0 ? 1 : m * e < 0 ? -1 : 0;
            if (std::fabs(m) <= 0.05 * std::min(measured(rows[i]), measured(rows[j]))) continue;
            ++choice.pairs;
            choice.right += m * e > 0 ? 1 : 0;
        }
    }
    return choice;
}

}  // namespace

bool EvaluatedRow::timed() const {
    return priced() && row->status == "ok" && row->iteration_s.value_or(0) > 0;
}

double EvaluatedRow::error() const { return estimate.iteration_s / *row->iteration_s - 1; }

EvaluatedRow evaluate_row(const MeasuredRow& row, const EvaluateOptions& options) {
    EvaluatedRow out;
    out.row = &row;
    (void)options.calibration.framework(row.framework, &out.known_framework);
    out.known_network =
        options.calibration.has_network(row.intra_link, row.inter_gbps.value_or(0), row.notes);
    if (!row.unreadable.empty()) {
        out.reason = row.unreadable;
        return out;
    }
    Result<Query> query = row_query(row, options);
    if (!query) {
        out.reason = query.error().message();
        return out;
    }
    const Result<Estimate> estimate = price_query(*query);
    if (!estimate) {
        out.reason = estimate.error().message();
        return out;
    }
    out.known_device = options.calibration.has_device(query->pool.hardware.name);
    out.plan = query->plan;
    out.estimate = *estimate;
    out.fits = fits(row, *query, *estimate);
    return out;
}

std::vector<EvaluatedRow> evaluate_rows(const std::vector<MeasuredRow>& rows,
                                        const EvaluateOptions& options) {
    std::vector<EvaluatedRow> evaluated;
    evaluated.reserve(rows.size());
    for (const MeasuredRow& row : rows) evaluated.push_back(evaluate_row(row, options));
    return evaluated;
}

ErrorSummary summarise(const std::vector<const EvaluatedRow*>& rows) {
    std::vector<double> errors;
    std::size_t skipped = 0;
    for (const EvaluatedRow* row : rows) {
        if (!row->priced()) ++skipped;
        if (row->timed()) errors.push_back(row->error());
    }
    return summary_of(std::move(errors), skipped);
}

std::map<std::string, ErrorSummary> summarise_by(const std::vector<EvaluatedRow>& rows,
                                                 const RowKey& key) {
    std::map<std::string, std::vector<const EvaluatedRow*>> groups;
    for (const EvaluatedRow& row : rows) groups[key(*row.row)].push_back(&row);
    std::map<std::string, ErrorSummary> summaries;
    for (const auto& [name, members] : groups) summaries[name] = summarise(members);
    return summaries;
}

ChoiceSummary summarise_choice(const std::vector<EvaluatedRow>& rows) {
    std::map<std::string, std::vector<const EvaluatedRow*>> groups;
    for (const EvaluatedRow& row : rows)
        if (row.timed()) groups[choice_group(*row.row)].push_back(&row);
    ChoiceSummary summary;
    std::size_t right = 0, all_pairs = 0;
    double concordance = 0;
    for (const auto& [name, members] : groups) {
        if (members.size() < 2) continue;
        const GroupChoice choice = choose(members);
        ++summary.groups;
        summary.regret_mean += choice.regret;
        summary.regret_max = std::max(summary.regret_max, choice.regret);
        summary.pairs += choice.pairs;
        right += choice.right;
        all_pairs += choice.all_pairs;
        concordance += choice.concordance;
    }
    const auto share = [](double part, std::size_t whole) {
        return whole == 0 ? 0 : part / static_cast<double>(whole);
    };
    summary.regret_mean = share(summary.regret_mean, summary.groups);
    summary.pair_order = share(static_cast<double>(right), summary.pairs);
    summary.kendall_tau = share(concordance, all_pairs);
    return summary;
}

MemorySummary summarise_memory(const std::vector<EvaluatedRow>& rows) {
    MemorySummary summary;
    std::vector<double> errors;
    std::size_t skipped = 0;
    for (const EvaluatedRow& row : rows) {
        const bool oom = row.row->status == "OOM", ok = row.row->status == "ok";
        if (!row.priced()) {
            skipped += row.row->memory_gb ? 1 : 0;
            continue;
        }
        summary.ok += ok ? 1 : 0;
        summary.ok_fits += ok && row.fits ? 1 : 0;
        summary.oom += oom ? 1 : 0;
        summary.oom_refused += oom && !row.fits ? 1 : 0;
        const bool decimal = row.row->mem_kind.find("GB") != std::string::npos;
        const double unit = decimal ? 1e9 : 1024.0 * 1024 * 1024;
        if (row.row->memory_gb && *row.row->memory_gb > 0)
            errors.push_back(row.estimate.memory_bytes_per_gpu / (*row.row->memory_gb * unit) - 1);
    }
    summary.bytes = summary_of(std::move(errors), skipped);
    return summary;
}

}  // namespace arena
