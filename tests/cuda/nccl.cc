// SPDX-License-Identifier: GPL-2.0-or-later
// libnccl: ranks are processes or threads of one machine that leave each other files in /dev/shm
// (ARENA_SOFT_NCCL_DIR). Calls as the NCCL user guide (2.2x) describes them. Where ranks call
// different things the process ends with both lists of calls, in place of the hang that NCCL would
// have.
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/cuda/device.h"
#include "tests/cuda/numbers.h"

struct ncclComm {
    std::filesystem::path directory;
    int rank = 0, ranks = 0, device = 0;
    std::uint64_t collectives = 0, splits = 0;
    std::map<int, std::uint64_t> sent, received;  ///< messages by the other rank
    std::deque<std::string> calls;                ///< the last ones
    int pending = 0;
    bool is_aborted = false;
};

namespace {

using Bytes = std::string;

#define BEGIN_CALL                   \
    const soft::Call call(__func__); \
    if (call.failure != 0) return static_cast<ncclResult_t>(call.failure)

/// What a rank leaves for others; whole when it is there.
struct Letter {
    std::string what, calls;
    double clock_s = 0;
    Bytes data;
};
void post(const std::filesystem::path& path, const Letter& l) {
    const std::filesystem::path part = path.string() + ".part";
    {
        std::ofstream f(part, std::ios::binary);
        f << l.what << '\n' << l.calls << '\n' << std::to_string(l.clock_s) << '\n';
        f.write(l.data.data(), static_cast<std::streamsize>(l.data.size()));
        if (!f.flush()) soft::fault("NCCL: no room in " + path.string());
    }
    std::filesystem::rename(part, path);
}
Letter read(const std::filesystem::path& path) {
    std::ifstream f(path, std::ios::binary);
    Letter l;
    std::string clock;
    std::getline(f, l.what), std::getline(f, l.calls), std::getline(f, clock);
    l.clock_s = std::stod(clock);
    l.data.assign(std::istreambuf_iterator<char>(f), {});
    return l;
}
bool is_there(const std::filesystem::path& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string named(const char* what, std::uint64_t number, int rank) {
    return what + std::to_string(number) + "." + std::to_string(rank);
}

bool all_there(const ncclComm& c, const char* what, std::uint64_t number) {
    for (int r = 0; r < c.ranks; ++r)
        if (!is_there(c.directory / named(what, number, r))) return false;
    return true;
}

std::size_t width_of(ncclDataType_t type) {
    switch (type) {
        case ncclFloat:
            return 4;
        case ncclDouble:
            return 8;
        case ncclBfloat16:
            return 2;
        default:
            soft::fault("NCCL: a type not known here");
    }
}
double load(ncclDataType_t type, const void* p, std::size_t i) {
    if (type == ncclDouble) return static_cast<const double*>(p)[i];
    return soft::load(type == ncclFloat ? soft::Number::f32 : soft::Number::bf16, p,
                      static_cast<std::int64_t>(i));
}
void store(ncclDataType_t type, void* p, std::size_t i, double x) {
    if (type == ncclDouble)
        static_cast<double*>(p)[i] = x;
    else
        soft::store(type == ncclFloat ? soft::Number::f32 : soft::Number::bf16, p,
                    static_cast<std::int64_t>(i), static_cast<float>(x));
}

void note(ncclComm& c, const std::string& what) {
    c.calls.push_back(what);
    if (c.calls.size() > 8) c.calls.pop_front();
}
std::string listed(const ncclComm& c) {
    std::string text;
    for (const auto& one : c.calls) text += (text.empty() ? "" : ", ") + one;
    return text;
}

/// One operation on a stream, as far as it has come.
struct Step {
    ncclComm_t comm;
    double seconds;
    std::function<bool(soft::Stream&)> go;
};

thread_local int group_depth = 0;
thread_local std::vector<std::pair<cudaStream_t, Step>> grouped;

void put(cudaStream_t stream, std::vector<Step> steps) {
    double seconds = 0;
    for (const Step& s : steps) seconds = std::max(seconds, s.seconds);
    for (const Step& s : steps) ++s.comm->pending;
    const auto left = std::make_shared<std::vector<Step>>(std::move(steps));
    const auto e = soft::enqueue(stream, {"NCCL", seconds,
                                          [left](soft::Stream& at) {
                                              std::erase_if(*left, [&](Step& s) {
                                                  if (!s.comm->is_aborted && !s.go(at))
                                                      return false;
                                                  --s.comm->pending;
                                                  return true;
                                              });
                                              return left->empty();
                                          },
                                          false});
    if (e != cudaSuccess) soft::fault("NCCL: the stream is gone");
}

void take(ncclComm_t comm, cudaStream_t stream, double bytes,
          std::function<bool(soft::Stream&)> go) {
    const auto s = soft::stream_of(stream);
    if (!s || s->device != comm->device)
        soft::fault("NCCL: the stream is not of the communicator's device");
    soft::progress_in_background();
    Step step{comm, soft::seconds_of_message(bytes), std::move(go)};
    if (group_depth > 0)
        grouped.emplace_back(stream, std::move(step));
    else
        put(stream, {std::move(step)});
}

void check_memory(const ncclComm& c, const void* p, std::size_t bytes) {
    if (soft::device_of(p, bytes, "NCCL's buffer") != c.device)
        soft::fault("NCCL: a buffer is not on the communicator's device");
}

/// finish(letters of all ranks) once all have come.
void collective(ncclComm_t comm, const std::string& what, const void* from, std::size_t bytes,
                cudaStream_t stream, double moved,
                std::function<void(const std::vector<Letter>&)> finish) {
    const std::uint64_t number = comm->collectives++;
    note(*comm, what);
    check_memory(*comm, from, bytes);
    const auto posted = std::make_shared<bool>(false);
    take(comm, stream, moved, [=](soft::Stream& at) {
        if (!std::exchange(*posted, true)) {
            const soft::Opened open("NCCL");
            post(comm->directory / named("c", number, comm->rank),
                 {what, listed(*comm), at.clock_s, Bytes(static_cast<const char*>(from), bytes)});
        }
        if (!all_there(*comm, "c", number)) return false;
        std::vector<Letter> letters;
        for (int r = 0; r < comm->ranks; ++r) {
            letters.push_back(read(comm->directory / named("c", number, r)));
            if (letters.back().what != what)
                soft::fault("NCCL: rank " + std::to_string(comm->rank) + " calls " + what +
                            ", rank " + std::to_string(r) + " calls " + letters.back().what +
                            "; before: " + listed(*comm) + "; there: " + letters.back().calls);
            at.clock_s = std::max(at.clock_s, letters.back().clock_s);
        }
        const soft::Opened open("NCCL");
        finish(letters);
        if (number > 0)  // which everybody has read, being here
            std::filesystem::remove(comm->directory / named("c", number - 1, comm->rank));
        return true;
    });
}

double reduced(ncclRedOp_t op, double a, double b) {
    if (op == ncclSum) return a + b;
    if (op == ncclMax) return std::max(a, b);
    soft::fault("NCCL: a reduction not known here");
}

std::string told(const char* what, std::size_t count, ncclDataType_t type) {
    return std::string(what) + "(" + std::to_string(count) + " of type " + std::to_string(type) +
           ")";
}

/// Blocks the host, as making a communicator does.
void meet(ncclComm& c) {
    std::filesystem::create_directories(c.directory);
    post(c.directory / named("init", 0, c.rank), {});
    soft::progress_until([&] { return all_there(c, "init", 0); }, "NCCL: making a communicator");
}
void leave(ncclComm& c) {
    post(c.directory / named("bye", 0, c.rank), {});
    if (!all_there(c, "bye", 0)) return;
    std::error_code ignored;
    std::filesystem::remove_all(c.directory, ignored);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
    BEGIN_CALL;
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t r) {
    switch (r) {
        case ncclSuccess:
            return "no error";
        case ncclUnhandledCudaError:
            return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
        case ncclSystemError:
            return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
        case ncclRemoteError:
            return "remote process exited or there was a network error";
        default:
            return "an error of the software device";
    }
}
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    BEGIN_CALL;
    static int made = 0;
    std::memset(id, 0, sizeof *id);
    const auto now = std::filesystem::file_time_type::clock::now().time_since_epoch().count();
    std::snprintf(id->internal, sizeof id->internal, "arena-soft-nccl-%d-%d-%lld", getpid(), ++made,
                  static_cast<long long>(now));
    return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
    BEGIN_CALL;
    if (ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
    auto made = std::make_unique<ncclComm>();
    const char* const shared = std::getenv("ARENA_SOFT_NCCL_DIR");
    made->directory = std::filesystem::path(shared != nullptr ? shared : "/dev/shm") / id.internal;
    made->rank = rank, made->ranks = ranks, made->device = soft::current_device();
    meet(*made);
    soft::alive("communicators", 1);
    *comm = made.release();
    return ncclSuccess;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
    BEGIN_CALL;
    const std::uint64_t number = comm->splits++;
    post(comm->directory / named("split", number, comm->rank),
         {std::to_string(color) + " " + std::to_string(key), "", 0, ""});
    soft::progress_until([&] { return all_there(*comm, "split", number); },
                         "NCCL: splitting a communicator");
    std::vector<std::pair<int, int>> members;  // key, rank
    for (int r = 0; r < comm->ranks; ++r) {
        std::istringstream words(read(comm->directory / named("split", number, r)).what);
        int their_color = 0, their_key = 0;
        words >> their_color >> their_key;
        if (their_color == color) members.emplace_back(their_key, r);
    }
    *made = nullptr;
    if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
    std::sort(members.begin(), members.end());
    auto group = std::make_unique<ncclComm>();
    group->directory =
        comm->directory.string() + "-" + std::to_string(number) + "-" + std::to_string(color);
    group->ranks = static_cast<int>(members.size()), group->device = comm->device;
    for (std::size_t i = 0; i < members.size(); ++i)
        if (members[i].second == comm->rank) group->rank = static_cast<int>(i);
    meet(*group);
    soft::alive("communicators", 1);
    *made = group.release();
    return ncclSuccess;
}
/// User guide: the destruction waits for what is under way.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    BEGIN_CALL;
    soft::progress_until([&] { return comm->pending == 0; }, "ncclCommDestroy");
    leave(*comm);
    soft::alive("communicators", -1);
    delete comm;
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    BEGIN_CALL;
    comm->is_aborted = true;
    soft::progress_until([&] { return comm->pending == 0; }, "ncclCommAbort");
    leave(*comm);
    soft::alive("communicators", -1);
    delete comm;
    return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
    BEGIN_CALL;
    *state = ncclSuccess;
    return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
    BEGIN_CALL;
    *count = comm->ranks;
    return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
    BEGIN_CALL;
    *device = comm->device;
    return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
    BEGIN_CALL;
    *rank = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
    BEGIN_CALL;
    ++group_depth;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
    BEGIN_CALL;
    if (group_depth == 0) return ncclInvalidUsage;
    if (--group_depth > 0) return ncclSuccess;
    std::map<cudaStream_t, std::vector<Step>> by_stream;
    for (auto& [stream, step] : grouped) by_stream[stream].push_back(std::move(step));
    grouped.clear();
    for (auto& [stream, steps] : by_stream) put(stream, std::move(steps));
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    BEGIN_CALL;
    const std::size_t bytes = count * width_of(type);
    check_memory(*comm, to, bytes);
    collective(comm, told("AllReduce", count, type) + std::to_string(op), from, bytes, stream,
               2.0 * static_cast<double>(bytes), [=](const std::vector<Letter>& all) {
                   for (std::size_t i = 0; i < count; ++i) {
                       double x = load(type, all[0].data.data(), i);
                       for (std::size_t r = 1; r < all.size(); ++r)
                           x = reduced(op, x, load(type, all[r].data.data(), i));
                       store(type, to, i, x);
                   }
               });
    return ncclSuccess;
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    BEGIN_CALL;
    const auto ranks = static_cast<std::size_t>(comm->ranks);
    const std::size_t all_bytes = count * ranks * width_of(type),
                      first = count * static_cast<std::size_t>(comm->rank);
    check_memory(*comm, to, count * width_of(type));
    collective(comm, told("ReduceScatter", count, type) + std::to_string(op), from, all_bytes,
               stream, static_cast<double>(all_bytes), [=](const std::vector<Letter>& all) {
                   for (std::size_t i = 0; i < count; ++i) {
                       double x = load(type, all[0].data.data(), first + i);
                       for (std::size_t r = 1; r < all.size(); ++r)
                           x = reduced(op, x, load(type, all[r].data.data(), first + i));
                       store(type, to, i, x);
                   }
               });
    return ncclSuccess;
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    BEGIN_CALL;
    const std::size_t bytes = count * width_of(type);
    const auto ranks = static_cast<std::size_t>(comm->ranks);
    check_memory(*comm, to, bytes * ranks);
    collective(comm, told("AllGather", count, type), from, bytes, stream,
               static_cast<double>(bytes * ranks), [=](const std::vector<Letter>& all) {
                   for (std::size_t r = 0; r < all.size(); ++r)
                       std::memcpy(static_cast<char*>(to) + r * bytes, all[r].data.data(), bytes);
               });
    return ncclSuccess;
}

/// Returns on the stream when the receiver has it.
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
    BEGIN_CALL;
    if (peer < 0 || peer >= comm->ranks) return ncclInvalidArgument;
    const std::size_t bytes = count * width_of(type);
    check_memory(*comm, from, bytes);
    const std::string what = told("message", count, type);
    const auto path =
        comm->directory / ("m" + std::to_string(comm->rank) + "-" + std::to_string(peer) + "." +
                           std::to_string(comm->sent[peer]++));
    const auto posted = std::make_shared<bool>(false);
    take(comm, stream, static_cast<double>(bytes), [=](soft::Stream& at) {
        if (!std::exchange(*posted, true)) {
            check_memory(*comm, from, bytes);
            const soft::Opened open("NCCL");
            post(path, {what, "", at.clock_s, Bytes(static_cast<const char*>(from), bytes)});
        }
        return !is_there(path);
    });
    return ncclSuccess;
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    BEGIN_CALL;
    if (peer < 0 || peer >= comm->ranks) return ncclInvalidArgument;
    const std::size_t bytes = count * width_of(type);
    check_memory(*comm, to, bytes);
    const std::string what = told("message", count, type);
    const auto file =
        comm->directory / ("m" + std::to_string(peer) + "-" + std::to_string(comm->rank) + "." +
                           std::to_string(comm->received[peer]++));
    take(comm, stream, static_cast<double>(bytes), [=](soft::Stream& at) {
        if (!is_there(file)) return false;
        const Letter l = read(file);
        if (l.what != what)
            soft::fault("NCCL: rank " + std::to_string(comm->rank) + " receives a " + what +
                        ", rank " + std::to_string(peer) + " sends a " + l.what);
        check_memory(*comm, to, bytes);
        const soft::Opened open("NCCL");
        std::memcpy(to, l.data.data(), bytes);
        at.clock_s = std::max(at.clock_s, l.clock_s);
        std::filesystem::remove(file);
        return true;
    });
    return ncclSuccess;
}

}  // extern "C"
