// SPDX-License-Identifier: GPL-2.0-or-later
// Where the chief of a step is found: on the step's first node, at one of eight ports that follow
// from the job's key and the step, so that nobody has to tell anybody. Which of them, and that it
// is the chief, the handshake proves.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "watch/wire/sealed_line.h"

namespace arena::watch {

using Ports = std::array<std::uint16_t, 8>;
/// 10000 to 19999: below Linux's own, and none that master_port() gives. `run` names the step:
/// "JOB.STEP.LIFE".
Ports meeting_ports(const WatchKey& key, std::string_view run);

using GetVariable = const char* (*)(const char*);

/// What a step's environment says of the chief.
struct Meeting {
    std::string run;                 ///< "JOB.STEP.LIFE"
    std::vector<std::string> hosts;  ///< of the chief, to be tried in turn
    bool one_node = true;            ///< nobody calls from elsewhere
    bool here = true;                ///< this is the first node: the chief's
};
/// ARENA_WATCH_CHIEF, else the first of SLURM_STEP_NODELIST, then SLURM_LAUNCH_NODE_IPADDR (a name
/// of Slurm's need not be one that resolves); 127.0.0.1 where there is one node. Each is a host.
Meeting find_meeting(GetVariable get);

struct Address {
    sockaddr_storage name{};
    socklen_t size = 0;
};
/// As the resolver has them, at most 4 of a host, without a port; those that have none are left
/// out. Waits for the resolver.
std::vector<Address> resolve_hosts(const std::vector<std::string>& hosts);
Address with_port(Address address, std::uint16_t port);

}  // namespace arena::watch
