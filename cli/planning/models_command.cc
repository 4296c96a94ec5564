// SPDX-License-Identifier: GPL-2.0-or-later
// See models_command.h.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/count_text.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/planning/commands.h"
#include "core/values_json.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"

namespace arena::cli {
namespace {

/// What one sample is: tokens, or the edge of an image.
std::string sample_of(const Model& model) {
    if (model.family == Family::wide_resnet) return fmt::format("{} pixels", model.image_size);
    return fmt::format("{} tokens", model.seq_length);
}

std::vector<Model> models_with(const std::string& word) {
    std::vector<Model> models;
    for (const std::string& name : zoo_names()) {
        if (name.find(word) == std::string::npos) continue;
        if (Result<Model> model = find_zoo_model(name)) models.push_back(std::move(*model));
    }
    return models;
}

void print_models(const std::vector<Model>& models) {
    Table table({{"name"},
                 {"family"},
                 {"parameters", true},
                 {"active", true},
                 {"layers", true},
                 {"hidden", true},
                 {"heads"},
                 {"sample"},
                 {"precision"}});
    for (const Model& m : models) {
        const double all = parameter_count(m), active = active_parameter_count(m);
        const std::string kv = m.kv_heads != m.heads ? fmt::format(" / {}", m.kv_heads) : "";
        table.add({m.name, std::string(to_string(m.family)), count_text(all),
                   active < all ? count_text(active) : "", fmt::format("{}", m.layers),
                   m.hidden > 0 ? fmt::format("{}", m.hidden) : "",
                   m.heads > 0 ? fmt::format("{}{}", m.heads, kv) : "", sample_of(m),
                   std::string(to_string(m.precision))});
    }
    fmt::print("{}", table.text());
    fmt::print(
        "\nAny other model is a file: a Hugging Face config.json, YAML or Megatron-LM's arguments, "
        "see\n"
        "arena-model(5). --arena-seq-length and --seq-length change the tokens of a sample.\n");
}

int models(const Globals& globals, const std::string& word) {
    const std::vector<Model> found = models_with(word);
    if (found.empty())
        return fail(globals, no_error(fmt::format(
                                 "no built-in model has '{}' in its name; arena models names all",
                                 printable(word, 64))));
    if (!globals.json) {
        print_models(found);
        return exit_yes;
    }
    Json list = Json::array();
    for (const Model& model : found)
        list.push_back({{"name", model.name},
                        {"family", to_string(model.family)},
                        {"parameters", parameter_count(model)},
                        {"active_parameters", active_parameter_count(model)},
                        {"model", json_of(model)}});
    fmt::print("{}\n", dump_json({{"schema_version", 1}, {"models", list}}));
    return exit_yes;
}

}  // namespace

void add_models(CLI::App& app, Globals& globals) {
    CLI::App* command = app.add_subcommand("models", "built-in models and their sizes");
    const auto word = std::make_shared<std::string>();
    command->add_option("word", *word, "only those with this in their name");
    command->callback([&globals, word] { globals.status = models(globals, *word); });
}

}  // namespace arena::cli
