// SPDX-License-Identifier: GPL-2.0-or-later
// The stop rule, the order and limits of a session, and what the Prolog's helper makes of every way
// a run can end. Devices here are invented: timings are given, so that every decision can be
// foreseen.
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>

#include "base/text.h"
#include "profiler/core/measure.h"
#include "profiler/core/prolog_help.h"
#include "profiler/core/request.h"
#include "profiler/cpu/cpu_backend.h"
#include "profiler/cpu/cpu_kernels.h"
#include "profiler/run/session.h"
#include "site/slurm_conf.h"
#include "suite.h"

using namespace arena;
using arena::test::must;
namespace fs = std::filesystem;

namespace {

/// Seconds of the n-th execution (from 0).
using Timing = std::function<double(std::int64_t)>;

class Invented final : public Operator {
  public:
    explicit Invented(Timing timing) : timing_(std::move(timing)) {}
    double execute(std::int64_t times) override {
        double sum = 0;
        for (std::int64_t i = 0; i < times; ++i) sum += timing_(runs++);
        return sum;
    }
    std::int64_t runs = 0;

  private:
    Timing timing_;
};

OpShape gemm(std::int64_t m, std::int64_t n = 64, std::int64_t k = 64) {
    OpShape s;
    s.dims = {m, n, k, 1};
    return s;
}

/// Every operator takes m milliseconds (first dimension); the clock is the sum of what was
/// executed.
class InventedBackend final : public Backend {
  public:
    Device device() const override { return {"cpu", "invented", "", "0", "none", 0, 1, "here"}; }
    Result<std::unique_ptr<Operator>> prepare(const OpShape& s) override {
        prepared.push_back(op_key(s));
        if (s.dims[0] == 666) return no_error("cannot", op_key(s));
        return std::unique_ptr<Operator>(std::make_unique<Invented>([this, s](std::int64_t) {
            if (s.dims[0] == 667) throw std::runtime_error("device fell off the bus");
            clock += 1e-3 * static_cast<double>(s.dims[0]);
            return 1e-3 * static_cast<double>(s.dims[0]);
        }));
    }
    std::vector<std::string> prepared;
    double clock = 0;
};

struct Run {
    InventedBackend backend;
    std::vector<ProfileEntry> entries;
    SessionOutcome outcome;
    Run(const std::vector<OpShape>& shapes, double budget_s, std::vector<std::string> known = {}) {
        SessionOptions o;
        o.budget_s = budget_s;
        o.known = std::move(known);
        o.now = [this] { return backend.clock; };
        o.on_entry = [this](const ProfileEntry& e) { entries.push_back(e); };
        outcome = run_session(backend, shapes, o);
    }
};

std::string directory;
void make_directory() {
    char name[] = "/tmp/arena-profiler-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(name));
    directory = name;
}
void remove_directory() { fs::remove_all(directory); }
std::string put(const std::string& name, const std::string& text) {
    std::ofstream(directory + "/" + name, std::ios::binary) << text;
    return directory + "/" + name;
}

ProfileRequest request() {
    ProfileRequest r;
    r.nonce = "Abcdefgh01234567";
    r.gpu_type = "a40";
    r.hardware = "emulated-cpu";
    r.model.name = "m";
    r.model.layers = 2;
    return r;
}

Profile answer() {
    Profile p;
    p.nonce = request().nonce;
    p.gpu_type = "a40";
    p.hardware = "emulated-cpu";
    p.model_fingerprint = fingerprint(request().model);
    p.device = {"cpu", "invented", "", "0", "none", 0, 1, "here"};
    p.entries = {{gemm(8), 0.001, 3, 0.01}};
    return p;
}

void expect_failed(const RunEnd& end, const std::string& words) {
    const Profile p = result_of_run(request(), end);
    ck_assert_msg(p.status == ProfileStatus::failed, "was not failed; wanted: %s", words.c_str());
    ck_assert_msg(p.reason.find(words) != std::string::npos, "reason: %s; wanted: %s",
                  p.reason.c_str(), words.c_str());
    ck_assert(p.entries.empty());
    ck_assert_msg(parse_profile(to_json(p)).ok(), "a failed result must be readable itself");
}

}  // namespace

TEST(median_interval_is_that_of_order_statistics) {
    const auto of = [](std::vector<double> v) { return median_interval(std::move(v)); };
    ck_assert_double_eq(of({3, 1, 2}).median, 2);
    ck_assert_double_eq(of({4, 1, 2, 3}).median, 2.5);
    ck_assert_double_eq(of({5}).spread, 1);
    ck_assert(!of({1, 1, 1, 1, 1}).confident);  // 1 - 2 / 2^5 = 93.75 %
    ck_assert(of({1, 1, 1, 1, 1, 1}).confident);
    std::vector<double> ten;
    for (int i = 1; i <= 10; ++i) ten.push_back(i);
    ck_assert_double_eq_tol(of(ten).spread, (9.0 - 2.0) / 2 / 5.5, 1e-12);  // ranks 2 and 9: 97.9 %
    std::vector<double> sixteen;
    for (int i = 1; i <= 16; ++i) sixteen.push_back(i);
    ck_assert_double_eq_tol(of(sixteen).spread, (13.0 - 4.0) / 2 / 8.5,
                            1e-12);  // ranks 4 and 13: 97.9 %
}

/// Coverage by experiment: the interval holds the true median in at least 95 % of draws.
TEST(median_interval_covers_the_median_in_95_percent_of_draws) {
    std::mt19937 engine(7);
    std::lognormal_distribution<double> draw(0, 0.3);  // median 1
    for (const int n : {6, 8, 15, 40, 61, 100}) {
        int inside = 0;
        const int draws = 4000;
        for (int d = 0; d < draws; ++d) {
            std::vector<double> v;
            for (int i = 0; i < n; ++i) v.push_back(draw(engine));
            std::vector<double> shifted;
            for (const double x : v) shifted.push_back(x);
            const auto r = median_interval(v);
            // the interval itself is not returned; rebuild it from the sorted sample and its
            // half-width
            std::sort(shifted.begin(), shifted.end());
            for (std::size_t l = 0; l < shifted.size() / 2; ++l) {
                const double low = shifted[l], high = shifted[shifted.size() - 1 - l];
                if (std::abs((high - low) / 2 / r.median - r.spread) < 1e-12) {
                    inside += low <= 1 && 1 <= high;
                    break;
                }
            }
        }
        ck_assert_msg(inside >= draws * 0.943, "n = %d: only %d of %d", n, inside, draws);
    }
}

TEST(steady_operator_stops_early_and_cold_start_does_not_count) {
    Invented op([](std::int64_t i) {
        return i == 0 ? 0.5 : 0.001 * (1 + 0.001 * static_cast<double>(i % 3));
    });
    StopRule rule;
    rule.share_s = 10;
    const auto m = measure(op, rule);
    ck_assert_double_eq_tol(m.seconds, 0.001001, 2e-6);
    ck_assert_double_le(m.spread, 0.01);
    ck_assert_int_ge(m.repeats, 6);
    ck_assert_double_lt(m.spent_s, 0.6);
}

TEST(noisy_operator_is_measured_until_its_share_ends) {
    std::mt19937 engine(3);
    std::uniform_real_distribution<double> noise(0.5, 1.5);
    Invented op([&](std::int64_t) { return 0.001 * noise(engine); });
    StopRule rule;
    rule.share_s = 0.1;
    const auto m = measure(op, rule);
    ck_assert_double_gt(m.spread, 0.01);
    ck_assert_double_gt(m.spent_s, 0.09);
    ck_assert_double_lt(m.spent_s, 0.103);
}

TEST(long_operator_gets_one_execution_or_three_where_the_reserve_allows) {
    Invented once([](std::int64_t) { return 1.0; });
    StopRule rule;
    rule.share_s = 0.05;
    auto m = measure(once, rule);
    ck_assert_int_eq(m.repeats, 1);
    ck_assert_int_eq(once.runs, 1);
    ck_assert_double_eq(m.seconds, 1.0);
    ck_assert_double_eq(m.spread, 1);
    Invented thrice([](std::int64_t i) { return i == 0 ? 3.0 : 1.0; });
    rule.reserve_s = 10;
    m = measure(thrice, rule);
    ck_assert_int_eq(m.repeats, 3);
    ck_assert_double_eq(m.seconds, 1.0);  // the cold execution is not among them
}

TEST(tiny_operator_is_timed_in_batches) {
    Invented op([](std::int64_t) { return 1e-6; });
    StopRule rule;
    rule.share_s = 1;
    const auto m = measure(op, rule);
    ck_assert_double_eq_tol(m.seconds, 1e-6, 1e-12);
    ck_assert_int_ge(m.repeats, 6 * 200);
}

TEST(session_measures_each_shape_once_and_skips_known_ones) {
    const std::vector<OpShape> shapes = {gemm(1), gemm(2), gemm(1), gemm(3), gemm(2)};
    Run r(shapes, 100, {op_hash(gemm(2))});
    ck_assert(r.outcome.status == ProfileStatus::complete);
    ck_assert_uint_eq(r.entries.size(), 2);
    ck_assert(r.entries[0].shape == gemm(1) && r.entries[1].shape == gemm(3));
    ck_assert_double_eq_tol(r.entries[1].seconds, 0.003, 1e-9);
    ck_assert_uint_eq(r.backend.prepared.size(), 2);
    Run none(shapes, 100, {op_hash(gemm(1)), op_hash(gemm(2)), op_hash(gemm(3))});
    ck_assert(none.outcome.status == ProfileStatus::complete);
    ck_assert(none.entries.empty());
}

TEST(session_keeps_the_order_and_ends_with_the_budget) {
    std::vector<OpShape> shapes;
    for (int i = 0; i < 50; ++i) shapes.push_back(gemm(100, 64, 64 + i));
    Run r(shapes, 2);
    ck_assert(r.outcome.status == ProfileStatus::partial);
    ck_assert_double_lt(r.backend.clock, 2.2);
    ck_assert_uint_ge(r.entries.size(), 10);
    for (std::size_t i = 0; i < r.entries.size(); ++i) ck_assert(r.entries[i].shape == shapes[i]);
    ck_assert_msg(r.outcome.reason.find("of 50 operators") != std::string::npos, "%s",
                  r.outcome.reason.c_str());
}

TEST(session_leaves_out_what_does_not_fit_and_goes_on) {
    // the second takes 60 s by its first dimension and is foreseen from the first
    Run r({gemm(1), gemm(60000), gemm(2)}, 5);
    ck_assert(r.outcome.status == ProfileStatus::partial);
    ck_assert_uint_eq(r.entries.size(), 2);
    ck_assert(r.entries[1].shape == gemm(2));
    ck_assert_double_lt(r.backend.clock, 5);
}

TEST(session_reports_refusals_and_device_failures) {
    Run refused({gemm(1), gemm(666), gemm(2)}, 5);
    ck_assert(refused.outcome.status == ProfileStatus::partial);
    ck_assert_uint_eq(refused.entries.size(), 2);
    ck_assert_msg(refused.outcome.reason.find("cannot") != std::string::npos, "%s",
                  refused.outcome.reason.c_str());
    Run lost({gemm(1), gemm(667), gemm(2)}, 5);
    ck_assert(lost.outcome.status == ProfileStatus::partial);
    ck_assert_uint_eq(lost.entries.size(), 1);
    ck_assert_msg(lost.outcome.reason.find("fell off the bus") != std::string::npos, "%s",
                  lost.outcome.reason.c_str());
    Run nothing({gemm(667)}, 5);
    ck_assert(nothing.outcome.status == ProfileStatus::failed);
}

TEST_NEEDING(cpu_back_end_times_every_kind_and_refuses_what_it_cannot,
             cpu::have_gemm() ? "" : "this build has neither OpenBLAS nor oneDNN") {
    auto backend = must(make_cpu_backend(1));
    const auto times = [&](OpKind kind, Pass pass, std::array<std::int64_t, 4> dims,
                           const char* variant) {
        OpShape s{kind, pass, Precision::fp32, dims, parse_variant(kind, variant).value()};
        auto op = must((backend)->prepare(s));
        ck_assert_double_gt((op)->execute(3), 0);
    };
    times(OpKind::gemm, Pass::forward, {33, 20, 40, 1}, "");
    times(OpKind::gemm, Pass::backward, {33, 20, 40, 3}, "dgrad");
    times(OpKind::gemm, Pass::backward, {33, 20, 40, 1}, "wgrad");
    for (const auto pass : {Pass::forward, Pass::backward}) {
        times(OpKind::attention, pass, {4, 2, 70, 16}, "causal");
        times(OpKind::attention, pass, {4, 4, 70, 16}, "full");
        times(OpKind::attention, pass, {4, 4, 70, 24}, "causal_v16");
        times(OpKind::attention, pass, {4, 2, 200, 16}, "causal_w7");
        times(OpKind::norm, pass, {9, 33, 0, 0}, "layer");
        times(OpKind::norm, pass, {9, 33, 0, 0}, "rms");
        times(OpKind::norm, pass, {9, 33, 0, 0}, "batch");
        for (const char* v : {"gelu", "swiglu", "relu", "bias_residual", "add"})
            times(OpKind::elementwise, pass, {9, 33, 0, 0}, v);
        times(OpKind::embedding, pass, {12, 16, 100, 0}, "");
        times(OpKind::cross_entropy, pass, {5, 100, 0, 0}, "");
        times(OpKind::optimizer, pass, {1000, 0, 0, 0}, "adamw");
    }
    OpShape bf16 = gemm(8);
    bf16.precision = Precision::bf16;
    auto r = (backend)->prepare(bf16);
    ck_assert(!r.ok() && r.error().text.find("fp32") != std::string::npos);
    const std::int64_t top = (std::int64_t{1} << 31) - 1;
    r = (backend)->prepare(gemm(top, top, top));
    ck_assert(!r.ok() && r.error().text.find("memory") != std::string::npos);
    ck_assert(!(backend)
                   ->prepare({OpKind::embedding, Pass::forward, Precision::fp32, {1, top, top, 0}})
                   .ok());
    ck_assert(!(backend)->prepare(gemm(0)).ok());
    ck_assert(
        !(backend)->prepare({OpKind::norm, Pass::forward, Precision::fp32, {2, 2, 0, 0}}).ok());
}

TEST(a_cpu_never_answers_for_a_gpu_nor_the_other_way_round) {
    ck_assert(*device_kind("auto", true, "emulated-cpu") == "cpu");
    ck_assert(*device_kind("auto", false, "A40") == "cuda");
    ck_assert(*device_kind("cuda", false, "A40") == "cuda");
    ck_assert(!device_kind("cpu", false, "A40").ok());
    ck_assert(!device_kind("cuda", true, "emulated-cpu").ok());
    ck_assert(!device_kind("tpu", true, "emulated-cpu").ok());
}

TEST(nonces_are_valid_and_differ) {
    const auto a = make_nonce(), b = make_nonce();
    ck_assert(is_nonce(a) && is_nonce(b) && a != b);
}

TEST(good_result_is_passed_on_as_it_is) {
    RunEnd end{put("part", to_json(answer())), directory + "/log", 0};
    ck_assert(result_of_run(request(), end) == answer());
    end.exit_code = 1;  // measured something, then failed: the file counts
    ck_assert(result_of_run(request(), end) == answer());
}

TEST(every_bad_end_becomes_a_failed_result_with_its_reason) {
    const std::string log = put("log", "one\narena-profiler: no usable GPU\n");
    expect_failed({directory + "/none", log, 3}, "exit code 3: arena-profiler: no usable GPU");
    expect_failed({directory + "/none", log, 124}, "timed out");
    expect_failed({directory + "/none", log, 137}, "timed out");
    expect_failed({directory + "/none", log, 139}, "Segmentation fault");
    expect_failed({directory + "/none", log, 75}, "lock");
    expect_failed({directory + "/none", directory + "/nolog", 0}, "no usable result");
    expect_failed({put("part", "{\"garbage\": tru"), log, 0}, "no usable result");
    expect_failed({put("part", std::string(2 << 20, 'x')), log, 0}, "no usable result");
    Profile other = answer();
    other.nonce = "Zbcdefgh01234567";
    expect_failed({put("part", to_json(other)), log, 0}, "another request");
    other = answer();
    other.gpu_type = "h100";
    expect_failed({put("part", to_json(other)), log, 0}, "another request");
    fs::create_symlink(put("real", to_json(answer())), directory + "/link");
    expect_failed({directory + "/link", log, 0}, "no usable result");
    put("log", "esc \x1b[31m and \xff bytes\n");
    expect_failed({directory + "/none", log, 9}, "\\x1b[31m");
}

TEST(site_facts_refuse_unsafe_users_and_files) {
    const std::string me = getpwuid(geteuid())->pw_name;
    const auto conf = [&](const std::string& user) {
        const auto path =
            put("arena.yaml", "profile:\n  user: " + user +
                                  "\n  budget_s: 20\n  time_limit_s: 100\n  spool: /x/y\n");
        chmod(path.c_str(), 0644);
        return path;
    };
    const auto refused = [&](const std::string& path, const std::string& slurm_user,
                             const std::string& words) {
        const auto r = site_facts(path, slurm_user);
        ck_assert_msg(!r.ok(), "accepted; wanted: %s", words.c_str());
        ck_assert_msg(r.error().message().find(words) != std::string::npos, "%s",
                      r.error().message().c_str());
    };
    refused(conf("root"), "", "root");
    refused(conf("nobody"), "", "nobody");
    refused(conf("nosuchuser77"), "", "does not exist");
    refused(directory + "/none", "", "No such file");
    auto path = conf("daemon");
    const auto good = must(site_facts(path, "slurm"));
    const struct passwd* daemon = getpwnam("daemon");
    ck_assert(good == "daemon\n" + std::to_string(daemon->pw_uid) + "\n" +
                          std::to_string(daemon->pw_gid) + "\n/x/y\n30\n60\n\n120\n");
    refused(path, "daemon", "SlurmUser");
    chmod(path.c_str(), 0666);
    refused(path, "", "others may write to it");
    if (geteuid() == 0) {
        path = conf("daemon");
        ck_assert_int_eq(chown(path.c_str(), 12345, 0), 0);
        refused(path, "", "belongs to uid 12345");
    }
}

TEST(slurm_user_is_found_through_included_files) {
    const auto user = [&](const std::string& text) {
        const auto found = read_slurm_user(put("slurm.conf", text));
        return found ? *found : found.error().message();
    };
    put("users.conf", "# who\n  slurmUSER = daemon # not root\nSlurmdUser=root\n");
    put("more.conf", "Include users.conf\n");
    arena::test::assert_text(user("ClusterName=c\n"), "root");
    arena::test::assert_text(user("SlurmUser=slurm\n"), "slurm");
    arena::test::assert_text(user("#SlurmUser=no\nInclude users.conf\n"), "daemon");
    arena::test::assert_text(user("include " + directory + "/more.conf\n"), "daemon");
    arena::test::assert_text(user("SlurmUser=slurm\nInclude users.conf\n"), "daemon");
    arena::test::assert_text(user("Include users.conf\nSlurmUser=slurm\n"), "slurm");
    arena::test::assert_text(user("SlurmUser=\"slurm\" # quoted\n"), "slurm");
    arena::test::assert_text(user("Slurm\\\nUser = \\ \n slurm\n"), "slurm");  // continued lines
    arena::test::assert_text(user("SlurmUser=slurm\n# no \\\nSlurmUser=daemon\n"), "daemon");
    arena::test::assert_text(user("SlurmUser=a\\#b#c\n"), "a#b");
    // A line has one key; what follows NodeName is the node's, continued or not.
    arena::test::assert_text(user("SlurmUser=slurm\nNodeName=n1 Gres=gpu:2 SlurmUser=root\n"),
                             "slurm");
    arena::test::assert_text(user("SlurmUser=slurm\nNodeName=n1 \\\nSlurmUser=root\n"), "slurm");
    arena::test::assert_text(user("Prolog=/x SlurmUser=root\nSlurmUser=slurm\n"), "slurm");
    put("users-lab.conf", "SlurmUser=daemon\n");
    arena::test::assert_text(user("ClusterName=LAB\nInclude users-%c.conf\n"), "daemon");
    ck_assert(user("Include users-%c.conf\n").find("before it names a ClusterName") !=
              std::string::npos);
    ck_assert(user("Include missing.conf\n").find("missing.conf") != std::string::npos);
    ck_assert(user("Include slurm.conf\n").find("includes more than 64") != std::string::npos);
}

SUITE({.before = make_directory, .after = remove_directory, .timeout_s = 60, .fork = false});
