// SPDX-License-Identifier: GPL-2.0-or-later
// A profile store that cannot take a result, because the disk is full or the file was damaged while
// slurmctld runs: what was measured counts, and nothing is measured twice. A scheduler on a
// scripted host with a real store.
#include <sqlite3.h>

#include <fstream>

#include "full_disk.h"
#include "planner/search/planner.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

Request tiny() {
    Request r = Scene::request();
    r.model = find_zoo_model("gpt2").value();
    r.model.name = "tiny";
    r.model.layers = 2, r.model.hidden = 64, r.model.heads = r.model.kv_heads = 4;
    r.model.ffn_hidden = 256, r.model.vocab = 1024, r.model.seq_length = 64;
    r.gpu_types = {"a40"};
    r.max_gpus = 1;
    return r;
}

/// Of all operators that the request needs.
Profile result_of(const ProfileRequest& request) {
    Profile profile;
    profile.nonce = request.nonce;
    profile.gpu_type = request.gpu_type;
    profile.hardware = request.hardware;
    profile.model_fingerprint = fingerprint(request.model);
    profile.device = {"cpu", "cpu", "", "6.1", "blas", 1 << 30, 2, "n1"};
    profile.device_seconds = 10;
    profile.started_s = 1000;
    const auto type = find_hardware(load_hardware("").value(), request.hardware).value();
    for (const OpShape& shape : operator_list(profile_query(request, type)))
        profile.entries.push_back({shape, 1e-3, 3, 0.01});
    return profile;
}

struct StoreScene : Scene {
    std::unique_ptr<Scheduler> played;
    StoreScene() {
        config.profile_enabled = true;
        for (const std::string name : {"n1", "n2"}) node(name, "a40", 2, 2);
        job(1, tiny());
        played = scheduler();
        played->round();
        ck_assert_uint_eq(host.specs.size(), 1);
    }
    /// The run ends, and its result is in the spool.
    void finish() {
        const CarrierSpec& spec = host.specs.back();
        ck_assert(write_file_atomic(directory / (spec.request.nonce + ".json"),
                                    to_json(result_of(spec.request)), 0644)
                      .ok());
        host.view.carriers = {{101, 0, to_json(spec.request), spec.node, true, 1000}};
    }
    void later(double seconds) {
        host.view.snapshot.time_s += seconds;
        played->round();
    }
    [[nodiscard]] std::size_t said(const std::string& words) const {
        return static_cast<std::size_t>(std::count_if(
            host.errors.begin(), host.errors.end(),
            [&](const std::string& line) { return line.find(words) != std::string::npos; }));
    }
    void assert_job_1_started_as_measured() {
        ck_assert(std::any_of(host.calls.begin(), host.calls.end(),
                              [](const std::string& c) { return c.starts_with("start 1"); }));
        ck_assert(host.last_shape.offer.estimate.source == Source::profiled);
        ck_assert_uint_eq(host.specs.size(), 1);  // nothing was measured twice
        ck_assert(played->stats_json().find("\"failed\":0") != std::string::npos);
    }
    [[nodiscard]] std::size_t runs_in_store() {
        played.reset();  // the store is one writer's
        return ProfileStore::open(config.profile_store).value()->runs().value().size();
    }
};

}  // namespace

TEST(what_a_full_disk_keeps_out_of_the_store_counts_and_goes_in_once_there_is_room) {
    StoreScene scene;
    scene.finish();
    {
        const FullDisk full;
        scene.later(1);
        scene.assert_job_1_started_as_measured();
        for (int i = 0; i < 20; ++i) scene.later(10);
        // Another job of the model, and a longer time than Slurm remembers the run's job for.
        scene.host.view.carriers.clear();
        scene.job(2, tiny());
        scene.later(600);
        ck_assert_uint_eq(scene.host.specs.size(), 1);
    }
    ck_assert_uint_eq(scene.said("waits in the spool"), 1);
    scene.later(11);
    ck_assert_uint_eq(scene.host.specs.size(), 1);
    ck_assert_uint_eq(scene.runs_in_store(), 1);
}

TEST(a_restart_on_a_full_disk_takes_the_result_from_the_spool) {
    StoreScene scene;
    scene.finish();
    const FullDisk full;
    scene.later(1);
    scene.played = scene.scheduler();
    scene.job(2, tiny());
    scene.later(1);
    ck_assert_uint_eq(scene.host.specs.size(), 1);
    ck_assert(std::any_of(scene.host.calls.begin(), scene.host.calls.end(),
                          [](const std::string& c) { return c.starts_with("start 2"); }));
    ck_assert(scene.host.last_shape.offer.estimate.source == Source::profiled);
}

TEST(a_store_that_is_damaged_while_it_is_open_is_set_aside_and_takes_the_result) {
    StoreScene scene;
    sqlite3* db = nullptr;  // a writer makes the scheduler's connection read the file again
    ck_assert_int_eq(sqlite3_open(scene.config.profile_store.c_str(), &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, "CREATE TABLE more(x); PRAGMA wal_checkpoint(TRUNCATE);",
                                  nullptr, nullptr, nullptr),
                     SQLITE_OK);
    sqlite3_close(db);
    const auto bytes = std::filesystem::file_size(scene.config.profile_store);
    ck_assert_uint_ge(bytes, 3 * 4096);
    std::fstream file(scene.config.profile_store, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(bytes - 4096, '\xa5');
    file.close();
    scene.finish();
    scene.later(1);
    scene.assert_job_1_started_as_measured();
    ck_assert_uint_eq(scene.said("profile store was corrupt"), 1);
    ck_assert_uint_eq(scene.runs_in_store(), 1);
    std::size_t aside = 0;
    for (const auto& entry : std::filesystem::directory_iterator(scene.directory))
        aside += entry.path().filename().string().find(".corrupt-") != std::string::npos ? 1 : 0;
    ck_assert_uint_ge(aside, 1);
}
