// SPDX-License-Identifier: GPL-2.0-or-later
// `arena profile run`: measures models on this machine and adds the results to the store, or leaves
// them as files for `arena profile import`. arena-profiler does the measuring, as a program of its
// own; what the store has of this device goes with it, so that only the rest is measured.
#include "cli/cluster/profile_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "base/text.h"
#include "cli/common/program.h"
#include "ipc/child.h"
#include "planner/hardware/hardware.h"
#include "planner/models/readers.h"

namespace arena::cli {
namespace {

namespace fs = std::filesystem;

std::string profiler_path() {
    if (const char* path = std::getenv("ARENA_PROFILER")) return path;
    return libexec_program("arena-profiler");
}

/// Runs a program and waits; its standard output goes to `out` when that is not null. The exit
/// code, 128 + N for a signal. SIGINT reaches the profiler too, which then writes what it has: we
/// wait.
Result<int> run_profiler(const std::vector<std::string>& words, std::string* out) {
    std::signal(SIGINT,
                SIG_IGN);  // Ctrl-C is for the profiler, which keeps what it has; we import that
    const auto ran = run_child({.words = words,
                                .in = Stream::inherited,
                                .out = out != nullptr ? Stream::pipe : Stream::inherited,
                                .not_ignored = {SIGINT}},
                               Child::Clock::time_point::max(), max_profile_bytes);
    if (!ran || ran->end.status == 127)
        return environment_error("cannot be run; is the profiler installed?", words[0]);
    if (out != nullptr) *out = ran->out;
    return ran->end.status;
}

/// A directory of our own that goes with us.
class Workplace {
  public:
    Workplace() {
        char name[] = "/tmp/arena-profile-XXXXXX";
        if (const char* made = ::mkdtemp(name)) path_ = made;
    }
    ~Workplace() {
        std::error_code ignored;
        if (!path_.empty()) fs::remove_all(path_, ignored);
    }
    Workplace(const Workplace&) = delete;
    Workplace& operator=(const Workplace&) = delete;
    [[nodiscard]] bool ok() const { return !path_.empty(); }
    [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

/// What one model's run gave.
struct Row {
    std::string model, status;
    Profile profile;
};

class ProfileRunner {
  public:
    ProfileRunner(const Globals& globals, const RunOptions& options, ProfileStore* store)
        : globals_(globals), options_(options), store_(store) {}

    int run() {
        if (!workplace_.ok())
            return fail(globals_, environment_error(std::strerror(errno), "/tmp"));
        if (auto s = find_device(); !s) return fail(globals_, s.error());
        int worst = exit_yes;
        for (std::size_t i = 0; i < options_.models.size(); ++i) {
            auto row = measure(options_.models[i]);
            const std::string reason = row ? row->profile.reason : row.error().text;
            if (!row) worst = std::max(worst, fail(globals_, row.error()));
            if (!row && row.error().code != ErrorCode::no)
                break;  // the next would fail the same way
            if (row) rows_.push_back(std::move(row).value());
            if (reason.find("stopped by") == std::string::npos) continue;
            worst = std::max(worst, stopped(options_.models.size() - i - 1));
            break;
        }
        print();
        return worst;
    }

  private:
    /// By Ctrl-C, most likely.
    static int stopped(std::size_t left) {
        fmt::print(stderr,
                   "arena: stopped; what was measured is kept, {} more model{} not measured\n",
                   left, left == 1 ? " was" : "s were");
        return exit_no;
    }
    /// The identity decides which rows of the store hold here.
    Status find_device() {
        if (store_ == nullptr) return Done{};
        std::string text;
        std::vector<std::string> words{profiler_path(), "device"};
        if (options_.threads > 0)
            words.insert(words.end(), {"--threads", std::to_string(options_.threads)});
        words.insert(words.end(), {"--device", options_.emulated ? "cpu" : "cuda"});
        const auto code = run_profiler(words, &text);
        if (!code) return code.error();
        if (*code != 0) return environment_error("the device cannot be used (see above)");
        const auto json = parse_json(text);
        std::optional<Error> error;
        if (json) JsonFields(*json, "device", error).text("identity", identity_, 1024);
        if (!json || error) return environment_error("arena-profiler device answered no JSON");
        return Done{};
    }

    std::vector<std::string> command(const std::string& model, const std::string& out) const {
        std::vector<std::string> words{profiler_path(), "run", "--model", model, "--out", out};
        const auto add = [&](const char* flag, const std::string& value) {
            if (!value.empty()) words.insert(words.end(), {flag, value});
        };
        add("--batch", std::to_string(options_.global_batch));
        add("--max-gpus", std::to_string(options_.max_gpus));
        add("--gpus-per-node", std::to_string(options_.gpus_per_node));
        add("--hardware", options_.hardware);
        add("--hardware-file", options_.hardware_file);
        add("--gpu-type", options_.gpu_type);
        add("--budget", fmt::format("{}", options_.budget_s));
        if (options_.threads > 0) add("--threads", std::to_string(options_.threads));
        return words;
    }

    /// What the store, or the runs before this one, have of this device and GPU type, as a file.
    Result<std::string> known_file() {
        if (store_ == nullptr) return previous_;
        auto entries = store_->measured_on(options_.gpu_type, identity_);
        if (!entries) return entries.error();
        if (entries->empty()) return std::string();
        Profile known = device_profile();
        for (ProfileEntry& e : *entries)
            if (known.entries.size() < max_profile_entries / 2)
                known.entries.push_back(std::move(e));
        const std::string path = workplace_.file("known.json");
        if (auto s = write_file_atomic(path, to_json(known) + "\n"); !s) return s.error();
        return path;
    }

    /// Only its identity is compared.
    Profile device_profile() const {
        Profile p;
        p.nonce = "knownknownknownknown";
        p.gpu_type = options_.gpu_type;
        p.hardware = options_.hardware;
        p.model_fingerprint = no_fingerprint;
        const auto parts = split(identity_, '|');
        p.device.kind = parts[0];
        if (parts.size() > 1) p.device.name = parts[1];
        if (parts.size() > 2) p.device.driver = parts[2];
        if (parts.size() > 3) p.device.library = parts[3];
        if (parts.size() > 4) p.device.threads = parse_integer(parts[4], 0, 65536).value_or(0);
        return p;
    }

    Result<Row> measure(const std::string& model) {
        const bool keep = !options_.out_dir.empty();
        const std::string name = fs::path(model).stem().string();
        const std::string out =
            keep ? options_.out_dir + "/" + options_.gpu_type + "-" + name + ".json"
                 : workplace_.file("out.json");
        std::vector<std::string> words = command(model, out);
        const auto known = known_file();
        if (!known) return known.error();
        if (!known->empty()) words.insert(words.end(), {"--reuse", *known});
        if (!globals_.json) fmt::print(stderr, "{} on {}\n", name, options_.gpu_type);
        const auto code = run_profiler(words, nullptr);
        if (!code) return code.error();
        if (*code == exit_usage) return usage_error("refused by arena-profiler (see above)", name);
        if (*code != 0 && *code != exit_no)
            return environment_error("the run failed (see above)", name);
        return take(name, out);
    }

    Result<Row> take(const std::string& name, const std::string& out) {
        const auto text = read_regular_file(out, max_profile_bytes);
        if (!text) return text.error();
        auto profile = parse_profile(*text);
        if (!profile) return environment_error(profile.error().message(), out);
        if (store_ != nullptr)
            if (auto s = store_->import(*profile, name); !s) return s.error();
        if (profile->status == ProfileStatus::failed)
            return no_error("not profiled: " + profile->reason, name);
        if (store_ == nullptr) previous_ = out;
        return Row{name, std::string(to_string(profile->status)), std::move(profile).value()};
    }

    void print() const {
        Json runs = Json::array();
        Table table({{"model"},
                     {"status"},
                     {"operators", true},
                     {"measured", true},
                     {"re-used", true},
                     {"device s", true},
                     {"directly s", true}});
        std::int64_t wanted = 0, reused = 0;
        double spent_s = 0, direct_s = 0;
        for (const Row& row : rows_) {
            const Profile& p = row.profile;
            wanted += p.wanted, reused += p.reused;
            spent_s += p.device_seconds, direct_s += p.direct_seconds;
            table.add({row.model, row.status, fmt::format("{}", p.wanted),
                       fmt::format("{}", p.entries.size()), fmt::format("{}", p.reused),
                       fmt::format("{:.1f}", p.device_seconds),
                       fmt::format("{:.0f}", p.direct_seconds)});
            runs.push_back({{"model", row.model},
                            {"status", row.status},
                            {"nonce", p.nonce},
                            {"wanted", p.wanted},
                            {"measured", p.entries.size()},
                            {"reused", p.reused},
                            {"device_seconds", p.device_seconds},
                            {"direct_seconds", p.direct_seconds}});
        }
        if (globals_.json) {
            fmt::print("{}\n", dump_json({{"schema_version", 1},
                                          {"runs", runs},
                                          {"device_seconds", spent_s},
                                          {"direct_seconds", direct_s}}));
            return;
        }
        fmt::print("{}", table.text());
        if (rows_.size() > 1 && wanted > 0 && spent_s > 0)
            fmt::print(
                "{} of {} operators re-used ({:.0f} %); {} of the device, {:.3g} times less than "
                "{} iterations of every grid\n",
                reused, wanted, 100.0 * static_cast<double>(reused) / static_cast<double>(wanted),
                human_seconds(spent_s), direct_s / spent_s, direct_iterations);
    }

    const Globals& globals_;
    const RunOptions& options_;
    ProfileStore* store_;
    Workplace workplace_;
    std::string identity_, previous_;
    std::vector<Row> rows_;
};

}  // namespace

Status complete(RunOptions& options, const std::vector<GpuType>& hardware) {
    if (options.zoo) {
        if (!options.models.empty()) return usage_error("give models or --zoo, not both", "--zoo");
        options.models = zoo_names();
    }
    if (options.models.empty()) return usage_error("give models by name or file, or --zoo");
    const auto type = find_hardware(hardware, options.hardware);
    if (!type) return type.error();
    options.hardware = type->name;
    options.emulated = type->emulated;
    if (options.gpu_type.empty()) options.gpu_type = type->name;
    if (options.gpus_per_node == 0)
        options.gpus_per_node = std::max<std::int64_t>(1, type->gpus_per_node);
    if (!options.out_dir.empty() && ::access(options.out_dir.c_str(), W_OK | X_OK) != 0)
        return environment_error(std::string("cannot write there: ") + std::strerror(errno),
                                 options.out_dir);
    return Done{};
}

int run_profiles(const Globals& globals, const RunOptions& options, ProfileStore* store) {
    return ProfileRunner(globals, options, store).run();
}

}  // namespace arena::cli
