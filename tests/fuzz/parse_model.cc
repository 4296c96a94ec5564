// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may be a model file; an accepted model passes its own check and travels
// in a record.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/request.h"
#include "planner/planner.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto model =
        arena::parse_model(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    if (!model) return 0;
    if (!arena::check_model(*model)) std::abort();
    arena::Request request;
    request.model = *model;
    request.global_batch = 1;
    const auto record = arena::format_record(request);
    if (!record || !arena::parse_record(*record)) std::abort();
    return 0;
}
