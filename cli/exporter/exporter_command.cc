// SPDX-License-Identifier: GPL-2.0-or-later
// `arena exporter`: metrics and the live page over HTTP, from the scheduler plug-in's socket; no
// call of Slurm. Whoever reaches it sees what squeue shows to everybody, and nothing can be changed
// through it.
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <memory>
#include <string>

#include "base/json.h"
#include "base/signals.h"
#include "cli/common/ask.h"
#include "cli/exporter/commands.h"
#include "cli/exporter/http_server.h"
#include "cli/exporter/metrics.h"
#include "cli/exporter/page.h"

namespace arena::cli {
namespace {

constexpr auto ask_limit = std::chrono::seconds(5);

struct ExporterOptions {
    std::string listen = "127.0.0.1:9820";
    bool once = false;
    std::string format = "prometheus";
};

std::string machine_name() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

/// What is served, and from what.
class Exporter {
  public:
    Exporter(const std::string& socket, const ListenAddress& address,
             std::function<void()> on_answer)
        : documents_({[socket] { return ask_socket(socket, "stats", ask_limit); },
                      [this, socket]() -> Result<std::string> {
                          Result<std::string> answer = ask_socket(socket, "live", ask_limit);
                          return answer ? with_user_names(*answer, names_) : answer;
                      }},
                     {}, std::move(on_answer)),
          page_(live_page()),
          local_(is_loopback(address)),
          machine_(machine_name()) {}

    std::optional<HttpReply> answer(const HttpRequest& request) {
        std::optional<HttpReply> reply = answer_path(request);
        if (reply) ++requests_;
        return reply;
    }

  private:
    std::optional<HttpReply> answer_path(const HttpRequest& request) {
        if (local_ && !is_local_host(request.host, machine_))
            return text(421,
                        "this server is on loopback, and answers to localhost, loopback "
                        "addresses and the machine's name only");
        if (request.path == "/") return page();
        if (request.path == "/live.json") return live();
        if (request.path == "/metrics") return metrics(request.accept);
        return text(404, "there are /, /live.json and /metrics");
    }

    static HttpReply text(unsigned status, std::string words) {
        return {.status = status, .type = "text/plain; charset=utf-8", .body = words + "\n"};
    }

    [[nodiscard]] HttpReply page() const {
        return {.type = "text/html; charset=utf-8",
                .body = page_.html,
                .headers = {{"Content-Security-Policy", page_.policy},
                            {"Referrer-Policy", "no-referrer"}}};
    }

    std::optional<HttpReply> live() {
        const auto document = documents_.get(DocumentKind::live);
        if (!document) return std::nullopt;
        HttpReply reply{.type = "application/json", .body = document->text};
        if (document->problem.empty()) return reply;
        reply.status = 503;
        reply.body =
            dump_json(
                {{"schema_version", 1},
                 {"error",
                  {{"code", exit_code(ErrorCode::environment)}, {"text", document->problem}}}}) +
            "\n";
        return reply;
    }

    std::optional<HttpReply> metrics(std::string_view accept) {
        const auto document = documents_.get(DocumentKind::stats);
        if (!document) return std::nullopt;
        const MetricsFormat format = format_for(accept);
        return HttpReply{
            .type = Exposition::content_type(format),
            .body = metrics_text(*document, {documents_.counts(), requests_ + 1}, format)};
    }

    UserNames names_;
    Documents documents_;
    LivePage page_;
    bool local_;
    std::string machine_;
    std::uint64_t requests_ = 0;
};

/// Serves until a signal comes.
void serve(HttpServer& server, int bell, int signals) {
    for (;;) {
        pollfd fds[] = {{server.fd(), POLLIN, 0}, {bell, POLLIN, 0}, {signals, POLLIN, 0}};
        (void)::poll(fds, std::size(fds), server.timeout_ms());
        signalfd_siginfo which{};
        if (::read(signals, &which, sizeof which) > 0) return;
        std::uint64_t count = 0;
        [[maybe_unused]] const auto got = ::read(bell, &count, sizeof count);
        server.run();
    }
}

int listen_and_serve(const Globals& globals, const std::string& socket, const std::string& where) {
    const auto wanted = read_listen_address(where);
    if (!wanted) return fail(globals, wanted.error());
    Result<Listener> listener = open_listener(*wanted);
    if (!listener) return fail(globals, listener.error());
    const ListenAddress address = listener->address;

    const BlockedSignals blocked{SIGTERM, SIGINT, SIGHUP};
    sigset_t ends;
    sigemptyset(&ends);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, number);
    const FileDescriptor signals(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
    const FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (signals.get() < 0 || bell.get() < 0)
        return fail(globals, environment_error("no file descriptor is left", "exporter"));
    Exporter exporter(socket, address, [&bell] {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto sent = ::write(bell.get(), &one, sizeof one);
    });
    auto server = HttpServer::open(std::move(*listener), [&exporter](const HttpRequest& request) {
        return exporter.answer(request);
    });
    if (!server) return fail(globals, server.error());
    if (!is_loopback(address))
        warn(
            {fmt::format("exporter: {} is not loopback: whoever reaches it sees what squeue shows "
                         "to everybody, without a password",
                         to_string(address))});
    fmt::print("arena exporter: http://{}/\n", to_string(address));
    std::fflush(stdout);
    serve(**server, bell.get(), signals.get());
    return exit_yes;
}

int print_once(const Globals& globals, const std::string& socket, MetricsFormat format) {
    const auto begin = Documents::Clock::now();
    const Result<std::string> answer = ask_socket(socket, "stats", ask_limit);
    const std::chrono::duration<double> took = Documents::Clock::now() - begin;
    const Document document{.text = answer ? *answer : std::string(),
                            .problem = answer ? std::string() : answer.error().message(),
                            .took_s = took.count()};
    fmt::print("{}", metrics_text(document, {{1, answer ? 0U : 1U}, 0}, format));
    if (!answer) return fail(globals, answer.error());
    return exit_yes;
}

int run_exporter(const Globals& globals, const ExporterOptions& options) {
    const Result<Config> config = load_site_config(globals);
    if (!config) return fail(globals, config.error());
    if (options.once)
        return print_once(globals, config->socket,
                          options.format == "openmetrics" ? MetricsFormat::openmetrics
                                                          : MetricsFormat::prometheus);
    return listen_and_serve(globals, config->socket, options.listen);
}

}  // namespace

void add_exporter(CLI::App& app, Globals& globals) {
    CLI::App* command = app.add_subcommand(
        "exporter", "serve metrics and a live page over HTTP, on the controller");
    const auto o = std::make_shared<ExporterOptions>();
    CLI::Option* listen =
        command->add_option("--listen", o->listen, "ADDRESS:PORT")->capture_default_str();
    CLI::Option* once =
        command->add_flag("--once", o->once, "print the metrics, and end")->excludes(listen);
    command->add_option("--format", o->format, "of --once: prometheus or openmetrics")
        ->check(CLI::IsMember({"prometheus", "openmetrics"}))
        ->capture_default_str()
        ->needs(once);
    command->callback([&globals, o] { globals.status = run_exporter(globals, *o); });
}

}  // namespace arena::cli
