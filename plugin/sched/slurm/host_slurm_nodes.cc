// SPDX-License-Identifier: GPL-2.0-or-later
// See host_slurm_nodes.h.
#include "plugin/sched/slurm/host_slurm_nodes.h"

#include "plugin/sched/host/other_topology.h"
#include "plugin/sched/slurm/host_slurm_facts.h"
#include "plugin/sched/slurm/host_slurm_loans.h"
#include "plugin/sched/slurm/host_slurm_read.h"
#include "plugin/sched/slurm/slurm_util.h"

namespace arena {
namespace {

bool has_feature(const node_record_t* node, std::string_view name) {
    std::string_view list = node->features_act ? node->features_act : "";
    while (!list.empty()) {
        const std::size_t comma = list.find(',');
        if (list.substr(0, comma) == name) return true;
        if (comma == std::string_view::npos) break;
        list.remove_prefix(comma + 1);
    }
    return false;
}

/// As valid_feature_counts() has it: from left to right, parentheses by themselves.
class FeatureTest {
  public:
    explicit FeatureTest(const node_record_t* node) : node_(node) {}
    void add(const job_feature_t& feature) {
        const bool opens = depth_<feature.paren, closes = depth_> feature.paren;
        if (opens) {
            outer_ = op_;
            op_ = FEATURE_OP_AND;
            inner_ = true;
        }
        bool& value = feature.paren || closes ? inner_ : all_;
        combine(value, op_, has_feature(node_, text_of(feature.name)));
        if (closes) combine(all_, outer_, inner_);
        op_ = feature.op_code;
        depth_ = feature.paren;
        open_ = feature.paren;
    }
    [[nodiscard]] bool passed() const { return open_ ? inner_ : all_; }

  private:
    static void combine(bool& value, int op, bool other) {
        value = op == FEATURE_OP_OR ? value || other : value && other;
    }
    const node_record_t* node_;
    int op_ = FEATURE_OP_AND, outer_ = FEATURE_OP_AND;
    std::uint16_t depth_ = 0;
    bool all_ = true, inner_ = true, open_ = false;
};

/// Counts and brackets choose how many nodes: they are refused at submission, and left alone here.
bool chooses_numbers(SlurmList features) {
    const auto is_one = [](void* item, void*) -> int {
        const auto* feature = static_cast<const job_feature_t*>(item);
        return feature->count || feature->op_code == feature_op_one_of ||
               feature->op_code == FEATURE_OP_XAND;
    };
    return list_find_first_ro(features, is_one, nullptr) != nullptr;
}

void keep_featured(SlurmList features, bitstr_t* nodes) {
    if (!features || chooses_numbers(features)) return;
    for (int i = 0; i < node_record_count; ++i) {
        if (!bit_test(nodes, i) || !node_record_table_ptr[i]) continue;
        FeatureTest test(node_record_table_ptr[i]);
        list_for_each_ro(
            features,
            [](void* item, void* argument) {
                static_cast<FeatureTest*>(argument)->add(*static_cast<const job_feature_t*>(item));
                return 0;
            },
            &test);
        if (!test.passed()) bit_clear(nodes, i);
    }
}

/// --sockets-per-node and the like, --tmp, and nodes that another user has for himself.
bool suits(const node_record_t* node, const job_record_t* job) {
    const auto short_of = [](std::uint16_t wanted, std::uint16_t has) {
        return wanted != NO_VAL16 && wanted > has;
    };
    const multi_core_data_t* cores = job->details->mc_ptr;
    if (cores && (short_of(cores->sockets_per_node, node->tot_sockets) ||
                  short_of(cores->cores_per_socket, node->cores) ||
                  short_of(cores->threads_per_core, node->threads)))
        return false;
    if (job->details->pn_min_tmp_disk > node->tmp_disk) return false;
    return node->owner == NO_VAL || node->owner == job->user_id;
}

/// Removes what reservations keep from this job now.
void drop_reserved(job_record_t* job, const PartitionTry& where, const std::string& lent_in,
                   bitstr_t* nodes) {
    if (!slurm_has_reservations()) return;
    const PassingGuards passing(!lent_in.empty() && text_of(where.partition->name) == lent_in);
    const TryingIn trying(job, where);
    if (const Bitmap left{nodes_left_by_reservations(job)})
        bit_and(nodes, left.get());
    else
        bit_nclear(nodes, 0, node_record_count - 1);
}

/// --exclusive, --exclusive=user, --exclusive=topo, and partitions that give whole nodes only.
bool wants_whole_nodes(const job_record_t* job, const part_record_t* part) {
    const std::uint8_t whole = job->details->whole_node;
    return whole == WHOLE_NODE_REQUIRED || whole == WHOLE_NODE_USER || part->max_share == 0 ||
           (part->flags & PART_FLAG_EXCLUSIVE_USER) || wants_whole_blocks(job, part);
}

/// Those on which nothing runs, or only this user, who has them for himself.
Bitmap idle_ones(const job_record_t* job, const bitstr_t* nodes) {
    Bitmap idle(bit_copy(const_cast<bitstr_t*>(nodes)));
    for (int i = 0; i < node_record_count; ++i) {
        if (!bit_test(idle.get(), i) || bit_test(idle_node_bitmap, i)) continue;
        const node_record_t* node = node_record_table_ptr[i];
        const bool own =
            node && node->owner == job->user_id && job->details->whole_node != WHOLE_NODE_REQUIRED;
        if (!own) bit_clear(idle.get(), i);
    }
    return idle;
}

/// "--tmp=90000, --constraint=fast": which of a job's options say what its nodes have to be.
std::string node_options(const job_record_t* job) {
    const JobDetails* details = job->details;
    std::string text;
    const auto add = [&](const char* option, const std::string& value) {
        text += (text.empty() ? "" : ", ") + std::string(option) + value;
    };
    if (details->pn_min_tmp_disk != 0) add("--tmp=", std::to_string(details->pn_min_tmp_disk));
    if (details->features) add("--constraint=", text_of(details->features));
    if (const std::string own = own_excludes(job); !own.empty()) add("--exclude=", own);
    const multi_core_data_t none{};
    const multi_core_data_t& cores = details->mc_ptr ? *details->mc_ptr : none;
    for (const auto& [option, value] : {std::pair{"--sockets-per-node=", cores.sockets_per_node},
                                        {"--cores-per-socket=", cores.cores_per_socket},
                                        {"--threads-per-core=", cores.threads_per_core}})
        if (value != 0 && value != NO_VAL16) add(option, std::to_string(value));
    return text;
}

}  // namespace

std::string bad_constraints(const job_record_t* job) {
    const std::string options = node_options(job);
    return text_of(reason_name(FAIL_BAD_CONSTRAINTS)) + ": no node with GPUs in partition " +
           text_of(job->partition) + (options.empty() ? "" : " is what it asks for: " + options);
}

Bitmap suitable_nodes(const job_record_t* job, const PartitionTry& where) {
    Bitmap nodes(bit_copy(where.partition->node_bitmap));
    keep_featured(job->details->feature_list, nodes.get());
    if (const Bitmap own = own_excluded_nodes(job)) bit_and_not(nodes.get(), own.get());
    if (job->details->req_node_bitmap) bit_and(nodes.get(), job->details->req_node_bitmap);
    for (int i = 0; i < node_record_count; ++i)
        if (bit_test(nodes.get(), i) && node_record_table_ptr[i] &&
            !suits(node_record_table_ptr[i], job))
            bit_clear(nodes.get(), i);
    return nodes;
}

std::vector<NodeChoice> node_choices(job_record_t* job, const PartitionTries& tries,
                                     const std::string& lent_in) {
    std::vector<NodeChoice> choices, later;
    for (const PartitionTry& where : tries.list) {
        Bitmap nodes = suitable_nodes(job, where);
        const auto suitable = bit_set_count(nodes.get());
        drop_reserved(job, where, lent_in, nodes.get());
        const bool is_cut = bit_set_count(nodes.get()) < suitable;
        const part_record_t* part = where.partition;
        const bool by_slurm = where.least_time || has_other_topology(part);
        if (job->details->prefer_list) {
            Bitmap preferred(bit_copy(nodes.get()));
            keep_featured(job->details->prefer_list, preferred.get());
            if (!where.least_time)
                choices.push_back({part, std::move(preferred), by_slurm, is_cut});
        }
        if (where.least_time || !wants_whole_nodes(job, part)) {
            choices.push_back({part, std::move(nodes), by_slurm, is_cut});
            continue;
        }
        choices.push_back({part, idle_ones(job, nodes.get()), by_slurm, is_cut});
        later.push_back({part, std::move(nodes), true, is_cut});
    }
    std::move(later.begin(), later.end(), std::back_inserter(choices));
    return choices;
}

}  // namespace arena
