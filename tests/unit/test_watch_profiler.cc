// SPDX-License-Identifier: GPL-2.0-or-later
// libarena_watch.so as NCCL loads it for a profiler: by its tables ncclProfiler_v4 and v5, with
// events as NCCL's documentation describes them.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/unit/suite.h"
#include "watch/reader/ring_reader.h"
#include "watch/recorder/nccl_profiler_abi.h"

using namespace arena;
using namespace arena::watch;

namespace {

using namespace profiler;
constexpr std::uint64_t job = std::uint64_t{1} << 51;

void* plugin() {
    const std::string path =
        std::string(std::getenv("ARENA_BUILDDIR")) + "/.libs/libarena_watch.so";
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(handle != nullptr, "%s", ::dlerror());
    return handle;
}

void be_a_rank() {
    ::setenv("SLURM_JOB_ID", std::to_string(job + static_cast<std::uint64_t>(::getpid())).c_str(),
             1);
    ::setenv("SLURM_STEP_ID", "0", 1);
    ::setenv("SLURM_PROCID", "0", 1);
    ::setenv("SLURM_LOCALID", "0", 1);
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "RANK", "ARENA_WATCH_PROFILE"})
        ::unsetenv(name);
}

/// This process' ring; it stays readable without its name.
RingReader ring() {
    auto paths = find_rings(::geteuid());
    ck_assert(paths.ok());
    for (const std::string& path : *paths) {
        auto reader = RingReader::open(path, ::geteuid());
        if (reader.ok() && reader->facts().owner.pid == static_cast<std::uint32_t>(::getpid())) {
            reader->remove();
            return std::move(reader).value();
        }
    }
    ck_abort_msg("this process has no ring");
    std::abort();
}

template <typename Width>
Description<Width> all_reduce(std::size_t count, std::uint8_t channels) {
    Description<Width> d;
    std::memset(static_cast<void*>(&d), 0, sizeof d);
    d.kind = collective;
    d.collective.function = "AllReduce";
    d.collective.type = "ncclFloat32";
    d.collective.count = count;
    d.collective.channels = channels;
    return d;
}

/// One channel's kernel of a call.
template <typename Width, typename Api>
void run_kernel(const Api& api, void* context, void* call, std::uint64_t begin, std::uint64_t end) {
    Description<Width> d;
    std::memset(static_cast<void*>(&d), 0, sizeof d);
    d.kind = kernel_channel;
    d.parent = call;
    d.kernel.time_ns = begin;
    void* kernel = nullptr;
    ck_assert_int_eq(api.start(context, &kernel, &d), 0);
    StateArguments arguments{};
    arguments.kernel_time_ns = end;
    ck_assert_int_eq(api.state(kernel, kernel_stopped, &arguments), 0);
    ck_assert_int_eq(api.stop(kernel), 0);
}

template <typename Width, typename Api>
void check_events(const Api& api, void* context, const int& mask, std::uint64_t hash) {
    ck_assert_str_eq(api.name, "arena-watch");
    ck_assert_int_eq(mask, collective | point_to_point);
    auto d = all_reduce<Width>(1000, 2);
    void* event = &d;
    ck_assert_int_eq(api.start(context, &event, &d), 0);
    ck_assert_ptr_null(event);  // nobody asked how long it takes
    ck_assert_int_eq(api.stop(event), 0);
    RingReader reader = ring();
    auto batch = reader.read();
    ck_assert_uint_eq(batch.records.size(), 1);
    const Record first = batch.records[0];
    ck_assert(first.op == Op::all_reduce && first.front == Front::nccl_profiler);
    ck_assert(first.type == Type::float32 && first.kind == Kind::call);
    ck_assert_uint_eq(first.count, 1000);
    ck_assert_uint_eq(first.bytes, 4000);
    ck_assert_uint_eq(first.comm, hash >> 2 | 1);

    reader.set_control(Control::profile);
    d = all_reduce<Width>(2000, 2);
    ck_assert_int_eq(api.start(context, &event, &d), 0);
    ck_assert_ptr_nonnull(event);
    ck_assert_int_eq(mask, collective | point_to_point | kernel_channel);
    ck_assert_int_eq(api.stop(event), 0);  // NCCL ends a call once it is launched
    run_kernel<Width>(api, context, event, 5000, 8000);
    ck_assert_uint_eq(reader.read().records.size(), 1);  // the other channel goes on
    run_kernel<Width>(api, context, event, 4500, 9000);
    batch = reader.read();
    ck_assert_uint_eq(batch.records.size(), 1);
    ck_assert(batch.records[0].kind == Kind::timing);
    ck_assert_uint_eq(batch.records[0].duration_ns, 4500);
    ck_assert_uint_eq(batch.records[0].count, 2000);
    ck_assert_uint_eq(batch.records[0].back, 1);

    Description<Width> send = all_reduce<Width>(0, 0);
    send.kind = point_to_point;
    send.point_to_point.function = "Send";
    send.point_to_point.type = "ncclBfloat16";
    send.point_to_point.count = 7;
    send.point_to_point.peer = 3;
    reader.set_control(Control::record);
    ck_assert_int_eq(api.start(context, &event, &send), 0);
    ck_assert_int_eq(mask, collective | point_to_point);
    batch = reader.read();
    ck_assert_uint_eq(batch.records.size(), 1);
    ck_assert(batch.records[0].op == Op::send && batch.records[0].type == Type::bfloat16);
    ck_assert_int_eq(batch.records[0].aux, 3);
    reader.set_control(Control::pause);
    ck_assert_int_eq(api.start(context, &event, &send), 0);
    ck_assert_uint_eq(reader.read().records.size(), 0);
    ck_assert_int_eq(api.finish(context), 0);
}

TEST(release_5_is_spoken) {
    be_a_rank();
    const auto* api =
        static_cast<Table<std::uint64_t, Init5>*>(::dlsym(plugin(), "ncclProfiler_v5"));
    ck_assert_ptr_nonnull(api);
    void* context = nullptr;
    int mask = 0;
    ck_assert_int_eq(api->init(&context, 1234567, &mask, "c", 1, 8, 0, nullptr), 0);
    check_events<std::uint64_t>(*api, context, mask, 1234567);
}

TEST(release_4_is_spoken) {
    be_a_rank();
    const auto* api =
        static_cast<Table<std::uint8_t, Init4>*>(::dlsym(plugin(), "ncclProfiler_v4"));
    ck_assert_ptr_nonnull(api);
    void* context = nullptr;
    int mask = 0;
    ck_assert_int_eq(api->init(&context, &mask, "c", 7654321, 1, 8, 0, nullptr), 0);
    check_events<std::uint8_t>(*api, context, mask, 7654321);
}

}  // namespace
