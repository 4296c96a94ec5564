// SPDX-License-Identifier: GPL-2.0-or-later
// The calibrated constants of the cost model, one table (etc/calibration.yaml): what a device, a
// training framework and a network reach of what data sheets promise. Every share is in (0, 1];
// the table says what each constant means and how it was fitted. The formulas are in roofline.cc,
// shard.cc, iteration.cc and memory.cc. A profile replaces the device constants where it has the
// operator.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

/// By GPU type. Shares are of the dense peak of the precision, or of the peak bandwidth.
struct DeviceConstants {
    double gemm_share = 0.85;       ///< inside a full wave of the best tile, 16 bit and tf32
    double gemm_share_32bit = 0;    ///< fp32 without tensor cores; 0: as gemm_share
    double gemm_share_8bit = 0.75;  ///< fp8, mxfp8
    double gemm_share_4bit = 0.60;  ///< nvfp4
    double gemm_ramp = 261;       ///< elements of k, 16 bit, that fill and drain a tile's pipeline
    double grouped_share = 0.9;   ///< of experts' GEMMs, over gemm_share
    double gemm_align_8 = 2.2;    ///< slowdown when a dimension is no multiple of 8
    double gemm_align_64 = 1.12;  ///< ... of 8 but not of 64
    double conv_share = 0.85;     ///< of convolutions, as gemm_share
    double conv_ramp = 261;       ///< ... as gemm_ramp
    double attention_forward = 0.50, attention_backward = 0.40;  ///< fused kernels, 16-bit peak
    double attention_softmax = 0;  ///< part of their time at heads of 128 that is exponentials
    double attention_ramp = 300;   ///< positions of the sequence lost at the edges of a block
    double memory_share = 0.85;
    double kernel_s = 4e-6;  ///< tail and gap of one kernel
    double clock_share = 1;  ///< of the clock that the peaks are for, under a lower limit of power
    double node_spread = 0;  ///< standard deviation of the speed of nodes of one type
    double unmeasured = 1;   ///< 1: no run on such a device was measured; a data sheet speaks alone
};

/// By framework: what the host costs, what is fused, what overlaps with what.
struct FrameworkConstants {
    double host_forward_s = 0.6e-3, host_backward_s = 0.8e-3;  ///< to issue one layer's kernels
    double host_collective_s = 24e-6;  ///< to issue one tensor-parallel collective
    double host_expert_s = 0.4e-3;     ///< more for a layer of experts, forward
    double host_group_s = 0;        ///< ... for each expert on the rank: casts, a GEMM of its own
    double collective_skew_s = 0;   ///< waiting for the latest of 2 ranks; times log2 of the group
    double host_sharpness = 8;      ///< p of the p-norm that joins host and device time
    double micro_batch_s = 0;       ///< once per micro-batch and chunk of a stage
    double iteration_s = 10e-3;     ///< once per iteration: launches, norm, scaler, logging
    double iteration_layer_s = 0;   ///< per layer of a stage, once per iteration
    double fused_attention = 1;     ///< 1: flash kernels; 0: scores in memory
    double attention_share = 1;     ///< fused kernels over the device's best
    double ring_imbalance = 0;      ///< context parallel: 1: one piece of the sequence each
    double attention_passes = 6.5;  ///< over the score matrix, forward, when not fused
    double attention_passes_backward = 8;
    double softmax_multiple = 1;      ///< fused softmax needs heads * micro-batch a multiple of it
    double softmax_fallback_s = 0;    ///< host time of the fallback, forward, per layer
    double elementwise_passes = 1;    ///< bytes of element-wise operators over the fused minimum
    double loss_bytes = 12;           ///< per logit, forward + backward
    double head_tokens = 1;           ///< bert: share of tokens that reach the output head
    double unpadded_tokens = 0;       ///< bert: mean tokens of a sample where padding is dropped
    double pads_vocab = 1;            ///< 1: to a multiple of 128 * tp; 0: only when tp > 1
    double cast_passes = 1;           ///< of a GEMM's inputs for 8- and 4-bit types
    double conv_weight_passes = 0;    ///< over a convolution's weights beyond its implicit GEMM
    double conv_layout_passes = 0;    ///< over its images: 1 where channels come first (NCHW)
    double norm_collectives = 0;      ///< per batch norm and pass: replicas share its statistics
    double gradient_bytes = 0;        ///< exchanged per parameter; 0: by precision
    double weight_bytes = 0;          ///< gathered per parameter by ZeRO; 0: by precision
    double optimizer_bytes = 28;      ///< moved per parameter of the step
    double overlap_gradients = 1;     ///< share of the last backward that hides their exchange
    double overlap_weights = 1;       ///< share of compute that hides gathers of sharded weights:
                                      ///< of ZeRO 3 layer by layer, of ZeRO 1 and 2 after the step
    double overlap_slowdown = 0.2;    ///< share of the hidden time that overlap costs anyway
    double partitions_boundary = 0;   ///< 1: a tensor-parallel rank sends its part of a boundary
    double overlap_boundary = 0;      ///< share of stage-to-stage transfers that is hidden
    double overlap_chunks = 0;        ///< ... of interleaved stages, where that is more
    double blocking_boundary = 0;     ///< 1: a stage also stands still while it receives
    double overlap_tensor = 0;        ///< share of tensor-parallel collectives that is hidden
    double overlap_expert = 0;        ///< share of expert all-to-all that is hidden
    double regather_weights = 1;      ///< ZeRO-3: gathers of weights beyond the forward's
    double weight_tensors = 1;        ///< ZeRO-3: messages in which a layer's weights come and go
    double weight_rank_s = 0;         ///< ... and what each takes per rank to take apart
    double weight_share = 1;          ///< ... and what they reach of a ring's rate
    double staged_zero = 3;           ///< the highest stage of ZeRO where there are pipeline stages
    double recompute = 0;             ///< when a row does not say: 0 none, 1 selective, 2 full
    double selective_attention = 1;   ///< selective recompute repeats the core of attention
    double selective_others = 0;      ///< ... and this share of everything else
    double recompute_pointwise = 0;   ///< 1: norms and activation functions, whatever else is not
    double recompute_mlp = 0;         ///< 1: the MLP or the experts, whatever else is not
    double bf16_state_bytes = 0;      ///< per parameter, beyond Megatron's 18, never sharded
    double gradient_state_bytes = 0;  ///< held per parameter; 0: by precision
    double optimizer_state_bytes = 0;  ///< ... by the optimizer; 0: Adam's and a master copy
    double logit_bytes = 10;           ///< held per logit at the loss
    double keeps_masks = 1;            ///< 1: models with dropout train with it
    double activation_slack = 1.06;    ///< allocator: kept bytes over tensors' bytes
    double reserved_gib = 0;           ///< beyond the hardware's reserved_gib
};

/// By link class and adapters of a node.
struct NetworkConstants {
    double intra_share = 1;      ///< of what the hardware entry gives the link inside a node
    double share = 0.75;         ///< of the adapters' rate
    double alpha_s = 25e-6;      ///< of one message
    double cross_rail_cost = 0;  ///< Link::cross_rail_cost
    double node_spread = 0;      ///< DeviceConstants::node_spread, where it is more
};

struct CostConstants {
    DeviceConstants device;
    FrameworkConstants framework;
};

/// The table. Lookups fall back to the entry named "default", which every table has.
class Calibration {
  public:
    /// An entry with a name is for what one cluster does, not for what its link promises: it counts
    /// where it is asked for by that name, or by a word that says how the nodes are connected.
    struct Network {
        std::string name;
        std::vector<std::string> words;
        std::string intra_link;
        double inter_gbps = 0;  ///< 0: any
        NetworkConstants constants;
    };
    struct Device {
        std::string name;
        DeviceConstants constants;
    };
    struct Framework {
        std::string name;
        std::vector<std::string> aliases;
        FrameworkConstants constants;
    };
    std::vector<Device> devices;
    std::vector<Framework> frameworks;
    std::vector<Network> networks;

    /// By the name of a hardware entry.
    [[nodiscard]] const DeviceConstants& device(std::string_view hardware_name) const;
    /// By name, else by name or alias ignoring case; `known` (may be null) says whether it was in
    /// the table.
    [[nodiscard]] const FrameworkConstants& framework(std::string_view name,
                                                      bool* known = nullptr) const;
    /// `said`: what was written of the network, in which named entries look for their words.
    [[nodiscard]] const NetworkConstants& network(std::string_view intra_link, double inter_gbps,
                                                  std::string_view said = {}) const;
    /// By name, or nothing.
    [[nodiscard]] const NetworkConstants* named_network(std::string_view name) const;
    /// Whether the table names it, or the default stands in.
    [[nodiscard]] bool has_device(std::string_view hardware_name) const;
    [[nodiscard]] bool has_network(std::string_view intra_link, double inter_gbps,
                                   std::string_view said = {}) const;
    [[nodiscard]] CostConstants constants(std::string_view hardware_name,
                                          std::string_view framework_name) const;
};

/// The table in the program: etc/calibration.yaml as it was when this was built.
const Calibration& builtin_calibration();
/// The built-in table with a file's on top; "" = none.
Result<Calibration> load_calibration(const std::string& extra_file);
/// Reads a table on top of `base`: entries with the same name change only the keys they give.
Result<Calibration> parse_calibration(std::string_view text, std::string_view name,
                                      const Calibration& base);

}  // namespace arena
