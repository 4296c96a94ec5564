// SPDX-License-Identifier: GPL-2.0-or-later
// See model_rules.h.
#include "site/model_rules.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "base/trusted_path.h"
#include "base/yaml.h"

namespace arena {
namespace {

bool fits_pattern(const std::string& pattern, const std::string& text) {
    return pattern.empty() || ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

/// "8" or "4-16".
Status read_gpu_range(const YamlNode& node, std::string_view file, ModelRule& out) {
    const auto parts = split(node.scalar, '-');
    const auto least = parse_integer(parts.front(), 1, limits::gpus);
    const auto most = parse_integer(parts.back(), 1, limits::gpus);
    if (!least || !most || *most < *least || parts.size() > 2)
        return usage_error(fmt::format("gpus: \"{}\" is neither N nor N-M, of 1 to {}",
                                       printable(node.scalar), limits::gpus),
                           node.where(file));
    out.min_gpus = *least;
    out.max_gpus = *most;
    return Done{};
}

Result<ModelRule> rule_of(const YamlNode& item, std::string_view file) {
    if (const Status known = yaml_check_keys(
            item, file, {"user", "account", "partition", "name", "gpus", "model", "batch"});
        !known)
        return known.error();
    ModelRule rule;
    for (const auto& [key, value] :
         {std::pair("user", &rule.user), std::pair("account", &rule.account),
          std::pair("partition", &rule.partition), std::pair("name", &rule.name),
          std::pair("model", &rule.model)}) {
        const YamlNode* said = item.find(key);
        if (said == nullptr) continue;
        const Result<std::string> text = yaml_string(*said, file, key);
        if (!text) return text.error();
        *value = *text;
    }
    if (const YamlNode* gpus = item.find("gpus"))
        if (const Status range = read_gpu_range(*gpus, file, rule); !range) return range.error();
    const YamlNode* batch = item.find("batch");
    if (rule.model.empty() || batch == nullptr)
        return usage_error(
            "model and batch are needed: a name of `arena models`, and the samples of an iteration",
            item.where(file));
    const Result<std::int64_t> samples = yaml_integer(*batch, file, "batch", 1, limits::batch);
    if (!samples) return samples.error();
    rule.batch = *samples;
    return rule;
}

}  // namespace

bool ModelRule::fits(const RuledJob& job) const {
    return fits_pattern(user, job.user) && fits_pattern(account, job.account) &&
           fits_pattern(partition, job.partition) && fits_pattern(name, job.name) &&
           job.gpus >= min_gpus && job.gpus <= max_gpus;
}

Result<std::vector<ModelRule>> parse_model_rules(std::string_view text, std::string_view name) {
    const Result<YamlNode> yaml = parse_yaml(text, name);
    if (!yaml) return yaml.error();
    if (const Status known = yaml_check_keys(*yaml, name, {"models"}); !known) return known.error();
    const YamlNode* list = yaml->find("models");
    if (list == nullptr || list->kind != YamlNode::Kind::sequence || list->items.empty())
        return usage_error("models: a list of {user, account, partition, name, gpus, model, batch}",
                           (list == nullptr ? *yaml : *list).where(name));
    std::vector<ModelRule> rules;
    for (const YamlNode& item : list->items) {
        Result<ModelRule> rule = rule_of(item, name);
        if (!rule) return rule.error();
        rules.push_back(std::move(*rule));
    }
    return rules;
}

Result<std::vector<ModelRule>> load_model_rules(const std::string& path) {
    if (path.empty()) return std::vector<ModelRule>();
    if (const Status trusted = check_trusted(path, ::geteuid()); !trusted) return trusted.error();
    const Result<std::string> text = read_regular_file(path, max_model_rules_bytes);
    return text ? parse_model_rules(*text, path) : text.error();
}

const ModelRule* find_rule(const std::vector<ModelRule>& rules, const RuledJob& job) {
    const auto at = std::find_if(rules.begin(), rules.end(),
                                 [&](const ModelRule& rule) { return rule.fits(job); });
    return at == rules.end() ? nullptr : &*at;
}

}  // namespace arena
