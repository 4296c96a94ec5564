// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/members/serving_desk.h"

#include <chrono>
#include <utility>

namespace arena::train {
namespace {

constexpr int look_every_ms = 100;
constexpr auto longest_farewell = std::chrono::seconds(10);

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

ServingDesk::ServingDesk(MemberDesk desk)
    : desk_(std::move(desk)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

ServingDesk::~ServingDesk() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, longest_farewell, [&] { return !desk_.has_enders(); });
}

void ServingDesk::run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
        desk_.serve(now_s());
        for (MemberEvent& event : desk_.take_events()) events_.push_back(std::move(event));
        changed_.notify_all();
        std::vector<pollfd> wanted = desk_.wanted();
        lock.unlock();
        ::poll(wanted.data(), wanted.size(), look_every_ms);
        lock.lock();
    }
}

std::vector<MemberEvent> ServingDesk::take_events() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
}

void ServingDesk::wait(double seconds) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                      [&] { return !events_.empty(); });
}

bool ServingDesk::keeps_up(MemberId id) {
    const std::lock_guard lock(mutex_);
    return desk_.keeps_up(id);
}

void ServingDesk::tell(MemberId id, const std::string& text, const std::string& facts) {
    const std::lock_guard lock(mutex_);
    desk_.send(id, MemberLine{text, facts});
}

void ServingDesk::end(MemberId id, int code, const std::string& why) {
    const std::lock_guard lock(mutex_);
    desk_.end(id, {code, why});
}

std::int64_t ServingDesk::refused() {
    const std::lock_guard lock(mutex_);
    return desk_.refused();
}

}  // namespace arena::train
