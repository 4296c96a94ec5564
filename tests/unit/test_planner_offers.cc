// SPDX-License-Identifier: GPL-2.0-or-later
// Offers after planning: corrected by what runs observe, remembered and forgotten.
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
    add_observation(list, {run.grid, offers[1].plan, 1e9, 1.0, 0});
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

int main() { return arena::test::run_suite({.timeout_s = 300}); }
