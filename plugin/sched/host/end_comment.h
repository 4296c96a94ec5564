// SPDX-License-Identifier: GPL-2.0-or-later
// What the comment of a job says once the job is over, and of slow GPUs: pure rules, in
// classify.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace arena {

/// The comment with Slurm's word for the job's end ("COMPLETED") as its state; nothing where it
/// says so already, where the job ran without Arena (state=off), or where the comment is not ours.
std::optional<std::string> comment_of_end(std::string_view comment, std::string_view end);

/// The comment with this word ("gpu_s=12.30") at its end, in place of that of the same key.
std::string with_word(std::string_view comment, std::string_view word);

/// What such a word says; 0: it is not there, or no number.
double number_in(std::string_view comment, std::string_view key);

/// The comment with these words ("slow=n3/1:compute:x2.1 action=S2 lost=41s") at its end, in place
/// of those that it had.
std::string with_slow_words(std::string_view comment, std::string_view words);

}  // namespace arena
