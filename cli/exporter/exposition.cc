// SPDX-License-Identifier: GPL-2.0-or-later
// See exposition.h.
#include "cli/exporter/exposition.h"

#include <fmt/format.h>

#include <cmath>

namespace arena::cli {
namespace {

std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    return fmt::format("{}", value);
}

std::string_view name_of(Exposition::Type type) {
    switch (type) {
        case Exposition::Type::counter:
            return "counter";
        case Exposition::Type::gauge:
            return "gauge";
        case Exposition::Type::histogram:
            break;
    }
    return "histogram";
}

}  // namespace

std::string escape_label(std::string_view value) {
    std::string out;
    for (const char c : value) {
        if (c == '\n') {
            out += "\\n";
            continue;
        }
        if (c == '\\' || c == '"') out += '\\';
        out += c;
    }
    return out;
}

MetricsFormat format_for(std::string_view accept) {
    return accept.find("application/openmetrics-text") != std::string_view::npos
               ? MetricsFormat::openmetrics
               : MetricsFormat::prometheus;
}

std::string_view Exposition::content_type(MetricsFormat format) {
    return format == MetricsFormat::openmetrics
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

void Exposition::family(std::string_view name, Type type, std::string_view help) {
    name_ = name;
    type_ = type;
    const bool total = type == Type::counter && format_ == MetricsFormat::prometheus;
    text_ += fmt::format("# HELP {0}{1} {2}\n# TYPE {0}{1} {3}\n", name, total ? "_total" : "",
                         help, name_of(type));
}

void Exposition::line(std::string_view suffix, const Labels& labels, double value) {
    text_ += fmt::format("{}{}", name_, suffix);
    char before = '{';
    for (const auto& [label, word] : labels) {
        text_ += fmt::format("{}{}=\"{}\"", before, label, escape_label(word));
        before = ',';
    }
    text_ += fmt::format("{} {}\n", labels.empty() ? "" : "}", number(value));
}

void Exposition::sample(const Labels& labels, double value) {
    line(type_ == Type::counter ? "_total" : "", labels, value);
}

void Exposition::buckets(const Labels& labels, std::span<const double> bounds,
                         std::span<const std::uint64_t> counts, double sum) {
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        below += counts[i];
        Labels with = labels;
        with.emplace_back("le", number(i < bounds.size() ? bounds[i] : INFINITY));
        line("_bucket", with, static_cast<double>(below));
    }
    line("_sum", labels, sum);
    line("_count", labels, static_cast<double>(below));
}

std::string Exposition::text() const {
    return format_ == MetricsFormat::openmetrics ? text_ + "# EOF\n" : text_;
}

}  // namespace arena::cli
