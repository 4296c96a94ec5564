// SPDX-License-Identifier: GPL-2.0-or-later
// See host_slurm_tables.h. Free resources are counted from GRES state and from running jobs' own
// allocations, so that nothing lazily computed inside Slurm is needed. Pure copying.
#include "plugin/sched/slurm/host_slurm_tables.h"

#include <algorithm>

#include "plugin/sched/host/other_topology.h"
#include "plugin/sched/slurm/host_slurm_facts.h"

namespace arena {
namespace {

struct GpuCount {
    std::string type;
    std::int64_t total = 0, free = 0;
};

/// Adds one for each type. As Slurm itself counts: jobs that name no type hold GPUs of the node
/// that may be of none.
int add_gpus(void* item, void* argument) {
    const auto* state = static_cast<const gres_state_t*>(item);
    auto* counts = static_cast<std::vector<GpuCount>*>(argument);
    if (text_of(state->gres_name) != "gpu" || !state->gres_data) return 0;
    const auto* gpus = static_cast<const gres_node_state_t*>(state->gres_data);
    const auto total = static_cast<std::int64_t>(gpus->gres_cnt_avail);
    const std::int64_t free = total - static_cast<std::int64_t>(gpus->gres_cnt_alloc);
    if (gpus->type_cnt <= 1) {
        const bool typed = gpus->type_cnt == 1;
        counts->push_back({typed ? text_of(gpus->type_name[0]) : std::string(), total, free});
        return 0;
    }
    for (int i = 0; i < gpus->type_cnt; ++i) {
        const auto of_type = static_cast<std::int64_t>(gpus->type_cnt_avail[i]);
        const auto taken = static_cast<std::int64_t>(gpus->type_cnt_alloc[i]);
        counts->push_back({text_of(gpus->type_name[i]), of_type, std::min(of_type - taken, free)});
    }
    return 0;
}

/// A node on which a job completes has its GPUs back already, but select_nodes() does not take it;
/// nor one in a block that a job has for itself.
bool node_takes_jobs(const node_record_t* node) {
    const auto bit = static_cast<bitoff_t>(node->index);
    return node_is_up(node) && !is_blocked(node) && !bit_test(cg_node_bitmap, bit) &&
           !bit_test(rs_node_bitmap, bit) &&
           (bit_test(share_node_bitmap, bit) || bit_test(idle_node_bitmap, bit));
}

/// As power_save.c says it when it takes a node down that did not boot in time.
constexpr std::string_view not_resumed = "ResumeTimeout reached";

std::optional<NodePower> power_of(const node_record_t* node) {
    if (IS_NODE_DOWN(node) && node->reason && text_of(node->reason).starts_with(not_resumed))
        return NodePower::unbooted;
    if (IS_NODE_POWERING_UP(node) || IS_NODE_POWER_UP(node)) return NodePower::waking;
    if (IS_NODE_POWERING_DOWN(node)) return NodePower::falling_asleep;
    if (IS_NODE_POWERED_DOWN(node)) return NodePower::asleep;
    return std::nullopt;
}

/// ResumeTimeout, its partitions' or the cluster's, for one that sleeps or wakes up.
double boot_s(const node_record_t* node) {
    const std::uint16_t own = node->resume_timeout;
    return own == NO_VAL16 || own == INFINITE16 ? slurm_conf.resume_timeout : own;
}

/// An entry for each GPU type.
std::vector<NodeState> read_node(const node_record_t* node) {
    std::vector<GpuCount> counts;
    if (node->gres_list) list_for_each_ro(node->gres_list, add_gpus, &counts);
    if (counts.empty()) counts.emplace_back();
    const bool takes_jobs = node_takes_jobs(node), is_awake = !power_of(node);
    std::vector<NodeState> parts;
    for (const GpuCount& gpus : counts) {
        NodeState& state = parts.emplace_back();
        state.name = text_of(node->name);
        state.gpu_type = gpus.type;
        state.total_gpus = gpus.total;
        state.free_gpus = takes_jobs ? std::max<std::int64_t>(gpus.free, 0) : 0;
        state.up = node_is_up(node);
        state.free_cpus = node->cpus_efctv ? node->cpus_efctv : node->config_ptr->cpus;
        state.free_memory_mb = static_cast<std::int64_t>(node->real_memory - node->mem_spec_limit);
        state.same_node = parts.size() > 1;
        state.weight = node->config_ptr->weight;
        state.boot_s = is_awake ? 0 : boot_s(node);
    }
    return parts;
}

/// What Slurm's topology plug-in knows of the network, asked once after each reading of slurm.conf.
struct Network {
    TablesStamp stamp;
    NetworkKind topology = NetworkKind::flat;
    std::vector<Switch> switches;
    std::vector<std::int32_t> leaf_of;  ///< by Slurm's index of the node; -1: on nothing
};

/// "s0.s4" of "s0.s4.n1". A level that the node is not below is empty there.
std::vector<std::string> switches_in(std::string_view address) {
    std::vector<std::string> path;
    for (std::size_t dot; (dot = address.find('.')) != std::string_view::npos;) {
        if (dot > 0) path.emplace_back(address.substr(0, dot));
        address.remove_prefix(dot + 1);
    }
    return path;
}

NetworkKind topology_of(std::string_view pattern) {
    if (pattern.starts_with("switch.")) return NetworkKind::tree;
    return pattern.starts_with("block.") ? NetworkKind::block : NetworkKind::flat;
}

/// Node names have no dots: a name with one is taken off whole.
std::string_view without_name(std::string_view address, std::string_view name) {
    if (address.ends_with(name)) address.remove_suffix(name.size());
    return address;
}

/// With TopoOptional Slurm keeps no job below one switch unless the job asks for it.
bool may_part() {
    const std::string parameters = text_of(slurm_conf.topology_param);
    return strcasestr(parameters.c_str(), "TopoOptional") != nullptr;
}

Network read_network() {
    Network network;
    SwitchTable table;
    network.leaf_of.assign(static_cast<std::size_t>(node_record_count), -1);
    for (int i = 0; i < node_record_count; ++i) {
        const node_record_t* node = node_record_table_ptr[i];
        if (!node || !node->name) continue;
        char *address = nullptr, *pattern = nullptr;
        if (node_address(node->name, &address, &pattern) == SLURM_SUCCESS && address && pattern) {
            const NetworkKind topology = topology_of(pattern);
            if (topology != NetworkKind::flat) {
                network.topology = topology;
                std::vector<std::string> path = switches_in(without_name(address, node->name));
                if (topology == NetworkKind::tree && may_part()) path.insert(path.begin(), "any");
                network.leaf_of[static_cast<std::size_t>(i)] = table.add(path);
            }
        }
        xfree(address);
        xfree(pattern);
    }
    network.switches = table.take();
    return network;
}

const Network& known_network() {
    static std::optional<Network> known;
    if (!known || known->stamp != TablesStamp{}) known = read_network();
    return *known;
}

struct PartitionWalk {
    ClusterView* view;
    const NodeTable* table;
};

int visit_partition(void* item, void* argument) {
    const auto* part = static_cast<const part_record_t*>(item);
    const auto* walk = static_cast<PartitionWalk*>(argument);
    if (part->state_up != PARTITION_UP || !part->node_bitmap) return 0;
    std::vector<NodeIndex>& nodes = walk->view->partitions[text_of(part->name)];
    const bitoff_t last = bit_fls(part->node_bitmap);
    for (bitoff_t i = bit_ffs(part->node_bitmap); i >= 0 && i <= last; ++i) {
        const std::int32_t ours = walk->table->ours[static_cast<std::size_t>(i)];
        if (ours >= 0 && bit_test(part->node_bitmap, i))
            walk->view->add_parts(static_cast<NodeIndex>(ours), nodes);
    }
    return 0;
}

/// GPUs of one type that the job has on its nodes, in their order.
struct HeldGpus {
    std::string type;  ///< "" = it named none
    std::vector<std::int64_t> counts;
};

int add_held(void* item, void* argument) {
    const auto* state = static_cast<const gres_state_t*>(item);
    const auto* of = static_cast<const gres_job_state_t*>(state->gres_data);
    if (text_of(state->gres_name) != "gpu" || !of || !of->gres_cnt_node_alloc) return 0;
    HeldGpus& held = static_cast<std::vector<HeldGpus>*>(argument)->emplace_back();
    held.type = text_of(of->type_name);
    for (std::uint32_t i = 0; i < of->node_cnt; ++i)
        held.counts.push_back(static_cast<std::int64_t>(of->gres_cnt_node_alloc[i]));
    return 0;
}

/// The entry of the node that has these GPUs; of no known type: the first.
NodeIndex entry_of(const NodeTable& table, NodeIndex first, const std::string& type) {
    if (table.nodes == nullptr) return first;
    const NodeParts parts = parts_of(*table.nodes, first);
    for (NodeIndex n = parts.first; n < parts.last; ++n)
        if ((*table.nodes)[n].gpu_type == type) return n;
    return first;
}

/// The node in the job's order, with its GPUs: an entry for each type that it holds there.
void add_gpus_held(const std::vector<HeldGpus>& held, std::size_t slot, const NodeTable& table,
                   std::vector<Occupied::Part>& parts) {
    const std::size_t first = parts.size() - 1;
    for (const HeldGpus& gpus : held) {
        if (slot >= gpus.counts.size() || gpus.counts[slot] == 0) continue;
        const NodeIndex entry = entry_of(table, parts[first].node, gpus.type);
        const auto at =
            std::find_if(parts.begin() + static_cast<std::ptrdiff_t>(first), parts.end(),
                         [&](const Occupied::Part& part) { return part.node == entry; });
        if (at != parts.end())
            at->gpus += gpus.counts[slot];
        else
            parts.push_back({.node = entry, .gpus = gpus.counts[slot]});
    }
}

/// MaxMemPerNode or, with a flag, MaxMemPerCPU: the partition's, else the cluster's; 0 = no
/// limit.
std::uint64_t most_memory(const part_record_t& part) {
    return part.max_mem_per_cpu ? part.max_mem_per_cpu : slurm_conf.max_mem_per_cpu;
}

Place place_of(const job_record_t* job, const part_record_t& part, std::uint32_t node_set) {
    const std::uint32_t lifted = job->qos_ptr ? job->qos_ptr->flags : 0;
    Place place{.node_set = node_set, .other_network = has_other_topology(&part)};
    if (!(lifted & QOS_FLAG_PART_MIN_NODE)) place.min_nodes = std::max(part.min_nodes, 1u);
    if (!(lifted & QOS_FLAG_PART_MAX_NODE) && part.max_nodes != INFINITE)
        place.max_nodes = part.max_nodes;
    if (part.max_cpus_per_node != INFINITE) place.max_cpus_per_node = part.max_cpus_per_node;
    const std::uint64_t memory = most_memory(part);
    if (memory != 0 && !(memory & MEM_PER_CPU))
        place.max_memory_mb_per_node = static_cast<std::int64_t>(memory);
    return place;
}

/// A second time the same nodes, on other terms, say nothing new.
void add_place(Placed& placed, const NodeChoice& choice, const Place& place) {
    const auto same = [&](const PartitionSlot& known) { return known.place == place; };
    if (std::none_of(placed.slots.begin(), placed.slots.end(), same))
        placed.slots.push_back({text_of(choice.partition->name), place, choice.by_slurm});
}

}  // namespace

bool node_is_up(const node_record_t* node) {
    const auto bit = static_cast<bitoff_t>(node->index);
    return bit_test(avail_node_bitmap, bit) && bit_test(up_node_bitmap, bit);
}

int note_other_topology(void* item, void* argument) {
    if (has_other_topology(static_cast<const part_record_t*>(item)))
        *static_cast<bool*>(argument) = true;
    return 0;
}

int add_nodes_of(void* item, void* argument) {
    const auto* part = static_cast<const part_record_t*>(item);
    if (!part->node_bitmap) return 0;
    const bitoff_t last = bit_fls(part->node_bitmap);
    for (bitoff_t i = bit_ffs(part->node_bitmap); i >= 0 && i <= last; ++i)
        if (bit_test(part->node_bitmap, i))
            static_cast<OtherNodes*>(argument)->add(static_cast<std::size_t>(i),
                                                    has_other_topology(part));
    return 0;
}

/// Nothing where there are none, as on most sites.
std::optional<OtherNodes> nodes_of_other_topology() {
    bool any = false;
    list_for_each_ro(part_list, note_other_topology, &any);
    if (!any) return std::nullopt;
    OtherNodes found(static_cast<std::size_t>(node_record_count));
    list_for_each_ro(part_list, add_nodes_of, &found);
    return found.empty() ? std::nullopt : std::optional(std::move(found));
}

NodeTable read_nodes(ClusterView& view) {
    NodeTable table;
    table.ours.assign(static_cast<std::size_t>(node_record_count), -1);
    const ReservedNodes reserved = nodes_reserved_by_arena();
    const Network& network = known_network();
    view.snapshot.topology = network.topology;
    view.snapshot.switches = network.switches;
    view.ranks_follow_network = ranks_follow_network();
    const std::optional<OtherNodes> others = nodes_of_other_topology();
    const std::int32_t unknown = others ? add_unknown_leaf(view.snapshot) : -1;
    for (int i = 0; i < node_record_count; ++i) {
        const node_record_t* node = node_record_table_ptr[i];
        if (!node || !node->name) continue;
        table.ours[static_cast<std::size_t>(i)] =
            static_cast<std::int32_t>(view.snapshot.nodes.size());
        if (auto record = node_record(node, reserved))
            view.node_records.emplace(static_cast<NodeIndex>(view.snapshot.nodes.size()),
                                      *std::move(record));
        const auto power = power_of(node);
        for (NodeState& state : read_node(node)) {
            if (power) view.power[static_cast<NodeIndex>(view.snapshot.nodes.size())] = *power;
            const auto at = static_cast<std::size_t>(i);
            state.leaf = others && others->has(at) ? unknown : network.leaf_of[at];
            view.node_cpus.push_back(state.free_cpus);
            view.node_memory_mb.push_back(state.free_memory_mb);
            view.snapshot.nodes.push_back(std::move(state));
        }
    }
    table.nodes = &view.snapshot.nodes;
    return table;
}

void read_partitions(ClusterView& view, const NodeTable& table) {
    PartitionWalk walk{&view, &table};
    list_for_each_ro(part_list, visit_partition, &walk);
}

Occupied occupied_by(const job_record_t* job, const NodeTable& table) {
    Occupied held{.job = job->job_id, .end_s = static_cast<double>(job->end_time), .parts = {}};
    const job_resources* resources = job->job_resrcs;
    if (!resources || !resources->node_bitmap || !resources->cpus) return held;
    std::vector<HeldGpus> gpus;
    if (job->gres_list_alloc) list_for_each_ro(job->gres_list_alloc, add_held, &gpus);
    const bitoff_t last = bit_fls(resources->node_bitmap);
    std::size_t slot = 0;
    for (bitoff_t i = bit_ffs(resources->node_bitmap); i >= 0 && i <= last; ++i) {
        if (!bit_test(resources->node_bitmap, i)) continue;
        const std::int32_t ours = table.ours[static_cast<std::size_t>(i)];
        if (ours >= 0) {
            Occupied::Part part{.node = static_cast<NodeIndex>(ours),
                                .cpus = resources->cpus[slot]};
            if (resources->memory_allocated)
                part.memory_mb = static_cast<std::int64_t>(resources->memory_allocated[slot]);
            held.parts.push_back(part);
            add_gpus_held(gpus, slot, table, held.parts);
        }
        ++slot;
    }
    return held;
}

std::vector<NodeIndex> entries_held(const Occupied& held, const NodeTable& table) {
    std::vector<NodeIndex> entries;
    for (const Occupied::Part& part : held.parts) {
        const bool more_of_last =
            table.nodes != nullptr && (*table.nodes)[part.node].same_node && !entries.empty() &&
            parts_of(*table.nodes, part.node).first == parts_of(*table.nodes, entries.back()).first;
        if (more_of_last) entries.pop_back();
        entries.push_back(part.node);
    }
    return entries;
}

/// Nothing for a job whose places depend on more: those are asked for one by one.
std::optional<NodeSets::NodeClass> NodeSets::node_class(const job_record_t* job) {
    const JobDetails* details = job->details;
    const bool names_nodes = details->exc_node_bitmap || details->req_node_bitmap || job->resv_name;
    if (names_nodes || has_deadline(job) || (job->part_ptr_list && partition_priorities(job)))
        return std::nullopt;
    const auto* cores = details->mc_ptr;
    return NodeClass(
        text_of(job->partition), text_of(details->features), text_of(details->prefer),
        text_of(job->account), text_of(job->alloc_node), job->part_ptr, job->user_id, job->qos_id,
        job->time_limit, job->time_min, details->pn_min_tmp_disk, job->warn_time, job->warn_flags,
        job->limit_set.time, details->whole_node, cores ? cores->sockets_per_node : NO_VAL16,
        cores ? cores->cores_per_socket : NO_VAL16, cores ? cores->threads_per_core : NO_VAL16);
}

const Placed& NodeSets::of(job_record_t* job) {
    const auto kind = node_class(job);
    if (!kind) return last_ = look_up(job);
    const auto known = classes_.find(*kind);
    if (known != classes_.end()) return known->second;
    return classes_.emplace(*kind, look_up(job)).first->second;
}

Placed NodeSets::look_up(job_record_t* job) {
    const PartitionTries tries = partition_tries(job);
    Placed placed;
    placed.tier = tier_of(tries.list);
    bitstr_t* all = bit_alloc(node_record_count);
    for (const NodeChoice& choice : node_choices(job, tries, lent_in_)) {
        bit_or(all, choice.nodes.get());
        placed.is_cut |= choice.is_cut;
        add_place(placed, choice, place_of(job, *choice.partition, intern(choice.nodes.get())));
    }
    const auto& slots = placed.slots;
    placed.node_set = slots.size() == 1 ? slots.front().place.node_set : intern(all);
    FREE_NULL_BITMAP(all);
    if (tries.list.empty())
        placed.no_place = text_of(reason_name(tries.why));
    else if (!has_gpus(placed.node_set))
        placed.no_nodes = why_no_nodes(job, tries);
    return placed;
}

/// Either what the job asks of its nodes, or a reservation leaves it none with GPUs.
std::string NodeSets::why_no_nodes(const job_record_t* job, const PartitionTries& tries) {
    const auto some = [&](const PartitionTry& where) {
        return has_gpus(intern(suitable_nodes(job, where).get()));
    };
    if (std::none_of(tries.list.begin(), tries.list.end(), some)) return bad_constraints(job);
    return "ReqNodeNotAvail, May be reserved for other job";
}

bool NodeSets::has_gpus(std::uint32_t node_set) const {
    const std::vector<NodeIndex>& nodes = view_.snapshot.node_sets[node_set];
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](NodeIndex index) { return view_.snapshot.nodes[index].total_gpus > 0; });
}

std::vector<NodeIndex> NodeSets::ours(const bitstr_t* nodes) const {
    std::vector<NodeIndex> list;
    for (std::size_t i = 0; nodes && i < table_.ours.size(); ++i)
        if (table_.ours[i] >= 0 && bit_test(const_cast<bitstr_t*>(nodes), static_cast<bitoff_t>(i)))
            view_.add_parts(static_cast<NodeIndex>(table_.ours[i]), list);
    return list;
}

std::uint32_t NodeSets::intern(const bitstr_t* nodes) {
    std::vector<NodeIndex> list = ours(nodes);
    const auto next = static_cast<std::uint32_t>(view_.snapshot.node_sets.size());
    const auto [known, added] = seen_.emplace(list, next);
    if (added) view_.snapshot.node_sets.push_back(std::move(list));
    return known->second;
}

}  // namespace arena
