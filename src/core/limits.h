// SPDX-License-Identifier: GPL-2.0-or-later
// The limits that input of every kind is held to: options, YAML, JSON, CSV and the store alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace arena {

namespace limits {

/// GPUs of a job or a cluster; so also its nodes, ranks, stages, degrees of parallelism, CPUs of a
/// GPU and layers.
inline constexpr std::int64_t gpus = 65536;
/// GPUs of one node.
inline constexpr std::int64_t gpus_per_node = 1024;
/// Samples of one iteration; so also its micro-batches.
inline constexpr std::int64_t batch = std::int64_t{1} << 24;
/// Tokens of one sample.
inline constexpr std::int64_t tokens = std::int64_t{1} << 24;
/// GPU types that a site maps, a request allows or a job is limited to.
inline constexpr std::size_t gpu_types = 64;
/// Bytes of a name: of a GPU type, a hardware entry, a model or an account.
inline constexpr std::size_t name_bytes = 64;
/// An integer and a number in JSON of which nothing narrower is said.
inline constexpr std::int64_t integer = std::int64_t{1} << 50;
inline constexpr double number = 1e30;

}  // namespace limits

/// What a GPU type may be called, as GRES and as hardware entry: letters, digits, '_', '.' and '-',
/// at most limits::name_bytes.
bool is_type_name(std::string_view name);

}  // namespace arena
