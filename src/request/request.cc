// SPDX-License-Identifier: GPL-2.0-or-later
// The record: a Request as one line of JSON, the form in which it travels from sbatch to slurmctld
// in the job's control environment. Whoever can submit a job can forge one, so reading checks size,
// depth, type and range of everything again. Whether the model makes sense is check_model()'s
// question.
#include "request/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "core/limits.h"
#include "core/model_fields.h"
#include "request/launchers.h"
#include "request/options.h"

namespace arena {
namespace {

using Json = nlohmann::json;

constexpr int max_depth = 6;
/// 1 had an option's value as a number, a list or two members.
constexpr int record_version = 2;
constexpr std::int64_t max_model_number = std::int64_t{1} << 40;
constexpr double max_layer_cost = 1e21;
constexpr std::size_t max_name_bytes = 256;
constexpr std::size_t max_custom_layers = 4096;

Error record_error(std::string text) { return in_record(usage_error(std::move(text))); }

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
           a.output_bytes == b.output_bytes && a.operators == b.operators;
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
    for (const CustomLayer& r : runs) {
        out.push_back({{"name", printable(r.name, max_name_bytes)},
                       {"count", r.count},
                       {"flops", r.forward_flops},
                       {"parameter_bytes", r.parameter_bytes},
                       {"activation_bytes", r.activation_bytes},
                       {"output_bytes", r.output_bytes}});
        for (const LayerOperator& op : r.operators)
            out.back()["operators"].push_back(to_string(op));
    }
    return out;
}

Status parse_operators(const Json& list, std::vector<LayerOperator>& out) {
    if (!list.is_array() || list.size() > max_layer_operators)
        return record_error("model: operators is not a list of at most 64 operators");
    for (const Json& item : list) {
        if (!item.is_string()) return record_error("model: an operator is not text");
        const Result<LayerOperator> op = parse_layer_operator(item.get_ref<const std::string&>());
        if (!op) return record_error("model: " + op.error().text);
        out.push_back(*op);
    }
    return Done{};
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
        if (const Json* operators = reader.find("operators"))
            reader.adopt(parse_operators(*operators, layer.operators));
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

/// What the user asked of Slurm itself, beside the options; 0 and false = not given.
struct NumberMember {
    const char* key;
    std::int64_t Request::*member;
    std::int64_t max;
};
constexpr std::array<NumberMember, 2> number_members{{
    {"mem_per_node_mb", &Request::mem_per_node_mb, max_memory_mb},
    {"mem_per_cpu_mb", &Request::mem_per_cpu_mb, max_memory_mb},
}};
/// Options now, but not in the records of jobs that were submitted before they were.
constexpr std::array<NumberMember, 2> earlier_members{{
    {"cpus_per_gpu", &Request::cpus_per_gpu, limits::gpus},
    {"mem_per_gpu_mb", &Request::mem_per_gpu_mb, max_memory_mb},
}};
constexpr std::array<std::pair<const char*, bool Request::*>, 3> flag_members{
    {{"user_hold", &Request::user_hold},
     {"whole_memory", &Request::whole_memory},
     {"launcher_by_default", &Request::launcher_by_default}}};
/// Of jobs that were submitted before every record named its launcher.
constexpr const char* unnamed_launcher = "env";

Json format_object(const Request& r) {
    Json out = {{"v", record_version}, {"model", format_model(r.model)}};
    for (auto& [key, text] : option_settings(r)) out[key] = text;
    for (const NumberMember& m : number_members)
        if (r.*m.member != 0) out[m.key] = r.*m.member;
    if (r.iteration_s > 0) out["iteration_s"] = r.iteration_s;
    for (const auto& [key, member] : flag_members)
        if (r.*member) out[key] = true;
    return out;
}

/// Options are text here as everywhere, so that one parse() checks them.
std::vector<Setting> read_settings(Reader& reader) {
    std::vector<Setting> settings;
    for (const Option& option : options()) {
        const std::string key(option.key);
        const Json* text = option.format ? reader.find(key.c_str()) : nullptr;
        if (text == nullptr) continue;
        if (text->is_string())
            settings.emplace_back(key, text->get<std::string>());
        else
            reader.fail(key + " is not text");
    }
    return settings;
}

Result<Request> read_request(const Json& object) {
    Request r;
    Reader reader(object, "request");
    std::int64_t version = 0;
    reader.integer("v", 0, INT32_MAX, version);
    if (version != record_version)
        reader.fail(fmt::format("v is not {}; the sbatch plug-in and slurmctld's differ in version",
                                record_version));
    for (const NumberMember& m : number_members) reader.integer(m.key, 0, m.max, r.*m.member);
    for (const NumberMember& m : earlier_members) reader.integer(m.key, 0, m.max, r.*m.member);
    reader.number("iteration_s", max_iteration_s, r.iteration_s);
    const std::vector<Setting> settings = read_settings(reader);
    const Json* model = reader.find("model");
    if (model == nullptr)
        reader.fail("model is missing");
    else
        reader.adopt(parse_model_object(*model, r.model));
    if (Status s = reader.status(); !s) return s.error();
    r.launcher = unnamed_launcher;
    if (Status s = apply_options(settings, r); !s) return in_record(s.error());
    for (const auto& [key, member] : flag_members) {
        r.*member = false;
        reader.boolean(key, r.*member);
    }
    if (Status s = reader.status(); !s) return s.error();
    if (Status s = fit_range_to_pin(r, r.max_gpus != 0); !s) return in_record(s.error());
    return r;
}

}  // namespace

bool allows_type(const Request& request, std::string_view gpu_type) {
    const auto& types = request.gpu_types;
    return types.empty() || std::find(types.begin(), types.end(), gpu_type) != types.end();
}

std::string launcher_of(const Request& request) {
    if (!request.launcher_version.empty()) return request.launcher + "@" + request.launcher_version;
    const Result<LauncherChoice> choice = parse_launcher(request.launcher);
    return choice ? to_string(*choice) : request.launcher;
}

std::string why_not_shared(const Request& request) {
    if (request.launcher != "arena-train")
        return fmt::format("launcher {} trains no siblings on one pipeline; arena-train does",
                           request.launcher);
    if (is_adapted(request.model)) return "arena-train trains no adapters";
    if (ties_table(request.model))
        return "the model ties its output head to its embedding, and a shared pipeline updates "
               "each stage by itself";
    return {};
}

Error in_record(Error error) {
    error.where = error.where.empty() ? "request record" : "request record: " + error.where;
    return error;
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
