// SPDX-License-Identifier: GPL-2.0-or-later
// Where `arena exporter` listens: a numeric address and a port, bound by ourselves so that what
// goes wrong can be said.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace arena::cli {

struct ListenAddress {
    std::string host;  ///< numeric, without brackets
    std::uint16_t port = 0;
    bool operator==(const ListenAddress&) const = default;
};

/// "127.0.0.1:9820", "[::1]:9820", "localhost:9820"; port 0: any that is free.
Result<ListenAddress> read_listen_address(std::string_view text);
/// Whether only this machine's own processes reach it.
bool is_loopback(const ListenAddress& address);
/// "127.0.0.1:9820", "[::1]:9820"
std::string to_string(const ListenAddress& address);

struct Listener {
    FileDescriptor fd;      ///< non-blocking, listening
    ListenAddress address;  ///< with the port that it has
};
/// Errors: environment, with what the system says.
Result<Listener> open_listener(const ListenAddress& address);

/// Whether a request with this Host header is meant for a server on loopback: a page of another
/// origin whose name was made to point here (DNS rebinding) says its own name. "" = none was sent.
bool is_local_host(std::string_view header, std::string_view machine);

}  // namespace arena::cli
