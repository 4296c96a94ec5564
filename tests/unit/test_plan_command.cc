// SPDX-License-Identifier: GPL-2.0-or-later
// `arena plan` as a command in this process: what it does to a profile store beside its answer,
// which t0050 and t0430 check.
#include <CLI/CLI.hpp>

#include "cli/planning/commands.h"
#include "store_cases.h"

using namespace arena;
using namespace arena::test;

namespace {

int connections = 0;

/// SQLite calls it for every connection that opens.
int count_connection(sqlite3*, char**, const sqlite3_api_routines*) {
    ++connections;
    return SQLITE_OK;
}

int run_plan(const std::string& profiles) {
    CLI::App app;
    cli::Globals globals;
    globals.json = true;
    cli::add_plan(app, globals);
    const char* words[] = {"arena",          "plan", "--model",    "gpt2",
                           "--global-batch", "8",    "--gpu-type", "A40",
                           "--gpus",         "1",    "--profiles", profiles.c_str()};
    app.parse(static_cast<int>(std::size(words)), words);
    return globals.status;
}

}  // namespace

TEST(a_store_is_opened_once) {
    Profile profile = sample(nonce_of(1), 0.001);
    profile.hardware = "A40";
    must(must_open()->import(profile, "gpt2"));
    setenv("ARENA_CONF", (directory + "/none.yaml").c_str(), 1);
    ck_assert_int_eq(sqlite3_auto_extension(reinterpret_cast<void (*)()>(count_connection)),
                     SQLITE_OK);
    ck_assert_int_eq(run_plan(db_path()), cli::exit_yes);
    ck_assert_int_eq(connections, 1);
    ck_assert_int_eq(run_plan("none"), cli::exit_yes);
    ck_assert_int_eq(connections, 1);
}

SUITE({make_directory, remove_directory, 60});
