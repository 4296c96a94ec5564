// SPDX-License-Identifier: GPL-2.0-or-later
// The first line of whoever listens at a chief's port, and the lines of whoever calls it: without
// the key none is opened.
// also: watch/wire/sealed_line.cc
#include <string>

#include "fuzz.h"
#include "watch/wire/sealed_line.h"

using namespace arena::watch;

FUZZ(text) {
    if (const auto nonce = parse_greeting(text); nonce && format_greeting(*nonce) != text)
        std::abort();
    if (const auto key = parse_watch_key(text); key && !is_nonce(text)) std::abort();
    const WatchKey key{1, 2, 3};
    if (Seal(key, "up", "").open(text)) std::abort();
    const std::string said(text.substr(0, text.find('\n')));
    Seal mine(key, "down", "");
    const std::string line = mine.seal(said);
    if (Seal(key, "down", "").open(line) != said || Seal(key, "up", "").open(line)) std::abort();
}
