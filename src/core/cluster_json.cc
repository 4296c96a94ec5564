// SPDX-License-Identifier: GPL-2.0-or-later
// JSON of what a policy sees and answers: Snapshot, Offers, Decision. Snapshots are checked for
// consistency: indices in range, node sets sorted, ids once.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/names.h"
#include "core/limits.h"
#include "core/values_json.h"

namespace arena {
namespace {
constexpr std::array<Name<NetworkKind>, 3> network_names{
    {{NetworkKind::flat, "flat"}, {NetworkKind::tree, "tree"}, {NetworkKind::block, "block"}}};
}

std::string_view to_string(NetworkKind kind) { return name_of(network_names, kind); }
std::optional<NetworkKind> parse_network_kind(std::string_view text) {
    return value_of(network_names, text);
}

std::int32_t SwitchTable::add(const std::vector<std::string>& path) {
    std::int32_t last = -1;
    for (const std::string& name : path) {
        const auto next = static_cast<std::int32_t>(switches_.size());
        const auto [at, is_new] = known_.try_emplace({last, name}, next);
        if (is_new) switches_.push_back({name, last});
        last = at->second;
    }
    return last;
}

std::vector<std::string> path_of(const std::vector<Switch>& switches, std::int32_t leaf) {
    std::vector<std::string> path;
    for (; leaf >= 0; leaf = switches[static_cast<std::size_t>(leaf)].above)
        path.push_back(switches[static_cast<std::size_t>(leaf)].name);
    std::reverse(path.begin(), path.end());
    return path;
}

namespace {

constexpr std::size_t max_items = std::size_t{1} << 20;
constexpr std::size_t max_node_sets = 4096, max_places = 1024;
constexpr std::size_t max_levels = 16;  // of switches
constexpr std::size_t max_offers = 65536;
constexpr std::size_t max_reason = 1024;
constexpr int schema_version = 1;

void read_job_id(const JsonFields& fields, JobId& out) {
    std::int64_t id = out;
    fields.integer("job", id, 0, UINT32_MAX);
    out = static_cast<JobId>(id);
}

void read_indices(const JsonFields& fields, const char* key, std::vector<NodeIndex>& out) {
    std::vector<std::int64_t> wide;
    fields.integers(key, wide, 0, UINT32_MAX, max_items);
    out.clear();
    for (const std::int64_t index : wide) out.push_back(static_cast<NodeIndex>(index));
}

void read_version(const JsonFields& fields) {
    std::int64_t version = 0;
    fields.integer("schema_version", version, schema_version, schema_version);
}

struct JobOffers {
    JobId job = 0;
    std::vector<Offer> offers;
};

struct JobReason {
    JobId job = 0;
    std::string reason;
};

struct JobPatience {
    JobId job = 0;
    double until_s = 0;
};

// Declared before the templates: argument-dependent lookup does not look into this namespace.
Json json_of(const Place&);
void read(const Json&, const std::string&, std::optional<Error>&, Place&);
Json json_of(const Occupied::Part&);
Json json_of(const Occupied&);
void read(const Json&, const std::string&, std::optional<Error>&, Occupied::Part&);
void read(const Json&, const std::string&, std::optional<Error>&, Occupied&);
Json json_of(const NodeState&);
Json json_of(const JobState&);
Json json_of(const Action&);
void read(const Json&, const std::string& where, std::optional<Error>&, NodeState&);
void read(const Json&, const std::string& where, std::optional<Error>&, JobState&);
void read(const Json&, const std::string& where, std::optional<Error>&, Action&);
void read(const Json&, const std::string& where, std::optional<Error>&, JobOffers&);
void read(const Json&, const std::string& where, std::optional<Error>&, JobReason&);
void read(const Json&, const std::string& where, std::optional<Error>&, JobPatience&);

template <typename T>
void read_list(const JsonFields& fields, const char* key, std::size_t limit,
               std::optional<Error>& error, std::vector<T>& out) {
    const Json* list = fields.list(key, limit);
    if (list == nullptr) return;
    out.clear();
    out.reserve(list->size());
    for (const Json& item : *list) {
        const std::string where = fmt::format("{}[{}]", fields.path(key), out.size());
        read(item, where, error, out.emplace_back());
        if (error) return;
    }
}

template <typename T>
Json list_of(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(json_of(value));
    return list;
}

Json json_of(const NodeState& node) {
    Json json{{"name", node.name},
              {"gpu_type", node.gpu_type},
              {"total_gpus", node.total_gpus},
              {"free_gpus", node.free_gpus},
              {"free_cpus", node.free_cpus},
              {"free_memory_mb", node.free_memory_mb}};
    if (!node.up) json["up"] = false;
    if (!node.lent.empty()) json["lent"] = node.lent;
    if (node.returning_s != 0) json["returning"] = node.returning_s;
    if (node.slow != 1) json["slow"] = node.slow;
    if (node.same_node) json["same_node"] = true;
    if (node.weight != 1) json["weight"] = node.weight;
    if (node.boot_s != 0) json["boot_s"] = node.boot_s;
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, NodeState& out) {
    const JsonFields fields(json, where, error);
    fields.text("name", out.name);
    fields.text("gpu_type", out.gpu_type);
    fields.integer("total_gpus", out.total_gpus, 0, limits::gpus);
    fields.integer("free_gpus", out.free_gpus, 0, limits::gpus);
    fields.integer("free_cpus", out.free_cpus, 0, limits::integer);
    fields.integer("free_memory_mb", out.free_memory_mb, 0, limits::integer);
    if (fields.has("up")) fields.boolean("up", out.up);
    if (fields.has("lent")) fields.text("lent", out.lent, limits::name_bytes);
    if (fields.has("returning")) fields.number("returning", out.returning_s, 0, limits::number);
    if (fields.has("slow")) fields.number("slow", out.slow, 1, limits::number);
    if (fields.has("same_node")) fields.boolean("same_node", out.same_node);
    if (fields.has("weight")) fields.integer("weight", out.weight, 0, UINT32_MAX);
    if (fields.has("boot_s")) fields.number("boot_s", out.boot_s, 0, limits::number);
}

void put_history(const JobState& job, Json& json) {
    if (!job.nodes.empty()) json["nodes"] = job.nodes;
    if (job.overrun) json["overrun"] = true;
    if (job.patient_until_s != 0) json["patient_until_s"] = job.patient_until_s;
    if (job.due_s != 0) json["due_s"] = job.due_s;
    if (job.settles_s != 0) json["settles_s"] = job.settles_s;
    for (const std::int64_t took_s : job.moves_took_s)
        if (took_s > 0) json["moves_took_s"].push_back(took_s);
    if (job.start_s != 0) json["start_s"] = job.start_s;
    if (job.done_iterations != 0) json["done_iterations"] = job.done_iterations;
    if (job.attained_gpu_s != 0) json["attained_gpu_s"] = job.attained_gpu_s;
    if (!job.requested_type.empty()) json["requested_type"] = job.requested_type;
    if (job.requested_gpus != 0) json["requested_gpus"] = job.requested_gpus;
    if (!job.account.empty()) json["account"] = job.account;
    if (job.ordinary) json["ordinary"] = true;
    if (job.behind_ordinary) json["behind_ordinary"] = true;
}

constexpr std::pair<const char*, std::int64_t Place::*> place_limits[] = {
    {"max_nodes", &Place::max_nodes},
    {"max_cpus_per_node", &Place::max_cpus_per_node},
    {"max_memory_mb_per_node", &Place::max_memory_mb_per_node}};

Json json_of(const Place& place) {
    Json json{{"node_set", place.node_set}};
    if (place.min_nodes != 1) json["min_nodes"] = place.min_nodes;
    for (const auto& [key, limit] : place_limits)
        if (place.*limit != INT64_MAX) json[key] = place.*limit;
    if (place.other_network) json["other_network"] = true;
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Place& out) {
    const JsonFields fields(json, where, error);
    std::int64_t node_set = 0;
    fields.integer("node_set", node_set, 0, static_cast<std::int64_t>(max_node_sets) - 1);
    out.node_set = static_cast<std::uint32_t>(node_set);
    if (fields.has("min_nodes")) fields.integer("min_nodes", out.min_nodes, 0, INT64_MAX);
    for (const auto& [key, limit] : place_limits)
        if (fields.has(key)) fields.integer(key, out.*limit, 0, INT64_MAX);
    if (fields.has("other_network")) fields.boolean("other_network", out.other_network);
}

Json json_of(const Occupied::Part& part) {
    return {{"node", part.node},
            {"gpus", part.gpus},
            {"cpus", part.cpus},
            {"memory_mb", part.memory_mb}};
}

void read(const Json& json, const std::string& where, std::optional<Error>& error,
          Occupied::Part& out) {
    const JsonFields fields(json, where, error);
    std::int64_t node = 0;
    fields.integer("node", node, 0, static_cast<std::int64_t>(max_items) - 1);
    out.node = static_cast<NodeIndex>(node);
    fields.integer("gpus", out.gpus, 0, limits::gpus);
    fields.integer("cpus", out.cpus, 0, limits::integer);
    fields.integer("memory_mb", out.memory_mb, 0, limits::integer);
}

/// Without an end: nobody knows it.
Json json_of(const Occupied& held) {
    Json json{{"job", held.job}, {"parts", list_of(held.parts)}};
    if (std::isfinite(held.end_s)) json["end_s"] = held.end_s;
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Occupied& out) {
    const JsonFields fields(json, where, error);
    read_job_id(fields, out.job);
    out.end_s = INFINITY;
    if (fields.has("end_s")) fields.number("end_s", out.end_s, 0, limits::number);
    read_list(fields, "parts", max_items, error, out.parts);
}

Json json_of(const JobState& job) {
    Json json{{"job", job.id},
              {"phase", job.phase == JobPhase::running ? "running" : "pending"},
              {"priority", job.priority},
              {"submit_s", job.submit_s},
              {"age_s", job.age_s},
              {"gpu_types", job.gpu_types},
              {"min_gpus", job.min_gpus},
              {"max_gpus", job.max_gpus},
              {"cpus_per_gpu", job.cpus_per_gpu},
              {"memory_mb_per_gpu", job.memory_mb_per_gpu},
              {"node_set", job.node_set},
              {"remaining_iterations", job.remaining_iterations},
              {"time_limit_s", job.time_limit_s},
              {"elastic", job.elastic},
              {"restarts", job.restarts}};
    if (job.current) json["current"] = json_of(*job.current);
    if (!job.places.empty()) json["places"] = list_of(job.places);
    put_history(job, json);
    return json;
}

/// Members that older documents lack: absent means zero or empty.
void read_history(const JsonFields& fields, JobState& out) {
    if (fields.has("nodes")) read_indices(fields, "nodes", out.nodes);
    if (fields.has("overrun")) fields.boolean("overrun", out.overrun);
    if (fields.has("patient_until_s"))
        fields.number("patient_until_s", out.patient_until_s, 0, limits::number);
    if (fields.has("due_s")) fields.number("due_s", out.due_s, 0, limits::number);
    if (fields.has("settles_s")) fields.number("settles_s", out.settles_s, 0, limits::number);
    if (fields.has("moves_took_s")) {
        std::vector<std::int64_t> took;
        fields.integers("moves_took_s", took, 1, limits::integer, out.moves_took_s.size());
        if (fields.ok()) std::copy(took.begin(), took.end(), out.moves_took_s.begin());
    }
    if (fields.has("start_s")) fields.number("start_s", out.start_s, 0, limits::number);
    if (fields.has("done_iterations")) {
        fields.number("done_iterations", out.done_iterations, 0, limits::number);
    }
    if (fields.has("attained_gpu_s"))
        fields.number("attained_gpu_s", out.attained_gpu_s, 0, limits::number);
    if (fields.has("requested_type"))
        fields.text("requested_type", out.requested_type, limits::name_bytes);
    if (fields.has("requested_gpus")) {
        fields.integer("requested_gpus", out.requested_gpus, 0, limits::gpus);
    }
    if (fields.has("account")) fields.text("account", out.account, limits::name_bytes);
    if (fields.has("ordinary")) fields.boolean("ordinary", out.ordinary);
    if (fields.has("behind_ordinary")) fields.boolean("behind_ordinary", out.behind_ordinary);
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, JobState& out) {
    const JsonFields fields(json, where, error);
    read_job_id(fields, out.id);
    std::string phase;
    fields.text("phase", phase);
    if (fields.ok() && phase != "pending" && phase != "running") {
        fields.refuse("phase", "one of pending, running");
    }
    out.phase = phase == "running" ? JobPhase::running : JobPhase::pending;
    fields.number("priority", out.priority, -limits::number, limits::number);
    fields.number("submit_s", out.submit_s, 0, limits::number);
    fields.number("age_s", out.age_s, 0, limits::number);
    fields.texts("gpu_types", out.gpu_types, limits::gpu_types, limits::name_bytes);
    fields.integer("min_gpus", out.min_gpus, 1, limits::gpus);
    fields.integer("max_gpus", out.max_gpus, 1, INT64_MAX);
    fields.integer("cpus_per_gpu", out.cpus_per_gpu, 0, limits::gpus);
    fields.integer("memory_mb_per_gpu", out.memory_mb_per_gpu, 0, std::int64_t{1} << 30);
    std::int64_t node_set = 0;
    fields.integer("node_set", node_set, 0, static_cast<std::int64_t>(max_node_sets) - 1);
    out.node_set = static_cast<std::uint32_t>(node_set);
    if (fields.has("places")) read_list(fields, "places", max_places, error, out.places);
    fields.number("remaining_iterations", out.remaining_iterations, 0, limits::number);
    fields.number("time_limit_s", out.time_limit_s, 0, limits::number);
    fields.boolean("elastic", out.elastic);
    fields.integer("restarts", out.restarts, 0, limits::integer);
    read_history(fields, out);
    if (!fields.has("current")) return;
    if (const Json* current = fields.any("current")) {
        read(*current, fields.path("current"), error, out.current.emplace());
    }
}

bool is_good_node_set(const std::vector<NodeIndex>& set, std::size_t nodes) {
    const bool ascending =
        std::adjacent_find(set.begin(), set.end(), std::greater_equal<>()) == set.end();
    return ascending && (set.empty() || set.back() < nodes);
}

/// The nodes that a job names are those of its grid: as many, each once, of its GPU type.
bool holds_its_grid(const JobState& job, const Snapshot& snapshot) {
    if (job.nodes.empty()) return true;
    if (!job.current) return false;
    const Grid& grid = job.current->grid;
    const std::set<NodeIndex> nodes(job.nodes.begin(), job.nodes.end());
    return nodes.size() == job.nodes.size() &&
           static_cast<std::int64_t>(nodes.size()) == grid.nodes &&
           std::all_of(nodes.begin(), nodes.end(), [&](NodeIndex node) {
               return snapshot.nodes[node].gpu_type == grid.gpu_type;
           });
}

/// An entry that says it is of the same node as the one before says the same of it.
bool has_good_parts(const std::vector<NodeState>& nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (!nodes[i].same_node) continue;
        if (i == 0 || nodes[i].name != nodes[i - 1].name ||
            nodes[i].free_cpus != nodes[i - 1].free_cpus ||
            nodes[i].free_memory_mb != nodes[i - 1].free_memory_mb)
            return false;
    }
    return true;
}

void check(const Snapshot& snapshot, const JsonFields& fields) {
    std::set<JobId> ids;
    if (!has_good_parts(snapshot.nodes)) {
        return fields.refuse("nodes",
                             "same_node after an entry of the same name, free_cpus and "
                             "free_memory_mb");
    }
    for (const auto& set : snapshot.node_sets) {
        if (!is_good_node_set(set, snapshot.nodes.size())) {
            return fields.refuse("node_sets", "ascending lists of indices into nodes");
        }
    }
    for (const JobState& job : snapshot.jobs) {
        if (job.node_set >= snapshot.node_sets.size()) {
            return fields.refuse("jobs", "a node_set that is an index into node_sets");
        }
        const auto is_no_set = [&](const Place& place) {
            return place.node_set >= snapshot.node_sets.size();
        };
        if (std::any_of(job.places.begin(), job.places.end(), is_no_set)) {
            return fields.refuse("jobs", "places with a node_set that is an index into node_sets");
        }
        if (job.min_gpus > job.max_gpus) return fields.refuse("jobs", "min_gpus <= max_gpus");
        const auto is_outside = [&](NodeIndex node) { return node >= snapshot.nodes.size(); };
        if (std::any_of(job.nodes.begin(), job.nodes.end(), is_outside)) {
            return fields.refuse("jobs", "nodes that are indices into nodes");
        }
        if (!holds_its_grid(job, snapshot)) {
            return fields.refuse("jobs", "nodes that are those of the job's grid, each once");
        }
        if (!ids.insert(job.id).second) return fields.refuse("jobs", "each job id once");
    }
    for (const Occupied& held : snapshot.others) {
        const auto is_outside = [&](const Occupied::Part& part) {
            return part.node >= snapshot.nodes.size();
        };
        if (std::any_of(held.parts.begin(), held.parts.end(), is_outside))
            return fields.refuse("others", "parts with nodes that are indices into nodes");
    }
}

void read_node_sets(const JsonFields& fields, std::vector<std::vector<NodeIndex>>& out) {
    const Json* sets = fields.list("node_sets", max_node_sets);
    if (sets == nullptr) return;
    out.clear();
    for (const Json& set : *sets) {
        auto& indices = out.emplace_back();
        if (!set.is_array()) return fields.refuse("node_sets", "a list of lists");
        for (const Json& index : set) {
            if (!index.is_number_unsigned() || index.get<std::uint64_t>() > UINT32_MAX) {
                return fields.refuse("node_sets", "ascending lists of indices into nodes");
            }
            indices.push_back(index.get<NodeIndex>());
        }
    }
}

Json json_of(const Action& action) {
    Json json{{"kind", to_string(action.kind)},
              {"job", action.job},
              {"nodes", action.nodes},
              {"gpu_type", action.gpu_type},
              {"reason", action.reason}};
    if (action.place != 0) json["place"] = action.place;
    if (!action.kept.empty()) json["kept"] = action.kept;
    if (action.offer != Offer{}) json["offer"] = json_of(action.offer);
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Action& out) {
    const JsonFields fields(json, where, error);
    fields.word("kind", out.kind, &parse_action_kind,
                "one of start, reshape_and_wait, resize, profile, preempt");
    read_job_id(fields, out.job);
    read_indices(fields, "nodes", out.nodes);
    fields.text("gpu_type", out.gpu_type);
    fields.text("reason", out.reason, max_reason);
    if (fields.has("kept")) read_indices(fields, "kept", out.kept);
    if (fields.has("place")) {
        std::int64_t place = 0;
        fields.integer("place", place, 0, static_cast<std::int64_t>(max_places) - 1);
        out.place = static_cast<std::uint32_t>(place);
    }
    if (!fields.has("offer")) return;
    if (const Json* offer = fields.any("offer")) {
        read(*offer, fields.path("offer"), error, out.offer);
    }
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, JobOffers& out) {
    const JsonFields fields(json, where, error);
    read_job_id(fields, out.job);
    read_list(fields, "offers", max_offers, error, out.offers);
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, JobReason& out) {
    const JsonFields fields(json, where, error);
    read_job_id(fields, out.job);
    fields.text("reason", out.reason, max_reason);
}

void read(const Json& json, const std::string& where, std::optional<Error>& error,
          JobPatience& out) {
    const JsonFields fields(json, where, error);
    read_job_id(fields, out.job);
    fields.number("until_s", out.until_s, 0, limits::number);
}

/// Paths of nodes, outermost switch first, become indices.
void read_switches(const JsonFields& fields, Snapshot& out) {
    out.topology = NetworkKind::flat;
    out.switches.clear();
    if (!fields.has("topology")) return;
    fields.word("topology", out.topology, &parse_network_kind, "one of flat, tree, block");
    const Json* nodes = fields.list("nodes", max_items);
    if (nodes == nullptr || nodes->size() != out.nodes.size()) return;
    SwitchTable table;
    for (std::size_t n = 0; n < out.nodes.size(); ++n) {
        std::vector<std::string> path;
        std::optional<Error> error;
        const JsonFields node((*nodes)[n], "", error);
        if (node.has("switches")) node.texts("switches", path, max_levels, limits::name_bytes);
        if (error) return fields.refuse("nodes", "switches that are lists of at most 16 names");
        out.nodes[n].leaf = table.add(path);
    }
    out.switches = table.take();
}

}  // namespace

Json json_of(const Snapshot& snapshot) {
    Json json{{"schema_version", schema_version},  {"time_s", snapshot.time_s},
              {"generation", snapshot.generation}, {"nodes", list_of(snapshot.nodes)},
              {"node_sets", snapshot.node_sets},   {"jobs", list_of(snapshot.jobs)}};
    if (!snapshot.others.empty()) json["others"] = list_of(snapshot.others);
    if (snapshot.topology == NetworkKind::flat) return json;
    json["topology"] = to_string(snapshot.topology);
    for (std::size_t n = 0; n < snapshot.nodes.size(); ++n)
        if (snapshot.nodes[n].leaf >= 0)
            json["nodes"][n]["switches"] = path_of(snapshot.switches, snapshot.nodes[n].leaf);
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Snapshot& out) {
    const JsonFields fields(json, where, error);
    read_version(fields);
    fields.number("time_s", out.time_s, 0, limits::number);
    fields.unsigned_integer("generation", out.generation, UINT64_MAX);
    read_list(fields, "nodes", max_items, error, out.nodes);
    read_node_sets(fields, out.node_sets);
    read_list(fields, "jobs", max_items, error, out.jobs);
    out.others.clear();
    if (fields.has("others")) read_list(fields, "others", max_items, error, out.others);
    if (fields.ok()) read_switches(fields, out);
    if (fields.ok()) check(out, fields);
}

Json json_of(const Offers& offers) {
    Json jobs = Json::array();
    for (const auto& [job, list] : offers) {
        jobs.push_back({{"job", job}, {"offers", list_of(list.get())}});
    }
    return {{"schema_version", schema_version}, {"jobs", jobs}};
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Offers& out) {
    const JsonFields fields(json, where, error);
    read_version(fields);
    std::vector<JobOffers> jobs;
    read_list(fields, "jobs", max_items, error, jobs);
    out.clear();
    for (JobOffers& entry : jobs) {
        if (!out.emplace(entry.job, std::move(entry.offers)).second) {
            return fields.refuse("jobs", "each job id once");
        }
    }
}

Json json_of(const Decision& decision) {
    Json waiting = Json::array();
    for (const auto& [job, reason] : decision.waiting) {
        waiting.push_back({{"job", job}, {"reason", reason}});
    }
    Json json{{"schema_version", schema_version},
              {"actions", list_of(decision.actions)},
              {"waiting", waiting}};
    for (const auto& [job, until_s] : decision.patience)
        json["patience"].push_back({{"job", job}, {"until_s", until_s}});
    return json;
}

void read(const Json& json, const std::string& where, std::optional<Error>& error, Decision& out) {
    const JsonFields fields(json, where, error);
    read_version(fields);
    read_list(fields, "actions", max_items, error, out.actions);
    std::vector<JobReason> waiting;
    read_list(fields, "waiting", max_items, error, waiting);
    out.waiting.clear();
    for (JobReason& entry : waiting) {
        if (!out.waiting.emplace(entry.job, std::move(entry.reason)).second) {
            return fields.refuse("waiting", "each job id once");
        }
    }
    out.patience.clear();
    if (!fields.has("patience")) return;
    std::vector<JobPatience> patience;
    read_list(fields, "patience", max_items, error, patience);
    for (const JobPatience& entry : patience) {
        if (!out.patience.emplace(entry.job, entry.until_s).second)
            return fields.refuse("patience", "each job id once");
    }
}

std::string to_json(const Snapshot& v) { return dump_json(json_of(v)); }
std::string to_json(const Offers& v) { return dump_json(json_of(v)); }
std::string to_json(const Decision& v) { return dump_json(json_of(v)); }
Result<Snapshot> parse_snapshot(std::string_view s) { return parse_value<Snapshot>(s); }
Result<Offers> parse_offers(std::string_view s) { return parse_value<Offers>(s); }
Result<Decision> parse_decision(std::string_view s) { return parse_value<Decision>(s); }

}  // namespace arena
