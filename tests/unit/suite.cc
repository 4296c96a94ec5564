// SPDX-License-Identifier: GPL-2.0-or-later
// A program of unit tests: runs those of its files, each in a process of its own, and says in TAP
// what became of each.
//   PROGRAM [--list] [FILE | FILE:TEST | TEST]...     as in: tests/unit/run_sched test_boots
// Exit: 0 all passed, 1 one failed, 2 no such test. CK_FORK=no: in this process, for a debugger.
#include "suite.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace arena::test {

namespace {

std::vector<SuiteTest>& all_tests() {
    static std::vector<SuiteTest> all;
    return all;
}

std::map<std::string, SuiteOptions>& all_options() {
    static std::map<std::string, SuiteOptions> all;
    return all;
}

std::string stem(const char* file) { return std::filesystem::path(file).stem().string(); }

std::string full_name(const SuiteTest& one) { return stem(one.test.file) + ":" + one.test.name; }

bool is_named(const SuiteTest& one, const std::string& word) {
    return word == stem(one.test.file) || word == one.test.name || word == full_name(one);
}

/// A process that has had OpenMP's threads forks no more: the suites that do not fork are last.
std::vector<SuiteTest> in_order() {
    std::vector<SuiteTest> tests = all_tests();
    std::stable_partition(tests.begin(), tests.end(), [](const SuiteTest& one) {
        return all_options()[stem(one.test.file)].fork;
    });
    return tests;
}

/// Of no words: all. Of a word that names none: nothing.
std::vector<SuiteTest> chosen(const std::vector<std::string>& words) {
    std::vector<SuiteTest> tests;
    for (const SuiteTest& one : in_order())
        if (words.empty() || std::any_of(words.begin(), words.end(), [&](const std::string& word) {
                return is_named(one, word);
            }))
            tests.push_back(one);
    for (const std::string& word : words)
        if (std::none_of(tests.begin(), tests.end(),
                         [&](const SuiteTest& one) { return is_named(one, word); })) {
            std::fprintf(stderr,
                         "here is no test and no file of tests of the name %s: see --list\n",
                         word.c_str());
            return {};
        }
    return tests;
}

void tell_failure(const SuiteTest& one, SRunner* runner) {
    std::printf("# failed: %s\n", full_name(one).c_str());
    TestResult** failures = srunner_failures(runner);
    for (int i = 0; i < srunner_ntests_failed(runner); ++i) {
        std::string text = tr_msg(failures[i]);
        for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3)
            text.replace(at, 1, "\n# ");
        std::printf("# %s:%d: %s\n", tr_lfile(failures[i]), tr_lno(failures[i]), text.c_str());
    }
    std::free(failures);
}

/// A suite of Check for each test, so that what became of it is told when it has ended.
bool passes(const SuiteTest& one, int number) {
    const SuiteOptions& options = all_options()[stem(one.test.file)];
    Suite* suite = suite_create(stem(one.test.file).c_str());
    TCase* tcase = tcase_create(one.test.name);
    tcase_set_timeout(tcase, options.timeout_s);
    if (options.before) tcase_add_checked_fixture(tcase, options.before, options.after);
    tcase_add_test(tcase, &one.test);
    suite_add_tcase(suite, tcase);
    SRunner* runner = srunner_create(suite);
    if (!options.fork) srunner_set_fork_status(runner, CK_NOFORK);
    std::fflush(stdout);  // before the test forks
    srunner_run_all(runner, CK_SILENT);
    const bool passed = srunner_ntests_run(runner) == 1 && srunner_ntests_failed(runner) == 0;
    std::printf("%s %d - %s\n", passed ? "ok" : "not ok", number, full_name(one).c_str());
    if (!passed) tell_failure(one, runner);
    srunner_free(runner);
    return passed;
}

int run(const std::vector<SuiteTest>& tests) {
    std::vector<SuiteTest> able;
    for (const SuiteTest& one : tests) {
        if (const std::string lacks = one.lacks(); lacks.empty())
            able.push_back(one);
        else
            std::printf("# SKIP %s: %s\n", full_name(one).c_str(), lacks.c_str());
    }
    std::printf("1..%zu%s\n", able.size(), able.empty() ? " # SKIP see above" : "");
    int number = 0, failed = 0;
    for (const SuiteTest& one : able) failed += !passes(one, ++number);
    return failed == 0 ? 0 : 1;
}

}  // namespace

bool add_to_suite(const SuiteTest& test) {
    all_tests().push_back(test);
    return true;
}

bool set_suite(const char* file, const SuiteOptions& options) {
    all_options()[stem(file)] = options;
    return true;
}

}  // namespace arena::test

int main(int count, char** words) {
    using namespace arena::test;
    if (count == 2 && std::strcmp(words[1], "--list") == 0) {
        for (const SuiteTest& one : in_order()) std::printf("%s\n", full_name(one).c_str());
        return 0;
    }
    const std::vector<SuiteTest> tests = chosen({words + 1, words + count});
    return tests.empty() ? 2 : run(tests);
}
