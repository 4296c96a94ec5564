// SPDX-License-Identifier: GPL-2.0-or-later
// See wish.h. The comment is the user's text: bounded, parsed key by key, never evaluated.
#include "plugin/sched/wish.h"

#include "core/text.h"
#include "planner/planner.h"

namespace arena {
namespace {

constexpr std::string_view accepted =
    "accepted are arena:off, arena:plan=pp2,dp2,tp1 and arena:gpus=MIN-MAX";

constexpr std::int64_t max_gpus = 65536;

Status set_plan(std::string_view value, Wish& wish) {
    auto pin = parse_plan_pin(value);
    if (!pin) return pin.error();
    const std::int64_t gpus = pin->pp * pin->dp * pin->tp;
    // Beyond that, a search for equal shares of nodes would take the scheduler's thread for days.
    if (gpus > max_gpus) return usage_error("plan takes more than 65536 GPUs");
    wish.request.pin = *pin;
    if (gpus > 0) wish.request.min_gpus = wish.request.max_gpus = gpus;
    wish.overridden = true;
    return Done{};
}

Status set_gpus(std::string_view value, Wish& wish) {
    const std::size_t dash = value.find('-');
    const auto low = parse_integer(value.substr(0, dash), 1, max_gpus);
    const auto high =
        dash == std::string_view::npos ? low : parse_integer(value.substr(dash + 1), 1, max_gpus);
    if (!low || !high || *low > *high)
        return usage_error("gpus takes MIN-MAX with 1 <= MIN <= MAX <= 65536");
    wish.request.min_gpus = *low;
    wish.request.max_gpus = *high;
    wish.overridden = true;
    return Done{};
}

Status apply_one(std::string_view item, Wish& wish) {
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    if (key == "off" && value.empty()) {
        wish.off = true;
        return Done{};
    }
    if (key == "plan") return set_plan(value, wish);
    if (key == "gpus") return set_gpus(value, wish);
    return usage_error("'" + printable(item, 40) + "' is not known; " + std::string(accepted));
}

}  // namespace

Wish make_wish(const std::string& record, const std::string& comment) {
    Wish wish;
    auto request = parse_record(record);
    if (!request) {
        wish.problem = "its record is not valid: " + request.error().message();
        return wish;
    }
    // job_submit/arena checked it; a site that does not load that plug-in has nobody else who does.
    if (auto sound = check_model(request->model); !sound) {
        wish.problem = "its record is not valid: " + sound.error().message();
        return wish;
    }
    wish.request = std::move(request).value();
    wish.fingerprint = fingerprint(wish.request.model);
    if (auto status = apply_comment(comment, wish); !status)
        wish.problem = "Comment: " + status.error().message();
    return wish;
}

Status apply_comment(std::string_view comment, Wish& wish) {
    constexpr std::string_view prefix = "arena:";
    if (!comment.starts_with(prefix)) return Done{};
    comment.remove_prefix(prefix.size());
    if (comment.size() > 256) return usage_error("longer than 256 characters; " + std::string(accepted));
    for (std::string_view item : split(comment, ';'))
        if (auto status = apply_one(trim(item), wish); !status) return status;
    return Done{};
}

}  // namespace arena
