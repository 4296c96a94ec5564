// SPDX-License-Identifier: GPL-2.0-or-later
// Adapters: PEFT's adapter_config.json against the numbers of trained parameters that PEFT prints,
// what of one is refused, and lora_targets in every channel.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "planner/models/layers.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/operators/operators.h"
#include "planner/requests/build_request.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

using Json = nlohmann::json;

/// What PEFT 0.19 writes.
Json adapter(const Json& changes = Json::object()) {
    Json json = Json::parse(R"({"alpha_pattern": {}, "arrow_config": null, "auto_mapping": null,
        "base_model_name_or_path": "llama-2-7b", "bias": "none", "corda_config": null,
        "ensure_weight_tying": false, "eva_config": null, "exclude_modules": null,
        "fan_in_fan_out": false, "inference_mode": true, "init_lora_weights": true,
        "layer_replication": null, "layers_pattern": null, "layers_to_transform": null,
        "loftq_config": {}, "lora_alpha": 32, "lora_bias": false, "lora_dropout": 0.05,
        "lora_ga_config": null, "megatron_config": null, "megatron_core": "megatron.core",
        "modules_to_save": null, "peft_type": "LORA", "peft_version": "0.19.1",
        "qalora_group_size": 16, "r": 16, "rank_pattern": {}, "revision": null,
        "target_modules": ["q_proj", "v_proj"], "target_parameters": null,
        "task_type": "CAUSAL_LM", "trainable_token_indices": null, "use_bdlora": null,
        "use_dora": false, "use_qalora": false, "use_rslora": true})");
    json.update(changes);
    return json;
}

using Files = std::map<std::string, std::string>;

Result<Model> read(const Json& json, const Files& files = {}) {
    IgnoredWords none;
    return parse_model(json.dump(2), "/home/a/run/adapter_config.json", none,
                       [&](const std::string& path) -> Result<std::optional<std::string>> {
                           const auto at = files.find(path);
                           if (at == files.end()) return std::optional<std::string>();
                           return std::optional<std::string>(at->second);
                       });
}

Model good(const Json& changes, const Files& files = {}) {
    return must(read(adapter(changes), files));
}

void refused(const Json& changes, const std::string& words, const Files& files = {}) {
    const Result<Model> model = read(adapter(changes), files);
    ck_assert_msg(!model.ok(), "taken: %s", changes.dump().c_str());
    ck_assert_msg(model.error().message().find(words) != std::string::npos, "%s",
                  model.error().message().c_str());
}

/// "trainable params" as print_trainable_parameters() has them.
std::int64_t trained(const Model& model) {
    const LayerList list = layer_list(model);
    double sum = 0;
    for (std::size_t k = 0; k < list.kinds.size(); ++k)
        sum += static_cast<double>(list.count_of(k)) *
               trained_parameters(model, list.kinds[k], {1, 1, false});
    return std::llround(sum);
}

const char* const tiny_llama =
    R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,)"
    R"("intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,)"
    R"("num_key_value_heads":2,"max_position_embeddings":256,"vocab_size":1000,)"
    R"("torch_dtype":"float16"})";

std::string with_member(std::string config, const std::string& member) {
    config.pop_back();
    return config + "," + member + "}";
}

double pass_flops(const Model& model) {
    double flops = 0;
    for (const OpCount& op : shard_operators(model, model.precision, {1, 1, false}).layer_forward)
        flops += op.count * op_flops(op.shape);
    return flops;
}

}  // namespace

TEST(an_adapter_config_trains_as_many_parameters_as_peft_prints) {
    const Json all = {{"target_modules", "all-linear"}};
    const Model some = good({{"r", 64}});
    ck_assert_int_eq(some.lora_rank, 64);
    ck_assert_int_eq(some.lora_targets, lora_target::q_proj | lora_target::v_proj);
    ck_assert_str_eq(some.name.c_str(), "llama-2-7b");
    ck_assert_int_eq(trained(some), 33'554'432);
    ck_assert_int_eq(trained(good(all)), 39'976'960);
    ck_assert_int_eq(trained(good({{"base_model_name_or_path", "meta-llama/Meta-Llama-3-8B"},
                                   {"target_modules", "all-linear"}})),
                     41'943'040);
    ck_assert_int_eq(
        trained(
            good({{"base_model_name_or_path", "gpt2"}, {"target_modules", {"c_attn"}}, {"r", 8}})),
        294'912);
    ck_assert_int_eq(trained(good({{"base_model_name_or_path", "bert-large-uncased"},
                                   {"task_type", nullptr},
                                   {"target_modules", {"query", "value"}}})),
                     1'572'864);
}

TEST(modules_are_matched_as_peft_matches_them) {
    const auto targets = [](const Json& changes) { return good(changes).lora_targets; };
    using namespace lora_target;
    ck_assert_int_eq(targets({{"target_modules", nullptr}}), q_proj | v_proj);
    ck_assert_int_eq(targets({{"target_modules", {"self_attn.o_proj", "mlp.down_proj", "c_attn"}}}),
                     o_proj | down_proj);
    const Json gpt2 = {{"base_model_name_or_path", "openai-community/gpt2-xl"}};
    const auto of_gpt2 = [&](const Json& words) {
        Json changes = gpt2;
        changes["target_modules"] = words;
        return good(changes);
    };
    ck_assert_int_eq(of_gpt2({"c_proj"}).lora_targets, o_proj | down_proj);
    ck_assert_int_eq(of_gpt2({"attn.c_proj"}).lora_targets, o_proj);
    const Model whole = of_gpt2("all-linear");
    ck_assert(whole.lora_targets == 0 && whole.lora_mlp == 1);
    const Model attention = of_gpt2({"c_attn", "attn.c_proj"});
    ck_assert(attention.lora_targets == 0 && attention.lora_mlp == 0);
    ck_assert_int_eq(good({{"base_model_name_or_path", "mixtral-8x7b"}}).lora_targets,
                     q_proj | v_proj);
}

TEST(the_base_is_a_file_beside_the_adapter_or_a_name) {
    const Json near = {{"base_model_name_or_path", "base"}};
    const Model model = good(near, {{"/home/a/run/base/config.json", tiny_llama}});
    ck_assert(model.hidden == 64 && model.precision == Precision::fp16 && model.lora_rank == 16);
    ck_assert_str_eq(model.name.c_str(), "base");
    good({{"base_model_name_or_path", "../base/"}},
         {{"/home/a/run/../base/config.json", tiny_llama}});
    good({{"base_model_name_or_path", "/models/x.json"}}, {{"/models/x.json", tiny_llama}});
    ck_assert_int_eq(good({{"base_model_name_or_path", "gpt2"}, {"target_modules", {"q_proj"}}},
                          {{"/home/a/run/gpt2/config.json", tiny_llama}})
                         .hidden,
                     64);  // what is there counts before the name
    refused(near, "no config.json is in base");
    refused(near, "model_type is missing", {{"/home/a/run/base/config.json", "{}"}});
    refused({{"base_model_name_or_path", nullptr}}, "names no model");
    refused({{"base_model_name_or_path", "resnet-50"}}, "no config.json");
}

TEST(the_stored_bits_of_the_base_are_those_of_frozen_weights) {
    const Json near = {{"base_model_name_or_path", "base"}};
    const auto with = [&](const std::string& stored) {
        return Files{{"/home/a/run/base/config.json",
                      with_member(tiny_llama, "\"quantization_config\":" + stored)}};
    };
    ck_assert_int_eq(good(near, with(R"({"load_in_4bit":true})")).base_bits, 4);
    ck_assert_int_eq(good(near, with(R"({"load_in_8bit":true})")).base_bits, 8);
    refused(near, "quantization_config", with(R"({"quant_method":"gptq","bits":4})"));
}

TEST(what_an_adapter_config_says_beyond_its_price_is_refused_by_name) {
    for (const auto& [key, value, words] : std::vector<std::tuple<std::string, Json, std::string>>{
             {"peft_type", "LOHA", "LOHA is a kind of adapter that is not priced; accepted: LORA"},
             {"use_dora", true, "computes more than two thin matrices"},
             {"use_bdlora", {{"nblocks", 2}}, "computes more"},
             {"modules_to_save", {"embed_tokens"}, "trained in full"},
             {"trainable_token_indices", {1, 2}, "trained in full"},
             {"layer_replication", {{0, 4}, {2, 5}}, "layers"},
             {"layers_to_transform", 0, "some of the layers"},
             {"target_parameters", {"mlp.experts"}, "experts"},
             {"exclude_modules", {"q_proj"}, "list the modules"},
             {"bias", "all", "accepted is none"},
             {"lora_bias", true, "biases"},
             {"task_type", "SEQ_CLS", "accepted is CAUSAL_LM"},
             {"rank_pattern", {{"q_proj", 8}}, "ranks that differ"},
             {"r", 0, "integer from 1 to 65536"},
             {"r", nullptr, "the rank is missing"},
             {"r", "16", "must be an integer"},
             {"target_modules", {"lm_head"}, "'lm_head' is no module whose adapter is priced"},
             {"target_modules", ".*proj", "regular expression"},
             {"target_modules", {"c_attn"}, "accepted: q_proj"},
             {"target_module", {"q_proj"}, "did you mean 'target_modules'"}}) {
        refused({{key, value}}, words);
        refused({{key, value}}, key);
    }
    refused({{"base_model_name_or_path", "mixtral-8x7b"}, {"target_modules", "all-linear"}},
            "is not priced");
    refused({{"base_model_name_or_path", "olmo"}, {"target_modules", nullptr}}, "olmo");
    good({{"rank_pattern", {{"q_proj", 16}}}});
    good({{"use_dora", true}, {"arena.ignore", {"use_dora"}}});
}

TEST(lora_targets_are_named_alike_in_a_file_and_inline) {
    const std::string gpt =
        "family: llama\nlayers: 2\nhidden: 64\nheads: 4\nffn_hidden: 128\nvocab: 100\n"
        "seq_length: 64\n";
    const Model file =
        must(parse_model(gpt + "lora_rank: 8\nlora_targets: [q_proj, v_proj]\n", "x"));
    std::vector<Setting> inline_facts{{"family", "llama"},   {"layers", "2"},
                                      {"hidden", "64"},      {"heads", "4"},
                                      {"ffn-hidden", "128"}, {"vocab", "100"},
                                      {"seq-length", "64"},  {"batch", "8"},
                                      {"lora-rank", "8"},    {"lora-targets", "q_proj,v_proj"}};
    const Request request = must(build_request(inline_facts, {}, {}));
    ck_assert_int_eq(request.model.lora_targets, file.lora_targets);
    ck_assert(must(parse_record(must(format_record(request)))).model == request.model);
    arena::test::assert_text(adapter_words(file), "LoRA of rank 8 on q_proj, v_proj");
    for (const auto& [lines, words] : std::vector<std::pair<std::string, std::string>>{
             {"lora_targets: [q_proj]\n", "needs lora_rank"},
             {"lora_rank: 8\nlora_targets: q_proj\n", "must be a list"},
             {"lora_rank: 8\nlora_targets: []\n", "names no matrix"},
             {"lora_rank: 8\nlora_targets: [q]\n", "'q' is not one of q_proj, k_proj"},
             {"lora_rank: 8\nlora_targets: [q_proj, q_proj]\n", "there twice"},
             {"lora_rank: 8\nlora_mlp: 1\nlora_targets: [q_proj]\n", "leave lora_mlp out"},
             {"lora_rank: 8\nlora_targets: [q_proj, qkv_proj]\n", "a part of it"},
             {"lora_rank: 8\ngated_mlp: false\nlora_targets: [gate_proj]\n", "without gate"}}) {
        const Result<Model> model = parse_model(gpt + lines, "x");
        ck_assert_msg(!model.ok() && model.error().message().find(words) != std::string::npos, "%s",
                      model.ok() ? lines.c_str() : model.error().message().c_str());
    }
}

TEST(each_adapted_matrix_is_computed_and_keeps_its_input) {
    const Model base = must(find_zoo_model("llama-2-7b"));
    const auto with = [&](std::int64_t targets) {
        Model model = base;
        model.lora_rank = 16;
        model.lora_targets = targets;
        return model;
    };
    using namespace lora_target;
    const double tokens = 4096, h = 4096, ffn = 11008, rank = 16;
    const double none = pass_flops(base);
    ck_assert_double_eq_tol(pass_flops(with(q_proj)) - none, 2 * tokens * rank * 2 * h,
                            0.01 * none);
    const double few = pass_flops(with(q_proj | v_proj)), one = pass_flops(with(q_proj));
    ck_assert(few > one && pass_flops(with(q_proj | v_proj | down_proj)) > few);
    const LayerKind kind = layer_list(base).kinds.front();
    const auto kept = [&](const Model& model) {
        const KeptElements k = kept_elements(model, kind, {1, 1, false});
        return k.replicated + k.split;
    };
    ck_assert_double_eq(kept(base) - kept(with(q_proj)), tokens * (h + ffn));
    ck_assert_double_eq(kept(base) - kept(with(q_proj | up_proj)), tokens * ffn);
    ck_assert_double_eq(kept(base) - kept(with(q_proj | up_proj | down_proj)), 0);
    ck_assert_double_eq(kept(base) - kept(with(o_proj)), tokens * (2 * h + ffn));
}
