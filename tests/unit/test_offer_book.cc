// SPDX-License-Identifier: GPL-2.0-or-later
// The plug-in's offers: priced with the constants of the job's launcher and of the site, remembered,
// and corrected by what running jobs report, within bounds.
#include <limits>

#include "plugin/sched/offer_book.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

struct Book {
    Scene scene;
    ProfileBook profiles{scene.host, scene.config, load_hardware("").value()};
    OfferBook offers;

    explicit Book(const Calibration& calibration = builtin_calibration())
        : offers(scene.config, load_hardware("").value(), calibration, profiles) {}

    static std::vector<SitePool> pools() { return {{"a100", "A100-SXM-80GB", 8, 8, 1, 0}}; }
    OfferList of(const Request& request) {
        return offers.offers(1000, request, fingerprint(request.model), pools());
    }
    double best_s(const Request& request) {
        const OfferList list = of(request);
        ck_assert(list && !list->empty());
        return list->front().estimate.iteration_s;
    }
};

Observation observation(const Offer& offer, double ratio) {
    const double estimated = offer.estimate.iteration_s;
    return {offer.grid, offer.plan, ratio * estimated, estimated, 0.01};
}

}  // namespace

START_TEST(offers_have_the_constants_of_the_launcher_as_arena_plan_has) {
    Book book;
    Request request = Scene::request();
    for (const char* launcher : {"env", "deepspeed", "nemo", "torchtitan"}) {
        request.launcher = launcher;
        PlanQuery query{request.model, request.global_batch, 1, 2, {}, {}, find_launcher(launcher)->can};
        const GpuType type = *find_hardware(load_hardware("").value(), "A100-SXM-80GB");
        query.pools = {{"a100", type, 8, 2, {}, launcher, {}}};
        ck_assert_msg(*book.of(request) == make_offers(query), "%s", launcher);
    }
    request.launcher = "env";
    const double plain = book.best_s(request);
    request.launcher = "deepspeed";
    ck_assert_double_ne(plain, book.best_s(request));
}
END_TEST

START_TEST(the_sites_table_of_constants_counts) {
    Calibration slow = builtin_calibration();
    for (Calibration::Framework& framework : slow.frameworks) framework.constants.iteration_s = 7;
    Book ours(slow), plain;
    ck_assert_double_gt(ours.best_s(Scene::request()), 7);
    ck_assert_double_lt(plain.best_s(Scene::request()), 7);
}
END_TEST

START_TEST(a_report_corrects_the_offers_of_its_model_and_batch_only) {
    Book book;
    const Request request = Scene::request();
    Request other = request;
    other.global_batch = 64;
    const Offer before = book.of(request)->front();
    const double elsewhere = book.best_s(other);
    ck_assert(book.offers.observe(request, fingerprint(request.model), observation(before, 1.5)));
    const OfferList after = book.of(request);
    const auto own = std::find_if(after->begin(), after->end(), [&](const Offer& o) {
        return o.grid == before.grid && o.plan == before.plan;
    });
    ck_assert(own != after->end() && own->estimate.source == Source::observed);
    ck_assert_double_eq_tol(own->estimate.iteration_s, 1.5 * before.estimate.iteration_s, 1e-9);
    ck_assert(book.of(request) == after);  // remembered
    ck_assert_double_eq(book.best_s(other), elsewhere);
}
END_TEST

START_TEST(nonsense_is_no_report) {
    Book book;
    const Request request = Scene::request();
    const Offer offer = book.of(request)->front();
    const OfferList before = book.of(request);
    for (const double ratio : {0.0, -1.0, 1e9, 1e-9, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()})
        ck_assert(!book.offers.observe(request, fingerprint(request.model), observation(offer, ratio)));
    Observation never_estimated = observation(offer, 1);
    never_estimated.estimated_s = 0;
    ck_assert(!book.offers.observe(request, fingerprint(request.model), never_estimated));
    ck_assert_uint_eq(book.offers.observed(), 0);
    ck_assert(book.of(request) == before);
}
END_TEST

START_TEST(reports_are_remembered_within_bounds_the_oldest_forgotten) {
    Book book;
    Request request = Scene::request();
    const std::string model = fingerprint(request.model);
    const Offer offer = book.of(request)->front();
    ck_assert(book.offers.observe(request, model, observation(offer, 2)));
    const OfferList corrected = book.of(request);
    Request newer = request;
    for (std::size_t i = 0; i < max_observed; ++i) {
        newer.global_batch = 1000 + static_cast<std::int64_t>(i);
        ck_assert(book.offers.observe(newer, model, observation(offer, 2)));
    }
    ck_assert_uint_eq(book.offers.observed(), max_observed);
    ck_assert(book.of(request)->front() == offer);  // the first one is forgotten
    // What is observed anew is not mistaken for what was forgotten.
    ck_assert(book.offers.observe(request, model, observation(offer, 3)));
    ck_assert(*book.of(request) != *corrected);
    ck_assert_uint_eq(book.offers.observed(), max_observed);
}
END_TEST

int main() {
    return run_suite("offer book",
                     {
                         offers_have_the_constants_of_the_launcher_as_arena_plan_has,
                         the_sites_table_of_constants_counts,
                         a_report_corrects_the_offers_of_its_model_and_batch_only,
                         nonsense_is_no_report,
                         reports_are_remembered_within_bounds_the_oldest_forgotten,
                     },
                     {.timeout_s = 60});
}
