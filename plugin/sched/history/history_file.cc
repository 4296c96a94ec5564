// SPDX-License-Identifier: GPL-2.0-or-later
// See history_file.h.
#include "plugin/sched/history/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/file_descriptor.h"
#include "base/json.h"
#include "base/text.h"

namespace arena {
namespace {

constexpr std::size_t most_line_bytes = 4096;

/// Nobody else may have written what we say to users, nor read what we write of them.
bool is_ours(int fd) {
    struct stat info {};
    return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
           (info.st_mode & 077) == 0;
}

void read_lines(std::string_view text, HistoryFile::Read& out) {
    for (const std::string_view piece : split(text, '\n')) {
        if (piece.empty()) continue;
        auto line = parse_history_line(piece);
        if (line)
            out.lines.push_back(std::move(line).value());
        else
            ++out.broken;
    }
}

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(fd, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

}  // namespace

std::string format_history_line(const HistoryLine& line) {
    Json json{{"t", line.at_s},
              {"job", line.job},
              {"uid", line.uid},
              {"state", line.state},
              {"text", line.text}};
    if (line.used) json.update({{"used", *line.used}, {"account", line.account}});
    return dump_json(json);
}

Result<HistoryLine> parse_history_line(std::string_view text) {
    const auto json = parse_json(text, {.bytes = most_line_bytes, .depth = 2});
    if (!json) return json.error();
    HistoryLine line;
    std::int64_t job = 0, uid = 0;
    std::optional<Error> error;
    const JsonFields fields(*json, "", error);
    fields.number("t", line.at_s, 0, 1e12);
    fields.integer("job", job, 1, UINT32_MAX);
    fields.integer("uid", uid, 0, UINT32_MAX);
    fields.text("state", line.state, 64);
    fields.text("text", line.text, 1024);
    if (fields.has("used")) {
        fields.number("used", line.used.emplace(), 0, 1);
        fields.text("account", line.account, 256);
    }
    if (error) return *error;
    line.job = static_cast<JobId>(job);
    line.uid = static_cast<std::uint32_t>(uid);
    return line;
}

std::string HistoryFile::path_beside(const std::string& profile_store) {
    return (std::filesystem::path(profile_store).parent_path() / "history.jsonl").string();
}

HistoryFile::Read HistoryFile::read() const {
    Read out;
    for (const std::string& path : {path_ + ".1", path_}) {
        const FileDescriptor fd(
            ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (fd.get() < 0 && errno == ENOENT) continue;
        if (fd.get() < 0 || !is_ours(fd.get())) {
            out.problem = path + ": is not a file of SlurmUser's alone (0600): it is not read";
            continue;
        }
        // One append may go over the limit before the next one turns the files.
        const auto text = read_regular_file(path, 4 * most_bytes_);
        if (text)
            read_lines(*text, out);
        else
            out.problem = text.error().message();
    }
    return out;
}

Status HistoryFile::append(const std::vector<HistoryLine>& lines) {
    if (lines.empty()) return Done{};
    std::string text;
    for (const HistoryLine& line : lines) text += format_history_line(line) + "\n";
    if (text.size() > most_bytes_) text.erase(0, text.find('\n', text.size() - most_bytes_) + 1);
    const auto failed = [&](const char* doing) {
        return environment_error(std::string(doing) + ": " + std::strerror(errno), path_);
    };
    FileDescriptor fd(::open(
        path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (fd.get() < 0) return failed("cannot open the history of jobs");
    if (!is_ours(fd.get()))
        return environment_error("is not a file of SlurmUser's alone (0600): remove it", path_);
    if (!write_all(fd.get(), text)) return failed("cannot write the history of jobs");
    struct stat info {};
    const bool full =
        ::fstat(fd.get(), &info) == 0 && static_cast<std::size_t>(info.st_size) >= most_bytes_;
    if (full && std::rename(path_.c_str(), (path_ + ".1").c_str()) != 0)
        return failed("cannot put the history of jobs aside");
    return Done{};
}

}  // namespace arena
