// SPDX-License-Identifier: GPL-2.0-or-later
// A table of fixed size with open addressing: read without a lock by every call, written under one
// by the few calls that make and free communicators.
#include "watch/recorder/comms.h"

#include <pthread.h>

#include <atomic>

#include "watch/ring/hash.h"

namespace arena::watch {
namespace {

constexpr std::uint64_t places = 4096;
constexpr std::uint64_t probes = 64;
constexpr std::uint64_t removed = ~std::uint64_t{0};

struct Entry {
    std::atomic<std::uint64_t> key{0};  ///< 0: never used
    std::atomic<std::uint64_t> name{0};
    std::uint32_t children = 0;  ///< under the lock
};

Entry table[places];
pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

class Lock {
  public:
    Lock() { pthread_mutex_lock(&changing); }
    ~Lock() { pthread_mutex_unlock(&changing); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
};

std::uint64_t key_of(Handle comm) { return comm + 1 == removed || comm + 1 == 0 ? 1 : comm + 1; }

Entry& place(std::uint64_t key, std::uint64_t probe) {
    return table[(((key * 0x9e3779b97f4a7c15) >> 52) + probe) & (places - 1)];
}

Entry* find(std::uint64_t key) {
    for (std::uint64_t probe = 0; probe < probes; ++probe) {
        Entry& entry = place(key, probe);
        const std::uint64_t there = entry.key.load(std::memory_order_acquire);
        if (there == key) return &entry;
        if (there == 0) return nullptr;
    }
    return nullptr;
}

/// Where it stands or may stand; null: this part of the table is full.
Entry* place_for(std::uint64_t key) {
    if (Entry* entry = find(key)) return entry;
    for (std::uint64_t probe = 0; probe < probes; ++probe) {
        Entry& entry = place(key, probe);
        const std::uint64_t there = entry.key.load();
        if (there == 0 || there == removed) return &entry;
    }
    return nullptr;
}

std::uint64_t own_name(Handle comm) { return Hash().text("not seen").number(comm).value(); }

Entry* add(Handle comm, std::uint64_t name) {
    Entry* entry = place_for(key_of(comm));
    if (entry == nullptr) return nullptr;
    entry->children = 0;
    entry->name.store(name);
    entry->key.store(key_of(comm), std::memory_order_release);
    return entry;
}

}  // namespace

std::uint64_t comm_name(Handle comm) {
    const Entry* entry = find(key_of(comm));
    return entry == nullptr ? own_name(comm) : entry->name.load(std::memory_order_relaxed);
}

void add_comm(Handle comm, std::uint64_t name) {
    const Lock lock;
    const Entry* entry = find(key_of(comm));
    if (entry != nullptr && entry->name.load() == name) return;  // in a group it is seen twice
    add(comm, name);
    next_generation();
}

void remove_comm(Handle comm) {
    const Lock lock;
    Entry* entry = find(key_of(comm));
    if (entry == nullptr) return;
    entry->key.store(removed, std::memory_order_release);
    next_generation();
}

std::uint32_t next_child(Handle parent) {
    const Lock lock;
    Entry* entry = find(key_of(parent));
    if (entry == nullptr) entry = add(parent, own_name(parent));
    return entry == nullptr ? 0 : entry->children++;
}

}  // namespace arena::watch
