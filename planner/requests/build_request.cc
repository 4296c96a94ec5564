// SPDX-License-Identifier: GPL-2.0-or-later
// Settings (SPANK options or #ARENA lines) -> Request. Every value is checked here and only here; a
// refusal is one sentence that names the setting and what it accepts. Knows nothing of the cluster.
#include "planner/requests/build_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>

#include "base/text.h"
#include "core/cluster.h"
#include "core/limits.h"
#include "planner/models/megatron_args.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/requests/pin_rules.h"
#include "request/launchers.h"
#include "request/request.h"

namespace arena {

namespace {

constexpr std::int64_t max_steps = std::int64_t{1} << 40;
constexpr std::string_view anything = "any";  ///< of gpus, types and plan: no limit

constexpr std::array<std::string_view, 10> option_keys{"model", "batch",    "seq-length", "gpus",
                                                       "types", "plan",     "launcher",   "elastic",
                                                       "steps", "precision"};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

/// How the user wrote it: both channels for options, the directive for inline keys.
std::string spelled(std::string_view key) {
    if (contains(option_keys, key)) return option_spelling(key);
    return fmt::format("#ARENA {}", key);
}

Error refuse(std::string_view key, std::string text) {
    return usage_error(std::move(text), spelled(key));
}

class Settings {
  public:
    explicit Settings(const std::vector<Setting>& settings) : settings_(settings) {}

    const std::string* find(std::string_view key) const {
        for (const Setting& setting : settings_)
            if (setting.first == key) return &setting.second;
        return nullptr;
    }

    /// The first inline key that is there, or "".
    std::string_view inline_key() const {
        for (std::string_view key : inline_model_keys())
            if (!contains(option_keys, key) && key != "name" && find(key) != nullptr) return key;
        return {};
    }

    Status check_keys() const {
        std::vector<std::string_view> known(option_keys.begin(), option_keys.end());
        known.insert(known.end(), inline_model_keys().begin(), inline_model_keys().end());
        for (std::size_t i = 0; i < settings_.size(); ++i)
            if (Status status = check_key(i, known); !status) return status;
        return Done{};
    }

  private:
    Status check_key(std::size_t index, const std::vector<std::string_view>& known) const {
        const std::string& key = settings_[index].first;
        if (std::find(known.begin(), known.end(), key) == known.end()) {
            const std::string near = nearest(key, known);
            return usage_error(fmt::format("unknown Arena setting '{}'{}", printable(key, 40),
                                           near.empty() ? "" : ", did you mean '" + near + "'?"));
        }
        for (std::size_t i = 0; i < index; ++i)
            if (settings_[i].first == key) return refuse(key, "given twice; give it once");
        return Done{};
    }

    const std::vector<Setting>& settings_;
};

/// Reads an integer setting into `target` when it is there.
Status read_integer(const Settings& settings, std::string_view key, std::int64_t min,
                    std::int64_t max, std::int64_t& target) {
    const std::string* text = settings.find(key);
    if (text == nullptr) return Done{};
    const auto value = parse_integer(*text, min, max);
    if (!value)
        return refuse(key, fmt::format("'{}' is not an integer from {} to {}", printable(*text, 40),
                                       min, max));
    target = *value;
    return Done{};
}

Status read_field(const Settings& settings, std::string_view key, Model& model) {
    std::string field_key(key);
    std::replace(field_key.begin(), field_key.end(), '-', '_');
    const IntegerField& field = *find_integer_field(field_key);
    return read_integer(settings, key, field.min, field.max, model.*field.member);
}

Status read_flag(const Settings& settings, const FlagField& field, Model& model) {
    const std::string key = inline_spelling(field.key);
    const std::string* text = settings.find(key);
    if (text == nullptr) return Done{};
    if (Status status = check_applies(field.group, key, model); !status) return status;
    if (*text != "yes" && *text != "no")
        return refuse(key, fmt::format("'{}' is not yes or no", printable(*text, 40)));
    model.*field.member = *text == "yes";
    return Done{};
}

Status read_capacity(const Settings& settings, Model& model) {
    const std::string* text = settings.find("capacity-factor");
    if (text == nullptr) return Done{};
    const auto factor = parse_number(*text, 0, max_capacity_factor);
    if (!factor)
        return refuse("capacity-factor", fmt::format("'{}' is not a number from 0 to {}",
                                                     printable(*text, 40), max_capacity_factor));
    model.capacity_factor = *factor;
    return Done{};
}

Status read_precision(const Settings& settings, Model& model) {
    const std::string* text = settings.find("precision");
    if (text == nullptr) return Done{};
    const std::optional<Precision> precision = parse_precision(*text);
    if (!precision)
        return refuse("precision", fmt::format("'{}' is not one of {}", printable(*text, 40),
                                               accepted_precisions));
    model.precision = *precision;
    return Done{};
}

Result<Model> read_inline_model(const Settings& settings) {
    Model model;
    const std::string* family_text = settings.find("family");
    if (family_text == nullptr)
        return refuse("family", fmt::format("a model given by '{}' needs a family; accepted: {}",
                                            settings.inline_key(), accepted_families));
    const std::optional<Family> family = parse_family(*family_text);
    if (!family)
        return refuse("family", fmt::format("'{}' is not one of {}", printable(*family_text, 40),
                                            accepted_families));
    model.family = *family;
    set_family_flags(model);
    for (const IntegerField& field : integer_fields())
        if (Status status = read_field(settings, inline_spelling(field.key), model); !status)
            return status.error();
    for (const FlagField& field : flag_fields())
        if (Status status = read_flag(settings, field, model); !status) return status.error();
    if (Status status = read_capacity(settings, model); !status) return status.error();
    if (Status status = read_precision(settings, model); !status) return status.error();
    model.name = std::string(to_string(*family)) + "-inline";
    return complete_model(std::move(model), "the inline model", true);
}

Result<Model> read_named_model(const Settings& settings, const std::string& name,
                               std::string_view model_text, std::string_view model_file_name) {
    Result<Model> model = !model_text.empty()         ? parse_model(model_text, model_file_name)
                          : looks_like_megatron(name) ? parse_megatron_args(name, "--num-layers")
                                                      : find_zoo_model(name);
    if (!model && model_text.empty()) return refuse("model", model.error().text);
    if (!model) return refuse("model", model.error().message());
    if (Status status = read_field(settings, "seq-length", *model); !status) return status.error();
    if (Status status = read_precision(settings, *model); !status) return status.error();
    if (Status status = check_model(*model); !status)
        return refuse("seq-length", status.error().text);
    return model;
}

Result<Model> read_model(const Settings& settings, std::string_view model_text,
                         std::string_view model_file_name) {
    const std::string* name = settings.find("model");
    const std::string_view inline_key = settings.inline_key();
    if (name == nullptr && inline_key.empty())
        return refuse("model",
                      "missing: give a built-in model (gpt2, llama-2-7b, ...), a config.json "
                      "or YAML file (--arena-model only), or family, layers, hidden, heads, "
                      "vocab and seq-length");
    if (name != nullptr && !inline_key.empty())
        return refuse(inline_key,
                      fmt::format("conflicts with model={}: give the model by name or by its "
                                  "dimensions, not both",
                                  printable(*name, 40)));
    Result<Model> model = name == nullptr
                              ? read_inline_model(settings)
                              : read_named_model(settings, *name, model_text, model_file_name);
    if (const std::string* label = settings.find("name"); model && label != nullptr) {
        if (label->empty() || clean_model_name(*label) != *label)
            return refuse("name", fmt::format("'{}' is not a name of 1 to 64 of [A-Za-z0-9._+/-]",
                                              printable(*label, 40)));
        model->name = *label;
    }
    return model;
}

Status read_gpus(const Settings& settings, Request& request) {
    const std::string* text = settings.find("gpus");
    if (text == nullptr) return Done{};
    request.min_gpus = 1;
    request.max_gpus = 0;
    if (*text == anything) return Done{};
    const std::vector<std::string_view> parts = split(*text, '-');
    const auto low = parse_integer(parts.front(), 1, limits::gpus);
    const auto high = parse_integer(parts.back(), 1, limits::gpus);
    if (parts.size() > 2 || !low || !high)
        return refuse("gpus", fmt::format("'{}' is not N or MIN-MAX with numbers from 1 to {}",
                                          printable(*text, 40), limits::gpus));
    if (*low > *high)
        return refuse("gpus", fmt::format("'{}' is an empty range: MIN must not exceed MAX",
                                          printable(*text, 40)));
    request.min_gpus = *low;
    request.max_gpus = *high;
    return Done{};
}

Status read_types(const Settings& settings, Request& request) {
    const std::string* text = settings.find("types");
    if (text == nullptr) return Done{};
    request.gpu_types.clear();
    if (*text == anything) return Done{};
    for (std::string_view name : split(*text, ',')) {
        if (!is_type_name(name))
            return refuse("types", fmt::format("'{}' is not a list of GPU types like a40,a100",
                                               printable(*text, 60)));
        const auto& list = request.gpu_types;
        if (std::find(list.begin(), list.end(), name) != list.end())
            return refuse("types", fmt::format("'{}' is there twice", printable(name, 40)));
        request.gpu_types.emplace_back(name);
    }
    if (request.gpu_types.size() > limits::gpu_types)
        return refuse("types", fmt::format("{} types given; at most {} are accepted",
                                           request.gpu_types.size(), limits::gpu_types));
    return Done{};
}

Status read_launcher(const Settings& settings, Request& request) {
    if (const std::string* text = settings.find("launcher")) {
        const Result<LauncherChoice> choice = parse_launcher(*text);
        if (!choice) return refuse("launcher", choice.error().text);
        request.launcher = choice->launcher->name;
        request.launcher_version = choice->version ? to_string(*choice->version) : "";
    }
    if (std::string obstacle = launcher_model_obstacle(request); !obstacle.empty())
        return refuse("launcher", std::move(obstacle));
    return Done{};
}

Status read_elastic(const Settings& settings, Request& request) {
    if (const std::string* text = settings.find("elastic")) {
        if (*text != "yes" && *text != "no")
            return refuse("elastic", fmt::format("'{}' is not yes or no", printable(*text, 40)));
        request.elastic = *text == "yes";
    }
    return Done{};
}

/// The pin against all that no cluster can change, and against the range of GPUs.
Status check_pin(Request& request, bool gpus_given) {
    if (std::string obstacle = pin_obstacle(request); !obstacle.empty())
        return refuse("plan", std::move(obstacle));
    if (Status fits = fit_range_to_pin(request, gpus_given); !fits)
        return refuse("plan", fits.error().text);
    return Done{};
}

/// With the batch and the size of a micro-batch their number says the replicas; pin_obstacle() says
/// where it cannot.
void pin_replicas(Request& request) {
    PlanPin& pin = request.pin;
    const std::int64_t each = pin.micro_batch * pin.num_micro_batches, batch = request.global_batch;
    if (each == 0 || pin.dp != 0 || batch % each != 0 || batch / each > limits::gpus) return;
    pin.dp = batch / each;
    pin.num_micro_batches = 0;  // the batch says it now
}

Status read_pin(const Settings& settings, Request& request) {
    const std::string* text = settings.find("plan");
    if (text == nullptr) return Done{};
    request.pin = {};
    if (*text == anything) return Done{};
    const Result<PlanPin> pin = parse_plan_pin(*text);
    if (!pin) return refuse("plan", pin.error().text);
    request.pin = *pin;
    pin_replicas(request);
    return Done{};
}

Status read_batch(const Settings& settings, Request& request) {
    if (settings.find("batch") == nullptr)
        return refuse("batch",
                      fmt::format("missing: give the samples per iteration, an integer from 1 "
                                  "to {}",
                                  limits::batch));
    return read_integer(settings, "batch", 1, limits::batch, request.global_batch);
}

}  // namespace

Result<Request> build_request(const std::vector<Setting>& list, std::string_view model_text,
                              std::string_view model_file_name) {
    const Settings settings(list);
    if (Status status = settings.check_keys(); !status) return status.error();
    Request request;
    Result<Model> model = read_model(settings, model_text, model_file_name);
    if (!model) return model.error();
    request.model = std::move(*model);
    if (Status status = read_batch(settings, request); !status) return status.error();
    if (Status status = read_gpus(settings, request); !status) return status.error();
    if (Status status = read_types(settings, request); !status) return status.error();
    if (Status status = read_launcher(settings, request); !status) return status.error();
    if (Status status = read_elastic(settings, request); !status) return status.error();
    if (Status status = read_integer(settings, "steps", 1, max_steps, request.steps); !status)
        return status.error();
    if (Status status = read_pin(settings, request); !status) return status.error();
    if (request.pin == PlanPin{}) return request;
    if (Status status = check_pin(request, request.max_gpus != 0); !status) return status.error();
    return request;
}

Status check_request(const Request& request) {
    if (Status sound = check_model(request.model); !sound) return sound;
    if (std::string obstacle = pin_obstacle(request); !obstacle.empty())
        return usage_error(std::move(obstacle), "plan");
    if (std::string obstacle = launcher_model_obstacle(request); !obstacle.empty())
        return usage_error(std::move(obstacle), "launcher");
    return Done{};
}

namespace {

constexpr std::string_view accepted_changes =
    "accepted are arena:plan=pp2,dp2,tp1, arena:gpus=MIN-MAX and arena:types=TYPE,..., each also "
    "with "
    "the value any, arena:launcher=NAME[@VERSION], and arena:off";

/// The keys that change a request, each once.
Status check_change(const std::vector<Setting>& changes) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
        const std::string& key = changes[i].first;
        if (key != "plan" && key != "gpus" && key != "types" && key != "launcher")
            return usage_error(
                fmt::format("'{}' is not known; {}", printable(key, 40), accepted_changes));
        for (std::size_t j = 0; j < i; ++j)
            if (changes[j].first == key) return refuse(key, "given twice; give it once");
    }
    return Done{};
}

/// The later word counts: a new plan that fixes the number of GPUs sets the range, unless the range
/// comes with it; one that the old plan had set goes with that.
Status change_settings(const Settings& settings, Request& request) {
    const bool gpus_named = settings.find("gpus") != nullptr,
               plan_named = settings.find("plan") != nullptr;
    if (plan_named && pin_sets_range(request)) request.min_gpus = 1, request.max_gpus = 0;
    if (Status status = read_gpus(settings, request); !status) return status;
    if (Status status = read_types(settings, request); !status) return status;
    if (Status status = read_pin(settings, request); !status) return status;
    const bool launcher_named = settings.find("launcher") != nullptr;
    if (launcher_named)
        if (Status status = read_launcher(settings, request); !status) return status;
    if (request.pin == PlanPin{} || !(gpus_named || plan_named || launcher_named)) return Done{};
    const bool sets_range = plan_named && !gpus_named && request.pin.fixes_gpus();
    return check_pin(request, request.max_gpus != 0 && !sets_range);
}

}  // namespace

Status change_request(Request& request, const std::vector<Setting>& changes) {
    if (Status known = check_change(changes); !known) return known;
    Request changed = request;
    if (Status status = change_settings(Settings(changes), changed); !status)
        return in_comment(status.error());
    request = std::move(changed);
    return Done{};
}

Error in_comment(Error error) {
    for (const char* key : {"plan", "gpus", "types", "launcher"})
        if (error.where == spelled(key)) error.where = std::string("Comment=arena:") + key;
    return error;
}

Result<bool> apply_comment(std::string_view comment, Request& request) {
    constexpr std::string_view prefix = comment_prefix;
    if (!comment.starts_with(prefix)) return false;
    comment.remove_prefix(prefix.size());
    if (comment.size() > 256)
        return usage_error(fmt::format("longer than 256 characters; {}", accepted_changes),
                           "Comment");
    bool off = false;
    std::vector<Setting> changes;
    for (std::string_view item : split(comment, ';')) {
        item = trim(item);
        const std::size_t equals = std::min(item.find('='), item.size());
        if (item == "off")
            off = true;
        else if (equals == item.size())
            return usage_error(
                fmt::format("'{}' is not known; {}", printable(item, 40), accepted_changes),
                "Comment");
        else
            changes.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    }
    if (Status changed = change_request(request, changes); !changed) {
        Error error = changed.error();
        if (error.where.empty()) error.where = "Comment";
        return error;
    }
    return off;
}

}  // namespace arena
