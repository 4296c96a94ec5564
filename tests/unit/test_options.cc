// SPDX-License-Identifier: GPL-2.0-or-later
// The table of options through every channel: what is given as --arena-KEY, #ARENA line, record or
// Comment is one request, or refused with one sentence. And what is written of the table by hand:
// the manual page.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.h"
#include "planner/requests/build_request.h"
#include "plugin/job_submit/submit_rules.h"
#include "plugin/spank/spank_options.h"
#include "request/options.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

using Settings = std::vector<Setting>;

struct Sample {
    const char* key;
    std::vector<const char*> good, bad;
};
/// Of every option; of characters that #ARENA lines may have.
const std::vector<Sample> samples = {
    {"model", {"gpt2", "llama-2-7b"}, {"gpt3000"}},
    {"model-ignore", {"some_key", "--an-option,key.2"}, {"a,,b", ",", "a:b", "a=b"}},
    {"batch", {"1", "16777216"}, {"0", "16777217", "-1", "12x", "99999999999999999999"}},
    {"seq-length", {"128", "1024"}, {"0", "16777217", "x"}},
    {"precision", {"fp32", "fp8", "nvfp4"}, {"fp12", "FP8"}},
    {"lora", {"1", "65536", "none"}, {"0", "65537", "-1", "r8", "None"}},
    {"gpus", {"4", "2-8", "65536", "any"}, {"0", "4-", "-4", "4-8-12", "a", "8-4", "1-70000"}},
    {"types", {"a40", "h100,a40", "any"}, {"a40,,a100", "a40,a40", ",", "a:b"}},
    {"cpus-per-gpu", {"1", "4", "65536"}, {"0", "65537", "4x", "-1"}},
    {"mem-per-gpu",
     {"8000", "8G", "1K", "1M", "1024T", "1073741824"},
     {"0", "8Q", "G", "1.5G", "-1", "1025T", "1073741825", "99999999999999999999G"}},
    {"plan",
     {"pp2", "pp2,dp2,tp1", "mb4x8", "pp2,dp2,tp2,mb4x8,full,zero1,sp", "cp2", "any"},
     {"qq2", "pp0", "pp2,pp2", "pp13", "tp5", "dp7", "ep2", "cp3", "vpp5", "mb4x7", "dp1,zero1",
      "pp12,dp64,cp512"}},
    {"launcher",
     {"ddp", "env", "torchrun", "megatron@0.12", "megatron"},
     {"mpirun", "megatron@99", "env@1", "ddp@1", "Megatron"}},
    {"elastic", {"yes", "no", "inplace"}, {"maybe", "true", "1"}},
    {"steps", {"1", "1099511627776"}, {"0", "1099511627777", "1.5"}},
    {"slowdown", {"off", "watch", "mitigate"}, {"on", "Watch", "yes"}},
    {"loan", {"yes", "no"}, {"maybe", "true", "1"}},
    {"array", {"yes", "no", "2", "1024"}, {"maybe", "1", "1025"}},
};

struct Told {
    std::string channel;
    Result<Request> request;
};

Result<Request> submitted(const SubmitFacts& facts) {
    const auto request = read_request(facts);
    if (!request) return request.error();
    ck_assert(request->has_value());
    return **request;
}

Settings with(Settings settings, const Setting& more) {
    std::erase_if(settings, [&](const Setting& s) { return s.first == more.first; });
    settings.push_back(more);
    return settings;
}

Result<Request> by_sbatch(const Settings& settings) {
    OptionSet options;
    for (const auto& [key, value] : settings) options.add(key, value, OptionSource::command_line);
    return make_request(options, false);
}

Result<Request> by_directives(const Settings& settings) {
    std::string script = "#!/bin/sh\n";
    for (const auto& [key, value] : settings)
        script += std::string("#ARENA ").append(key).append("=").append(value) + "\n";
    SubmitFacts facts;
    facts.script = script;
    return submitted(facts);
}

Result<Request> by_record(const Request& request, const Setting& more, const std::string& comment) {
    nlohmann::json record = nlohmann::json::parse(format_record(request).value());
    if (!more.first.empty()) record[more.first] = more.second;
    SubmitFacts facts;
    facts.script = "#!/bin/sh\n";
    facts.records = {record.dump()};
    facts.comment = comment;
    return submitted(facts);
}

/// The same said in every way that the option has.
std::vector<Told> by_all_channels(const Settings& base, const Option& option,
                                  const std::string& value) {
    const Setting more{option.key, value};
    std::vector<Told> told{{"--arena-", by_sbatch(with(base, more))},
                           {"#ARENA ", by_directives(with(base, more))}};
    if (option.format == nullptr) return told;
    const Request rest = by_sbatch(base).value();
    told.push_back({"request record: ", by_record(rest, more, "")});
    if (!option.change.empty())
        told.push_back(
            {"Comment=arena:", by_record(rest, {}, "arena:" + more.first + "=" + value)});
    return told;
}

/// Elastic: what may be lent nodes must be. A launcher that can be told most plans.
const Settings base{{"model", "gpt2"}, {"batch", "64"}, {"elastic", "yes"}, {"launcher", "env"}};

void all_take(const Settings& rest, const Option& option, const std::string& value) {
    const std::vector<Told> told = by_all_channels(rest, option, value);
    for (const Told& t : told) {
        ck_assert_msg(t.request.ok(), "%s%s=%s: %s", t.channel.c_str(), option.key.data(),
                      value.c_str(), t.request.ok() ? "" : t.request.error().message().c_str());
        ck_assert_msg(*t.request == *told.front().request, "%s%s=%s is another request",
                      t.channel.c_str(), option.key.data(), value.c_str());
        const Result<Request> again = parse_record(format_record(*t.request).value());
        ck_assert_msg(again.ok() && *again == *t.request, "%s%s=%s: the record says another",
                      t.channel.c_str(), option.key.data(), value.c_str());
    }
}

/// `named`: the option that the refusal is about.
void all_refuse(const Settings& rest, const Option& option, const std::string& value,
                std::string_view named) {
    const std::vector<Told> told = by_all_channels(rest, option, value);
    for (const Told& t : told) {
        ck_assert_msg(!t.request.ok(), "%s%s=%s is taken", t.channel.c_str(), option.key.data(),
                      value.c_str());
        const Error& error = t.request.error();
        ck_assert_str_eq(error.text.c_str(), told.front().request.error().text.c_str());
        ck_assert_msg(error.where.find(t.channel) != std::string::npos &&
                          error.where.find(named) != std::string::npos,
                      "%s: %s", t.channel.c_str(), error.message().c_str());
    }
}

const Sample& sample_of(const Option& option) {
    for (const Sample& sample : samples)
        if (sample.key == option.key) return sample;
    ck_abort_msg("give values of %s in samples", option.key.data());
}

std::string manual_page() {
    const char* top = std::getenv("ARENA_SRCDIR");
    return must(read_regular_file(
        std::string(top != nullptr ? top : ".") + "/doc/man/spank_arena.8", 1 << 20));
}

/// Without the backslashes of "\-".
std::string page_words(std::string page) {
    std::erase(page, '\\');
    return page;
}

/// ".BI \-\-arena\-batch= N" -> "--arena-batch=N".
std::string plain(std::string_view roff) {
    std::string text;
    for (std::size_t i = roff.find(' '); i < roff.size(); ++i) {
        if (roff.substr(i, 2) == "\\f")
            i += 2;
        else if (roff[i] != '\\' && roff[i] != ' ' && roff[i] != '"')
            text += roff[i];
    }
    return text;
}

}  // namespace

TEST(each_value_of_each_option_is_one_request_by_all_channels) {
    for (const Option& option : options())
        for (const char* value : sample_of(option).good) all_take(base, option, value);
}

TEST(a_job_that_names_no_launcher_is_data_parallel_by_all_channels) {
    const Settings unnamed{{"model", "gpt2"}, {"batch", "64"}};
    const Option& steps = *find_option("steps");
    all_take(unnamed, steps, "10");
    for (const Told& t : by_all_channels(unnamed, steps, "10")) {
        ck_assert_str_eq(t.request->launcher.c_str(), "ddp");
        ck_assert_msg(t.request->launcher_by_default, "%s", t.channel.c_str());
    }
    const Told named = by_all_channels(unnamed, *find_option("launcher"), "ddp").front();
    ck_assert(!named.request->launcher_by_default);
    ck_assert(!parse_record(format_record(*named.request).value())->launcher_by_default);
    all_refuse(unnamed, *find_option("plan"), "pp2", "plan");
    all_refuse(unnamed, *find_option("plan"), "tp2", "plan");
    all_refuse(unnamed, *find_option("plan"), "zero1", "plan");
    all_refuse(unnamed, *find_option("gpus"), "5-7", "gpus");
    all_refuse(unnamed, *find_option("gpus"), "65", "gpus");
    all_take(unnamed, *find_option("gpus"), "3-4");
    all_take(unnamed, *find_option("plan"), "full");
}

TEST(each_bad_value_of_each_option_is_refused_in_the_same_words_by_all_channels) {
    for (const Option& option : options())
        for (const char* value : sample_of(option).bad) all_refuse(base, option, value, option.key);
}

TEST(options_that_do_not_go_together_are_refused_alike_by_all_channels) {
    struct Case {
        Setting first;
        std::string key, value;
        std::string named = {};  ///< the option that is refused
    };
    for (const auto& [first, key, value, named] :
         std::vector<Case>{{{"plan", "pp2"}, "launcher", "fsdp", "plan"},
                           {{"plan", "cp2"}, "launcher", "megatron-deepspeed", "plan"},
                           {{"launcher", "fsdp"}, "plan", "pp2", "plan"},
                           {{"launcher", "megatron-deepspeed"}, "plan", "pp5", "plan"},
                           {{"precision", "nvfp4"}, "launcher", "deepspeed", "launcher"},
                           {{"launcher", "deepspeed"}, "precision", "nvfp4", "launcher"},
                           {{"lora", "8"}, "launcher", "megatron", "launcher"},
                           {{"launcher", "arena-train"}, "lora", "8", "launcher"},
                           {{"launcher", "nemo"}, "lora", "8"},
                           {{"gpus", "6-7"}, "plan", "pp2,dp2", "plan"},
                           {{"plan", "pp2,dp2"}, "gpus", "6-7", "plan"},
                           {{"plan", "pp2,dp2,tp1"}, "gpus", "6-7", "plan"},
                           {{"launcher", "megatron"}, "plan", "pp2,dp2,tp1"},
                           {{"plan", "pp2,dp2,tp1"}, "launcher", "megatron"},
                           {{"plan", "pp2,dp2,tp1"}, "gpus", "2-8"},
                           {{"gpus", "2-8"}, "types", "a40"}}) {
        if (named.empty())
            all_take(with(base, first), *find_option(key), value);
        else
            all_refuse(with(base, first), *find_option(key), value, named);
    }
}

TEST(a_rank_of_adapters_is_asked_for_once_and_a_later_word_changes_it) {
    const Option& lora = *find_option("lora");
    const Request plainly = by_sbatch(base).value(),
                  asked = by_sbatch(with(base, {"lora", "8"})).value();
    ck_assert_int_eq(asked.model.lora_rank, 8);
    ck_assert(fingerprint(asked.model) != fingerprint(plainly.model));
    const auto changed = [&](Request request, const char* comment) {
        ck_assert(apply_comment(comment, request).ok());
        return request;
    };
    ck_assert_int_eq(changed(asked, "arena:lora=16").model.lora_rank, 16);
    ck_assert(changed(asked, "arena:lora=none") == plainly);
    ck_assert(changed(changed(plainly, "arena:lora=16"), "arena:lora=8") == asked);
    all_refuse(with(base, {"model", "resnet-50"}), lora, "8", "lora");
    all_refuse(with(base, {"model", "vgg-19"}), lora, "8", "lora");
}

TEST(a_rank_that_the_model_itself_says_cannot_be_changed) {
    const Settings own{{"family", "gpt"},    {"layers", "2"},    {"hidden", "64"},
                       {"heads", "4"},       {"vocab", "100"},   {"batch", "8"},
                       {"seq-length", "64"}, {"lora-rank", "4"}, {"launcher", "env"}};
    ck_assert_int_eq(must(by_directives(with(own, {"lora", "4"}))).model.lora_rank, 4);
    const Result<Request> other = by_directives(with(own, {"lora", "8"}));
    ck_assert(!other.ok());
    ck_assert_str_eq(
        other.error().text.c_str(),
        "gpt-inline says itself that its adapters have rank 4, not 8: give one of them");
    Request request = must(by_directives(own));
    const Result<bool> later = apply_comment("arena:lora=8", request);
    ck_assert(!later.ok() && later.error().where == "Comment=arena:lora");
    ck_assert_int_eq(request.model.lora_rank, 4);
}

TEST(what_offers_depend_on_tells_requests_apart) {
    const std::string plainly = offer_settings(by_sbatch(base).value());
    for (const Option& option : options()) {
        if (option.format == nullptr) continue;
        const char* value = sample_of(option).good[0];
        const Request request = by_sbatch(with(base, {std::string(option.key), value})).value();
        ck_assert_msg((offer_settings(request) != plainly) == option.offers, "%s",
                      option.key.data());
    }
}

TEST(the_manual_page_has_every_option_in_order) {
    const std::string page = manual_page();
    std::string_view section(page);
    section.remove_prefix(section.find("\n.SH OPTIONS\n"));
    section = section.substr(0, section.find("\n.SH \"#ARENA LINES\""));
    std::vector<std::string> written, wanted;
    const std::vector<std::string_view> lines = split(section, '\n');
    for (std::size_t i = 1; i < lines.size(); ++i)
        if (lines[i - 1] == ".TP") written.push_back(plain(lines[i]));
    for (const Option& option : options())
        wanted.push_back("--arena-" + std::string(option.key) + (option.bare ? "[=" : "=") +
                         std::string(option.argument) + (option.bare ? "]" : ""));
    const std::string got = join(written, "\n"), listed = join(wanted, "\n");
    ck_assert_str_eq(got.c_str(), listed.c_str());
    const std::string said = page_words(page);
    for (const Option& option : options())
        ck_assert_msg(option.change.empty() ||
                          said.find("arena:" + std::string(option.key) + "=") != std::string::npos,
                      "spank_arena(8) does not say arena:%s=", option.key.data());
}

TEST(help_says_what_is_accepted) {
    const std::string precision = usage_of(*find_option("precision"));
    ck_assert_str_eq(
        precision.c_str(),
        "[arena] instead of the model's own, one of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
    ck_assert(usage_of(*find_option("launcher")).find("megatron-deepspeed") != std::string::npos);
    const std::vector<std::string_view> keys = setting_keys();
    ck_assert_uint_eq(std::count(keys.begin(), keys.end(), "seq-length"), 1);
}
