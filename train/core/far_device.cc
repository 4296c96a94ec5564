// SPDX-License-Identifier: GPL-2.0-or-later
// What all far devices have in common: rounding on the way to them, and the picture of the weights
// that the host keeps.
#include "train/core/far_device.h"

#include <algorithm>
#include <stdexcept>

#include "train/core/weights.h"

namespace arena::train {
namespace {

class LoneGroup final : public FarGroup {
  public:
    void all_reduce_sum(FarSpan<Bf16>) override {}
    void all_reduce_sum(FarSpan<float>) override {}
    void all_reduce_max(FarSpan<float>) override {}
    void reduce_scatter(FarSpan<const float> whole, FarSpan<float> part) override {
        require(whole.data().address() == part.data().address());
    }
    void all_gather(FarSpan<const Bf16> part, FarSpan<Bf16> whole) override {
        require(part.data().address() == whole.data().address());
    }
    void send(FarSpan<const Bf16>, int) override { require(false); }
    void receive(FarSpan<Bf16>, int) override { require(false); }
    void flush() override {}
    void connect(const RankLayout& layout, const Place&) override { require(layout.size() == 1); }

  private:
    static void require(bool holds) {
        if (!holds) throw std::logic_error("a group of one rank has nobody to give to");
    }
};

}  // namespace

std::unique_ptr<FarGroup> make_lone_group() { return std::make_unique<LoneGroup>(); }

FarDevice::Ids FarDevice::upload(const std::vector<std::int32_t>& tokens,
                                 TokenStorage& storage) const {
    if (storage.size() != tokens.size()) storage = TokenStorage(tokens.size());
    copy_in(tokens.data(), tokens.size() * sizeof tokens[0], storage.data().address());
    return {storage.data(), storage.size()};
}

void FarDevice::upload(std::span<const float> host, Numbers to) const {
    copy_in(host.data(), host.size_bytes(), to.address());
}

void FarDevice::upload(std::span<const float> host, Out to) const {
    std::vector<Bf16> rounded(host.size());
    std::ranges::transform(host, rounded.begin(), to_bf16);
    copy_in(rounded.data(), rounded.size() * sizeof(Bf16), to.address());
}

Weights::Weights(Parameters& host)
    : host_(host), weights_(host.weights().size()), gradients_(host.weights().size()) {}

void Masters::upload(const Device& device, Range owned) {
    const std::span<const float> host = weights_.host().weights();
    device.upload(host, weights_.weights().data());
    device.upload(host.subspan(at(owned.begin), at(owned.size())), values_.data());
}

std::span<float> Masters::download(const Device& device, Range owned) {
    const std::span<float> host = weights_.host().weights();
    device.download(values_.data(), host.subspan(at(owned.begin), at(owned.size())));
    return host;
}

}  // namespace arena::train
