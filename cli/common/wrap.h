// SPDX-License-Identifier: GPL-2.0-or-later
// Text for people in lines that fit a terminal. Titles and cells of tables (cli.h) take several
// lines where they must; a plan, which people paste, then goes below its row in one piece.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace arena::cli {

/// Of a line where nothing says how wide the terminal is: a file, a pipe.
inline constexpr std::size_t usual_line_width = 100;
/// Columns of the terminal that standard output is, 60 to 300; usual_line_width where it is none.
std::size_t line_width();

/// Lines of at most `width` bytes, at least 1, broken at blanks, else behind commas and the like,
/// else anywhere.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);
/// `first`, then the text, its further lines below its beginning.
void print_wrapped(const std::string& first, std::string_view text);

}  // namespace arena::cli
