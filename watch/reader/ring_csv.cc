// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/reader/ring_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace arena::watch {
namespace {

/// Buffers' addresses are not recorded and the number of devices is not known: 0, as in those logs.
void append_row(std::string& out, const RingReader& ring, const Record& r) {
    const RingOwner& owner = ring.facts().owner;
    const std::uint64_t since = r.time_ns > owner.opened_ns ? r.time_ns - owner.opened_ns : 0;
    fmt::format_to(std::back_inserter(out), "{},{},{},0,0,{},{},{},{},{},{},{},0,{}", r.comm,
                   static_cast<unsigned>(r.op), r.count, static_cast<unsigned>(r.type), owner.pid,
                   since / 1000, ring.device(), owner.rank, r.aux, r.duration_ns / 1000,
                   r.sequence);
    fmt::format_to(std::back_inserter(out), ",rank{},{},{},{},{},{}\n", owner.rank,
                   has_peer(r.op) ? r.aux : -1, r.bytes, r.generation, r.time_ns,
                   static_cast<unsigned>(r.front));
}

}  // namespace

std::string csv_head() {
    return "comm,op_id,count,send_pointer,recv_pointer,dtype,pid,t_us,device,rank,aux,duration_us,"
           "num_devices,event_id,sequence,peer,bytes,generation,time_ns,front\n";
}

std::string csv_rows(const RingReader& ring, std::vector<Record> records, Kind kind) {
    std::erase_if(records, [&](const Record& r) { return r.kind != kind; });
    std::stable_sort(records.begin(), records.end(),
                     [](const Record& a, const Record& b) { return a.time_ns < b.time_ns; });
    std::string out;
    for (const Record& r : records) append_row(out, ring, r);
    return out;
}

}  // namespace arena::watch
