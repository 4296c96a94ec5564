// SPDX-License-Identifier: GPL-2.0-or-later
// Model files that are cheap to write and dear to plan: every family, runs of unlike layers, huge
// and small outputs, thousands of layers, batches with hundreds of divisors. A model is a list of
// genes from 0 to 1, so that a search can mutate it; every list of genes is a file that the reader
// accepts or refuses with a sentence.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "planner/hardware/hardware.h"
#include "planner/models/readers.h"
#include "planner/search/planner.h"

namespace arena::test {

struct HostileModel {
    std::array<double, 24> genes{};
    std::uint64_t seed = 0;  ///< of the sizes of unlike layers

    static HostileModel random(std::mt19937_64& random) {
        HostileModel model;
        for (double& gene : model.genes) gene = std::uniform_real_distribution<>(0, 1)(random);
        model.seed = random();
        return model;
    }
    /// Another one near it.
    [[nodiscard]] HostileModel mutated(std::mt19937_64& random) const {
        HostileModel model = *this;
        const int changes = 1 + static_cast<int>(random() % 4);
        for (int i = 0; i < changes; ++i) {
            double& gene = model.genes[random() % model.genes.size()];
            const double moved = gene + std::normal_distribution<>(0, 0.2)(random);
            gene = random() % 4 == 0 ? std::uniform_real_distribution<>(0, 1)(random)
                                     : std::clamp(moved, 0.0, 1.0);
        }
        if (random() % 8 == 0) model.seed = random();
        return model;
    }

    /// What arena plan and sbatch are given.
    [[nodiscard]] std::string text() const {
        const char* families[] = {"custom",      "custom", "moe", "llama",
                                  "wide_resnet", "bert",   "moe", "gpt"};
        const std::string family =
            families[std::min<std::size_t>(7, static_cast<std::size_t>(genes[0] * 8))];
        std::string yaml = "family: " + family + "\nprecision: bf16\n";
        if (family == "custom") return yaml + custom_text();
        if (family == "wide_resnet") return yaml + resnet_text();
        return yaml + transformer_text(family);
    }
    [[nodiscard]] std::int64_t batch() const {
        constexpr std::int64_t batches[] = {1, 64, 512, 720, 5040, 55440, 720720, 16773120};
        return batches[std::min<std::size_t>(7, static_cast<std::size_t>(genes[1] * 8))];
    }
    [[nodiscard]] std::int64_t gpus() const { return log_whole(genes[2], 1, 512); }

    /// On so many GPUs of two types; `can`: of a launcher.
    [[nodiscard]] Result<PlanQuery> query(const std::vector<GpuType>& hardware,
                                          const Capabilities& can) const {
        Result<Model> model = parse_model(text(), "hostile.yaml");
        if (!model) return model.error();
        PlanQuery query{*std::move(model), batch(), 1, gpus(), {}, {}, can};
        for (const char* name : {"A100-SXM-80GB", "A40"}) {
            const Result<GpuType> type = find_hardware(hardware, name);
            if (!type) return type.error();
            query.pools.push_back({name, *type, 8, gpus(), {}, {}, {}});
        }
        return query;
    }

  private:
    static std::int64_t log_whole(double gene, double least, double most) {
        return std::llround(least * std::pow(most / least, gene));
    }

    [[nodiscard]] std::string custom_text() const {
        std::mt19937_64 sizes(seed);
        const std::int64_t entries = log_whole(genes[3], 1, 640);
        const std::int64_t most = std::max<std::int64_t>(1, 10000 / entries);
        const std::int64_t count = log_whole(genes[4], 1, static_cast<double>(most));
        const auto cost = [&](std::size_t gene, double least, double most_of_all) {
            const double spread = std::normal_distribution<>(0, 2 * genes[gene + 1])(sizes);
            const double size =
                least * std::pow(most_of_all / least, genes[gene]) * std::pow(10, spread);
            return fmt::format("{:.2g}", std::clamp(size, 1.0, 1e20));
        };
        std::string yaml = "layers:\n";
        for (std::int64_t i = 0; i < entries; ++i) {
            const std::int64_t own =
                genes[5] < 0.3
                    ? 1 + static_cast<std::int64_t>(sizes() % static_cast<std::uint64_t>(count))
                    : count;
            const std::string entry = fmt::format(
                "- {{count: {}, forward_flops: {}, parameter_bytes: {}, activation_bytes: {}, "
                "output_bytes: {}}}\n",
                own, cost(6, 1e6, 1e14), cost(8, 1e2, 1e10), cost(10, 1e2, 1e10),
                cost(12, 1, 1e11));
            if (yaml.size() + entry.size() > 65000) break;
            yaml += entry;
        }
        return yaml;
    }

    [[nodiscard]] std::string resnet_text() const {
        std::mt19937_64 sizes(seed);
        std::string blocks;
        const std::int64_t stages = log_whole(genes[3], 1, 8);
        for (std::int64_t i = 0; i < stages; ++i)
            blocks += fmt::format(
                "{}{}", i ? ", " : "",
                1 + static_cast<std::int64_t>(
                        sizes() % static_cast<std::uint64_t>(log_whole(genes[4], 1, 1000))));
        return fmt::format("blocks: [{}]\nbase_channels: {}\nwidth_factor: {}\nimage_size: {}\n",
                           blocks, 8 * log_whole(genes[6], 1, 64), log_whole(genes[7], 1, 8),
                           log_whole(genes[8], 8, 4096));
    }

    [[nodiscard]] std::string transformer_text(const std::string& family) const {
        const std::int64_t heads = log_whole(genes[5], 1, 64);
        std::string yaml = fmt::format(
            "layers: {}\nhidden: {}\nheads: {}\nvocab: {}\nseq_length: {}\nffn_hidden: {}\n",
            log_whole(genes[3], 1, 10000), heads * log_whole(genes[6], 1, 256), heads,
            log_whole(genes[7], 2, 1e6), log_whole(genes[8], 1, 1e6), log_whole(genes[9], 1, 1e5));
        if (genes[10] < 0.5)
            yaml += fmt::format("window: {}\nfull_attention_every: {}\n",
                                log_whole(genes[11], 1, 1e5), log_whole(genes[12], 1, 1e4));
        if (family != "moe") return yaml;
        const std::int64_t experts = log_whole(genes[13], 1, 65536);
        return yaml +
               fmt::format(
                   "experts: {}\ntop_k: {}\nmoe_ffn_hidden: {}\nmoe_every: {}\ndense_layers: {}\n",
                   experts, std::min<std::int64_t>(experts, log_whole(genes[14], 1, 64)),
                   log_whole(genes[15], 1, 1e5), log_whole(genes[16], 1, 5000),
                   genes[17] < 0.5 ? 0 : log_whole(genes[18], 1, 5000));
    }
};

/// 50 kinds of 200 layers each, and two kinds that alternate through 10,000 layers: each once made
/// a round of 16 s.
inline std::string kinds_by_runs_text(int kinds, int count) {
    std::string yaml = "family: custom\nprecision: bf16\nlayers:\n";
    for (int i = 0; i < kinds; ++i)
        yaml += fmt::format(
            "- {{count: {}, forward_flops: {}e9, parameter_bytes: {}e5, activation_bytes: {}e5, "
            "output_bytes: {}e4}}\n",
            count, 1 + i * 7 % 50, 1 + i * 11 % 40, 1 + i * 3 % 20, 1 + i * 13 % 90);
    return yaml;
}
inline std::string alternating_text() {
    return "family: moe\nprecision: bf16\nlayers: 10000\nhidden: 64\nheads: 4\nvocab: "
           "1000\nseq_length: 128\n"
           "ffn_hidden: 128\nexperts: 8\ntop_k: 2\nmoe_ffn_hidden: 64\nmoe_every: 2\n";
}
/// Layers with 10 to 100 GB of outputs: arena plan once took 80 to 100 s on 32 GPUs.
inline std::string large_outputs_text() {
    std::string yaml = "family: custom\nprecision: bf16\nlayers:\n";
    for (int i = 0; i < 60; ++i)
        yaml += fmt::format(
            "- {{forward_flops: {}e12, parameter_bytes: {}e7, activation_bytes: {}e6, "
            "output_bytes: {}e9}}\n",
            1 + i * 7 % 13, 1 + i * 5 % 40, 1 + i * 3 % 20, 10 + i * 37 % 90);
    return yaml;
}

}  // namespace arena::test
