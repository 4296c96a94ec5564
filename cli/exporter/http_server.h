// SPDX-License-Identifier: GPL-2.0-or-later
// HTTP for `arena exporter`, by libmicrohttpd: GET and HEAD of a few paths, one request per
// connection, in one thread. Every connection ends within a time, however slowly its client sends
// or reads; where there are too many, the oldest that has said nothing whole goes. TLS and
// passwords are a proxy's.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/exporter/listen.h"

namespace arena::cli {

struct HttpRequest {
    std::string_view path, accept, host;
};

struct HttpReply {
    unsigned status = 200;
    std::string_view type;  ///< a literal
    std::string body;
    std::vector<std::pair<const char*, std::string>> headers = {};
};

/// Nothing: what is needed for the answer is not there yet; it is asked again.
using HttpHandler = std::function<std::optional<HttpReply>(const HttpRequest&)>;

struct HttpLimits {
    unsigned connections = 128;
    /// So many connections that have not sent a whole request: the oldest of them goes.
    unsigned silent = 96;
    std::size_t request_bytes = 16384;  ///< of a request line with its headers
    std::chrono::milliseconds whole = std::chrono::seconds(20);  ///< of one connection
};

class HttpServer {
  public:
    /// False where slurm-arena was built without libmicrohttpd: open() says so.
    static bool is_built();
    static Result<std::unique_ptr<HttpServer>> open(Listener listener, HttpHandler handler,
                                                    const HttpLimits& limits = {});
    virtual ~HttpServer() = default;
    /// Becomes readable when run() has something to do.
    [[nodiscard]] virtual int fd() const = 0;
    /// How long at most until run() is due, whatever fd() says; INT_MAX: for ever.
    [[nodiscard]] virtual int timeout_ms() const = 0;
    /// Does what there is to do, without waiting; those that wait for an answer are asked again.
    virtual void run() = 0;
};

}  // namespace arena::cli
