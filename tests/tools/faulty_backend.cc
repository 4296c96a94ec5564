// SPDX-License-Identifier: GPL-2.0-or-later
// For tests only: a device that takes exactly as long as the roofline of hardware entry A40 says,
// without waiting for it, and fails as ARENA_TEST_FAULT tells: "NAME" from the beginning, "NAME@N"
// from the N-th execution on.
//   none   no fault            slow   a hundred times slower      nan, zero  a broken timer
//   hang   never returns       oom    no memory for buffers       lost       the device is gone
//   kill   SIGKILL to itself     busy   another process uses the device
// ARENA_TEST_HARDWARE: another hardware entry to be as fast as. ARENA_TEST_DEVICE: the only device
// that has the fault, of several. Copies between devices take as long as PCIe would.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "planner/operators/cost.h"
#include "profiler/check/links.h"
#include "profiler/core/nvml.h"
#include "profiler/core/operator.h"

namespace arena {
namespace {

struct Fault {
    std::string name = "none";
    std::int64_t from = 1, executions = 0;
    [[nodiscard]] bool is(const char* wanted) const { return name == wanted && executions >= from; }
};

class FaultyOperator final : public Operator {
  public:
    FaultyOperator(Fault& fault, double seconds) : fault_(fault), seconds_(seconds) {}
    double execute(std::int64_t times) override {
        ++fault_.executions;
        if (fault_.is("hang"))
            for (;;) ::pause();
        if (fault_.is("kill")) std::raise(SIGKILL);
        if (fault_.is("lost")) throw std::runtime_error("CUDA: execute: the GPU fell off the bus");
        if (fault_.is("nan")) return std::numeric_limits<double>::quiet_NaN();
        if (fault_.is("zero")) return 0;
        return (fault_.is("slow") ? 100 : 1) * seconds_ * static_cast<double>(times);
    }

  private:
    Fault& fault_;
    double seconds_;
};

class FaultyBackend final : public Backend {
  public:
    FaultyBackend(Fault fault, GpuType type, std::int64_t device)
        : fault_(std::move(fault)), type_(std::move(type)), device_(device) {}
    Device device() const override {
        const std::string uuid = "GPU-test" + (device_ > 0 ? std::to_string(device_) : "");
        return {"cuda", "test device, invented times", uuid, "1", "none", 48LL << 30, 0, "test"};
    }
    DeviceState state() const override { return {1410, 35, 300}; }
    GpuPlace place() const override { return {"0000:17:00.0", 1, {"0000:16:00.0"}, {"mlx5_0"}}; }
    Result<std::unique_ptr<Operator>> prepare(const OpShape& shape) override {
        if (fault_.is("oom") || (fault_.name == "oom" && fault_.from == 1))
            return no_error("CUDA: buffers: out of memory", op_key(shape));
        return std::unique_ptr<Operator>(
            std::make_unique<FaultyOperator>(fault_, analytic_seconds(type_, shape)));
    }

  private:
    Fault fault_;
    GpuType type_;
    std::int64_t device_;
};

class FaultyLinks final : public Links {
  public:
    std::string kind() const override { return "invented copies"; }
    std::int64_t bytes() const override { return 1 << 28; }
    std::vector<double> copy(const slowdown::Pass& pass, std::int64_t) override {
        return std::vector<double>(pass.size(), 0.01);
    }
};

}  // namespace

Result<std::unique_ptr<Links>> make_faulty_links() {
    return std::unique_ptr<Links>(std::make_unique<FaultyLinks>());
}

Result<std::unique_ptr<Backend>> make_faulty_backend(std::int64_t device) {
    const char* said = std::getenv("ARENA_TEST_FAULT");
    const auto words = split(said == nullptr ? "none" : said, '@');
    Fault fault;
    fault.name = words[0];
    if (words.size() > 1) fault.from = parse_integer(words[1], 1, 1000000).value_or(1);
    const char* only = std::getenv("ARENA_TEST_DEVICE");
    if (only != nullptr && std::to_string(device) != only) fault = {};
    if (fault.name == "busy") return busy_error("0000:17:00.0", {{4711, "python3"}});
    const char* entry = std::getenv("ARENA_TEST_HARDWARE");
    const auto all = load_hardware("");
    if (!all) return all.error();
    const auto type = find_hardware(*all, entry == nullptr ? "A40" : entry);
    if (!type) return type.error();
    return std::unique_ptr<Backend>(std::make_unique<FaultyBackend>(fault, *type, device));
}

}  // namespace arena
