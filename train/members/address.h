// SPDX-License-Identifier: GPL-2.0-or-later
// Where members find the array that trains them: a TCP port of its first node, or a local socket of
// the one node that all are on, by a path or by an abstract name (unix(7)). A path is for those
// that see the same file system; an abstract name is for all in the node's network namespace, also
// for jobs with a /tmp of their own, and nothing of it is left, however the array ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace arena::train {

struct ArrayAddress {
    std::string path;  ///< of a socket, "@NAME" an abstract one; "" = TCP
    std::string host;  ///< "" = all addresses of this machine
    std::uint16_t port = 0;
};
/// "HOST:PORT" (of IPv6 "[::1]:PORT"), "PORT", "/PATH" or "@NAME"; `name`: of the variable or
/// option, for the sentence.
Result<ArrayAddress> read_array_address(std::string_view text, const std::string& name);

/// A socket that does not wait, listening. A path where nobody listens any more is taken over; one
/// that is made is the user's alone.
Result<FileDescriptor> listen_at(const ArrayAddress&);
/// One that does not wait, connected. Waits for the resolver, and up to 2 s for each address.
/// Refuses a local socket on which another user listens.
Result<FileDescriptor> call_at(const ArrayAddress&);
/// Whether the other end of a local socket is this process's user; of TCP nobody can say: true.
bool is_same_user(int fd);

}  // namespace arena::train
