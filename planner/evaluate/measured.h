// SPDX-License-Identifier: GPL-2.0-or-later
// A table of measured training runs (CSV with a header line; the columns of data/measured): what
// was trained, on what, with which plan, and how long an iteration took. Facts only; what the
// planner makes of a row is in planner/evaluate/evaluate.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

inline constexpr std::size_t max_measured_bytes = 64 * 1024 * 1024;
inline constexpr std::size_t max_measured_rows = 200000;

/// One run. Integers that the table leaves blank are 0; `mla` marks kv_heads "MLA"; where seq is
/// the size of an image ("224x224"), it is 0 and the edges are in `image`.
struct MeasuredRow {
    std::int64_t id = 0;
    std::size_t line = 0;  ///< in the file, for messages
    std::string source, framework, family, model, gpu, intra_link, recompute, precision, sharding,
        attention, status, confidence, mem_kind, notes, kind;
    std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn_hidden = 0, seq = 0,
                 vocab = 0, experts = 0, top_k = 0, moe_ffn = 0;
    std::int64_t gpus = 0, gpus_per_node = 0, tp = 0, pp = 0, dp = 0, vpp = 0, cp = 0, ep = 0,
                 micro_batch = 0, global_batch = 0;
    std::int64_t image_width = 0, image_height = 0;
    bool mla = false, sequence_parallel = false;
    std::optional<double> inter_gbps, iteration_s, memory_gb;
    std::string unreadable;  ///< why the row cannot be read; what could be read is in the others
};

/// Reads the whole table. Needs the columns that no row can do without (gpu, gpus, family, layers,
/// hidden, seq, tp, pp, dp, mbs, gbs, iter_time_s); others may be absent, unknown ones are
/// ignored. A row with anything else than a number where one belongs is marked unreadable; a table
/// with rows of which all are is an error that names line and column of the first.
Result<std::vector<MeasuredRow>> parse_measured(std::string_view text, std::string_view name);

}  // namespace arena
