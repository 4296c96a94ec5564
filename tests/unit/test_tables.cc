// SPDX-License-Identifier: GPL-2.0-or-later
// Tables of the command: no line is longer than 100 columns, dates and plans stay in one piece.
#include "base/text.h"
#include "cli/common/cli.h"
#include "cli/common/wrap.h"
#include "suite.h"

using namespace arena;
using namespace arena::cli;
using arena::test::assert_text;

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
    ck_assert_uint_le(widest_line(list), max_line_width);
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
    ck_assert_uint_le(widest_line(rows), max_line_width);
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
    ck_assert_uint_le(widest_line(wide), max_line_width);
    assert_has(wide, plan);
    ck_assert(wide.find("    plan ") == std::string::npos);
    Table empty({{"a"}, {"b", true}});
    assert_text(empty.text(), "a  b\n");
}

int main() { return arena::test::run_suite(); }
