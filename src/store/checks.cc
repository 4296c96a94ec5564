// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of nodes' GPUs, in the profile store: the table `device_checks`, one row per time measured
// (peer -1: a matrix product; else a copy to that GPU). It came without a new schema version: a
// program that does not know it leaves it alone.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/statistics.h"
#include "store/open.h"
#include "store/rows.h"
#include "store/sql.h"
#include "store/store.h"

namespace arena {
namespace {

using sql::sql_error;
using sql::Statement;
using sql::Transaction;

/// Of a device and what was measured on it.
using Key = std::tuple<std::int64_t, std::int64_t, std::string>;
using Samples = std::map<Key, std::vector<double>>;

/// Checks of a node that are kept, of each verdict; of them so many make its reference.
constexpr std::int64_t kept_checks = 8;
constexpr std::size_t own_samples = 5;
constexpr std::string_view link_word = "link";

/// Another card, driver or library is another device.
std::string identity_of(const CheckedDevice& device) {
    return device.device.identity() + "|" + device.device.uuid;
}

std::map<std::int64_t, std::string> identities(const NodeCheck& check) {
    std::map<std::int64_t, std::string> all;
    for (const CheckedDevice& device : check.devices) all[device.index] = identity_of(device);
    return all;
}

std::string_view word_of(const CheckVerdict& verdict) {
    if (verdict.is_slow()) return "slow";
    return verdict.is_healthy() ? "healthy" : "unknown";
}

void add(References& known, const Key& key, double seconds, Reference::From from) {
    const auto& [device, peer, what] = key;
    if (peer >= 0) {
        known.links.try_emplace({device, peer}, Reference{seconds, from});
    } else if (const auto shape = parse_op_key(what)) {
        known.products.try_emplace({device, *shape}, Reference{seconds, from});
    }
}

}  // namespace

Result<bool> CheckStore::knows(const std::string& nonce) {
    Statement s(db_, "SELECT 1 FROM device_checks WHERE nonce = ? LIMIT 1");
    const bool known = s.bind(nonce).step();
    if (s.code() != SQLITE_OK) return sql_error(db_, path_, "checks");
    return known;
}

Status CheckStore::keep(const NodeCheck& check, const CheckVerdict& verdict) {
    Transaction t(db_);
    if (t.code() != SQLITE_OK) return sql_error(db_, path_, "keep a check");
    Statement s(db_,
                "INSERT INTO device_checks(nonce, node, gpu_type, device, peer, identity, model,"
                " what, seconds, verdict, at_s) VALUES(?,?,?,?,?,?,?,?,?,?,?)");
    std::map<std::int64_t, std::string> models;
    for (const CheckedDevice& device : check.devices)
        models[device.index] = device.device.identity();
    const auto identity = identities(check);
    const auto insert = [&](std::int64_t device, std::int64_t peer, std::string_view what,
                            double seconds) {
        s.bind(check.nonce).bind(check.node).bind(check.gpu_type).bind(device).bind(peer);
        s.bind(identity.at(device)).bind(models.at(device)).bind(what).bind(seconds);
        s.bind(word_of(verdict)).bind(check.started_s).run();
    };
    for (const ProductTime& time : check.products)
        insert(time.device, -1, op_key(time.shape), time.seconds);
    for (const LinkTime& link : check.links) insert(link.from, link.to, link_word, link.seconds);
    if (s.code() != SQLITE_OK) return sql_error(db_, path_, "keep a check");
    Statement old(db_,
                  "DELETE FROM device_checks WHERE node = ?1 AND verdict = ?2 AND nonce NOT IN"
                  " (SELECT nonce FROM device_checks WHERE node = ?1 AND verdict = ?2"
                  "  GROUP BY nonce ORDER BY max(seq) DESC LIMIT ?3)");
    if (old.bind(check.node).bind(word_of(verdict)).bind(kept_checks).run() != SQLITE_OK ||
        t.commit() != SQLITE_OK)
        return sql_error(db_, path_, "keep a check");
    return Done{};
}

Status CheckStore::add_own(const NodeCheck& check, References& known) {
    Statement s(db_,
                "SELECT device, peer, what, seconds, identity FROM device_checks"
                " WHERE node = ? AND gpu_type = ? AND verdict = 'healthy' ORDER BY seq DESC");
    s.bind(check.node).bind(check.gpu_type);
    const auto identity = identities(check);
    Samples samples;
    while (s.step()) {
        const auto at = identity.find(s.integer(0));
        if (at == identity.end() || at->second != s.text(4) || !sql::is_time(s.number(3))) continue;
        std::vector<double>& seconds = samples[{s.integer(0), s.integer(1), s.text(2)}];
        if (seconds.size() < own_samples) seconds.push_back(s.number(3));
    }
    if (s.code() != SQLITE_OK) return sql_error(db_, path_, "checks");
    for (const auto& [key, seconds] : samples)
        add(known, key, median_of(seconds), Reference::From::own);
    return Done{};
}

/// Of each device of the other nodes its newest time; links of healthy machines differ by half.
Status CheckStore::add_others(const NodeCheck& check, References& known) {
    Statement s(db_,
                "SELECT node, device, what, seconds, model FROM device_checks WHERE node != ? AND"
                " gpu_type = ? AND peer = -1 AND verdict != 'slow' ORDER BY seq DESC");
    s.bind(check.node).bind(check.gpu_type);
    std::set<std::tuple<std::string, std::int64_t, std::string>> seen;
    std::map<std::pair<std::string, std::string>, std::vector<double>> of_model;
    while (s.step())
        if (sql::is_time(s.number(3)) && seen.insert({s.text(0), s.integer(1), s.text(2)}).second)
            of_model[{s.text(4), s.text(2)}].push_back(s.number(3));
    if (s.code() != SQLITE_OK) return sql_error(db_, path_, "checks");
    for (const CheckedDevice& device : check.devices)
        for (const auto& [what, seconds] : of_model)
            if (what.first == device.device.identity())
                add(known, {device.index, -1, what.second}, median_low_of(seconds),
                    Reference::From::others);
    return Done{};
}

Result<References> CheckStore::references(const NodeCheck& check) {
    References known;
    if (auto s = add_own(check, known); !s) return s.error();
    if (auto s = add_others(check, known); !s) return s.error();
    return known;
}

}  // namespace arena
