// SPDX-License-Identifier: GPL-2.0-or-later
#include "request/resolver.h"

#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <memory>

#include "base/hostlist.h"

namespace arena {
namespace {

bool is_loopback(const addrinfo& found) {
    if (found.ai_family == AF_INET) {
        const auto* name = reinterpret_cast<const sockaddr_in*>(found.ai_addr);
        return (ntohl(name->sin_addr.s_addr) >> 24) == 127;
    }
    if (found.ai_family != AF_INET6) return true;  // of no use to anybody
    const auto* name = reinterpret_cast<const sockaddr_in6*>(found.ai_addr);
    return IN6_IS_ADDR_LOOPBACK(&name->sin6_addr) != 0;
}

/// A question to the resolver, which reads and writes it in a thread of the C library's own.
struct Lookup {
    std::string host;
    addrinfo hints{};
    gaicb question{};

    explicit Lookup(std::string name) : host(std::move(name)) {
        hints.ai_socktype = SOCK_STREAM;
        question.ar_name = host.c_str();
        question.ar_request = &hints;
    }
    Lookup(const Lookup&) = delete;
    Lookup& operator=(const Lookup&) = delete;
    ~Lookup() {
        if (question.ar_result != nullptr) ::freeaddrinfo(question.ar_result);
    }
};

/// Until there is an answer or the limit is over; signals do not cut it short.
void wait_for(const gaicb& question, std::chrono::milliseconds limit) {
    const gaicb* questions[] = {&question};
    const auto end = std::chrono::steady_clock::now() + limit;
    for (auto left = limit; left.count() > 0; left = std::chrono::ceil<std::chrono::milliseconds>(
                                                  end - std::chrono::steady_clock::now())) {
        const timespec time{left.count() / 1000, left.count() % 1000 * 1'000'000};
        if (::gai_suspend(questions, 1, &time) != EAI_INTR) return;
    }
}

}  // namespace

bool resolves(const std::string& host, std::chrono::milliseconds limit) {
    if (is_address(host)) return true;
    auto lookup = std::make_unique<Lookup>(host);
    gaicb* questions[] = {&lookup->question};
    sigevent nobody{};
    nobody.sigev_notify = SIGEV_NONE;
    if (::getaddrinfo_a(GAI_NOWAIT, questions, 1, &nobody) != 0) return false;
    wait_for(lookup->question, limit);
    const int answer = ::gai_error(&lookup->question);
    if (answer == EAI_INPROGRESS && ::gai_cancel(&lookup->question) != EAI_CANCELED) {
        (void)lookup.release();  // its thread still writes there
        return false;
    }
    if (answer != 0) return false;
    for (const addrinfo* one = lookup->question.ar_result; one != nullptr; one = one->ai_next)
        if (!is_loopback(*one)) return true;
    return false;
}

}  // namespace arena
