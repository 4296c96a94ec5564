// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/checkpoint/checkpoint_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

namespace arena::train {
namespace {

constexpr std::string_view head_mark = "ARENA-CHECKPOINT", end_mark = "CHECKPOINT-ARENA";
constexpr std::size_t tail_bytes = 2 * sizeof(std::uint64_t) + end_mark.size();
constexpr std::size_t piece_bytes = std::size_t{1} << 20;
constexpr Index max_footer_bytes = Index{64} << 20;
constexpr std::string_view file_prefix = "step-", file_suffix = ".arena",
                           unfinished_suffix = ".arena.new";

const char* name_of(Part part) {
    return part == Part::weights ? "weights" : part == Part::first ? "first" : "second";
}
std::string key_of(const TensorSpec& spec, Part part) { return spec.name + "/" + name_of(part); }

Error system_error(const std::string& what, const std::string& where) {
    return environment_error(fmt::format("{}: {}", what, std::strerror(errno)), where);
}

bool read_fully(int fd, void* to, std::size_t bytes, Index offset) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
        const ssize_t n = pread(fd, at, bytes, offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        offset += n;
        bytes -= static_cast<std::size_t>(n);
    }
    return true;
}

Json json_of(const CheckpointFacts& f) {
    return {{"schema_version", 1},
            {"step", f.step},
            {"seed", f.seed},
            {"global_batch", f.global_batch},
            {"data_tokens", f.data_tokens},
            {"layers", f.shape.layers},
            {"hidden", f.shape.hidden},
            {"heads", f.shape.heads},
            {"ffn", f.shape.ffn},
            {"vocab", f.shape.vocab},
            {"seq", f.shape.seq},
            {"tied", f.shape.tied}};
}

void read_facts(const JsonFields& r, CheckpointFacts& f) {
    constexpr Index most = Index{1} << 60;
    r.integer("step", f.step, 0, most);
    r.unsigned_integer("seed", f.seed, UINT64_MAX);
    r.integer("global_batch", f.global_batch, 1, most);
    r.integer("data_tokens", f.data_tokens, 1, most);
    r.integer("layers", f.shape.layers, 1, most);
    r.integer("hidden", f.shape.hidden, 1, most);
    r.integer("heads", f.shape.heads, 1, most);
    r.integer("ffn", f.shape.ffn, 1, most);
    r.integer("vocab", f.shape.vocab, 1, most);
    r.integer("seq", f.shape.seq, 1, most);
    r.boolean("tied", f.shape.tied);
}

/// The number in "step-NUMBER" + suffix; nothing for other names.
std::optional<Index> step_of(std::string_view name, std::string_view suffix) {
    if (!name.starts_with(file_prefix) || !name.ends_with(suffix)) return std::nullopt;
    name.remove_prefix(file_prefix.size());
    name.remove_suffix(suffix.size());
    return parse_integer(name, 0, INT64_MAX);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
    std::uint64_t sum = 0xcbf29ce484222325U ^ bytes.size();
    std::size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at, 8);
        sum = (sum ^ word) * splitmix_step;
        sum ^= sum >> 29;
    }
    for (; at < bytes.size(); ++at)
        sum = (sum ^ static_cast<std::uint64_t>(bytes[at])) * splitmix_step;
    return splitmix(sum);
}

CheckpointWriter::CheckpointWriter(std::string path, Hook hook)
    : path_(std::move(path)), new_path_(path_ + ".new"), hook_(std::move(hook)) {}

CheckpointWriter::~CheckpointWriter() {
    if (fd_ < 0) return;
    close(fd_);
    unlink(new_path_.c_str());
}

Status CheckpointWriter::refuse(const char* what) { return system_error(what, new_path_); }

Status CheckpointWriter::create() {
    // What stands there is a killed writer's, or a fifo that would hold us up: not written to.
    if (unlink(new_path_.c_str()) != 0 && errno != ENOENT) return refuse("cannot be replaced");
    fd_ = ::open(new_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) return refuse("cannot be created");
    return write(head_mark.data(), head_mark.size());
}

Status CheckpointWriter::write(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
        if (hook_) hook_();
        const ssize_t n = ::write(fd_, at, std::min(bytes, piece_bytes));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return refuse("cannot be written; the checkpoint before it stands");
        at += n;
        bytes -= static_cast<std::size_t>(n);
        offset_ += n;
    }
    return Done{};
}

Status CheckpointWriter::append(const TensorSpec& spec, Part part, std::span<const float> whole) {
    const Json entry = {{"name", key_of(spec, part)},
                        {"offset", offset_},
                        {"size", whole.size()},
                        {"checksum", checksum(std::as_bytes(whole))}};
    entries_ += (entries_.empty() ? "" : ",\n") + entry.dump();
    return write(whole.data(), whole.size_bytes());
}

Status CheckpointWriter::finish(const CheckpointFacts& facts) {
    std::string footer = json_of(facts).dump();
    footer.back() = ',';
    footer += "\"arrays\":[\n" + entries_ + "]}\n";
    const std::uint64_t numbers[] = {footer.size(), checksum(std::as_bytes(std::span(footer)))};
    if (Status s = write(footer.data(), footer.size()); !s) return s;
    if (Status s = write(numbers, sizeof numbers); !s) return s;
    if (Status s = write(end_mark.data(), end_mark.size()); !s) return s;
    if (hook_) hook_();
    if (fsync(fd_) != 0) return refuse("cannot be synced; the checkpoint before it stands");
    if (hook_) hook_();
    if (rename(new_path_.c_str(), path_.c_str()) != 0) return refuse("cannot be renamed");
    close(std::exchange(fd_, -1));
    if (hook_) hook_();
    return sync_directory(path_);
}

Error CheckpointReader::damaged(const std::string& what) const {
    return environment_error("is damaged: " + what, path_);
}

Result<CheckpointReader> CheckpointReader::open(const std::string& path) {
    CheckpointReader reader;
    reader.path_ = path;
    reader.file_ =
        FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    const int fd = reader.file_.get();
    if (fd < 0 && errno == ELOOP)
        return environment_error("is a link; a checkpoint is a file in its directory", path);
    if (fd < 0) return system_error("cannot be opened", path);
    struct stat facts {};
    if (fstat(fd, &facts) != 0) return system_error("cannot be looked at", path);
    if (!S_ISREG(facts.st_mode)) return environment_error("is not a regular file", path);
    struct {
        std::uint64_t length, sum;
        char mark[16];
    } tail{};
    static_assert(sizeof tail == tail_bytes);
    const Index end = facts.st_size - static_cast<Index>(tail_bytes);
    char head[head_mark.size()] = {};
    if (end < static_cast<Index>(head_mark.size()) || !read_fully(fd, head, sizeof head, 0) ||
        std::string_view(head, sizeof head) != head_mark)
        return reader.damaged("it does not begin as a checkpoint does");
    if (!read_fully(fd, &tail, sizeof tail, end) ||
        std::string_view(tail.mark, sizeof tail.mark) != end_mark)
        return reader.damaged("it does not end as a checkpoint does");
    if (tail.length > static_cast<std::uint64_t>(std::min(end, max_footer_bytes)))
        return reader.damaged("its footer is longer than the file or 64 MiB");
    std::string footer(tail.length, '\0');
    reader.data_end_ = end - static_cast<Index>(tail.length);
    if (!read_fully(fd, footer.data(), footer.size(), reader.data_end_) ||
        checksum(std::as_bytes(std::span(footer))) != tail.sum)
        return reader.damaged("its footer does not match the checksum");
    if (const Status status = reader.parse_footer(footer); !status)
        return reader.damaged(status.error().message());
    return reader;
}

Status CheckpointReader::parse_footer(std::string_view text) {
    const auto document = parse_json(text);
    if (!document) return document.error();
    std::optional<Error> error;
    const JsonFields top(*document, "footer", error);
    read_facts(top, facts_);
    const Json* arrays = top.list("arrays", 10'000'000);
    if (error) return *error;
    for (const Json& item : *arrays) {
        const JsonFields r(item, "footer.arrays", error);
        Entry entry;
        std::string name;
        r.text("name", name);
        r.integer("offset", entry.offset, static_cast<Index>(head_mark.size()), data_end_);
        r.integer("size", entry.size, 0,
                  (data_end_ - entry.offset) / static_cast<Index>(sizeof(float)));
        r.unsigned_integer("checksum", entry.sum, UINT64_MAX);
        if (error) return *error;
        entries_[name] = entry;
    }
    return Done{};
}

Status CheckpointReader::read(const TensorSpec& spec, Part part, std::span<float> whole) const {
    const std::string key = key_of(spec, part);
    const auto entry = entries_.find(key);
    if (entry == entries_.end() || entry->second.size != static_cast<Index>(whole.size()))
        return damaged(key + " is missing or has another size");
    if (!read_fully(file_.get(), whole.data(), whole.size_bytes(), entry->second.offset))
        return damaged(key + " cannot be read");
    if (checksum(std::as_bytes(whole)) != entry->second.sum)
        return damaged(key + " does not match its checksum");
    return Done{};
}

std::string checkpoint_path(const std::string& directory, Index step) {
    return fmt::format("{}/{}{:010}{}", directory, file_prefix, step, file_suffix);
}

Result<std::vector<Index>> checkpoint_steps(const std::string& directory) {
    std::vector<Index> steps;
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(directory.c_str()), closedir);
    if (!dir && errno == ENOENT) return steps;
    if (!dir) return system_error("cannot be read", directory);
    while (const dirent* entry = readdir(dir.get()))
        if (const auto step = step_of(entry->d_name, file_suffix)) steps.push_back(*step);
    std::ranges::sort(steps, std::greater<>());
    return steps;
}

Status remove_old_checkpoints(const std::string& directory, Index saved, const std::string& before,
                              const CheckpointWriter::Hook& hook) {
    const auto steps = checkpoint_steps(directory);
    if (!steps) return steps.error();
    for (const Index step : *steps) {
        const std::string path = checkpoint_path(directory, step);
        if (step >= saved || path == before) continue;
        if (hook) hook();
        if (unlink(path.c_str()) != 0 && errno != ENOENT)
            return system_error("cannot be removed", path);
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(directory.c_str()), closedir);
    while (const dirent* entry = dir ? readdir(dir.get()) : nullptr)
        if (step_of(entry->d_name, unfinished_suffix))
            unlink((directory + "/" + entry->d_name).c_str());
    return Done{};
}

}  // namespace arena::train
