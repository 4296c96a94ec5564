// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/agent/agent_loop.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <limits>

#include "base/file_descriptor.h"
#include "base/text.h"
#include "watch/ring/process.h"

namespace arena::watch {
namespace {

constexpr double stays_s = 5, longest_wait_s = 1;
constexpr std::size_t most_lines = 1000;

std::string value(GetVariable get, const char* name) {
    const char* text = get(name);
    return text == nullptr ? "" : text;
}

template <typename T>
T number(GetVariable get, const char* name) {
    return static_cast<T>(
        parse_integer(value(get, name), 0, std::numeric_limits<T>::max()).value_or(0));
}

std::uint64_t clock_ns(clockid_t clock) {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(t.tv_nsec);
}

Clocks read_clocks() {
    return {.steady_s = static_cast<double>(clock_ns(CLOCK_MONOTONIC)) * 1e-9,
            .raw_ns = clock_ns(CLOCK_MONOTONIC_RAW),
            .epoch_ns = clock_ns(CLOCK_REALTIME)};
}

std::string stamp() {
    const time_t now = ::time(nullptr);
    tm parts{};
    ::localtime_r(&now, &parts);
    char text[32];
    return {text, ::strftime(text, sizeof text, "%FT%T", &parts)};
}

/// Signals that Slurm sends to all of a step are for the ranks: a checkpoint takes its time.
void leave_signals_to_ranks() {
    for (const int signal :
         {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGALRM})
        ::signal(signal, SIG_IGN);
}

/// A chief has a connection from each node.
void allow_many_files() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

class Loop {
  public:
    Loop(const AgentPlace& place, ChiefHost* host)
        : place_(place),
          host_(host),
          rings_(place.filter, place.keep_names),
          agent_(place.node, place.poll_s),
          link_(place.key, place.meeting.run, resolve_hosts(place.meeting.hosts)),
          task_began_(place.task > 0 ? process_started(static_cast<std::uint32_t>(place.task))
                                     : 0) {}
    void run();

  private:
    void serve_link(const Clocks& now);
    void read_rings(const Clocks& now);
    void report(const Clocks& now);
    void wait(double now_s) const;
    [[nodiscard]] bool is_over(double now_s);
    void write_lines();

    const AgentPlace& place_;
    ChiefHost* host_;
    NodeRings rings_;
    Agent agent_;
    Link link_;
    std::uint64_t task_began_;
    double read_at_s_ = 0, report_at_s_ = 0, busy_s_ = -1;
    bool was_up_ = false;
    std::vector<std::string> lines_;
    std::size_t written_ = 0;
};

void Loop::serve_link(const Clocks& now) {
    for (const LinkEvent& event : link_.serve(now.steady_s)) {
        if (event.what == LinkEvent::What::up) {
            agent_.connected();
            report_at_s_ = now.steady_s;
            if (was_up_) lines_.emplace_back("the chief is there again");
            was_up_ = true;
        } else if (event.what == LinkEvent::What::down) {
            // At the end of a step all go.
            if (!rings_.empty())
                lines_.emplace_back("the chief is gone: training goes on, and is not watched");
        } else {
            agent_.on(event.frame, now.steady_s);
        }
    }
}

void Loop::read_rings(const Clocks& now) {
    if (now.steady_s < read_at_s_) return;
    for (RingNews& news : rings_.read(now.steady_s)) agent_.take(std::move(news), now);
    rings_.set_control(agent_.control(now));
    const std::uint64_t capacity = rings_.capacity();
    read_at_s_ =
        now.steady_s + agent_.read_within_s(capacity == 0 ? usual_records : capacity, now.steady_s);
}

/// What nobody hears yet waits, in a bounded way.
void Loop::report(const Clocks& now) {
    if (now.steady_s < report_at_s_ || !link_.is_up()) return;
    report_at_s_ = now.steady_s + place_.poll_s;
    for (const Frame& frame : agent_.report(now)) link_.send(frame);
    for (std::string& line : agent_.lines()) lines_.push_back(std::move(line));
}

/// Only a job of which there is something to say gets a file.
void Loop::write_lines() {
    if (lines_.empty()) return;
    std::string text;
    for (const std::string& line : lines_) {
        if (written_++ < most_lines)
            text += fmt::format("{} {} arena-watch: {}\n", stamp(), place_.node, line);
    }
    lines_.clear();
    const FileDescriptor file(::open(
        place_.log.c_str(),
        O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0644));
    if (file.get() >= 0 && ::write(file.get(), text.data(), text.size()) < 0) lines_.clear();
}

bool Loop::is_over(double now_s) {
    const bool task_runs =
        task_began_ != 0 && process_started(static_cast<std::uint32_t>(place_.task)) == task_began_;
    if (busy_s_ < 0 || !rings_.empty() || task_runs) busy_s_ = now_s;
    return now_s - busy_s_ >= stays_s && (host_ == nullptr || host_->is_done());
}

void Loop::wait(double now_s) const {
    std::vector<pollfd> wanted = link_.wanted();
    if (host_ != nullptr) {
        for (const pollfd& one : host_->wanted()) wanted.push_back(one);
    }
    double until_s = std::min(now_s + longest_wait_s, read_at_s_);
    if (link_.is_up()) until_s = std::min(until_s, report_at_s_);
    const double left_ms = std::max(std::ceil((until_s - now_s) * 1000), 1.0);
    ::poll(wanted.data(), wanted.size(), static_cast<int>(left_ms));
}

void Loop::run() {
    for (Clocks now = read_clocks(); !is_over(now.steady_s); now = read_clocks()) {
        if (host_ != nullptr) host_->serve(now);
        serve_link(now);
        read_rings(now);
        report(now);
        write_lines();
        wait(now.steady_s);
    }
    report_at_s_ = 0;
    report(read_clocks());
    write_lines();
}

}  // namespace

std::string variable_of(const char* name) {
    return value([](const char* asked) -> const char* { return ::getenv(asked); }, name);
}

Result<AgentPlace> find_place(GetVariable get, pid_t task) {
    AgentPlace place;
    const auto key = parse_watch_key(value(get, "ARENA_WATCH_KEY"));
    if (!key) return usage_error("is not 32 hex digits (a-f)", "ARENA_WATCH_KEY");
    const std::string poll = value(get, "ARENA_WATCH_POLL_S");
    const auto poll_s = parse_number(poll.empty() ? "5" : poll, 0.05, 300);
    if (!poll_s) return usage_error("is no number from 0.05 to 300", "ARENA_WATCH_POLL_S");
    place.key = *key;
    place.poll_s = *poll_s;
    place.meeting = find_meeting(get);
    place.filter = {.uid = ::geteuid(),
                    .run = value(get, "ARENA_WATCH_RUN"),
                    .job = number<std::uint32_t>(get, "SLURM_JOB_ID"),
                    .step = number<std::uint32_t>(get, "SLURM_STEP_ID"),
                    .life = number<std::uint32_t>(get, "SLURM_RESTART_COUNT"),
                    .node = number<std::uint32_t>(get, "SLURM_NODEID")};
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    place.node = value(get, "SLURMD_NODENAME");
    if (place.node.empty()) place.node = host;
    place.task = task;
    place.keep_names = !value(get, "ARENA_WATCH_KEEP_RINGS").empty();
    const std::string folder = value(get, "ARENA_WATCH_LOG_DIR");
    place.log = fmt::format("{}/arena-watch-{}.{}-{}.log", folder.empty() ? "." : folder,
                            place.filter.job, place.filter.step, place.node);
    return place;
}

void run_agent(const AgentPlace& place, ChiefHost* host) {
    leave_signals_to_ranks();
    allow_many_files();
    Loop(place, host).run();
}

}  // namespace arena::watch
