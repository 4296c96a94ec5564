// SPDX-License-Identifier: GPL-2.0-or-later
// See lease.h.
#include "policy/loans/lease.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <utility>

#include "base/text.h"

namespace arena {
namespace {

constexpr std::size_t most_bytes = 512;
constexpr std::int64_t most_loans = 1'000'000'000'000'000'000, latest_s = 1'000'000'000'000;
constexpr std::array<std::pair<LeaseState, std::string_view>, 4> states{
    {{LeaseState::offered, "offered"},
     {LeaseState::lent, "lent"},
     {LeaseState::returning, "returning"},
     {LeaseState::broken, "broken"}}};

/// The first problem of a lease's text; which words it had.
class LeaseReader {
  public:
    Status take(std::string_view word) {
        const std::size_t equals = word.find('=');
        if (equals == std::string_view::npos) return refuse(word, "is not KEY=VALUE");
        const std::string_view key = word.substr(0, equals), value = word.substr(equals + 1);
        for (std::size_t i = 0; i < keys.size(); ++i) {
            if (key != keys[i]) continue;
            if (std::exchange(had_[i], true)) return refuse(word, "is there twice");
            return read(i, word, value);
        }
        return refuse(word, "is not one of loan, state, since, until, ends");
    }
    Result<Lease> finish() const {
        if (!had_[1])
            return usage_error("state=offered, lent, returning or broken is missing", "lease");
        if (lease_.state == LeaseState::returning && lease_.until_s == 0)
            return usage_error("a returning lease needs its deadline, until=SECONDS", "lease");
        if (lease_.state != LeaseState::returning && !lease_.ends.empty())
            return usage_error("only a returning lease has jobs that are let run, ends=", "lease");
        return lease_;
    }

  private:
    static constexpr std::array<std::string_view, 5> keys{"loan", "state", "since", "until",
                                                          "ends"};

    static Error refuse(std::string_view word, std::string_view why) {
        return usage_error(fmt::format("\"{}\" {}", printable(word), why), "lease");
    }
    Status read(std::size_t key, std::string_view word, std::string_view value) {
        if (key == 0) {
            const auto loan = parse_loan_name(value);
            if (!loan) return loan.error();
            lease_.loan = *loan;
        } else if (key == 1) {
            const auto state = parse_lease_state(value);
            if (!state) return refuse(word, "is not offered, lent, returning or broken");
            lease_.state = *state;
        } else if (key == 4) {
            return read_ends(word, value);
        } else {
            const auto time = parse_integer(value, 1, latest_s);
            if (!time) return refuse(word, "is no time in epoch seconds");
            (key == 2 ? lease_.since_s : lease_.until_s) = *time;
        }
        return Done{};
    }

    Status read_ends(std::string_view word, std::string_view value) {
        for (const std::string_view text : split(value, ':')) {
            const auto job = parse_integer(text, 1, UINT32_MAX);
            const auto last = lease_.ends.empty() ? 0 : lease_.ends.back();
            if (!job || *job <= last || lease_.ends.size() == Lease::most_ends)
                return refuse(word, fmt::format("is no list of at most {} ascending jobs, as 12:15",
                                                Lease::most_ends));
            lease_.ends.push_back(static_cast<std::uint32_t>(*job));
        }
        return Done{};
    }

    Lease lease_;
    std::array<bool, 5> had_{};
};

}  // namespace

std::string_view to_string(LeaseState state) {
    for (const auto& [known, name] : states)
        if (known == state) return name;
    return "broken";
}

std::optional<LeaseState> parse_lease_state(std::string_view name) {
    for (const auto& [state, known] : states)
        if (known == name) return state;
    return std::nullopt;
}

std::string loan_name(LoanNumber loan) { return fmt::format("L{}", loan); }

Result<LoanNumber> parse_loan_name(std::string_view text) {
    const auto number = text.starts_with('L') && !text.starts_with("L0")
                            ? parse_integer(text.substr(1), 1, most_loans)
                            : std::nullopt;
    if (!number || loan_name(static_cast<LoanNumber>(*number)) != text)
        return usage_error(fmt::format("\"{}\" is no loan: L and a number from 1", printable(text)),
                           "loan");
    return static_cast<LoanNumber>(*number);
}

std::string format_lease(const Lease& lease) {
    std::string text =
        fmt::format("loan={} state={}", loan_name(lease.loan), to_string(lease.state));
    if (lease.since_s > 0) text += fmt::format(" since={}", lease.since_s);
    if (lease.until_s > 0) text += fmt::format(" until={}", lease.until_s);
    if (!lease.ends.empty()) text += fmt::format(" ends={}", fmt::join(lease.ends, ":"));
    return text;
}

Result<Lease> parse_lease(std::string_view text) {
    if (text.size() > most_bytes)
        return usage_error(fmt::format("longer than {} bytes", most_bytes), "lease");
    if (!text.starts_with("loan="))
        return usage_error("does not begin with loan=L and a number", "lease");
    LeaseReader reader;
    for (const std::string_view word : split(text, ' '))
        if (const Status status = reader.take(word); !status) return status.error();
    return reader.finish();
}

}  // namespace arena
