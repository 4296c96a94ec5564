// SPDX-License-Identifier: GPL-2.0-or-later
// The desk with a thread of its own, so that members are heard while the rank computes.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "train/members/desk.h"

namespace arena::train {

class ServingDesk final : public MemberSource {
  public:
    explicit ServingDesk(MemberDesk desk);
    /// Waits, for 10 s at most, until who was told its end has read it.
    ~ServingDesk() override;
    std::vector<MemberEvent> take_events() override;
    void wait(double seconds) override;
    bool keeps_up(MemberId) override;
    void tell(MemberId, const std::string& text, const std::string& facts) override;
    void end(MemberId, int code, const std::string& why) override;
    /// Callers without the key, or of another user, so far.
    std::int64_t refused();

  private:
    void run(const std::stop_token&);
    std::mutex mutex_;
    std::condition_variable changed_;
    MemberDesk desk_;
    std::vector<MemberEvent> events_;
    std::jthread thread_;  ///< last: it uses all of the above
};

}  // namespace arena::train
