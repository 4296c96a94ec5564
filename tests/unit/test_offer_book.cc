// SPDX-License-Identifier: GPL-2.0-or-later
// The plug-in's offers: priced with the constants of the job's launcher and of the site,
// remembered, and corrected by what running jobs report, within bounds.
#include <limits>

#include "plugin/sched/plans/offer_book.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

struct Book {
    Scene scene;
    Measurements measurements{scene.host, scene.config, load_hardware("").value()};
    OfferBook offers;

    explicit Book(const Calibration& calibration = builtin_calibration())
        : offers(scene.config, load_hardware("").value(), calibration, measurements) {}

    static std::vector<SitePool> pools() { return {{"a100", "A100-SXM-80GB", 8, 8, 1, 0}}; }
    OfferList of(const Request& request, std::uint32_t user = 1000) {
        return offers.offers(user, request, fingerprint(request.model), pools());
    }
    /// A job of the user ran the offer so many times as slow as estimated.
    bool observe(const Request& request, const Offer& offer, double ratio,
                 std::uint32_t user = 1000, JobId job = 1, std::int64_t steps = enough_steps) {
        ObservedRun run = run_of(request, offer, ratio, user, job);
        run.steps = steps;
        return offers.observe(std::move(run));
    }
    static ObservedRun run_of(const Request& request, const Offer& offer, double ratio,
                              std::uint32_t user, JobId job) {
        const double estimated = offer.estimate.iteration_s;
        return {fingerprint(request.model),
                request.model.name,
                request.global_batch,
                request.launcher,
                {offer.grid, offer.plan, ratio * estimated, estimated, 0.01},
                20,
                job,
                1000,
                user,
                false,
                {}};
    }
    bool corrected(const Request& request, std::uint32_t user = 1000) {
        const OfferList list = of(request, user);
        return std::any_of(list->begin(), list->end(),
                           [](const Offer& o) { return o.estimate.source == Source::observed; });
    }
    double best_s(const Request& request) {
        const OfferList list = of(request);
        ck_assert(list && !list->empty());
        return list->front().estimate.iteration_s;
    }
};

}  // namespace

TEST(offers_have_the_constants_of_the_launcher_as_arena_plan_has) {
    Book book;
    Request request = Scene::request();
    for (const char* launcher : {"env", "megatron-deepspeed", "nemo", "torchtitan"}) {
        request.launcher = launcher;
        PlanQuery query{
            request.model, request.global_batch, 1, 2, {}, {}, capabilities_of(launcher)};
        const GpuType type = *find_hardware(load_hardware("").value(), "A100-SXM-80GB");
        query.pools = {{"a100", type, 8, 2, {}, launcher, {}}};
        ck_assert_msg(*book.of(request) == make_offers(query), "%s", launcher);
    }
    request.launcher = "env";
    const double plain = book.best_s(request);
    request.launcher = "megatron-deepspeed";
    ck_assert_double_ne(plain, book.best_s(request));
}

TEST(the_sites_table_of_constants_counts) {
    Calibration slow = builtin_calibration();
    for (Calibration::Framework& framework : slow.frameworks) framework.constants.iteration_s = 7;
    Book ours(slow), plain;
    ck_assert_double_gt(ours.best_s(Scene::request()), 7);
    ck_assert_double_lt(plain.best_s(Scene::request()), 7);
}

TEST(a_report_corrects_the_offers_of_its_model_and_batch_only) {
    Book book;
    const Request request = Scene::request();
    Request other = request;
    other.global_batch = 64;
    const Offer before = book.of(request)->front();
    const double elsewhere = book.best_s(other);
    ck_assert(book.observe(request, before, 1.5));
    const OfferList after = book.of(request);
    const auto own = std::find_if(after->begin(), after->end(), [&](const Offer& o) {
        return o.grid == before.grid && o.plan == before.plan;
    });
    ck_assert(own != after->end() && own->estimate.source == Source::observed);
    ck_assert_double_eq_tol(own->estimate.iteration_s, 1.5 * before.estimate.iteration_s, 1e-9);
    ck_assert(book.of(request) == after);  // remembered
    ck_assert_double_eq(book.best_s(other), elsewhere);
}

TEST(nonsense_is_no_report) {
    Book book;
    const Request request = Scene::request();
    const Offer offer = book.of(request)->front();
    const OfferList before = book.of(request);
    for (const double ratio : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()})
        ck_assert(!book.observe(request, offer, ratio));
    ObservedRun never_estimated = Book::run_of(request, offer, 1, 1000, 1);
    never_estimated.observation.estimated_s = 0;
    ck_assert(!book.offers.observe(never_estimated));
    ck_assert_uint_eq(book.offers.observed(), 0);
    ck_assert(book.of(request) == before);
}

TEST(reports_are_remembered_within_bounds_the_oldest_forgotten) {
    Book book;
    Request request = Scene::request();
    const Offer offer = book.of(request)->front();
    ck_assert(book.observe(request, offer, 2));
    const OfferList corrected = book.of(request);
    Request newer = request;
    for (std::size_t i = 0; i < max_observed; ++i) {
        newer.global_batch = 1000 + static_cast<std::int64_t>(i);
        ck_assert(book.observe(newer, offer, 2));
    }
    ck_assert_uint_eq(book.offers.observed(), max_observed);
    ck_assert(book.of(request)->front() == offer);  // the first one is forgotten
    // What is observed anew is not mistaken for what was forgotten.
    ck_assert(book.observe(request, offer, 3));
    ck_assert(*book.of(request) != *corrected);
    ck_assert_uint_eq(book.offers.observed(), max_observed);
}

TEST(a_report_counts_for_its_user_and_for_others_when_it_is_shared) {
    Book book;
    const Request request = Scene::request();
    const Offer before = book.of(request)->front();
    ck_assert(book.observe(request, before, 2, 1001));
    ck_assert(book.corrected(request, 1001) && !book.corrected(request, 1002));
    ck_assert(*book.of(request, 1002) == *book.of(request, 1003));
    ObservedRun shared = Book::run_of(request, before, 1.5, 1001, 1);
    shared.shared = true;
    ck_assert(book.offers.recall(shared));
    const auto own_s = [&](std::uint32_t user) {
        const OfferList list = book.of(request, user);
        return std::find_if(
                   list->begin(), list->end(),
                   [&](const Offer& o) { return o.grid == before.grid && o.plan == before.plan; })
            ->estimate.iteration_s;
    };
    const double estimated_s = before.estimate.iteration_s;
    ck_assert_double_eq_tol(own_s(1002), 1.5 * estimated_s, 1e-9);
    ck_assert_double_eq_tol(own_s(1001), 2 * estimated_s, 1e-9);  // what it sees itself goes before
}

TEST(what_is_far_off_the_estimate_by_few_steps_counts_when_three_jobs_agree) {
    constexpr std::int64_t few = enough_steps - 1;
    for (const double ratio : {4.0, 1 / 4.0, 30.0}) {
        Book book;
        const Request request = Scene::request();
        const Offer offer = book.of(request)->front();
        const auto observe = [&](double times, std::uint32_t user, JobId job) {
            return book.observe(request, offer, times, user, job, few);
        };
        ck_assert(observe(ratio, 1000, 1) && observe(1.1 * ratio, 1000, 2));
        for (int again = 0; again < 3; ++again)  // the same two, over and over
            ck_assert(observe(ratio, 1000, 1) && observe(ratio, 1000, 2));
        ck_assert(observe(ratio, 1001, 3));  // of another user
        ck_assert(!book.corrected(request));
        ck_assert(observe(ratio, 1000, 3));
        ck_assert(book.corrected(request) && !book.corrected(request, 1001));
        ck_assert(observe(ratio > 1 ? 7 : 1 / 7.0, 1000, 4));  // disagrees with all of them
        ck_assert(!book.corrected(request));
        ck_assert_msg(observe(1.5, 1000, 5) && book.corrected(request), "no outlier needs nobody");
    }
}

TEST(what_a_job_measured_over_enough_steps_counts_for_its_user_at_once_however_far_off) {
    for (const double ratio : {4.0, 94.0, 1 / 20.0}) {
        Book book;
        const Request request = Scene::request();
        const Offer offer = book.of(request)->front();
        ck_assert(book.observe(request, offer, ratio, 1000, 1, enough_steps));
        ck_assert(book.corrected(request) && !book.corrected(request, 1001));
        const OfferList after = book.of(request);
        const auto own = std::find_if(after->begin(), after->end(), [&](const Offer& o) {
            return o.grid == offer.grid && o.plan == offer.plan;
        });
        ck_assert(own != after->end());
        ck_assert_double_eq_tol(own->estimate.iteration_s / offer.estimate.iteration_s, ratio,
                                1e-9 * ratio);
    }
}

TEST(a_time_beside_its_estimate_reads_the_way_it_went) {
    arena::test::assert_text(off_words(0.183, 0.024), "7.62 times slower");
    arena::test::assert_text(off_words(1.4, 0.25), "5.6 times slower");
    arena::test::assert_text(off_words(1, 1.3), "1.3 times faster");
    arena::test::assert_text(off_words(94, 1), "94 times slower");
    arena::test::assert_text(off_words(1.004, 1), "as estimated");
}

TEST(who_reports_of_many_models_makes_nothing_of_others_forgotten) {
    Book book;
    Request request = Scene::request();
    const Offer offer = book.of(request)->front();
    ck_assert(book.observe(request, offer, 2, 1001));
    Request newer = request;
    for (std::size_t i = 0; i < 2 * max_observed; ++i) {
        newer.global_batch = 1000 + static_cast<std::int64_t>(i);
        ck_assert(book.observe(newer, offer, 2, 1002));
    }
    ck_assert_uint_eq(book.offers.observed(), max_observed);
    ck_assert(book.corrected(request, 1001));
}

/// Slurm's order of nodes is that of ranks, before 26.05.
TEST(blocks_whose_nodes_alternate_are_seen) {
    for (const auto& [alternate, follows] :
         {std::pair(false, false), {true, false}, {true, true}}) {
        Book book;
        for (int n = 0; n < 8; ++n) book.scene.node("n" + std::to_string(n), "a100", 4, 4);
        Snapshot& snapshot = book.scene.host.view.snapshot;
        book.scene.host.view.ranks_follow_network = follows;
        SwitchTable table;
        for (std::size_t n = 0; n < 8; ++n)
            snapshot.nodes[n].leaf = table.add({"b" + std::to_string(alternate ? n % 2 : n / 4)});
        snapshot.switches = table.take();
        for (const auto kind : {NetworkKind::block, NetworkKind::tree}) {
            snapshot.topology = kind;
            JobView& job = book.scene.job(1, book.scene.request());
            book.offers.new_round();
            const auto& pools = book.offers.pools(book.scene.host.view, job);
            ck_assert_uint_eq(pools.size(), 1);
            ck_assert_int_eq(pools[0].domain_nodes, kind == NetworkKind::block ? 4 : 0);
            ck_assert_int_eq(pools[0].domains_alternate,
                             alternate && !follows && kind == NetworkKind::block);
        }
    }
}

SUITE({.timeout_s = 60});
