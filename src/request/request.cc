// SPDX-License-Identifier: GPL-2.0-or-later
// The record: a Request as one line of JSON, the form in which it travels from sbatch to slurmctld
// in the job's control environment. Whoever can submit a job can forge one, so reading checks size,
// depth, type and range of everything again. Whether the model makes sense is check_model()'s
// question.
#include "request/request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "core/cluster.h"
#include "core/limits.h"
#include "core/model_fields.h"
#include "request/launchers.h"

namespace arena {
namespace {

using Json = nlohmann::json;

constexpr int max_depth = 6;
constexpr std::int64_t max_model_number = std::int64_t{1} << 40;
constexpr double max_layer_cost = 1e21;
constexpr std::size_t max_name_bytes = 256;
constexpr std::size_t max_custom_layers = 4096;

Error record_error(std::string text) { return usage_error(std::move(text), "request record"); }

bool is_plain(char c) { return c >= 0x20 && c < 0x7f; }
bool is_plain_text(const std::string& text, std::size_t max) {
    return text.size() <= max && std::all_of(text.begin(), text.end(), is_plain);
}

/// Reads typed, ranged members of one JSON object and remembers the first thing that is wrong.
class Reader {
  public:
    Reader(const Json& object, std::string name) : object_(object), name_(std::move(name)) {
        if (!object_.is_object()) fail("is not an object");
    }

    void integer(const char* key, std::int64_t min, std::int64_t max, std::int64_t& out) {
        const Json* v = find(key);
        if (v == nullptr) return;
        const bool fits = v->is_number_integer() &&
                          !(v->is_number_unsigned() && v->get<std::uint64_t>() > INT64_MAX);
        if (!fits || v->get<std::int64_t>() < min || v->get<std::int64_t>() > max)
            return fail(std::string(key) + " is not an integer in " + std::to_string(min) + ".." +
                        std::to_string(max));
        out = v->get<std::int64_t>();
    }

    void number(const char* key, double max, double& out) {
        const Json* v = find(key);
        if (v == nullptr) return;
        const double x = v->is_number() ? v->get<double>() : -1;
        if (!std::isfinite(x) || x < 0 || x > max)
            return fail(std::string(key) + " is out of range");
        out = x;
    }

    void boolean(const char* key, bool& out) {
        const Json* v = find(key);
        if (v == nullptr) return;
        if (!v->is_boolean()) return fail(std::string(key) + " is not true or false");
        out = v->get<bool>();
    }

    void text(const char* key, std::string& out) {
        const Json* v = find(key);
        if (v == nullptr) return;
        if (!v->is_string() || !is_plain_text(v->get_ref<const std::string&>(), max_name_bytes))
            return fail(std::string(key) + " is not printable text of at most 256 characters");
        out = v->get<std::string>();
    }

    template <typename T, typename Parse>
    void word(const char* key, Parse parse, T& out) {
        std::string name;
        text(key, name);
        if (name.empty()) return;
        if (const auto parsed = parse(name))
            out = *parsed;
        else
            fail(std::string(key) + " has the unknown value '" + printable(name, 40) + "'");
    }

    /// Member or nullptr; absent members keep their default.
    const Json* find(const char* key) const {
        if (!object_.is_object()) return nullptr;
        const auto it = object_.find(key);
        return it == object_.end() ? nullptr : &*it;
    }

    void fail(const std::string& what) {
        if (problem_.empty()) problem_ = name_ + ": " + what;
    }
    void adopt(const Status& other) {
        if (!other && problem_.empty()) problem_ = other.error().text;
    }
    [[nodiscard]] Status status() const {
        if (problem_.empty()) return Done{};
        return record_error(problem_);
    }

  private:
    const Json& object_;
    std::string name_;
    std::string problem_;
};

// ---- custom layers ---------------------------------------------------------------------------

bool same_cost(const CustomLayer& a, const CustomLayer& b) {
    return a.name == b.name && a.forward_flops == b.forward_flops &&
           a.parameter_bytes == b.parameter_bytes && a.activation_bytes == b.activation_bytes &&
           a.output_bytes == b.output_bytes;
}

Json format_layers(const std::vector<CustomLayer>& layers) {
    std::vector<CustomLayer> runs;
    for (const CustomLayer& layer : layers) {
        if (!runs.empty() && same_cost(runs.back(), layer))
            runs.back().count += layer.count;
        else
            runs.push_back(layer);
    }
    Json out = Json::array();
    for (const CustomLayer& r : runs)
        out.push_back({{"name", printable(r.name, max_name_bytes)},
                       {"count", r.count},
                       {"flops", r.forward_flops},
                       {"parameter_bytes", r.parameter_bytes},
                       {"activation_bytes", r.activation_bytes},
                       {"output_bytes", r.output_bytes}});
    return out;
}

Status parse_layers(const Json& list, std::vector<CustomLayer>& out) {
    if (!list.is_array() || list.size() > max_custom_layers)
        return record_error("model: custom_layers is not a list of at most 4096 layers");
    for (const Json& item : list) {
        CustomLayer layer;
        Reader reader(item, "model layer " + std::to_string(out.size()));
        reader.text("name", layer.name);
        reader.integer("count", 1, limits::batch, layer.count);
        reader.number("flops", max_layer_cost, layer.forward_flops);
        reader.number("parameter_bytes", max_layer_cost, layer.parameter_bytes);
        reader.number("activation_bytes", max_layer_cost, layer.activation_bytes);
        reader.number("output_bytes", max_layer_cost, layer.output_bytes);
        if (Status s = reader.status(); !s) return s;
        out.push_back(std::move(layer));
    }
    return Done{};
}

Status parse_blocks(const Json& list, std::vector<std::int64_t>& out) {
    if (!list.is_array() || list.size() > max_resnet_stages)
        return record_error("model: blocks is not a list of at most 16 integers");
    for (const Json& item : list) {
        const bool fits = item.is_number_unsigned() &&
                          item.get<std::uint64_t>() <= std::uint64_t{max_resnet_blocks};
        if (!fits)
            return record_error("model: blocks holds something that is not an integer in 0..10000");
        out.push_back(item.get<std::int64_t>());
    }
    return Done{};
}

// ---- model -----------------------------------------------------------------------------------

Json format_model(const Model& m) {
    Json out = {{"name", printable(m.name, max_name_bytes)},
                {"family", std::string(to_string(m.family))},
                {"precision", std::string(to_string(m.precision))}};
    for (const FlagField& f : flag_fields()) out[f.key] = m.*f.member;
    for (const IntegerField& f : integer_fields())
        if (m.*f.member != 0) out[f.key] = m.*f.member;
    if (m.capacity_factor != 0) out["capacity_factor"] = m.capacity_factor;
    if (!m.blocks.empty()) out["blocks"] = m.blocks;
    if (!m.custom_layers.empty()) out["custom_layers"] = format_layers(m.custom_layers);
    return out;
}

Status parse_model_object(const Json& object, Model& m) {
    Reader reader(object, "model");
    reader.text("name", m.name);
    reader.word("family", parse_family, m.family);
    reader.word("precision", parse_precision, m.precision);
    set_family_flags(m);
    for (const FlagField& f : flag_fields()) reader.boolean(f.key, m.*f.member);
    for (const IntegerField& f : integer_fields())
        reader.integer(f.key, 0, max_model_number, m.*f.member);
    reader.number("capacity_factor", max_capacity_factor, m.capacity_factor);
    if (const Json* blocks = reader.find("blocks")) reader.adopt(parse_blocks(*blocks, m.blocks));
    if (reader.find("family") == nullptr) reader.fail("family is missing");
    if (const Json* layers = reader.find("custom_layers"))
        reader.adopt(parse_layers(*layers, m.custom_layers));
    return reader.status();
}

// ---- request ---------------------------------------------------------------------------------

void parse_types(Reader& reader, std::vector<std::string>& out) {
    const Json* list = reader.find("gpu_types");
    if (list == nullptr) return;
    if (!list->is_array() || list->size() > limits::gpu_types)
        return reader.fail("gpu_types is not a list of at most " +
                           std::to_string(limits::gpu_types) + " names");
    for (const Json& v : *list) {
        if (!v.is_string() || !is_type_name(v.get_ref<const std::string&>()))
            return reader.fail("gpu_types holds something that is not a GRES type name");
        out.push_back(v.get<std::string>());
    }
}

void parse_pin(Reader& reader, PlanPin& pin) {
    std::string text;
    reader.text("pin", text);
    if (text.empty()) return;
    if (Result<PlanPin> parsed = parse_plan_pin(text))
        pin = *parsed;
    else
        reader.fail("pin: " + parsed.error().text);
}

/// Records say the version, whoever wrote them; before they did, "deepspeed" was
/// Megatron-DeepSpeed.
void parse_launcher_member(Reader& reader, Request& r) {
    std::string text = "env";
    reader.text("launcher", text);
    if (text == "deepspeed") text = "megatron-deepspeed";
    const Result<LauncherChoice> choice = parse_launcher(text);
    if (!choice) return reader.fail("launcher: " + choice.error().text);
    r.launcher = choice->launcher->name;
    r.launcher_version = choice->version ? to_string(*choice->version) : "";
}

Json format_object(const Request& r) {
    Json out = {{"v", 1},
                {"model", format_model(r.model)},
                {"batch", r.global_batch},
                {"min_gpus", r.min_gpus}};
    if (r.max_gpus != 0) out["max_gpus"] = r.max_gpus;
    if (!r.gpu_types.empty()) out["gpu_types"] = r.gpu_types;
    if (r.pin != PlanPin{}) out["pin"] = to_string(r.pin);
    if (r.launcher != "env") out["launcher"] = launcher_of(r);
    if (r.elastic) out["elastic"] = true;
    if (r.steps != 0) out["steps"] = r.steps;
    if (r.user_hold) out["user_hold"] = true;
    if (r.cpus_per_gpu != 0) out["cpus_per_gpu"] = r.cpus_per_gpu;
    if (r.mem_per_gpu_mb != 0) out["mem_per_gpu_mb"] = r.mem_per_gpu_mb;
    if (r.mem_per_node_mb != 0) out["mem_per_node_mb"] = r.mem_per_node_mb;
    if (r.mem_per_cpu_mb != 0) out["mem_per_cpu_mb"] = r.mem_per_cpu_mb;
    if (r.whole_memory) out["whole_memory"] = true;
    return out;
}

void check_relations(Reader& reader, const Request& r) {
    if (r.max_gpus != 0 && r.max_gpus < r.min_gpus) reader.fail("max_gpus is less than min_gpus");
}

Result<Request> read_request(const Json& object) {
    Request r;
    Reader reader(object, "request");
    std::int64_t version = 0;
    reader.integer("v", 0, INT32_MAX, version);
    if (version != 1)
        reader.fail("v is not 1; the sbatch plug-in and slurmctld's differ in version");
    reader.integer("batch", 1, limits::batch, r.global_batch);
    if (r.global_batch == 0) reader.fail("batch is missing");
    reader.integer("min_gpus", 1, limits::gpus, r.min_gpus);
    reader.integer("max_gpus", 0, limits::gpus, r.max_gpus);
    parse_launcher_member(reader, r);
    reader.boolean("elastic", r.elastic);
    reader.integer("steps", 0, std::int64_t{1} << 40, r.steps);
    reader.boolean("user_hold", r.user_hold);
    reader.integer("cpus_per_gpu", 0, limits::gpus, r.cpus_per_gpu);
    for (const auto& [key, member] : {std::pair{"mem_per_gpu_mb", &Request::mem_per_gpu_mb},
                                      {"mem_per_node_mb", &Request::mem_per_node_mb},
                                      {"mem_per_cpu_mb", &Request::mem_per_cpu_mb}})
        reader.integer(key, 0, 1 << 30, r.*member);
    reader.boolean("whole_memory", r.whole_memory);
    parse_types(reader, r.gpu_types);
    parse_pin(reader, r.pin);
    const Json* model = reader.find("model");
    if (model == nullptr)
        reader.fail("model is missing");
    else
        reader.adopt(parse_model_object(*model, r.model));
    check_relations(reader, r);
    if (Status s = reader.status(); !s) return s.error();
    return r;
}

}  // namespace

std::string launcher_of(const Request& request) {
    if (!request.launcher_version.empty()) return request.launcher + "@" + request.launcher_version;
    const Result<LauncherChoice> choice = parse_launcher(request.launcher);
    return choice ? to_string(*choice) : request.launcher;
}

Result<std::string> format_record(const Request& request) {
    std::string text =
        format_object(request).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    if (text.size() > max_record_bytes)
        return usage_error("the model has too many different layers: its record needs " +
                               std::to_string(text.size()) + " bytes, at most 32768 are allowed",
                           "model");
    return text;
}

Result<Request> parse_record(std::string_view text) {
    if (text.size() > max_record_bytes) return record_error("is longer than 32768 bytes");
    bool too_deep = false;
    const auto watch = [&](int depth, Json::parse_event_t, Json&) {
        too_deep = too_deep || depth > max_depth;
        return !too_deep;
    };
    const Json object = Json::parse(text, watch, false);
    if (too_deep) return record_error("is nested more than 6 deep");
    if (object.is_discarded()) return record_error("is not JSON");
    return read_request(object);
}

}  // namespace arena
