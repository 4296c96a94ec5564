// SPDX-License-Identifier: GPL-2.0-or-later
// arena-profiler-mpi.so: ranks as MPI processes. It needs libmpi and nothing of the program's. What
// hangs in here is ended by the program's watch, a rank that dies by the launcher.
#define OMPI_SKIP_MPICXX 1  // the C interface alone
#include <mpi.h>

#include <climits>
#include <stdexcept>

#include "profiler/comm/transport.h"

namespace arena {
namespace {

void check(int code, const char* doing) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw std::runtime_error(std::string("MPI: ") + doing + ": " + text);
}

class MpiTransport final : public Transport {
  public:
    MpiTransport() {
        MPI_Init(nullptr, nullptr);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // groups inherit it
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    }
    ~MpiTransport() override {
        leave_group();
        MPI_Finalize();
    }

    std::string name() const override {
        char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
        int length = 0;
        MPI_Get_library_version(text, &length);
        const std::string whole = text;  // "Open MPI v4.1.4, package: ..."
        return whole.substr(0, whole.find_first_of(",\n"));
    }
    int rank() const override { return rank_; }

    std::vector<int> first_on_node() override {
        MPI_Comm node = MPI_COMM_NULL;
        check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
              "find the node's ranks");
        int first = 0, ranks = 0;
        check(MPI_Allreduce(&rank_, &first, 1, MPI_INT, MPI_MIN, node), "find the node's ranks");
        MPI_Comm_free(&node);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        std::vector<int> all(static_cast<std::size_t>(ranks));
        check(MPI_Allgather(&first, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD),
              "find the nodes");
        return all;
    }
    void broadcast(std::span<char> bytes) override {
        check(MPI_Bcast(bytes.data(), count(bytes.size()), MPI_CHAR, 0, MPI_COMM_WORLD), "share");
    }
    void largest(std::span<double> numbers) override {
        check(MPI_Allreduce(MPI_IN_PLACE, numbers.data(), count(numbers.size()), MPI_DOUBLE,
                            MPI_MAX, MPI_COMM_WORLD),
              "agree");
    }
    void regroup(int group) override {
        leave_group();
        const int color = group < 0 ? MPI_UNDEFINED : group;
        check(MPI_Comm_split(MPI_COMM_WORLD, color, rank_, &group_), "make groups");
        if (group < 0) return;
        MPI_Comm_rank(group_, &place_);
        MPI_Comm_size(group_, &ranks_);
    }
    void meet() override { check(MPI_Barrier(group_), "meet"); }

    void collective(CommOp op, const float* from, float* to, std::size_t floats) override {
        const int all = count(floats), each = all / ranks_;
        switch (op) {
            case CommOp::all_reduce:
                return check(MPI_Allreduce(from, to, all, MPI_FLOAT, MPI_SUM, group_),
                             "all-reduce");
            case CommOp::all_gather:
                return check(MPI_Allgather(from, each, MPI_FLOAT, to, each, MPI_FLOAT, group_),
                             "all-gather");
            case CommOp::reduce_scatter:
                return check(MPI_Reduce_scatter_block(from, to, each, MPI_FLOAT, MPI_SUM, group_),
                             "reduce-scatter");
            case CommOp::all_to_all:
                return check(MPI_Alltoall(from, each, MPI_FLOAT, to, each, MPI_FLOAT, group_),
                             "all-to-all");
            case CommOp::send:
                return check(
                    MPI_Sendrecv(from, all, MPI_FLOAT, (place_ + 1) % ranks_, 0, to, all, MPI_FLOAT,
                                 (place_ + ranks_ - 1) % ranks_, 0, group_, MPI_STATUS_IGNORE),
                    "send");
        }
    }
    void give_up(int code) override { MPI_Abort(MPI_COMM_WORLD, code); }

  private:
    static int count(std::size_t n) {
        if (n > INT_MAX)
            throw std::runtime_error(
                "MPI: more than 2147483647 numbers at once; give a smaller "
                "--max-bytes");
        return static_cast<int>(n);
    }
    void leave_group() {
        if (group_ != MPI_COMM_NULL) MPI_Comm_free(&group_);
    }

    int rank_ = 0, place_ = 0, ranks_ = 1;
    MPI_Comm group_ = MPI_COMM_NULL;
};

}  // namespace
}  // namespace arena

const char* const arena_profiler_module_version = arena::comm_module_version;

std::unique_ptr<arena::Transport> arena_profiler_open_mpi() {
    return std::make_unique<arena::MpiTransport>();
}
