// SPDX-License-Identifier: GPL-2.0-or-later
// What pages with numbers have in common: their style, lines over an axis as inline SVG, facts,
// legends, and numbers for people. Charts need no script, so that they print and zoom.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace arena::html {

/// CSS of text, tables (class "wide" around one that may be wider than the page), figures, charts.
std::string chart_style();
/// "68,046" or, below ten, "2.75".
std::string readable(double value);
/// "45 s", "2.5 h", "6.94 d": one unit, for axes and tables.
std::string short_time(double seconds);
/// A coordinate in tenths of a pixel, without needless zeros.
std::string pixel(double value);
/// Round values from 0 to at most `most`, about `wanted` of them.
std::vector<double> time_ticks(double most_s, int wanted);

/// For people: ("trace", "philly.csv"), ("round", "300 s").
using Facts = std::vector<std::pair<std::string, std::string>>;
/// A value is cut to 400 bytes.
std::string facts_list(const Facts& facts);
/// A table up to its first row.
std::string table_head(const std::vector<std::string_view>& columns);

struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;  ///< x ascending; y holds until the next x
};
struct Chart {
    std::string title, x_label, summary = {};
    bool percent = false;      ///< y from 0 to 100 %, given as 0..1
    bool logarithmic = false;  ///< x > 0
    bool ratios = false;       ///< x is no time; logarithmic only
    std::vector<Series> series = {};
};
/// Lines have 16 styles (colour and dashes); series beyond take them again from the first.
std::string chart_svg(const Chart&);
/// What the lines of series of these names look like.
std::string legend(const std::vector<std::string>& names);

}  // namespace arena::html
