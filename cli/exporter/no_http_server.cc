// SPDX-License-Identifier: GPL-2.0-or-later
// In place of http_server.cc where libmicrohttpd is not here.
#include "cli/exporter/http_server.h"

namespace arena::cli {

bool HttpServer::is_built() { return false; }

Result<std::unique_ptr<HttpServer>> HttpServer::open(Listener, HttpHandler, const HttpLimits&) {
    return environment_error(
        "this arena was built without libmicrohttpd (Debian: libmicrohttpd-dev), and serves no "
        "HTTP; arena exporter --once prints the metrics");
}

}  // namespace arena::cli
