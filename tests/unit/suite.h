// SPDX-License-Identifier: GPL-2.0-or-later
// A Check program: TEST(name) { } adds itself to what run_suite() runs, in the order of the file.
#pragma once

#include <check.h>
#undef fail  // Check's, and a function of every stream

#include <cerrno>
#include <cstdio>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace arena::test {

struct SuiteTest {
    TTest test;
    std::string (*lacks)();  ///< what this machine is without, which the test needs; "" = it runs
};

inline std::vector<SuiteTest>& suite_tests() {
    static std::vector<SuiteTest> all;
    return all;
}

inline bool add_to_suite(const SuiteTest& test) {
    suite_tests().push_back(test);
    return true;
}

/// Where `missing` says what this machine is without, the test is left out; contrib/check counts
/// each.
#define TEST_NEEDING(name, missing)                                                \
    static void name(int);                                                         \
    [[maybe_unused]] static const bool name##_added = arena::test::add_to_suite(   \
        {{#name, name, __FILE__, __LINE__}, [] { return std::string(missing); }}); \
    static void name(int)
#define TEST(name) TEST_NEEDING(name, "")

/// What a few programs need.
struct SuiteOptions {
    void (*before)() = nullptr;  ///< around each test
    void (*after)() = nullptr;
    double timeout_s = 120;  ///< for one that hangs: never the measure of anything
    bool fork = true;        ///< false: OpenMP's threads do not survive a fork
};

inline int run_suite(const SuiteOptions& options = {}) {
    Suite* suite = suite_create(program_invocation_short_name);
    TCase* tcase = tcase_create(program_invocation_short_name);
    tcase_set_timeout(tcase, options.timeout_s);
    if (options.before) tcase_add_checked_fixture(tcase, options.before, options.after);
    for (const SuiteTest& one : suite_tests()) {
        if (const std::string lacks = one.lacks(); !lacks.empty())
            std::printf("# SKIP %s: %s\n", one.test.name, lacks.c_str());
        else
            tcase_add_test(tcase, &one.test);
    }
    std::fflush(stdout);  // before the tests fork
    suite_add_tcase(suite, tcase);
    SRunner* runner = srunner_create(suite);
    if (!options.fork) srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

/// ck_assert_str_eq would keep a pointer into a temporary; this compares and prints values.
inline void assert_text(const std::string& actual, const std::string& expected,
                        const std::source_location& at = std::source_location::current()) {
    ck_assert_msg(actual == expected, "line %u: \"%s\" is not \"%s\"", at.line(), actual.c_str(),
                  expected.c_str());
}

/// What a Result holds, which must be there.
template <typename R>
auto must(R result, const std::source_location& at = std::source_location::current()) {
    ck_assert_msg(result.ok(), "line %u: %s", at.line(),
                  result.ok() ? "" : result.error().message().c_str());
    return std::move(result).value();
}

/// The message of a refusal must contain what the user needs; `needle` is part of it.
template <typename R>
void assert_refused(const R& result, const std::string& needle) {
    ck_assert_msg(!result.ok(), "was accepted, but should say \"%s\"", needle.c_str());
    const std::string message = result.error().message();
    ck_assert_msg(message.find(needle) != std::string::npos, "\"%s\" does not say \"%s\"",
                  message.c_str(), needle.c_str());
}

}  // namespace arena::test
