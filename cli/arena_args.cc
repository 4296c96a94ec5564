// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-args [NAME[@VERSION]] [--version V] [--table FILE]`: the plan of an Arena job (the ARENA_*
// variables) as the words of a launcher, one per line, by the same tables as ARENA_ARGS. What the
// launcher cannot be told is refused with a sentence, never left out. Exit codes: 0 printed, 1 the
// launcher cannot be told this plan, 2 usage or no plan in the environment, 3 a file that cannot be
// read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "base/hostlist.h"
#include "base/json.h"
#include "base/text.h"
#include "base/user_file.h"
#include "cli/common/ask.h"
#include "core/offer.h"
#include "installed_paths.h"
#include "request/launchers.h"
#include "request/rendezvous.h"

using namespace arena;

namespace {

constexpr int exit_told = 0;
/// contrib/launchers/elastic.sh, for job scripts, which Slurm copies away from the files beside
/// them.
constexpr std::string_view elastic_script =
#include "cli/elastic_script.inc"
    ;
constexpr std::size_t max_table_bytes = 64 * 1024;

struct Arguments {
    std::string launcher, version, table, mounts;
    bool list = false, versions = false, elastic = false, python = false, help = false;
};

std::string usage_line() {
    return fmt::format(
        "usage: arena-args [NAME[@VERSION]] [--version V] [--table FILE] [--list] [--versions] "
        "[--elastic] [--python] [--mounts RUNTIME], with NAME one of: {}; without it the job's "
        "ARENA_LAUNCHER",
        launcher_names());
}

Error misuse(std::string_view text) {
    return usage_error(fmt::format("{}; {}", text, usage_line()));
}

Result<Arguments> parse_arguments(const std::vector<std::string_view>& words) {
    Arguments a;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string_view word = words[i];
        if (word == "--version" || word == "--table" || word == "--mounts") {
            if (i + 1 == words.size() || words[i + 1].empty())
                return misuse(fmt::format("{} needs a value", word));
            (word == "--table" ? a.table : word == "--mounts" ? a.mounts : a.version) = words[++i];
        } else if (word == "--elastic" || word == "--python") {
            (word == "--elastic" ? a.elastic : a.python) = true;
        } else if (word == "--list" || word == "--versions" || word == "--help" || word == "-h") {
            (word == "--list" ? a.list : word == "--versions" ? a.versions : a.help) = true;
        } else if (word.starts_with("-")) {
            return misuse(fmt::format("unknown option {}", printable(word, 40)));
        } else if (!a.launcher.empty()) {
            return misuse("one launcher at a time");
        } else {
            a.launcher = word;
        }
    }
    return a;
}

// ---- the plan in the environment
// --------------------------------------------------------------------

class Environment {
  public:
    [[nodiscard]] static std::string text(const char* name, const char* other = "") {
        const char* value = std::getenv(name);
        return value == nullptr || *value == '\0' ? other : value;
    }

    /// At least `least`; the first that is wrong is remembered.
    std::int64_t number(const char* name, std::int64_t least, const char* other = "") {
        const std::string value = text(name, other);
        const auto parsed = parse_integer(value, least, 999'999'999);
        if (!parsed && !error_)
            error_ =
                usage_error(fmt::format("{} is not set to a number ({}): is this a job of Arena's?",
                                        name, value.empty() ? "empty" : printable(value, 40)));
        return parsed.value_or(least);
    }

    template <typename T>
    T word(const char* name, const char* other, std::optional<T> (*parse)(std::string_view)) {
        const std::string value = text(name, other);
        const std::optional<T> parsed = parse(value);
        if (!parsed && !error_)
            error_ = usage_error(fmt::format("{}={} is not known", name, printable(value, 40)));
        return parsed.value_or(T{});
    }

    void fail(std::string text) {
        if (!error_) error_ = usage_error(std::move(text));
    }
    [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  private:
    std::optional<Error> error_;
};

std::vector<std::int64_t> read_stages(Environment& environment, std::int64_t pp) {
    const std::string text = Environment::text("ARENA_STAGE_LAYERS");
    std::vector<std::int64_t> layers;
    for (const std::string_view part : split(text, ',')) {
        const auto number = parse_integer(part, 1, 999'999'999);
        if (!number) {
            environment.fail(
                fmt::format("ARENA_STAGE_LAYERS={} is no list of numbers", printable(text, 60)));
            return {1};
        }
        layers.push_back(*number);
    }
    if (static_cast<std::int64_t>(layers.size()) != pp)
        environment.fail(
            fmt::format("ARENA_STAGE_LAYERS={} does not have the {} stages of ARENA_PP",
                        printable(text, 60), pp));
    return layers;
}

Model read_model(Environment& environment) {
    Model model;
    model.precision = environment.word("ARENA_PRECISION", "bf16", parse_precision);
    model.family = environment.word("ARENA_MODEL_FAMILY", "gpt", parse_family);
    model.kv_heads = environment.number("ARENA_KV_HEADS", 0, "0");
    model.seq_length = environment.number("ARENA_SEQ_LENGTH", 0, "0");
    model.lora_rank = environment.number("ARENA_LORA_RANK", 0, "0");
    model.base_bits = environment.number("ARENA_BASE_BITS", 0, "0");
    if (is_adapted(model))
        if (const Status read =
                read_lora_parts(Environment::text("ARENA_LORA_TARGETS", "attention"), model);
            !read)
            environment.fail("ARENA_LORA_TARGETS: " + read.error().text);
    return model;
}

/// Stages that differ in dp or tp, and nodes that differ in GPUs, reach a job in ARENA_PLAN alone.
std::optional<Offer> read_offer(Environment& environment) {
    const std::string text = Environment::text("ARENA_PLAN");
    if (text.empty()) return std::nullopt;
    auto offer = parse_offer_json(text);
    if (!offer) environment.fail("ARENA_PLAN: " + offer.error().message());
    return offer ? std::optional(*std::move(offer)) : std::nullopt;
}

Plan read_plan(Environment& environment) {
    Plan plan;
    const std::int64_t pp = environment.number("ARENA_PP", 1);
    const std::int64_t dp = environment.number("ARENA_DP", 1),
                       tp = environment.number("ARENA_TP", 1);
    plan.micro_batch = environment.number("ARENA_MICRO_BATCH", 1);
    plan.num_micro_batches = environment.number("ARENA_NUM_MICRO_BATCHES", 1);
    plan.recompute = environment.word("ARENA_RECOMPUTE", "none", parse_recompute);
    plan.zero_stage = environment.number("ARENA_ZERO_STAGE", 0, "0");
    plan.sequence_parallel = environment.number("ARENA_SEQUENCE_PARALLEL", 0, "0") != 0;
    plan.vpp = environment.number("ARENA_VPP", 1, "1");
    plan.cp = environment.number("ARENA_CP", 1, "1");
    plan.ep = environment.number("ARENA_EP", 1, "1");
    plan.etp = environment.number("ARENA_ETP", 1, "1");
    plan.schedule = environment.word("ARENA_SCHEDULE", "1f1b", parse_schedule);
    plan.hsdp = environment.number("ARENA_HSDP", 0, "0");
    if (plan.hsdp != 0 && dp % plan.hsdp != 0)
        environment.fail(fmt::format("ARENA_HSDP={} does not divide ARENA_DP={}", plan.hsdp, dp));
    if (plan.hsdp != 0 && plan.zero_stage == 0)
        environment.fail(fmt::format(
            "ARENA_HSDP={} shares ZeRO's states, and ARENA_ZERO_STAGE=0 has none: accepted beside "
            "it are 1, 2 and 3",
            plan.hsdp));
    if (plan.etp > 1 && plan.ep == 1)
        environment.fail(fmt::format(
            "ARENA_ETP={} splits experts that are shared out, and ARENA_EP=1 shares none out",
            plan.etp));
    if (is_v_shaped(plan.schedule) && plan.vpp != 2)
        environment.fail(fmt::format("ARENA_SCHEDULE={} has two chunks a stage, and ARENA_VPP={}",
                                     to_string(plan.schedule), plan.vpp));
    if (plan.zero_stage > 3)
        environment.fail(fmt::format("ARENA_ZERO_STAGE={} is more than 3", plan.zero_stage));
    plan.stage_layers = read_stages(environment, pp);
    plan.stage_dp.assign(plan.stage_layers.size(), dp);
    plan.stage_tp.assign(plan.stage_layers.size(), tp);
    return plan;
}

void check_batch(Environment& environment, const Plan& plan, std::int64_t batch) {
    if (plan.micro_batch * plan.num_micro_batches * plan.dp() != batch)
        environment.fail(
            fmt::format("micro-batch {} x {} micro-batches x dp{} is not the global batch of {}",
                        plan.micro_batch, plan.num_micro_batches, plan.dp(), batch));
}

/// 0 for a batch script, whose step has no number of its own.
std::int64_t step_id() {
    return parse_integer(Environment::text("SLURM_STEP_ID", "0"), 0, 0x7fffffff).value_or(0);
}

/// NodeAddr, as slurmctld has it now; "" where it does not say.
std::string address_of_node(const std::string& node) {
    const auto text =
        cli::run_program({"scontrol", "show", "node", node}, std::chrono::seconds(10));
    if (!text || text->status != 0) return {};
    const auto fields = cli::parse_scontrol_fields(text->out);
    const auto address = fields.find("NodeAddr");
    return address == fields.end() ? "" : address->second;
}

/// The resolver and slurmctld are asked for launchers alone whose words name the host.
void read_host(Environment& environment, RankPlace& place) {
    const std::string nodes =
        Environment::text("SLURM_STEP_NODELIST", Environment::text("SLURM_JOB_NODELIST").c_str());
    const auto host = rendezvous_host(Environment::text(rendezvous_variable.data()), nodes,
                                      {resolves_soon, address_of_node});
    if (!host) return environment.fail(host.error().message());
    place.host = host->empty() ? "localhost" : *host;
}

/// Words are the same on all nodes.
void read_nodes(Environment& environment, const Launcher& launcher,
                const std::optional<Offer>& offer, std::int64_t gpus, RankPlace& place) {
    place.uneven = offer && offer->grid.is_uneven();
    if (!place.uneven && gpus % place.nodes != 0)
        environment.fail(
            fmt::format("{} ranks do not spread evenly over {} nodes", gpus, place.nodes));
    if (place.uneven && !launcher.uneven)
        environment.fail(
            fmt::format("{} cannot have {}: its nodes have the same number of ranks each",
                        launcher.name, short_form(offer->grid)));
}

RankPlace read_place(Environment& environment, const Launcher& launcher,
                     const std::optional<Offer>& offer, std::int64_t gpus) {
    RankPlace place;
    place.nodes = environment.number("SLURM_JOB_NUM_NODES", 1, "1");
    place.node_rank = environment.number("SLURM_NODEID", 0, "0");
    place.job = environment.number("SLURM_JOB_ID", 0, "0");
    place.port = master_port(place.job, step_id());
    if (launcher.names_hosts()) read_host(environment, place);
    read_nodes(environment, launcher, offer, gpus, place);
    return place;
}

Result<PlanWords> read_words(const Launcher& launcher) {
    Environment environment;
    const Model model = read_model(environment);
    Plan plan = read_plan(environment);
    const std::optional<Offer> offer = read_offer(environment);
    if (offer) {
        plan.stage_dp = offer->plan.stage_dp;
        plan.stage_tp = offer->plan.stage_tp;
    }
    const std::int64_t batch = environment.number("ARENA_GLOBAL_BATCH", 1);
    if (!environment.error()) check_batch(environment, plan, batch);
    RankPlace place = read_place(environment, launcher, offer, plan.gpus());
    if (environment.error()) return *environment.error();
    PlanWords words = words_of(model, batch, plan);
    words.place = std::move(place);
    return words;
}

// ---- the launcher
// -----------------------------------------------------------------------------------

struct Chosen {
    Launcher launcher;
    std::optional<Version> version;
};

/// The version that was asked for: --version, or the one of NAME@VERSION; "" where there is none.
std::string version_asked(const Arguments& a, const std::string& spelled) {
    if (!a.version.empty()) return a.version;
    const std::size_t at = spelled.find('@');
    return at == std::string::npos ? "" : spelled.substr(at + 1);
}

Result<Launcher> find_or_read(const Arguments& a, const std::string& spelled) {
    if (a.table.empty()) {
        const auto choice = parse_launcher(spelled.substr(0, spelled.find('@')));
        if (!choice) return usage_error(choice.error().text);
        return *choice->launcher;
    }
    const auto text = read_regular_file(a.table, max_table_bytes);
    if (!text) return text.error();
    return parse_launcher_table(*text, a.table);
}

Result<Chosen> choose(const Arguments& a) {
    std::string spelled = a.launcher;
    if (spelled.empty() && a.table.empty()) spelled = Environment::text("ARENA_LAUNCHER");
    if (spelled.empty() && a.table.empty())
        return misuse("no launcher is named, and ARENA_LAUNCHER is not set");
    auto launcher = find_or_read(a, spelled);
    if (!launcher) return launcher.error();
    Chosen chosen{std::move(launcher).value(), {}};
    chosen.version = chosen.launcher.version;
    if (spelled.ends_with('@') || !version_asked(a, spelled).empty()) {
        const auto version = parse_version_of(chosen.launcher, version_asked(a, spelled));
        if (!version) return usage_error(version.error().text);
        chosen.version = *version;
    }
    return chosen;
}

int fail(const Error& error) {
    fmt::print(stderr, "arena-args: {}\n", error.message());
    return exit_code(error.code);
}

int list_versions(const Launcher& launcher) {
    for (const Version& version : launcher.changes()) fmt::print("{}\n", to_string(version));
    return exit_told;
}

int tell(const Arguments& a) {
    const auto chosen = choose(a);
    if (!chosen) return fail(chosen.error());
    if (a.versions) return list_versions(chosen->launcher);
    const auto plan = read_words(chosen->launcher);
    if (!plan) return fail(plan.error());
    const auto words = render(chosen->launcher, chosen->version, *plan);
    if (!words) {
        const std::string version = chosen->version ? " " + to_string(*chosen->version) : "";
        return fail(no_error(fmt::format("{}{} cannot be told {}", chosen->launcher.name, version,
                                         words.error().text)));
    }
    for (const std::string& word : *words) fmt::print("{}\n", word);
    return exit_told;
}

std::string python_directory() {
    return Environment::text("ARENA_DATA_DIR", ARENA_PKGDATADIR) + "/python";
}

// ---- containers
// --------------------------------------------------------------------

/// How a runtime is told what its container has of the host. doc/containers.md says the rest.
struct Runtime {
    const char* name;
    const char* mount;   ///< of each directory: fmt's {0}
    const char* others;  ///< words without which a rank is not seen from outside; "" = none
};
constexpr Runtime runtimes[] = {
    {"charliecloud", "--bind={0}", ""},
    {"apptainer", "--bind={0}:{0}:ro", ""},
    {"singularity", "--bind={0}:{0}:ro", ""},
    {"podman", "--volume={0}:{0}:ro", "--env-host --pid=host --ipc=host --network=host"},
    {"enroot", "--mount={0}:{0}:rbind,ro,x-create=dir", ""},
};

int tell_mounts(const std::string& name) {
    for (const Runtime& runtime : runtimes) {
        if (name != runtime.name) continue;
        for (const std::string& path : {std::string(ARENA_LIBEXECDIR), python_directory()})
            fmt::print("{}\n", fmt::format(fmt::runtime(runtime.mount), path));
        for (const std::string_view word : split(runtime.others, ' '))
            if (!word.empty()) fmt::print("{}\n", word);
        return exit_told;
    }
    std::vector<std::string_view> names;
    for (const Runtime& runtime : runtimes) names.emplace_back(runtime.name);
    return fail(
        usage_error(fmt::format("--mounts {}: is none of {} (pyxis, and containers of Slurm's own: "
                                "doc/containers.md)",
                                printable(name, 40), fmt::join(names, ", "))));
}

int list_launchers() {
    std::vector<std::string> names;
    for (const Launcher& launcher : launchers()) names.push_back(launcher.name);
    fmt::print("{}\n", fmt::join(names, " "));
    return exit_told;
}

int main_of(int argc, char** argv) {
    const auto arguments = parse_arguments({argv + 1, argv + argc});
    if (!arguments) return fail(arguments.error());
    if (arguments->help) {
        fmt::print("{}\n", usage_line());
        return exit_told;
    }
    if (arguments->elastic) {
        fmt::print("{}", elastic_script);
        return exit_told;
    }
    if (arguments->python) {
        fmt::print("{}\n", python_directory());
        return exit_told;
    }
    if (!arguments->mounts.empty()) return tell_mounts(arguments->mounts);
    return arguments->list ? list_launchers() : tell(*arguments);
}

}  // namespace

int main(int argc, char** argv) {
    return arena::run_program("arena-args", [&] { return main_of(argc, argv); });
}
