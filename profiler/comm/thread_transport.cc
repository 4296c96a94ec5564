// SPDX-License-Identifier: GPL-2.0-or-later
// See thread_transport.h. A collective is: show where my buffers are, wait for all, read theirs,
// wait again, so that nobody changes what another still reads.
#include "profiler/comm/thread_transport.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace arena {
namespace {

class ThreadTransport;

/// Where `size` ranks wait for one another.
struct Meeting {
    std::size_t size = 0, here = 0;
    std::uint64_t round = 0;
};

struct Shared {
    void meet(Meeting& meeting) {
        std::unique_lock lock(mutex);
        if (lost.empty()) {
            const auto mine = meeting.round;
            if (++meeting.here == meeting.size) {
                meeting.here = 0;
                ++meeting.round;
                changed.notify_all();
                return;
            }
            changed.wait(lock, [&] { return !lost.empty() || meeting.round != mine; });
            if (meeting.round != mine) return;
        }
        throw std::runtime_error(lost);
    }
    std::mutex mutex;
    std::condition_variable changed;
    std::string lost;
    Meeting all;
    std::vector<std::unique_ptr<ThreadTransport>> ranks;
};

class ThreadTransport final : public Transport {
  public:
    ThreadTransport(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

    std::string name() const override { return "threads"; }
    int rank() const override { return rank_; }
    std::vector<int> first_on_node() override { return std::vector<int>(shared_.ranks.size()); }
    void broadcast(std::span<char> bytes) override {
        bytes_ = bytes;
        shared_.meet(shared_.all);
        if (rank_ != 0) std::copy_n(shared_.ranks[0]->bytes_.data(), bytes.size(), bytes.data());
        shared_.meet(shared_.all);
    }
    void largest(std::span<double> numbers) override {
        numbers_.assign(numbers.begin(), numbers.end());
        shared_.meet(shared_.all);
        for (const auto& other : shared_.ranks)
            for (std::size_t i = 0; i < numbers.size(); ++i)
                numbers[i] = std::max(numbers[i], other->numbers_[i]);
        shared_.meet(shared_.all);
    }
    void regroup(int group) override {
        group_ = group;
        shared_.meet(shared_.all);
        members_.clear();
        for (const auto& other : shared_.ranks) {
            if (other.get() == this) place_ = members_.size();
            if (other->group_ == group) members_.push_back(other.get());
        }
        if (place_ == 0) meeting_ = {members_.size()};
        shared_.meet(shared_.all);
    }
    void meet() override { shared_.meet(members_[0]->meeting_); }

    void collective(CommOp op, const float* send, float* receive, std::size_t floats) override {
        send_ = send;
        receive_ = receive;
        meet();
        const std::size_t ranks = members_.size(), each = floats / ranks;
        switch (op) {
            case CommOp::all_reduce:
                reduce(floats, receive);
                break;
            case CommOp::all_gather:
                for (std::size_t i = 0; i < ranks; ++i)
                    std::copy_n(members_[i]->send_, each, receive + i * each);
                break;
            case CommOp::reduce_scatter:
                sum(place_ * each, (place_ + 1) * each, receive);
                break;
            case CommOp::all_to_all:
                for (std::size_t i = 0; i < ranks; ++i)
                    std::copy_n(members_[i]->send_ + place_ * each, each, receive + i * each);
                break;
            case CommOp::send:
                std::copy_n(members_[(place_ + ranks - 1) % ranks]->send_, floats, receive);
                break;
        }
        meet();
    }
    std::string lost() const override {
        const std::lock_guard lock(shared_.mutex);
        return shared_.lost;
    }
    void give_up(int) override {
        const std::lock_guard lock(shared_.mutex);
        if (shared_.lost.empty()) shared_.lost = "rank " + std::to_string(rank_) + " has failed";
        shared_.changed.notify_all();
    }

  private:
    /// Of the numbers [begin, end) of all ranks.
    void sum(std::size_t begin, std::size_t end, float* to) const {
        std::copy(members_[0]->send_ + begin, members_[0]->send_ + end, to);
        for (std::size_t i = 1; i < members_.size(); ++i)
            for (std::size_t k = begin; k < end; ++k) to[k - begin] += members_[i]->send_[k];
    }
    /// Each rank sums its share, and takes the others' from them.
    void reduce(std::size_t floats, float* to) {
        const std::size_t ranks = members_.size();
        const auto share = [&](std::size_t i) { return floats * i / ranks; };
        sum(share(place_), share(place_ + 1), to + share(place_));
        meet();
        for (std::size_t i = 0; i < ranks; ++i)
            if (i != place_)
                std::copy(members_[i]->receive_ + share(i), members_[i]->receive_ + share(i + 1),
                          to + share(i));
    }

    Shared& shared_;
    int rank_, group_ = -1;
    std::span<char> bytes_;
    std::vector<double> numbers_;
    std::vector<ThreadTransport*> members_;
    std::size_t place_ = 0;
    Meeting meeting_;  ///< the group's, of its first rank
    const float* send_ = nullptr;
    float* receive_ = nullptr;
};

}  // namespace

int run_in_threads(int ranks, const std::function<int(Transport&)>& body) {
    Shared shared;
    shared.all.size = static_cast<std::size_t>(ranks);
    for (int rank = 0; rank < ranks; ++rank)
        shared.ranks.push_back(std::make_unique<ThreadTransport>(shared, rank));
    std::vector<int> codes(shared.ranks.size());
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < codes.size(); ++i)
            threads.emplace_back([&, i] { codes[i] = body(*shared.ranks[i]); });
    }
    return *std::max_element(codes.begin(), codes.end());
}

}  // namespace arena
