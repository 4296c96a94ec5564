// SPDX-License-Identifier: GPL-2.0-or-later
// See socket_server.h.
#include "plugin/sched/socket/socket_server.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "plugin/sched/socket/socket_clients.h"

namespace arena {
namespace {

using Clock = SocketClients::Clock;

/// Without file descriptors left, the listener stays readable: it is asked again after this.
constexpr int pause_ms = 100;
constexpr int accepts_per_turn = 64;

Status failed(const std::string& path, const char* doing) {
    return environment_error(std::string(doing) + ": " + std::strerror(errno), path);
}

void ring(const FileDescriptor& bell) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto sent = ::write(bell.get(), &one, sizeof one);
}

void hush(const FileDescriptor& bell) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(bell.get(), &count, sizeof count);
}

FileDescriptor make_bell() { return FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

}  // namespace

/// Where the socket's thread and the answering threads meet: lines one way, answers the other.
class SocketDesk {
  public:
    SocketDesk() : asked_(make_bell()), answered_(make_bell()) {}
    [[nodiscard]] bool ok() const { return asked_.get() >= 0 && answered_.get() >= 0; }
    [[nodiscard]] const FileDescriptor& asked() const { return asked_; }
    [[nodiscard]] const FileDescriptor& answered() const { return answered_; }

    void put(const std::vector<SocketClients::Heard>& heard);
    std::vector<SocketClients::Heard> take();
    void answer(std::uint64_t client, std::string text);
    std::vector<std::pair<std::uint64_t, std::string>> take_answers();
    void forget(const std::vector<std::uint64_t>& gone);
    [[nodiscard]] bool waits(std::uint64_t client);
    void stop();
    [[nodiscard]] bool stopped();

  private:
    FileDescriptor asked_, answered_;
    std::mutex mutex_;
    bool stopped_ = false;
    std::map<std::uint64_t, bool> waiting_;  ///< true: its question is still in `lines_`
    std::vector<SocketClients::Heard> lines_;
    std::vector<std::pair<std::uint64_t, std::string>> answers_;
};

void SocketDesk::put(const std::vector<SocketClients::Heard>& heard) {
    if (heard.empty()) return;
    const std::lock_guard lock(mutex_);
    for (const auto& line : heard) {
        waiting_[line.client] = true;
        lines_.push_back(line);
    }
    ring(asked_);
}

std::vector<SocketClients::Heard> SocketDesk::take() {
    const std::lock_guard lock(mutex_);
    hush(asked_);
    for (const auto& line : lines_) waiting_[line.client] = false;
    return std::exchange(lines_, {});
}

void SocketDesk::answer(std::uint64_t client, std::string text) {
    const std::lock_guard lock(mutex_);
    if (waiting_.erase(client) == 0 || stopped_) return;
    answers_.emplace_back(client, std::move(text));
    ring(answered_);
}

std::vector<std::pair<std::uint64_t, std::string>> SocketDesk::take_answers() {
    const std::lock_guard lock(mutex_);
    hush(answered_);
    return std::exchange(answers_, {});
}

/// A client that hangs up takes its question with it: who asks and leaves in a loop fills no queue.
void SocketDesk::forget(const std::vector<std::uint64_t>& gone) {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t client : gone) {
        const auto it = waiting_.find(client);
        if (it == waiting_.end()) continue;
        if (it->second)
            std::erase_if(lines_, [&](const auto& line) { return line.client == client; });
        waiting_.erase(it);
    }
}

bool SocketDesk::waits(std::uint64_t client) {
    const std::lock_guard lock(mutex_);
    return !stopped_ && waiting_.contains(client);
}

void SocketDesk::stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    ring(answered_);
}

bool SocketDesk::stopped() {
    const std::lock_guard lock(mutex_);
    return stopped_;
}

Reply::Reply(std::shared_ptr<SocketDesk> desk, std::uint64_t client)
    : desk_(std::move(desk)), client_(client) {}

Reply& Reply::operator=(Reply&& other) noexcept {
    std::swap(desk_, other.desk_);
    std::swap(client_, other.client_);
    return *this;
}

Reply::~Reply() { send({}); }

void Reply::send(std::string text) {
    if (const auto desk = std::exchange(desk_, nullptr)) desk->answer(client_, std::move(text));
}

bool Reply::wanted() const { return desk_ && desk_->waits(client_); }

namespace {

/// False: no descriptor is left for another client.
bool accept_some(int listener, SocketClients& clients) {
    for (int i = 0; i < accepts_per_turn; ++i) {
        FileDescriptor client(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (client.get() < 0) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            return errno == EAGAIN || errno == EWOULDBLOCK;
        }
        ucred peer{};
        socklen_t size = sizeof peer;
        if (::getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
            clients.add(std::move(client), peer.uid, Clock::now());
    }
    return true;
}

/// One look at all descriptors; true when the listener is to be asked at once.
bool turn(SocketDesk& desk, int listener, bool listening, SocketClients& clients) {
    std::vector<pollfd> polls = clients.polls();
    const std::size_t count = polls.size();
    polls.push_back({desk.answered().get(), POLLIN, 0});
    if (listening) polls.push_back({listener, POLLIN, 0});
    const int timeout_ms = clients.timeout_ms(Clock::now());
    const auto limit = static_cast<unsigned>(listening ? -1 : pause_ms);
    if (::poll(polls.data(), polls.size(),
               static_cast<int>(std::min(static_cast<unsigned>(timeout_ms), limit))) < 0)
        return listening;
    const bool callers = listening && polls.back().revents != 0;
    polls.resize(count);
    const auto heard = clients.advance(polls);
    desk.forget(clients.take_gone());
    desk.put(heard);
    for (auto& [client, text] : desk.take_answers())
        clients.answer(client, std::move(text), Clock::now());
    clients.expire(Clock::now());
    return !callers || accept_some(listener, clients);
}

void speak(const std::shared_ptr<SocketDesk>& desk, int listener,
           const SocketLimits& limits) noexcept {
    SocketClients clients(limits);
    bool listening = true;
    while (!desk->stopped()) {
        try {
            listening = turn(*desk, listener, listening, clients);
        } catch (const std::exception&) {
            clients.clear();  // out of memory: every client may ask again
            listening = false;
        }
    }
}

/// A thread that takes none of the process's signals.
std::thread quiet_thread(auto body) {
    struct Blocked {
        Blocked() {
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_SETMASK, &all, &before);
        }
        ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
        sigset_t before;
    } const blocked;
    return std::thread(std::move(body));
}

}  // namespace

Status SocketServer::open(const std::string& path, const SocketLimits& limits) {
    close();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return usage_error("socket path is longer than 107 bytes", path);
    std::strcpy(address.sun_path, path.c_str());
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) ::unlink(path.c_str());
    FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd.get() < 0) return failed(path, "socket");
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::chmod(path.c_str(), 0666) != 0 || ::listen(fd.get(), 64) != 0)
        return failed(path, "cannot listen");
    auto desk = std::make_shared<SocketDesk>();
    if (!desk->ok()) return failed(path, "eventfd");
    thread_ = quiet_thread([desk, listener = fd.get(), limits] { speak(desk, listener, limits); });
    listener_ = std::move(fd);
    desk_ = std::move(desk);
    path_ = path;
    return Done{};
}

void SocketServer::close() {
    if (!desk_) return;
    desk_->stop();
    thread_.join();
    desk_.reset();
    listener_.reset();
    ::unlink(path_.c_str());
}

int SocketServer::fd() const { return desk_ ? desk_->asked().get() : -1; }

std::vector<Question> SocketServer::take() {
    std::vector<Question> questions;
    if (!desk_) return questions;
    for (SocketClients::Heard& heard : desk_->take())
        questions.push_back({std::move(heard.line), heard.uid, Reply(desk_, heard.client)});
    return questions;
}

}  // namespace arena
