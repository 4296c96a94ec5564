// SPDX-License-Identifier: GPL-2.0-or-later
// One main for a Check program: the list of its tests in, the exit status out.
#pragma once

#include <check.h>
#undef fail  // Check's, and a function of every stream

#include <algorithm>
#include <cstdio>
#include <source_location>
#include <string>
#include <vector>

namespace arena::test {

/// What a few programs need beyond the list of their tests.
struct SuiteOptions {
    void (*before)() = nullptr;  ///< around each test
    void (*after)() = nullptr;
    double timeout_s = 120;  ///< for one that hangs: never the measure of anything
    bool fork = true;        ///< false: OpenMP's threads do not survive a fork
    /// Tests that do not run where `lacks` says what this machine is without; contrib/check counts
    /// each.
    std::vector<const TTest*> conditional = {};
    std::string lacks = {};
};

inline bool is_left_out(const TTest* test, const SuiteOptions& options) {
    const auto& all = options.conditional;
    return !options.lacks.empty() && std::find(all.begin(), all.end(), test) != all.end();
}

inline int run_suite(const char* name, const std::vector<const TTest*>& tests,
                     const SuiteOptions& options = {}) {
    Suite* suite = suite_create(name);
    TCase* tcase = tcase_create(name);
    tcase_set_timeout(tcase, options.timeout_s);
    if (options.before) tcase_add_checked_fixture(tcase, options.before, options.after);
    for (const TTest* test : tests) {
        if (is_left_out(test, options))
            std::printf("# SKIP %s: %s\n", test->name, options.lacks.c_str());
        else
            tcase_add_test(tcase, test);
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

/// The message of a refusal must contain what the user needs; `needle` is part of it.
template <typename R>
void assert_refused(const R& result, const std::string& needle) {
    ck_assert_msg(!result.ok(), "was accepted, but should say \"%s\"", needle.c_str());
    const std::string message = result.error().message();
    ck_assert_msg(message.find(needle) != std::string::npos, "\"%s\" does not say \"%s\"",
                  message.c_str(), needle.c_str());
}

}  // namespace arena::test
