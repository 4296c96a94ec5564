// SPDX-License-Identifier: GPL-2.0-or-later
// See prolog_help.h.
#include "profiler/core/prolog_help.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "profiler/core/request.h"
#include "site/config.h"

namespace arena {
namespace {

constexpr uid_t nobody_uid = 65534;

/// SlurmUser may own the configuration, as slurmctld reads it; root, who asks, always.
uid_t owner_of_site(const std::string& slurm_user) {
    const struct passwd* user = slurm_user.empty() ? nullptr : ::getpwnam(slurm_user.c_str());
    return user == nullptr ? ::geteuid() : user->pw_uid;
}

Status check_service_user(const struct passwd& user, const std::string& slurm_user) {
    const std::string name = user.pw_name;
    if (user.pw_uid == 0 || user.pw_uid == nobody_uid)
        return environment_error("profile.user must not be root or nobody, it is " + name);
    if (name == slurm_user && ::geteuid() != user.pw_uid)
        return environment_error("profile.user must not be SlurmUser (" + name + ")");
    return Done{};
}

/// Ends before the carrier's time limit: the budget and 10 s to start and write, 5 s for the kill.
std::int64_t inner_limit_s(const Config& c) {
    return static_cast<std::int64_t>(
        std::max(1.0, std::min(std::ceil(c.profile_budget_s) + 10, c.profile_time_limit_s - 5)));
}

std::string last_line(const std::string& path) {
    const auto text = read_regular_file(path, 1 << 20);
    if (!text) return {};
    const auto lines = split(trim(*text), '\n');
    return lines.empty() ? std::string() : printable(trim(lines.back()), 160);
}

std::string why(const RunEnd& end, const std::string& about_file) {
    std::string text;
    if (end.exit_code == 124)
        text = "profiler timed out and was stopped";
    else if (end.exit_code == 137)
        text = "profiler was killed: it timed out and ignored SIGTERM, or memory ran out";
    else if (end.exit_code > 128 && end.exit_code < 160)
        text = std::string("profiler was killed: ") + ::strsignal(end.exit_code - 128);
    else if (end.exit_code == 75)
        text = "another profiler kept this host's lock";
    else if (end.exit_code == 0)
        text = "profiler wrote no usable result: " + about_file;
    else
        text = "profiler ended with exit code " + std::to_string(end.exit_code);
    if (const auto line = last_line(end.log_path); !line.empty()) text += ": " + line;
    return printable(text, 240);
}

double spent_until_the_end(const RunEnd& end) {
    const auto text = read_regular_file(end.progress_path, 128);
    if (!text) return 0;
    const auto progress = parse_progress(*text);
    return progress ? progress->spent_s : 0;
}

Profile failed(const ProfileRequest& request, const RunEnd& end, const std::string& about_file) {
    Profile p;
    p.nonce = request.nonce;
    p.gpu_type = request.gpu_type;
    p.hardware = request.hardware;
    p.model_fingerprint = fingerprint(request.model);
    p.device.kind = "cpu";
    p.device.name = "unknown";
    p.device.node = host_name();
    p.status = ProfileStatus::failed;
    p.reason = why(end, about_file);
    p.device_seconds = spent_until_the_end(end);
    p.started_s =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    return p;
}

}  // namespace

Result<std::string> site_facts(const std::string& path, const std::string& slurm_user) {
    const auto config = load_config(path, owner_of_site(slurm_user));
    if (!config) return config.error();
    const struct passwd* user = ::getpwnam(config->profile_user.c_str());
    if (user == nullptr)
        return environment_error(
            "profile.user '" + config->profile_user + "' does not exist on this node", path);
    if (auto s = check_service_user(*user, slurm_user); !s) return s.error();
    if (config->profile_spool.find('\n') != std::string::npos)
        return environment_error("profile.spool has a line break", path);
    const std::int64_t limit = inner_limit_s(*config);
    const auto time_limit = static_cast<std::int64_t>(config->profile_time_limit_s);
    const std::int64_t wait = std::max<std::int64_t>(0, time_limit - limit - 10);
    const auto check_limit =
        static_cast<std::int64_t>(std::ceil(config->slowdown_check_time_limit_s));
    return config->profile_user + "\n" + std::to_string(user->pw_uid) + "\n" +
           std::to_string(user->pw_gid) + "\n" + config->profile_spool + "\n" +
           std::to_string(limit) + "\n" + std::to_string(wait) + "\n" + config->hardware_file +
           "\n" + std::to_string(check_limit) + "\n";
}

Profile result_of_run(const ProfileRequest& request, const RunEnd& end) {
    const auto text = read_regular_file(end.part_path, max_profile_bytes);
    if (!text) return failed(request, end, text.error().text);
    auto profile = parse_profile(*text);
    if (!profile) return failed(request, end, profile.error().message());
    if (profile->nonce != request.nonce || profile->gpu_type != request.gpu_type ||
        profile->hardware != request.hardware ||
        profile->model_fingerprint != fingerprint(request.model))
        return failed(request, end, "it answers another request");
    return std::move(profile).value();
}

}  // namespace arena
