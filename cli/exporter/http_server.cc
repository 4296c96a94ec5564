// SPDX-License-Identifier: GPL-2.0-or-later
// See http_server.h.
#include "cli/exporter/http_server.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <sys/socket.h>

#include <algorithm>
#include <climits>
#include <list>
#include <tuple>

namespace arena::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// While somebody waits for an answer, or may become too slow.
constexpr int look_ms = 200;

struct Client {
    int fd = -1;
    Clock::time_point since;
    bool has_asked = false;  ///< its request is whole
    bool is_cut = false;     ///< and libmicrohttpd is about to see it
};

std::string_view header(MHD_Connection* connection, const char* name) {
    const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    return value != nullptr ? value : "";
}

MHD_Result queue(MHD_Connection* connection, const HttpReply& reply) {
    MHD_Response* response = MHD_create_response_from_buffer(
        reply.body.size(), const_cast<char*>(reply.body.data()), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;
    const auto add = [&](const char* name, const std::string& value) {
        (void)MHD_add_response_header(response, name, value.c_str());
    };
    add(MHD_HTTP_HEADER_CONTENT_TYPE, std::string(reply.type));
    add(MHD_HTTP_HEADER_CONNECTION, "close");
    add(MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    add("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : reply.headers) add(name, value);
    const MHD_Result queued = MHD_queue_response(connection, reply.status, response);
    MHD_destroy_response(response);
    return queued;
}

HttpReply refusal(unsigned status, std::string text) {
    return {.status = status, .type = "text/plain; charset=utf-8", .body = std::move(text) + "\n"};
}

class MicroServer : public HttpServer {
  public:
    MicroServer(HttpHandler handler, const HttpLimits& limits)
        : handler_(std::move(handler)), limits_(limits) {}
    ~MicroServer() override {
        if (daemon_ == nullptr) return;
        closing_ = true;
        resume_all();
        MHD_stop_daemon(daemon_);
    }
    MicroServer(const MicroServer&) = delete;
    MicroServer& operator=(const MicroServer&) = delete;

    bool start(Listener listener) {
        // Its own, which it closes.
        const int fd = ::fcntl(listener.fd.get(), F_DUPFD_CLOEXEC, 0);
        const MHD_AccessHandlerCallback callback = &MicroServer::on_request;
        daemon_ = MHD_start_daemon(
            MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, nullptr, nullptr, callback,
            this, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, limits_.connections,
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits_.request_bytes, MHD_OPTION_NOTIFY_CONNECTION,
            on_connection, this, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
        return daemon_ != nullptr;
    }

    [[nodiscard]] int fd() const override {
        const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
        return info != nullptr ? info->epoll_fd : -1;
    }

    [[nodiscard]] int timeout_ms() const override {
        const int own = clients_.empty() ? INT_MAX : look_ms;
        MHD_UNSIGNED_LONG_LONG theirs = 0;
        if (MHD_get_timeout(daemon_, &theirs) != MHD_YES) return own;
        return static_cast<int>(std::min<MHD_UNSIGNED_LONG_LONG>(theirs, INT_MAX) <
                                        static_cast<MHD_UNSIGNED_LONG_LONG>(own)
                                    ? theirs
                                    : static_cast<MHD_UNSIGNED_LONG_LONG>(own));
    }

    void run() override {
        resume_all();
        cut_slow_ones();
        (void)MHD_run(daemon_);
    }

  private:
    /// rest: version, bytes that came, how many they are, and what is remembered of the request.
    template <typename... Rest>
    static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url,
                                 const char* method, Rest... rest) noexcept {
        const auto last = std::tie(rest...);
        try {
            return static_cast<MicroServer*>(self)->request(
                connection, url, method, std::get<std::size_t*&>(last), std::get<void**&>(last));
        } catch (const std::exception&) {
            return MHD_NO;  // out of memory: this one is hung up on
        }
    }

    static void on_connection(void* self, MHD_Connection* connection, void** client,
                              MHD_ConnectionNotificationCode what) noexcept {
        try {
            auto& server = *static_cast<MicroServer*>(self);
            if (what == MHD_CONNECTION_NOTIFY_STARTED)
                *client = server.add(connection);
            else
                server.remove(static_cast<Client*>(*client));
        } catch (const std::exception&) {
            *client = nullptr;
        }
    }

    Client* add(MHD_Connection* connection) {
        const MHD_ConnectionInfo* info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        clients_.push_back({.fd = info != nullptr ? info->connect_fd : -1, .since = Clock::now()});
        make_room();
        return &clients_.back();
    }

    void remove(const Client* gone) {
        std::erase_if(clients_, [gone](const Client& client) { return &client == gone; });
    }

    /// Ends it for libmicrohttpd to see, whose own time-out a byte now and then puts off.
    static void cut(Client& client) {
        client.is_cut = true;
        ::shutdown(client.fd, SHUT_RDWR);
    }

    void make_room() {
        const auto is_silent = [](const Client& c) { return !c.has_asked && !c.is_cut; };
        const auto silent = std::count_if(clients_.begin(), clients_.end(), is_silent);
        if (silent <= static_cast<std::ptrdiff_t>(limits_.silent)) return;
        cut(*std::find_if(clients_.begin(), clients_.end(), is_silent));
    }

    void cut_slow_ones() {
        const auto now = Clock::now();
        for (Client& client : clients_)
            if (!client.is_cut && now - client.since > limits_.whole) cut(client);
    }

    void resume_all() {
        for (MHD_Connection* connection : std::exchange(suspended_, {}))
            MHD_resume_connection(connection);
    }

    /// Called when the headers are there, and again when the request is whole, or is resumed.
    MHD_Result request(MHD_Connection* connection, const char* url, std::string_view method,
                       std::size_t* upload_bytes, void** state) {
        if (*state == nullptr) {
            *state = this;
            if (method != "GET" && method != "HEAD") {
                HttpReply no = refusal(405, "only GET and HEAD are served here");
                no.headers.emplace_back("Allow", "GET, HEAD");
                return queue(connection, no);
            }
            const std::string_view length = header(connection, "Content-Length");
            if ((!length.empty() && length != "0") ||
                !header(connection, "Transfer-Encoding").empty())
                return queue(connection, refusal(413, "a request here has no body"));
            return MHD_YES;
        }
        if (*upload_bytes != 0) return MHD_NO;
        if (closing_) return MHD_NO;
        if (const MHD_ConnectionInfo* info =
                MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
            info != nullptr && info->socket_context != nullptr)
            static_cast<Client*>(info->socket_context)->has_asked = true;
        const auto reply = handler_({.path = url,
                                     .accept = header(connection, "Accept"),
                                     .host = header(connection, "Host")});
        if (reply) return queue(connection, *reply);
        MHD_suspend_connection(connection);
        suspended_.push_back(connection);
        return MHD_YES;
    }

    HttpHandler handler_;
    HttpLimits limits_;
    MHD_Daemon* daemon_ = nullptr;
    std::list<Client> clients_;  ///< the oldest first
    std::vector<MHD_Connection*> suspended_;
    bool closing_ = false;
};

}  // namespace

bool HttpServer::is_built() { return true; }

Result<std::unique_ptr<HttpServer>> HttpServer::open(Listener listener, HttpHandler handler,
                                                     const HttpLimits& limits) {
    auto server = std::make_unique<MicroServer>(std::move(handler), limits);
    const std::string address = to_string(listener.address);
    if (!server->start(std::move(listener)))
        return environment_error("libmicrohttpd cannot serve there", address);
    return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace arena::cli
