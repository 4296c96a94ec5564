// SPDX-License-Identifier: GPL-2.0-or-later
// Tables of the command: no line is longer than 100 columns, dates and plans stay in one piece. And
// moments that people name.
#include <algorithm>

#include "base/text.h"
#include "cli/common/cli.h"
#include "cli/common/moment.h"
#include "cli/common/wrap.h"
#include "suite.h"

using namespace arena;
using namespace arena::cli;
using arena::test::assert_text;
namespace test = arena::test;

namespace {

std::size_t widest_line(std::string_view text) {
    std::size_t widest = 0;
    for (const std::string_view line : split(text, '\n')) widest = std::max(widest, line.size());
    return widest;
}

void assert_has(const std::string& text, const std::string& word) {
    ck_assert_msg(text.find(word) != std::string::npos, "\"%s\" is not in one piece in\n%s",
                  word.c_str(), text.c_str());
}

constexpr const char* plan = "pp16,dp64,tp8,mb1x128,vpp5,cp2,ep8,selective,zero1,sp";
constexpr const char* model =
    "meta-llama/Llama-3.1-405B-Instruct-long.";  // 40: as many as are shown

}  // namespace

/// The columns of `arena profile list` and `arena profile observed`, with the widest that a site
/// has.
TEST(the_widest_rows_fit_a_line) {
    Table runs({{"nonce", false, Wide::whole},
                {"started", false, Wide::whole},
                {"model"},
                {"GPU type"},
                {"hardware", false, Wide::below},
                {"node", false, Wide::below},
                {"entries", true},
                {"re-used", true},
                {"device s", true},
                {"status"},
                {"why", false, Wide::below}});
    for (const char* why :
         {"", "measured 7 of 113 operators: the budget of 10 s ended",
          "/usr/local/libexec/slurm-arena/arena-profiler:cannot-be-executed-by-the-user"})
        runs.add({"0123456789abcdef", "2026-11-22 16:52:22", model, "h100_sxm_80gb",
                  "H100-HBM2e-96GB(500W)", "gpu-h100-rack-17-node-042.cluster.example", "1024",
                  "1024", "12345.6", "complete", why});
    const std::string list = runs.text();
    ck_assert_uint_le(widest_line(list), usual_line_width);
    for (const char* whole : {"0123456789abcdef", "2026-11-22 16:52:22",
                              "gpu-h100-rack-17-node-042.cluster.example", "why measured 7"})
        assert_has(list, whole);

    Table observed({{"model"},
                    {"batch", true},
                    {"launcher"},
                    {"grid"},
                    {"plan", false, Wide::below},
                    {"measured", true},
                    {"estimated", true},
                    {"off", true},
                    {"steps", true, Wide::below},
                    {"job", true},
                    {"reported", false, Wide::below},
                    {"of"},
                    {"counts for", false, Wide::below}});
    observed.add({model, "16777216", "megatron-deepspeed", "1024x8xh100_sxm_80gb", plan, "12345 s",
                  "12345 s", "-1234.5 %", "1000000", "4294967295", "2026-11-22 16:52:22",
                  "an administrator", "nobody yet: 1 of 3 jobs agree"});
    const std::string rows = observed.text();
    ck_assert_uint_le(widest_line(rows), usual_line_width);
    for (const char* whole : {plan, "4294967295", "16777216"}) assert_has(rows, whole);
    assert_has(rows, "\n    plan " + std::string(plan));
}

TEST(what_fits_stays_a_table) {
    Table table(
        {{"job", true}, {"plan", false, Wide::below}, {"started", false, Wide::whole}, {"reason"}});
    table.add({"7", "pp2,dp2,tp1,mb4x16,full,zero1", "2026-11-22 16:52:22", "waits"});
    assert_text(table.text(),
                "job  plan                           started              reason\n"
                "  7  pp2,dp2,tp1,mb4x16,full,zero1  2026-11-22 16:52:22  waits\n");
    table.add({"8", plan, "2026-11-22 16:52:22", "waits for GPUs that are not free now"});
    const std::string wide = table.text();  // the reason takes two lines, nothing goes below
    ck_assert_uint_le(widest_line(wide), usual_line_width);
    assert_has(wide, plan);
    ck_assert(wide.find("    plan ") == std::string::npos);
    Table empty({{"a"}, {"b", true}});
    assert_text(empty.text(), "a  b\n");
}

TEST(moments_are_read_as_sbatch_reads_them) {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
    constexpr std::int64_t now = 1790000000;  // 2026-09-21 14:13:20
    const auto after = [](const char* text) { return test::must(parse_moment(text, now)) - now; };
    ck_assert_int_eq(after("now+90"), 90);
    ck_assert_int_eq(after("now+1second"), 1);
    ck_assert_int_eq(after("now+3hours"), 3 * 3600);
    ck_assert_int_eq(after("now+2weeks"), 14 * 86400);
    ck_assert_int_eq(after("14:13:21"), 1);
    ck_assert_int_eq(after("14:13"), 86400 - 20);  // tomorrow
    ck_assert_int_eq(after("2026-09-22"), 86400 - (14 * 3600 + 13 * 60 + 20));
    ck_assert_int_eq(after("2026-09-21T14:14"), 40);
    ck_assert_int_eq(after("2026-09-21T14:13:21"), 1);
    for (const char* bad : {"",
                            "now",
                            "now+",
                            "now+0",
                            "now-5",
                            "now+1.5",
                            "now+5fortnights",
                            "24:00",
                            "12:60",
                            "1:2:3:4",
                            "noonish",
                            "2026-02-30",
                            "2026-13-01",
                            "26-01-01",
                            "2026-09-22T",
                            "2026-09-22T25:00",
                            "nan",
                            "-1",
                            " 14:14",
                            "now+ 5"})
        test::assert_refused(parse_moment(bad, now), "is no time; give HH:MM[:SS]");
    test::assert_refused(parse_moment("2026-09-21T14:13:20", now), "is over");
    test::assert_refused(parse_moment("2126-09-21", now), "more than ten years away");
}
