// SPDX-License-Identifier: GPL-2.0-or-later
// What a plan costs, and the plans that a job could run with.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "core/plan.h"

namespace arena {

/// What an estimate rests on. data_sheet: formulas, for a device of which no run was ever measured.
enum class Source { analytic, profiled, observed, data_sheet };
std::string_view to_string(Source);
std::optional<Source> parse_source(std::string_view);
/// Relative error to expect of compute times that rest on a data sheet alone.
inline constexpr double data_sheet_error = 0.80;
/// What is said wherever such a type is offered: "mi300x: by its data sheet only, ...".
std::string data_sheet_note(std::string_view gpu_type);

/// Predicted cost of one training iteration under a plan. Seconds and bytes; parts sum to
/// iteration_s only where nothing overlaps.
struct Estimate {
    double iteration_s = 0;
    double samples_per_s = 0;
    double tflops_per_gpu = 0;        ///< model TFLOP/s per GPU
    double memory_bytes_per_gpu = 0;  ///< peak over stages
    /// tp_comm_s: all collectives inside a stage, of experts, contexts and shared batch norms, too.
    double compute_s = 0, tp_comm_s = 0, pp_comm_s = 0, dp_comm_s = 0, bubble_s = 0,
           optimizer_s = 0;
    Source source = Source::analytic;
    double error_bound = 0.5;  ///< relative, e.g. 0.1 = within 10 % most of the time
    bool operator==(const Estimate&) const = default;
};

/// How far apart a job's nodes lie in the network: below one leaf switch (or in one block), below
/// the switches of one pod, or farther. A job of one node is in one leaf.
enum class Span : std::uint8_t { leaf, pod, pods };
inline constexpr Span widest_span = Span::pods;
/// By Span, the first left out.
using SpanFactors = std::array<double, 2>;

/// A grid that a job could take, with the proxy plan that stands for it.
struct Offer {
    Grid grid;
    Plan plan;
    Estimate estimate;  ///< in one leaf, or as close together as so many nodes can lie
    /// Times longer than the estimate an iteration takes over leaves of a pod, and over pods;
    /// ascending, 1 to most_slower.
    SpanFactors slower = {1, 1};
    /// So many nodes are in one NVLink domain each, whole sets of them; 1: the plan needs none.
    std::int64_t segment = 1;
    static constexpr double most_slower = 1e6;
    [[nodiscard]] double slower_at(Span span) const {
        return span == Span::leaf ? 1 : slower[static_cast<std::size_t>(span) - 1];
    }
    [[nodiscard]] double iteration_s(Span span) const {
        return estimate.iteration_s * slower_at(span);
    }
    [[nodiscard]] bool knows_spans() const { return slower != SpanFactors{1, 1}; }
    bool operator==(const Offer&) const = default;
};
/// Whether the two are one choice of a job: of a grid one offer's plan may need whole segments, and
/// another's none.
bool is_same_offer(const Offer&, const Offer&);
/// The grid that a job got, and as which of its offers: that one's segment.
struct Chosen : Grid {
    Chosen() = default;
    explicit Chosen(const Grid& grid) : Grid(grid) {}
    Chosen(const Offer& offer) : Grid(offer.grid), segment(offer.segment) {}
    std::int64_t segment = 1;
    bool operator==(const Chosen&) const = default;
    [[nodiscard]] bool is_of(const Offer& offer) const {
        return is_same_layout(*this, offer.grid) && segment == offer.segment;
    }
    [[nodiscard]] bool is_of(const Chosen& other) const {
        return is_same_layout(*this, other) && segment == other.segment;
    }
};
/// All of the estimate takes so many times as long.
void scale(Estimate&, double factor);
/// As it runs over the span: its estimate is of that, and it has one time.
Offer at_span(Offer, Span);

/// A list of offers, best estimate first, that many jobs may share: copies are one pointer. Reads
/// as a const std::vector<Offer>; own() is the list to change, copied first where others read it
/// too.
class SharedOffers {
  public:
    SharedOffers() = default;
    SharedOffers(std::vector<Offer> list)
        : list_(std::make_shared<std::vector<Offer>>(std::move(list))) {}
    SharedOffers(std::initializer_list<Offer> list) : SharedOffers(std::vector<Offer>(list)) {}
    SharedOffers(std::shared_ptr<const std::vector<Offer>> list) : list_(std::move(list)) {}

    operator const std::vector<Offer>&() const { return get(); }
    [[nodiscard]] const std::vector<Offer>& get() const;
    [[nodiscard]] std::vector<Offer>& own();
    [[nodiscard]] auto begin() const { return get().begin(); }
    [[nodiscard]] auto end() const { return get().end(); }
    [[nodiscard]] std::size_t size() const { return get().size(); }
    [[nodiscard]] bool empty() const { return get().empty(); }
    [[nodiscard]] const Offer& front() const { return get().front(); }
    [[nodiscard]] const Offer& operator[](std::size_t i) const { return get()[i]; }
    void push_back(Offer offer) { own().push_back(std::move(offer)); }
    bool operator==(const SharedOffers& other) const {
        return list_ == other.list_ || get() == other.get();
    }

  private:
    std::shared_ptr<const std::vector<Offer>> list_;
};

/// One line of JSON, and its reader: at most 64 MiB, depth 32; unknown keys are ignored, a missing
/// or mistyped key is an error that names it.
std::string to_json(const Estimate&);
std::string to_json(const Offer&);
Result<Estimate> parse_estimate_json(std::string_view);
Result<Offer> parse_offer_json(std::string_view);

}  // namespace arena
