// SPDX-License-Identifier: GPL-2.0-or-later
// Compiled where NCCL's header is: our declarations of its entry points pass what its own pass.
// Each parameter has the same size and kind; enumerations are ints to us, structs are pointed at.
#include <nccl.h>

#include <type_traits>

#include "watch/recorder/nccl_calls.h"
#include "watch/ring/record.h"

namespace theirs {
#define TAKE(function, operation, aux, parameters, arguments) \
    using function##_t = decltype(function);
ARENA_NCCL_CALLS(TAKE)
#define TAKE_COMM(function, parameters) using function##_t = decltype(function);
ARENA_NCCL_COMM_CALLS(TAKE_COMM)
}  // namespace theirs

namespace arena::watch::nccl {

template <typename A, typename B>
constexpr bool alike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_class_v<A> ==
                                  std::is_class_v<B>;

template <typename A, typename B>
constexpr bool same_call = false;
template <typename RA, typename... A, typename RB, typename... B>
requires(sizeof...(A) ==
         sizeof...(B)) constexpr bool same_call<RA(A...), RB(B...)> = alike<RA, RB> &&
                                                                      (alike<A, B> && ...);

#define CHECK(function, operation, aux, parameters, arguments) \
    static_assert(same_call<theirs::function##_t, Result parameters>, #function);
ARENA_NCCL_CALLS(CHECK)
#define CHECK_COMM(function, parameters) \
    static_assert(same_call<theirs::function##_t, Result parameters>, #function);
ARENA_NCCL_COMM_CALLS(CHECK_COMM)

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && success == ncclSuccess &&
              system_error == ncclSystemError && in_progress == ncclInProgress);
constexpr auto number(Type type) { return static_cast<int>(type); }
static_assert(number(Type::int8) == ncclInt8 && number(Type::uint8) == ncclUint8 &&
              number(Type::int32) == ncclInt32 && number(Type::uint32) == ncclUint32 &&
              number(Type::int64) == ncclInt64 && number(Type::uint64) == ncclUint64 &&
              number(Type::float16) == ncclFloat16 && number(Type::float32) == ncclFloat32 &&
              number(Type::float64) == ncclFloat64 && number(Type::bfloat16) == ncclBfloat16 &&
              number(Type::float8_e4m3) == ncclFloat8e4m3 &&
              number(Type::float8_e5m2) == ncclFloat8e5m2 && type_bytes(ncclNumTypes) == 0);

}  // namespace arena::watch::nccl

int main() {}
