// SPDX-License-Identifier: GPL-2.0-or-later
// What arena-train's GPU half is made of, without a GPU: rounding to bf16, memory that the host
// cannot follow, the element functions that the CUDA kernels call (over all indices, against the
// CPU back-end), which device is chosen and which module opened, and the peak that MFU is counted
// against.
// The standard library before check.h, whose macros have names of its members.
// clang-format off
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "profiler/cuda/cuda_elements.h"
#include "train/core/device_module.h"
#include "train/cpu/cpu_device.h"
#include "train/run/device_choice.h"

#include "ipc/child.h"
#include "suite.h"
// clang-format on

using namespace arena;
using namespace arena::train;

namespace {

std::vector<float> draw(Index n, unsigned seed, float width = 2) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> value(-width / 2, width / 2);
    std::vector<float> values(at(n));
    for (float& v : values) v = value(engine);
    return values;
}

template <typename P>
concept Followed = requires(P p) {
    *p;
}
|| requires(P p) { p[0]; };
static_assert(!Followed<Pointer<float>> && !Followed<train::Span<float>> &&
              !Followed<Array<float>>);
static_assert(!std::is_convertible_v<Pointer<float>, Pointer<Element>> &&
              !std::is_convertible_v<Pointer<const float>, Pointer<float>> &&
              !std::is_convertible_v<float*, Pointer<float>> &&
              std::is_convertible_v<Pointer<float>, Pointer<const float>>);

TEST(bf16_is_the_nearest_and_ties_go_to_even) {
    ck_assert_float_eq(to_float(to_bf16(1.0F)), 1.0F);
    ck_assert_float_eq(to_float(to_bf16(1.0F + 0x1p-8F)), 1.0F);  // a tie: to even
    ck_assert_float_eq(to_float(to_bf16(1.0F + 3 * 0x1p-8F)), 1.0F + 0x1p-6F);
    ck_assert_float_eq(to_float(to_bf16(1.0F + 0x1p-8F + 0x1p-20F)), 1.0F + 0x1p-7F);
    ck_assert(std::isinf(to_float(to_bf16(std::numeric_limits<float>::max()))));
    ck_assert(std::isnan(to_float(to_bf16(std::numeric_limits<float>::signaling_NaN()))));
    for (const float x : draw(1000, 1, 8))
        ck_assert_float_le(std::abs(to_float(to_bf16(x)) - x), std::abs(x) * 0x1p-8F);
}

/// The signal that ends a process that reads through the address; 0 = none does.
int signal_of_reading(const float* address) {
    auto child = start_copy({}, [&](CopyEnds&) {
        const volatile float* p = address;
        return *p == 0 ? 0 : 1;
    });
    ck_assert(child.ok());
    const ChildEnd end = child->wait();
    return end.by_signal ? end.status - 128 : 0;
}

TEST(who_follows_an_address_of_the_emulated_device_is_ended) {
    std::unique_ptr<Device> device;
    run_threads(1, [&](Comm& world) { device = arena_train_open_device(1, world); });
    const Array<float> array(*device, 4);
    const std::vector<float> host(4);
    ck_assert_int_eq(signal_of_reading(array.data().address()), SIGSEGV);
    ck_assert_int_eq(signal_of_reading(host.data()), 0);
}

TEST(heads_lie_where_the_cpu_puts_them) {
    const auto cpu = make_cpu_device(1);
    for (const Index parts : {1, 3}) {
        const AttentionShape s{.samples = 2, .heads = 3, .seq = 5, .head_dim = 4};
        const Index n = s.samples * s.heads * s.seq * s.head_dim;
        const auto rows = draw(parts * n, 1);
        for (Index part = 0; part < parts; ++part) {
            std::vector<float> heads(at(n));
            cpu->to_heads({s, part, parts}, cpu_elements(rows), cpu_elements(heads));
            const cuda::HeadsLayout layout{s.samples, s.seq, s.heads, s.head_dim, part, parts};
            ck_assert_int_eq(layout.size(), n);
            for (Index i = 0; i < n; ++i)
                ck_assert_float_eq(rows[at(cuda::row_of_head(layout, i))], heads[at(i)]);
        }
    }
}

TEST(each_id_is_in_one_shard_of_the_vocabulary) {
    for (std::int32_t id = 0; id < 12; ++id) {
        int found = 0;
        for (const cuda::VocabularyShard s :
             {cuda::VocabularyShard{0, 5}, cuda::VocabularyShard{5, 4}, {9, 3}}) {
            const Index row = cuda::shard_row(s, id);
            if (row < 0) continue;
            ++found;
            ck_assert_int_eq(s.first + row, id);
            ck_assert_int_lt(row, s.width);
        }
        ck_assert_int_eq(found, 1);
    }
}

TEST(loss_and_gradient_of_logits_are_those_of_the_cpu) {
    const auto cpu = make_cpu_device(1);
    const LogitsShape whole{.tokens = 7, .width = 30, .first = 20};
    const auto logits = draw(whole.tokens * whole.width, 3, 20);
    std::vector<std::int32_t> labels;
    for (std::int32_t t = 0; t < 7; ++t) labels.push_back(17 + t * 5);  // some are another shard's
    std::vector<float> top(7), target(7), sums(7);
    const Tokens ids = cpu_tokens(labels);
    cpu->top_and_target(whole, cpu_elements(logits), ids, cpu_numbers(top), cpu_numbers(target));
    std::vector<float> gradient = logits;
    cpu->sum_exponentials(whole, cpu_elements(gradient), cpu_numbers(top), cpu_numbers(sums));
    double loss = 0;
    cpu->add_losses(7, cpu_numbers(top), cpu_numbers(target), cpu_numbers(sums), Pointer(&loss));
    cpu->logits_gradient(whole, cpu_elements(gradient), ids, cpu_numbers(top), cpu_numbers(sums),
                         0.25F);
    double sum = 0;
    const cuda::VocabularyShard shard{whole.first, whole.width};
    for (Index t = 0; t < whole.tokens; ++t) {
        sum += cuda::token_loss(top[at(t)], target[at(t)], sums[at(t)]);
        for (Index i = 0; i < whole.width; ++i) {
            const std::size_t n = at(t * whole.width + i);
            const float got =
                cuda::logit_gradient(logits[n], top[at(t)], sums[at(t)],
                                     i == cuda::shard_row(shard, labels[at(t)]), 0.25F);
            ck_assert_float_le(std::abs(got - gradient[n]), 1e-6F);
        }
    }
    ck_assert_double_eq_tol(sum, loss, 1e-9 * std::abs(loss));
}

TEST(a_step_of_adamw_is_the_cpus) {
    const Index n = 1003;
    auto p = draw(n, 5), m = draw(n, 6), v = draw(n, 7);
    for (float& x : v) x = std::abs(x);
    const auto g = draw(n, 8);
    auto q = p, m2 = m, v2 = v;
    AdamW adam;
    adam.rate = 3e-3F;
    adam.step = 5;
    make_cpu_device(1)->adamw(adam, n, cpu_numbers(p), cpu_numbers(g), cpu_numbers(m),
                              cpu_numbers(v), {});
    const cuda::AdamFactors f =
        cuda::adam_factors(static_cast<double>(adam.rate), static_cast<double>(adam.beta1),
                           static_cast<double>(adam.beta2), static_cast<double>(adam.epsilon),
                           static_cast<double>(adam.decay), adam.step);
    for (Index i = 0; i < n; ++i) {
        q[at(i)] = cuda::adamw_element(f, q[at(i)], g[at(i)], m2[at(i)], v2[at(i)]);
        ck_assert_float_le(std::abs(q[at(i)] - p[at(i)]), 2e-6F);
        ck_assert_float_le(std::abs(m2[at(i)] - m[at(i)]), 1e-6F);
        ck_assert_float_le(std::abs(v2[at(i)] - v[at(i)]), 1e-6F);
    }
}

/// A machine that has the module.
DeviceFacts machine(Result<int> gpus, Index ranks) {
    return {true, [gpus] { return gpus; }, [ranks] { return ranks; }};
}

TEST(the_device_is_a_gpu_only_where_each_rank_has_one) {
    const Error none = environment_error("no usable GPU: no driver");
    ck_assert(choose_device("auto", machine(2, 2))->is_gpu);
    ck_assert(choose_device("auto", machine(2, 0))->is_gpu);
    ck_assert(choose_device("cuda", machine(1, 8))->is_gpu);  // said by the ranks that have none
    ck_assert(!choose_device("cpu", machine(2, 2))->is_gpu);
    const auto crowded = choose_device("auto", machine(1, 4));
    ck_assert(!crowded->is_gpu);
    ck_assert_str_eq(crowded->why.c_str(), "4 ranks here, 1 GPU visible");
    const auto without = choose_device("auto", machine(none, 1));
    ck_assert(!without->is_gpu);
    ck_assert_str_eq(without->why.c_str(), "no usable GPU: no driver");
    arena::test::assert_refused(choose_device("cuda", machine(none, 1)), "no usable GPU");
    arena::test::assert_refused(choose_device("cuda", {}), "this build has no arena-train-cuda.so");
    ck_assert(!choose_device("auto", {})->is_gpu && choose_device("auto", {})->why.empty());
}

TEST(the_ranks_of_a_machine_are_what_its_launcher_says) {
    const auto with = [](const std::string& name, const std::string& value) {
        return launched_ranks([=](std::string_view wanted) -> std::optional<std::string> {
            if (wanted == name) return value;
            return std::nullopt;
        });
    };
    ck_assert_int_eq(with("OMPI_COMM_WORLD_LOCAL_SIZE", "6"), 6);
    ck_assert_int_eq(with("SLURM_STEP_TASKS_PER_NODE", "4(x2),3"), 4);
    ck_assert_int_eq(with("SLURM_STEP_TASKS_PER_NODE", "3,8(x12)"), 8);
    ck_assert_int_eq(with("SLURM_STEP_TASKS_PER_NODE", "x"), 0);
    ck_assert_int_eq(with("OTHER", "4"), 0);
}

TEST(neighbouring_stages_meet_in_pairs_and_nobody_else_does) {
    for (const RankLayout layout :
         {RankLayout{1, 2, 1}, {2, 1, 1}, {3, 2, 2}, {4, 1, 2}, {5, 2, 1}}) {
        std::vector<int> boundaries(at(layout.size()));  // that each rank was paired over
        run_threads(static_cast<int>(layout.size()), [&](Comm& world) {
            const train::Place me = layout.place(world.rank());
            for (const Index parity : {0, 1}) {
                const StagePair pair = stage_pair(layout, me, parity);
                const auto group = world.split(static_cast<int>(pair.color));
                ck_assert_int_eq(group->size(), pair.exists ? 2 : 1);
                if (!pair.exists) continue;
                boundaries[at(world.rank())] += 1;
                ck_assert_int_eq(group->rank(), me.stage == pair.lower ? 0 : 1);
                ck_assert_int_eq(std::abs(pair.other.stage - me.stage), 1);
                ck_assert(stage_pair(layout, pair.other, parity).other == me);
            }
        });
        for (Index rank = 0; rank < layout.size(); ++rank) {
            const Index stage = layout.place(rank).stage;
            ck_assert_int_eq(boundaries[at(rank)], (stage > 0) + (stage + 1 < layout.pp));
        }
    }
}

/// Rank 0 of {0, 1} fails while rank 2 of {2, 3} waits for rank 3 with what it shows, gives that
/// up and is gone when rank 3 comes.
void end_while_another_waits(const std::function<void(Comm&, std::span<float>)>& collective) {
    std::vector<std::vector<float>> shown(4);  // outlive the ranks: who reads too late reads -1
    for (auto& values : shown) values.assign(4, 7);
    shown[3].assign(4, 0);
    std::atomic<bool> is_gone = false;
    std::atomic<int> ended_early = 0;
    std::string sentence;
    try {
        run_threads(4, [&](Comm& world) {
            const auto pair = world.split(world.rank() / 2);
            if (world.rank() == 0) throw std::runtime_error("rank 0 has no memory");
            if (world.rank() == 3) is_gone.wait(false);
            try {
                collective(*pair, shown[at(world.rank())]);
            } catch (...) {
                ended_early += 1;
                if (world.rank() == 2) {
                    shown[2].assign(4, -1);
                    is_gone = true;
                    is_gone.notify_all();
                }
                throw;
            }
        });
    } catch (const std::runtime_error& error) {
        sentence = error.what();
    }
    arena::test::assert_text(sentence, "rank 0 has no memory");
    ck_assert_int_eq(ended_early, 3);
    for (const float value : shown[3]) ck_assert_float_eq(value, 0);
}

TEST(who_comes_late_to_a_group_that_has_ended_reads_nothing_of_it) {
    end_while_another_waits([](Comm& pair, std::span<float> values) {
        pair.broadcast(std::as_writable_bytes(values), 0);
    });
    end_while_another_waits([](Comm& pair, std::span<float> values) {
        pair.all_gather(values.subspan(at(2 * pair.rank()), 2), values);
    });
    end_while_another_waits([](Comm& pair, std::span<float> values) {
        pair.reduce_scatter(values, values.subspan(at(2 * pair.rank()), 2));
    });
    end_while_another_waits(
        [](Comm& pair, std::span<float> values) { pair.all_reduce_sum(values); });
}

TEST(the_peak_of_a_gpu_is_that_of_its_hardware_entry) {
    ck_assert_double_eq_tol(peak_flops("NVIDIA H100 80GB HBM3"), 989.4e12, 1e9);
    ck_assert_double_eq_tol(peak_flops("NVIDIA A100-SXM4-40GB"), 312e12, 1e9);
    ck_assert_double_eq(peak_flops("emulated"), 0);
    ck_assert_double_eq(peak_flops("Tesla V100-SXM2-16GB"), 0);  // no bf16
}

}  // namespace
