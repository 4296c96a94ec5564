// SPDX-License-Identifier: GPL-2.0-or-later
// Ranks as MPI processes. Errors inside MPI end the run (MPI_ERRORS_ARE_FATAL), and so does an
// exception of a rank: a rank that dies takes the others with it, and the last checkpoint stands.
#include "config.h"
#include "train/comm/comm.h"

#ifdef HAVE_MPI
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace arena::train {
namespace {

/// Operations of this process that have ended.
std::atomic<std::uint64_t> progress{0};

/// Ends the process where no operation ends for a time: another rank hangs. It counts its own
/// seconds and no clock, so that a job that Slurm suspends and resumes has not waited.
class StallWatch {
  public:
    StallWatch(int limit_s, std::function<void()> say)
        : thread_([limit_s, say](const std::stop_token& stop) {
              std::mutex mutex;
              std::condition_variable_any wake;
              std::unique_lock lock(mutex);
              std::uint64_t seen = progress;
              for (int idle = 0; idle < limit_s;) {
                  wake.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
                  if (stop.stop_requested()) return;
                  const std::uint64_t now = progress;
                  idle = now == seen ? idle + 1 : 0;
                  seen = now;
              }
              say();
              _exit(3);
          }) {}

  private:
    std::jthread thread_;
};

/// MPI counts are ints; longer arrays go in pieces.
constexpr std::size_t longest = std::size_t{1} << 28;

template <typename T>
void reduce_in_pieces(std::span<T> v, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    for (std::size_t at = 0; at < v.size(); at += longest) {
        const auto n = static_cast<int>(std::min(longest, v.size() - at));
        MPI_Allreduce(MPI_IN_PLACE, v.data() + at, n, type, op, comm);
        progress += 1;
    }
}

class MpiComm final : public Comm {
  public:
    MpiComm(MPI_Comm comm, bool own) : comm_(comm), own_(own) {
        MPI_Comm_rank(comm_, &rank_);
        MPI_Comm_size(comm_, &size_);
    }
    /// While an exception ends this rank the others do not take part in anything: nothing waits.
    /// Nor where it was given up: operations may be under way for ever.
    ~MpiComm() override {
        if (std::uncaught_exceptions() > 0 || is_given_up_) return;
        flush();
        if (own_) MPI_Comm_free(&comm_);
    }
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] int node_rank() override {
        MPI_Comm node = MPI_COMM_NULL;
        int rank = 0;
        MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
        MPI_Comm_rank(node, &rank);
        MPI_Comm_free(&node);
        return rank;
    }

    void all_reduce_sum(std::span<float> v) override {
        if (size_ > 1) reduce_in_pieces(v, MPI_FLOAT, MPI_SUM, comm_);
    }
    void all_reduce_sum(std::span<double> v) override {
        if (end_) return reduce_in_time(v);
        reduce_in_pieces(v, MPI_DOUBLE, MPI_SUM, comm_);
    }
    void all_reduce_max(std::span<float> v) override {
        if (size_ > 1) reduce_in_pieces(v, MPI_FLOAT, MPI_MAX, comm_);
    }
    /// One reduction per owner, so that a piece may be any length.
    void reduce_scatter(std::span<const float> whole, std::span<float> part) override {
        for (int owner = 0; owner < size_; ++owner) {
            const float* from = whole.data() + static_cast<std::size_t>(owner) * part.size();
            for (std::size_t at = 0; at < part.size(); at += longest) {
                const auto n = static_cast<int>(std::min(longest, part.size() - at));
                const bool in_place = owner == rank_ && from == part.data();
                const void* mine = in_place ? MPI_IN_PLACE : from + at;
                MPI_Reduce(mine, part.data() + at, n, MPI_FLOAT, MPI_SUM, owner, comm_);
            }
        }
    }
    void all_gather(std::span<const float> part, std::span<float> whole) override {
        std::vector<float> mine(part.begin(), part.end());
        for (int owner = 0; owner < size_; ++owner) {
            float* to = whole.data() + static_cast<std::size_t>(owner) * part.size();
            if (owner == rank_) std::copy(mine.begin(), mine.end(), to);
            for (std::size_t at = 0; at < part.size(); at += longest)
                MPI_Bcast(to + at, static_cast<int>(std::min(longest, part.size() - at)), MPI_FLOAT,
                          owner, comm_);
        }
    }
    void broadcast(std::span<std::byte> bytes, int root) override {
        MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, root, comm_);
        progress += 1;
    }
    void send(std::span<const float> values, int to) override {
        drop_sent();
        Message& message = outgoing_.emplace_back();
        message.values.assign(values.begin(), values.end());
        MPI_Isend(message.values.data(), static_cast<int>(values.size()), MPI_FLOAT, to, 0, comm_,
                  &message.request);
    }
    void receive(std::span<float> values, int from) override {
        MPI_Recv(values.data(), static_cast<int>(values.size()), MPI_FLOAT, from, 0, comm_,
                 MPI_STATUS_IGNORE);
        progress += 1;
    }
    void flush() override {
        for (Message& message : outgoing_) MPI_Wait(&message.request, MPI_STATUS_IGNORE);
        outgoing_.clear();
    }
    void transfer(std::span<float> values, int from, int to) override {
        const auto n = static_cast<int>(values.size());
        if (end_) return transfer_in_time(values, from, to);
        if (rank_ == from)
            MPI_Send(values.data(), n, MPI_FLOAT, to, 0, comm_);
        else
            MPI_Recv(values.data(), n, MPI_FLOAT, from, 0, comm_, MPI_STATUS_IGNORE);
        progress += 1;
    }
    void meet(double excused_s) override {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Ibarrier(comm_, &request);
        using namespace std::chrono;
        auto nap = microseconds(20), waited = microseconds(0);
        for (int done = 0; done == 0;) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            if (done != 0) break;
            if (is_over()) give_up();
            std::this_thread::sleep_for(nap);
            waited += nap;
            if (duration<double>(waited).count() < excused_s) progress += 1;
            nap = std::min(2 * nap, microseconds(2000));
        }
        progress += 1;
    }
    std::unique_ptr<Comm> split(int color, int key) override {
        MPI_Comm part = MPI_COMM_NULL;
        MPI_Comm_split(comm_, color, key, &part);
        return std::make_unique<MpiComm>(part, true);
    }

    void limit(std::optional<double> seconds) override {
        end_.reset();
        if (seconds) end_ = Clock::now() + std::chrono::nanoseconds(std::llround(*seconds * 1e9));
    }
    [[nodiscard]] bool has_limit() const override { return end_.has_value(); }
    [[nodiscard]] bool is_over() const override { return end_ && Clock::now() >= *end_; }

    void still_here() override { progress += 1; }

  private:
    using Clock = std::chrono::steady_clock;
    struct Message {
        std::vector<float> values;
        MPI_Request request = MPI_REQUEST_NULL;
    };
    void drop_sent() {
        std::erase_if(outgoing_, [](Message& message) {
            int done = 0;
            MPI_Test(&message.request, &done, MPI_STATUS_IGNORE);
            return done != 0;
        });
    }
    [[noreturn]] void give_up() {
        is_given_up_ = true;
        progress += 1;
        throw GivenUp{};
    }
    /// As MPI_Wait() does, but for the limit.
    void finish(MPI_Request request) {
        for (int done = 0;;) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            if (done != 0) break;
            if (is_over()) give_up();
            std::this_thread::yield();
        }
        progress += 1;
    }
    /// In memory of its own: MPI may have it for as long as it likes.
    void reduce_in_time(std::span<double> v) {
        sums_.assign(v.begin(), v.end());
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Iallreduce(MPI_IN_PLACE, sums_.data(), static_cast<int>(sums_.size()), MPI_DOUBLE,
                       MPI_SUM, comm_, &request);
        finish(request);
        std::copy(sums_.begin(), sums_.end(), v.begin());
    }
    void transfer_in_time(std::span<float> values, int from, int to) {
        const auto n = static_cast<int>(values.size());
        MPI_Request request = MPI_REQUEST_NULL;
        if (rank_ == from)
            MPI_Isend(values.data(), n, MPI_FLOAT, to, 0, comm_, &request);
        else
            MPI_Irecv(values.data(), n, MPI_FLOAT, from, 0, comm_, &request);
        finish(request);
    }
    MPI_Comm comm_;
    bool own_, is_given_up_ = false;
    int rank_ = 0, size_ = 1;
    std::optional<Clock::time_point> end_;
    std::vector<double> sums_;
    std::list<Message> outgoing_;
};

}  // namespace

bool have_mpi() { return true; }

bool started_by_mpi() {
    const char* names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
    return std::any_of(std::begin(names), std::end(names),
                       [](const char* name) { return std::getenv(name) != nullptr; });
}

void run_mpi(const std::function<void(Comm&)>& body, const MpiFaults& faults) {
    MPI_Init(nullptr, nullptr);
    {
        MpiComm world(MPI_COMM_WORLD, false);
        std::optional<StallWatch> watch;
        if (faults.stall_limit_s > 0 && world.size() > 1)
            watch.emplace(faults.stall_limit_s, [&, rank = world.rank()] { faults.stalled(rank); });
        try {
            body(world);
        } catch (const std::exception& error) {
            faults.failed(world.rank(), error);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    }
    MPI_Finalize();
}

}  // namespace arena::train

#else

#include <cstdlib>

namespace arena::train {

bool have_mpi() { return false; }
bool started_by_mpi() {
    return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr;
}
void run_mpi(const std::function<void(Comm&)>&, const MpiFaults&) { std::abort(); }

}  // namespace arena::train
#endif
