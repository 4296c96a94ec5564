// SPDX-License-Identifier: GPL-2.0-or-later
// Settings (SPANK options or #ARENA lines) -> Request. Every value is checked here and only here; a
// refusal is one sentence that names the setting and what it accepts. Knows nothing of the cluster.
#include "planner/requests/build_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "core/model_fields.h"
#include "planner/models/megatron_args.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/requests/pin_rules.h"
#include "request/options.h"

namespace arena {

namespace {

/// How the user wrote it: both channels for options, the directive for inline keys.
std::string spelled(std::string_view key) {
    return find_option(key) != nullptr ? option_spelling(key) : fmt::format("#ARENA {}", key);
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
            if (find_option(key) == nullptr && key != "name" && find(key) != nullptr) return key;
        return {};
    }

    Status check_keys() const {
        const std::vector<std::string_view> known = setting_keys();
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

Status read_field(const Settings& settings, const IntegerField& field, Model& model) {
    const std::string key = inline_spelling(field.key);
    const std::string* text = settings.find(key);
    if (text == nullptr) return Done{};
    if (field.member == &Model::lora_targets) {
        const Result<std::int64_t> targets = read_lora_targets(split(*text, ','));
        if (!targets) return refuse(key, targets.error().text);
        model.lora_targets = *targets;
        return Done{};
    }
    if (Status s = read_integer(*text, field.min, field.max, model.*field.member); !s)
        return refuse(key, s.error().text);
    return Done{};
}

Status read_flag(const Settings& settings, const FlagField& field, Model& model) {
    const std::string key = inline_spelling(field.key);
    const std::string* text = settings.find(key);
    if (text == nullptr) return Done{};
    if (Status status = check_applies(field.group, key, model); !status) return status;
    if (Status s = read_yes_or_no(*text, model.*field.member); !s)
        return refuse(key, s.error().text);
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
        if (Status status = read_field(settings, field, model); !status) return status.error();
    for (const FlagField& field : flag_fields())
        if (Status status = read_flag(settings, field, model); !status) return status.error();
    if (Status status = read_capacity(settings, model); !status) return status.error();
    model.name = std::string(to_string(*family)) + "-inline";
    return complete_model(std::move(model), "the inline model", true);
}

/// The text of a model's file, "" = the model is named, and how others are read that it names.
struct ModelFile {
    std::string_view text, name;
    const ReadBase& read_base;
};

Result<Model> read_named_model(const std::string& name, const ModelFile& file,
                               IgnoredWords& ignored) {
    const bool is_arguments = file.text.empty() && looks_like_megatron(name);
    Result<Model> model = !file.text.empty()
                              ? parse_model(file.text, file.name, ignored, file.read_base)
                          : is_arguments ? parse_megatron_args(name, "--num-layers", ignored)
                                         : find_zoo_model(name);
    if (!model && file.text.empty()) return refuse("model", model.error().text);
    if (!model) return refuse("model", model.error().message());
    const std::vector<std::string> idle = ignored.idle();
    if (!idle.empty() && (is_arguments || !file.text.empty()))
        return refuse("model-ignore",
                      fmt::format("the model's text has no word '{}' that could be ignored",
                                  printable(idle.front(), 60)));
    return model;
}

Result<IgnoredWords> ignored_words(const Settings& settings) {
    const std::string* list = settings.find("model-ignore");
    if (list == nullptr) return IgnoredWords();
    Result<std::vector<std::string>> words = read_ignored_words(*list);
    if (!words) return refuse("model-ignore", words.error().text);
    return IgnoredWords(std::move(*words));
}

Result<Model> read_model(const Settings& settings, const ModelFile& file, IgnoredWords& ignored) {
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
    Result<Model> model =
        name == nullptr ? read_inline_model(settings) : read_named_model(*name, file, ignored);
    if (const std::string* label = settings.find("name"); model && label != nullptr) {
        if (label->empty() || clean_model_name(*label) != *label)
            return refuse("name", fmt::format("'{}' is not a name of 1 to 64 of [A-Za-z0-9._+/-]",
                                              printable(*label, 40)));
        model->name = *label;
    }
    return model;
}

/// What model, batch and launcher forbid each other and a plan, on every cluster.
Status check_plan(const Request& request) {
    if (std::string obstacle = launcher_model_obstacle(request); !obstacle.empty())
        return refuse("launcher", std::move(obstacle));
    if (std::string obstacle = pin_obstacle(request); !obstacle.empty())
        return refuse("plan", std::move(obstacle));
    if (std::string obstacle = count_obstacle(request); !obstacle.empty())
        return refuse("gpus", std::move(obstacle));
    if (request.loan && !request.elastic)
        return refuse("loan",
                      "needs --arena-elastic (#ARENA elastic=yes): lent nodes go back, and the job "
                      "has to be able to leave them");
    return Done{};
}

}  // namespace

Result<Request> build_request(const std::vector<Setting>& list, std::string_view model_text,
                              std::string_view model_file_name, const ReadBase& read_base) {
    const Settings settings(list);
    if (Status status = settings.check_keys(); !status) return status.error();
    Request request;
    Result<IgnoredWords> ignored = ignored_words(settings);
    if (!ignored) return ignored.error();
    Result<Model> model = read_model(settings, {model_text, model_file_name, read_base}, *ignored);
    if (!model) return model.error();
    request.model = std::move(*model);
    if (Status status = apply_options(list, request); !status) return status.error();
    if (!ignored->taken().empty()) request.model_ignore = ignored->taken();
    if (Status sound = check_model(request.model); !sound)
        return refuse("seq-length", sound.error().text);
    if (Status status = check_plan(request); !status) return status.error();
    if (Status fits = fit_range_to_pin(request, request.max_gpus != 0); !fits) return fits.error();
    return request;
}

Status check_request(const Request& request) {
    if (Status sound = check_model(request.model); !sound) return sound;
    return check_plan(request);
}

namespace {

/// "accepted are arena:gpus=MIN-MAX|any, ... and arena:off".
std::string accepted_changes() {
    std::string text = "accepted are ";
    for (const Option& option : options())
        if (!option.change.empty())
            text += fmt::format("{}{}={}, ", comment_prefix, option.key, option.change);
    return fmt::format("{}and {}off", text, comment_prefix);
}

/// The keys that change a request, each once.
Status check_change(const std::vector<Setting>& changes) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
        const std::string& key = changes[i].first;
        const Option* option = find_option(key);
        if (option == nullptr || option->change.empty())
            return usage_error(
                fmt::format("'{}' is not known; {}", printable(key, 40), accepted_changes()));
        for (std::size_t j = 0; j < i; ++j)
            if (changes[j].first == key) return refuse(key, "given twice; give it once");
    }
    return Done{};
}

/// The later word counts: a new plan that fixes the number of GPUs sets the range, unless the range
/// comes with it; one that the old plan had set goes with that.
Status change_settings(const std::vector<Setting>& changes, Request& request) {
    const Settings settings(changes);
    const bool gpus_named = settings.find("gpus") != nullptr,
               plan_named = settings.find("plan") != nullptr;
    if (plan_named && pin_sets_range(request)) request.min_gpus = 1, request.max_gpus = 0;
    if (Status status = apply_options(changes, request); !status) return status;
    if (Status status = check_plan(request); !status) return status;
    const bool sets_range = plan_named && !gpus_named && request.pin.fixes_gpus();
    return fit_range_to_pin(request, request.max_gpus != 0 && !sets_range);
}

}  // namespace

Status change_request(Request& request, const std::vector<Setting>& changes) {
    if (Status known = check_change(changes); !known) return known;
    if (changes.empty()) return Done{};  // arena:off is open to a request that cannot be planned
    Request changed = request;
    if (Status status = change_settings(changes, changed); !status)
        return in_comment(status.error());
    request = std::move(changed);
    return Done{};
}

Error in_comment(Error error) {
    for (const Option& option : options())
        if (!option.change.empty() && error.where == option_spelling(option.key))
            error.where = fmt::format("Comment={}{}", comment_prefix, option.key);
    return error;
}

Result<bool> apply_comment(std::string_view comment, Request& request) {
    constexpr std::string_view prefix = comment_prefix;
    if (!comment.starts_with(prefix)) return false;
    comment.remove_prefix(prefix.size());
    if (comment.size() > 256)
        return usage_error(fmt::format("longer than 256 characters; {}", accepted_changes()),
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
                fmt::format("'{}' is not known; {}", printable(item, 40), accepted_changes()),
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
