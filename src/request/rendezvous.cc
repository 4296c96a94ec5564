// SPDX-License-Identifier: GPL-2.0-or-later
#include "request/rendezvous.h"

#include <fmt/format.h>

#include <chrono>

#include "base/hostlist.h"
#include "base/text.h"
#include "request/resolver.h"

namespace arena {

Status check_rendezvous(std::string_view value) {
    if (is_host(value)) return Done{};
    return usage_error(
        fmt::format("'{}' is no host name and no address: give the host where the ranks meet, such "
                    "as n1 or 10.0.0.1, or unset it",
                    printable(value, 60)),
        std::string(rendezvous_variable));
}

bool resolves_soon(const std::string& host) { return resolves(host, std::chrono::seconds(1)); }

Result<std::string> rendezvous_host(std::string_view wanted, std::string_view nodes,
                                    const HostQuestions& ask) {
    if (!wanted.empty()) {
        if (const Status sound = check_rendezvous(wanted); !sound) return sound.error();
        return std::string(wanted);
    }
    const auto node = parse_first_host(nodes);
    if (!node) return std::string();
    if (ask.resolves(*node)) return *node;
    const std::string address = ask.address_of(*node);
    return is_host(address) ? address : *node;
}

}  // namespace arena
