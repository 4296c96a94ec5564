// SPDX-License-Identifier: GPL-2.0-or-later
// See chart.h.
#include "html/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "html/document.h"

namespace arena::html {
namespace {

constexpr std::string_view base_style = R"(
body{font:15px/1.45 system-ui,sans-serif;color:#1a1a1a;background:#fff;margin:0 auto;max-width:1280px;padding:1rem 1.5rem}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin:2rem 0 .5rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:0}dt{color:#555}dd{margin:0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
table{font-size:13px}th,td{padding:.2rem .5rem;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}caption{text-align:left;color:#555;padding:.3rem 0}
.wide{overflow-x:auto}figure{margin:0}figcaption{color:#444;margin:.3rem 0}svg{width:100%;height:auto;display:block}
svg text{font:11px system-ui,sans-serif;fill:#333}
.grid{stroke:#e3e3e3;fill:none}.axis{stroke:#777;fill:none}.line{fill:none;stroke-width:1.8}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;padding:0}.legend svg{width:44px;display:inline-block;vertical-align:middle}
)";
constexpr std::size_t line_styles = 16;
constexpr std::string_view line_colours[] = {"#0072b2", "#d55e00", "#007a5a", "#b5467f",
                                             "#333333", "#7a6200", "#5f3dc4", "#c92a2a"};

constexpr double width = 640, height = 240, left = 62, right = 12, top = 10, bottom = 40;

/// Where values lie on the picture.
struct Scale {
    double from = 0, to = 1;
    bool logarithmic = false;
    double start = 0, length = 1;
    [[nodiscard]] double at(double v) const {
        const double part =
            logarithmic ? std::log(v / from) / std::log(to / from) : (v - from) / (to - from);
        return start + length * std::clamp(part, 0.0, 1.0);
    }
};

/// 1, 2 or 5 times a power of ten: about `wanted` steps to `most`.
double nice_step(double most, int wanted) {
    const double rough = most / wanted, power = std::pow(10, std::floor(std::log10(rough)));
    for (const double f : {1.0, 2.0, 5.0}) {
        if (f * power >= rough) return f * power;
    }
    return 10 * power;
}

double largest_y(const Chart& chart) {
    double most = 0;
    for (const Series& s : chart.series) {
        for (const auto& [x, y] : s.points) most = std::max(most, y);
    }
    return most > 1e-300 ? most : 1;  // a step of less is 0
}

Scale x_scale(const Chart& chart) {
    Scale scale{.from = chart.logarithmic ? 1.0 : 0.0,
                .to = 10,
                .logarithmic = chart.logarithmic,
                .start = left,
                .length = width - left - right};
    double least = 1e300, most = 0;
    for (const Series& s : chart.series) {
        if (s.points.empty()) continue;
        least = std::min(least, s.points.front().first);
        most = std::max(most, s.points.back().first);
    }
    if (most <= 0) return scale;
    scale.to = most;
    if (chart.logarithmic) {
        scale.from = least / 1.2;
        scale.to = std::max(most * 1.05, scale.from * 10);
    }
    return scale;
}

std::string tick_x(double x, std::string_view label) {
    return fmt::format(
        "<path class=\"grid\" d=\"M{0} {1}V{2}\"/><text x=\"{0}\" y=\"{3}\" "
        "text-anchor=\"middle\">{4}</text>",
        pixel(x), pixel(top), pixel(height - bottom), pixel(height - bottom + 14), label);
}

std::string x_axis(const Chart& chart, const Scale& x) {
    std::string out;
    if (chart.ratios) {
        for (const double v : {0.001, 0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0}) {
            if (v >= x.from && v <= x.to) out += tick_x(x.at(v), fmt::format("{:g}", v));
        }
    } else if (chart.logarithmic) {
        static constexpr double times[] = {0.1,  1,        10,    60,     600,
                                           3600, 6 * 3600, 86400, 864000, 8640000};
        for (const double v : times) {
            if (v >= x.from && v <= x.to) out += tick_x(x.at(v), short_time(v));
        }
    } else {
        for (const double v : time_ticks(x.to, 6)) out += tick_x(x.at(v), short_time(v));
    }
    return out + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                             pixel(left + (width - left - right) / 2), pixel(height - 6),
                             escaped(chart.x_label));
}

std::string y_axis(const Chart& chart, const Scale& y) {
    std::string out;
    const double step = nice_step(y.to, 5);
    for (double v = 0; v <= y.to * 1.0001; v += step) {
        out += fmt::format(
            "<path class=\"grid\" d=\"M{0} {1}H{2}\"/><text x=\"{3}\" y=\"{4}\" "
            "text-anchor=\"end\">{5}</text>",
            pixel(left), pixel(y.at(v)), pixel(width - right), pixel(left - 5), pixel(y.at(v) + 4),
            chart.percent ? fmt::format("{:.0f}%", 100 * v) : readable(v));
    }
    return out;
}

std::string line(const Series& series, std::size_t style, const Scale& x, const Scale& y) {
    if (series.points.empty()) return "";
    std::string d;
    std::string last_x, last_y;
    for (const auto& [px, py] : series.points) {
        const std::string sx = pixel(x.at(px)), sy = pixel(y.at(py));
        if (d.empty()) {
            d = "M" + sx + " " + sy;
        } else {
            if (sx != last_x) d += "H" + sx;
            if (sy != last_y) d += "V" + sy;
        }
        last_x = sx;
        last_y = sy;
    }
    return fmt::format("<path class=\"line s{}\" d=\"{}\"><title>{}</title></path>",
                       style % line_styles, d, escaped(series.name));
}

}  // namespace

std::string chart_style() {
    std::string out(base_style);
    for (std::size_t i = 0; i < line_styles; ++i) {
        static constexpr std::string_view dashes[] = {"none", "7 3", "2 3", "9 3 2 3"};
        out += fmt::format(".s{}{{stroke:{};stroke-dasharray:{}}}", i, line_colours[i % 8],
                           dashes[(i + i / 8) % 4]);
    }
    return out;
}

std::string facts_list(const Facts& facts) {
    std::string out = "<dl>";
    for (const auto& [name, value] : facts)
        out += fmt::format("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value, 400));
    return out + "</dl>\n";
}

std::string table_head(const std::vector<std::string_view>& columns) {
    std::string out = "<thead><tr>";
    for (const std::string_view name : columns)
        out += fmt::format("<th scope=\"col\">{}</th>", escaped(name));
    return out + "</tr></thead><tbody>\n";
}

std::string legend(const std::vector<std::string>& names) {
    std::string out = "<ul class=\"legend\">";
    for (std::size_t i = 0; i < names.size(); ++i)
        out += fmt::format(
            "<li><svg viewBox=\"0 0 44 8\" aria-hidden=\"true\"><path class=\"line s{}\" "
            "d=\"M0 4H44\"/></svg> {}</li>",
            i % line_styles, escaped(names[i]));
    return out + "</ul>\n";
}

std::string pixel(double value) {
    const double tenths = std::round(value * 10) / 10;
    return fmt::format("{}", tenths == 0 ? 0.0 : tenths);
}

std::string readable(double value) {
    if (std::abs(value) < 10) return fmt::format("{:.3g}", value);
    std::string digits = fmt::format("{:.0f}", value);
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0);
         at -= 3) {
        digits.insert(static_cast<std::size_t>(at), ",");
    }
    return digits;
}

std::string short_time(double seconds) {
    if (seconds < 60) return fmt::format("{:.3g} s", seconds);
    if (seconds < 3600) return fmt::format("{:.3g} min", seconds / 60);
    if (seconds < 86400) return fmt::format("{:.3g} h", seconds / 3600);
    return fmt::format("{:.3g} d", seconds / 86400);
}

std::vector<double> time_ticks(double most_s, int wanted) {
    static constexpr double steps[] = {1,     2,     5,     10,     30,     60,
                                       120,   300,   600,   1200,   3600,   7200,
                                       21600, 43200, 86400, 172800, 432000, 864000};
    const double rough = most_s / wanted;
    double step = 0;
    for (const double s : steps) {
        step = s;
        if (s >= rough) break;
    }
    if (step < rough) step = 86400 * nice_step(most_s / 86400, wanted);
    std::vector<double> ticks;
    for (double v = 0; v <= most_s; v += step) ticks.push_back(v);
    return ticks;
}

std::string chart_svg(const Chart& chart) {
    const Scale x = x_scale(chart);
    const Scale y{.to = chart.percent ? 1 : largest_y(chart),
                  .start = height - bottom,
                  .length = -(height - bottom - top)};
    std::string out = fmt::format(
        "<figure><figcaption>{0}</figcaption>\n<svg viewBox=\"0 0 {1} {2}\" role=\"img\" "
        "aria-label=\"{0}: {3}\">",
        escaped(chart.title, 200), width, height, escaped(chart.summary, 1000));
    out += x_axis(chart, x) + y_axis(chart, y);
    for (std::size_t i = 0; i < chart.series.size(); ++i) out += line(chart.series[i], i, x, y);
    return out + "</svg></figure>\n";
}

}  // namespace arena::html
