// SPDX-License-Identifier: GPL-2.0-or-later
// Words of published models: what is read gives the published parameters, what is not priced or not
// known is refused by name, and the user can say that a word does not matter.
#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/text.h"
#include "planner/models/layers.h"
#include "planner/models/megatron_words.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/models/words.h"
#include "reference_data.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

double parameters(std::string_view text) { return parameter_count(must(parse_model(text, "m"))); }

std::string refusal(std::string_view text) {
    const Result<Model> model = parse_model(text, "bad");
    ck_assert_msg(!model.ok(), "accepted: %.200s", std::string(text).c_str());
    const std::string message = model.error().message();
    ck_assert_msg(message.find('\n') == std::string::npos && message.size() < 900, "%s",
                  message.c_str());
    return message;
}

void refused(std::string_view text, std::initializer_list<std::string_view> parts) {
    const std::string message = refusal(text);
    for (const std::string_view part : parts)
        ck_assert_msg(message.find(part) != std::string::npos, "'%s' lacks '%s'", message.c_str(),
                      std::string(part).c_str());
}

struct Published {
    const char* name;
    std::string text;
    double parameters, tolerance;  ///< 0: exactly
};

void counts_are_right(const std::vector<Published>& list) {
    for (const Published& one : list) {
        const double ours = parameters(one.text);
        ck_assert_msg(std::fabs(ours / one.parameters - 1) <= one.tolerance,
                      "%s: %.0f, published %.0f", one.name, ours, one.parameters);
    }
}

const std::string gpt =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 "
    "--seq-length 2048 --vocab-size 51200 ";
const std::string modern =
    "--swiglu --normalization RMSNorm --disable-bias-linear "
    "--position-embedding-type rope --bf16 ";

std::string config(const std::string& type, const std::string& rest) {
    return "{\"model_type\":\"" + type + "\"," + rest + "}";
}
const std::string llama_facts =
    R"("hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,)"
    R"("num_key_value_heads":8,"num_hidden_layers":32,"max_position_embeddings":8192,)"
    R"("vocab_size":128256)";

}  // namespace

TEST(arguments_of_every_dialect_give_the_published_parameters) {
    counts_are_right({
        {"SantaCoder, BigCode",
         "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
         "--max-position-embeddings 2048 --attention-head-type multiquery --vocab-size 49280",
         1124886528, 0},
        {"StarCoder: a table of positions longer than the samples",
         "--num-layers 40 --hidden-size 6144 --num-attention-heads 48 --seq-length 2048 "
         "--max-position-embeddings 8192 --attention-head-type multiquery --vocab-size 49152",
         15517456384, 0},
        {"BLOOM, BigScience",
         "--num-layers 70 --hidden-size 14336 --num-attention-heads 112 --seq-length 2048 "
         "--max-position-embeddings 2048 --position-embedding-type alibi --embed-layernorm "
         "--pad-vocab-size-to 250880 --sync-tp-duplicated-parameters --bf16",
         176247271424, 1e-6},
        {"gated, BigScience",
         "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --ffn-hidden-size 2728 "
         "--seq-length 2048 --max-position-embeddings 2048 --glu-activation geglu "
         "--vocab-size 50257",
         355707776, 0},
        {"DeepSpeed-MoE 1.3B+MoE-128",
         "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
         "--max-position-embeddings 2048 --num-experts 128 --moe-expert-parallel-size 64 "
         "--moe-train-capacity-factor 1.0 --vocab-size 50257 --fp16",
         52e9, 0.01},
        {"Megatron-DeepSpeed, grouped queries",
         "--num-layers 24 --hidden-size 2048 --ffn-hidden-size 5504 --num-attention-heads 16 "
         "--num-key-value-heads 4 --seq-length 2048 --use-rotary-position-embeddings --swiglu "
         "--normalization rmsnorm --disable-bias-linear --vocab-size 32000 "
         "--untie-embeddings-and-output-weights",
         1194428416, 0},
        {"MiniCPM3-4B, MindSpeed",
         "--num-layers 62 --hidden-size 2560 --ffn-hidden-size 6400 --num-attention-heads 40 "
         "--multi-head-latent-attention --qk-rope-head-dim 32 --qk-nope-head-dim 64 "
         "--q-lora-rank 768 --kv-lora-rank 256 --v-head-dim 64 --qk-layernorm "
         "--seq-length 32768 --vocab-size 73448 " +
             modern,
         4073875968, 0},
        {"Qwen2.5-0.5B by its padded vocabulary",
         "--num-layers 24 --hidden-size 896 --ffn-hidden-size 4864 --num-attention-heads 14 "
         "--group-query-attention --num-query-groups 2 --add-qkv-bias --seq-length 4096 "
         "--tokenizer-type HuggingFaceTokenizer --padded-vocab-size 151936 " +
             modern,
         494032768, 0},
        {"gpt-oss-20b: gated GELU, sinks, every second layer in a window",
         "--num-layers 24 --hidden-size 2880 --ffn-hidden-size 2880 --num-attention-heads 64 "
         "--group-query-attention --num-query-groups 8 --kv-channels 64 --quick-geglu "
         "--untie-embeddings-and-output-weights --normalization RMSNorm "
         "--position-embedding-type rope --num-experts 32 --moe-ffn-hidden-size 2880 "
         "--moe-router-topk 4 --glu-linear-offset 1.0 --softmax-type learnable "
         "--window-size 127,0 --window-attn-skip-freq [1,0]*12 --seq-length 4096 "
         "--vocab-size 201088",
         20914757184, 1e-3},
        {"Llama 4 Maverick: a list of MoE layers",
         "--num-layers 48 --hidden-size 5120 --ffn-hidden-size 16384 --num-attention-heads 40 "
         "--group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length 4096 "
         "--untie-embeddings-and-output-weights --num-experts 128 --moe-router-topk 1 "
         "--moe-layer-freq '([0, 1] * 24)' --moe-ffn-hidden-size 8192 "
         "--moe-shared-expert-intermediate-size 8192 --vocab-size 202048 " +
             modern,
         400711848960, 0},
        {"Moonlight-16B-A3B: latent attention, experts beside a shared one, as slime writes it",
         "--moe-layer-freq '[0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]' "
         "--num-experts 64 --moe-shared-expert-intermediate-size 2816 --moe-router-topk 6 "
         "--moe-ffn-hidden-size 1408 --moe-router-enable-expert-bias --multi-latent-attention "
         "--kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 "
         "--qk-layernorm --kv-channels 128 --num-layers 27 --hidden-size 2048 "
         "--ffn-hidden-size 11264 --num-attention-heads 16 "
         "--untie-embeddings-and-output-weights --seq-length 4096 --vocab-size 163840 " +
             modern,
         15.96e9, 1e-3},
        {"GLM-4-9B, MindSpeed",
         "--num-layers 40 --hidden-size 4096 --ffn-hidden-size 13696 --num-attention-heads 32 "
         "--group-query-attention --num-query-groups 2 --kv-channels 128 --add-qkv-bias "
         "--untie-embeddings-and-output-weights --seq-length 8192 "
         "--padded-vocab-size 151552 " +
             modern,
         9399951360, 0},
        {"Seed-OSS-36B, MindSpeed",
         "--num-layers 64 --hidden-size 5120 --ffn-hidden-size 27648 --num-attention-heads 80 "
         "--group-query-attention --num-query-groups 8 --kv-channels 128 --add-qkv-bias "
         "--untie-embeddings-and-output-weights --seq-length 2048 "
         "--padded-vocab-size 155136 " +
             modern,
         36151104512, 0},
        {"MiMo-7B: a layer for the token after the next",
         "--num-layers 36 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 "
         "--group-query-attention --num-query-groups 8 --kv-channels 128 --add-qkv-bias "
         "--untie-embeddings-and-output-weights --seq-length 4096 --vocab-size 151680 "
         "--mtp-num-layers 1 " +
             modern,
         7833409536, 0},
    });
}

TEST(configs_of_every_added_type_give_the_published_parameters) {
    counts_are_right({
        {"SantaCoder",
         config("gpt2", R"("architectures":["GPT2LMHeadCustomModel"],"n_embd":2048,"n_head":16,)"
                        R"("n_layer":24,"n_inner":8192,"n_positions":2048,"vocab_size":49280,)"
                        R"("attention_head_type":"multiquery","activation_function":"gelu_fast",)"
                        R"("auto_map":{"AutoModelForCausalLM":)"
                        R"("modeling_gpt2_mq.GPT2LMHeadCustomModel"})"),
         1124886528, 0},
        {"StarCoder",
         config("gpt_bigcode", R"("architectures":["GPTBigCodeForCausalLM"],"n_embd":6144,)"
                               R"("n_head":48,"n_layer":40,"n_inner":24576,"n_positions":8192,)"
                               R"("multi_query":true,"vocab_size":49152)"),
         15517456384, 0},
        {"Qwen1.5-MoE-A2.7B",
         config("qwen2_moe",
                R"("architectures":["Qwen2MoeForCausalLM"],"hidden_size":2048,)"
                R"("intermediate_size":5632,"moe_intermediate_size":1408,"num_experts":60,)"
                R"("num_experts_per_tok":4,"shared_expert_intermediate_size":5632,)"
                R"("decoder_sparse_step":1,"num_attention_heads":16,"num_key_value_heads":16,)"
                R"("num_hidden_layers":24,"max_position_embeddings":8192,"max_window_layers":21,)"
                R"("sliding_window":32768,"use_sliding_window":false,"norm_topk_prob":false,)"
                R"("vocab_size":151936)"),
         14315784192, 1e-4},
        {"OLMoE-1B-7B",
         config("olmoe",
                R"("architectures":["OlmoeForCausalLM"],"hidden_size":2048,"clip_qkv":null,)"
                R"("intermediate_size":1024,"num_experts":64,"num_experts_per_tok":8,)"
                R"("num_attention_heads":16,"num_key_value_heads":16,"num_hidden_layers":16,)"
                R"("max_position_embeddings":4096,"tie_word_embeddings":false,"vocab_size":50304)"),
         6919161856, 1e-4},
        {"granite-3.1-1b-a400m",
         config("granitemoe",
                R"("architectures":["GraniteMoeForCausalLM"],"hidden_size":1024,)"
                R"("intermediate_size":512,"num_local_experts":32,"num_experts_per_tok":8,)"
                R"("num_attention_heads":16,"num_key_value_heads":8,"num_hidden_layers":24,)"
                R"("max_position_embeddings":131072,"logits_scaling":6.0,)"
                R"("tie_word_embeddings":true,"vocab_size":49155)"),
         1334628352, 1e-4},
        {"granite-3.1-8b",
         config("granite",
                R"("architectures":["GraniteForCausalLM"],"hidden_size":4096,)"
                R"("intermediate_size":12800,"num_attention_heads":32,"num_key_value_heads":8,)"
                R"("num_hidden_layers":40,"max_position_embeddings":131072,)"
                R"("embedding_multiplier":12.0,"tie_word_embeddings":true,"vocab_size":49155)"),
         8170848256, 1e-4},
        {"Kimi K2",
         config("kimi_k2",
                R"("architectures":["DeepseekV3ForCausalLM"],"auto_map":{"AutoConfig":)"
                R"("configuration_deepseek.DeepseekV3Config","AutoModel":)"
                R"("modeling_deepseek.DeepseekV3Model","AutoModelForCausalLM":)"
                R"("modeling_deepseek.DeepseekV3ForCausalLM"},"hidden_size":7168,)"
                R"("intermediate_size":18432,"moe_intermediate_size":2048,)"
                R"("n_routed_experts":384,"n_shared_experts":1,"num_experts_per_tok":8,)"
                R"("first_k_dense_replace":1,"moe_layer_freq":1,"num_hidden_layers":61,)"
                R"("num_attention_heads":64,"num_key_value_heads":64,"q_lora_rank":1536,)"
                R"("kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,)"
                R"("v_head_dim":128,"num_nextn_predict_layers":0,)"
                R"("max_position_embeddings":131072,"vocab_size":163840)"),
         1026.4e9, 1e-3},
        {"Qwen3-Coder-480B-A35B: a key of another type that says what holds here",
         config("qwen3_moe",
                R"("architectures":["Qwen3MoeForCausalLM"],"attention_bias":false,)"
                R"("qkv_bias":false,"use_qk_norm":true,"decoder_sparse_step":1,"head_dim":128,)"
                R"("hidden_size":6144,"intermediate_size":8192,"max_position_embeddings":262144,)"
                R"("max_window_layers":62,"mlp_only_layers":[],"moe_intermediate_size":2560,)"
                R"("norm_topk_prob":true,"num_attention_heads":96,"num_experts":160,)"
                R"("num_experts_per_tok":8,"num_hidden_layers":62,"num_key_value_heads":8,)"
                R"("shared_expert_intermediate_size":0,"tie_word_embeddings":false,)"
                R"("use_sliding_window":false,"vocab_size":151936)"),
         480154875392, 0},
        {"Mistral Small 3.1: its text model",
         config("mistral3",
                R"("architectures":["Mistral3ForConditionalGeneration"],"image_token_index":10,)"
                R"("vision_config":{"hidden_size":1024},"text_config":{"model_type":"mistral",)"
                R"("head_dim":128,"hidden_size":5120,"intermediate_size":32768,)"
                R"("num_attention_heads":32,"num_key_value_heads":8,"num_hidden_layers":40,)"
                R"("sliding_window":null,"max_position_embeddings":131072,"vocab_size":131072})"),
         23572403200, 0},
        {"Qwen2.5-VL-7B, flat: its text model, Qwen2.5-7B",
         config("qwen2_5_vl",
                R"("architectures":["Qwen2_5_VLForConditionalGeneration"],"hidden_size":3584,)"
                R"("intermediate_size":18944,"num_attention_heads":28,"num_key_value_heads":4,)"
                R"("num_hidden_layers":28,"max_position_embeddings":128000,"vocab_size":152064,)"
                R"("tie_word_embeddings":false,"use_sliding_window":false,"sliding_window":32768,)"
                R"("max_window_layers":28,"vision_start_token_id":151652,"image_token_id":151655,)"
                R"("vision_config":{"depth":32,"model_type":"qwen2_5_vl"},)"
                R"("rope_scaling":{"type":"mrope"})"),
         7615616512, 0},
        {"the same in text_config, as newer releases write it",
         config("qwen2_5_vl",
                R"("architectures":["Qwen2_5_VLForConditionalGeneration"],"vision_config":{},)"
                R"("text_config":{"model_type":"qwen2_5_vl_text","hidden_size":3584,)"
                R"("intermediate_size":18944,"num_attention_heads":28,"num_key_value_heads":4,)"
                R"("num_hidden_layers":28,"max_position_embeddings":128000,"vocab_size":152064,)"
                R"("tie_word_embeddings":false})"),
         7615616512, 0},
        {"ViT-B/16",
         config("vit", R"("architectures":["ViTForImageClassification"],"hidden_size":768,)"
                       R"("intermediate_size":3072,"num_attention_heads":12,)"
                       R"("num_hidden_layers":12,"image_size":224,"patch_size":16,)"
                       R"("num_channels":3,"qkv_bias":true,"num_labels":1000)"),
         86567656, 0},
        {"ConvNeXt-T",
         config("convnext", R"("architectures":["ConvNextForImageClassification"],)"
                            R"("depths":[3,3,9,3],"hidden_sizes":[96,192,384,768],)"
                            R"("image_size":224,"patch_size":4,"num_labels":1000)"),
         28589128, 0},
    });
}

TEST(image_models_have_the_published_flops) {
    const auto multiply_adds = [](const std::string& text) {
        return forward_flops(must(parse_model(text, "m"))) / 2;
    };
    const std::string vit = config(
        "vit", R"("hidden_size":768,"intermediate_size":3072,"num_attention_heads":12,)"
               R"("num_hidden_layers":12,"image_size":224,"patch_size":16,"num_labels":1000)");
    ck_assert_double_eq_tol(multiply_adds(vit) / 17.56e9, 1, 0.01);
    const std::string convnext =
        config("convnext", R"("image_size":224,"patch_size":4,"num_labels":1000)");
    ck_assert_double_eq_tol(multiply_adds(convnext) / 4.46e9, 1, 0.02);
    refused(config("vit", R"("hidden_size":768)"), {"num_hidden_layers"});
    refused(config("convnext", R"("image_size":224,"depths":[3,3],"hidden_sizes":[96])"),
            {"hidden_sizes"});
    refused(config("convnext", R"("image_size":224,"depths":3)"), {"depths"});
}

TEST(a_table_of_positions_keeps_its_rows_under_shorter_samples) {
    const std::string text = config("gpt2", R"("n_embd":768,"n_head":12,"n_layer":12,)"
                                            R"("n_positions":1024,"vocab_size":50257)");
    Model model = must(parse_model(text, "m"));
    ck_assert_double_eq(parameter_count(model), 124439808);
    set_seq_length(model, 512);
    ck_assert_double_eq(parameter_count(model), 124439808);
    ck_assert(check_model(model).ok() && model.positions == 1024);
    set_seq_length(model, 1024);
    ck_assert(model == must(parse_model(text, "m")));
    refused(gpt + "--max-position-embeddings 1024", {"bad:1:", "--max-position-embeddings"});
}

TEST(options_that_change_the_cost_and_are_not_priced_are_refused_by_name) {
    for (const char* option : {"--experimental-attention-variant gated_delta_net",
                               "--linear-attention-freq 4",
                               "--hybrid-layer-pattern M-M*",
                               "--hybrid-override-pattern M-M*",
                               "--moe-latent-size 1024",
                               "--attention-output-gate",
                               "--enable-hyper-connections",
                               "--dsa-indexer-topk 2048",
                               "--mamba-num-heads 64",
                               "--heterogeneous-layers-config-path x.json",
                               "--encoder-num-layers 12",
                               "--num-residual-streams 4",
                               "--freeze-all-layers",
                               "--yaml-cfg model.yaml",
                               "--lora-r 8",
                               "--noop-layers 3",
                               "--use-moba-attn",
                               "--mlp-type residual",
                               "--kd",
                               "--spec my.own layers",
                               "--vocab-extra-ids 100",
                               "--stage dpo",
                               "--num-experts '4 8'",
                               "--num-experts 4 8"})
        refused(gpt + option, {"bad:1:", split(option, ' ').front()});
}

TEST(an_unknown_option_is_refused_with_its_place_and_the_nearest_one) {
    refused(gpt + "\n  --mew-option 3", {"bad:2:3: --mew-option: unknown"});
    refused(gpt + "--swiglue", {"did you mean '--swiglu'"});
    refused(gpt + "--moe-router-topkk 2 --alpha-beta 1",
            {"did you mean '--moe-router-topk'", "refused too: --alpha-beta"});
    // Options of two forks that nobody has together.
    refused(gpt + "--num-key-value-heads 4 --attention-head-type multiquery",
            {"--attention-head-type", "BigCode", "Megatron-DeepSpeed"});
    std::string many = gpt;
    for (int i = 0; i < 900; ++i) many += fmt::format("--option-{} ", i);
    refused(many, {"--option-0: unknown", "and 894 more"});
}

TEST(options_without_effect_on_cost_are_taken) {
    ck_assert_double_eq(
        parameters(gpt +
                   "--micro-batch-size 4 --lr 1e-4 --tensor-model-parallel-size 8 "
                   "--use-distributed-optimizer --recompute-activations --save ckpt "
                   "--hidden-dropout 0.1 --rotary-base 10000 --log-interval 10 --no-load-optim "
                   "--eod-mask-loss --data-path a b c --nproc_per_node 8"),
        parameters(gpt));
}

TEST(classes_and_code_of_their_own_are_refused) {
    const auto with = [](const std::string& more) {
        return config("llama", llama_facts + "," + more);
    };
    ck_assert_double_eq(parameters(with(R"("architectures":["LlamaForCausalLM"])")), 8030261248);
    for (const char* name : {"LlamaForSequenceClassification", "LlamaModel",
                             "LlamaForCausalLMEagle3", "EagleLlamaForCausalLM", "DFlashDraftModel",
                             "LlamaForTokenClassification", "MistralForCausalLM"})
        refused(with(fmt::format(R"("architectures":["{}"])", name)),
                {"bad:1:", "architectures: ", name, "LlamaForCausalLM"});
    refused(config("mistral", llama_facts + R"(,"architectures":["MistralModel"])"),
            {"architectures: MistralModel"});
    refused(with(R"("auto_map":{"AutoModelForCausalLM":"modeling_own.OwnForCausalLM"})"),
            {"auto_map: OwnForCausalLM"});
    ck_assert_double_eq(
        parameters(with(R"("auto_map":{"AutoModelForCausalLM":"modeling_llama.LlamaForCausalLM",)"
                        R"("AutoTokenizer":["a","b"]})")),
        8030261248);
    for (const char* odd : {R"("architectures":7)", R"("architectures":[7])", R"("auto_map":[])",
                            R"("auto_map":{"AutoModel":7})"})
        refusal(with(odd));
}

TEST(unknown_keys_of_a_config_are_refused) {
    const auto with = [](const std::string& more) {
        return config("llama", llama_facts + "," + more);
    };
    refused(with("\n \"num_hiden_layers\":3"),
            {"bad:2:2: num_hiden_layers: unknown", "num_hidden_layers"});
    refused(with(R"("draft_vocab_size":32000)"), {"draft_vocab_size"});
    refused(with(R"("per_layer_config":{"1":{}})"), {"per_layer_config"});
    refused(with(R"("add_cross_attention":true)"), {"add_cross_attention"});
    ck_assert_double_eq(parameters(with(R"("some_new_key":null,"use_cache":true)")), 8030261248);
    const std::string bert =
        R"("hidden_size":768,"intermediate_size":3072,"num_attention_heads":12,)"
        R"("num_hidden_layers":12,"max_position_embeddings":512,"vocab_size":30522)";
    ck_assert_double_eq_tol(parameters(config("bert", bert)) / 109514298, 1, 1e-6);
    refused(config("bert", bert + R"(,"position_embedding_type":"alibi")"),
            {"position_embedding_type: alibi", "absolute"});
    refused(config("bert", bert + R"(,"feed_forward_type":"geglu")"), {"feed_forward_type"});
    refused(config("llava", R"("text_config":{"model_type":"llama",)" + llama_facts +
                                R"(,"odd":1},"vision_config":{})"),
            {"odd: unknown"});
}

TEST(the_user_can_say_that_a_word_does_not_matter) {
    IgnoredWords ignored({"--mew-option", "alpha-beta"});
    const Result<Model> model = parse_model(gpt + "--mew-option 3 --alpha-beta", "m", ignored);
    ck_assert(model.ok() && ignored.idle().empty());
    ck_assert(ignored.taken() == (std::vector<std::string>{"--mew-option", "--alpha-beta"}));
    IgnoredWords own;
    ck_assert(
        parse_model(config("llama", llama_facts + R"(,"odd":1,"arena.ignore":["odd"])"), "m", own)
            .ok());
    ck_assert(own.taken() == std::vector<std::string>{"odd"});
    IgnoredWords yaml;
    ck_assert(parse_model("family: gpt\nlayers: 2\nhidden: 64\nheads: 4\nvocab: 99\n"
                          "seq_length: 8\nodd: 1\narena.ignore: [odd]\n",
                          "m", yaml)
                  .ok());
    ck_assert(yaml.taken() == std::vector<std::string>{"odd"});
    IgnoredWords idle({"--num-layers"});  // what is read cannot be ignored
    ck_assert(parse_model(gpt, "m", idle).ok() && idle.idle().size() == 1);
    IgnoredWords vision;
    must(parse_model(config("llava", R"("vision_config":{},"text_config":{)" + llama_facts + "}"),
                     "m", vision));
    ck_assert(vision.taken() == std::vector<std::string>{"vision_config"});
    for (const char* bad : {"", "a b", "a,,b", "a\n", "a;b"})
        ck_assert(!read_ignored_words(bad).ok());
}

TEST(numbers_that_json_has_not_are_told) {
    for (const char* number : {"Infinity", "-Infinity", "NaN"})
        refused(config("llama", llama_facts + ",\n\"rope_theta\": " + number),
                {"bad:2:15: not valid JSON: ", number, "no number of JSON"});
    refused("{\"a\": Infinite}", {"not valid JSON"});
}

TEST(patterns_of_layers_are_megatrons) {
    ck_assert(layer_pattern("([0]*1+[1]*3)") == (std::vector<int>{0, 1, 1, 1}));
    ck_assert(layer_pattern("([0, 1] * 2)") == (std::vector<int>{0, 1, 0, 1}));
    ck_assert(layer_pattern("[1,1,0]") == (std::vector<int>{1, 1, 0}));
    for (const char* bad : {"", "3", "[2]", "[0", "[0]*", "[0]*99999", "([0]", "[0]+", "[]", "[0]]",
                            "((((((((((([0])))))))))))", "[0]*9999*9999"})
        ck_assert_msg(layer_pattern(bad).empty(), "%s", bad);
    ck_assert(!regular_layers({0, 1, 1, 0}, 4) && !regular_layers({0, 0}, 2) &&
              !regular_layers({1}, 2));
    const auto step = regular_layers({1, 0, 1, 0}, 4);  // the same cost as the last of each two
    ck_assert(step && step->before == 0 && step->every == 2);
}

/// The reference data's own inputs: a count, or a refusal that names a word.
TEST_NEEDING(public_cases_are_right, arena::test::lacks_reference("public_cases/README.md")) {
    const std::string root = arena::test::reference_data() + "/public_cases";
    DIR* dir = opendir(root.c_str());
    ck_assert_ptr_nonnull(dir);
    std::vector<std::string> names;
    while (const dirent* entry = readdir(dir)) names.emplace_back(entry->d_name);
    closedir(dir);
    int cases = 0;
    for (const std::string& name : names) {
        const std::string folder = root + "/" + name;
        auto text = read_regular_file(folder + "/config.json", max_model_bytes);
        if (!text) text = read_regular_file(folder + "/args.txt", max_model_bytes);
        const auto right = read_regular_file(folder + "/RIGHT", 4096);
        if (!text || !right) continue;
        ++cases;
        const std::string wanted = right->substr(0, right->find("Seen:"));
        const Result<Model> model = parse_model(*text, name);
        if (!model) {
            const std::string message = model.error().message();
            bool is_named = false;
            for (std::string_view word : split(wanted, ' ')) {
                while (!word.empty() && std::string_view(".,()\n").find(word.back()) != word.npos)
                    word.remove_suffix(1);
                const bool is_word = word.starts_with("--") || word == "architectures" ||
                                     word.find('_') != word.npos;
                is_named = is_named || (is_word && message.find(word) != std::string::npos);
            }
            ck_assert_msg(wanted.find("refused") != std::string::npos && is_named, "%s: %s",
                          name.c_str(), message.c_str());
            continue;
        }
        const std::size_t at = wanted.find("parameters ");
        ck_assert_msg(at != std::string::npos, "%s is accepted", name.c_str());
        const std::string number = wanted.substr(at + 11);
        const double published =
            std::strtod(number.c_str(), nullptr) * (number.find(" M") < 10 ? 1e6 : 1);
        ck_assert_msg(std::fabs(parameter_count(*model) / published - 1) < 0.01, "%s: %.0f",
                      name.c_str(), parameter_count(*model));
    }
    ck_assert_int_ge(cases, 18);
}
