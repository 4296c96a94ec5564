// SPDX-License-Identifier: GPL-2.0-or-later
// What the tests of the profile store share: a directory for each test, a profile, a report, and
// SQL behind the store's back.
#pragma once

#include <sqlite3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/text.h"
#include "store/store.h"
#include "suite.h"

namespace arena::test {

namespace fs = std::filesystem;

inline std::string directory;  ///< of the test at hand

inline void make_directory() {
    char name[] = "/tmp/arena-store-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(name));
    directory = name;
}
inline void remove_directory() { fs::remove_all(directory); }
inline std::string db_path() { return directory + "/profiles.db"; }

inline Profile sample(const std::string& nonce, double seconds,
                      const std::string& library = "OpenBLAS") {
    Profile p;
    p.nonce = nonce;
    p.gpu_type = "a40";
    p.hardware = "emulated-cpu";
    p.model_fingerprint = sha256_hex("gpt2");
    p.device = {"cpu", "AMD EPYC", "", "6.1", library, 1 << 30, 2, "n1"};
    p.device_seconds = 1.5;
    p.started_s = 1700000000.25;
    p.wanted = 55, p.reused = 12, p.direct_seconds = 3600.5;
    p.state = {1410, 61, 300};
    p.place = {"0000:17:00.0", 0, {"0000:16:00.0", "0000:15:00.0"}, {"mlx5_0", "mlx5_1"}};
    OpShape g;
    g.dims = {64, 32, 16, 1};
    OpShape w = g;
    w.pass = Pass::backward;
    w.variant = Gradient::weights;
    p.entries = {{w, seconds * 2, 7, 0.01}, {g, seconds, 5, 0.005}};
    return p;
}

inline double seconds_of(const ProfileTable& table, const OpShape& shape) {
    for (const auto& [measured, seconds] : table.rows())
        if (measured == shape) return seconds;
    return 0;
}

inline std::string nonce_of(int i) {
    char text[32];
    std::snprintf(text, sizeof text, "nonce%016d", i);
    return text;
}

inline std::unique_ptr<ProfileStore> must_open(std::string* notice = nullptr) {
    return must(ProfileStore::open(db_path(), notice));
}

inline void sql(const std::string& text) {
    sqlite3* db = nullptr;
    ck_assert_int_eq(sqlite3_open(db_path().c_str(), &db), SQLITE_OK);
    char* message = nullptr;
    const int r = sqlite3_exec(db, text.c_str(), nullptr, nullptr, &message);
    ck_assert_msg(r == SQLITE_OK, "%s", message);
    sqlite3_close(db);
}

inline int count_named(const std::string& part) {
    int n = 0;
    for (const auto& e : fs::directory_iterator(directory))
        n += e.path().filename().string().find(part) != std::string::npos;
    return n;
}

/// n runs of 60 operators each.
inline void fill(int n) {
    auto store = must_open();
    for (int i = 0; i < n; ++i) {
        Profile p = sample(nonce_of(i), 0.001);
        for (int d = 1; d < 60; ++d) {
            OpShape s;
            s.dims = {d, i + 1, 7, 1};
            p.entries.push_back({s, 0.001 * d, 3, 0.01});
        }
        must(store->import(p, "m"));
    }
}

inline ObservedRun observed_run(double iteration_s, std::int64_t dp) {
    Plan plan;
    plan.stage_layers = {12};
    plan.stage_dp = {dp};
    plan.stage_tp = {1};
    return {"0123456789abcdef",
            "gpt2",
            64,
            "arena-train",
            {{"a40", 1, dp, 1}, plan, iteration_s, 1, 0.02},
            40,
            7,
            1700000000.5,
            1000,
            false,
            {7}};
}

}  // namespace arena::test
