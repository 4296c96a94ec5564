// SPDX-License-Identifier: GPL-2.0-or-later
// Where members' processes attach to an array, on its first rank. Each shows that it has the
// array's key (sealed lines, watch/wire), on a local socket that it is the same user; then says
// what it wants, and is told what becomes of it. Nothing here waits; the clock is the caller's.
//
// Limits: 32 callers that have not joined, each for 5 s; 1,024 members; what is sent and not read
// is at most 4 MiB of each, and who is behind by 1 MiB sits out. A member that answers nothing for
// 60 s is dropped.
#pragma once

#include <poll.h>

#include <list>
#include <vector>

#include "train/members/address.h"
#include "train/members/frames.h"
#include "train/members/member_source.h"
#include "watch/wire/line_stream.h"
#include "watch/wire/sealed_line.h"

namespace arena::train {

class MemberDesk {
  public:
    MemberDesk(const watch::WatchKey& key, FileDescriptor listening)
        : key_(key), listening_(std::move(listening)) {}

    [[nodiscard]] std::vector<pollfd> wanted() const;
    /// When there is something to do, and at least every second.
    void serve(double now_s);
    /// Since the last call.
    std::vector<MemberEvent> take_events();
    /// Nothing happens where it is gone.
    void send(MemberId, const ArrayFrame&);
    /// The last frame; its end is no event.
    void end(MemberId, const MemberExit&);
    [[nodiscard]] bool keeps_up(MemberId) const;
    /// Whether somebody has still to read its end.
    [[nodiscard]] bool has_enders() const;
    [[nodiscard]] std::int64_t refused() const { return refused_; }

  private:
    enum class State { stranger, known, member, ending };
    struct Caller {
        MemberId id = 0;
        watch::LineStream stream;
        std::string nonce;
        watch::Seal up, down;
        double since_s = 0, heard_s = 0, pinged_s = 0;
        State state = State::stranger;
    };
    void accept_callers(double now_s);
    void take_caller(FileDescriptor, double now_s);
    void serve(Caller&, double now_s);
    bool take_line(Caller&, std::string_view line);
    bool take_frame(Caller&, ArrayFrame);
    bool welcome(Caller&, std::string_view nonce);
    void keep_time(Caller&, double now_s);
    void refuse(Caller&);
    Caller* find(MemberId);
    static void say(Caller&, const ArrayFrame&);
    [[nodiscard]] std::size_t count(bool members) const;

    watch::WatchKey key_;
    FileDescriptor listening_;
    MemberId last_ = 0;
    std::list<Caller> callers_;
    std::vector<MemberEvent> events_;
    std::int64_t refused_ = 0;
};

}  // namespace arena::train
