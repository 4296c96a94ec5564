// SPDX-License-Identifier: GPL-2.0-or-later
// See check_run.h. Samples are long (60 ms and more) so that clocks are those under load, and few,
// so that a node is back within seconds.
#include "profiler/check/check_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <numeric>
#include <stdexcept>

#include "base/text.h"
#include "profiler/core/measure.h"

namespace arena {
namespace {

constexpr double sample_s = 0.06, warm_up_s = 0.1;
constexpr std::size_t samples = 5;
constexpr std::int64_t max_times = 1000000;
constexpr int max_warm_ups = 20;

double now_s() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

double usable(double seconds, const std::string& what) {
    if (!std::isfinite(seconds) || !(seconds > 0) || seconds > 3600)
        throw std::runtime_error("the device's timer gave no usable time for " + what);
    return seconds;
}

std::int64_t times_for(double seconds_of_one) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(sample_s / seconds_of_one)),
                                    1, max_times);
}

OpShape product(Precision precision, std::int64_t edge) {
    return {.kind = OpKind::gemm, .precision = precision, .dims = {edge, edge, edge, 1}};
}

class Check {
  public:
    Check(const CheckRequest& request, const CheckTools& tools) : request_(request), tools_(tools) {
        check_.nonce = request.nonce;
        check_.gpu_type = request.gpu_type;
        check_.hardware = request.hardware;
        check_.started_s = now_s();
    }
    NodeCheck run(const std::vector<std::int64_t>& indices) {
        try {
            for (std::size_t i = 0; i < indices.size(); ++i)
                one_device(static_cast<std::int64_t>(i), indices[i]);
            if (indices.size() > 1) all_links(indices);
        } catch (const std::exception& error) {
            fails(error.what());
        }
        return std::move(check_);
    }

  private:
    /// What was measured before is no whole check.
    void fails(const std::string& why) {
        check_.failure = printable(why, 400);
        check_.devices.clear();
        check_.products.clear();
        check_.links.clear();
    }

    void one_device(std::int64_t device, std::int64_t index) {
        auto backend = tools_.backend(device);
        if (!backend) throw std::runtime_error(backend.error().message());
        const Device who = (*backend)->device();
        if (check_.node.empty()) check_.node = who.node;
        std::vector<OpShape> shapes = standard_products(who);
        for (const OpShape& shape : request_.products)
            if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end())
                shapes.push_back(shape);
        for (const OpShape& shape : shapes) {
            auto op = (*backend)->prepare(shape);
            // The device has no such precision, or not the memory for a profile's product.
            if (!op && op.error().code == ErrorCode::no) continue;
            if (!op) throw std::runtime_error(op.error().message());
            check_.products.push_back(time(**op, shape, index));
        }
        if (check_.products.empty() || check_.products.back().device != index)
            throw std::runtime_error("GPU " + std::to_string(index) + " can run no product of it");
        check_.devices.push_back({index, who, (*backend)->state()});
    }

    static ProductTime time(Operator& op, const OpShape& shape, std::int64_t index) {
        const std::string key = op_key(shape);
        const double cold = usable(op.execute(1), key);
        double one = cold, spent = cold;
        for (int i = 0; i < max_warm_ups && spent < warm_up_s; ++i) {
            const std::int64_t times = times_for(std::max(one, sample_s / 1000));
            const double seconds = usable(op.execute(times), key);
            spent += seconds;
            one = seconds / static_cast<double>(times);
        }
        const std::int64_t times = times_for(one);
        std::vector<double> measured;
        for (std::size_t i = 0; i < samples; ++i)
            measured.push_back(usable(op.execute(times), key) / static_cast<double>(times));
        const MedianInterval interval = median_interval(measured);
        return {index, shape, interval.median, std::min(interval.spread, 10.0)};
    }

    void all_links(const std::vector<std::int64_t>& indices) {
        auto links = tools_.links(static_cast<std::int64_t>(indices.size()));
        if (!links) throw std::runtime_error(links.error().message());
        check_.link_kind = (*links)->kind();
        check_.link_bytes = (*links)->bytes();
        std::vector<int> order(indices.size());
        std::iota(order.begin(), order.end(), 0);
        for (const slowdown::Pass& pass : slowdown::ring_passes(order))
            one_pass(**links, pass, indices);
    }

    void one_pass(Links& links, const slowdown::Pass& pass,
                  const std::vector<std::int64_t>& indices) {
        (void)links.copy(pass, 1);
        const std::vector<double> cold = links.copy(pass, 1);
        const std::int64_t times =
            times_for(usable(*std::min_element(cold.begin(), cold.end()), "a copy"));
        std::vector<std::vector<double>> measured(pass.size());
        for (std::size_t i = 0; i < samples; ++i) {
            const std::vector<double> seconds = links.copy(pass, times);
            for (std::size_t j = 0; j < pass.size(); ++j)
                measured[j].push_back(usable(seconds[j], "a copy"));
        }
        for (std::size_t j = 0; j < pass.size(); ++j)
            check_.links.push_back({indices[static_cast<std::size_t>(pass[j].from)],
                                    indices[static_cast<std::size_t>(pass[j].to)],
                                    median_interval(measured[j]).median});
    }

    const CheckRequest& request_;
    const CheckTools& tools_;
    NodeCheck check_;
};

}  // namespace

std::vector<OpShape> standard_products(const Device& device) {
    if (device.kind == "cpu") return {product(Precision::fp32, 512)};
    return {product(Precision::fp32, 4096), product(Precision::bf16, 8192),
            product(Precision::fp16, 8192)};
}

Result<std::vector<std::int64_t>> device_indices(const char* visible, std::int64_t devices,
                                                 std::int64_t node_devices) {
    std::vector<std::int64_t> all;
    if (devices >= node_devices) {
        all.resize(static_cast<std::size_t>(devices));
        std::iota(all.begin(), all.end(), 0);
        return all;
    }
    if (visible != nullptr && *visible != '\0')
        for (const std::string_view word : split(visible, ','))
            if (const auto index = parse_integer(word, 0, 4095)) all.push_back(*index);
    std::sort(all.begin(), all.end());
    const bool each_once = std::adjacent_find(all.begin(), all.end()) == all.end();
    if (!each_once || static_cast<std::int64_t>(all.size()) != devices)
        return no_error("CUDA_VISIBLE_DEVICES does not say which of the node's GPUs these are");
    return all;
}

NodeCheck run_check(const CheckRequest& request, const std::vector<std::int64_t>& indices,
                    const CheckTools& tools) {
    return Check(request, tools).run(indices);
}

}  // namespace arena
