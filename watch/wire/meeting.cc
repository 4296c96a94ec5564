// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/wire/meeting.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/hostlist.h"
#include "base/text.h"

namespace arena::watch {
namespace {

std::string value(GetVariable get, const char* name) {
    const char* text = get(name);
    return text == nullptr ? "" : text;
}

std::int64_t number(GetVariable get, const char* name, std::int64_t otherwise) {
    return parse_integer(value(get, name), 0, INT64_MAX).value_or(otherwise);
}

}  // namespace

Ports meeting_ports(const WatchKey& key, std::string_view run) {
    constexpr unsigned first = 10000, count = 10000;
    Ports ports{};
    std::size_t found = 0;
    for (unsigned round = 0; found < ports.size(); ++round) {
        const Digest digest =
            authenticate(bytes_of(key), fmt::format("arena-watch ports {} {}", round, run));
        for (std::size_t i = 0; i + 1 < digest.size() && found < ports.size(); i += 2) {
            const unsigned port = first + (digest[i] * 256U + digest[i + 1]) % count;
            const auto end = ports.begin() + static_cast<std::ptrdiff_t>(found);
            if (std::find(ports.begin(), end, port) == end)
                ports[found++] = static_cast<std::uint16_t>(port);
        }
    }
    return ports;
}

Meeting find_meeting(GetVariable get) {
    Meeting meeting;
    meeting.run =
        fmt::format("{}.{}.{}", number(get, "SLURM_JOB_ID", 0), number(get, "SLURM_STEP_ID", 0),
                    number(get, "SLURM_RESTART_COUNT", 0));
    const auto first = parse_first_host(value(get, "SLURM_STEP_NODELIST"));
    meeting.one_node = number(get, "SLURM_STEP_NUM_NODES", 1) < 2;
    meeting.here = number(get, "SLURM_NODEID", 0) == 0;
    if (const std::string chief = value(get, "ARENA_WATCH_CHIEF"); !chief.empty()) {
        meeting.hosts = {chief};
        meeting.one_node = chief == "127.0.0.1";
    } else if (meeting.one_node) {
        meeting.hosts = {"127.0.0.1"};
    } else {
        if (first) meeting.hosts.push_back(*first);
        const std::string launcher = value(get, "SLURM_LAUNCH_NODE_IPADDR");
        if (!launcher.empty()) meeting.hosts.push_back(launcher);
    }
    return meeting;
}

std::vector<Address> resolve_hosts(const std::vector<std::string>& hosts) {
    constexpr std::size_t most = 4;
    std::vector<Address> all;
    for (const std::string& host : hosts) {
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        addrinfo* list = nullptr;
        if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) continue;
        const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
        std::size_t taken = 0;
        for (const addrinfo* one = list; one != nullptr && taken < most; one = one->ai_next) {
            if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
            Address address;
            std::memcpy(&address.name, one->ai_addr, one->ai_addrlen);
            address.size = one->ai_addrlen;
            all.push_back(address);
            ++taken;
        }
    }
    return all;
}

Address with_port(Address address, std::uint16_t port) {
    if (address.name.ss_family == AF_INET)
        reinterpret_cast<sockaddr_in&>(address.name).sin_port = htons(port);
    else
        reinterpret_cast<sockaddr_in6&>(address.name).sin6_port = htons(port);
    return address;
}

}  // namespace arena::watch
