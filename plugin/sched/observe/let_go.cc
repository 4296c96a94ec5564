// SPDX-License-Identifier: GPL-2.0-or-later
// See let_go.h.
#include "plugin/sched/observe/let_go.h"

#include <algorithm>
#include <tuple>

#include "plugin/sched/round/launch.h"
#include "plugin/sched/round/shares.h"

namespace arena {
namespace {

/// Of those with the fewest GPUs the fastest.
const Offer& least_offer(const std::vector<Offer>& offers) {
    return *std::min_element(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) {
        return std::tuple(a.grid.gpus(), a.estimate.iteration_s) <
               std::tuple(b.grid.gpus(), b.estimate.iteration_s);
    });
}

void take_grid(Shape& shape, const Offer& offer, const Request& request) {
    const std::int64_t before = std::max<std::int64_t>(shape.offer.grid.gpus_per_node, 1);
    const std::int64_t per_gpu = std::max<std::int64_t>(shape.cpus_per_task / before, 1);
    shape.memory_mb_per_node = shape.memory_mb_per_node / before * offer.grid.gpus_per_node;
    shape.offer.grid = offer.grid;
    shape.tasks_per_node = tasks_per_node(request.launcher, offer.grid);
    shape.cpus_per_task =
        std::max<std::int64_t>(per_gpu * offer.grid.gpus_per_node / shape.tasks_per_node, 1);
    shape.environment.push_back(advice_entry(offer));
}

}  // namespace

void let_go(const ClusterView& slurms, Books& books, Host& slurm) {
    const ServiceUser& user = books.profiles.user();
    for (const CarrierView& carrier : slurms.carriers) {
        const bool is_ours = user.known && carrier.user_id == user.id;
        if (is_ours && !carrier.finished && carrier.node.empty()) slurm.end_carrier(carrier.id);
    }
    for (const JobView& job : slurms.jobs) {
        if (job.changing || !plannable(job.facts)) continue;
        const SharedRequest wanted = books.requests.get(job.id, job.record, job.comment);
        const auto& pools = books.offers.pools(slurms, job);
        Shape shape = plain_shape(job, wanted->request, books.site.config, pools);
        shape.admin_comment = "arena:v1 state=observed";
        if (wanted->problem.empty() && !pools.empty()) {
            const OfferList offers =
                books.offers.offers(job.user_id, wanted->request, wanted->fingerprint, pools);
            if (!offers) continue;
            std::vector<Offer> even = *offers;
            std::erase_if(even, [](const Offer& offer) { return offer.grid.is_uneven(); });
            if (!even.empty()) take_grid(shape, least_offer(even), wanted->request);
        }
        (void)slurm.opt_out(shape, wanted->off ? Phase::off : Phase::observed);
    }
}

}  // namespace arena
