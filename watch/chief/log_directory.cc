// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/chief/log_directory.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/json.h"

namespace arena::watch {
namespace {

Error system_error(const char* what, const std::string& path) {
    return environment_error(fmt::format("{}: {}", what, std::strerror(errno)), path);
}

/// Opens a directory below `parent`, made where it is not there: never through a link, and of this
/// user's own.
Result<FileDescriptor> open_own(int parent, const std::string& name, bool must_be_new) {
    if (::mkdirat(parent, name.c_str(), 0755) != 0 && (errno != EEXIST || must_be_new))
        return system_error("cannot be made", name);
    FileDescriptor own(
        ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (own.get() < 0 || ::fstat(own.get(), &info) != 0)
        return system_error("cannot be opened", name);
    if (info.st_uid != ::geteuid())
        return environment_error("belongs to another user: nothing is written", name);
    return own;
}

/// What a file's name may be made of; the rest comes from other programs.
std::string as_name(std::string_view text) {
    std::string name;
    for (const char c : text.substr(0, 64)) {
        const bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.' || c == ':';
        name += good ? c : '_';
    }
    return name.empty() ? "unknown" : name;
}

std::string time_text(std::int64_t epoch_ms, const char* format) {
    const auto seconds = static_cast<std::time_t>(epoch_ms / 1000);
    std::tm parts{};
    ::localtime_r(&seconds, &parts);
    char text[64] = "";
    std::strftime(text, sizeof text, format, &parts);
    return text;
}

/// {"schema_version":1,"t_ms":...,REST}: `object` is one in a line.
std::string with_time(const std::string& object, std::int64_t epoch_ms) {
    const char* comma = object == "{}" ? "" : ",";
    return fmt::format("{{\"schema_version\":1,\"t_ms\":{}{}{}", epoch_ms, comma, object.substr(1));
}

}  // namespace

Status LogDirectory::open(const Now& now) {
    const FileDescriptor parent(::open(place_.parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (parent.get() < 0) return system_error("cannot be opened", place_.parent);
    const std::string of_job = "arena-watch-" + as_name(place_.job);
    auto job = open_own(parent.get(), of_job, false);
    if (!job) return job.error();
    const std::string stem = "log_" + time_text(now.epoch_ms, "%Y%m%d_%H%M%S");
    const std::string rank = fmt::format("_noderank{}", place_.node_rank);
    constexpr int most_lives_a_second = 100;
    for (int i = 0; i < most_lives_a_second; ++i) {
        const std::string name = i == 0 ? stem + rank : fmt::format("{}.{}{}", stem, i, rank);
        auto own = open_own(job->get(), name, true);
        if (!own) continue;
        directory_ = std::move(*own);
        path_ = fmt::format("{}/{}/{}", place_.parent, of_job, name);
        return Done{};
    }
    return system_error("cannot be made", of_job + "/" + stem + rank);
}

Status LogDirectory::append(const std::string& file, const std::string& text) {
    auto known = files_.find(file);
    if (known == files_.end()) {
        if (files_.size() >= most_files) return Done{};
        FileDescriptor fresh(
            ::openat(directory_.get(), file.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644));
        if (fresh.get() < 0) return system_error("cannot be made", path_ + "/" + file);
        known = files_.emplace(file, std::move(fresh)).first;
    }
    written_ += text.size();
    std::string_view rest = text;
    while (!rest.empty()) {
        const ssize_t n = ::write(known->second.get(), rest.data(), rest.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return system_error("cannot be written to", path_ + "/" + file);
        rest.remove_prefix(static_cast<std::size_t>(n));
    }
    return Done{};
}

Status LogDirectory::append(const Waiting& one) {
    const LogLine& line = one.line;
    if (written_ + line.text.size() + line.json.size() > most_bytes) {
        is_closed_ = true;
        return append("events.jsonl", with_time(R"({"event":"full"})", one.at.epoch_ms) + "\n");
    }
    Status status = Done{};
    if (!line.text.empty()) {
        const std::string file =
            line.node.empty() ? fmt::format("global_controller_{}.log", as_name(place_.address))
                              : fmt::format("local_controller_{}.log", as_name(line.node));
        status = append(
            file, fmt::format("[{}.{:03}] {}\n", time_text(one.at.epoch_ms, "%Y-%m-%d %H:%M:%S"),
                              one.at.epoch_ms % 1000, line.text));
    }
    if (status && line.json.starts_with('{'))
        status = append("events.jsonl", with_time(line.json, one.at.epoch_ms) + "\n");
    return status;
}

Status LogDirectory::write(const std::vector<LogLine>& lines, const Now& now) {
    if (is_closed_) return Done{};
    bool is_wanted = place_.from_the_start || directory_.get() >= 0;
    for (const LogLine& line : lines) {
        waiting_.push_back({line, now});
        if (waiting_.size() > most_waiting && !is_wanted) waiting_.pop_front();
        is_wanted = is_wanted || line.is_problem;
    }
    if (!is_wanted || waiting_.empty()) return Done{};
    Status status = directory_.get() >= 0 ? Status(Done{}) : open(now);
    while (status && !waiting_.empty() && !is_closed_) {
        status = append(waiting_.front());
        waiting_.pop_front();
    }
    if (status) return status;
    is_closed_ = true;
    waiting_.clear();
    return status;
}

}  // namespace arena::watch
