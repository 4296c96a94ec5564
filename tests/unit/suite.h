// SPDX-License-Identifier: GPL-2.0-or-later
// What a file of unit tests is made of: TEST(name) { } adds itself to its file's suite. Several
// files are one program (tests/unit/local.mk), whose main() is in suite.cc.
#pragma once

#include <check.h>
#undef fail  // Check's, and a function of every stream

#include <source_location>
#include <string>
#include <utility>

namespace arena::test {

struct SuiteTest {
    TTest test;
    std::string (*lacks)();  ///< what this machine is without, which the test needs; "" = it runs
};
bool add_to_suite(const SuiteTest& test);

/// Where `missing` says what this machine is without, the test is left out; contrib/check counts
/// each.
#define TEST_NEEDING(name, missing)                                                \
    static void name(int);                                                         \
    [[maybe_unused]] static const bool name##_added = arena::test::add_to_suite(   \
        {{#name, name, __FILE__, __LINE__}, [] { return std::string(missing); }}); \
    static void name(int)
#define TEST(name) TEST_NEEDING(name, "")

/// What the tests of a few files need: SUITE({.timeout_s = 300});
struct SuiteOptions {
    void (*before)() = nullptr;  ///< around each test
    void (*after)() = nullptr;
    double timeout_s = 120;  ///< for one that hangs: never the measure of anything; 0 = none
    bool fork = true;        ///< false: OpenMP's threads do not survive a fork
};
bool set_suite(const char* file, const SuiteOptions& options);
#define SUITE(...)                                         \
    [[maybe_unused]] static const bool has_suite_options = \
        arena::test::set_suite(__FILE__, arena::test::SuiteOptions __VA_ARGS__)

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
