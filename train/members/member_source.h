// SPDX-License-Identifier: GPL-2.0-or-later
// Where members come from and what is told to them, as the array's first rank sees it. An
// interface: behind it are processes that attach (desk.h), or the script of a test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/members/member_options.h"

namespace arena::train {

/// An attached member; never given again.
using MemberId = std::int64_t;

struct MemberEvent {
    enum class What {
        join,   ///< it says what it wants
        leave,  ///< it was told to: saved, then it ends
        gone,   ///< nobody is there any more
    };
    What what = What::join;
    MemberId id = 0;
    MemberOptions options;  ///< of a join
};

class MemberSource {
  public:
    MemberSource() = default;
    MemberSource(const MemberSource&) = delete;
    MemberSource& operator=(const MemberSource&) = delete;
    virtual ~MemberSource() = default;
    /// What happened since the last call. Never waits, as all but wait().
    virtual std::vector<MemberEvent> take_events() = 0;
    /// Until there is an event, at most so long.
    virtual void wait(double seconds) = 0;
    /// False: so much waits to be sent to it that it has to sit out.
    virtual bool keeps_up(MemberId) = 0;
    /// For its output and its log (a JSON object, or "").
    virtual void tell(MemberId, const std::string& text, const std::string& facts) = 0;
    /// It ends with this code; `why`: a sentence for its stderr, or "".
    virtual void end(MemberId, int code, const std::string& why) = 0;
};

}  // namespace arena::train
