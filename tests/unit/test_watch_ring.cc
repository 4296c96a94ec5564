// SPDX-License-Identifier: GPL-2.0-or-later
// The ring between a rank and who watches it: order, wrap, overrun, several writers, a writer that
// is killed, objects that are not trusted; and which process is a rank.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ipc/child.h"
#include "tests/unit/suite.h"
#include "watch/reader/ring_csv.h"
#include "watch/reader/ring_reader.h"
#include "watch/ring/process.h"
#include "watch/ring/rank_id.h"
#include "watch/ring/ring_file.h"

using namespace arena;
using namespace arena::watch;

namespace {

/// Jobs that nobody has, one per test: rings are machine-wide.
RingOwner owner(std::uint32_t rank) {
    RingOwner o;
    o.job = (std::uint64_t{1} << 50) + static_cast<std::uint64_t>(::getppid());
    o.rank = rank;
    o.pid = static_cast<std::uint32_t>(::getpid());
    o.uid = ::geteuid();
    o.pid_started = process_started(o.pid);
    return o;
}

std::vector<std::string> rings_of(std::uint32_t rank) {
    const RingOwner o = owner(rank);
    const std::string prefix = std::string(ring_folder) + "/" + ring_prefix +
                               std::to_string(o.job) + ".0." + std::to_string(rank) + ".";
    auto paths = find_rings(::geteuid());
    ck_assert(paths.ok());
    std::erase_if(*paths, [&](const std::string& path) { return !path.starts_with(prefix); });
    return *paths;
}

/// A ring and its reader; its name goes with it.
struct Pair {
    explicit Pair(std::uint64_t capacity, std::uint32_t rank)
        : ring(create_ring(owner(rank), capacity)) {
        ck_assert_msg(ring.header != nullptr, "no ring: %s", std::strerror(errno));
        const auto paths = rings_of(rank);
        ck_assert_uint_eq(paths.size(), 1);
        auto opened = RingReader::open(paths[0], ::geteuid());
        ck_assert_msg(opened.ok(), "%s", opened.ok() ? "" : opened.error().message().c_str());
        reader.push_back(std::move(opened).value());
    }
    ~Pair() { reader[0].remove(); }
    Ring ring;
    std::vector<RingReader> reader;  // one: a Result has no empty one
};

/// Every field follows from `count`, so that a record of two halves shows.
Record record_of(std::uint64_t count) {
    Record r;
    r.time_ns = count * 3 + 1;
    r.comm = ~count;
    r.count = count;
    r.bytes = count * 8;
    r.duration_ns = count ^ 0x5555;
    r.aux = static_cast<std::int32_t>(count % 1000);
    r.generation = static_cast<std::uint32_t>(count);
    r.op = static_cast<Op>(count % 14);
    r.back = static_cast<std::uint32_t>(count * 7);
    return r;
}

bool is_whole(const Record& r) {
    Record wanted = record_of(r.count);
    wanted.sequence = r.sequence;
    return r == wanted;
}

TEST(records_come_back_in_order_as_they_were_written) {
    Pair pair(64, 1);
    RingReader& reader = pair.reader[0];
    ck_assert_uint_eq(reader.read().records.size(), 0);
    for (std::uint64_t turn = 0; turn < 10; ++turn) {  // ten times 50 in 64 places
        for (std::uint64_t i = 0; i < 50; ++i)
            ck_assert_uint_eq(write_record(pair.ring, record_of(turn * 50 + i)), turn * 50 + i);
        const auto batch = reader.read();
        ck_assert_uint_eq(batch.lost, 0);
        ck_assert_uint_eq(batch.records.size(), 50);
        for (std::uint64_t i = 0; i < 50; ++i) {
            ck_assert_uint_eq(batch.records[i].sequence, turn * 50 + i);
            ck_assert_uint_eq(batch.records[i].count, turn * 50 + i);
            ck_assert(is_whole(batch.records[i]));
        }
    }
    write_record(pair.ring, record_of(0));
    write_record(pair.ring, record_of(1));
    ck_assert_uint_eq(reader.read(1).records.size(), 1);
    ck_assert_uint_eq(reader.read(1).records.size(), 1);
    ck_assert_uint_eq(reader.calls(), 502);
}

TEST(what_was_overwritten_is_counted) {
    Pair pair(64, 2);
    for (std::uint64_t i = 0; i < 200; ++i) write_record(pair.ring, record_of(i));
    const auto batch = pair.reader[0].read();
    ck_assert_uint_eq(batch.lost, 136);
    ck_assert_uint_eq(batch.records.size(), 64);
    ck_assert_uint_eq(batch.records.front().sequence, 136);
    ck_assert_uint_eq(pair.reader[0].read().lost, 0);
}

TEST(a_writer_in_the_way_costs_one_record_and_no_wait) {
    Pair pair(64, 3);
    for (std::uint64_t i = 0; i < 64; ++i) write_record(pair.ring, record_of(i));
    ck_assert_uint_eq(pair.reader[0].read().records.size(), 64);
    // A thread stands in slot 5 since record 69, and the others go once round.
    for (std::uint64_t i = 64; i < 69; ++i) write_record(pair.ring, record_of(i));
    pair.ring.header->head.fetch_add(1);
    pair.ring.slots[5].stamp.store(writing(69));
    for (std::uint64_t i = 70; i < 75; ++i) write_record(pair.ring, record_of(i));
    const auto before = pair.reader[0].read();
    ck_assert_uint_eq(before.records.size(), 5);  // 69 is being written: waited for
    ck_assert_uint_eq(before.lost, 0);
    for (std::uint64_t i = 75; i < 140; ++i) write_record(pair.ring, record_of(i));
    ck_assert_uint_eq(pair.ring.header->dropped.load(), 1);  // 133
    pair.ring.slots[5].stamp.store(written(69));
    std::uint64_t lost = 0, read = 0, last = 0;
    for (int turn = 0; turn < 3; ++turn) {
        const auto batch = pair.reader[0].read();
        lost += batch.lost;
        read += batch.records.size();
        if (!batch.records.empty()) last = batch.records.back().sequence;
    }
    ck_assert_uint_eq(read + lost, 140 - 69);
    ck_assert_uint_eq(last, 139);
}

/// Writers count up, each from its own million.
void write_all(const Ring& ring, std::uint64_t threads, std::uint64_t each) {
    std::vector<std::jthread> writers;
    for (std::uint64_t t = 0; t < threads; ++t)
        writers.emplace_back([&ring, t, each] {
            for (std::uint64_t i = 0; i < each; ++i)
                write_record(ring, record_of(t * 1'000'000 + i));
        });
}

TEST(eight_writers_lose_double_and_tear_nothing) {
    constexpr std::uint64_t threads = 8, each = 1'000'000;
    Pair pair(64, 4);  // the reader is where the writers are
    std::jthread writers([&] { write_all(pair.ring, threads, each); });
    std::uint64_t read = 0, lost = 0, next = 0;
    std::map<std::uint64_t, std::uint64_t> last;
    while (read + lost < threads * each) {
        const auto batch = pair.reader[0].read();
        read += batch.records.size();
        lost += batch.lost;
        for (const Record& r : batch.records) {
            ck_assert_uint_ge(r.sequence, next);
            next = r.sequence + 1;
            ck_assert_msg(is_whole(r), "record %llu is torn",
                          static_cast<unsigned long long>(r.sequence));
            std::uint64_t& seen = last[r.count / 1'000'000];
            ck_assert(seen <= r.count % 1'000'000);
            seen = r.count % 1'000'000 + 1;
        }
    }
    ck_assert_uint_eq(read + lost, threads * each);
    ck_assert_uint_gt(read, 64);
}

TEST(a_big_enough_ring_loses_nothing_of_eight_writers) {
    Pair pair(1 << 16, 5);
    write_all(pair.ring, 8, 8000);
    const auto batch = pair.reader[0].read(1 << 16);
    ck_assert_uint_eq(batch.lost, 0);
    ck_assert_uint_eq(batch.records.size(), 64'000);
    std::map<std::uint64_t, int> times;
    for (const Record& r : batch.records) times[r.count] += 1;
    ck_assert_uint_eq(times.size(), 64'000);
}

TEST(a_reader_outlives_its_writer) {
    auto child = start_copy({.out = Stream::pipe}, [](const CopyEnds& ready) -> int {
        RingOwner mine = owner(6);
        mine.job = (std::uint64_t{1} << 50) + 6;
        const Ring ring = create_ring(mine, 1024);
        for (std::uint64_t i = 0;; ++i) {
            write_record(ring, record_of(i));
            if (i == 100 && ::write(ready.out.get(), "x", 1) != 1) return 1;
        }
    });
    ck_assert(child.ok());
    char c = 0;
    ck_assert_int_eq(::read(child->out.get(), &c, 1), 1);
    auto paths = find_rings(::geteuid());
    ck_assert(paths.ok());
    std::erase_if(*paths, [](const std::string& path) {
        return path.find(std::to_string((std::uint64_t{1} << 50) + 6)) == std::string::npos;
    });
    ck_assert_uint_eq(paths->size(), 1);
    auto reader = RingReader::open((*paths)[0], ::geteuid());
    ck_assert(reader.ok());
    ck_assert(reader->alive());
    std::uint64_t seen = 0, lost = 0;
    const auto read = [&] {
        const auto batch = reader->read();
        for (const Record& r : batch.records) ck_assert(is_whole(r));
        seen += batch.records.size();
        lost += batch.lost;
    };
    read();
    child->signal(SIGKILL);
    child->wait();
    ck_assert(!reader->alive());
    ck_assert(!reader->ended());
    read();
    ck_assert_uint_ge(seen, 100);
    ck_assert_uint_ge(seen + lost + 1, reader->calls());  // one may have been half written
    // The same rank again: what the dead one left goes.
    RingOwner again = owner(6);
    again.job = (std::uint64_t{1} << 50) + 6;
    const Ring ring = create_ring(again, 64);
    ck_assert(ring.header != nullptr);
    ck_assert(!std::filesystem::exists((*paths)[0]));
    auto left = find_rings(::geteuid());
    ck_assert(left.ok());
    for (const std::string& path : *left)
        if (path.find(std::to_string(again.job)) != std::string::npos) ::unlink(path.c_str());
}

TEST(a_ring_of_a_process_that_runs_stays) {
    RingOwner other = owner(7);
    other.pid = static_cast<std::uint32_t>(::getppid());
    other.pid_started = process_started(other.pid);
    const Ring theirs = create_ring(other, 64);
    ck_assert(theirs.header != nullptr);
    const Ring ours = create_ring(owner(7), 64);
    ck_assert(ours.header != nullptr);
    ck_assert_uint_eq(rings_of(7).size(), 2);
    const Ring after_exec = create_ring(owner(7), 64);
    ck_assert(after_exec.header != nullptr);
    const auto paths = rings_of(7);
    ck_assert_msg(paths.size() == 2, "but not what this one left before exec");
    for (const std::string& path : paths) ::unlink(path.c_str());
}

TEST(only_a_users_own_rings_are_read) {
    Pair pair(64, 8);
    const std::string path = rings_of(8)[0];
    test::assert_refused(RingReader::open(path, ::geteuid() + 1), "belongs to uid");
    ck_assert(find_rings(::geteuid() + 1)->empty());
    ::chmod(path.c_str(), 0644);
    test::assert_refused(RingReader::open(path, ::geteuid()), "others may open it");
    ck_assert(rings_of(8).empty());
    ::chmod(path.c_str(), 0600);
    const std::string link = path + ".link";
    ck_assert_int_eq(::symlink(path.c_str(), link.c_str()), 0);
    test::assert_refused(RingReader::open(link, ::geteuid()), "cannot be opened");
    ck_assert_uint_eq(rings_of(8).size(), 1);
    ::unlink(link.c_str());
}

TEST(headers_that_do_not_fit_are_refused) {
    RingHeader header;
    header.magic = ring_magic;
    header.version = ring_version;
    header.slot_bytes = sizeof(Slot);
    header.capacity = 64;
    const auto look = [&](std::uint64_t bytes) {
        return parse_ring_header({reinterpret_cast<const char*>(&header), sizeof header}, bytes);
    };
    ck_assert(look(ring_bytes(64)).ok());
    test::assert_refused(look(ring_bytes(64) - 1), "which");
    for (const std::uint64_t capacity : {std::uint64_t{0}, std::uint64_t{32}, std::uint64_t{65},
                                         most_records * 2, ~std::uint64_t{0}}) {
        header.capacity = capacity;
        test::assert_refused(look(ring_bytes(capacity)), "records");
    }
    header.capacity = 64;
    header.version = 2;
    test::assert_refused(look(ring_bytes(64)), "version 2");
    header.magic = 0;
    test::assert_refused(look(ring_bytes(64)), "no ring");
    test::assert_refused(parse_ring_header("short", 5), "shorter");
}

// ---- who is a rank ----------------------------------------------------------------------------

std::map<std::string, std::string> variables;
const char* lookup(const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
}

TEST(ranks_are_told_by_their_launcher) {
    variables = {};
    ck_assert(!rank_of_environment(lookup));
    variables = {{"RANK", "3"}};
    ck_assert(!rank_of_environment(lookup));  // anybody's variable
    variables = {{"SLURM_JOB_ID", "7"},       {"SLURM_STEP_ID", "2"}, {"SLURM_PROCID", "5"},
                 {"SLURM_LOCALID", "1"},      {"SLURM_NTASKS", "8"},  {"SLURM_NODEID", "2"},
                 {"SLURM_RESTART_COUNT", "4"}};
    RankId wanted;
    wanted.job = 7, wanted.step = 2, wanted.life = 4, wanted.rank = 5, wanted.local_rank = 1;
    wanted.ranks = 8, wanted.node = 2;
    ck_assert(rank_of_environment(lookup) == wanted);
    // mpirun in a job: its ranks inherit the variables of the daemon's task.
    variables["OMPI_COMM_WORLD_RANK"] = "6";
    variables["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
    variables["OMPI_COMM_WORLD_SIZE"] = "16";
    wanted.rank = 6, wanted.local_rank = 0, wanted.ranks = 16;
    ck_assert(rank_of_environment(lookup) == wanted);
    variables["OMPI_COMM_WORLD_RANK"] = "-1";
    ck_assert_uint_eq(rank_of_environment(lookup)->rank, 5);
    variables["SLURM_PROCID"] = "99999999999";
    ck_assert(!rank_of_environment(lookup));
}

TEST(runs_that_slurm_did_not_start_differ_by_what_their_launcher_calls_them) {
    variables = {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
    const auto first = rank_of_environment(lookup);
    variables["MASTER_PORT"] = "2";
    const auto second = rank_of_environment(lookup);
    ck_assert_uint_eq(first->job, 0);
    ck_assert_uint_ne(first->step, second->step);
    variables = {{"RANK", "0"}, {"LOCAL_RANK", "0"}};
    ck_assert_uint_eq(rank_of_environment(lookup)->step, 0);
}

TEST(rows_have_the_columns_of_the_published_logs) {
    Pair pair(64, 9);
    Record call = record_of(5);
    call.op = Op::send;
    write_record(pair.ring, call);
    Record timing = call;
    timing.kind = Kind::timing;
    write_record(pair.ring, timing);
    call.op = Op::all_reduce;
    call.time_ns -= 1;
    write_record(pair.ring, call);
    const auto batch = pair.reader[0].read();
    const std::string rows = csv_rows(pair.reader[0], batch.records, Kind::call);
    ck_assert_int_eq(std::count(rows.begin(), rows.end(), '\n'), 2);  // one is a timing
    const auto fields = [](const std::string& line) {
        return std::count(line.begin(), line.begin() + static_cast<long>(line.find('\n')), ',');
    };
    ck_assert_int_eq(fields(rows), fields(csv_head()));
    ck_assert(csv_head().starts_with("comm,op_id,count,"));
    ck_assert(rows.find(",6,5,") < rows.find(",0,5,"));  // by time
    ck_assert_int_eq(fields(csv_rows(pair.reader[0], batch.records, Kind::timing)), 19);
}

}  // namespace
