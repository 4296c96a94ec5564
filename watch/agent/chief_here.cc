// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/agent/chief_here.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "watch/agent/agent_loop.h"
#include "watch/chief/chief.h"
#include "watch/chief/log_directory.h"
#include "watch/chief/report_sender.h"

namespace arena::watch {
namespace {

constexpr double tick_s = 1;

double number(const char* name, double min, double max, double otherwise) {
    return parse_number(variable_of(name), min, max).value_or(otherwise);
}

ChiefOptions options_of(const AgentPlace& place) {
    ChiefOptions options;
    options.mode = parse_slowdown_mode(variable_of("ARENA_SLOWDOWN")).value_or(SlowdownMode::watch);
    options.threshold = number("ARENA_WATCH_THRESHOLD", 1.01, 10, options.threshold);
    options.precheck = variable_of("ARENA_WATCH_PRECHECK") != "0";
    options.poll_s = place.poll_s;
    options.recheck_s = number("ARENA_WATCH_RECHECK_S", 0.1, 86'400, options.recheck_s);
    options.elastic = variable_of("ARENA_WATCH_ELASTIC") == "1";
    options.life = place.filter.life;
    return options;
}

LogPlace log_of(const AgentPlace& place) {
    const std::string folder = variable_of("ARENA_WATCH_LOG_DIR");
    return {.parent = folder.empty() ? "." : folder,
            .job = std::to_string(place.filter.job),
            .address = place.node,
            .from_the_start = !folder.empty(),
            .node_rank = place.filter.node};
}

std::string arena_program() {
    const std::string beside = program_beside("arena");
    return beside.empty() ? "arena" : beside;
}

class ChiefHere : public ChiefHost {
  public:
    ChiefHere(Listener listener, const AgentPlace& place)
        : listener_(std::move(listener)),
          chief_(options_of(place)),
          log_(log_of(place)),
          reports_(arena_program()) {}

    [[nodiscard]] std::vector<pollfd> wanted() const override {
        std::vector<pollfd> all = listener_.wanted();
        if (reports_.fd() >= 0) all.push_back({reports_.fd(), POLLIN, 0});
        return all;
    }
    void serve(const Clocks& clocks) override;
    [[nodiscard]] bool is_done() const override { return reports_.is_idle(); }

  private:
    void obey(const Actions& actions, const Now& now);

    Listener listener_;
    Chief chief_;
    LogDirectory log_;
    ReportSender reports_;
    double tick_at_s_ = 0;
};

/// A log that cannot be written is no reason to watch less.
void ChiefHere::obey(const Actions& actions, const Now& now) {
    for (const Message& message : actions.messages) listener_.send(message.to, message.frame);
    for (const SlowReport& report : actions.reports) reports_.add(report);
    if (!actions.lines.empty()) (void)log_.write(actions.lines, now);
}

void ChiefHere::serve(const Clocks& clocks) {
    const Now now{.steady_s = clocks.steady_s,
                  .epoch_ms = static_cast<std::int64_t>(clocks.epoch_ns / 1'000'000)};
    for (const LinkEvent& event : listener_.serve(now.steady_s)) {
        if (event.what == LinkEvent::What::frame)
            obey(chief_.on(event.peer, event.frame, now), now);
        else if (event.what == LinkEvent::What::down)
            obey(chief_.gone(event.peer, now), now);
    }
    if (now.steady_s >= tick_at_s_) {
        tick_at_s_ = now.steady_s + tick_s;
        obey(chief_.tick(now), now);
    }
    if (const auto lines = reports_.poll(); !lines.empty()) (void)log_.write(lines, now);
}

}  // namespace

std::unique_ptr<ChiefHost> chief_here(const AgentPlace& place) {
    if (!place.meeting.here) return nullptr;
    auto listener = Listener::open(place.key, place.meeting.run, !place.meeting.one_node);
    if (!listener) return nullptr;
    return std::make_unique<ChiefHere>(std::move(listener).value(), place);
}

}  // namespace arena::watch
