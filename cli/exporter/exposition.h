// SPDX-License-Identifier: GPL-2.0-or-later
// Metrics as text: Prometheus' format 0.0.4, which everybody reads, and OpenMetrics 1.0, which
// differs in how counters are declared and in its end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace arena::cli {

enum class MetricsFormat { prometheus, openmetrics };

using Labels = std::vector<std::pair<std::string_view, std::string>>;

class Exposition {
  public:
    enum class Type { counter, gauge, histogram };

    explicit Exposition(MetricsFormat format) : format_(format) {}
    /// Begins a family; the samples that follow are its own. Of a counter without "_total".
    void family(std::string_view name, Type type, std::string_view help);
    void sample(const Labels& labels, double value);
    /// counts: of each bucket alone; one more than bounds.
    void buckets(const Labels& labels, std::span<const double> bounds,
                 std::span<const std::uint64_t> counts, double sum);
    /// All of it, with its end.
    [[nodiscard]] std::string text() const;
    static std::string_view content_type(MetricsFormat format);

  private:
    void line(std::string_view suffix, const Labels& labels, double value);

    MetricsFormat format_;
    std::string name_, text_;
    Type type_ = Type::gauge;
};

/// As a label's value: backslash, quote and line feed escaped.
std::string escape_label(std::string_view value);
/// What a client accepts, by its Accept header.
MetricsFormat format_for(std::string_view accept);

}  // namespace arena::cli
