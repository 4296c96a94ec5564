// SPDX-License-Identifier: GPL-2.0-or-later
// The MPI front, a library of its own (libarena_watch_mpi.so): a process that asks whether it has
// MPI must not find these names in libarena_watch.so, and MPI's types are those of the MPI that it
// was built with. It needs no MPI to be loaded: every function is looked up behind ours when it is
// called, and so are predefined handles. It calls nothing of MPI but what the program calls.
#define OMPI_SKIP_MPICXX 1  // the C interface alone
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <iterator>
#include <type_traits>

#include "watch/recorder/comms.h"
#include "watch/recorder/mpi_calls.h"
#include "watch/recorder/real.h"
#include "watch/recorder/recorder.h"
#include "watch/ring/hash.h"

#ifdef OPEN_MPI
#pragma weak ompi_mpi_byte  // what a barrier would move
#endif

namespace arena::watch::mpi {
namespace {

template <typename T>
Handle handle_of(T comm) {
    if constexpr (std::is_pointer_v<T>)
        return reinterpret_cast<Handle>(comm);
    else
        return static_cast<Handle>(comm);
}

struct NamedType {
#ifdef OPEN_MPI
    const char* handle;  ///< the object whose address it is
#else
    MPI_Datatype handle;
#endif
    Type type;
};
#ifdef OPEN_MPI
#define HANDLE(mpi, object) #object
#else
#define HANDLE(mpi, object) mpi
#endif
/// The likely ones first.
constexpr NamedType types[] = {
    {HANDLE(MPI_FLOAT, ompi_mpi_float), Type::float32},
    {HANDLE(MPI_BYTE, ompi_mpi_byte), Type::uint8},
    {HANDLE(MPI_UNSIGNED_CHAR, ompi_mpi_unsigned_char), Type::uint8},
    {HANDLE(MPI_DOUBLE, ompi_mpi_double), Type::float64},
    {HANDLE(MPI_INT, ompi_mpi_int), Type::int32},
    {HANDLE(MPI_INT32_T, ompi_mpi_int32_t), Type::int32},
    {HANDLE(MPI_CHAR, ompi_mpi_char), Type::int8},
    {HANDLE(MPI_SIGNED_CHAR, ompi_mpi_signed_char), Type::int8},
    {HANDLE(MPI_UNSIGNED, ompi_mpi_unsigned), Type::uint32},
    {HANDLE(MPI_UINT32_T, ompi_mpi_uint32_t), Type::uint32},
    {HANDLE(MPI_LONG, ompi_mpi_long), Type::int64},
    {HANDLE(MPI_LONG_LONG, ompi_mpi_long_long_int), Type::int64},
    {HANDLE(MPI_INT64_T, ompi_mpi_int64_t), Type::int64},
    {HANDLE(MPI_UNSIGNED_LONG, ompi_mpi_unsigned_long), Type::uint64},
    {HANDLE(MPI_UNSIGNED_LONG_LONG, ompi_mpi_unsigned_long_long), Type::uint64},
    {HANDLE(MPI_UINT64_T, ompi_mpi_uint64_t), Type::uint64},
};
#undef HANDLE

#ifdef OPEN_MPI
/// Addresses of the MPI that the program has, which it may open long after us.
std::atomic<void*> type_handles[std::size(types)];
std::atomic<void*> null_comm{nullptr};

void* object(const char* name) {
    void* found = ::dlsym(RTLD_DEFAULT, name);
    return found != nullptr ? found : find_loaded(name);
}
MPI_Datatype handle_at(std::size_t i) {
    return static_cast<MPI_Datatype>(type_handles[i].load(std::memory_order_relaxed));
}
Handle world() { return reinterpret_cast<Handle>(object("ompi_mpi_comm_world")); }
Handle self() { return reinterpret_cast<Handle>(object("ompi_mpi_comm_self")); }
bool is_null(MPI_Comm comm) { return comm == null_comm.load(std::memory_order_relaxed); }
void find_handles() {
    for (std::size_t i = 0; i < std::size(types); ++i) type_handles[i] = object(types[i].handle);
    null_comm = object("ompi_mpi_comm_null");
}
#else
MPI_Datatype handle_at(std::size_t i) { return types[i].handle; }
Handle world() { return handle_of(MPI_COMM_WORLD); }
Handle self() { return handle_of(MPI_COMM_SELF); }
bool is_null(MPI_Comm comm) { return comm == MPI_COMM_NULL; }
void find_handles() {}
#endif

Type type_of(MPI_Datatype type) {
    for (std::size_t i = 0; i < std::size(types); ++i)
        if (type == handle_at(i)) return types[i].type;
    return Type::other;
}

/// Twice by two threads is as good as once.
void name_world() {
    static std::atomic<bool> named{false};
    if (named.load(std::memory_order_acquire)) [[likely]]
        return;
    const int kept = errno;
    find_handles();
    add_comm(world(), Hash().text("world").value());
    add_comm(self(), Hash().text("self").value());
    named.store(true, std::memory_order_release);
    errno = kept;
}

Call call_of(Op op, int count, MPI_Datatype type, int aux, MPI_Comm comm) {
    name_world();
    Call call;
    call.op = op;
    call.front = Front::mpi;
    call.type = type_of(type);
    call.count = count < 0 ? 0 : static_cast<std::uint64_t>(count);
    call.bytes = call.count * type_bytes(static_cast<std::uint32_t>(call.type));
    call.comm = comm_name(handle_of(comm));
    call.aux = aux;
    return call;
}

/// From its making to its end.
class Blocking {
  public:
    explicit Blocking(const Call& call) : call_(call), noted_(note_call(call)) {}
    ~Blocking() {
        if (noted_.timed) [[unlikely]]
            note_timing(call_, noted_, now_ns() - noted_.time_ns);
    }
    Blocking(const Blocking&) = delete;
    Blocking& operator=(const Blocking&) = delete;

  private:
    Call call_;
    Noted noted_;
};

/// Around a call that makes a communicator of `parent`.
template <typename Make>
int make(MPI_Comm parent, std::uint64_t how, MPI_Comm* made, Make real) {
    name_world();
    const std::uint64_t name = Hash()
                                   .number(comm_name(handle_of(parent)))
                                   .number(how)
                                   .number(next_child(handle_of(parent)))
                                   .value();
    const int result = real();
    if (result == MPI_SUCCESS && !is_null(*made)) add_comm(handle_of(*made), name);
    return result;
}

/// Ranks of one memory: each node has a communicator of its own.
std::uint64_t node_name() {
    char text[256] = "";
    ::gethostname(text, sizeof text - 1);
    return Hash().text(text).value();
}

}  // namespace
}  // namespace arena::watch::mpi

using namespace arena::watch;       // NOLINT: the symbols below are C's
using namespace arena::watch::mpi;  // NOLINT

#define REAL(function)                                         \
    static constinit Real<decltype(function)> real(#function); \
    auto* const go_on = real.get();                            \
    if (go_on == nullptr) return MPI_ERR_OTHER;                \
    const Outermost outermost

#define FORWARD_BLOCKING(function, operation, count, type, aux, parameters, arguments) \
    extern "C" ARENA_WATCH_EXPORT int function parameters {                            \
        REAL(function);                                                                \
        if (!outermost) return go_on arguments;                                        \
        const Blocking blocking(call_of(Op::operation, count, type, aux, comm));       \
        return go_on arguments;                                                        \
    }
ARENA_MPI_BLOCKING(FORWARD_BLOCKING)

#define FORWARD_IMMEDIATE(function, operation, count, type, aux, parameters, arguments) \
    extern "C" ARENA_WATCH_EXPORT int function parameters {                             \
        REAL(function);                                                                 \
        if (outermost) note_call(call_of(Op::operation, count, type, aux, comm));       \
        return go_on arguments;                                                         \
    }
ARENA_MPI_IMMEDIATE(FORWARD_IMMEDIATE)

// One call, two records.
#define SENDRECV_PARAMETERS                                                                       \
    (const void* from, int from_count, MPI_Datatype from_type, int to_rank, int to_tag, void* to, \
     int to_count, MPI_Datatype to_type, int from_rank, int from_tag, MPI_Comm comm,              \
     MPI_Status* status)
extern "C" ARENA_WATCH_EXPORT int MPI_Sendrecv SENDRECV_PARAMETERS {
    REAL(MPI_Sendrecv);
    const auto call = [&] {
        return go_on(from, from_count, from_type, to_rank, to_tag, to, to_count, to_type, from_rank,
                     from_tag, comm, status);
    };
    if (!outermost) return call();
    const Blocking sends(call_of(Op::send, from_count, from_type, to_rank, comm));
    const Blocking receives(call_of(Op::recv, to_count, to_type, from_rank, comm));
    return call();
}

extern "C" ARENA_WATCH_EXPORT int MPI_Comm_split(MPI_Comm comm, int color, int key,
                                                 MPI_Comm* made) {
    REAL(MPI_Comm_split);
    if (!outermost) return go_on(comm, color, key, made);
    return make(comm, static_cast<std::uint64_t>(color), made,
                [&] { return go_on(comm, color, key, made); });
}

extern "C" ARENA_WATCH_EXPORT int MPI_Comm_split_type(MPI_Comm comm, int type, int key,
                                                      MPI_Info info, MPI_Comm* made) {
    REAL(MPI_Comm_split_type);
    if (!outermost) return go_on(comm, type, key, info, made);
    return make(comm, node_name(), made, [&] { return go_on(comm, type, key, info, made); });
}

extern "C" ARENA_WATCH_EXPORT int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
    REAL(MPI_Comm_dup);
    if (!outermost) return go_on(comm, made);
    return make(comm, 0, made, [&] { return go_on(comm, made); });
}

extern "C" ARENA_WATCH_EXPORT int MPI_Comm_free(MPI_Comm* comm) {
    REAL(MPI_Comm_free);
    if (outermost) remove_comm(handle_of(*comm));
    return go_on(comm);
}
