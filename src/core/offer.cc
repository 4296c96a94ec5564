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
