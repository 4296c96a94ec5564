// SPDX-License-Identifier: GPL-2.0-or-later
// Where members find the array that trains them: a TCP port of its first node, or a socket in the
// file system of the one node that all are on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace arena::train {

struct ArrayAddress {
    std::string path;  ///< of a socket; "" = TCP
    std::string host;  ///< "" = all addresses of this machine
    std::uint16_t port = 0;
};
/// "HOST:PORT" (of IPv6 "[::1]:PORT"), "PORT" or "/PATH"; `name`: of the variable or option, for
/// the sentence.
Result<ArrayAddress> read_array_address(std::string_view text, const std::string& name);

/// A socket that does not wait, listening. A path where nobody listens any more is taken over; one
/// that is made is the user's alone.
Result<FileDescriptor> listen_at(const ArrayAddress&);
/// One that does not wait, connected. Waits for the resolver, and up to 2 s for each address.
Result<FileDescriptor> call_at(const ArrayAddress&);
/// Whether the other end of a local socket is this process's user; of TCP nobody can say: true.
bool is_same_user(int fd);

}  // namespace arena::train
