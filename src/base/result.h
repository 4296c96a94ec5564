// SPDX-License-Identifier: GPL-2.0-or-later
// Result<T>: a value, or an Error with code, sentence and place. Expected failures (bad input, a
// full disk, a plan that does not fit) travel as values; exceptions are for bugs. C++20 has no
// std::expected.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace arena {

/// What kind of failure; its number is what a program that fails with it exits with.
enum class ErrorCode {
    no = 1,           ///< well-formed question, negative answer (infeasible, not found)
    usage = 2,        ///< the caller's input is wrong (value, syntax, range)
    environment = 3,  ///< the machine refused (I/O, missing file, permission, version)
};
constexpr int exit_code(ErrorCode code) { return static_cast<int>(code); }

struct Error {
    ErrorCode code = ErrorCode::usage;
    std::string text;   ///< one sentence: what is wrong, accepted values, what to do
    std::string where;  ///< file:line:column, option or field name; may be empty

    /// "where: text", or only text when where is empty.
    [[nodiscard]] std::string message() const { return where.empty() ? text : where + ": " + text; }
    bool operator==(const Error&) const = default;
};

inline Error usage_error(std::string text, std::string where = {}) {
    return {ErrorCode::usage, std::move(text), std::move(where)};
}
inline Error no_error(std::string text, std::string where = {}) {
    return {ErrorCode::no, std::move(text), std::move(where)};
}
inline Error environment_error(std::string text, std::string where = {}) {
    return {ErrorCode::environment, std::move(text), std::move(where)};
}

template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    [[nodiscard]] bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }
    [[nodiscard]] const T& value() const& { return *checked(std::get_if<0>(&state_)); }
    [[nodiscard]] T& value() & { return *checked(std::get_if<0>(&state_)); }
    [[nodiscard]] T&& value() && { return std::move(*checked(std::get_if<0>(&state_))); }
    [[nodiscard]] const Error& error() const { return *checked(std::get_if<1>(&state_)); }
    const T& operator*() const& { return value(); }
    T& operator*() & { return value(); }
    const T* operator->() const { return &value(); }
    T* operator->() { return &value(); }

  private:
    template <typename P>
    static P* checked(P* p) {
        assert(p != nullptr);
        return p;
    }
    std::variant<T, Error> state_;
};

/// Result<Done>: success without a value.
struct Done {
    bool operator==(const Done&) const = default;
};
using Status = Result<Done>;

}  // namespace arena
