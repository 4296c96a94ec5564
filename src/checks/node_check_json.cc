// SPDX-License-Identifier: GPL-2.0-or-later
// JSON of checks. A result comes from a spool that the service user writes: every value is tested
// before the scheduler rests a verdict on it.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/json.h"
#include "base/text.h"
#include "checks/node_check.h"
#include "core/limits.h"

namespace arena {
namespace {

constexpr std::size_t check_depth = 6, max_links = 2 * max_check_devices;
constexpr std::size_t max_products = max_check_devices * (max_check_products + 4);

void read_word(const JsonFields& fields, const char* key, std::string& out) {
    fields.text(key, out, limits::name_bytes);
    if (fields.ok() && !is_type_name(out))
        fields.refuse(key, "a name of letters, digits, '_', '.' and '-'");
}

/// What requests and results begin with.
template <typename T>
void read_head(const JsonFields& fields, T& out) {
    std::int64_t version = 0;
    fields.integer("schema_version", version, 1, 1);
    std::string kind;
    fields.text("kind", kind, 16);
    if (fields.ok() && kind != "check") fields.refuse("kind", "check");
    fields.text("nonce", out.nonce, 64);
    if (fields.ok() && !is_nonce(out.nonce)) fields.refuse("nonce", "16 to 64 letters and digits");
    read_word(fields, "gpu_type", out.gpu_type);
    read_word(fields, "hardware", out.hardware);
}

void read_product(const JsonFields& fields, OpShape& out) {
    std::string key;
    fields.text("op", key, 256);
    if (!fields.ok()) return;
    const auto shape = parse_op_key(key);
    if (!shape || shape->kind != OpKind::gemm) return fields.refuse("op", "the key of a GEMM");
    out = *shape;
}

void read_seconds(const JsonFields& fields, double& out) {
    fields.number("seconds", out, 0, 3600);
    if (fields.ok() && !(out > 0)) fields.refuse("seconds", "a number above 0");
}

void read_device(const JsonFields& fields, std::optional<Error>& error, CheckedDevice& out) {
    fields.integer("index", out.index, 0, 4095);
    Device& device = out.device;
    for (const auto& [key, text] : {std::pair{"kind", &device.kind},
                                    {"name", &device.name},
                                    {"uuid", &device.uuid},
                                    {"driver", &device.driver},
                                    {"library", &device.library}})
        fields.text(key, *text);
    fields.integer("threads", device.threads, 0, 65536);
    const Json* state = fields.has("state") ? fields.any("state") : nullptr;
    if (state == nullptr) return;
    const JsonFields facts(*state, "state", error);
    facts.number("clock_mhz", out.state.clock_mhz, 0, 1e6);
    facts.number("temperature_c", out.state.temperature_c, 0, 1e3);
    facts.number("power_limit_w", out.state.power_limit_w, 0, 1e6);
}

/// Calls read() with the fields of each item.
template <typename Read>
void each(const JsonFields& fields, const char* key, std::size_t most, std::optional<Error>& error,
          Read read) {
    const Json* items = fields.list(key, most);
    if (items == nullptr) return;
    std::size_t i = 0;
    for (const Json& item : *items) {
        if (error) return;
        read(JsonFields(item, fmt::format("{}[{}]", key, i++), error));
    }
}

Error not_sound(const std::string& what) { return usage_error(what, "check"); }

/// What no single field shows.
Status check_whole(const NodeCheck& check) {
    std::set<std::int64_t> devices;
    for (const CheckedDevice& device : check.devices)
        if (!devices.insert(device.index).second) return not_sound("a device is in it twice");
    std::set<std::pair<std::int64_t, OpShape>> products;
    for (const ProductTime& time : check.products)
        if (!devices.contains(time.device) || !products.insert({time.device, time.shape}).second)
            return not_sound("a product is in it twice, or of a device that is not");
    std::set<std::pair<std::int64_t, std::int64_t>> links;
    for (const LinkTime& time : check.links)
        if (!devices.contains(time.from) || !devices.contains(time.to) || time.from == time.to ||
            !links.insert({time.from, time.to}).second)
            return not_sound("a link is in it twice, or of a device that is not");
    if (check.failure.empty() && check.products.empty())
        return not_sound("it measured nothing and does not say why");
    return Done{};
}

void read_times(const JsonFields& fields, std::optional<Error>& error, NodeCheck& out) {
    each(fields, "devices", max_check_devices, error,
         [&](const JsonFields& item) { read_device(item, error, out.devices.emplace_back()); });
    each(fields, "products", max_products, error, [&](const JsonFields& item) {
        ProductTime& time = out.products.emplace_back();
        item.integer("device", time.device, 0, 4095);
        read_product(item, time.shape);
        read_seconds(item, time.seconds);
        item.number("spread", time.spread, 0, 10);
    });
    fields.text("link_kind", out.link_kind, 64);
    fields.integer("link_bytes", out.link_bytes, 0, std::int64_t{1} << 40);
    each(fields, "links", max_links, error, [&](const JsonFields& item) {
        LinkTime& time = out.links.emplace_back();
        item.integer("from", time.from, 0, 4095);
        item.integer("to", time.to, 0, 4095);
        read_seconds(item, time.seconds);
    });
}

Json json_of(const CheckedDevice& checked) {
    const Device& device = checked.device;
    return {{"index", checked.index},
            {"kind", device.kind},
            {"name", device.name},
            {"uuid", device.uuid},
            {"driver", device.driver},
            {"library", device.library},
            {"threads", device.threads},
            {"state",
             {{"clock_mhz", checked.state.clock_mhz},
              {"temperature_c", checked.state.temperature_c},
              {"power_limit_w", checked.state.power_limit_w}}}};
}

}  // namespace

RequestKind request_kind(std::string_view request) {
    const Result<Json> json = parse_json(request, {max_profile_request_bytes, 8});
    if (!json || !json->is_object()) return RequestKind::profile;
    const auto kind = json->find("kind");
    return kind != json->end() && *kind == "check" ? RequestKind::check : RequestKind::profile;
}

std::string to_json(const CheckRequest& request) {
    Json products = Json::array();
    for (const OpShape& shape : request.products) products.push_back({{"op", op_key(shape)}});
    return dump_json({{"schema_version", 1},
                      {"kind", "check"},
                      {"nonce", request.nonce},
                      {"gpu_type", request.gpu_type},
                      {"hardware", request.hardware},
                      {"devices", request.devices},
                      {"node_devices", request.node_devices},
                      {"products", std::move(products)}});
}

Result<CheckRequest> parse_check_request(std::string_view text) {
    const Result<Json> json = parse_json(text, {max_profile_request_bytes, check_depth});
    if (!json) return json.error();
    CheckRequest request;
    std::optional<Error> error;
    const JsonFields fields(*json, "", error);
    read_head(fields, request);
    fields.integer("devices", request.devices, 1, max_check_devices);
    fields.integer("node_devices", request.node_devices, 1, max_check_devices);
    each(fields, "products", max_check_products, error,
         [&](const JsonFields& item) { read_product(item, request.products.emplace_back()); });
    if (error) return *error;
    return request;
}

std::string to_json(const NodeCheck& check) {
    Json devices = Json::array(), products = Json::array(), links = Json::array();
    for (const CheckedDevice& device : check.devices) devices.push_back(json_of(device));
    for (const ProductTime& time : check.products)
        products.push_back({{"device", time.device},
                            {"op", op_key(time.shape)},
                            {"seconds", time.seconds},
                            {"spread", time.spread}});
    for (const LinkTime& time : check.links)
        links.push_back({{"from", time.from}, {"to", time.to}, {"seconds", time.seconds}});
    return dump_json({{"schema_version", 1},
                      {"kind", "check"},
                      {"nonce", check.nonce},
                      {"gpu_type", check.gpu_type},
                      {"hardware", check.hardware},
                      {"node", check.node},
                      {"started_s", check.started_s},
                      {"failure", check.failure},
                      {"devices", std::move(devices)},
                      {"products", std::move(products)},
                      {"link_kind", check.link_kind},
                      {"link_bytes", check.link_bytes},
                      {"links", std::move(links)}});
}

Result<NodeCheck> parse_node_check(std::string_view text) {
    const Result<Json> json = parse_json(text, {max_profile_bytes, check_depth});
    if (!json) return json.error();
    NodeCheck check;
    std::optional<Error> error;
    const JsonFields fields(*json, "", error);
    read_head(fields, check);
    fields.text("node", check.node);
    fields.number("started_s", check.started_s, 0, 1e11);
    fields.text("failure", check.failure, 1024);
    read_times(fields, error, check);
    if (error) return *error;
    if (auto sound = check_whole(check); !sound) return sound.error();
    for (CheckedDevice& device : check.devices) device.device.node = check.node;
    return check;
}

Result<NodeCheck> read_node_check(const std::string& path) {
    const auto text = read_regular_file(path, max_profile_bytes);
    if (!text) return text.error();
    auto check = parse_node_check(*text);
    if (!check) return usage_error(check.error().message(), path);
    return check;
}

}  // namespace arena
