// SPDX-License-Identifier: GPL-2.0-or-later
// See page.h. live.html, live.css and live.js are part of the program: the build makes text of
// them.
#include "cli/exporter/page.h"

#include <nettle/base64.h>
#include <nettle/sha2.h>
#include <pwd.h>

#include <array>

#include "base/json.h"

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

/// 'sha256-...', as a policy names what stands in a document.
std::string source_of(std::string_view text) {
    sha256_ctx context{};
    sha256_init(&context);
    sha256_update(&context, text.size(), reinterpret_cast<const std::uint8_t*>(text.data()));
    std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
    sha256_digest(&context, digest.size(), digest.data());
    std::array<char, BASE64_ENCODE_RAW_LENGTH(SHA256_DIGEST_SIZE)> code{};
    base64_encode_raw(code.data(), digest.size(), digest.data());
    return "'sha256-" + std::string(code.data(), code.size()) + "'";
}

void put(std::string& html, std::string_view mark, std::string_view text) {
    if (const std::size_t at = html.find(mark); at != std::string::npos)
        html.replace(at, mark.size(), text);
}

}  // namespace

LivePage live_page() {
    LivePage page{.html = html_text,
                  .policy = "default-src 'none'; connect-src 'self'; script-src " +
                            source_of(script_text) + "; style-src " + source_of(style_text) +
                            "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"};
    put(page.html, "@STYLE@", style_text);
    put(page.html, "@SCRIPT@", script_text);
    return page;
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
