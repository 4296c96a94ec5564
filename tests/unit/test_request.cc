// SPDX-License-Identifier: GPL-2.0-or-later
// The request record and the #ARENA lines: what goes in comes out again, and hostile text is
// refused with a sentence that names the field.
#include <string>
#include <vector>

#include "request/request.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

Request sample() {
    Request r;
    r.model.name = "tiny";
    r.model.family = Family::llama;
    r.model.layers = 24;
    r.model.hidden = 2048;
    r.model.heads = 16;
    r.model.kv_heads = 8;
    r.model.ffn_hidden = 5504;
    r.model.vocab = 32000;
    r.model.seq_length = 2048;
    r.model.gated_mlp = true;
    r.model.learned_positions = false;
    r.global_batch = 512;
    r.min_gpus = 2;
    r.max_gpus = 16;
    r.gpu_types = {"a40", "h100"};
    r.pin = {2, 2, 1, 0};
    r.launcher = "megatron";
    r.launcher_version = "0.12";
    r.elastic = true;
    r.steps = 1000;
    r.user_hold = true;
    r.cpus_per_gpu = 4;
    r.mem_per_gpu_mb = 8192;
    r.mem_per_node_mb = 4;
    r.iteration_s = 0.512;
    return r;
}

std::string record(const Request& r) {
    const Result<std::string> text = format_record(r);
    ck_assert_msg(text.ok(), "format_record failed");
    return *text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    ck_assert_msg(at != std::string::npos, "the record has no %s", from.c_str());
    return text.replace(at, from.size(), to);
}

void refuses(const std::string& text, const std::string& word) {
    const Result<Request> r = parse_record(text);
    ck_assert_msg(!r.ok(), "accepted: %s", text.substr(0, 200).c_str());
    ck_assert_msg(r.error().message().find(word) != std::string::npos, "'%s' does not name '%s'",
                  r.error().message().c_str(), word.c_str());
}

void directives_refused(const std::string& script, const std::string& word) {
    const auto r = parse_directives(script);
    ck_assert_msg(!r.ok(), "accepted: %s", script.substr(0, 200).c_str());
    ck_assert_msg(r.error().message().find(word) != std::string::npos, "'%s' does not name '%s'",
                  r.error().message().c_str(), word.c_str());
}

}  // namespace

/// Records of before named a launcher unless it was env, which was the default then.
TEST(a_record_that_names_no_launcher_means_env) {
    Request wanted = sample();
    wanted.launcher = "env", wanted.launcher_version = "", wanted.launcher_by_default = false;
    const std::string named = record(wanted);
    const Result<Request> old = parse_record(replaced(named, "\"launcher\":\"env\",", ""));
    ck_assert(old.ok() && *old == wanted);
}

TEST(a_record_reads_back_as_the_request_it_was_made_of) {
    const Request r = sample();
    const Request back = must(parse_record(record(r)));
    ck_assert(back == r);
    ck_assert(record(r).find('\n') == std::string::npos);
}

TEST(a_minimal_request_keeps_its_defaults) {
    Request r;
    r.global_batch = 1;
    const Request back = must(parse_record(record(r)));
    ck_assert(back == r);
}

TEST(equal_custom_layers_travel_as_one_with_a_count) {
    Request r;
    r.global_batch = 8;
    r.model.family = Family::custom;
    r.model.custom_layers.assign(1000, CustomLayer{"block", 1, 1e12, 1e6, 1e5});
    r.model.custom_layers.push_back(CustomLayer{"head", 1, 1e11, 1e5, 1e4});
    r.model.custom_layers.back().operators = {{LayerOperator::Kind::gemm, {10, 20, 30}, 2},
                                              {LayerOperator::Kind::memory, {4096}, 1}};
    const std::string text = record(r);
    ck_assert_uint_lt(text.size(), 1000);
    const Result<Request> back = parse_record(text);
    ck_assert(back.ok());
    ck_assert_uint_eq(back->model.custom_layers.size(), 2);
    ck_assert_int_eq(back->model.custom_layers[0].count, 1000);
    ck_assert(back->model.custom_layers[1] == r.model.custom_layers.back());
}

TEST(a_record_that_would_not_fit_is_refused_when_it_is_written) {
    Request r;
    r.global_batch = 8;
    for (int i = 0; i < 1000; ++i)
        r.model.custom_layers.push_back(
            CustomLayer{"layer" + std::to_string(i), 1, 1e12, 1e6, 1e5});
    const Result<std::string> text = format_record(r);
    ck_assert(!text.ok());
    ck_assert(text.error().text.find("32768") != std::string::npos);
}

TEST(a_name_with_control_bytes_is_escaped) {
    Request r;
    r.global_batch = 1;
    r.model.name = "a\nb\x1b[31m";
    const Request back = must(parse_record(record(r)));
    ck_assert_str_eq(back.model.name.c_str(), "a\\x0ab\\x1b[31m");
}

TEST(unknown_keys_are_ignored) {
    const Request r = sample();
    const std::string text = replaced(record(r), "{", "{\"later\":{\"a\":[1]},");
    const Request back = must(parse_record(text));
    ck_assert(back == r);
}

TEST(forged_records_are_refused) {
    const std::string good = record(sample());
    refuses("", "JSON");
    refuses("{", "JSON");
    refuses(good + "x", "JSON");
    refuses(std::string("{\"v\":1,\"model\":\"\xff\xfe\"}"), "JSON");
    refuses("[1]", "object");
    refuses("{}", "v is not 2");
    refuses(replaced(good, "\"v\":2", "\"v\":1"), "differ in version");
    refuses(replaced(good, "\"batch\":\"512\"", "\"batch\":\"0\""), "batch");
    refuses(replaced(good, "\"batch\":\"512\"", "\"batch\":512"), "batch is not text");
    refuses(replaced(good, "\"batch\":\"512\",", ""), "--arena-batch (#ARENA batch): missing");
    refuses(replaced(good, "\"2-16\"", "\"2-1\""), "empty range");
    refuses(replaced(good, "\"a40,h100\"", "\"a40;rm\""), "GPU types");
    refuses(replaced(good, "\"a40,h100\"", "[\"a40\"]"), "types is not text");
    refuses(replaced(good, "\"megatron@0.12\"", "\"bash -c\""), "launcher");
    refuses(replaced(good, "\"user_hold\":true", "\"launcher_by_default\":1"), "true or false");
    refuses(replaced(good, "\"cpus-per-gpu\":\"4\"", "\"cpus-per-gpu\":\"-1\""), "cpus-per-gpu");
    refuses(replaced(good, "\"mem_per_node_mb\":4", "\"mem_per_node_mb\":-1"), "mem_per_node_mb");
    refuses(replaced(good, "\"mem_per_node_mb\":4", "\"mem_per_node_mb\":18446744073709551615"),
            "mem_per_node_mb");
    refuses(replaced(good, "\"mem_per_node_mb\":4", "\"mem_per_node_mb\":1e400"), "JSON");
    refuses(replaced(good, "\"mem_per_node_mb\":4", "\"mem_per_node_mb\":4.5"), "mem_per_node_mb");
    refuses(replaced(good, "\"user_hold\":true", "\"user_hold\":1"), "user_hold");
    refuses(replaced(good, "\"iteration_s\":0.512", "\"iteration_s\":-1"), "iteration_s");
    refuses(replaced(good, "\"iteration_s\":0.512", "\"iteration_s\":1e13"), "iteration_s");
    refuses(replaced(good, "\"llama\"", "\"lama\""), "family");
    refuses(replaced(good, "\"hidden\":2048", "\"hidden\":-1"), "hidden");
    refuses(replaced(good, "\"hidden\":2048", "\"hidden\":1e300"), "hidden");
    refuses(std::string(40000, ' ') + good, "32768");
    refuses(std::string(10000, '['), "deep");
    refuses(replaced(good, "\"model\":{", "\"x\":[[[[[[[[[]]]]]]]]],\"model\":{"), "deep");
}

TEST(forged_custom_layers_are_refused) {
    Request r;
    r.global_batch = 8;
    r.model.family = Family::custom;
    r.model.custom_layers = {CustomLayer{"block", 3, 1e12, 1e6, 1e5}};
    const std::string good = record(r);
    refuses(replaced(good, "\"count\":3", "\"count\":0"), "count");
    refuses(replaced(good, "\"count\":3", "\"count\":9999999999"), "count");
    refuses(replaced(good, "1000000000000.0", "-1"), "flops");
    refuses(replaced(good, "1000000000000.0", "1e300"), "flops");
    refuses(replaced(good, "1000000000000.0", "null"), "flops");
    refuses(replaced(good, "\"block\"", "\"a\\u0007b\""), "name");
}

TEST(directives_are_read_up_to_the_first_command) {
    const auto r = must(parse_directives(
        "#!/bin/bash\n#SBATCH -N1\n#ARENA model=gpt2-xl\n\n  # words\n#ARENA batch=512 gpus=2-8\n"
        "#ARENAX not=ours\n #ARENA indented=comment\n#ARENA\tkv_heads=8\nsrun ./a\n#ARENA "
        "plan=pp2\n"));
    const std::vector<Setting> expected = {
        {"model", "gpt2-xl"}, {"batch", "512"}, {"gpus", "2-8"}, {"kv-heads", "8"}};
    ck_assert(r == expected);
}

TEST(scripts_without_directives_have_no_settings) {
    for (const char* script :
         {"", "#!/bin/sh\n", "#!/bin/sh\necho '#ARENA model=x'\n", "\n\n\n", "#ARENAmodel=x"}) {
        const auto r = must(parse_directives(script));
        ck_assert(r.empty());
    }
}

TEST(bad_directives_are_refused_with_their_line) {
    directives_refused("#!/bin/sh\n#ARENA\n", "line 2");
    directives_refused("#ARENA model\n", "key=value");
    directives_refused("#ARENA =x\n", "key=value");
    directives_refused("#ARENA model=\n", "no value");
    directives_refused("#ARENA modle=x\n", "did you mean 'model'");
    directives_refused("#ARENA frobnicate=1\n", "accepted: model");
    directives_refused("#ARENA model=a\n#ARENA model=a\n", "twice");
    directives_refused("#ARENA kv-heads=1 kv_heads=2\n", "twice");
    directives_refused("#ARENA model=$(reboot)\n", "character");
    directives_refused("#ARENA model=`x`\n", "character");
    directives_refused("#ARENA model='a'\n", "character");
    directives_refused("#ARENA model=../../etc/shadow\n", "--arena-model");
    directives_refused("#ARENA model=a\r\n", "printable ASCII");
    directives_refused(std::string("#ARENA model=a\0b\n", 17), "printable ASCII");
    directives_refused("#ARENA model=\xff\n", "printable ASCII");
    directives_refused("#ARENA model=" + std::string(300, 'a') + "\n", "longer than 256");
}

TEST(the_number_of_directives_is_limited) {
    std::string script;
    for (int i = 0; i < 65; ++i) script += "#ARENA batch=" + std::to_string(i) + "\n";
    directives_refused(script, "more than 64");
    std::string bare;
    for (int i = 0; i < 100000; ++i) bare += "#ARENA \n";
    directives_refused(bare, "more than 64");
}

TEST(only_the_first_64_kib_are_read) {
    const std::string filler(64 * 1024 - 10, '#');
    const auto past = must(parse_directives(filler + "#########\n\n#ARENA model=x\n"));
    ck_assert(past.empty());
    directives_refused(filler + "\n#ARENA model=x\n", "64 KiB");
    ck_assert(parse_directives(std::string(1 << 26, 'x')).ok());
}
