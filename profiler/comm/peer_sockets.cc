// SPDX-License-Identifier: GPL-2.0-or-later
// See peer_sockets.h.
#include "profiler/comm/peer_sockets.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "base/text.h"
#include "profiler/comm/comm_world.h"
#include "profiler/core/recorder.h"
#include "profiler/core/request.h"

namespace arena {
namespace {

using Address = PeerAddress;
constexpr std::size_t secret_bytes = sizeof Address::secret, host_bytes = sizeof Address::host;
/// Callers who may be silent at once; then the one goes that has been for longest.
constexpr std::size_t max_silent = 256;
/// What a rank says first when it calls another.
struct Hello {
    char secret[secret_bytes] = "";
    std::uint32_t rank = 0;
};

Error socket_error(const std::string& doing) {
    return environment_error(doing + ": " + std::strerror(errno));
}

/// Moves exactly n bytes before `until`; false: the other end is gone, or the time is over.
template <typename Move>
bool move_all(int fd, std::size_t n, short events, double until, Move move) {
    for (std::size_t done = 0; done < n;) {
        struct pollfd wait {
            fd, events, 0
        };
        const double left = until - monotonic_s();
        if (left <= 0) return false;
        const int ready = ::poll(&wait, 1, static_cast<int>(left * 1000) + 1);
        if (ready < 0 && errno != EINTR) return false;
        if (ready <= 0) continue;
        const ssize_t moved = move(done);
        if (moved < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (moved <= 0) return false;
        done += static_cast<std::size_t>(moved);
    }
    return true;
}

bool send_all(int fd, const void* data, std::size_t n, double until) {
    return move_all(fd, n, POLLOUT, until, [&](std::size_t at) {
        return ::send(fd, static_cast<const char*>(data) + at, n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    });
}

bool receive_all(int fd, void* data, std::size_t n, double until) {
    return move_all(fd, n, POLLIN, until, [&](std::size_t at) {
        return ::recv(fd, static_cast<char*>(data) + at, n - at, MSG_DONTWAIT);
    });
}

/// Listens on all addresses of a family; an IPv6 socket takes IPv4's callers, too.
FileDescriptor listen_on(int family) {
    FileDescriptor fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int off = 0;
    struct sockaddr_storage any {};  // all zeros: any address, any port
    any.ss_family = static_cast<sa_family_t>(family);
    const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    const bool is_dual = family != AF_INET6 ||
                         ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0;
    if (fd.get() < 0 || !is_dual ||
        ::bind(fd.get(), reinterpret_cast<struct sockaddr*>(&any), size) != 0 ||
        ::listen(fd.get(), 1024) != 0)
        return FileDescriptor(-1);
    return fd;
}

Result<FileDescriptor> listen_somewhere(Address& address) {
    FileDescriptor fd = listen_on(AF_INET6);
    if (fd.get() < 0) fd = listen_on(AF_INET);
    struct sockaddr_storage name {};
    socklen_t size = sizeof name;
    if (fd.get() < 0 ||
        ::getsockname(fd.get(), reinterpret_cast<struct sockaddr*>(&name), &size) != 0)
        return socket_error("cannot listen for the other ranks");
    address.port =
        ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<struct sockaddr_in6*>(&name)->sin6_port
                                         : reinterpret_cast<struct sockaddr_in*>(&name)->sin_port);
    const std::string host = host_name();
    host.copy(address.host, host_bytes - 1);
    return fd;
}

/// "" when connected, else why not: by `until` at the latest.
std::string connect_by(int fd, const addrinfo& to, double until) {
    if (fd < 0) return std::strerror(errno);
    if (::connect(fd, to.ai_addr, to.ai_addrlen) == 0) return {};
    if (errno != EINPROGRESS && errno != EINTR) return std::strerror(errno);
    while (true) {
        struct pollfd wait {
            fd, POLLOUT, 0
        };
        const double left = until - monotonic_s();
        if (left <= 0) return "no answer in time";
        if (::poll(&wait, 1, static_cast<int>(left * 1000) + 1) <= 0) continue;
        int error = 0;
        socklen_t size = sizeof error;
        if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
        return error == 0 ? std::string() : std::strerror(error);
    }
}

/// Tries each of the host's addresses in turn; one that does not answer leaves time for the others.
Result<FileDescriptor> connect_to(const Address& address, double until) {
    const std::string host(address.host, ::strnlen(address.host, host_bytes));
    const std::string port = std::to_string(address.port), whole = printable(host, 64) + ":" + port;
    struct addrinfo hints {};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    struct addrinfo* list = nullptr;
    if (const int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &list); code != 0)
        return environment_error(std::string(::gai_strerror(code)) + ": the other ranks' host",
                                 whole);
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
    int left = 0;
    for (const addrinfo* a = list; a != nullptr; a = a->ai_next) ++left;
    std::string why = "no address";
    for (const addrinfo* a = list; a != nullptr; a = a->ai_next, --left) {
        FileDescriptor fd(
            ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol));
        const double now = monotonic_s();
        why = connect_by(fd.get(), *a, now + (until - now) / left);
        if (why.empty()) return fd;
    }
    return environment_error("cannot connect to another rank: " + why, whole);
}

/// Those who called and have not yet said who they are.
class Callers {
  public:
    explicit Callers(int listening) : listening_(listening) {}
    struct Caller {
        FileDescriptor fd;
        Hello hello;
        std::size_t heard = 0;
    };
    /// The next one that has said all; nothing when the time is over.
    std::optional<Caller> next(double until) {
        while (true) {
            const double left = until - monotonic_s();
            if (left <= 0) return {};
            std::vector<pollfd> waits{{listening_, POLLIN, 0}};
            for (const Caller& c : silent_) waits.push_back({c.fd.get(), POLLIN, 0});
            if (::poll(waits.data(), waits.size(), static_cast<int>(left * 1000) + 1) <= 0)
                continue;
            for (std::size_t i = waits.size() - 1; i-- > 0;) {
                if (waits[i + 1].revents == 0) continue;
                const bool is_there = hear(silent_[i]);
                if (is_there && silent_[i].heard < sizeof(Hello)) continue;
                Caller caller = std::move(silent_[i]);
                silent_.erase(silent_.begin() + static_cast<std::ptrdiff_t>(i));
                if (is_there) return caller;
            }
            if (waits[0].revents != 0) accept_one();
        }
    }

  private:
    /// False: the other end is gone.
    static bool hear(Caller& c) {
        const ssize_t n = ::recv(c.fd.get(), reinterpret_cast<char*>(&c.hello) + c.heard,
                                 sizeof(Hello) - c.heard, MSG_DONTWAIT);
        if (n > 0) c.heard += static_cast<std::size_t>(n);
        return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    }
    void accept_one() {
        FileDescriptor fd(::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC));
        const bool is_full = fd.get() < 0 && (errno == EMFILE || errno == ENFILE);
        if (fd.get() >= 0) silent_.push_back({std::move(fd), {}, 0});
        if (silent_.size() > max_silent || (is_full && !silent_.empty()))
            silent_.erase(silent_.begin());
        else if (is_full)
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }

    int listening_;
    std::vector<Caller> silent_;  ///< oldest first
};

void set_no_delay(int fd) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

std::string bytes_of(const Address& address) {
    return {reinterpret_cast<const char*>(&address), sizeof address};
}

Result<Address> read_address(const MeetingPlace& place) {
    const auto bytes = place.share([] { return std::string(); }, sizeof(Address));
    if (!bytes) return bytes.error();
    Address address;
    std::memcpy(&address, bytes->data(), sizeof address);
    return address;
}

/// One rank's way to all others that it has a connection with.
class Meeting {
  public:
    Meeting(const CommWorld& world, const PeerPlace& place, PeerSockets::Shape shape)
        : world_(world), place_(place), shape_(shape), until_(monotonic_s() + place.timeout_s) {}

    Status run(std::vector<FileDescriptor>& sockets) {
        const auto listening =
            listens() ? listen_somewhere(mine_) : Result<FileDescriptor>(FileDescriptor(-1));
        if (!listening) return listening.error();
        if (world_.rank == 0 && ::getrandom(mine_.secret, secret_bytes, 0) != secret_bytes)
            return socket_error("random numbers");
        const MeetingPlace own = file_of(world_.rank, true);
        if (listens())
            if (auto written = own.share([&] { return bytes_of(mine_); }, sizeof mine_); !written)
                return written.error();
        auto met = meet(listening->get(), sockets);
        if (listens()) own.leave();
        return met;
    }

  private:
    bool listens() const { return world_.rank == 0 || shape_ == PeerSockets::Shape::mesh; }
    /// Lower ranks are called, higher ones call.
    std::int64_t lower() const {
        return shape_ == PeerSockets::Shape::mesh ? world_.rank
                                                  : std::min<std::int64_t>(world_.rank, 1);
    }

    MeetingPlace file_of(std::int64_t rank, bool is_mine) const {
        const std::string suffix = rank == 0 ? "" : "." + std::to_string(rank);
        return {place_.path + suffix, is_mine, place_.timeout_s};
    }

    Status meet(int listening, std::vector<FileDescriptor>& sockets) {
        char secret[secret_bytes];
        std::memcpy(secret, mine_.secret, secret_bytes);
        for (std::int64_t rank = 0; rank < lower(); ++rank) {
            const auto address = read_address(file_of(rank, false));
            if (!address) return address.error();
            if (rank == 0) std::memcpy(secret, address->secret, secret_bytes);
            auto fd = connect_to(*address, until_);
            if (!fd) return fd.error();
            Hello hello;
            std::memcpy(hello.secret, secret, secret_bytes);
            hello.rank = static_cast<std::uint32_t>(world_.rank);
            if (!send_all(fd->get(), &hello, sizeof hello, until_)) return missing();
            set_no_delay(fd->get());
            sockets[static_cast<std::size_t>(rank)] = std::move(fd).value();
        }
        Callers callers(listening);
        const std::int64_t expected = listens() ? world_.ranks() - world_.rank - 1 : 0;
        for (std::int64_t met = 0; met < expected;) {
            auto met_one = answer(callers, secret, sockets);
            if (!met_one) return met_one.error();
            met += *met_one ? 1 : 0;
        }
        return Done{};
    }

    Error missing() const {
        return environment_error("not all ranks came within " + human_seconds(place_.timeout_s));
    }

    /// False: somebody who does not belong here called.
    Result<bool> answer(Callers& callers, const char* secret,
                        std::vector<FileDescriptor>& sockets) {
        auto caller = callers.next(until_);
        if (!caller) return missing();
        const auto rank = static_cast<std::int64_t>(caller->hello.rank);
        const bool knows = std::memcmp(caller->hello.secret, secret, secret_bytes) == 0;
        if (!knows || rank <= world_.rank || rank >= world_.ranks() ||
            sockets[static_cast<std::size_t>(rank)].get() >= 0)
            return false;
        set_no_delay(caller->fd.get());
        sockets[static_cast<std::size_t>(rank)] = std::move(caller->fd);
        return true;
    }

    const CommWorld& world_;
    const PeerPlace& place_;
    PeerSockets::Shape shape_;
    double until_;
    Address mine_;
};

constexpr char bye = 'x';

/// A star: rank 0 sees who is gone and tells the others by its own end.
class StarLifeline final : public Lifeline {
  public:
    StarLifeline(const CommWorld& world, std::unique_ptr<PeerSockets> sockets)
        : world_(world), sockets_(std::move(sockets)) {
        for (std::int64_t rank = 0; rank < world.ranks(); ++rank)
            if (sockets_->with(rank) >= 0) watched_.push_back(rank);
        if (::pipe2(end_, O_CLOEXEC) == 0) thread_ = std::thread([this] { watch(); });
    }
    ~StarLifeline() override {
        if (!thread_.joinable()) return;
        ::close(end_[1]);
        thread_.join();
        ::close(end_[0]);
    }
    std::string lost() const override {
        const std::lock_guard lock(mutex_);
        return lost_;
    }
    void leave() override {
        for (std::int64_t rank = 0; rank < world_.ranks(); ++rank)
            if (const int fd = sockets_->with(rank); fd >= 0) [[maybe_unused]]
                const auto n = ::send(fd, &bye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }

  private:
    void watch() {
        while (true) {
            std::vector<pollfd> waits{{end_[0], POLLIN, 0}};
            for (const std::int64_t rank : watched_)
                waits.push_back({sockets_->with(rank), POLLIN, 0});
            if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
            if (waits[0].revents != 0) return;
            for (std::size_t i = waits.size(); i-- > 1;)
                if (waits[i].revents != 0) hear(i - 1);
        }
    }
    /// Either its last word, or none.
    void hear(std::size_t at) {
        const std::int64_t rank = watched_[at];
        char word = 0;
        const ssize_t n = ::recv(sockets_->with(rank), &word, 1, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        watched_.erase(watched_.begin() + static_cast<std::ptrdiff_t>(at));
        if (n == 1 && word == bye) return;
        std::int64_t gone = rank;
        if (n == 1) receive_all(sockets_->with(rank), &gone, sizeof gone, monotonic_s() + 1);
        tell(gone);
    }
    void tell(std::int64_t gone) {
        {
            const std::lock_guard lock(mutex_);
            if (lost_.empty())
                lost_ = "rank " + std::to_string(gone) + " is gone: it ended before the run did";
        }
        for (const std::int64_t rank : watched_) {
            const char word = '!';
            const int fd = sockets_->with(rank);
            if (send_all(fd, &word, 1, monotonic_s() + 1))
                send_all(fd, &gone, sizeof gone, monotonic_s() + 1);
        }
    }

    CommWorld world_;
    std::unique_ptr<PeerSockets> sockets_;
    std::vector<std::int64_t> watched_;  ///< the thread's, once it runs
    mutable std::mutex mutex_;
    std::string lost_;
    int end_[2] = {-1, -1};
    std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<PeerSockets>> PeerSockets::join(const CommWorld& world,
                                                       const PeerPlace& place, Shape shape) {
    auto sockets = std::make_unique<PeerSockets>();
    for (std::int64_t i = 0; i < world.ranks(); ++i) sockets->sockets_.emplace_back(-1);
    if (auto met = Meeting(world, place, shape).run(sockets->sockets_); !met) return met.error();
    return sockets;
}

int PeerSockets::with(std::int64_t rank) const {
    return sockets_[static_cast<std::size_t>(rank)].get();
}

Result<std::unique_ptr<Lifeline>> Lifeline::join(const CommWorld& world, const PeerPlace& place) {
    auto sockets = PeerSockets::join(world, place, PeerSockets::Shape::star);
    if (!sockets) return sockets.error();
    return std::unique_ptr<Lifeline>(
        std::make_unique<StarLifeline>(world, std::move(sockets).value()));
}

}  // namespace arena
