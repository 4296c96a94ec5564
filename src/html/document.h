// SPDX-License-Identifier: GPL-2.0-or-later
// What every page of ours is made with: text that is safe, and a document in which nothing runs but
// its own script. What stands in a page (names of jobs, models, users, nodes) is a stranger's: all
// of it goes through escaped(), and the policy holds where that was forgotten.
#pragma once

#include <string>
#include <string_view>

namespace arena::html {

/// Safe as text and as an attribute in double quotes: printable ASCII (other bytes as \xNN), at
/// most so many bytes before escaping.
std::string escaped(std::string_view text, std::size_t most = 64);

struct Document {
    std::string title;        ///< plain text
    std::string style;        ///< CSS
    std::string body;         ///< HTML, made with escaped()
    std::string script = {};  ///< last in the body; "" = none
};

/// A Content-Security-Policy under which the document's own style and script stand and nothing
/// else: no other inline one, no attribute that runs, no address. `connect`: where its script may
/// ask, as "'self'"; "" = nowhere.
std::string policy_of(const Document&, std::string_view connect = "");

/// The whole page, well-formed as XML where body and script are. Its policy stands in a <meta>.
std::string page_of(const Document&, std::string_view connect = "");

}  // namespace arena::html
