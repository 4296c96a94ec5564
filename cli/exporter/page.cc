// SPDX-License-Identifier: GPL-2.0-or-later
// See page.h. live.html, live.css and live.js are part of the program: the build makes text of
// them.
#include "cli/exporter/page.h"

#include <pwd.h>

#include <array>

#include "base/json.h"
#include "html/document.h"

namespace arena::cli {
namespace {

constexpr const char* html_text =
#include "cli/exporter/live_html.inc"
    ;
constexpr const char* style_text =
#include "cli/exporter/live_css.inc"
    ;
constexpr const char* script_text =
#include "cli/exporter/live_js.inc"
    ;

}  // namespace

LivePage live_page() {
    constexpr const char* own = "'self'";
    const html::Document document{
        .title = "Arena: live", .style = style_text, .body = html_text, .script = script_text};
    // No frame may hold it: a policy in the page itself cannot say that.
    return {.html = html::page_of(document, own),
            .policy = html::policy_of(document, own) + "; frame-ancestors 'none'"};
}

const std::string& UserNames::of(std::int64_t uid) {
    const auto [at, is_new] = known_.try_emplace(uid);
    if (!is_new) return at->second;
    std::array<char, 16384> room{};
    passwd user{};
    passwd* found = nullptr;
    if (::getpwuid_r(static_cast<uid_t>(uid), &user, room.data(), room.size(), &found) == 0 &&
        found != nullptr)
        at->second = found->pw_name;
    return at->second;
}

Result<std::string> with_user_names(std::string_view live, UserNames& names) {
    Result<Json> json = parse_json(live);
    if (!json) return json.error();
    const auto wrong = environment_error(
        "the scheduler plug-in gave no answer of its own: it is off, still starting, or older than "
        "this arena; see slurmctld's log");
    if (!json->is_object() || !json->contains("pools")) return wrong;
    for (const char* list : {"waiting", "running"}) {
        const auto jobs = json->find(list);
        if (jobs == json->end() || !jobs->is_array()) return wrong;
        for (Json& job : *jobs) {
            const auto uid = job.is_object() ? job.find("uid") : job.end();
            if (!job.is_object() || uid == job.end() || !uid->is_number_unsigned()) return wrong;
            if (const std::string& name = names.of(uid->get<std::int64_t>()); !name.empty())
                job["user"] = name;
        }
    }
    return dump_json(*json) + "\n";
}

}  // namespace arena::cli
