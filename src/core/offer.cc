// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/offer.h"

#include <fmt/format.h>

#include "base/names.h"

namespace arena {
namespace {

constexpr std::array<Name<Source>, 4> source_names{{{Source::analytic, "analytic"},
                                                    {Source::profiled, "profiled"},
                                                    {Source::observed, "observed"},
                                                    {Source::data_sheet, "data-sheet"}}};

}  // namespace

std::string data_sheet_note(std::string_view gpu_type) {
    return fmt::format(
        "{}: by its data sheet only, as no run on such a GPU was measured: times may be off by "
        "{:.0f} %",
        gpu_type, 100 * data_sheet_error);
}

std::string_view to_string(Source s) { return name_of(source_names, s); }
std::optional<Source> parse_source(std::string_view s) { return value_of(source_names, s); }

void scale(Estimate& e, double factor) {
    for (double* part : {&e.iteration_s, &e.compute_s, &e.tp_comm_s, &e.pp_comm_s, &e.dp_comm_s,
                         &e.bubble_s, &e.optimizer_s})
        *part *= factor;
    e.samples_per_s /= factor;
    e.tflops_per_gpu /= factor;
}

bool is_same_offer(const Offer& a, const Offer& b) {
    return is_same_layout(a.grid, b.grid) && a.plan == b.plan && a.segment == b.segment;
}

Offer at_span(Offer offer, Span span) {
    if (const double slower = offer.slower_at(span); slower != 1) scale(offer.estimate, slower);
    offer.slower = {1, 1};
    return offer;
}

const std::vector<Offer>& SharedOffers::get() const {
    static const std::vector<Offer> none;
    return list_ ? *list_ : none;
}

std::vector<Offer>& SharedOffers::own() {
    auto mine = std::make_shared<std::vector<Offer>>(get());
    std::vector<Offer>& list = *mine;
    list_ = std::move(mine);
    return list;
}

}  // namespace arena
