// SPDX-License-Identifier: GPL-2.0-or-later
// See host_slurm_partitions.h. The order of the checks is that of Slurm's: the first one that fails
// gives the reason.
#include "plugin/sched/slurm/host_slurm_partitions.h"

#include <map>
#include <string_view>

#include "plugin/sched/slurm/slurm_util.h"

namespace arena {
namespace {

std::uint32_t least_limit(const job_record_t* job) {
    const bool given = job->time_min != 0 && job->time_min != NO_VAL;
    return given ? job->time_min : job->time_limit;
}

bool qos_lifts(const job_record_t* job, std::uint32_t limit) {
    return job->qos_ptr && (job->qos_ptr->flags & limit);
}

bool holds(char** names, const char* name) {
    for (; names && name && *names; ++names)
        if (std::string_view(*names) == name) return true;
    return false;
}

/// AllowAccounts and DenyAccounts; Slurm's own function writes a line to the log each time.
bool takes_account(const part_record_t* part, const char* account) {
    if (part->allow_account_array && part->allow_account_array[0])
        return holds(part->allow_account_array, account);
    return !holds(part->deny_account_array, account);
}

bool is_set(const bitstr_t* bits, std::uint32_t bit) {
    auto* map = const_cast<bitstr_t*>(bits);
    return bit < bit_size(map) && bit_test(map, static_cast<bitoff_t>(bit));
}

bool takes_qos(const part_record_t* part, const slurmdb_qos_rec_t* qos) {
    if (part->allow_qos_bitstr) return qos && is_set(part->allow_qos_bitstr, qos->id);
    return !part->deny_qos_bitstr || !qos || !is_set(part->deny_qos_bitstr, qos->id);
}

bool takes_user(part_record_t* part, const job_record_t* job) {
    const std::uint32_t user = job->user_id;
    if ((part->flags & PART_FLAG_REQ_RESV) && text_of(job->resv_name).empty()) return false;
    if ((part->flags & PART_FLAG_ROOT_ONLY) && user != 0 && user != slurm_conf.slurm_user_id)
        return false;
    if ((part->flags & PART_FLAG_NO_ROOT) && user == 0) return false;
    return validate_group(part, user) && validate_alloc_node(part, job->alloc_node);
}

bool exceeds_time(const part_record_t* part, const job_record_t* job, std::uint32_t limit) {
    return limit != NO_VAL && limit > part->max_time && !qos_lifts(job, QOS_FLAG_PART_TIME_LIMIT) &&
           job->limit_set.time != ADMIN_SET_LIMIT;
}

struct Ranked {
    part_record_t* partition;
    std::uint32_t priority;  ///< of the job there
};

/// As sort_job_queue2() has pairs of one job: tier, then the job's priority there.
std::vector<Ranked> in_order(const job_record_t* job) {
    std::vector<Ranked> list;
    const std::uint32_t* priorities = job->part_ptr_list ? partition_priorities(job) : nullptr;
    for (part_record_t* part : partitions_of(job))
        list.push_back({part, priorities ? priorities[list.size()] : 0});
    std::stable_sort(list.begin(), list.end(), [](const Ranked& a, const Ranked& b) {
        return std::pair(a.partition->priority_tier, a.priority) >
               std::pair(b.partition->priority_tier, b.priority);
    });
    return list;
}

}  // namespace

std::vector<part_record_t*> partitions_of(const job_record_t* job) {
    std::vector<part_record_t*> list;
    const auto add = [](void* item, void* argument) {
        static_cast<std::vector<part_record_t*>*>(argument)->push_back(
            static_cast<part_record_t*>(item));
        return 0;
    };
    if (job->part_ptr_list)
        list_for_each_ro(job->part_ptr_list, add, &list);
    else if (job->part_ptr)
        list.push_back(job->part_ptr);
    return list;
}

job_state_reason partition_reason(const part_record_t* partition, const job_record_t* job,
                                  std::uint32_t time_limit) {
    auto* part = const_cast<part_record_t*>(partition);
    if (!part->node_bitmap || !takes_user(part, job)) return WAIT_PART_CONFIG;
    const bool schedules = part->state_up & PARTITION_SCHED;
    if (schedules && exceeds_time(part, job, time_limit)) return WAIT_PART_TIME_LIMIT;
    if (part->state_up == PARTITION_DOWN) return WAIT_PART_DOWN;
    if (part->state_up == PARTITION_INACTIVE) return WAIT_PART_INACTIVE;
    if (!schedules) return WAIT_PART_DOWN;  // DRAIN takes no submissions, but schedules
    if (!takes_qos(part, job->qos_ptr)) return WAIT_QOS;
    return takes_account(part, job->account) ? WAIT_NO_REASON : WAIT_ACCOUNT;
}

std::uint32_t time_limit_in(const part_record_t* partition, const job_record_t* job,
                            std::time_t now) {
    const auto is_limit = [](std::uint32_t minutes) {
        return minutes != NO_VAL && minutes != INFINITE;
    };
    if (!has_deadline(job) || job->deadline < now + 60) return job->time_limit;
    const auto left = static_cast<std::uint32_t>((job->deadline - now) / 60);
    for (const std::uint32_t limit :
         {job->time_limit, partition->default_time, partition->max_time})
        if (is_limit(limit)) return std::min(limit, left);
    return left;
}

std::uint32_t started_limit(const part_record_t* partition, std::uint32_t minutes) {
    if (minutes != NO_VAL || !partition) return minutes;
    return partition->default_time != NO_VAL ? partition->default_time : partition->max_time;
}

bool has_deadline(const job_record_t* job) { return job->deadline != 0 && job->deadline != NO_VAL; }

bool can_end_in_time(job_record_t* job) {
    return !has_deadline(job) || deadline_ok(job, const_cast<char*>("arena"));
}

PartitionTries partition_tries(const job_record_t* job) {
    PartitionTries tries;
    const std::time_t now = std::time(nullptr);
    const std::vector<Ranked> partitions = in_order(job);
    for (const Ranked& ranked : partitions) {
        const job_state_reason why = partition_reason(ranked.partition, job, job->time_limit);
        if (why == WAIT_NO_REASON)
            tries.list.push_back({ranked.partition, time_limit_in(ranked.partition, job, now)});
        else
            tries.why = why;
    }
    const std::uint32_t least = least_limit(job);
    if (least >= job->time_limit) return tries;
    for (const Ranked& ranked : partitions)
        if (partition_reason(ranked.partition, job, least) == WAIT_NO_REASON)
            tries.list.push_back({ranked.partition, least, true});
    return tries;
}

std::uint32_t tier_of(const std::vector<PartitionTry>& tries) {
    if (tries.empty()) return 0;
    std::uint32_t lowest = UINT32_MAX;
    list_for_each_ro(
        part_list,
        [](void* item, void* argument) {
            auto* low = static_cast<std::uint32_t*>(argument);
            const auto* part = static_cast<const part_record_t*>(item);
            *low = std::min<std::uint32_t>(*low, part->priority_tier);
            return 0;
        },
        &lowest);
    return tries.front().partition->priority_tier - lowest;
}

bitstr_t* partition_nodes(const job_record_t* job) {
    bitstr_t* nodes = bit_alloc(node_record_count);
    for (const part_record_t* part : partitions_of(job))
        if (part->node_bitmap && (part->state_up & PARTITION_SCHED))
            bit_or(nodes, part->node_bitmap);
    return nodes;
}

std::vector<FirstOfPartition> first_of_each_partition(const std::vector<job_record_t*>& jobs,
                                                      std::size_t most) {
    std::map<std::pair<const part_record_t*, std::string_view>, std::vector<job_record_t*>> waiting;
    for (job_record_t* job : jobs)
        waiting[{job->part_ptr, job->partition ? job->partition : ""}].push_back(job);
    std::vector<FirstOfPartition> list;
    for (auto& [partition, queue] : waiting) {
        const auto end = queue.begin() + static_cast<std::ptrdiff_t>(std::min(most, queue.size()));
        std::partial_sort(
            queue.begin(), end, queue.end(), [](const job_record_t* a, const job_record_t* b) {
                return std::pair(b->priority, a->job_id) < std::pair(a->priority, b->job_id);
            });
        for (auto at = queue.begin(); at != end; ++at) list.push_back({*at, at == queue.begin()});
    }
    return list;
}

OrdinaryJob ordinary_job(const job_record_t* waiting, double now_s) {
    const JobDetails* details = waiting->details;
    const std::uint32_t limit = started_limit(waiting->part_ptr, waiting->time_limit);
    const auto start_s = static_cast<double>(waiting->start_time);
    OrdinaryJob job;
    job.id = waiting->job_id;
    job.submit_s = static_cast<double>(details->submit_time);
    job.eligible_s = static_cast<double>(std::max(details->begin_time, details->submit_time));
    job.time_limit_s = limit != INFINITE && limit != NO_VAL ? 60.0 * limit : 0;
    // What it expected before, and is over, says nothing.
    job.start_s = start_s > now_s ? start_s : 0;
    job.nodes = std::max(details->min_nodes, 1u);
    job.tasks = std::max(details->num_tasks, 1u);
    job.cpus = std::max(details->min_cpus, 1u);
    job.memory_is_per_cpu = (details->pn_min_memory & MEM_PER_CPU) != 0;
    job.memory_mb = static_cast<std::int64_t>(details->pn_min_memory & ~MEM_PER_CPU);
    job.whole_nodes = details->whole_node == WHOLE_NODE_REQUIRED;
    job.per_node = text_of(waiting->tres_per_node);
    job.per_job = text_of(waiting->tres_per_job);
    job.per_task = text_of(waiting->tres_per_task);
    return job;
}

}  // namespace arena
