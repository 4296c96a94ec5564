// SPDX-License-Identifier: GPL-2.0-or-later
// Groups over NCCL. Collectives run on the rank's stream. Between neighbouring stages there are two
// communicators of two ranks, one for each direction, each with streams of its own: a send is given
// a copy and waits for its receiver on its own stream alone, as Comm::send() promises, so that 1F1B
// cannot lock up. A lost rank shows in NCCL's asynchronous state, or as time that passes; then all
// communicators of the rank are aborted. Of a group with a limit (Comm::limit()) only its own are,
// once that is over.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <atomic>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "train/cuda/cuda_device.h"

namespace arena::train {
namespace {

using cuda::check;

/// A step that makes no progress for so long is given up: longer than a slow rank's checkpoint,
/// short of what a job's time limit is.
constexpr double most_seconds = 600;

void check(ncclResult_t r, ncclComm_t comm, const char* doing) {
    if (r == ncclSuccess) return;
    std::string text = fmt::format("NCCL: {}: {}", doing, ncclGetErrorString(r));
    if (const char* last = ncclGetLastError(comm); last != nullptr && *last != '\0')
        text += std::string(": ") + last;
    throw std::runtime_error(text);
}

/// Ranks may be threads of one process: set by the one that fails.
std::atomic<bool> is_lost{false};

/// A communicator; collective over the Comm.
class Communicator {
  public:
    explicit Communicator(Comm& comm) {
        ncclUniqueId id{};
        if (comm.rank() == 0) check(ncclGetUniqueId(&id), nullptr, "make a unique id");
        comm.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
        check(ncclCommInitRank(&handle_, comm.size(), id, comm.rank()), nullptr, "join");
    }
    /// A rank that ends with an exception waits for nobody, and takes those of this process along.
    ~Communicator() {
        if (std::uncaught_exceptions() > 0) {
            is_lost = true;
            abort();
        }
        if (handle_ != nullptr) ncclCommDestroy(handle_);
    }
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;
    [[nodiscard]] ncclComm_t get() const { return handle_; }
    void abort() {
        if (handle_ != nullptr) ncclCommAbort(handle_);
        handle_ = nullptr;
    }
    /// "" while all is well.
    [[nodiscard]] std::string trouble() const {
        if (is_lost) return "a rank of this process has failed";
        ncclResult_t state = ncclSuccess;
        if (const ncclResult_t r = ncclCommGetAsyncError(handle_, &state); r != ncclSuccess)
            return ncclGetErrorString(r);
        if (state == ncclSuccess || state == ncclInProgress) return "";
        return ncclGetErrorString(state);
    }

  private:
    ncclComm_t handle_ = nullptr;
};

struct Stream {
    Stream() { check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "stream"); }
    ~Stream() { cudaStreamDestroy(handle); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    cudaStream_t handle = nullptr;
};

/// What `later` does from now on waits for what `earlier` was told so far.
class Order {
  public:
    Order() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event"); }
    ~Order() { cudaEventDestroy(event_); }
    Order(const Order&) = delete;
    Order& operator=(const Order&) = delete;
    void put(cudaStream_t earlier, cudaStream_t later) const {
        check(cudaEventRecord(event_, earlier), "record");
        check(cudaStreamWaitEvent(later, event_, 0), "order");
    }

  private:
    cudaEvent_t event_ = nullptr;
};

/// One direction between two neighbouring stages.
class Link {
  public:
    Link(Comm& pair, cudaStream_t main) : comm_(pair), peer_(1 - pair.rank()), main_(main) {}
    ~Link() {
        if (std::uncaught_exceptions() == 0) cudaStreamSynchronize(own_.handle);
    }
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    /// The copy is memory of the streams' own: freed when it is sent.
    void send(Span<const Element> values) {
        const std::size_t bytes = values.size() * sizeof(Bf16);
        void* copy = nullptr;
        check(cudaMallocAsync(&copy, bytes, main_), "memory of a message");
        check(
            cudaMemcpyAsync(copy, values.data().address(), bytes, cudaMemcpyDeviceToDevice, main_),
            "copy");
        order_.put(main_, own_.handle);
        check(ncclSend(copy, values.size(), ncclBfloat16, peer_, comm_.get(), own_.handle),
              comm_.get(), "send");
        check(cudaFreeAsync(copy, own_.handle), "memory of a message");
    }
    void receive(Span<Element> values) {
        order_.put(main_, own_.handle);  // who reads the memory now has done so
        check(ncclRecv(values.data().address(), values.size(), ncclBfloat16, peer_, comm_.get(),
                       own_.handle),
              comm_.get(), "receive");
        order_.put(own_.handle, main_);
    }
    Communicator& communicator() { return comm_; }

  private:
    Communicator comm_;
    int peer_;
    cudaStream_t main_;
    Stream own_;
    Order order_;
};

class NcclGroup final : public Group {
  public:
    NcclGroup(Comm& comm, CudaContext& gpu)
        : host_(comm),
          gpu_(gpu),
          check_(gpu.checks.insert(gpu.checks.end(),
                                   [this](double waited_s) { look_after(waited_s); })) {}
    /// Of one that was given up nobody knows what the other ranks do.
    ~NcclGroup() override {
        gpu_.checks.erase(check_);
        if (!host_.is_over()) return;
        for (Communicator* c : communicators()) c->abort();
    }

    void all_reduce_sum(Span<Element> x) override { reduce(x, ncclBfloat16, ncclSum); }
    void all_reduce_sum(Span<float> x) override { reduce(x, ncclFloat, ncclSum); }
    void all_reduce_max(Span<float> x) override { reduce(x, ncclFloat, ncclMax); }
    void reduce_scatter(Span<const float> whole, Span<float> part) override {
        check(ncclReduceScatter(whole.data().address(), part.data().address(), part.size(),
                                ncclFloat, ncclSum, joined(), gpu_.stream),
              joined(), "reduce-scatter");
    }
    void all_gather(Span<const Element> part, Span<Element> whole) override {
        check(ncclAllGather(part.data().address(), whole.data().address(), part.size(),
                            ncclBfloat16, joined(), gpu_.stream),
              joined(), "all-gather");
    }
    void send(Span<const Element> values, int to) override { neighbour(to).out->send(values); }
    void receive(Span<Element> values, int from) override { neighbour(from).in->receive(values); }
    /// Copies of messages live until they are sent, wherever the sender is by then.
    void flush() override {}
    void transfer(Span<Element> x, int from, int to) override {
        void* p = x.data().address();
        const ncclResult_t r =
            host_.rank() == from ? ncclSend(p, x.size(), ncclBfloat16, to, joined(), gpu_.stream)
                                 : ncclRecv(p, x.size(), ncclBfloat16, from, joined(), gpu_.stream);
        check(r, joined(), "transfer");
        gpu_.wait();
    }
    void connect(const RankLayout&, const Place&) override;

  private:
    struct Neighbour {
        std::unique_ptr<Link> out, in;
    };
    template <typename T>
    void reduce(Span<T> x, ncclDataType_t type, ncclRedOp_t op) {
        void* p = x.data().address();
        check(ncclAllReduce(p, p, x.size(), type, op, joined(), gpu_.stream), joined(),
              "all-reduce");
    }
    /// Made by the first collective, which all ranks come to: a group that only has neighbours
    /// needs none.
    ncclComm_t joined() {
        if (!comm_) comm_ = std::make_unique<Communicator>(host_);
        return comm_->get();
    }
    Neighbour& neighbour(int rank) {
        const auto found = neighbours_.find(rank);
        if (found == neighbours_.end())
            throw std::logic_error(fmt::format("rank {} is no neighbour", rank));
        return found->second;
    }
    std::vector<Communicator*> communicators() {
        std::vector<Communicator*> all;
        if (comm_) all.push_back(comm_.get());
        for (auto& [rank, links] : neighbours_)
            for (Link* link : {links.out.get(), links.in.get()})
                all.push_back(&link->communicator());
        return all;
    }
    void look_after(double waited_s) {
        std::string why;
        for (const Communicator* c : communicators())
            if (why.empty()) why = c->trouble();
        if (why.empty() && waited_s > most_seconds)
            why = fmt::format("no answer from the other ranks within {:.0f} s", waited_s);
        if (host_.is_over()) why = "it took too long";
        if (why.empty()) return;
        for (Communicator* c : communicators()) c->abort();
        if (host_.has_limit()) throw GivenUp{};  // whoever was first
        throw std::runtime_error("NCCL: another rank is lost: " + why);
    }

    Comm& host_;
    CudaContext& gpu_;
    std::unique_ptr<Communicator> comm_;
    std::map<int, Neighbour> neighbours_;
    std::list<CudaContext::Check>::iterator check_;
};

void NcclGroup::connect(const RankLayout& layout, const Place& place) {
    for (const Index parity : {0, 1}) {
        const StagePair mine = stage_pair(layout, place, parity);
        const auto pair = host_.split(static_cast<int>(mine.color));
        if (!mine.exists) continue;
        auto up = std::make_unique<Link>(*pair, gpu_.stream);
        auto down = std::make_unique<Link>(*pair, gpu_.stream);
        const bool is_lower = place.stage == mine.lower;
        Neighbour& links = neighbours_[static_cast<int>(layout.rank(mine.other))];
        links.out = std::move(is_lower ? up : down);
        links.in = std::move(is_lower ? down : up);
    }
}

}  // namespace

std::unique_ptr<Group> make_nccl_group(Comm& comm, CudaContext& gpu) {
    return std::make_unique<NcclGroup>(comm, gpu);
}

}  // namespace arena::train
