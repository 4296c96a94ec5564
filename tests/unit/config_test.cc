// SPDX-License-Identifier: GPL-2.0-or-later
// The YAML reader's limits and arena.yaml: what is refused, where, and with which words.
#include "site/config.h"

#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "base/yaml.h"
#include "directory.h"
#include "site/config_place.h"
#include "site/kept_config.h"
#include "suite.h"

using namespace arena;
using arena::test::assert_refused;
using arena::test::assert_text;
using arena::test::must;

TEST(yaml_keeps_order_and_places) {
    const auto root = must(parse_yaml("a: 1\nb:\n  - x\n  - {c: \"2\"}\n", "f"));
    ck_assert_uint_eq(root.members.size(), 2);
    const YamlNode& list = *root.find("b");
    ck_assert_uint_eq(list.items.size(), 2);
    const YamlNode& c = *list.items[1].find("c");
    assert_text(c.where("f"), "f:4:9");
    ck_assert(c.quoted);
    assert_refused(yaml_integer(c, "f", "c", 0, 9), "f:4:9: c: \"2\" is not accepted");
    ck_assert(yaml_integer(*root.find("a"), "f", "a", 0, 9).value() == 1);
}

TEST(json_is_yaml_enough) {
    const auto root =
        must(parse_yaml(R"({"n_layer": 48, "tie": true, "e": 1e-5, "s": null})", "f"));
    ck_assert(yaml_integer(*root.find("n_layer"), "f", "n_layer", 1, 99).value() == 48);
    ck_assert(yaml_bool(*root.find("tie"), "f", "tie").value());
    ck_assert(yaml_number(*root.find("e"), "f", "e", 0, 1).value() == 1e-5);
    assert_refused(yaml_string(*root.find("s"), "f", "s"), "a text");
}

TEST(yaml_that_could_expand_or_surprise_is_refused) {
    assert_refused(parse_yaml("a: &x 1\nb: 2\n", "f"), "f:1:4: anchors");
    assert_refused(parse_yaml("b: *x\n", "f"), "f:1:4: aliases");
    assert_refused(parse_yaml("b: !!int 3\n", "f"), "tags");
    assert_refused(parse_yaml("a: 1\n---\nb: 2\n", "f"), "only one document");
    assert_refused(parse_yaml("a: 1\na: 2\n", "f"), "f:2:1: key \"a\" is given twice");
    assert_refused(parse_yaml("? [1]\n: 2\n", "f"), "a key must be a word");
    assert_refused(parse_yaml("a: \xff\xfe\n", "f"), "f:1:");
    assert_refused(parse_yaml(std::string("a: \0\n", 5), "f"), "control");
    assert_refused(parse_yaml("a: [1\n", "f"), "not valid YAML");
    assert_refused(parse_yaml("%TAG ! tag:x,2000:\n---\na: 1\n", "f"), "%TAG");
}

TEST(yaml_limits_hold) {
    assert_refused(parse_yaml(std::string(17, '[') + std::string(17, ']'), "f"), "deeper than 16");
    ck_assert(parse_yaml(std::string(16, '[') + std::string(16, ']'), "f").ok());
    assert_refused(parse_yaml(std::string(70000, ' '), "f"), "larger than 65536");
    std::string many = "[";
    for (int i = 0; i < 5000; ++i) many += "1,";
    assert_refused(parse_yaml(many + "1]", "f"), "more than 4096");
    std::string empties = "[";
    for (int i = 0; i < 5000; ++i) empties += "[],";
    assert_refused(parse_yaml(empties + "[]]", "f"), "more than 4096");
}

TEST(an_empty_file_gives_the_defaults) {
    for (const char* text : {"", "# nothing\n", "---\n", "{}", "profile:\n"}) {
        const auto config = parse_config(text, "arena.yaml");
        ck_assert_msg(config.ok(), "%s: %s", text, config.error().message().c_str());
        ck_assert(*config == Config{});
    }
}

TEST(every_group_is_read) {
    const auto config = parse_config(
        "enabled: false\npolicy: fifo\ninterval_s: 1.5\nreserve_depth: 3\n"
        "gpu_types:\n  a40: A40\n  a100: A100-SXM-80GB\n"
        "profile:\n  user: prof\n  budget_s: 30\n  partition: \"\"\n"
        "resize: {checkpoint_signal: TERM, requeue_exit_code: 77}\nsocket: /tmp/s\n",
        "arena.yaml");
    ck_assert_msg(config.ok(), "%s", config.error().message().c_str());
    ck_assert(!config->enabled);
    ck_assert(config->interval_s == 1.5 && config->reserve_depth == 3);
    ck_assert(config->gpu_types ==
              (std::vector<GpuMapping>{{"a40", "A40"}, {"a100", "A100-SXM-80GB"}}));
    assert_text(config->profile_user, "prof");
    assert_text(config->checkpoint_signal, "TERM");
    ck_assert_int_eq(config->requeue_exit_code, 77);
    assert_text(config_value(*config, "profile.user").value(), "prof");
    assert_text(config_value(*config, "gpu_types").value(), "a40: A40\na100: A100-SXM-80GB");
    assert_refused(config_value(*config, "profile.usr"), "unknown key \"profile.usr\"");
}

TEST(what_stands_in_quotes_is_text) {
    const auto config = must(parse_config(
        "hardware_file: \"/etc/a \\\"b\\\" \\\\c.yaml\"\ngpu_types: {\"no\": \"null\"}\n", "f"));
    assert_text(config.hardware_file, "/etc/a \"b\" \\c.yaml");
    ck_assert((config.gpu_types == std::vector{GpuMapping{"no", "null"}}));
}

TEST(bad_values_name_place_value_and_range) {
    const auto refused = [](const char* text, const char* needle) {
        assert_refused(parse_config(text, "arena.yaml"), needle);
    };
    refused("polcy: fifo\n", "arena.yaml:1:1: unknown key \"polcy\"; did you mean \"policy\"?");
    refused("profile:\n  usr: x\n", "arena.yaml:2:3: unknown key \"usr\"; did you mean \"user\"?");
    refused("interval_s: 0\n", "interval_s: \"0\" is not accepted; give a number from 0.2 to 3600");
    refused("interval_s: nan\n", "not accepted");
    refused("reserve_depth: 1.5\n", "an integer from 0 to 100");
    refused("enabled: maybe\n", "true or false");
    refused("profile: {user: root}\n", "profile.user: \"root\" is not accepted");
    refused("profile: {spool: relative/path}\n", "an absolute path");
    refused("resize: {checkpoint_signal: KILL}\n", "one of USR1");
    refused("gpu_types: [a40]\n", "give a map");
    refused("gpu_types: {\"a b\": A40}\n", "is not accepted");
    refused("min_gap_s: 10\ninterval_s: 5\n", "must not be larger than interval_s");
    refused("profile: {budget_s: 60, time_limit_s: 60}\n", "must be larger than profile.budget_s");
    refused("- a\n", "a map of key: value");
    refused("just text\n", "a map of key: value");
    refused("profile: 3\n", "a map of key: value");
}

TEST(the_description_names_every_key) {
    const std::string text = describe_config_keys();
    for (const char* key :
         {"enabled: ", "interval_s: ", "profile.user: ", "resize.requeue_exit_code: "}) {
        ck_assert_msg(text.find(key) != std::string::npos, "%s", key);
    }
}

TEST(one_rule_says_which_arena_yaml_is_read) {
    const test::Directory directory;
    const std::string beside = directory / "arena.yaml", conf = directory / "slurm.conf";
    unsetenv("ARENA_CONF");
    setenv("SLURM_CONF", conf.c_str(), 1);
    const std::string installed = config_path();
    ck_assert_msg(installed.ends_with("/slurm/arena.yaml") && installed != beside, "%s",
                  installed.c_str());
    ck_assert(write_file_atomic(beside, "").ok());
    test::assert_text(config_path(), beside);
    setenv("SLURM_CONF", "/nonexistent/slurm.conf", 1);
    ck_assert_msg(config_path_beside(conf.c_str()) == beside,
                  "the path that slurmctld was given wins");
    test::assert_text(config_path(), installed);
    setenv("ARENA_CONF", "/another.yaml", 1);
    test::assert_text(config_path_beside(conf.c_str()), "/another.yaml");
    unsetenv("SLURM_CONF");
}

TEST(a_command_that_can_do_without_a_file_takes_only_its_absence_for_none) {
    const test::Directory directory;
    const std::string path = directory / "arena.yaml", link = directory / "link.yaml";
    setenv("ARENA_CONF", path.c_str(), 1);
    ck_assert(load_config_or_defaults("").value() == Config{});
    assert_refused(load_config_or_defaults(path), "cannot open: No such file");
    ck_assert(load_config_or_defaults(path).error().code == ErrorCode::environment);
    ck_assert(write_file_atomic(path, "interval_s: 7\n").ok());
    ck_assert_double_eq(load_config_or_defaults("")->interval_s, 7);
    std::filesystem::create_symlink("arena.yaml", link);
    ck_assert_double_eq(load_config_or_defaults(link)->interval_s, 7);
    ck_assert(!load_config(link).ok());  // a daemon's: it follows none
    ck_assert(write_file_atomic(path, "intervals: 7\n").ok());
    for (const std::string& named : {std::string(), path}) {
        assert_refused(load_config_or_defaults(named), "unknown key \"intervals\"");
        ck_assert(load_config_or_defaults(named).error().code == ErrorCode::usage);
    }
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    assert_refused(load_config_or_defaults(""), "is not a regular file");
    ck_assert(load_config_or_defaults("").error().code == ErrorCode::environment);
}

TEST(the_last_good_configuration_is_kept_with_what_it_names) {
    const test::Directory directory;
    const std::string path = directory / "arena.yaml", kept = directory / "state/arena",
                      hardware = directory / "gpus.yaml";
    std::filesystem::create_directory(directory / "state");
    assert_text(kept_config_directory(directory / "state"), kept);
    ck_assert(!load_kept_config(kept).ok());
    ck_assert(write_file_atomic(hardware, "gpu_types: []\n").ok());
    ck_assert(write_file_atomic(path, "interval_s: 7\nhardware_file: " + hardware + "\n").ok());
    const Config good = must(load_config(path));
    ck_assert(keep_config(kept, path, good).ok());
    std::filesystem::remove(hardware);
    const Config again = must(load_kept_config(kept));
    ck_assert_double_eq(again.interval_s, 7);
    assert_text(again.hardware_file, kept + "/hardware.yaml");
    assert_text(must(read_regular_file(again.hardware_file, 100)), "gpu_types: []\n");
    assert_text(again.calibration_file, "");
    // Read, and written anew since: what was read is not there to be kept.
    ck_assert(write_file_atomic(path, "interval_s: 8\n").ok());
    ck_assert(keep_config(kept, path, good).ok());
    ck_assert_double_eq(load_kept_config(kept)->interval_s, 7);
    ck_assert(keep_config(kept, path, must(load_config(path))).ok());
    ck_assert_double_eq(load_kept_config(kept)->interval_s, 8);
    ck_assert(!keep_config(directory / "away/arena", path, must(load_config(path))).ok());
}
