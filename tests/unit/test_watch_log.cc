// SPDX-License-Identifier: GPL-2.0-or-later
// What the chief leaves on disk, and how its reports get out: nothing where all is well, bounded,
// never through a link or into another's directory; one child at a time, the latest of an event.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "base/text.h"
#include "suite.h"
#include "watch/chief/lines.h"
#include "watch/chief/log_directory.h"
#include "watch/chief/report_sender.h"

using namespace arena;
using namespace arena::test;
using namespace arena::watch;
namespace fs = std::filesystem;

namespace {

std::string directory;

void before() {
    char name[] = "/tmp/arena-watch-log-XXXXXX";
    directory = ::mkdtemp(name);
}
void after() { fs::remove_all(directory); }

LogPlace place() { return {.parent = directory, .job = "4711", .address = "10.0.0.3"}; }
constexpr Now now{10, 1'763'900'000'123};

std::string read(const std::string& path) { return must(read_regular_file(path, 64 << 20)); }

LogLine of_node(const std::string& node, const std::string& text) {
    LogLine one = line(text, "test");
    one.node = node;
    return one;
}

TEST(nothing_is_written_while_all_is_well) {
    LogDirectory log(place());
    for (int i = 0; i < 5000; ++i) ck_assert(log.write({line("fine", "fine")}, now).ok());
    ck_assert(fs::is_empty(directory));
    ck_assert(log.write({problem("slow", "onset")}, now).ok());
    const std::string path = log.path();
    ck_assert_msg(path.starts_with(directory + "/arena-watch-4711/log_2"), "%s", path.c_str());
    ck_assert(path.ends_with("_noderank0"));
    const std::string text = read(path + "/global_controller_10.0.0.3.log");
    ck_assert_int_eq(std::count(text.begin(), text.end(), '\n'), LogDirectory::most_waiting);
    ck_assert(text.find(".123] slow\n") != std::string::npos);
}

TEST(lines_of_nodes_and_json_have_files_of_their_own) {
    LogPlace from_start = place();
    from_start.from_the_start = true;
    LogDirectory log(from_start);
    ck_assert(log.write({line("one", "first", {{"rank", std::int64_t{3}}}), of_node("n1", "two"),
                         of_node("../../etc/x", "three")},
                        now)
                  .ok());
    assert_text(read(log.path() + "/local_controller_n1.log").substr(25), " two\n");
    ck_assert(fs::exists(log.path() + "/local_controller_.._.._etc_x.log"));
    const std::string events = read(log.path() + "/events.jsonl");
    const auto first = must(parse_json(split(events, '\n')[0]));
    ck_assert_int_eq(first["schema_version"].get<int>(), 1);
    ck_assert_int_eq(first["t_ms"].get<std::int64_t>(), now.epoch_ms);
    ck_assert_int_eq(first["rank"].get<int>(), 3);
    // A second life in the same second has a directory of its own.
    LogDirectory second(from_start);
    ck_assert(second.write({line("x", "x")}, now).ok());
    ck_assert(second.path() != log.path());
}

TEST(it_never_grows_beyond_its_size) {
    LogPlace from_start = place();
    from_start.from_the_start = true;
    LogDirectory log(from_start);
    const std::string kilobyte(1000, 'x');
    for (int i = 0; i < 40'000; ++i) ck_assert(log.write({line(kilobyte, "big")}, now).ok());
    std::uintmax_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(directory))
        if (entry.is_regular_file()) bytes += entry.file_size();
    ck_assert_int_le(bytes, LogDirectory::most_bytes + 4096);
    ck_assert_int_ge(bytes, LogDirectory::most_bytes - 4096);
    const std::string events = read(log.path() + "/events.jsonl");
    ck_assert(events.find(R"("event":"full")") != std::string::npos);
}

TEST(links_and_missing_directories_are_refused_once) {
    fs::create_directory(directory + "/elsewhere");
    fs::create_directory_symlink(directory + "/elsewhere", directory + "/arena-watch-4711");
    LogDirectory log(place());
    assert_refused(log.write({problem("slow", "onset")}, now), "arena-watch-4711");
    ck_assert(log.write({problem("slow", "onset")}, now).ok());  // said once
    ck_assert(fs::is_empty(directory + "/elsewhere"));
    LogDirectory nowhere({.parent = directory + "/missing", .job = "1", .address = "a"});
    assert_refused(nowhere.write({problem("slow", "onset")}, now), "cannot be opened");
}

// ---- reports -----------------------------------------------------------------------------------

SlowReport report(std::int64_t gpu, double lost_s) {
    return {.life = 2,
            .onset = 1'763'900'000,
            .at = {"n3", gpu},
            .peer = {},
            .cause = SlowCause::compute,
            .factor = 2.1,
            .action = SlowAction::s2,
            .lost_s = lost_s};
}

/// A program that stands for `arena`: notes its words, then does what `rest` says.
std::string stand_in(const std::string& rest) {
    const std::string path = directory + "/arena";
    std::ofstream(path) << "#!/bin/sh\necho \"$@\" >>" << directory << "/said\n" << rest << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
}

/// Until nothing is on its way.
std::vector<LogLine> run(ReportSender& sender) {
    std::vector<LogLine> all;
    for (int i = 0; i < 2000 && !sender.is_idle(); ++i) {
        for (LogLine& one : sender.poll()) all.push_back(std::move(one));
        pollfd ended{sender.fd(), POLLIN, 0};
        ::poll(&ended, sender.fd() >= 0 ? 1 : 0, 10);
    }
    ck_assert(sender.is_idle());
    return all;
}

TEST(a_report_is_what_the_command_takes) {
    ReportSender sender(stand_in("exit 0"), 60);
    SlowReport link = report(1, 41);
    link.cause = SlowCause::communication;
    link.peer = {"n4", any_gpu};
    link.relief = 1'763'900'100;
    link.steps = 120;
    sender.add(link);
    const auto lines = run(sender);
    ck_assert(lines.size() == 1 && !lines[0].is_problem);
    assert_text(read(directory + "/said"),
                "slowdown report --wait 60 --onset 1763900000 --at n3/1 --cause communication "
                "--factor 2.1 --action S2 --lost-s 41 --life 2 --peer n4 --relief 1763900100 "
                "--steps 120\n");
}

TEST(the_latest_of_an_event_waits_and_one_goes_at_a_time) {
    ReportSender sender(stand_in("while [ ! -e " + directory + "/go ]; do sleep 0.02; done"));
    for (int i = 0; i < 10; ++i) {
        sender.add(report(1, i));
        sender.add(report(2, i));
        ck_assert(sender.poll().empty());  // never blocks
    }
    ck_assert_int_eq(sender.waiting(), 2);
    std::ofstream(directory + "/go") << "";
    run(sender);
    const std::string said = read(directory + "/said");
    ck_assert_int_eq(std::count(said.begin(), said.end(), '\n'), 3);
    ck_assert(said.find("n3/1 --cause compute --factor 2.1 --action S2 --lost-s 0 ") !=
              std::string::npos);
    ck_assert(said.find("n3/1 --cause compute --factor 2.1 --action S2 --lost-s 9 ") !=
              std::string::npos);
    ck_assert(said.find("n3/2 --cause compute --factor 2.1 --action S2 --lost-s 9 ") !=
              std::string::npos);
}

TEST(one_that_fails_is_told) {
    ReportSender refused(stand_in("exit 1"));
    refused.add(report(1, 1));
    auto lines = run(refused);
    ck_assert(lines.size() == 1 && lines[0].is_problem);
    ck_assert(lines[0].text.find("exit code 1") != std::string::npos);
    ReportSender missing(directory + "/no-such-program");
    missing.add(report(1, 1));
    lines = run(missing);
    ck_assert(lines.size() == 1 && lines[0].is_problem);
}

TEST(what_no_slurmctld_took_waits_on) {
    const std::string down = "[ -e " + directory + "/up ] && exit 0; touch " + directory + "/up; ";
    ReportSender sender(stand_in(down + "sleep 0.06; exit 3"), 0.1);
    sender.add(report(1, 1));
    const auto lines = run(sender);
    ck_assert(lines.size() == 2 && lines[0].is_problem && !lines[1].is_problem);
    // Not where it has not waited: that would be said without end.
    fs::remove(directory + "/up");
    ReportSender hasty(stand_in(down + "exit 3"), 60);
    hasty.add(report(1, 1));
    ck_assert_uint_eq(run(hasty).size(), 1);
}

TEST(events_that_wait_are_bounded) {
    ReportSender sender(stand_in("sleep 60"));
    for (std::int64_t i = 0; i < 1000; ++i) {
        SlowReport one = report(1, 1);
        one.onset += i;
        sender.add(one);
        sender.poll();
    }
    ck_assert_int_eq(sender.waiting(), ReportSender::most_waiting);
}

}  // namespace

SUITE({.before = before, .after = after});
