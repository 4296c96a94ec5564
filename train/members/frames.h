// SPDX-License-Identifier: GPL-2.0-or-later
// What a member's process and the array that trains it say to each other. The member calls, says
// what it wants to be trained, and receives the lines that it prints and the code that it ends
// with. Values alone: who may speak, and how lines travel, is the wire's (watch/wire).
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "train/members/member_options.h"

namespace arena::train {

inline constexpr std::size_t longest_array_frame = std::size_t{1} << 16;  ///< bytes

// ---- member -> array ---------------------------------------------------------------------------

/// The first frame, once.
struct MemberJoin {
    MemberOptions options;
};
/// It was told to leave: at the next iteration it is saved and ends.
struct MemberLeave {};
/// Answer to a ping.
struct MemberPong {};

// ---- array -> member ---------------------------------------------------------------------------

/// For its output, and for its log: a JSON object, "" = nothing.
struct MemberLine {
    std::string text, facts;
};
/// The last frame.
struct MemberExit {
    int code = 0;     ///< 0 to 255
    std::string why;  ///< for stderr; "" = nothing to say
};
/// Answered, or the member is dropped.
struct MemberPing {};

using ArrayFrame =
    std::variant<MemberJoin, MemberLeave, MemberPong, MemberLine, MemberExit, MemberPing>;

/// One line of JSON without its end: {"type":"exit","code":0,"why":""}. Text beyond the limits of
/// parse_array_frame() is cut.
std::string format_array_frame(const ArrayFrame&);
/// Untrusted: at most longest_array_frame bytes, every number finite and in range, every text
/// bounded and without control characters, paths absolute; unknown keys are left out.
Result<ArrayFrame> parse_array_frame(std::string_view);

}  // namespace arena::train
