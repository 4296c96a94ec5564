// SPDX-License-Identifier: GPL-2.0-or-later
// Past jobs become a trace: see import.h.
#include "sim/history/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/text.h"
#include "core/limits.h"

namespace arena::sim {
namespace {

constexpr const char* no_gpus = "without GPUs";

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
    const ModelRule* rule = find_rule(
        options_.models, {job.user, job.account, job.partition, job.name, job.gpu_count()});
    if (rule == nullptr) return;
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
