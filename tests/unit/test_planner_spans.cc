// SPDX-License-Identifier: GPL-2.0-or-later
// Prices by how far apart a job's nodes lie: of any plan, whatever the levels of the network cost;
// and what only an NVLink domain gives.
#include <map>

#include "planner/hardware/collectives.h"
#include "planner/plans/context.h"
#include "planner_cases.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

constexpr int span_cases = 4000;
constexpr double rounding = 1 + 1e-12;

void oversubscribe(GpuType& type, double leaf, double pod) {
    type.uplinks[0].oversubscription = leaf;
    type.uplinks[1].oversubscription = pod;
}

/// The plan as price_spans() leaves it.
GridResult with_spans(const Priced& p) {
    GridResult result{.grid = p.grid, .feasible = true, .plan = p.plan, .estimate = p.price()};
    price_spans(p.model, p.batch, p.pool, result);
    return result;
}

/// A mixture of experts on four-GPU nodes of GB200, so many in a domain.
PlanQuery rack_query(std::int64_t gpus, std::int64_t domain_nodes) {
    PlanQuery query;
    query.model = zoo("mixtral-8x7b");
    query.global_batch = 128;
    query.min_gpus = query.max_gpus = gpus;
    query.can = parse_launcher("megatron")->launcher->can();
    query.pools = {{.gpu_type = "gb200",
                    .hardware = hardware("GB200-NVL72"),
                    .gpus_per_node = 4,
                    .max_gpus = gpus}};
    query.pools[0].domain_nodes = domain_nodes;
    return query;
}

}  // namespace

TEST(a_wider_span_is_never_cheaper) {
    Random random(38);
    int dearer = 0, several = 0;
    for (int n = 0; n < span_cases; ++n) {
        Priced p = any_priced(random);
        const auto level = [&] { return random.of({1.0, 1.0, 2.0, 4.0, random.real(1, 16)}); };
        oversubscribe(p.pool.hardware, level(), level());
        for (Uplink& uplink : p.pool.hardware.uplinks)
            uplink.alpha_s = random.of({0.0, 1e-6, 1e-4});
        const GridResult result = with_spans(p);
        ck_assert_double_ge(result.slower[0], 1);
        ck_assert_double_ge(result.slower[1], result.slower[0]);
        several += p.grid.nodes > 1;
        dearer += result.slower[1] > rounding;
        // what is said is what it costs: the same plan, all nodes that far apart
        GpuPool far = p.pool;
        far.leaf_nodes = 1;
        for (const Span span : {Span::pod, Span::pods}) {
            far.pod_nodes = span == Span::pod ? 0 : 1;
            Priced there = p;
            there.pool = far;
            const double told_s =
                result.estimate.iteration_s * result.slower[static_cast<std::size_t>(span) - 1];
            ck_assert_double_eq_tol(there.price().iteration_s / told_s, 1, 1e-9);
        }
    }
    ck_assert_int_gt(several, span_cases / 10);
    ck_assert_int_gt(dearer, several / 3);
}

TEST(a_network_that_costs_nothing_has_one_time) {
    Random random(39);
    for (int n = 0; n < span_cases; ++n) {
        const Priced p = any_priced(random);
        const GridResult result = with_spans(p);
        ck_assert(result.slower == (SpanFactors{1, 1}) && result.segment == 1);
    }
}

TEST(each_level_takes_its_part_of_the_rate_and_adds_its_start_up) {
    GpuType type = hardware("a100");
    oversubscribe(type, 2, 3);
    type.uplinks[0].alpha_s = 1e-6, type.uplinks[1].alpha_s = 2e-6;
    ck_assert(link_over(type, Span::leaf) == type.inter);
    const Link pod = link_over(type, Span::pod), pods = link_over(type, Span::pods);
    ck_assert_double_eq(pod.bytes_per_s, type.inter.bytes_per_s / 2);
    ck_assert_double_eq(pods.bytes_per_s, type.inter.bytes_per_s / 6);
    ck_assert_double_eq_tol(pod.alpha_s, type.inter.alpha_s + 1e-6, 1e-12);
    ck_assert_double_eq_tol(pods.alpha_s, type.inter.alpha_s + 3e-6, 1e-12);
}

/// What no domain has is priced as on the same card without one.
TEST(without_a_domain_nothing_is_priced_for_one) {
    for (const std::int64_t gpus : {8, 64}) {
        const auto grids = plan_grids(rack_query(gpus, 0));
        PlanQuery apart = rack_query(gpus, 18);
        apart.pools[0].hardware.domain_gpus = 0;
        const auto same = plan_grids(apart);
        ck_assert_uint_eq(grids.size(), same.size());
        for (std::size_t i = 0; i < grids.size(); ++i) {
            ck_assert(grids[i].plan == same[i].plan);
            ck_assert_double_eq(grids[i].estimate.iteration_s, same[i].estimate.iteration_s);
            ck_assert_int_eq(grids[i].segment, 1);
        }
    }
}

TEST(a_plan_whose_groups_leave_a_node_names_its_segment) {
    PlanQuery query = rack_query(32, 18);
    query.pin.ep = 8;
    int segments = 0;
    for (const GridResult& grid : plan_grids(query)) {
        if (!grid.feasible || grid.segment == 1) continue;
        ck_assert_int_eq(grid.segment, grid.grid.nodes);
        // its price without the rack is known, and higher
        ck_assert_double_gt(grid.slower[0], 1);
        ++segments;
    }
    ck_assert_int_gt(segments, 0);
    query.pin.ep = query.pin.cp = 1;
    for (const GridResult& grid : plan_grids(query)) ck_assert_int_eq(grid.segment, 1);
}

TEST(a_plan_of_several_racks_takes_whole_parts_of_each) {
    PlanQuery query = rack_query(128, 18);
    query.pin.pp = 2, query.pin.cp = 1;
    int found = 0;
    for (const GridResult& grid : plan_grids(query)) {
        if (!grid.feasible || grid.segment == 1) continue;
        ck_assert_int_eq(grid.grid.nodes, 32);
        ck_assert_int_eq(grid.segment, 16);  // 64 GPUs of 72
        ++found;
    }
    ck_assert_int_gt(found, 0);
}

/// The plan that a job has where no rack is whole: the fastest where there are none.
TEST(a_grid_whose_plan_needs_racks_comes_with_one_that_needs_none) {
    int twice = 0, different = 0;
    for (const std::int64_t gpus : {32, 64, 128}) {
        const auto grids = plan_grids(rack_query(gpus, 18));
        const auto apart = plan_grids(rack_query(gpus, 0));
        std::map<Grid, std::vector<const GridResult*>> of;
        for (const GridResult& grid : grids)
            if (grid.feasible) of[grid.grid].push_back(&grid);
        for (const auto& [grid, found] : of) {
            const bool needs = found[0]->segment > 1;
            ck_assert_uint_eq(found.size(), needs ? 2 : 1);
            if (!needs) continue;
            ++twice;
            const GridResult& without = *found[1];
            different += without.plan != found[0]->plan;
            ck_assert_int_eq(without.segment, 1);
            const auto alone = std::ranges::find(apart, grid, &GridResult::grid);
            ck_assert(alone != apart.end() && alone->plan == without.plan);
            ck_assert(alone->estimate == without.estimate && alone->slower == without.slower);
        }
        // of each number of nodes the best of both kinds, and one of segments where it is faster
        std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Offer>> offered;
        for (const Offer& offer : offers_of(grids))
            offered[{offer.grid.nodes, offer.grid.gpus_per_node}].push_back(offer);
        for (const auto& [shape, offers] : offered) {
            ck_assert_uint_le(offers.size(), 2);
            if (offers.size() == 1) continue;
            ck_assert(offers[0].segment > 1 && offers[1].segment == 1);
            ck_assert_double_ge(offers[0].estimate.samples_per_s, offers[1].estimate.samples_per_s);
        }
    }
    ck_assert_int_gt(twice, 2);
    ck_assert_int_gt(different, 0);
}

TEST(a_plan_of_segments_that_gains_nothing_is_not_offered) {
    GridResult needs{.grid = {"gb200", 4, 4, 1}, .feasible = true};
    needs.plan.stage_layers = needs.plan.stage_dp = needs.plan.stage_tp = {1};
    needs.segment = 4;
    const auto offered = [&](double with, double without) {
        GridResult unbound = needs;
        needs.estimate.samples_per_s = with;
        unbound.estimate.samples_per_s = without;
        unbound.segment = 1;
        unbound.grid.stages = 2;  // of another number of stages, too
        return offers_of({needs, unbound}).size();
    };
    ck_assert_uint_eq(offered(2, 1), 2);
    ck_assert_uint_eq(offered(1, 2), 1);
}

/// Where ranks of two racks alternate, only a plan of one rack is priced for it.
TEST(racks_whose_ranks_alternate_are_no_domains_of_a_job_in_several) {
    int wide = 0, narrow = 0;
    for (const std::int64_t gpus : {64, 128}) {
        PlanQuery query = rack_query(gpus, 18), apart = rack_query(gpus, 0);
        query.pools[0].domains_alternate = true;
        query.pin.pp = apart.pin.pp = 2, query.pin.cp = apart.pin.cp = 1;
        const auto grids = plan_grids(query), without = plan_grids(apart);
        for (std::size_t g = 0; g < grids.size(); ++g) {
            if (!grids[g].feasible) continue;
            (gpus == 128 ? wide : narrow)++;
            if (gpus == 64) continue;  // all in one
            ck_assert_int_eq(grids[g].segment, 1);
            ck_assert(grids[g].plan == without[g].plan);
            ck_assert(grids[g].estimate == without[g].estimate);
        }
    }
    ck_assert(wide > 0 && narrow > 0);
    PlanQuery one = rack_query(64, 18);
    one.pools[0].domains_alternate = true;
    ck_assert_int_eq(share_in(one.pools[0], {"gb200", 16, 4, 1}), 16);
    ck_assert_int_eq(share_in(one.pools[0], {"gb200", 32, 4, 1}), 1);
}

TEST(nodes_share_a_domain_in_equal_parts) {
    const GpuType type = hardware("GB200-NVL72");
    const auto share = [&](std::int64_t nodes, std::int64_t domain) {
        return domain_share(type, {"gb200", nodes, 4, 1}, 4, domain);
    };
    ck_assert_int_eq(share(1, 18), 1);
    ck_assert_int_eq(share(3, 18), 3);
    ck_assert_int_eq(share(18, 18), 18);
    ck_assert_int_eq(share(19, 18), 1);
    ck_assert_int_eq(share(20, 18), 4);
    ck_assert_int_eq(share(32, 18), 16);
    ck_assert_int_eq(share(32, 8), 8);
    ck_assert_int_eq(share(32, 0), 1);
    ck_assert_int_eq(share(16, 40), 16);  // a domain has no more GPUs than its links join
    ck_assert_int_eq(domain_share(hardware("a100"), {"a100", 4, 8, 1}, 8, 18), 1);
}

/// The search knows what cannot lie in one leaf.
TEST(a_grid_larger_than_a_leaf_is_planned_for_several) {
    PlanQuery query = rack_query(64, 0);
    query.pools[0].hardware = hardware("a100");
    oversubscribe(query.pools[0].hardware, 4, 2);
    query.pools[0].leaf_nodes = 4, query.pools[0].pod_nodes = 8;
    query.min_gpus = 1;
    int beyond = 0;
    for (const GridResult& grid : plan_grids(query)) {
        if (!grid.feasible) continue;
        if (grid.grid.nodes > 8) ck_assert(grid.slower == (SpanFactors{1, 1}));
        if (grid.grid.nodes > 4) ck_assert_double_eq(grid.slower[0], 1);
        beyond += grid.grid.nodes > 4 && grid.grid.nodes <= 8 && grid.slower[1] > 1;
        const Topology there = topology_of(query.pools[0], grid.grid);
        const Span nearest = nearest_span(query.pools[0], grid.grid.nodes);
        ck_assert(there.inter == link_over(query.pools[0].hardware, nearest));
    }
    ck_assert_int_gt(beyond, 0);
}

TEST(offers_carry_the_times_by_span) {
    PlanQuery query = rack_query(64, 0);
    query.min_gpus = 1;
    oversubscribe(query.pools[0].hardware, 4, 2);
    const auto offers = make_offers(query);
    int spans = 0;
    for (const Offer& offer : offers) {
        if (offer.grid.nodes == 1) ck_assert(!offer.knows_spans());
        spans += offer.knows_spans();
        const auto again = parse_offer_json(to_json(offer));
        ck_assert(again && *again == offer);
        const Offer wide = at_span(offer, Span::pods);
        ck_assert_double_eq(wide.estimate.iteration_s, offer.iteration_s(Span::pods));
        ck_assert_double_le(wide.estimate.samples_per_s, offer.estimate.samples_per_s);
        ck_assert(!wide.knows_spans());
    }
    ck_assert_int_gt(spans, 0);
}

TEST(hardware_entries_and_offers_refuse_what_no_network_does) {
    const char* entry =
        "gpu_types:\n  - {name: x, memory_gib: 80, tflops: {fp16: 300}, memory_gb_per_s: 2000, "
        "sm_count: 100, gpus_per_node: 8, intra: {name: a, gb_per_s: 300, alpha_us: 10}, "
        "inter: {name: b, gb_per_s: 25, alpha_us: 15}, oversubscription: ";
    const auto parsed = [&](const std::string& levels) {
        return parse_hardware(entry + levels + "}\n", "site.yaml");
    };
    const auto good = parsed("{leaf: 2, pod: 4, pod_alpha_us: 3}");
    ck_assert(good && good->front().uplinks[0].oversubscription == 2);
    ck_assert_double_eq(good->front().uplinks[1].oversubscription, 4);
    ck_assert_double_eq_tol(good->front().uplinks[1].alpha_s, 3e-6, 1e-15);
    const auto again = parse_gpu_type_json(to_json(good->front()));
    ck_assert(again && *again == good->front());
    for (const char* bad : {"{leaf: 0.5}", "{spine: 2}", "2", "{pod: 1001}"})
        ck_assert_msg(!parsed(bad), "%s", bad);
    Offer offer;
    offer.grid = {"x", 2, 8, 1};
    offer.plan.stage_layers = offer.plan.stage_dp = offer.plan.stage_tp = {1};
    offer.slower = {2, 3};
    std::string json = to_json(offer);
    ck_assert(parse_offer_json(json));
    json.replace(json.find("\"pods\":3"), 8, "\"pods\":1");
    const auto descending = parse_offer_json(json);
    ck_assert(!descending && descending.error().message().find("slower") != std::string::npos);
}
