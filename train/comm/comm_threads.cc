// SPDX-License-Identifier: GPL-2.0-or-later
// Ranks as threads of one process. A collective is: show where my values are, wait for all, work on
// my share of the elements (sums always in the order of the ranks), wait, take the result. A rank
// that ends with an exception breaks what the others wait at: they end, too, but none while another
// may still read what it has shown. So does one that gives a group up.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "train/comm/comm.h"

namespace arena::train {
namespace {

/// What the ranks that waited for one that has ended get.
struct AnotherRankEnded {};

/// Until when ranks wait; nothing: for ever.
using End = std::optional<std::chrono::steady_clock::time_point>;

/// A place where ranks wait for one another. Broken it lets nobody wait.
class Meeting {
  public:
    void break_up() {
        const std::lock_guard lock(mutex_);
        broken_ = true;
        changed_.notify_all();
    }

  protected:
    /// Where nobody may begin to wait: one who left would be waited for.
    void refuse_if_broken() const {
        if (broken_) throw AnotherRankEnded{};
    }
    /// At the end it is broken, for all.
    template <typename Ready>
    void wait(std::unique_lock<std::mutex>& lock, Ready ready, const End& end) {
        const auto awake = [&] { return broken_ || ready(); };
        if (!end) {
            changed_.wait(lock, awake);
        } else if (!changed_.wait_until(lock, *end, awake)) {
            broken_ = true;
            changed_.notify_all();
        }
        if (!ready()) throw AnotherRankEnded{};
    }
    std::mutex mutex_;
    std::condition_variable changed_;

  private:
    bool broken_ = false;
};

class Barrier : public Meeting {
  public:
    explicit Barrier(int size) : size_(size) {}
    /// All get past it or none: a rank that was sent away stays counted, so nobody arrives at a
    /// broken one.
    void arrive_and_wait(const End& end = {}) {
        std::unique_lock lock(mutex_);
        refuse_if_broken();
        const std::uint64_t mine = arrive();
        wait(
            lock, [&] { return round_ != mine; }, end);
    }
    /// For all that got past arrive_and_wait() and arrive here whatever happens: broken or not, it
    /// holds each until the last has come.
    void arrive_and_finish() {
        std::unique_lock lock(mutex_);
        const std::uint64_t mine = arrive();
        changed_.wait(lock, [&] { return round_ != mine; });
    }

  private:
    /// The round that it belongs to.
    std::uint64_t arrive() {
        const std::uint64_t mine = round_;
        if (++arrived_ == size_) {
            arrived_ = 0;
            round_ += 1;
            changed_.notify_all();
        }
        return mine;
    }
    int size_, arrived_ = 0;
    std::uint64_t round_ = 0;
};

class Mailbox : public Meeting {
  public:
    void put(std::span<const float> values) {
        const std::lock_guard lock(mutex_);
        messages_.emplace_back(values.begin(), values.end());
        changed_.notify_one();
    }
    void take(std::span<float> values, const End& end) {
        std::unique_lock lock(mutex_);
        wait(
            lock, [&] { return !messages_.empty(); }, end);
        std::copy(messages_.front().begin(), messages_.front().end(), values.begin());
        messages_.pop_front();
    }

  private:
    std::deque<std::vector<float>> messages_;
};

/// What the ranks of one group share.
struct Group {
    explicit Group(int n)
        : size(n),
          barrier(n),
          shown(static_cast<std::size_t>(n)),
          colors(shown.size()),
          keys(shown.size()),
          groups(shown.size()),
          boxes(shown.size() * shown.size()) {}
    int size;
    Barrier barrier;
    std::vector<const void*> shown;
    std::vector<int> colors, keys;
    std::vector<std::shared_ptr<Group>> groups;
    std::vector<Mailbox> boxes;  ///< [from * size + to]
    std::vector<std::byte> result;

    std::shared_ptr<Group> part(int members) {
        const std::lock_guard lock(mutex);
        auto made = std::make_shared<Group>(members);
        if (broken) made->break_up();
        parts.push_back(made);
        return made;
    }
    /// Of this group and all that were split from it.
    void break_up() {
        barrier.break_up();
        for (Mailbox& box : boxes) box.break_up();
        const std::lock_guard lock(mutex);
        broken = true;
        for (const auto& weak : parts)
            if (const auto one = weak.lock()) one->break_up();
    }

  private:
    std::mutex mutex;  ///< of what follows
    bool broken = false;
    std::vector<std::weak_ptr<Group>> parts;
};

class ThreadComm final : public Comm {
  public:
    ThreadComm(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return group_->size; }
    [[nodiscard]] int node_rank() override { return rank_; }

    void all_reduce_sum(std::span<float> v) override { reduce(v, add<float>); }
    void all_reduce_sum(std::span<double> v) override { reduce(v, add<double>); }
    void all_reduce_max(std::span<float> v) override {
        reduce(v, [](float a, float b) { return a < b ? b : a; });
    }
    void reduce_scatter(std::span<const float> whole, std::span<float> part) override {
        std::vector<float> sum(part.size());  // before the others read what this rank would free
        show(whole.data());
        fold(static_cast<std::size_t>(rank_) * part.size(), std::span(sum), add<float>);
        group_->barrier.arrive_and_finish();
        std::copy(sum.begin(), sum.end(), part.begin());
    }
    void all_gather(std::span<const float> part, std::span<float> whole) override {
        show(part.data());
        for (std::size_t r = 0; r < group_->shown.size(); ++r) {
            float* const to = whole.data() + r * part.size();
            if (to != group_->shown[r]) std::memcpy(to, group_->shown[r], part.size_bytes());
        }
        group_->barrier.arrive_and_finish();
    }
    void broadcast(std::span<std::byte> bytes, int root) override {
        show(bytes.data());
        if (rank_ != root)
            std::memcpy(bytes.data(), group_->shown[static_cast<std::size_t>(root)], bytes.size());
        group_->barrier.arrive_and_finish();
    }
    void send(std::span<const float> values, int to) override { mailbox(rank_, to).put(values); }
    void receive(std::span<float> values, int from) override {
        mailbox(from, rank_).take(values, {});
    }
    void flush() override {}

    void transfer(std::span<float> values, int from, int to) override {
        if (rank_ == from)
            send(values, to);
        else
            in_time([&] { mailbox(from, rank_).take(values, end_); });
    }
    void meet(double) override {
        in_time([&] { group_->barrier.arrive_and_wait(end_); });
    }
    void limit(std::optional<double> seconds) override {
        end_.reset();
        if (seconds)
            end_ = std::chrono::steady_clock::now() +
                   std::chrono::nanoseconds(std::llround(*seconds * 1e9));
    }
    [[nodiscard]] bool has_limit() const override { return end_.has_value(); }
    [[nodiscard]] bool is_over() const override {
        return end_ && std::chrono::steady_clock::now() >= *end_;
    }

    std::unique_ptr<Comm> split(int color, int key) override {
        Group& g = *group_;
        g.colors[static_cast<std::size_t>(rank_)] = color;
        g.keys[static_cast<std::size_t>(rank_)] = key;
        g.barrier.arrive_and_wait();
        int first = -1, members = 0, mine = 0;
        for (int r = 0; r < g.size; ++r) {
            if (g.colors[static_cast<std::size_t>(r)] != color) continue;
            if (first < 0) first = r;
            if (std::pair(g.keys[static_cast<std::size_t>(r)], r) < std::pair(key, rank_)) ++mine;
            ++members;
        }
        if (first == rank_) g.groups[static_cast<std::size_t>(rank_)] = g.part(members);
        g.barrier.arrive_and_wait();
        auto comm = std::make_unique<ThreadComm>(g.groups[static_cast<std::size_t>(first)], mine);
        g.barrier.arrive_and_wait();
        return comm;
    }

  private:
    template <typename T>
    static T add(T a, T b) {
        return a + b;
    }
    Mailbox& mailbox(int from, int to) {
        return group_->boxes[static_cast<std::size_t>(from * group_->size + to)];
    }

    /// Puts my pointer where all see it; returns when all have done so. From here to the last
    /// arrive_and_finish() nothing may throw or wait for anything else.
    void show(const void* values) {
        group_->shown[static_cast<std::size_t>(rank_)] = values;
        in_time([&] { group_->barrier.arrive_and_wait(end_); });
    }
    /// With a limit a broken group is one that was given up, by this rank or another.
    template <typename Wait>
    void in_time(Wait wait) {
        try {
            wait();
        } catch (const AnotherRankEnded&) {
            if (!end_) throw;
            group_->break_up();
            throw GivenUp{};
        }
    }
    /// to = the elements from `begin` on, folded over the ranks in their order.
    template <typename T, typename F>
    void fold(std::size_t begin, std::span<T> to, F f) {
        std::copy_n(static_cast<const T*>(group_->shown[0]) + begin, to.size(), to.data());
        for (std::size_t r = 1; r < group_->shown.size(); ++r) {
            const T* from = static_cast<const T*>(group_->shown[r]) + begin;
            for (std::size_t i = 0; i < to.size(); ++i) to[i] = f(to[i], from[i]);
        }
    }
    template <typename T, typename F>
    void reduce(std::span<T> v, F f) {
        if (group_->size == 1) return;
        if (rank_ == 0) group_->result.resize(v.size_bytes());
        show(v.data());
        const std::span result(reinterpret_cast<T*>(group_->result.data()), v.size());
        const auto ranks = group_->shown.size(), rank = static_cast<std::size_t>(rank_);
        const std::size_t begin = v.size() * rank / ranks, end = v.size() * (rank + 1) / ranks;
        fold(begin, result.subspan(begin, end - begin), f);
        group_->barrier.arrive_and_finish();
        std::ranges::copy(result, v.begin());
        group_->barrier.arrive_and_finish();
    }

    std::shared_ptr<Group> group_;
    int rank_;
    End end_;
};

}  // namespace

void run_threads(int ranks, const std::function<void(Comm&)>& body) {
    const auto group = std::make_shared<Group>(ranks);
    std::mutex mutex;
    std::exception_ptr first;
    const auto run = [&](int rank) {
        try {
            ThreadComm comm(group, rank);
            body(comm);
        } catch (const AnotherRankEnded&) {
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!first) first = std::current_exception();
            group->break_up();
        }
    };
    {
        std::vector<std::jthread> threads;
        for (int r = 1; r < ranks; ++r) threads.emplace_back(run, r);
        run(0);
    }
    if (first) std::rethrow_exception(first);
}

}  // namespace arena::train
