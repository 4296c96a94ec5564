// SPDX-License-Identifier: GPL-2.0-or-later
// JSON of profiles and profile requests. A profile comes from a spool that the service user writes,
// so every value is checked: nothing read here may surprise the store, the planner or a log line.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/json.h"
#include "base/text.h"
#include "core/limits.h"
#include "core/profile.h"
#include "core/values_json.h"

namespace arena {
namespace {

constexpr std::int64_t max_dim = std::int64_t{1} << 40;
constexpr double max_epoch_s = 1e11;
constexpr std::size_t profile_depth = 8, max_place_bytes = 8192;

bool has_only(std::string_view text, std::string_view more) {
    return std::all_of(text.begin(), text.end(), [&](char c) {
        const bool low = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
        return low || (c >= 'A' && c <= 'Z') || more.find(c) != std::string_view::npos;
    });
}

bool is_hash(std::string_view text, std::size_t digits) {
    return text.size() == digits &&
           text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void read_nonce(const JsonFields& fields, std::string& out) {
    fields.text("nonce", out, 64);
    if (fields.ok() && !is_nonce(out)) fields.refuse("nonce", "16 to 64 letters and digits");
}

void read_word(const JsonFields& fields, const char* key, std::string& out) {
    fields.text(key, out, limits::name_bytes);
    if (!fields.ok() || (!out.empty() && has_only(out, "_.-"))) return;
    fields.refuse(key, "a name of letters, digits, '_', '.' and '-'");
}

Json json_of(const Device& device) {
    return {{"kind", device.kind},       {"name", device.name},
            {"uuid", device.uuid},       {"driver", device.driver},
            {"library", device.library}, {"memory_bytes", device.memory_bytes},
            {"threads", device.threads}, {"node", device.node}};
}

void read_device(const JsonFields& fields, Device& out) {
    fields.text("kind", out.kind, 16);
    if (fields.ok() && out.kind != "cpu" && out.kind != "cuda") {
        fields.refuse("kind", "one of cpu, cuda");
    }
    fields.text("name", out.name);
    fields.text("uuid", out.uuid);
    fields.text("driver", out.driver);
    fields.text("library", out.library);
    fields.integer("memory_bytes", out.memory_bytes, 0, std::int64_t{1} << 50);
    fields.integer("threads", out.threads, 0, 65536);
    fields.text("node", out.node);
}

Json json_of(const DeviceState& state) {
    return {{"clock_mhz", state.clock_mhz},
            {"temperature_c", state.temperature_c},
            {"power_limit_w", state.power_limit_w}};
}

void read_state(const JsonFields& fields, DeviceState& out) {
    fields.number("clock_mhz", out.clock_mhz, 0, 1e6);
    fields.number("temperature_c", out.temperature_c, 0, 1e3);
    fields.number("power_limit_w", out.power_limit_w, 0, 1e6);
}

void read_place(const JsonFields& fields, GpuPlace& out) {
    constexpr std::size_t max_parts = 32, max_name = 64;
    fields.text("pci", out.pci, max_name);
    fields.integer("numa_node", out.numa_node, -1, 65536);
    fields.texts("switches", out.switches, max_parts, max_name);
    fields.texts("nics", out.nics, max_parts, max_name);
}

Json json_of(const ProfileEntry& entry) {
    const OpShape& shape = entry.shape;
    Json dims = Json::array();
    for (std::size_t i = 0; i < dim_count(shape.kind); ++i) dims.push_back(shape.dims[i]);
    return {{"op", to_string(shape.kind)},
            {"pass", to_string(shape.pass)},
            {"precision", to_string(shape.precision)},
            {"shape", dims},
            {"variant", variant_name(shape.variant)},
            {"seconds", entry.seconds},
            {"repeats", entry.repeats},
            {"spread", entry.spread}};
}

std::string example_of(OpKind kind) {
    if (kind == OpKind::layer) return variant_name(LayerVariant{});
    if (kind == OpKind::conv) return variant_name(ConvVariant{3, 1, Gradient::data});
    return variant_name(variants_of(kind).back());
}

void read_shape(const JsonFields& fields, OpShape& out) {
    fields.word("op", out.kind, &parse_op_kind, one_of_op_kinds);
    fields.word("pass", out.pass, &parse_pass, "one of forward, backward");
    fields.word("precision", out.precision, &parse_precision, one_of_precisions);
    std::string variant;
    fields.text("variant", variant, 96);
    std::vector<std::int64_t> dims;
    fields.integers("shape", dims, 1, max_dim, out.dims.size());
    if (!fields.ok()) return;
    if (dims.size() != dim_count(out.kind)) {
        return fields.refuse("shape", fmt::format("a list of {} integers", dim_count(out.kind)));
    }
    std::copy(dims.begin(), dims.end(), out.dims.begin());
    const auto known = parse_variant(out.kind, variant);
    if (!known)
        return fields.refuse(
            "variant", fmt::format("of {}, as \"{}\"", to_string(out.kind), example_of(out.kind)));
    out.variant = *known;
}

void read_entry(const JsonFields& fields, ProfileEntry& out) {
    read_shape(fields, out.shape);
    fields.number("seconds", out.seconds, 0, 3600);
    if (fields.ok() && !(out.seconds > 0)) fields.refuse("seconds", "a number above 0");
    fields.integer("repeats", out.repeats, 1, std::int64_t{1} << 40);
    fields.number("spread", out.spread, 0, 10);
}

void read_entries(const JsonFields& fields, std::optional<Error>& error, Profile& out) {
    const Json* entries = fields.list("entries", max_profile_entries);
    if (entries == nullptr) return;
    std::set<OpShape> seen;
    for (const Json& json : *entries) {
        const std::string where = fmt::format("entries[{}]", out.entries.size());
        read_entry(JsonFields(json, where, error), out.entries.emplace_back());
        if (error) return;
        if (!seen.insert(out.entries.back().shape).second) {
            return fields.refuse("entries", "each operator once");
        }
    }
}

/// Profiles of the first version do not have them.
void read_cost(const JsonFields& fields, Profile& out) {
    if (fields.has("wanted")) fields.integer("wanted", out.wanted, 0, std::int64_t{1} << 20);
    if (fields.has("reused")) fields.integer("reused", out.reused, 0, std::int64_t{1} << 20);
    if (fields.has("direct_seconds")) {
        fields.number("direct_seconds", out.direct_seconds, 0, 1e15);
    }
}

void add_cost(Json& json, const Profile& profile) {
    if (profile.wanted == 0) return;  // not known
    json["wanted"] = profile.wanted;
    json["reused"] = profile.reused;
    json["direct_seconds"] = profile.direct_seconds;
    json["state"] = json_of(profile.state);
}

void read_profile(const JsonFields& fields, std::optional<Error>& error, Profile& out) {
    std::int64_t version = 0;
    fields.integer("schema_version", version, 1, 1);
    read_nonce(fields, out.nonce);
    read_word(fields, "gpu_type", out.gpu_type);
    read_word(fields, "hardware", out.hardware);
    fields.text("model_fingerprint", out.model_fingerprint, 64);
    if (fields.ok() && !is_hash(out.model_fingerprint, 64)) {
        fields.refuse("model_fingerprint", "64 lower-case hex digits");
    }
    fields.word("status", out.status, &parse_profile_status, "one of complete, partial, failed");
    fields.text("reason", out.reason, 1024);
    fields.number("device_seconds", out.device_seconds, 0, 1e6);
    fields.number("started_s", out.started_s, 0, max_epoch_s);
    read_cost(fields, out);
    if (const Json* state = fields.has("state") ? fields.any("state") : nullptr) {
        read_state(JsonFields(*state, "state", error), out.state);
    }
    if (const Json* place = fields.has("place") ? fields.any("place") : nullptr) {
        read_place(JsonFields(*place, "place", error), out.place);
    }
    if (const Json* device = fields.any("device")) {
        read_device(JsonFields(*device, "device", error), out.device);
    }
    read_entries(fields, error, out);
}

void read_request(const JsonFields& fields, std::optional<Error>& error, ProfileRequest& out) {
    std::int64_t version = 0;
    fields.integer("schema_version", version, 1, 1);
    read_nonce(fields, out.nonce);
    read_word(fields, "gpu_type", out.gpu_type);
    read_word(fields, "hardware", out.hardware);
    if (const Json* model = fields.any("model")) read(*model, "model", error, out.model);
    fields.integer("global_batch", out.global_batch, 1, limits::batch);
    fields.integer("max_gpus", out.max_gpus, 1, limits::gpus);
    fields.integer("gpus_per_node", out.gpus_per_node, 1, limits::gpus_per_node);
    fields.number("budget_s", out.budget_s, 1, 3600);
    fields.texts("known", out.known, 4096, op_hash_digits);
    const auto is_known = [](const std::string& text) { return is_hash(text, op_hash_digits); };
    if (fields.ok() && !std::all_of(out.known.begin(), out.known.end(), is_known)) {
        fields.refuse("known", fmt::format("a list of {}-digit hashes", op_hash_digits));
    }
    fields.text("known_device", out.known_device, 1024);
}

}  // namespace

Json json_of(const GpuPlace& place) {
    return {{"pci", place.pci},
            {"numa_node", place.numa_node},
            {"switches", place.switches},
            {"nics", place.nics}};
}

std::string to_json(const GpuPlace& place) {
    return place.pci.empty() ? "" : dump_json(json_of(place));
}

std::optional<GpuPlace> parse_gpu_place(std::string_view text) {
    const Result<Json> json = parse_json(text, {max_place_bytes, 4});
    GpuPlace place;
    std::optional<Error> error;
    if (json) read_place(JsonFields(*json, "place", error), place);
    if (!json || error || place.pci.empty()) return std::nullopt;
    return place;
}

std::string to_json(const Profile& profile) {
    Json entries = Json::array();
    for (const ProfileEntry& entry : profile.entries) entries.push_back(json_of(entry));
    Json json = {{"schema_version", 1},
                 {"nonce", profile.nonce},
                 {"gpu_type", profile.gpu_type},
                 {"hardware", profile.hardware},
                 {"model_fingerprint", profile.model_fingerprint},
                 {"device", json_of(profile.device)},
                 {"status", to_string(profile.status)},
                 {"reason", profile.reason},
                 {"device_seconds", profile.device_seconds},
                 {"started_s", profile.started_s},
                 {"entries", entries}};
    add_cost(json, profile);
    if (!profile.place.pci.empty()) json["place"] = json_of(profile.place);
    return dump_json(json);
}

Result<Profile> parse_profile(std::string_view text) {
    const Result<Json> json = parse_json(text, {max_profile_bytes, profile_depth});
    if (!json) return json.error();
    Profile profile;
    std::optional<Error> error;
    read_profile(JsonFields(*json, "", error), error, profile);
    if (error) return *error;
    return profile;
}

Result<Profile> read_profile(const std::string& path) {
    const auto text = read_regular_file(path, max_profile_bytes);
    if (!text) return text.error();
    auto profile = parse_profile(*text);
    if (!profile) return usage_error(profile.error().message(), path);
    return profile;
}

std::string to_json(const ProfileRequest& request) {
    return dump_json({{"schema_version", 1},
                      {"nonce", request.nonce},
                      {"gpu_type", request.gpu_type},
                      {"hardware", request.hardware},
                      {"model", json_of(request.model)},
                      {"global_batch", request.global_batch},
                      {"max_gpus", request.max_gpus},
                      {"gpus_per_node", request.gpus_per_node},
                      {"budget_s", request.budget_s},
                      {"known", request.known},
                      {"known_device", request.known_device}});
}

Result<ProfileRequest> parse_profile_request(std::string_view text) {
    const Result<Json> json = parse_json(text, {max_profile_request_bytes, profile_depth});
    if (!json) return json.error();
    ProfileRequest request;
    std::optional<Error> error;
    read_request(JsonFields(*json, "", error), error, request);
    if (error) return *error;
    return request;
}

}  // namespace arena
