// SPDX-License-Identifier: GPL-2.0-or-later
// Offers after planning: corrected by what runs observe, remembered and forgotten.
#include <fmt/format.h>

#include "base/hash.h"
#include "base/text.h"
#include "core/model_fields.h"
#include "planner/search/offers.h"
#include "planner_cases.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

std::vector<Offer> three_offers() {
    std::vector<Offer> offers(3);
    for (std::size_t i = 0; i < offers.size(); ++i) {
        Offer& o = offers[i];
        o.grid = {"a40", 1, std::int64_t{8} >> i, 1};
        o.plan.stage_layers = {12}, o.plan.stage_tp = {1}, o.plan.stage_dp = {o.grid.gpus()};
        o.estimate.iteration_s = o.estimate.compute_s = std::exp2(static_cast<double>(i));
        o.estimate.samples_per_s = 64 / o.estimate.iteration_s;
        o.estimate.error_bound = 0.4;
    }
    return offers;
}

}  // namespace

TEST(a_run_corrects_its_offer_and_damped_its_neighbours) {
    std::vector<Offer> offers = three_offers();
    offers.push_back(offers[0]);
    offers[3].grid.gpu_type = "a100";
    const Observation run{offers[0].grid, offers[0].plan, 1.5, 1.0, 0.01};
    const std::vector<Offer> corrected = correct_offers(offers, std::vector{run});
    const auto at = [&](const char* type, std::int64_t gpus) -> const Offer& {
        return *std::find_if(corrected.begin(), corrected.end(), [&](const Offer& o) {
            return o.grid.gpu_type == type && o.grid.gpus() == gpus;
        });
    };
    ck_assert_double_eq_tol(at("a40", 8).estimate.iteration_s, 1.5, 1e-12);
    ck_assert_double_eq_tol(at("a40", 8).estimate.samples_per_s, 64 / 1.5, 1e-9);
    ck_assert(at("a40", 8).estimate.source == Source::observed);
    ck_assert_double_eq_tol(at("a40", 8).estimate.error_bound, observed_error, 1e-12);
    ck_assert_double_eq_tol(at("a40", 4).estimate.iteration_s, 2 * std::pow(1.5, 0.25), 1e-12);
    ck_assert_double_eq_tol(at("a40", 2).estimate.iteration_s, 4 * std::pow(1.5, 0.125), 1e-12);
    ck_assert(at("a40", 4).estimate.source == Source::analytic);
    ck_assert_double_lt(at("a40", 4).estimate.error_bound, 0.4);
    ck_assert_double_gt(at("a40", 4).estimate.error_bound, observed_error);
    ck_assert(at("a100", 8) == offers[3]);
    for (std::size_t i = 1; i < corrected.size(); ++i)
        ck_assert_double_le(corrected[i].estimate.samples_per_s,
                            corrected[i - 1].estimate.samples_per_s);
    // The second report of the same plan replaces the first; nonsense is left out.
    std::vector<Observation> list;
    add_observation(list, run);
    add_observation(list, {run.grid, run.plan, 1.2, 1.0, 0.2});
    add_observation(list, {run.grid, offers[1].plan, INFINITY, 1.0, 0});
    add_observation(list, {run.grid, offers[1].plan, 0, 1.0, 0});
    ck_assert_uint_eq(list.size(), 1);
    const std::vector<Offer> again = correct_offers(offers, list);
    const auto own = std::find_if(again.begin(), again.end(), [](const Offer& o) {
        return o.estimate.source == Source::observed;
    });
    ck_assert_double_eq_tol(own->estimate.iteration_s, 1.2, 1e-12);
    ck_assert_double_eq_tol(own->estimate.error_bound, 0.2, 1e-12);
    ck_assert(correct_offers(offers, {}) == offers);
}

TEST(offers_are_remembered_by_all_they_depend_on_and_the_oldest_forgotten) {
    const Model model = *find_zoo_model("gpt2");
    std::vector<OfferPool> pools{{"a40", "A40", 8, 64, 1}};
    const auto key = [&](const char* settings) {
        return offer_key(fingerprint(model), settings, pools);
    };
    const std::string first = key("|batch=64");
    ck_assert(first == key("|batch=64") && first != key("|batch=128"));
    pools[0].profile_version = 2;
    ck_assert(first != key("|batch=64"));
    pools[0] = {"a40", "A40-PCIe", 8, 64, 1};
    ck_assert(first != key("|batch=64"));
    OfferCache cache(20000);
    ck_assert(cache.find(first) == nullptr);
    OfferList kept = cache.insert(first, three_offers());
    ck_assert(cache.find(first) == kept && cache.bytes() > 3 * sizeof(Offer));
    for (int i = 0; i < 1000; ++i) cache.insert(std::to_string(i), three_offers());
    ck_assert_uint_le(cache.bytes(), 20000);
    ck_assert(cache.find("500") == nullptr);
    // A job that waits with a list does not have it planned again.
    ck_assert(cache.find(first) == kept && *kept == three_offers());
    kept.reset();
    ck_assert(cache.find(first) == nullptr);
    ck_assert(cache.find("999") != nullptr);
    const std::size_t bytes = cache.bytes(), lists = cache.lists();
    cache.insert("999", three_offers());
    ck_assert_uint_eq(cache.bytes(), bytes);
    ck_assert_uint_eq(cache.lists(), lists);
}

// ---- a stranger's model ------------------------------------------------------------------------

/// What a fingerprint is made of.
std::string hashed_text(const Model& m) {
    std::string facts = fmt::format("2|{}|{}", to_string(m.family), to_string(m.precision));
    for (const FlagField& field : flag_fields()) facts += m.*field.member ? "|1" : "|0";
    for (const IntegerField& field : integer_fields())
        if (m.*field.member != 0) facts += fmt::format("|{}={}", field.key, m.*field.member);
    for (const CustomLayer& layer : m.custom_layers)
        facts += fmt::format("|{}x{:a},{:a},{:a},{:a}", layer.count, layer.forward_flops,
                             layer.parameter_bytes, layer.activation_bytes, layer.output_bytes);
    return facts;
}

constexpr std::uint64_t low_40 = (std::uint64_t{1} << 40) - 1;

/// 12 hex digits of a mantissa, the last one odd, so that all are written: the i-th of a sequence.
std::uint64_t digits_of(std::uint64_t i) {
    i = (i + 1) * 0x9e3779b97f4a7c15;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9;
    return (i >> 16) | 1;
}
/// "0x1.HHHHHHHHHHHHp+40"
double flops_of(std::uint64_t i) {
    return 0x1p40 * (1 + static_cast<double>(digits_of(i)) * 0x1p-48);
}

/// Two different numbers whose text, after `before`, gives FNV-1a the same lower 40 bits: FNV's
/// prime is 2^40 + 435, so these never depend on the upper ones, and 2^20 tries find a pair.
std::pair<double, double> low_pair(const std::string& before) {
    constexpr std::uint64_t tries = 1U << 23;
    std::vector<std::uint64_t> table(std::size_t{1} << 24);  // lower bits of the sum, number of try
    const Fnv1a begin = Fnv1a().bytes(before + "0x1.");
    for (std::uint64_t i = 1; i < tries; ++i) {
        Fnv1a sum = begin;
        for (int digit = 11; digit >= 0; --digit)
            sum.mix(
                static_cast<unsigned char>("0123456789abcdef"[digits_of(i) >> (4 * digit) & 15]));
        const std::uint64_t low = sum.value() & low_40;
        std::size_t at = low & (table.size() - 1);
        for (; table[at] != 0; at = (at + 1) & (table.size() - 1))
            if (table[at] >> 24 == low) return {flops_of(table[at] & 0xffffff), flops_of(i)};
        table[at] = low << 24 | i;
    }
    ck_abort_msg("no pair");
}

/// Two custom models of 16 layers with one FNV-1a: from such a pair for each layer, those choices
/// whose upper 24 bits are the same, which add up layer by layer.
std::pair<Model, Model> models_of_one_fnv() {
    constexpr std::size_t layers = 16;
    Model first;
    first.family = Family::custom;
    first.layers = layers;
    std::vector<double> other;
    for (std::size_t i = 0; i < layers; ++i) {
        const auto [a, b] = low_pair(hashed_text(first) + "|1x");
        first.custom_layers.push_back({"x", 1, a, 0x1p20, 0x1p20, 0});
        other.push_back(b);
    }
    const auto sum_of = [](const Model& m) { return Fnv1a().bytes(hashed_text(m)).value(); };
    const std::uint64_t sum = sum_of(first);
    const auto with = [&](std::uint32_t choice) {
        Model m = first;
        for (std::size_t i = 0; i < layers; ++i)
            if (choice >> i & 1) m.custom_layers[i].forward_flops = other[i];
        return m;
    };
    std::vector<std::uint64_t> adds(layers);
    for (std::size_t i = 0; i < layers; ++i) adds[i] = sum_of(with(1U << i)) - sum;
    std::map<std::uint64_t, std::uint32_t> seen;
    for (std::uint32_t choice = 0; choice < 1U << layers; ++choice) {
        std::uint64_t total = sum;
        for (std::size_t i = 0; i < layers; ++i)
            if (choice >> i & 1) total += adds[i];
        const auto [at, is_new] = seen.try_emplace(total, choice);
        if (!is_new) return {with(at->second), with(choice)};
    }
    ck_abort_msg("no two choices of one sum");
}

TEST(models_that_a_stranger_made_to_have_one_fnv_share_no_offers) {
    const auto [victim, forged] = models_of_one_fnv();
    ck_assert(victim != forged);
    ck_assert(Fnv1a().bytes(hashed_text(victim)).value() ==
              Fnv1a().bytes(hashed_text(forged)).value());
    assert_text(sha256_hex(hashed_text(victim)), fingerprint(victim));
    const std::vector<OfferPool> pools{{"a40", "A40", 8, 64, 1}};
    OfferCache cache;
    cache.insert(offer_key(fingerprint(forged), "|batch=64", pools), three_offers());
    ck_assert(cache.find(offer_key(fingerprint(forged), "|batch=64", pools)) != nullptr);
    ck_assert(cache.find(offer_key(fingerprint(victim), "|batch=64", pools)) == nullptr);
}

SUITE({.timeout_s = 900});
