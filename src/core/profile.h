// SPDX-License-Identifier: GPL-2.0-or-later
// What the profiler measures and the planner asks for: operator shapes, their measured seconds, and
// the device they were measured on. One Profile is the result of one profile run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "core/model.h"

namespace arena {

enum class OpKind {
    gemm,
    attention,
    norm,
    elementwise,
    embedding,
    cross_entropy,
    optimizer,
    conv,
    custom,
    layer,
};
inline constexpr std::size_t op_kind_count = static_cast<std::size_t>(OpKind::layer) + 1;
enum class Pass { forward, backward };
std::string_view to_string(OpKind);
std::string_view to_string(Pass);
std::optional<OpKind> parse_op_kind(std::string_view);
/// For messages of readers.
inline constexpr std::string_view one_of_op_kinds =
    "one of gemm, attention, norm, elementwise, embedding, cross_entropy, optimizer, conv, custom, "
    "layer";
std::optional<Pass> parse_pass(std::string_view);
/// How many of OpShape::dims a kind uses (1..4); the rest are 0.
std::size_t dim_count(OpKind);
/// Bytes of one element without its share of block scales: 4, 2, 1 or 0.5.
double element_bytes(Precision);

// ---- variants: what an operator is besides its sizes

/// Of a GEMM or a convolution; neither: its result.
enum class Gradient { data, weights };
enum class NormKind { batch, layer, rms };
enum class ElementwiseKind { add, bias_residual, gelu, relu, swiglu };
enum class OptimizerKind { adamw };

struct AttentionVariant {
    bool is_causal = false;
    std::int64_t value_dim = 0;  ///< 0 = that of the queries
    std::int64_t window = 0;     ///< 0 = no window
    auto operator<=>(const AttentionVariant&) const = default;
};
struct ConvVariant {
    std::int64_t kernel = 1, stride = 1;
    std::optional<Gradient> gradient = {};
    auto operator<=>(const ConvVariant&) const = default;
};
/// Widths are one tensor-parallel rank's.
struct LayerVariant {
    bool is_graph = false;  ///< launched as one graph; else operator by operator ("plain")
    bool is_causal = true, is_rms = false, is_gated = false, has_bias = true;
    std::int64_t heads = 1, kv_heads = 1, head_dim = 1;
    std::int64_t sequence_ranks = 1;  ///< norms and sums see only one in so many of the tokens
    auto operator<=>(const LayerVariant&) const = default;
};
using OpVariant = std::variant<std::monostate, Gradient, AttentionVariant, NormKind,
                               ElementwiseKind, OptimizerKind, ConvVariant, LayerVariant>;
/// As stores and spools write it: "" where there is none, "dgrad", "wgrad", "causal_v128_w4096",
/// "rms", "swiglu", "adamw", "r3s2_dgrad", "plain_causal_layer_gelu_bias_a12_k12_d64",
/// "graph_causal_rms_swiglu_a4_k1_d128_p8".
std::string variant_name(const OpVariant&);
/// The inverse; nothing for what no operator of that kind has.
std::optional<OpVariant> parse_variant(OpKind, std::string_view);
/// The variants of a kind that every back-end measures. The CPU's measures more: windows and value
/// sizes of attention, batch norms, relu, convolutions.
std::span<const OpVariant> variants_of(OpKind);

/// dims, and variant, by kind:
///   gemm          m, n, k, batch      C[m,n] = A[m,k] B[k,n]; backward GEMMs are listed as gemms
///   of their own;
///                                     pass says which layout: forward = A B^T (weights n x k),
///                                     backward with data gradient = A B, weights = A^T B. The
///                                     experts on a rank are a batch
///   attention     batch*heads, kv batch*heads, seq, head_dim; AttentionVariant
///   norm          rows, cols; NormKind: layer, rms along a row, batch along a column
///   elementwise   rows, cols of the output; ElementwiseKind; swiglu has two inputs
///   embedding     tokens, hidden, vocab (rows of the table on this rank): a gather of rows
///   forward, a
///                 sum into rows backward; also how tokens go to experts (the table holds the
///                 tokens)
///   cross_entropy rows, cols (vocabulary on this rank)
///   optimizer     parameters; OptimizerKind (fp32 moments; bf16/fp16 keep an fp32 master copy)
///   conv          images, in channels, out channels, edge (height = width) of the output;
///                 ConvVariant (as much padding as keeps the edge), backward with a gradient
///   custom        10^6 FLOP, 10^3 bytes, as a user stated them; never measured
///   layer         samples, tokens of a sample, hidden, MLP width: one whole layer of a dense
///                 transformer as one rank runs it, without communication; its operators' sum
///                 leaves out what lies between them. LayerVariant
struct OpShape {
    OpKind kind = OpKind::gemm;
    Pass pass = Pass::forward;
    Precision precision = Precision::fp32;
    std::array<std::int64_t, 4> dims{};
    OpVariant variant = {};
    auto operator<=>(const OpShape&) const = default;
};
/// Whether the operator has exactly that variant.
template <typename Variant>
bool has_variant(const OpShape& shape, const Variant& variant) {
    const Variant* own = std::get_if<Variant>(&shape.variant);
    return own != nullptr && *own == variant;
}
/// The operator's, else the default one.
template <typename Variant>
Variant variant_as(const OpShape& shape) {
    const Variant* own = std::get_if<Variant>(&shape.variant);
    return own != nullptr ? *own : Variant{};
}

/// "gemm/forward/fp32/1024x2304x768x1" or ".../variant": unique, printable, [a-z0-9_/x]; the
/// store's key.
std::string op_key(const OpShape&);
/// op_hash_digits hex digits of the SHA-256 of op_key(): what a request names an operator by that
/// need not be measured. Short, for a request holds hundreds; nobody finds a shape that has another
/// one's.
std::string op_hash(const OpShape&);
inline constexpr std::size_t op_hash_digits = 24;
/// Its inverse; nothing for anything else.
std::optional<OpShape> parse_op_key(std::string_view key);
/// FLOPs and bytes moved of one execution (multiply-add = 2 FLOP; a causal attention counts half of
/// the full one; fused kernels, nothing re-read from memory): lower bounds for a roofline.
double op_flops(const OpShape&);
double op_bytes(const OpShape&);

struct ProfileEntry {
    OpShape shape;
    double seconds = 0;        ///< median of one execution
    std::int64_t repeats = 0;  ///< timed executions, >= 1
    double spread = 0;         ///< half-width of the 95 % interval of the median / median
    bool operator==(const ProfileEntry&) const = default;
};

/// Who was measured. Two profiles may be mixed only when `identity()` is equal.
struct Device {
    std::string kind;     ///< "cpu" or "cuda"
    std::string name;     ///< "NVIDIA H100 80GB HBM3", CPU model name
    std::string uuid;     ///< GPU UUID; "" for a CPU
    std::string driver;   ///< CUDA driver version; kernel release for a CPU
    std::string library;  ///< "cuBLASLt 13.0", "OpenBLAS 0.3.21 + oneDNN 2.6"
    std::int64_t memory_bytes = 0;
    std::int64_t threads = 0;  ///< CPU back-end: threads used
    std::string node;          ///< host it ran on
    bool operator==(const Device&) const = default;
    [[nodiscard]] std::string identity() const;  ///< kind|name|driver|library|threads
};

enum class ProfileStatus { complete, partial, failed };
std::string_view to_string(ProfileStatus);
std::optional<ProfileStatus> parse_profile_status(std::string_view);
/// [A-Za-z0-9]{16,64}
bool is_nonce(std::string_view);

/// What the device said of itself right after a run; 0 = it could not say.
struct DeviceState {
    double clock_mhz = 0, temperature_c = 0, power_limit_w = 0;
    bool operator==(const DeviceState&) const = default;
};

/// Where a GPU sits in its node, as hwloc sees it.
struct GpuPlace {
    std::string pci;              ///< "0000:17:00.0"; "" = nothing is known
    std::int64_t numa_node = -1;  ///< -1 = several, or not known
    std::vector<std::string>
        switches;  ///< PCI addresses of the bridges above it, the nearest first
    std::vector<std::string>
        nics;  ///< adapters on its nearest switch that has any, else of its NUMA node
    bool operator==(const GpuPlace&) const = default;
};
/// One object; "" when nothing is known.
std::string to_json(const GpuPlace&);
/// What to_json() wrote, at most 8192 bytes; nothing for anything else.
std::optional<GpuPlace> parse_gpu_place(std::string_view);

/// Iterations that measuring a grid directly would take (paper: 20): what a profile's cost is held
/// against.
inline constexpr std::int64_t direct_iterations = 20;

struct Profile {
    std::string nonce;     ///< of the run that asked for it; [A-Za-z0-9]{16,64}
    std::string gpu_type;  ///< GRES type it stands for
    std::string hardware;  ///< hardware entry of that type ("emulated-cpu" in private clusters)
    std::string model_fingerprint;
    Device device;
    ProfileStatus status = ProfileStatus::complete;
    std::string reason;         ///< why partial or failed
    double device_seconds = 0;  ///< spent
    double started_s = 0;       ///< epoch seconds
    std::int64_t wanted = 0;    ///< operators that the plans of the request ask for
    std::int64_t reused = 0;    ///< of these, known on this device before: not measured again
    /// Device seconds that running every grid of the request for direct_iterations would take, as
    /// the planner estimates from what was measured; 0 = not known.
    double direct_seconds = 0;
    DeviceState state;
    GpuPlace place;
    std::vector<ProfileEntry> entries;
    bool operator==(const Profile&) const = default;
};

inline constexpr std::size_t max_profile_bytes = 1024 * 1024;
inline constexpr std::size_t max_profile_entries = 8192;
inline constexpr std::size_t max_profile_request_bytes = 32 * 1024;
std::string to_json(const Profile&);
/// Strict: at most 1 MiB, depth 8, 8192 entries, each op once; seconds in (0, 3600], repeats >= 1,
/// spread in [0, 10]. Unknown keys are ignored.
Result<Profile> parse_profile(std::string_view);

/// Of a regular file; an error names it.
Result<Profile> read_profile(const std::string& path);

/// What a carrier job's Prolog hands to arena-profiler (one line of JSON, at most 32 KiB).
struct ProfileRequest {
    std::string nonce;
    std::string gpu_type;
    std::string hardware;
    Model model;
    std::int64_t global_batch = 1;
    std::int64_t max_gpus = 1;
    std::int64_t gpus_per_node = 1;
    double budget_s = 60;
    std::vector<std::string> known;  ///< op_hash() of the operators that the store already has
    std::string known_device;  ///< the identity() they were measured on; another device measures
                               ///< all; "" = any
    bool operator==(const ProfileRequest&) const = default;
};
std::string to_json(const ProfileRequest&);
Result<ProfileRequest> parse_profile_request(std::string_view);

/// How far a run is: the text of NONCE.progress beside its result, while it is not there yet.
struct ProfileProgress {
    std::int64_t done = 0, total = 0;  ///< operators
    double spent_s = 0, left_s = 0;    ///< wall seconds; left is a guess
    bool operator==(const ProfileProgress&) const = default;
};
/// "arena-progress 1 12 40 31.5 58.2\n"
std::string to_text(const ProfileProgress&);
/// Exactly that, at most 128 bytes, done <= total <= 2^20, seconds in [0, 1e6].
Result<ProfileProgress> parse_progress(std::string_view);
/// "12/40, about 1 min"
std::string short_form(const ProfileProgress&);

/// Measured seconds of operators, as they are collected.
using OpSeconds = std::map<OpShape, double>;
/// Later entries of an operator replace those that are there.
void add_entries(const Profile&, OpSeconds&);

/// Measured seconds of operators of one GPU type, sorted by operator: what the planner looks things
/// up in. Never changes; copies share its rows.
class ProfileTable {
  public:
    using Row = std::pair<OpShape, double>;
    ProfileTable() = default;  ///< nothing is measured
    /// Leaves out what cannot be seconds.
    explicit ProfileTable(const OpSeconds&);
    explicit ProfileTable(const Profile&);
    [[nodiscard]] std::span<const Row> rows() const {
        return rows_ ? std::span<const Row>(*rows_) : std::span<const Row>();
    }
    [[nodiscard]] bool empty() const { return rows().empty(); }

  private:
    std::shared_ptr<const std::vector<Row>> rows_;
};

}  // namespace arena
