// SPDX-License-Identifier: GPL-2.0-or-later
// The value types that every part of slurm-arena speaks: Model, GpuType, Grid, Plan, Estimate,
// Offer, Snapshot, Decision. Plain data: copyable, comparable, printable, JSON both ways. Jobs and
// nodes are ids, never host pointers; time is a field, never a call. No Slurm, CUDA or NCCL type
// appears here.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace arena {

// ---- what is trained ------------------------------------------------------------------------

enum class Family { gpt, llama, bert, moe, wide_resnet, custom };
/// fp8: per-tensor scales; mxfp8 and nvfp4: block scales. They are the operand type of the block's
/// GEMMs; everything else in such a model runs in bf16.
enum class Precision { fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4 };
enum class Recompute { none, selective, full };
enum class Source { analytic, profiled, observed };

std::string_view to_string(Family);
std::string_view to_string(Precision);
std::string_view to_string(Recompute);
std::string_view to_string(Source);
std::optional<Family> parse_family(std::string_view);
std::optional<Precision> parse_precision(std::string_view);
std::optional<Recompute> parse_recompute(std::string_view);
std::optional<Source> parse_source(std::string_view);
/// For messages of readers.
inline constexpr std::string_view one_of_precisions =
    "one of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4";
inline constexpr std::string_view one_of_families =
    "one of gpt, llama, bert, moe, wide_resnet, custom";
inline constexpr std::string_view accepted_precisions = one_of_precisions.substr(7);
inline constexpr std::string_view accepted_families = one_of_families.substr(7);

/// One entry of a `custom` model: `count` equal layers, per sample, forward only.
struct CustomLayer {
    std::string name;
    std::int64_t count = 1;
    double forward_flops = 0;     ///< FLOP per sample, forward
    double parameter_bytes = 0;   ///< at the model's precision
    double activation_bytes = 0;  ///< kept for backward, per sample
    double output_bytes = 0;      ///< handed to the next layer, per sample; 0 = activation_bytes
    auto operator<=>(const CustomLayer&) const = default;
};

/// A neural network and the facts that determine its cost. Zero means "not given / not applicable".
/// Multi-token-prediction layers (deepseek_v3) are left out: the main model alone is priced.
/// core/model_fields.h names every field once, with its range, for all readers and writers.
struct Model {
    std::string name;  ///< for people; not part of the fingerprint
    Family family = Family::gpt;
    std::int64_t layers = 0;  ///< what a pipeline deals out: transformer blocks; wide_resnet:
                              ///< bottleneck blocks; custom: the sum of counts
    std::int64_t hidden = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;    ///< grouped-query attention; equals heads for MHA
    std::int64_t head_dim = 0;    ///< 0 = hidden / heads (never given when equal to it)
    std::int64_t ffn_hidden = 0;  ///< of dense layers
    std::int64_t vocab = 0;
    std::int64_t seq_length = 0;  ///< tokens per sample as trained
    Precision precision = Precision::bf16;
    bool tied_embedding = true;  ///< input embedding and output head share one matrix
    bool gated_mlp = false;      ///< SwiGLU/GeGLU: two up projections; experts too
    bool learned_positions =
        true;                 ///< position table of seq_length rows; else rotary (no parameters)
    bool linear_bias = true;  ///< every matrix of a block has a bias (experts and router too)
    bool qkv_bias = false;    ///< the query-key-value projection alone has one (qwen2)
    bool rms_norm = false;    ///< norms without mean and bias
    bool qk_norm = false;     ///< norms over each query and key head (qwen3)
    std::int64_t window = 0;  ///< sliding-window attention: keys seen by one query; 0 = all
    std::int64_t full_attention_every =
        0;  ///< with window: each n-th layer sees all; 0 = no layer does

    std::int64_t experts = 0;            ///< moe: experts per MoE layer
    std::int64_t top_k = 0;              ///< experts that one token visits
    std::int64_t moe_ffn_hidden = 0;     ///< width of one expert
    std::int64_t shared_ffn_hidden = 0;  ///< width of all shared experts together
    std::int64_t dense_layers = 0;       ///< the first ones have a dense MLP
    std::int64_t moe_every = 0;          ///< after them each n-th layer is MoE (0 and 1: all)
    double capacity_factor = 0;       ///< GShard: rows padded to it, one-hot dispatch; 0 = dropless
    std::int64_t moe_group_size = 0;  ///< GShard: tokens dispatched together; 0 = seq_length

    std::int64_t kv_lora_rank = 0;  ///< > 0: multi-head latent attention with the four sizes below
    std::int64_t q_lora_rank = 0;   ///< 0 = queries are not compressed
    std::int64_t qk_nope_head_dim = 0;
    std::int64_t qk_rope_head_dim = 0;
    std::int64_t v_head_dim = 0;

    std::int64_t depth = 0;  ///< wide_resnet: 50, 101, 152 or 200; 0 when only blocks are given
    std::vector<std::int64_t> blocks;  ///< wide_resnet: bottleneck blocks of each stage
    std::int64_t width_factor = 0;     ///< inner channels = width_factor * base_channels * 2^stage
    std::int64_t base_channels = 0;    ///< block outputs have 4 * base_channels * 2^stage
    std::int64_t image_size = 0;
    std::int64_t classes = 0;
    bool widen_first = true;  ///< wide_resnet: the first 1x1 is widened too (torchvision), not only
                              ///< the 3x3 (Alpa, Arena)
    std::vector<CustomLayer> custom_layers;
    bool operator==(const Model&) const = default;
};

/// 16 lower-case hex digits over every field that changes the cost of an operator (not the name).
std::string fingerprint(const Model&);

// ---- where it runs --------------------------------------------------------------------------

/// A link class: time of moving n bytes = alpha_s + n / bytes_per_s (one direction, per GPU).
struct Link {
    std::string name;  ///< "nvlink3", "pcie4", "ib-hdr"
    double bytes_per_s = 0;
    double alpha_s = 0;
    /// Between nodes: how much slower each doubling of a job's nodes beyond two makes its rings
    /// that change rails (collectives.h); 1 = as much again as they take on two nodes. [0, 10]
    double cross_rail_cost = 0;
    bool operator==(const Link&) const = default;
};

/// A hardware entry: what one GPU can do and how GPUs are wired.
struct GpuType {
    std::string name;  ///< hardware entry, for example "A100-SXM-80GB"
    std::int64_t memory_bytes = 0;
    std::map<Precision, double> flops;  ///< dense peak FLOP/s per precision; absent = unsupported
    double memory_bytes_per_s = 0;      ///< HBM/GDDR bandwidth
    std::int64_t sm_count = 0;
    std::int64_t gpus_per_node = 0;  ///< default when the site does not say
    std::int64_t domain_gpus =
        0;                      ///< GPUs that `intra` joins, over nodes too (NVL72); 0 = a node's
    Link intra;                 ///< between GPUs of one node, per GPU
    Link inter;                 ///< between nodes, per node
    double reserved_bytes = 0;  ///< framework + context per GPU
    bool emulated = false;      ///< timings are a CPU's: never to be read as a GPU's
    std::vector<std::string> aliases;  ///< other names of the entry that find_hardware() accepts
    bool operator==(const GpuType&) const = default;
};

// ---- grids, plans, estimates, offers ---------------------------------------------------------

/// GPU type x GPU count (nodes x GPUs per node) x pipeline stages.
struct Grid {
    std::string gpu_type;  ///< the site's GRES type name ("a40"); in `arena plan` a hardware entry
    std::int64_t nodes = 1;
    std::int64_t gpus_per_node = 1;
    std::int64_t stages = 1;
    [[nodiscard]] std::int64_t gpus() const { return nodes * gpus_per_node; }
    auto operator<=>(const Grid&) const = default;
};

/// A point in a grid. stage_* have one entry per pipeline stage; sum(stage_layers) = model layers,
/// cp * sum(stage_dp[i] * stage_tp[i]) = GPUs. Uniform plans have equal dp and tp on every stage.
struct Plan {
    std::vector<std::int64_t> stage_layers;
    std::vector<std::int64_t> stage_dp;
    std::vector<std::int64_t> stage_tp;
    std::int64_t micro_batch = 1;  ///< samples per micro-batch per replica (of the first stage)
    std::int64_t num_micro_batches = 1;  ///< per iteration and replica
    Recompute recompute = Recompute::none;
    std::int64_t zero_stage = 0;  ///< optimizer sharding, 0..3
    bool sequence_parallel = false;
    std::int64_t vpp = 1;  ///< chunks of layers per stage; > 1 = interleaved 1F1B
    std::int64_t cp = 1;   ///< context parallel: ranks that share the tokens of one sample
    std::int64_t ep =
        1;  ///< expert parallel: ranks, of a stage's dp * cp * tp, that share the experts

    [[nodiscard]] std::int64_t pp() const { return static_cast<std::int64_t>(stage_layers.size()); }
    [[nodiscard]] std::int64_t dp() const { return stage_dp.empty() ? 1 : stage_dp.front(); }
    [[nodiscard]] std::int64_t tp() const { return stage_tp.empty() ? 1 : stage_tp.front(); }
    [[nodiscard]] std::int64_t gpus() const;
    auto operator<=>(const Plan&) const = default;
};

/// The one spelling of a plan, wherever it is shown and given: "pp2,dp2,tp1,mb4x16": micro-batch 4,
/// 16 of them; then what a default Plan has not: vpp2, cp2, ep2, selective or full, zero1 to zero3,
/// sp. All but the deal of layers, which follows from it. parse_plan_pin() reads it back, but for
/// stages that differ in dp or tp ("dp2+1").
std::string short_form(const Plan&);
/// "4xa40" for one node, "2x4xa40" for two nodes of four.
std::string short_form(const Grid&);

/// What a user fixed with --arena-plan or Comment=arena:plan=...: 0 or nothing = free.
/// Grammar: words joined by commas, each kind once: pp dp tp mb vpp cp ep with a number
/// of 1..65536, mb4x16, none selective full, zero0..zero3, sp (sp1) sp0; e.g. "pp2,dp2,tp1". With
/// pp, dp, tp and mb4x16 it is short_form(): what is not named is not free then, but as in a
/// default Plan.
struct PlanPin {
    std::int64_t pp = 0, dp = 0, tp = 0, micro_batch = 0, vpp = 0, cp = 0, ep = 0;
    std::int64_t num_micro_batches = 0;
    std::optional<Recompute> recompute = {};
    std::optional<std::int64_t> zero_stage = {};
    std::optional<bool> sequence_parallel = {};
    /// GPUs that a plan takes a multiple of: the product of the pinned pp, dp, tp and cp; at most
    /// 2^40.
    [[nodiscard]] std::int64_t gpus() const;
    /// Whether that product is the number of GPUs: pp, dp and tp are pinned (cp is 1 unless
    /// pinned).
    [[nodiscard]] bool fixes_gpus() const { return pp != 0 && dp != 0 && tp != 0; }
    auto operator<=>(const PlanPin&) const = default;
};
Result<PlanPin> parse_plan_pin(std::string_view text);
/// What parse_plan_pin() reads; of a whole plan short_form().
std::string to_string(const PlanPin&);
bool matches(const PlanPin&, const Plan&);

/// Predicted cost of one training iteration under a plan. Seconds and bytes; parts sum to
/// iteration_s only where nothing overlaps.
struct Estimate {
    double iteration_s = 0;
    double samples_per_s = 0;
    double tflops_per_gpu = 0;        ///< model TFLOP/s per GPU
    double memory_bytes_per_gpu = 0;  ///< peak over stages
    /// tp_comm_s: all collectives inside a stage, of experts, contexts and shared batch norms, too.
    double compute_s = 0, tp_comm_s = 0, pp_comm_s = 0, dp_comm_s = 0, bubble_s = 0,
           optimizer_s = 0;
    Source source = Source::analytic;
    double error_bound = 0.5;  ///< relative, e.g. 0.1 = within 10 % most of the time
    bool operator==(const Estimate&) const = default;
};

/// A grid that a job could take, with the proxy plan that stands for it.
struct Offer {
    Grid grid;
    Plan plan;
    Estimate estimate;
    bool operator==(const Offer&) const = default;
};

// ---- what a policy sees ---------------------------------------------------------------------

/// GPU types that a site maps, a request allows or a job is limited to.
inline constexpr std::size_t max_gpu_types = 64;

using JobId = std::uint32_t;
using NodeIndex = std::uint32_t;  ///< index into Snapshot::nodes

struct NodeState {
    std::string name;
    std::string gpu_type;  ///< GRES type name; "" = no typed GPU
    std::int64_t total_gpus = 0;
    std::int64_t free_gpus = 0;  ///< 0 when the node is down, drained or reserved for others
    std::int64_t free_cpus = 0;
    std::int64_t free_memory_mb = 0;
    bool up = true;  ///< takes jobs, now or when those that run there have ended
    bool operator==(const NodeState&) const = default;
};

/// Nodes of which a job takes all its nodes: those of one partition, within that one's limits.
struct Place {
    std::uint32_t node_set = 0;  ///< index into Snapshot::node_sets
    std::int64_t min_nodes = 1, max_nodes = INT64_MAX;
    std::int64_t max_cpus_per_node = INT64_MAX;       ///< of one job
    std::int64_t max_memory_mb_per_node = INT64_MAX;  ///< of one job
    auto operator<=>(const Place&) const = default;
};

enum class JobPhase { pending, running };

struct JobState {
    JobId id = 0;
    JobPhase phase = JobPhase::pending;
    double priority = 0;  ///< larger first; what Slurm would give the job were it not held
    double submit_s = 0;  ///< seconds since the epoch
    double age_s = 0;     ///< since eligible
    std::vector<std::string> gpu_types;  ///< allowed GRES types; empty = any mapped type
    std::int64_t min_gpus = 1;
    std::int64_t max_gpus = 1;  ///< INT64_MAX = no limit
    std::int64_t cpus_per_gpu = 1;
    std::int64_t memory_mb_per_gpu = 0;
    std::uint32_t node_set = 0;  ///< index into Snapshot::node_sets: nodes the job may use
    std::vector<Place>
        places;  ///< parts of them that it may not mix, the preferred first; empty: one
    double remaining_iterations = 0;  ///< 0 = unknown: the time limit stands for it
    bool overrun =
        false;  ///< has done all that its user said, and runs on: remaining_iterations is 1
    double time_limit_s = 0;  ///< 0 = unlimited; of a running job what is left of it
    bool elastic = false;
    std::int64_t restarts = 0;     ///< starts and changes of the GPU set so far
    std::optional<Offer> current;  ///< shape it runs with, or waits with
    std::vector<NodeIndex>
        nodes;  ///< running: the nodes it holds, current->grid.gpus_per_node GPUs on each
    double patient_until_s = 0;  ///< waiting for GPUs on fewer nodes: the first such time of
                                 ///< Decision::patience; 0: never
    double start_s = 0;          ///< running: when it got these GPUs
    double done_iterations = 0;  ///< of all its runs
    double attained_gpu_s = 0;   ///< GPU-seconds held so far
    std::string requested_type;  ///< what the user would ask of Slurm without Arena; "" = nothing
    std::int64_t requested_gpus = 0;
    std::string account;  ///< whose share it counts against
    bool operator==(const JobState&) const = default;
};

/// The cluster at one moment. nodes and jobs in any order; node_sets hold sorted node indices.
struct Snapshot {
    double time_s = 0;
    std::uint64_t generation = 0;
    std::vector<NodeState> nodes;
    std::vector<std::vector<NodeIndex>> node_sets;
    std::vector<JobState> jobs;
    bool operator==(const Snapshot&) const = default;
};

/// A list of offers, best estimate first, that many jobs may share: copies are one pointer. Reads
/// as a const std::vector<Offer>; own() is the list to change, copied first where others read it
/// too.
class SharedOffers {
  public:
    SharedOffers() = default;
    SharedOffers(std::vector<Offer> list)
        : list_(std::make_shared<std::vector<Offer>>(std::move(list))) {}
    SharedOffers(std::initializer_list<Offer> list) : SharedOffers(std::vector<Offer>(list)) {}
    SharedOffers(std::shared_ptr<const std::vector<Offer>> list) : list_(std::move(list)) {}

    operator const std::vector<Offer>&() const { return get(); }
    [[nodiscard]] const std::vector<Offer>& get() const;
    [[nodiscard]] std::vector<Offer>& own();
    [[nodiscard]] auto begin() const { return get().begin(); }
    [[nodiscard]] auto end() const { return get().end(); }
    [[nodiscard]] std::size_t size() const { return get().size(); }
    [[nodiscard]] bool empty() const { return get().empty(); }
    [[nodiscard]] const Offer& front() const { return get().front(); }
    [[nodiscard]] const Offer& operator[](std::size_t i) const { return get()[i]; }
    void push_back(Offer offer) { own().push_back(std::move(offer)); }
    bool operator==(const SharedOffers& other) const {
        return list_ == other.list_ || get() == other.get();
    }

  private:
    std::shared_ptr<const std::vector<Offer>> list_;
};

/// Offers per job id; a job without an entry cannot be placed.
using Offers = std::map<JobId, SharedOffers>;

// ---- what a policy answers ------------------------------------------------------------------

enum class ActionKind { start, reshape_and_wait, resize, profile, preempt };
std::string_view to_string(ActionKind);
std::optional<ActionKind> parse_action_kind(std::string_view);

struct Action {
    ActionKind kind = ActionKind::start;
    JobId job = 0;
    Offer offer;  ///< start, reshape_and_wait, resize
    std::vector<NodeIndex>
        nodes;                ///< start, resize: exactly offer.grid.nodes entries; GPUs that the
                              ///< decision's own resizes and preemptions free count as free
    std::string gpu_type;     ///< profile: GRES type to measure on
    std::string reason;       ///< for people: why this, in a few words
    std::uint32_t place = 0;  ///< start: index into the job's places
    bool operator==(const Action&) const = default;
};

struct Decision {
    std::vector<Action> actions;           ///< in the order they are to be applied
    std::map<JobId, std::string> waiting;  ///< why each job that got nothing waits
    std::map<JobId, double>
        patience;  ///< of jobs that wait although enough GPUs are free: until when, by the epoch
    bool operator==(const Decision&) const = default;
};

// ---- text and JSON --------------------------------------------------------------------------
// to_json gives one line of JSON with "schema_version":1 at the top object of Snapshot, Offers and
// Decision. parse_* accept exactly that; limits: 64 MiB, depth 32; unknown keys ignored, a missing
// or mistyped key is an error that names it.

std::string to_json(const Model&);
std::string to_json(const GpuType&);
std::string to_json(const Grid&);
std::string to_json(const Plan&);
std::string to_json(const Estimate&);
std::string to_json(const Offer&);
std::string to_json(const Snapshot&);
std::string to_json(const Offers&);
std::string to_json(const Decision&);
Result<Model> parse_model_json(std::string_view);
Result<GpuType> parse_gpu_type_json(std::string_view);
Result<Grid> parse_grid_json(std::string_view);
Result<Plan> parse_plan_json(std::string_view);
Result<Estimate> parse_estimate_json(std::string_view);
Result<Offer> parse_offer_json(std::string_view);
Result<Snapshot> parse_snapshot(std::string_view);
Result<Offers> parse_offers(std::string_view);
Result<Decision> parse_decision(std::string_view);

}  // namespace arena
