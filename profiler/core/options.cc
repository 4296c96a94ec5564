// SPDX-License-Identifier: GPL-2.0-or-later
// See options.h.
#include "profiler/core/options.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/text.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"
#include "profiler/core/request.h"
#include "request/request.h"

namespace arena {

int fail(const Error& error) {
    std::fprintf(stderr, "arena-profiler: %s\n", error.message().c_str());
    return exit_code(error.code);
}

Result<Model> model_of(const std::string& word) {
    if (word.find('/') == std::string::npos && !std::filesystem::exists(word))
        return find_zoo_model(word);
    const auto text = read_regular_file(word, max_model_file_bytes);
    if (!text) return text.error();
    return parse_model(*text, word);
}

namespace {

Result<ProfileRequest> request_of_flags(const Options& o) {
    if (o.model.empty()) return usage_error("give --request, --request-env or --model");
    if (o.batch < 1) return usage_error("give the global batch, at least 1", "--batch");
    const auto model = model_of(o.model);
    if (!model) return model.error();
    ProfileRequest r;
    r.nonce = make_nonce();
    r.hardware = o.hardware;
    r.gpu_type = o.gpu_type.empty() ? o.hardware : o.gpu_type;
    r.model = *model;
    r.global_batch = o.batch;
    r.max_gpus = o.max_gpus;
    r.gpus_per_node = o.gpus_per_node;
    return r;
}

}  // namespace

Result<ProfileRequest> request_of(const Options& o) {
    Result<ProfileRequest> r = request_of_flags(o);
    if (!o.request_env.empty()) {
        const char* text = std::getenv(o.request_env.c_str());
        if (text == nullptr) return usage_error("is not set", o.request_env);
        r = parse_profile_request(text);
    } else if (!o.request.empty()) {
        r = parse_profile_request(o.request);
    }
    if (!r) return r;
    if (o.budget_s > 0)
        r->budget_s = o.request.empty() && o.request_env.empty()
                          ? o.budget_s
                          : std::min(o.budget_s, r->budget_s);
    return r;
}

Result<ProfileRequest> checked_request_of(const Options& o) {
    auto request = request_of(o);
    if (!request) return request;
    if (const auto status = check_model(request->model); !status)
        return usage_error(status.error().message(), "model");
    return request;
}

Status check_output(const std::string& out, bool json) {
    if (out == "-" && json)
        return usage_error(
            "writes to standard output, where --out would write too: give --out FILE", "--json");
    if (out == "-") return Done{};
    const std::filesystem::path parent = std::filesystem::path(out).parent_path();
    const std::string directory = parent.empty() ? "." : parent.string();
    if (::access(directory.c_str(), W_OK | X_OK) != 0)
        return environment_error(std::string("cannot write there: ") + std::strerror(errno),
                                 directory);
    return Done{};
}

}  // namespace arena
