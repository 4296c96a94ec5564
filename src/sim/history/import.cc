// SPDX-License-Identifier: GPL-2.0-or-later
// Past jobs become a trace: see import.h.
#include "sim/history/import.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/text.h"
#include "base/yaml.h"
#include "core/limits.h"

namespace arena::sim {
namespace {

constexpr const char* no_gpus = "without GPUs";

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
    if (const Status keys = yaml_check_keys(
            item, file, {"user", "account", "partition", "name", "gpus", "model", "batch"});
        !keys)
        return keys.error();
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

/// What a column of a trace can hold.
bool is_plain(const std::string& text) {
    return text.size() <= limits::name_bytes && std::all_of(text.begin(), text.end(), [](char c) {
               return c > ' ' && c < 127 && c != ',';
           });
}

/// Accounts as numbers, in the order in which they come; as they are where they may be.
class Names {
  public:
    explicit Names(bool hide) : hide_(hide) {}
    std::string of(const std::string& account) {
        if (account.empty() || (!hide_ && is_plain(account))) return account;
        const auto [at, is_new] = numbers_.emplace(account, numbers_.size() + 1);
        return fmt::format("account{}", at->second);
    }

  private:
    bool hide_;
    std::map<std::string, std::size_t> numbers_;
};

class Importer {
  public:
    Importer(const std::map<std::string, PastNode>& nodes, const ImportOptions& options)
        : nodes_(nodes), options_(options), accounts_(options.hide_names) {
        for (const auto& [name, node] : nodes) types_.insert(node.gpu_type);
    }
    void take(const PastJob&);
    void note_time(const PastJob& job) {
        // Not eligible_s: that is a begin time, which may lie ahead.
        last_s_ = std::max({last_s_, job.submit_s, job.start_s, job.end_s});
    }
    Import finish();

  private:
    [[nodiscard]] const char* why_not(const PastJob&, std::string& type) const;
    void name_model(const PastJob&, TraceJob&);

    const std::map<std::string, PastNode>& nodes_;
    const ImportOptions& options_;
    std::set<std::string> types_;
    Names accounts_;
    std::map<std::string, int> lives_;
    double last_s_ = 0;
    Import out_;
};

/// The reason to leave the job out; nothing: it is of the trace, on GPUs of `type`.
const char* Importer::why_not(const PastJob& job, std::string& type) const {
    if (job.gpus.empty()) return no_gpus;
    if (job.submit_s < 0) return "without a time of submission";
    if (job.start_s < 0) return "never started";
    if (job.end_s >= 0 && job.end_s <= job.start_s) return "ended when they started";
    if (job.end_s < 0 && last_s_ <= job.start_s) return "started at the end of the file";
    if (job.gpus.size() > 1) return "of several GPU types";
    type = job.gpus.begin()->first;
    if (type.empty()) {
        const auto node = nodes_.find(job.first_host);
        if (node == nodes_.end()) return "on nodes that are no more";
        type = node->second.gpu_type;
    }
    return types_.contains(type) ? nullptr : "of a GPU type that no node has";
}

void Importer::name_model(const PastJob& job, TraceJob& out) {
    const auto rule = std::find_if(options_.models.begin(), options_.models.end(),
                                   [&](const ModelRule& one) { return one.fits(job); });
    if (rule == options_.models.end()) return;
    out.model = rule->model;
    out.batch = rule->batch;
    ++out_.counts.mapped;
}

void Importer::take(const PastJob& job) {
    ++out_.counts.rows;
    ++out_.counts.states[job.state];
    TraceJob out;
    if (const char* reason = why_not(job, out.gpu_type)) {
        ++out_.counts.left_out[reason];
        return;
    }
    const int life = lives_[job.id]++;
    out.id = life == 0 ? job.id : fmt::format("{}#{}", job.id, life + 1);
    out_.counts.requeued += life > 0;
    out_.counts.still_running += job.end_s < 0;
    out.submit_s = std::min(job.start_s, std::max(job.submit_s, job.eligible_s));
    out.start_s = job.start_s;
    out.run_s = (job.end_s < 0 ? last_s_ : job.end_s) - job.start_s;
    out.time_limit_s = job.limit_s;
    out.gpus = job.gpu_count();
    out.nodes = job.nodes;
    out.account = accounts_.of(job.account);
    out.priority = job.priority;
    out.line = job.line;
    name_model(job, out);
    out_.jobs.push_back(std::move(out));
}

Import Importer::finish() {
    std::stable_sort(out_.jobs.begin(), out_.jobs.end(),
                     [](const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; });
    out_.counts.jobs = std::ssize(out_.jobs);
    return std::move(out_);
}

}  // namespace

bool ModelRule::fits(const PastJob& job) const {
    return fits_pattern(user, job.user) && fits_pattern(account, job.account) &&
           fits_pattern(partition, job.partition) && fits_pattern(name, job.name) &&
           job.gpu_count() >= min_gpus && job.gpu_count() <= max_gpus;
}

Result<std::vector<ModelRule>> parse_model_rules(std::string_view text, std::string_view name) {
    const Result<YamlNode> yaml = parse_yaml(text, name);
    if (!yaml) return yaml.error();
    if (const Status keys = yaml_check_keys(*yaml, name, {"models"}); !keys) return keys.error();
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

Result<Import> import_history(const std::vector<PastJob>& jobs,
                              const std::map<std::string, PastNode>& nodes,
                              const ImportOptions& options, const std::string& file) {
    Importer importer(nodes, options);
    for (const PastJob& job : jobs) importer.note_time(job);
    for (const PastJob& job : jobs) importer.take(job);
    Import out = importer.finish();
    if (!out.jobs.empty()) return out;
    std::vector<std::string> reasons;
    for (const auto& [reason, count] : out.counts.left_out)
        reasons.push_back(fmt::format("{} {}", count, reason));
    const bool without_gpus = reasons.size() == 1 && out.counts.left_out.contains(no_gpus);
    return usage_error(
        fmt::format("no job of {} rows can be replayed: {}{}", out.counts.rows,
                    reasons.empty() ? "there is none" : join(reasons, ", "),
                    without_gpus ? "; slurm.conf needs AccountingStorageTRES=gres/gpu" : ""),
        file + ":1");
}

}  // namespace arena::sim
