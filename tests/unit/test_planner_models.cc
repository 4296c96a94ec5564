// SPDX-License-Identifier: GPL-2.0-or-later
// Model readers, zoo, hardware entries and build_request(): good input gives the published facts,
// bad input gives one sentence that names the key.
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.h"
#include "planner/hardware/card_names.h"
#include "planner/hardware/hardware.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "planner/requests/build_request.h"
#include "request/request.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

const char* source_dir() {
    const char* dir = std::getenv("ARENA_SRCDIR");
    return dir == nullptr ? "." : dir;
}

std::string read_source(const std::string& path) {
    return must(read_regular_file(std::string(source_dir()) + "/" + path, 1 << 20));
}

Model good_model(std::string_view text, std::string_view name = "model") {
    return must(parse_model(text, name));
}

/// The reader must refuse, and its sentence must contain `part`.
void refused(std::string_view text, const char* part) {
    const Result<Model> model = parse_model(text, "bad");
    ck_assert_msg(!model.ok(), "accepted: %.200s", std::string(text).c_str());
    const std::string message = model.error().message();
    ck_assert_msg(message.find(part) != std::string::npos, "'%s' lacks '%s'", message.c_str(),
                  part);
    ck_assert_msg(message.find('\n') == std::string::npos, "more than one line");
}

std::string gpt2_json(const std::string& extra) {
    return R"({"model_type":"gpt2","n_embd":768,"n_layer":12,"n_head":12,"n_positions":1024,)"
           R"("vocab_size":50257)" +
           extra + "}";
}

std::string llama_json(const std::string& extra) {
    return R"({"model_type":"llama","hidden_size":4096,"intermediate_size":11008,)"
           R"("max_position_embeddings":4096,"num_attention_heads":32,"num_hidden_layers":32,)"
           R"("vocab_size":32000)" +
           extra + "}";
}

const std::string gpt_yaml =
    "family: gpt\nlayers: 2\nhidden: 64\nheads: 4\nvocab: 100\nseq_length: 32\n";

void request_refused(const std::vector<Setting>& settings, const char* part) {
    const Result<Request> request = build_request(settings, "", "");
    ck_assert_msg(!request.ok(), "accepted; wanted: %s", part);
    const std::string message = request.error().message();
    ck_assert_msg(message.find(part) != std::string::npos, "'%s' lacks '%s'", message.c_str(),
                  part);
}

Request good_request(const std::vector<Setting>& settings) {
    return must(build_request(settings, "", ""));
}

}  // namespace

TEST(zoo_parameter_counts_are_the_published_ones) {
    const std::pair<const char*, double> published[] = {
        {"gpt2", 124439808},          {"gpt2-medium", 354823168},
        {"gpt2-large", 774030080},    {"gpt2-xl", 1557611200},
        {"gpt-1.7b", 1.7e9},          {"gpt-3.6b", 3.6e9},
        {"gpt-7.5b", 7.5e9},          {"gpt-18.4b", 18.4e9},
        {"gpt-39.1b", 39.1e9},        {"gpt-76.1b", 76.1e9},
        {"gpt-145.6b", 145.6e9},      {"gpt-310.1b", 310.1e9},
        {"gpt-530b", 529.6e9},        {"gpt-1t", 1008.0e9},
        {"gpt-175b", 174.6e9},        {"opt-1.3b", 1315758080},
        {"opt-2.7b", 2651596800},     {"opt-6.7b", 6658473984},
        {"opt-13b", 12853473280},     {"opt-30b", 29974540288},
        {"bert-base", 109482240},     {"bert-large", 335141888},
        {"llama-7b", 6738415616},     {"llama-13b", 13015864320},
        {"llama-30b", 32528943616},   {"llama-65b", 65285660672},
        {"llama-2-7b", 6738415616},   {"llama-2-13b", 13015864320},
        {"llama-2-70b", 68976648192}, {"llama-3-8b", 8030261248},
        {"llama-3-70b", 70553706496}, {"llama-3.2-1b", 1235814400},
        {"llama-3.2-3b", 3212749824}, {"tinyllama-1.1b", 1100048384},
        {"mistral-7b", 7241732096},   {"qwen2-0.5b", 494032768},
        {"qwen2-1.5b", 1543714304},   {"qwen2-7b", 7615616512},
        {"qwen2-72b", 72706203648},   {"llama-3.1-405b", 405853388800}};
    for (const auto& [name, count] : published) {
        const Result<Model> model = find_zoo_model(name);
        ck_assert_msg(model.ok(), "%s", name);
        const double ours = parameter_count(*model);
        // Figures printed with two digits ("1.7 billion") are exact only to half of the last one.
        const double tolerance =
            count < 10e9 && std::fmod(count, 1e8) == 0 ? 0.05e9 / count : 0.005;
        ck_assert_msg(std::fabs(ours / count - 1) <= tolerance, "%s: %.0f, published %.0f", name,
                      ours, count);
    }
}

TEST(every_zoo_model_passes_the_checks) {
    ck_assert_uint_ge(zoo_names().size(), 20);
    for (const std::string& name : zoo_names()) {
        const Result<Model> model = find_zoo_model(name);
        ck_assert_msg(model.ok() && check_model(*model).ok(), "%s", name.c_str());
        ck_assert_str_eq(model->name.c_str(), name.c_str());
    }
    const Result<Model> unknown = find_zoo_model("gpt2-xxl");
    ck_assert(!unknown.ok());
    ck_assert(unknown.error().text.find("gpt2-xl") != std::string::npos);
}

TEST(shipped_model_files_equal_the_zoo) {
    for (const char* name : {"gpt2", "gpt2-xl", "bert-large", "llama-2-7b"}) {
        const Model model =
            good_model(read_source(std::string("etc/models/") + name + ".json"), "x/config.json");
        ck_assert_msg(model == *find_zoo_model(name), "%s", name);
    }
    ck_assert(good_model(read_source("etc/models/gpt-22b.yaml")) == *find_zoo_model("gpt-22b"));
    for (const char* file : {"mixtral-8x7b.json", "deepseek-v3.json", "wide-resnet-1b.yaml",
                             "moe-2.4b.yaml", "llama-3-8b.args"}) {
        const std::string name(file, std::string_view(file).rfind('.'));
        Model model = good_model(read_source(std::string("etc/models/") + file), file);
        model.seq_length = find_zoo_model(name)->seq_length;  // configs give the longest
        ck_assert_msg(model == *find_zoo_model(name), "%s", file);
    }
    ck_assert_int_eq(good_model(read_source("etc/models/custom.yaml")).layers, 26);
    const Model tiny = good_model(read_source("etc/models/llama-tiny.yaml"));
    ck_assert(tiny.gated_mlp && !tiny.tied_embedding && !tiny.learned_positions);
}

TEST(hugging_face_keys_that_change_the_architecture_are_honoured) {
    ck_assert_int_eq(good_model(gpt2_json("")).ffn_hidden, 3072);
    ck_assert_int_eq(good_model(gpt2_json(R"(,"n_inner":2048)")).ffn_hidden, 2048);
    ck_assert_int_eq(good_model(gpt2_json(R"(,"n_inner":null)")).ffn_hidden, 3072);
    ck_assert(good_model(gpt2_json("")).tied_embedding);
    ck_assert(!good_model(gpt2_json(R"(,"tie_word_embeddings":false)")).tied_embedding);
    ck_assert(good_model(gpt2_json(R"(,"torch_dtype":"float32")")).precision == Precision::fp32);
    ck_assert(good_model(gpt2_json(R"(,"dtype":"torch.float16")")).precision == Precision::fp16);
    ck_assert_int_eq(good_model(llama_json("")).kv_heads, 32);
    ck_assert_int_eq(good_model(llama_json(R"(,"num_key_value_heads":8)")).kv_heads, 8);
    ck_assert(!good_model(llama_json("")).tied_embedding);
    ck_assert(good_model(llama_json(R"(,"tie_word_embeddings":true)")).tied_embedding);
    good_model(gpt2_json(
        R"(,"arena.ignore":["some_future_key"],"some_future_key":{"deep":[1,2,{"a":"}"}]})"));
    ck_assert_str_eq(good_model(gpt2_json(""), "/home/u/my model/config.json").name.c_str(),
                     "my-model");
    ck_assert(good_model(gpt2_json(""), "./config.json").name == "config");
}

TEST(bad_hugging_face_configs_are_refused_with_the_key) {
    refused(gpt2_json(R"(,"n_inner":-1)"), "n_inner");
    refused(gpt2_json(R"(,"n_inner":99999999999999999999)"), "n_inner");
    refused(gpt2_json(R"(,"n_inner":2.5)"), "n_inner");
    refused(gpt2_json(R"(,"n_inner":"3072")"), "n_inner");
    refused(gpt2_json(R"(,"n_inner":NaN)"), "JSON");
    refused(gpt2_json(R"(,"n_layer":13)"), "twice");
    refused(gpt2_json(R"(,"hidden_size":1024)"), "contradicts");
    refused(gpt2_json(R"(,"torch_dtype":"int3")"), "torch_dtype");
    refused(gpt2_json(R"(,"tie_word_embeddings":"yes")"), "tie_word_embeddings");
    refused(gpt2_json(R"(,"add_cross_attention":true)"), "add_cross_attention");
    refused(llama_json(R"(,"head_dim":0)"), "head_dim");
    refused(llama_json(R"(,"num_key_value_heads":5)"), "kv_heads");
    refused(llama_json(R"(,"num_key_value_heads":0)"), "num_key_value_heads");
    refused(R"({"model_type":"llama","hidden_size":4096})", "num_hidden_layers");
    refused(R"({"model_type":"rwkv"})", "accepted: gpt2, gpt_bigcode, gpt_neox, llama");
    refused(R"({"n_embd":768})", "model_type is missing");
    refused(R"({"model_type":["gpt2"]})", "model_type");
    refused("{", "JSON");
    refused("{\"model_type\":" + std::string(60, '[') + std::string(60, ']') + "}", "deeper");
    refused("{\"a\":\"" + std::string(70000, 'x') + "\"}", "bytes");
    refused("{\"model_type\":\"\xff\xfe\"}", "JSON");
    refused(R"({"model_type":"gpt2","n_embd":100,"n_layer":12,"n_head":12,"n_positions":8,)"
            R"("vocab_size":9})",
            "heads");
}

TEST(yaml_models_are_read_and_refused) {
    const Model model =
        good_model(gpt_yaml + "name: tiny\nprecision: fp16\ntied_embedding: false\n");
    ck_assert_int_eq(model.ffn_hidden, 256);
    ck_assert_int_eq(model.kv_heads, 4);
    ck_assert(model.precision == Precision::fp16 && !model.tied_embedding &&
              model.learned_positions);
    refused(gpt_yaml + "hiden: 3\n", "hidden");
    refused(gpt_yaml + "precision: int8\n", "fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
    refused(gpt_yaml + "kv_heads: 3\n", "kv_heads");
    refused(gpt_yaml + "ffn_hidden: -4\n", "ffn_hidden");
    refused(gpt_yaml + "ffn_hidden: .nan\n", "ffn_hidden");
    refused(gpt_yaml + "ffn_hidden: [1]\n", "ffn_hidden");
    refused(gpt_yaml + "gated_mlp: 7\n", "gated_mlp");
    refused("family: llama\nlayers: 2\nhidden: 64\nheads: 4\nvocab: 100\nseq_length: 32\n",
            "ffn_hidden");
    refused("family: moe\nlayers: 2\n", "hidden, heads");
    refused("family: gtp\n", "gpt, llama, bert");
    refused("layers: 2\n", "family");
    refused("family: gpt\n", "layers, hidden, heads");
    refused("", "family");
    refused("- a\n", "family");
    refused(
        "family: gpt\nlayers: 10000\nhidden: 262144\nheads: 4096\nffn_hidden: 4194304\n"
        "vocab: 16777216\nseq_length: 16777216\n",
        "parameters");
}

TEST(built_in_hardware_is_complete_and_found_by_alias) {
    const std::vector<GpuType> types = must(load_hardware(""));
    for (const char* name : {"a100-sxm-80gb", "A100-PCIe-40GB", "H100-SXM-80GB", "H100-PCIe",
                             "H200", "A40", "A10", "L40S", "L4", "T4", "V100-16GB", "V100", "B200",
                             "3090", "4090", "A6000", "A30", "emulated-cpu"})
        ck_assert_msg(find_hardware(types, name).ok(), "%s", name);
    const GpuType a100 = *find_hardware(types, "a100");
    ck_assert_str_eq(a100.name.c_str(), "A100-SXM-80GB");
    ck_assert_double_eq(a100.flops.at(Precision::bf16), 312e12);
    ck_assert_double_eq(a100.intra.bytes_per_s, 225e9);
    ck_assert(!a100.emulated);
    const Result<GpuType> unknown = find_hardware(types, "A40X");
    ck_assert(!unknown.ok() && unknown.error().text.find("A40") != std::string::npos);
    for (const GpuType& type : types) {
        ck_assert(type.memory_bytes > 0 && type.memory_bytes_per_s > 0 && !type.flops.empty());
        ck_assert(type.intra.bytes_per_s > 0 && type.inter.bytes_per_s > 0);
    }
}

TEST(names_that_drivers_write_are_aliases_but_for_case_separators_and_vendor_words) {
    const std::vector<GpuType> types = must(load_hardware(""));
    const std::pair<const char*, const char*> names[] = {
        {"nvidia_a100-sxm4-80gb", "A100-SXM-80GB"},
        {"nvidia_a100-sxm4-40gb", "A100-SXM-40GB"},
        {"nvidia_a100_80gb_pcie", "A100-PCIe-80GB"},
        {"nvidia_a100-pcie-40gb", "A100-PCIe-40GB"},
        {"nvidia_h100_80gb_hbm3", "H100-SXM-80GB"},
        {"nvidia_h100_pcie", "H100-PCIe-80GB"},
        {"tesla_v100-sxm2-32gb", "V100-SXM-32GB"},
        {"tesla_v100-sxm2-16gb", "V100-SXM-16GB"},
        {"tesla_v100-pcie-16gb", "V100-PCIe-16GB"},
        {"tesla_p100-pcie-16gb", "P100-PCIe-16GB"},
        {"tesla_t4", "T4"},
        {"nvidia_geforce_rtx_3090", "RTX-3090"},
        {"geforce_rtx_4090", "RTX-4090"},
        {"nvidia_l40s", "L40S"},
        {"nvidia_l4", "L4"},
        {"nvidia_a40", "A40"},
        {"nvidia_rtx_a6000", "RTX-A6000"},
        {"NVIDIA H200", "H200-SXM-141GB"},
        {"rtx3090", "RTX-3090"},
        {"nvidia_l40", "L40"},
        {"nvidia_h100_nvl", "H100-NVL"},
        {"nvidia_geforce_rtx_5090", "RTX-5090"},
        {"nvidia_rtx_6000_ada_generation", "RTX-6000-Ada"},
        {"MI300X", "MI300X-192GB"},
        {"MI325X-256GB", "MI325X-256GB"},
        {"Gaudi2-96GB", "Gaudi2-96GB"},
        {"RTX-PRO-6000-96GB", "RTX-PRO-6000-Blackwell"},
    };
    for (const auto& [word, name] : names) {
        const auto type = find_hardware(types, word);
        ck_assert_msg(type.ok() && type->name == name, "%s: %s", word,
                      type ? type->name.c_str() : "none");
        ck_assert(hardware_like(types, word).front() == name);
    }
    // Another card, a slice of one, and words of no card.
    for (const char* other : {"nvidia_h100_nvlx", "nvidia_l41", "nvidia_a100_80gb_pcie_1g.10gb",
                              "tesla_v100-pcie-32gb", "nvidia", "quadro_rtx_6000", "-_", ""})
        ck_assert_msg(!find_hardware(types, other).ok(), "%s", other);
    ck_assert(hardware_like(types, "a100-pcie") ==
              (std::vector<std::string>{"A100-PCIe-80GB", "A100-PCIe-40GB"}));
    ck_assert(hardware_like(types, "l4") == std::vector<std::string>{"L4"});
    ck_assert(hardware_like(types, "nvidia").empty());
}

TEST(emulated_hardware_computes_in_fp32_and_others_refuse_what_they_lack) {
    const auto types = load_hardware("");
    const GpuType cpu = *find_hardware(*types, "emulated-cpu"),
                  v100 = *find_hardware(*types, "v100");
    ck_assert(cpu.emulated);
    ck_assert(effective_precision(cpu, Precision::bf16) == Precision::fp32);
    ck_assert(effective_precision(v100, Precision::fp16) == Precision::fp16);
    ck_assert(!effective_precision(v100, Precision::bf16));
}

TEST(bad_hardware_files_are_refused) {
    const std::string head =
        "gpu_types:\n  - name: X\n    memory_gib: 8\n    memory_gb_per_s: 100\n"
        "    sm_count: 10\n    gpus_per_node: 2\n"
        "    intra: {name: a, gb_per_s: 10, alpha_us: 5}\n"
        "    inter: {name: b, gb_per_s: 1, alpha_us: 5, efficiency: 0.5}\n";
    const auto good = must(parse_hardware(head + "    tflops: {fp32: 1}\n", "hw"));
    ck_assert_double_eq(good.front().inter.bytes_per_s, 0.5e9);
    ck_assert_double_eq(good.front().inter.cross_rail_cost, 0);
    const auto with_rails = [&](std::string text, const char* link, const char* cost) {
        const std::size_t at = text.find('}', text.find(link));
        return text.insert(at, std::string(", cross_rail_cost: ") + cost) +
               "    tflops: {fp32: 1}\n";
    };
    const auto rails = parse_hardware(with_rails(head, "inter", "1.5"), "hw");
    ck_assert(rails.ok() && rails->front().inter.cross_rail_cost == 1.5);
    const std::pair<std::string, const char*> bad[] = {
        {head, "tflops"},
        {head + "    tflops: {int8: 1}\n", "int8"},
        {head + "    tflops: {fp32: -1}\n", "fp32"},
        {head + "    tflops: {}\n", "precision"},
        {head + "    tflops: {fp32: 1}\n    memory_gb: 3\n", "memory_gib"},
        {head + "    tflops: {fp32: 1}\n    reserved_gib: 9\n", "reserved_gib"},
        {with_rails(head, "intra", "1.5"), "cross_rail_cost"},
        {with_rails(head, "inter", "-1"), "cross_rail_cost"},
        {with_rails(head, "inter", "11"), "cross_rail_cost"},
        {head + "    tflops: {fp32: 1}\n" + head.substr(11) + "    tflops: {fp32: 1}\n", "twice"},
        {"gpus: []\n", "gpu_types"},
    };
    for (const auto& [text, part] : bad) {
        const auto types = parse_hardware(text, "hw");
        ck_assert_msg(!types.ok(), "accepted: %s", text.c_str());
        ck_assert_msg(types.error().message().find(part) != std::string::npos, "'%s' lacks '%s'",
                      types.error().message().c_str(), part);
    }
}

TEST(requests_are_built_from_settings) {
    const Request r = good_request({{"model", "gpt2-xl"},
                                    {"batch", "512"},
                                    {"gpus", "2-8"},
                                    {"types", "a40,a100"},
                                    {"plan", "pp2,tp1"},
                                    {"elastic", "yes"},
                                    {"launcher", "megatron"},
                                    {"steps", "1000"},
                                    {"seq-length", "512"},
                                    {"precision", "fp16"},
                                    {"name", "mine"}});
    ck_assert_str_eq(r.model.name.c_str(), "mine");
    ck_assert_int_eq(r.model.seq_length, 512);
    ck_assert(r.model.precision == Precision::fp16 && r.elastic && r.pin.pp == 2 && r.pin.tp == 1);
    ck_assert_int_eq(r.min_gpus, 2);
    ck_assert_int_eq(r.max_gpus, 8);
    ck_assert_uint_eq(r.gpu_types.size(), 2);
    const Request one = good_request({{"model", "gpt2"}, {"batch", "8"}, {"gpus", "4"}});
    ck_assert(one.min_gpus == 4 && one.max_gpus == 4);
    const Request free = good_request({{"model", "gpt2"}, {"batch", "8"}});
    ck_assert(free.min_gpus == 1 && free.max_gpus == 0);
    const Request pinned = good_request(
        {{"model", "gpt2"}, {"batch", "8"}, {"launcher", "env"}, {"plan", "pp2,dp2,tp2"}});
    ck_assert(pinned.min_gpus == 8 && pinned.max_gpus == 8);
}

TEST(inline_models_and_model_files_become_requests) {
    const Request r = good_request({{"family", "llama"},
                                    {"layers", "8"},
                                    {"hidden", "512"},
                                    {"heads", "8"},
                                    {"kv-heads", "4"},
                                    {"ffn-hidden", "1408"},
                                    {"vocab", "32000"},
                                    {"seq-length", "512"},
                                    {"batch", "64"}});
    ck_assert_int_eq(r.model.kv_heads, 4);
    ck_assert(r.model.gated_mlp);
    const std::vector<Setting> file{{"model", "dir/tiny.yaml"}, {"batch", "4"}};
    const Request read = must(build_request(file, gpt_yaml, "dir/tiny.yaml"));
    ck_assert_str_eq(read.model.name.c_str(), "tiny");
    const Result<Request> bad = build_request(file, "family: gpt\n", "dir/tiny.yaml");
    ck_assert(!bad.ok() && bad.error().message().find("dir/tiny.yaml") != std::string::npos);
}

TEST(bad_requests_name_the_option) {
    const Setting model{"model", "gpt2"}, batch{"batch", "96"};
    request_refused({model}, "--arena-batch");
    request_refused({batch}, "--arena-model");
    request_refused({{"model", "gpt3000"}, batch}, "gpt3000");
    request_refused({model, batch, batch}, "twice");
    request_refused({model, batch, {"gpu", "4"}}, "did you mean 'gpus'");
    for (const char* key : {"gpus", "types"}) request_refused({model, batch, {key, ""}}, key);
    request_refused({model, batch, {"types", "a 40"}}, "--arena-types");
    request_refused({model, batch, {"layers", "3"}}, "conflicts");
    request_refused({batch, {"layers", "3"}}, "family");
    request_refused({batch, {"family", "gpt"}, {"layers", "3"}}, "hidden, heads");
    request_refused({model, batch, {"name", "a b"}}, "#ARENA name");
}

TEST(impossible_pins_are_refused) {
    const Setting model{"model", "gpt2"}, batch{"batch", "96"}, env{"launcher", "env"};
    const std::pair<const char*, const char*> bad[] = {{"pp13", "gpt2 has 12"},
                                                       {"tp5", "12 heads"},
                                                       {"dp7", "batch 96"},
                                                       {"dp4,mb5", "mb5"},
                                                       {"pp2,dp2", "--arena-gpus=6-7"},
                                                       {"pp2,dp2,tp2", "exactly 8"},
                                                       {"qq2", "--arena-plan"},
                                                       {"pp0", "--arena-plan"},
                                                       {"pp65536,dp65536", "--arena-plan"}};
    for (const auto& [pin, part] : bad)
        request_refused({model, batch, env, {"gpus", "6-7"}, {"plan", pin}}, part);
    good_request({model, batch, env, {"gpus", "6-7"}, {"plan", "pp2,dp3,tp1"}});
}

TEST(a_slice_of_a_gpu_has_its_share_of_the_whole) {
    const auto types = must(load_hardware(""));
    const GpuType whole = must(find_hardware(types, "A100-SXM-80GB")),
                  slice = must(find_hardware(types, "nvidia_a100-sxm4-80gb_3g.40gb"));
    ck_assert_double_eq_tol(slice.flops.at(Precision::bf16) / whole.flops.at(Precision::bf16),
                            42.0 / 108, 1e-9);
    ck_assert_double_eq(slice.memory_bytes_per_s, whole.memory_bytes_per_s / 2);
    const std::string rest =
        "memory_gib: 9, memory_share: 0.125, gpus_per_node: 7, intra: {name: x, gb_per_s: 1, "
        "alpha_us: 1}, inter: {name: x, gb_per_s: 1, alpha_us: 1}}\n";
    const auto site = [&](const std::string& entry) {
        return parse_hardware("gpu_types:\n  - {" + entry + ", " + rest, "site.yaml", types);
    };
    ck_assert_int_eq(must(site("name: mine, share_of: H100, sm_count: 16"))[0].sm_count, 16);
    for (const auto& [entry, words] :
         {std::pair("name: mine, share_of: H101, sm_count: 16", "no entry 'H101' before"),
          std::pair("name: mine, share_of: H100, sm_count: 160", "more than the 132"),
          std::pair("name: mine, share_of: H100, sm_count: 1, tflops: {bf16: 1}",
                    "leave it out")}) {
        const auto bad = site(entry);
        ck_assert_msg(!bad.ok() && bad.error().message().find(words) != std::string::npos, "%s: %s",
                      entry, bad.ok() ? "taken" : bad.error().message().c_str());
    }
    const auto whole_with_share =
        site("name: mine, tflops: {bf16: 1}, memory_gb_per_s: 1, sm_count: 1");
    ck_assert(!whole_with_share.ok());
    ck_assert(whole_with_share.error().message().find("memory_share is of a slice") !=
              std::string::npos);
}
