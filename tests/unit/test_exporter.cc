// SPDX-License-Identifier: GPL-2.0-or-later
// `arena exporter`: how often it asks, what it says, and how it bears clients that are slow, many
// or hostile.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/file_descriptor.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/exporter/documents.h"
#include "cli/exporter/http_server.h"
#include "cli/exporter/metrics.h"
#include "cli/exporter/page.h"
#include "suite.h"

using namespace arena;
using namespace arena::cli;
using namespace std::chrono_literals;
using Clock = Documents::Clock;

namespace {

// ---- how often it asks -------------------------------------------------------------------------

/// Documents whose plug-in answers when the test lets it.
struct Plugin {
    std::atomic<int> asked{0};
    std::promise<void> gate;
    std::shared_future<void> open{gate.get_future()};
    bool closed = false;
    std::atomic<int> bells{0};

    Result<std::string> answer() {
        ++asked;
        if (closed) open.wait();
        return std::string("{}");
    }
    std::array<Documents::Ask, 2> both() {
        return {[this] { return answer(); }, [this] { return answer(); }};
    }
};

std::shared_ptr<const Document> wait_for(Documents& documents, DocumentKind kind,
                                         Clock::time_point now) {
    for (int i = 0; i < 10000; ++i) {
        if (auto document = documents.get(kind, now)) return document;
        std::this_thread::sleep_for(1ms);
    }
    return nullptr;
}

TEST(however_many_ask_the_plugin_is_asked_once) {
    Plugin plugin;
    Documents documents(plugin.both(), {{1h, 1h}, 1h}, [&] { ++plugin.bells; });
    ck_assert(wait_for(documents, DocumentKind::stats, Clock::now()) != nullptr);
    for (int i = 0; i < 1000; ++i) ck_assert(documents.get(DocumentKind::stats) != nullptr);
    ck_assert_int_eq(plugin.asked, 1);
    ck_assert_uint_eq(documents.counts().questions, 1);
    ck_assert(documents.get(DocumentKind::stats, Clock::now() + 2h) == nullptr);  // it is old then
}

TEST(who_waits_too_long_is_told_so) {
    Plugin plugin;
    plugin.closed = true;
    {
        Documents documents(plugin.both(), {{1h, 1h}, 4s}, [&] { ++plugin.bells; });
        const auto begin = Clock::now();
        ck_assert(documents.get(DocumentKind::live, begin) == nullptr);
        ck_assert(documents.get(DocumentKind::live, begin + 3s) == nullptr);
        const auto late = documents.get(DocumentKind::live, begin + 5s);
        ck_assert(late != nullptr && !late->problem.empty());
        plugin.gate.set_value();
        const auto came = wait_for(documents, DocumentKind::live, begin);
        ck_assert(came != nullptr && came->problem.empty());
    }
    ck_assert_int_eq(plugin.asked, 1);
}

// ---- what it says ------------------------------------------------------------------------------

const char* some_stats =
    R"({"rounds":7,"round_ms":{"last":12.5},"jobs":{"planned":3,"running":1,"waiting":2,"with_offers":1},
"decisions":{"starts":4},"promises":{"given":5,"kept":3,"broken":1},"slowdown":{"events":3,"of_links":1},
"pools":{"a\"b\\c\nd":{"gpus":8,"free":2,"down":1,"lent":4,"slow_nodes":1}},
"histograms":{"round_seconds":{"plan":{"bounds":[0.1,1],"counts":[2,1,1],"sum":5.5}},
"estimate_ratio":{"bounds":[1],"counts":[0,0],"sum":0}}})";

std::string metrics(const std::string& stats, MetricsFormat format = MetricsFormat::prometheus) {
    return metrics_text({.text = stats, .problem = {}}, {}, format);
}

bool has_line(const std::string& text, const std::string& line) {
    for (const std::string_view one : split(text, '\n'))
        if (one == line) return true;
    return false;
}

TEST(metrics_say_what_the_plugin_says) {
    const std::string text = metrics(some_stats);
    for (const char* line :
         {"slurm_arena_up 1", "slurm_arena_rounds_total 7",
          "# TYPE slurm_arena_rounds_total counter", "slurm_arena_last_round_seconds 0.0125",
          "slurm_arena_jobs_pending{grid_known=\"true\"} 1",
          "slurm_arena_jobs_pending{grid_known=\"false\"} 1",
          "slurm_arena_decisions_total{kind=\"start\"} 4", "slurm_arena_promises_total 5",
          "slurm_arena_promises_kept 3", "slurm_arena_promises_broken_total 1",
          "slurm_arena_slowdowns_total{kind=\"compute\"} 2",
          "slurm_arena_round_seconds_bucket{phase=\"plan\",le=\"0.1\"} 2",
          "slurm_arena_round_seconds_bucket{phase=\"plan\",le=\"1\"} 3",
          "slurm_arena_round_seconds_bucket{phase=\"plan\",le=\"+Inf\"} 4",
          "slurm_arena_round_seconds_sum{phase=\"plan\"} 5.5",
          "slurm_arena_round_seconds_count{phase=\"plan\"} 4", "slurm_arena_gpus_loaned 4",
          R"(slurm_arena_gpus{gpu_type="a\"b\\c\nd",state="busy"} 5)"})
        ck_assert_msg(has_line(text, line), "%s\n%s", line, text.c_str());
}

TEST(openmetrics_declares_counters_without_total_and_has_an_end) {
    const std::string text = metrics(some_stats, MetricsFormat::openmetrics);
    ck_assert(has_line(text, "# TYPE slurm_arena_rounds counter"));
    ck_assert(has_line(text, "slurm_arena_rounds_total 7"));
    ck_assert(text.ends_with("# EOF\n"));
    ck_assert(format_for("text/plain") == MetricsFormat::prometheus);
    ck_assert(format_for("application/openmetrics-text;version=1.0.0;q=0.75,*/*;q=0.1") ==
              MetricsFormat::openmetrics);
}

TEST(without_an_answer_metrics_say_down) {
    for (const char* stats : {"", "[]", "{}", "{\"rounds\"", "\"text\""}) {
        const std::string text = metrics(stats);
        ck_assert_msg(has_line(text, "slurm_arena_up 0"), "%s", stats);
        ck_assert(text.find("slurm_arena_rounds_total") == std::string::npos);
    }
    const std::string odd = metrics(
        R"({"rounds":"many","pools":[1],"histograms":{"round_seconds":{"plan":{"bounds":"x"}},"estimate_ratio":3}})");
    ck_assert(has_line(odd, "slurm_arena_up 1"));
}

TEST(the_page_runs_nothing_but_its_own_script) {
    const LivePage page = live_page();
    ck_assert(page.html.find("@SCRIPT@") == std::string::npos);
    ck_assert(page.html.find("look();") != std::string::npos);
    for (const char* foreign : {"http://", "https://", "//cdn", "innerHTML", "outerHTML",
                                "insertAdjacentHTML", "document.write", "eval("})
        ck_assert_msg(page.html.find(foreign) == std::string::npos, "%s", foreign);
    ck_assert(
        page.policy.starts_with("default-src 'none'; connect-src 'self'; script-src 'sha256-"));
    ck_assert(page.policy.find("unsafe") == std::string::npos);
}

TEST(users_have_names) {
    UserNames names;
    const auto text = with_user_names(
        R"({"pools":[],"waiting":[{"job":1,"uid":0}],"running":[{"job":2,"uid":4000000000}]})",
        names);
    ck_assert(text.ok());
    const Json json = Json::parse(*text);
    ck_assert(json["waiting"][0]["user"] == "root");
    ck_assert(!json["running"][0].contains("user"));
    for (const char* none : {"", "{}", "[]", R"({"pools":[],"waiting":[]})",
                             R"({"pools":[],"waiting":[1],"running":[]})",
                             R"({"pools":[],"waiting":[{"uid":"x"}],"running":[]})"})
        ck_assert_msg(!with_user_names(none, names).ok(), "%s", none);
}

// ---- where it listens --------------------------------------------------------------------------

TEST(addresses_are_numbers_with_a_port) {
    ck_assert(*read_listen_address("127.0.0.1:9820") == (ListenAddress{"127.0.0.1", 9820}));
    ck_assert(*read_listen_address("[::1]:0") == (ListenAddress{"::1", 0}));
    ck_assert(*read_listen_address("localhost:1") == (ListenAddress{"127.0.0.1", 1}));
    for (const char* bad : {"", ":", "9820", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:80",
                            "[127.0.0.1]:1", "example.org:80", "127.0.0.1:-1", "[::1]"}) {
        const auto refused = read_listen_address(bad);
        ck_assert_msg(!refused.ok(), "%s", bad);
        ck_assert(refused.error().code == ErrorCode::usage);
    }
    ck_assert(is_loopback({"127.0.0.2", 1}) && is_loopback({"::1", 1}));
    ck_assert(!is_loopback({"0.0.0.0", 1}) && !is_loopback({"::", 1}));
}

TEST(names_that_point_here_from_elsewhere_are_not_served) {
    for (const char* good : {"", "localhost", "LOCALHOST:9820", "127.0.0.1:9820", "[::1]:9820",
                             "head", "head.example.org:80"})
        ck_assert_msg(is_local_host(good, "head.example.org"), "%s", good);
    for (const char* bad :
         {"evil.example", "evil.example:9820", "127.0.0.1.evil.example", "10.0.0.1",
          "localhost.evil.example", "[fe80::1]:1", "[", "[]", ":80", "hea"})
        ck_assert_msg(!is_local_host(bad, "head.example.org"), "%s", bad);
}

TEST(an_address_in_use_is_a_sentence) {
    const auto first = open_listener({"127.0.0.1", 0});
    ck_assert(first.ok());
    const auto second = open_listener(first->address);
    ck_assert(!second.ok() && second.error().code == ErrorCode::environment);
    ck_assert(second.error().message().find("in use") != std::string::npos);
}

// ---- its clients -------------------------------------------------------------------------------

std::string not_built() {
    return HttpServer::is_built() ? "" : "libmicrohttpd was not here when this was built";
}

/// A server in a thread, whose handler answers or says "not yet".
class Served {
  public:
    explicit Served(const HttpLimits& limits = {}) {
        auto listener = open_listener({"127.0.0.1", 0});
        ck_assert(listener.ok());
        port_ = listener->address.port;
        auto server = HttpServer::open(
            std::move(*listener), [this](const HttpRequest& request) { return answer(request); },
            limits);
        ck_assert_msg(server.ok(), "%s", server.ok() ? "" : server.error().message().c_str());
        server_ = std::move(*server);
        thread_ = std::thread([this] {
            while (!stop_) {
                pollfd fd{server_->fd(), POLLIN, 0};
                ::poll(&fd, 1, std::min(server_->timeout_ms(), 20));
                server_->run();
            }
        });
    }
    ~Served() {
        stop_ = true;
        thread_.join();
    }
    [[nodiscard]] FileDescriptor connect() const {
        FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port_);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ck_assert_int_eq(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
        return fd;
    }
    std::atomic<bool> ready{true};
    std::atomic<int> asked{0};

  private:
    std::optional<HttpReply> answer(const HttpRequest& request) {
        ++asked;
        if (!ready) return std::nullopt;
        return HttpReply{.type = "text/plain", .body = "path " + std::string(request.path)};
    }
    std::uint16_t port_ = 0;
    std::unique_ptr<HttpServer> server_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

/// All that comes until the server hangs up; at most `limit`.
std::string drain(const FileDescriptor& fd, std::chrono::seconds limit = 30s) {
    std::string text;
    char buffer[4096];
    const auto end = Clock::now() + limit;
    while (wait_for_input(fd.get(), end)) {
        const ssize_t n = ::recv(fd.get(), buffer, sizeof buffer, 0);
        if (n <= 0) return text;
        text.append(buffer, static_cast<std::size_t>(n));
    }
    return text + "<did not end>";
}

std::string say(const Served& served, const std::string& words) {
    const FileDescriptor fd = served.connect();
    ck_assert_int_ge(::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL), 0);
    return drain(fd);
}

TEST_NEEDING(a_request_is_answered_and_the_connection_ends, not_built()) {
    const Served served;
    const std::string text = say(served, "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ck_assert_msg(text.starts_with("HTTP/1.1 200 OK"), "%s", text.c_str());
    ck_assert(text.ends_with("\r\n\r\npath /x"));
    ck_assert(text.find("nosniff") != std::string::npos);
    const std::string head = say(served, "HEAD /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ck_assert(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"));
}

TEST_NEEDING(what_is_no_such_request_is_refused, not_built()) {
    const Served served;
    const auto status = [&](const std::string& words) {
        const std::string text = say(served, words);
        return text.size() > 12 ? text.substr(9, 3) : "none: " + text;
    };
    ck_assert_str_eq(status("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n").c_str(),
                     "405");
    ck_assert_str_eq(status("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").c_str(),
                     "413");
    ck_assert_str_eq(status("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
                            "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
                         .c_str(),
                     "413");
    ck_assert_str_eq(status("GET / HTTP/1.1\r\nX: " + std::string(40000, 'x') + "\r\n\r\n").c_str(),
                     "431");
    ck_assert_str_eq(status("GET /" + std::string(40000, 'x') + " HTTP/1.1\r\n\r\n").c_str(),
                     "414");
    (void)say(served, std::string("\0\0\xff\xfe\r\n\r\n", 8));
    ck_assert_str_eq(status("GET / HTTP/1.1\r\nHost: a\r\n\r\n").c_str(), "200");  // it lives
}

TEST_NEEDING(who_waits_for_an_answer_gets_it_when_it_is_there, not_built()) {
    Served served;
    served.ready = false;
    const FileDescriptor fd = served.connect();
    const std::string words = "GET /late HTTP/1.1\r\nHost: a\r\n\r\n";
    ck_assert_int_ge(::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL), 0);
    while (served.asked < 3) std::this_thread::sleep_for(1ms);
    served.ready = true;
    ck_assert(drain(fd).ends_with("path /late"));
}

TEST_NEEDING(a_slow_client_is_hung_up_on_and_others_are_served, not_built()) {
    const Served served({.whole = 300ms});
    const FileDescriptor slow = served.connect();
    const std::string begin = "GET / HTTP/1.1\r\nX: ";
    ck_assert_int_ge(::send(slow.get(), begin.data(), begin.size(), MSG_NOSIGNAL), 0);
    std::atomic<bool> over{false};
    std::thread drip([&] {  // a byte now and then puts off a time-out of silence
        while (!over && ::send(slow.get(), "x", 1, MSG_NOSIGNAL) == 1)
            std::this_thread::sleep_for(20ms);
    });
    ck_assert(say(served, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("path /"));
    const std::string end = drain(slow);
    over = true;
    drip.join();
    ck_assert_msg(end.find("<did not end>") == std::string::npos, "%s", end.c_str());
}

TEST_NEEDING(many_silent_clients_keep_nobody_out, not_built()) {
    const Served served({.connections = 24, .silent = 8, .whole = 1h});
    std::vector<FileDescriptor> silent;
    for (int i = 0; i < 100; ++i) silent.push_back(served.connect());
    ck_assert(say(served, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("path /"));
    ck_assert(drain(silent.front()).empty());  // the oldest was hung up on
}

TEST_NEEDING(it_ends_while_clients_wait, not_built()) {
    auto served = std::make_unique<Served>();
    served->ready = false;
    const FileDescriptor fd = served->connect();
    const std::string words = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    ck_assert_int_ge(::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL), 0);
    while (served->asked < 1) std::this_thread::sleep_for(1ms);
    served.reset();
    ck_assert(drain(fd).find("<did not end>") == std::string::npos);
}

}  // namespace
