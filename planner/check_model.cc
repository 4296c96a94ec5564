// SPDX-License-Identifier: GPL-2.0-or-later
// Ranges and divisibility of a model, and the defaults of its family. Every reader ends here, so
// that no later formula meets a zero, a negative, or a product that overflows.
#include <fmt/format.h>

#include <algorithm>

#include "planner/model.h"
#include "planner/planner.h"

namespace arena {

namespace {

constexpr double max_parameters = 1e14;

std::string spelled(std::string_view key, bool is_inline) {
    std::string text(key);
    if (is_inline) std::replace(text.begin(), text.end(), '_', '-');
    return text;
}

/// Fields without which a transformer has no cost, in the order people write them.
std::string missing_fields(const Model& model, bool is_inline) {
    std::string list;
    for (const char* key : {"layers", "hidden", "heads", "ffn_hidden", "vocab", "seq_length"}) {
        if (model.*(find_integer_field(key)->member) != 0) continue;
        list += list.empty() ? "" : ", ";
        list += spelled(key, is_inline);
    }
    return list;
}

Status check_ranges(const Model& model) {
    for (const IntegerField& field : integer_fields()) {
        const std::int64_t value = model.*field.member;
        const bool needed = field.group == FieldGroup::transformer;
        if (!needed && value != 0)
            return usage_error(fmt::format("{} cannot be planned by this version", field.key));
        if ((needed || value != 0) && (value < field.min || value > field.max))
            return usage_error(fmt::format("{} must be an integer from {} to {}, not {}", field.key,
                                           field.min, field.max, value));
    }
    return Done{};
}

Status check_divisibility(const Model& model) {
    if (model.hidden % model.heads != 0)
        return usage_error(
            fmt::format("hidden {} is not a multiple of heads {}: give a number of "
                        "heads that divides hidden",
                        model.hidden, model.heads));
    if (model.heads % model.kv_heads != 0)
        return usage_error(
            fmt::format("heads {} is not a multiple of kv_heads {}: give a number of "
                        "kv_heads that divides heads",
                        model.heads, model.kv_heads));
    return Done{};
}

}  // namespace

std::string_view supported_families() { return "gpt, llama, bert"; }

std::string clean_model_name(std::string_view name) {
    std::string clean(name.substr(0, 64));
    for (char& c : clean) {
        const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("._+/-").find(c) != std::string_view::npos;
        if (!fine) c = '-';
    }
    return clean.empty() ? "model" : clean;
}

Status check_model(const Model& model) {
    if (!is_transformer(model.family) || model.family == Family::moe)
        return usage_error(
            fmt::format("family '{}' cannot be planned by this version; accepted: {}",
                        to_string(model.family), supported_families()));
    if (Status status = check_ranges(model); !status) return status;
    if (Status status = check_divisibility(model); !status) return status;
    if (const double count = parameter_count(model); count > max_parameters)
        return usage_error(
            fmt::format("the model would have {:.3g} parameters; at most {:.0e} are "
                        "accepted",
                        count, max_parameters));
    return Done{};
}

Result<Model> complete_model(Model model, std::string_view where, bool is_inline) {
    if (model.kv_heads == 0) model.kv_heads = model.heads;
    if (model.ffn_hidden == 0 && model.family != Family::llama) model.ffn_hidden = 4 * model.hidden;
    if (model.head_dim * model.heads == model.hidden) model.head_dim = 0;
    if (is_transformer(model.family))
        if (const std::string missing = missing_fields(model, is_inline); !missing.empty())
            return usage_error("the model lacks " + missing, std::string(where));
    if (Status status = check_model(model); !status) {
        Error error = status.error();
        if (is_inline) error.text = spelled(error.text, true);
        error.where = where;
        return error;
    }
    return model;
}

}  // namespace arena
