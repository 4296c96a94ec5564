// SPDX-License-Identifier: GPL-2.0-or-later
// What a check of a node's GPUs is asked for and what it measured, as values and JSON: the same few
// matrix products on each GPU and copies between them. Whether that is slow is judge.h's to say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/profile.h"

namespace arena {

/// What a carrier's request is for; one that does not say is for a profile.
enum class RequestKind { profile, check };
/// By its "kind"; a request that is no JSON object is one for a profile, whose parser says why not.
RequestKind request_kind(std::string_view request);

/// What a check carrier's Prolog hands to arena-profiler, beside ProfileRequest.
struct CheckRequest {
    std::string nonce;
    std::string gpu_type;
    std::string hardware;
    std::int64_t devices = 1;       ///< that the carrier has
    std::int64_t node_devices = 1;  ///< of the whole node
    std::vector<OpShape> products;  ///< beside those of each check: what a profile has of the type
    bool operator==(const CheckRequest&) const = default;
};
inline constexpr std::size_t max_check_products = 4;
inline constexpr std::int64_t max_check_devices = 64;
std::string to_json(const CheckRequest&);
/// At most 32 KiB; kind "check"; products are GEMMs.
Result<CheckRequest> parse_check_request(std::string_view);

struct CheckedDevice {
    std::int64_t index = 0;  ///< in the node
    Device device;
    DeviceState state;
    bool operator==(const CheckedDevice&) const = default;
};
/// Median of five samples of 60 ms and more.
struct ProductTime {
    std::int64_t device = 0;  ///< CheckedDevice::index
    OpShape shape;
    double seconds = 0;  ///< of one product
    double spread = 0;   ///< half the range of the samples / median
    bool operator==(const ProductTime&) const = default;
};
struct LinkTime {
    std::int64_t from = 0, to = 0;
    double seconds = 0;  ///< of one copy of `bytes`
    bool operator==(const LinkTime&) const = default;
};
struct NodeCheck {
    std::string nonce, gpu_type, hardware, node;
    double started_s = 0;  ///< epoch seconds
    std::string failure;   ///< why nothing was measured; "" = all of it was
    std::vector<CheckedDevice> devices;
    std::vector<ProductTime> products;
    std::string link_kind;  ///< "peer copies of the GPUs", "copies in host memory"; "" = no links
    std::int64_t link_bytes = 0;
    std::vector<LinkTime> links;
    bool operator==(const NodeCheck&) const = default;
};
std::string to_json(const NodeCheck&);
/// Strict: at most 1 MiB; devices, products and links each once and of devices that are listed;
/// seconds in (0, 3600]. Unknown keys are ignored.
Result<NodeCheck> parse_node_check(std::string_view);
/// Of a regular file; an error names it.
Result<NodeCheck> read_node_check(const std::string& path);

}  // namespace arena
