// SPDX-License-Identifier: GPL-2.0-or-later
// See host_communicator.h. Each rank sends and receives at the same time, so that no two wait for
// each other with full buffers. A call's seconds are the host's clock around it.
#include "profiler/comm/host_communicator.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/text.h"
#include "profiler/core/recorder.h"
#include "profiler/core/request.h"

namespace arena {
namespace {

/// What goes to one rank and what comes from one.
struct Transfer {
    std::int64_t to = 0, from = 0;
    const std::byte* send = nullptr;
    std::size_t send_bytes = 0;
    std::byte* receive = nullptr;
    std::size_t receive_bytes = 0;
};

class HostCommunicator final : public Communicator {
  public:
    HostCommunicator(const CommSetup& setup, std::unique_ptr<PeerSockets> peers)
        : world_(setup.world),
          timeout_s_(setup.timeout_s),
          peers_(std::move(peers)),
          send_(static_cast<std::size_t>(setup.max_bytes)),
          receive_(send_.size()),
          scratch_(send_.size() / 2) {
        for (std::size_t i = 0; i < send_.size() / sizeof(float); ++i)
            floats(send_)[i] =
                static_cast<float>((i * 7 + static_cast<std::size_t>(world_.rank)) % 64);
    }

    Device device() const override {
        Device d;
        d.kind = "cpu";
        d.name = "host memory";
        d.library = "TCP";
        d.node = host_name();
        return d;
    }

    void regroup(std::int64_t group) override {
        std::vector<std::int64_t> groups(static_cast<std::size_t>(world_.ranks()));
        groups[static_cast<std::size_t>(world_.rank)] = group;
        for (std::int64_t rank = 0; rank < world_.ranks(); ++rank)
            if (rank != world_.rank)
                exchange_value(rank, group, groups[static_cast<std::size_t>(rank)]);
        members_.clear();
        for (std::int64_t rank = 0; rank < world_.ranks(); ++rank)
            if (group >= 0 && groups[static_cast<std::size_t>(rank)] == group)
                members_.push_back(rank);
        const auto at = std::find(members_.begin(), members_.end(), world_.rank);
        place_ = static_cast<std::size_t>(at - members_.begin());
    }

    double execute(CommOp op, std::int64_t bytes, std::int64_t times) override {
        barrier();
        const double begin = monotonic_s();
        for (std::int64_t i = 0; i < times; ++i) once(op, static_cast<std::size_t>(bytes));
        return monotonic_s() - begin;
    }

    std::vector<double> largest(const std::vector<double>& numbers) override {
        std::vector<double> all = numbers, theirs(numbers.size());
        const std::size_t bytes = numbers.size() * sizeof(double);
        for (std::int64_t rank = 0; rank < world_.ranks(); ++rank) {
            if (rank == world_.rank) continue;
            transfer({rank, rank, as_bytes(numbers.data()), bytes,
                      reinterpret_cast<std::byte*>(theirs.data()), bytes});
            for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], theirs[i]);
        }
        return all;
    }

  private:
    template <typename T>
    static const std::byte* as_bytes(const T* p) {
        return reinterpret_cast<const std::byte*>(p);
    }
    static float* floats(std::vector<std::byte>& v) { return reinterpret_cast<float*>(v.data()); }

    std::int64_t member(std::size_t steps) const {
        return members_[(place_ + steps) % members_.size()];
    }
    std::int64_t next() const { return member(1); }
    std::int64_t before() const { return member(members_.size() - 1); }

    void exchange_value(std::int64_t with, std::int64_t mine, std::int64_t& theirs) {
        transfer({with, with, as_bytes(&mine), sizeof mine, reinterpret_cast<std::byte*>(&theirs),
                  sizeof theirs});
    }
    void barrier() {
        std::int64_t unused = 0;
        for (const std::int64_t rank : members_)
            if (rank != world_.rank) exchange_value(rank, 0, unused);
    }

    void once(CommOp op, std::size_t bytes) {
        const std::size_t n = members_.size(), part = bytes / n;
        switch (op) {
            case CommOp::all_reduce:
                reduce_scatter(part);
                return gather(part);
            case CommOp::all_gather:
                std::copy_n(send_.data(), part, receive_.data() + part * ((place_ + 1) % n));
                return gather(part);
            case CommOp::reduce_scatter:
                return reduce_scatter(part);
            case CommOp::all_to_all:
                for (std::size_t i = 1; i < n; ++i)
                    transfer({member(i), member(n - i), send_.data() + part * ((place_ + i) % n),
                              part, receive_.data() + part * ((place_ + n - i) % n), part});
                return;
            case CommOp::send:
                return transfer({next(), before(), send_.data(), bytes, receive_.data(), bytes});
        }
    }

    /// Step i adds this rank's numbers to the sum of i + 1 ranks' and passes it on; in the end the
    /// sum of all is in part (place + 1) % n of the receive buffer.
    void reduce_scatter(std::size_t part) {
        const std::size_t n = members_.size();
        for (std::size_t i = 0; i + 1 < n; ++i) {
            const std::size_t out = (place_ + n - i) % n, in = (place_ + n - i - 1) % n;
            const std::byte* from = (i == 0 ? send_ : receive_).data() + part * out;
            transfer({next(), before(), from, part, scratch_.data(), part});
            const float *mine = floats(send_) + part * in / sizeof(float), *sum = floats(scratch_);
            float* result = floats(receive_) + part * in / sizeof(float);
            for (std::size_t k = 0; k < part / sizeof(float); ++k) result[k] = mine[k] + sum[k];
        }
    }
    /// Every rank's part (place + 1) % n goes round.
    void gather(std::size_t part) {
        const std::size_t n = members_.size();
        for (std::size_t i = 0; i + 1 < n; ++i)
            transfer({next(), before(), receive_.data() + part * ((place_ + 1 + n - i) % n), part,
                      receive_.data() + part * ((place_ + n - i) % n), part});
    }

    [[noreturn]] void gone(std::int64_t rank) const {
        throw std::runtime_error("rank " + std::to_string(rank) +
                                 " is gone: it ended before the run did");
    }

    /// Both directions at once, until all is sent and received.
    void transfer(const Transfer& t) {
        const double until = monotonic_s() + timeout_s_;
        std::size_t sent = 0, received = 0;
        while (sent < t.send_bytes || received < t.receive_bytes) {
            struct pollfd waits[2] = {
                {received < t.receive_bytes ? peers_->with(t.from) : -1, POLLIN, 0},
                {sent < t.send_bytes ? peers_->with(t.to) : -1, POLLOUT, 0}};
            const double left = until - monotonic_s();
            if (left <= 0)
                throw std::runtime_error(
                    "rank " + std::to_string(received < t.receive_bytes ? t.from : t.to) +
                    " did not answer within " + human_seconds(timeout_s_));
            if (::poll(waits, 2, static_cast<int>(left * 1000) + 1) < 0 && errno != EINTR)
                throw std::runtime_error(std::string("poll: ") + std::strerror(errno));
            if (waits[0].revents != 0) received += receive_some(t, received);
            if (waits[1].revents != 0) sent += send_some(t, sent);
        }
    }
    std::size_t receive_some(const Transfer& t, std::size_t at) {
        const ssize_t n =
            ::recv(peers_->with(t.from), t.receive + at, t.receive_bytes - at, MSG_DONTWAIT);
        if (n > 0) return static_cast<std::size_t>(n);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        gone(t.from);
    }
    std::size_t send_some(const Transfer& t, std::size_t at) {
        const ssize_t n =
            ::send(peers_->with(t.to), t.send + at, t.send_bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) return static_cast<std::size_t>(n);
        if (errno == EAGAIN || errno == EINTR) return 0;
        gone(t.to);
    }

    CommWorld world_;
    double timeout_s_;
    std::unique_ptr<PeerSockets> peers_;
    std::vector<std::byte> send_, receive_, scratch_;  ///< a part is half of a buffer at most
    std::vector<std::int64_t> members_;
    std::size_t place_ = 0;
};

}  // namespace

Result<std::unique_ptr<Communicator>> make_host_communicator(const CommSetup& setup,
                                                             const PeerPlace& place) {
    if (setup.world.ranks() > max_host_ranks)
        return usage_error("--device cpu takes at most " + std::to_string(max_host_ranks) +
                           " ranks");
    auto peers = PeerSockets::join(setup.world, place, PeerSockets::Shape::mesh);
    if (!peers) return peers.error();
    try {
        return std::unique_ptr<Communicator>(
            std::make_unique<HostCommunicator>(setup, std::move(peers).value()));
    } catch (const std::bad_alloc&) {
        return environment_error("no memory for two buffers of " +
                                 human_bytes(static_cast<double>(setup.max_bytes)) +
                                 " for each rank");
    }
}

}  // namespace arena
