// SPDX-License-Identifier: GPL-2.0-or-later
// See documents.h.
#include "cli/exporter/documents.h"

#include <utility>

namespace arena::cli {

Documents::Documents(std::array<Ask, 2> ask, Limits limits, std::function<void()> on_answer)
    : ask_(std::move(ask)),
      limits_(limits),
      on_answer_(std::move(on_answer)),
      thread_([this] { run(); }) {}

Documents::~Documents() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wanted_.notify_all();
    thread_.join();
}

std::shared_ptr<const Document> Documents::get(DocumentKind kind, Clock::time_point now) {
    const auto index = static_cast<std::size_t>(kind);
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[index];
    if (slot.last && now - slot.at < limits_.young[index]) return slot.last;
    if (!slot.wanted) {
        slot.wanted = now;
        wanted_.notify_all();
    }
    if (now - *slot.wanted < limits_.patience) return nullptr;
    return std::make_shared<const Document>(
        Document{.text = {}, .problem = "the scheduler plug-in does not answer", .took_s = 0});
}

DocumentCounts Documents::counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
}

/// The one that is wanted the longest.
std::optional<std::size_t> Documents::next_question() {
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < slots_.size(); ++i)
        if (slots_[i].wanted && (!next || *slots_[i].wanted < *slots_[*next].wanted)) next = i;
    return next;
}

void Documents::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        wanted_.wait(lock, [this] { return stopping_ || next_question().has_value(); });
        if (stopping_) return;
        const std::size_t index = *next_question();
        lock.unlock();
        const auto begin = Clock::now();
        Result<std::string> answer = ask_[index]();
        const auto end = Clock::now();
        Document document{.text = answer ? std::move(answer).value() : std::string(),
                          .problem = answer ? std::string() : answer.error().message(),
                          .took_s = std::chrono::duration<double>(end - begin).count()};
        lock.lock();
        ++counts_.questions;
        counts_.failures += document.problem.empty() ? 0 : 1;
        slots_[index] = {.last = std::make_shared<const Document>(std::move(document)),
                         .at = end,
                         .wanted = std::nullopt};
        lock.unlock();
        on_answer_();
        lock.lock();
    }
}

}  // namespace arena::cli
