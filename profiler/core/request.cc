// SPDX-License-Identifier: GPL-2.0-or-later
// See request.h. The planner decides what is worth measuring; nothing here second-guesses its list.
#include "profiler/core/request.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

#include "planner/hardware/hardware.h"
#include "planner/operators/cost.h"
#include "planner/search/planner.h"
#include "profiler/core/measure.h"

namespace arena {
namespace {

/// A model that is dear to plan must not keep the GPU that it is measured on.
constexpr PlanBudget::Limits plan_limits{.seconds = 5, .bytes = std::size_t{256} << 20};

std::string human_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

}  // namespace

Result<ProfileWork> work_of(const ProfileRequest& request, const std::string& hardware_file) {
    const auto all = load_hardware(hardware_file);
    if (!all) return all.error();
    const auto hardware = find_hardware(*all, request.hardware);
    if (!hardware) return hardware.error();
    const PlanQuery query = profile_query(request, *hardware);
    PlanBudget budget(plan_limits);
    return ProfileWork{operator_list(query, budget), hardware->emulated, query};
}

double direct_seconds(const ProfileWork& work, const ProfileTable& measured) {
    PlanQuery query = work.query;
    for (GpuPool& pool : query.pools) pool.profile = measured;
    double sum = 0;
    PlanBudget budget(plan_limits);
    for (const GridResult& grid : plan_grids(query, budget))
        if (grid.feasible)
            sum += static_cast<double>(grid.grid.gpus() * direct_iterations) *
                   grid.estimate.iteration_s;
    return sum;
}

std::string implausible(const ProfileWork& work, const std::vector<ProfileEntry>& measured) {
    constexpr std::size_t least = 4;
    constexpr double slow = 20, fast = 0.25;
    if (work.emulated || work.query.pools.empty()) return {};
    const GpuType& type = work.query.pools.front().hardware;
    std::vector<double> ratios;
    for (const ProfileEntry& e : measured)
        if (e.shape.kind == OpKind::gemm)
            ratios.push_back(e.seconds / analytic_seconds(type, e.shape));
    if (ratios.size() < least) return {};
    const double ratio = median_interval(ratios).median;
    if (ratio >= fast && ratio <= slow) return {};
    const std::string times = human_number(ratio > 1 ? ratio : 1 / ratio);
    return "its GEMMs are " + times + " times " + (ratio > 1 ? "slower" : "faster") +
           " than hardware entry " + type.name +
           (ratio > 1 ? " lets expect: look at clocks, power "
                        "cap and other processes on the device"
                      : " can be: it is another device");
}

Result<std::string> device_kind(const std::string& wanted, bool emulated,
                                const std::string& hardware) {
    const std::string kind = emulated ? "cpu" : "cuda";
    if (wanted == "auto" || wanted == kind) return kind;
    if (wanted != "cpu" && wanted != "cuda")
        return usage_error("accepted are cpu, cuda and auto, not '" + wanted + "'", "--device");
    if (wanted == "cpu")
        return usage_error("timings of a CPU never stand for hardware entry " + hardware +
                               "; name an emulated entry (emulated-cpu)",
                           "--device");
    return usage_error(
        "hardware entry " + hardware + " is emulated: it stands for a CPU, not for a GPU",
        "--device");
}

std::string make_nonce() {
    static constexpr char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char bytes[24];
    if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        throw std::runtime_error("getrandom failed");
    std::string nonce;
    for (const auto b : bytes) nonce += letters[b % 62];
    return nonce;
}

std::string host_name() {
    char name[256] = "";
    return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "unknown";
}

}  // namespace arena
