// SPDX-License-Identifier: GPL-2.0-or-later
// Back-end descriptors of the software device's cuDNN, and what runs a graph of them.
#pragma once

#include <cudnn.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "tests/cuda/device.h"

namespace soft {

using Sizes = std::vector<std::int64_t>;

/// A descriptor: its attributes as they were set, until it is finalised.
struct Backend {
    cudnnBackendDescriptorType_t type{};
    bool is_final = false;
    std::map<cudnnBackendAttributeName_t, std::vector<std::byte>> values;
    std::map<cudnnBackendAttributeName_t, std::vector<std::shared_ptr<Backend>>> parts;
    int engine = 0;  ///< of an engine and its configuration
    std::int64_t workspace = 0;

    [[nodiscard]] bool has(cudnnBackendAttributeName_t) const;
    [[nodiscard]] const Backend& part(cudnnBackendAttributeName_t) const;
    template <typename T>
    [[nodiscard]] std::vector<T> all(cudnnBackendAttributeName_t name) const {
        std::vector<T> list;
        const auto found = values.find(name);
        for (std::size_t i = 0; found != values.end() && i + sizeof(T) <= found->second.size();
             i += sizeof(T)) {
            T value;
            std::memcpy(&value, found->second.data() + i, sizeof value);
            list.push_back(value);
        }
        return list;
    }
    template <typename T>
    [[nodiscard]] T one(cudnnBackendAttributeName_t name, T otherwise = {}) const {
        const auto list = all<T>(name);
        return list.empty() ? otherwise : static_cast<T>(list.front());
    }
};

/// The pointers of one execution by the tensors' numbers; scalars as they were when it was asked.
struct Bindings {
    std::map<std::int64_t, void*> pointers;
    std::map<std::int64_t, float> scalars;
};

/// Tensors of the graph that lie in memory or are read from the host.
std::vector<const Backend*> tensors_of(const Backend& graph);
std::int64_t bytes_of_tensor(const Backend& tensor);
/// Whether this device computes such a graph; a status that says why not.
cudnnStatus_t check_graph(const Backend& graph);
double flops_of(const Backend& graph);
/// is_rounding: inputs of fp32 are rounded to tf32.
void run_graph(const Backend& graph, const Bindings&, bool is_rounding);

}  // namespace soft
