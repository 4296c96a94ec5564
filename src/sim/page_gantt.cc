// SPDX-License-Identifier: GPL-2.0-or-later
// The chart of GPUs x time: see page_parts.h. A stay is one shape, of a rectangle per run of
// neighbouring GPUs. Policies choose nodes and counts; which GPUs of a node a job has is drawn as
// the lowest that are free.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/count_text.h"
#include "sim/page_parts.h"

namespace arena::sim {
namespace {

/// Of the figure; the others: what is left for labels.
namespace gantt {
constexpr double width = 1200, left = 92, top = 4, bottom = 24;
}
constexpr double tallest_gpu = 16, tallest_chart = 880;
/// Room that a label needs: per letter, and in height.
constexpr double letter = 5.6, label_height = 10;
constexpr std::size_t colours = 36;

struct Band {
    std::size_t from, to;  ///< rows
};

struct Shape {
    const Stay* stay = nullptr;
    std::vector<Band> bands;
    double gpu_s = 0;
};

class Gantt {
  public:
    Gantt(const Workload& workload, const Metrics& run, double until_s, GanttLimits limits)
        : workload_(workload), run_(run), until_s_(until_s) {
        place_nodes();
        gpu_height_ = std::min(
            tallest_gpu, tallest_chart / static_cast<double>(std::max<std::size_t>(rows_, 1)));
        make_shapes();
        keep_largest(limits);
    }
    [[nodiscard]] std::string figure() const;

  private:
    void place_nodes();
    void make_shapes();
    Shape shape_of_stay(const Stay&, std::vector<double>& busy_until) const;
    void keep_largest(GanttLimits);
    [[nodiscard]] const Offer& offer_of(const Stay& stay) const {
        return workload_.profiles[workload_.jobs[stay.job].profile].offers[stay.offer];
    }
    [[nodiscard]] double x(double time_s) const {
        return gantt::left + (gantt::width - gantt::left) * time_s / until_s_;
    }
    [[nodiscard]] double y(std::size_t row) const {
        return gantt::top + gpu_height_ * static_cast<double>(row);
    }
    [[nodiscard]] std::string rectangle(double from_s, double to_s, Band) const;
    [[nodiscard]] std::string shape(const Shape&) const;
    [[nodiscard]] std::string label(const Shape&) const;
    [[nodiscard]] std::string axes() const;
    [[nodiscard]] std::string legend() const;

    const Workload& workload_;
    const Metrics& run_;
    double until_s_, gpu_height_ = 1;
    std::size_t rows_ = 0;
    std::vector<std::size_t> first_row_;  ///< by node
    struct TypeRows {
        std::string name;
        std::size_t from, to;
    };
    std::vector<TypeRows> types_;
    std::vector<Shape> shapes_;  ///< by start
    std::size_t all_shapes_ = 0;
    double drawn_share_ = 1;
};

void Gantt::place_nodes() {
    first_row_.assign(workload_.nodes.size(), 0);
    for (const std::string& type : workload_.gpu_types) {
        const std::size_t from = rows_;
        for (std::size_t n = 0; n < workload_.nodes.size(); ++n) {
            if (workload_.nodes[n].gpu_type != type) continue;
            first_row_[n] = rows_;
            rows_ += static_cast<std::size_t>(workload_.nodes[n].total_gpus);
        }
        types_.push_back({type, from, rows_});
    }
}

Shape Gantt::shape_of_stay(const Stay& stay, std::vector<double>& busy_until) const {
    const Grid& grid = offer_of(stay).grid;
    // The layout taken may be another equal split than the offer's: so many GPUs on each of its
    // nodes.
    const std::int64_t per_node = grid.gpus() / std::max<std::int64_t>(1, std::ssize(stay.nodes));
    Shape out{&stay, {}, static_cast<double>(grid.gpus()) * (stay.to_s - stay.from_s)};
    std::vector<std::size_t> taken;
    for (const std::uint32_t node : stay.nodes) {
        std::int64_t wanted = per_node;
        const std::size_t first = first_row_[node];
        const auto end = first + static_cast<std::size_t>(workload_.nodes[node].total_gpus);
        for (std::size_t row = first; row < end && wanted > 0; ++row) {
            if (busy_until[row] > stay.from_s) continue;
            busy_until[row] = stay.to_s;
            taken.push_back(row);
            --wanted;
        }
    }
    std::sort(taken.begin(), taken.end());
    for (const std::size_t row : taken) {
        if (!out.bands.empty() && out.bands.back().to == row) {
            ++out.bands.back().to;
        } else {
            out.bands.push_back({row, row + 1});
        }
    }
    return out;
}

void Gantt::make_shapes() {
    std::vector<const Stay*> order;
    for (const Stay& stay : run_.stays) {
        if (stay.to_s > stay.from_s) order.push_back(&stay);
    }
    std::sort(order.begin(), order.end(), [](const Stay* a, const Stay* b) {
        return std::tie(a->from_s, a->job) < std::tie(b->from_s, b->job);
    });
    std::vector<double> busy_until(rows_, 0);
    for (const Stay* stay : order) shapes_.push_back(shape_of_stay(*stay, busy_until));
    all_shapes_ = shapes_.size();
}

void Gantt::keep_largest(GanttLimits limits) {
    std::vector<std::size_t> order(shapes_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return shapes_[a].gpu_s > shapes_[b].gpu_s;
    });
    double all = 0, drawn = 0;
    std::vector<bool> kept(shapes_.size(), false);
    std::size_t stays = 0, rectangles = 0;
    for (const std::size_t i : order) {
        all += shapes_[i].gpu_s;
        if (stays + 1 > limits.stays || rectangles + shapes_[i].bands.size() > limits.rectangles)
            continue;
        kept[i] = true;
        ++stays;
        rectangles += shapes_[i].bands.size();
        drawn += shapes_[i].gpu_s;
    }
    std::vector<Shape> out;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
        if (kept[i]) out.push_back(std::move(shapes_[i]));
    }
    shapes_ = std::move(out);
    drawn_share_ = all > 0 ? drawn / all : 1;
}

std::string Gantt::rectangle(double from_s, double to_s, Band band) const {
    const double wide = std::max(0.3, x(to_s) - x(from_s));
    return fmt::format("M{} {}h{}v{}h-{}z", pixel(x(from_s)), pixel(y(band.from)), pixel(wide),
                       pixel(y(band.to) - y(band.from)), pixel(wide));
}

std::string Gantt::label(const Shape& s) const {
    const auto tallest = std::max_element(
        s.bands.begin(), s.bands.end(),
        [](const Band& a, const Band& b) { return a.to - a.from < b.to - b.from; });
    if (tallest == s.bands.end()) return "";
    const double high = y(tallest->to) - y(tallest->from),
                 wide = x(s.stay->to_s) - x(s.stay->from_s);
    const std::string name = escaped(workload_.jobs[s.stay->job].name),
                      what = escaped(shape_of(offer_of(*s.stay)));
    const std::string both = name + " " + what;
    const auto fits = [&](const std::string& text) {
        return wide > letter * static_cast<double>(text.size()) + 4;
    };
    if (high < label_height || !fits(what)) return "";
    return fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", pixel(x(s.stay->from_s) + 2),
                       pixel(y(tallest->from) + high / 2 + 3.5), fits(both) ? both : what);
}

std::string Gantt::shape(const Shape& s) const {
    const Stay& stay = *s.stay;
    const SimJob& job = workload_.jobs[stay.job];
    std::string d;
    for (const Band& band : s.bands) d += rectangle(stay.from_s, stay.to_s, band);
    std::string out = fmt::format(
        "<path data-j=\"{}\" class=\"k{}\" d=\"{}\"><title>job {}, {}: {}, {} to {}, {} without "
        "progress</title></path>\n",
        stay.job, stay.job % colours, d, escaped(job.name),
        escaped(workload_.profiles[job.profile].model), escaped(shape_of(offer_of(stay))),
        short_time(stay.from_s), short_time(stay.to_s),
        short_time(std::min(stay.to_s, stay.progress_s) - stay.from_s));
    return out;
}

std::string Gantt::axes() const {
    std::string out;
    const std::string foot = pixel(y(rows_));
    for (const double t : time_ticks(until_s_, 10)) {
        out += fmt::format(
            "<path class=\"grid\" d=\"M{0} {1}V{2}\"/><text x=\"{0}\" y=\"{3}\" "
            "text-anchor=\"middle\">{4}</text>",
            pixel(x(t)), pixel(gantt::top), foot, pixel(y(rows_) + 14), short_time(t));
    }
    for (const TypeRows& type : types_) {
        out += fmt::format(
            "<path class=\"axis\" d=\"M0 {0}H{1}\"/><text x=\"2\" y=\"{2}\">{3}</text>"
            "<text x=\"2\" y=\"{4}\">{5} GPUs</text>",
            pixel(y(type.from)), pixel(gantt::width), pixel(y(type.from) + 12), escaped(type.name),
            pixel(y(type.from) + 24), type.to - type.from);
    }
    return out + fmt::format("<path class=\"axis\" d=\"M0 {}H{}\"/>", foot, pixel(gantt::width));
}

std::string Gantt::legend() const {
    const std::string left_out =
        shapes_.size() == all_shapes_
            ? ""
            : fmt::format(" Drawn are the {} largest of {} stays, {:.1f}% of the GPU time held.",
                          readable(static_cast<double>(shapes_.size())),
                          readable(static_cast<double>(all_shapes_)), 100 * drawn_share_);
    return "<figcaption>Each shape is a job's stay on its GPUs, labelled with job, GPUs and plan "
           "where there is "
           "room. Point at one, or focus the chart and press the arrow keys: left and right for "
           "the stay before "
           "and after, up and down for those of the same job, Escape for none." +
           left_out + "</figcaption>\n";
}

std::string Gantt::figure() const {
    std::string out = "<figure class=\"gantt\">" + legend();
    out +=
        "<p><label>Find a job: <input type=\"text\" size=\"12\"/></label> "
        "<output aria-live=\"polite\">No stay is picked.</output></p>\n";
    out += fmt::format(
        "<svg viewBox=\"0 0 {} {}\" tabindex=\"0\" role=\"application\" aria-label=\"GPUs over "
        "time, "
        "policy {}: {} of {} on {}; the table of jobs below says the same\">\n",
        gantt::width, pixel(y(rows_) + gantt::bottom), escaped(run_.policy),
        counted(all_shapes_, "stay"), counted(run_.jobs, "job"), counted(rows_, "GPU"));
    out += axes() + "<g class=\"stays\">\n";
    for (const Shape& s : shapes_) out += shape(s);
    out += "</g><g class=\"labels\">\n";
    for (const Shape& s : shapes_) out += label(s);
    return out + "</g></svg></figure>\n";
}

}  // namespace

std::string shape_of(const Offer& offer) {
    std::string text = short_form(offer.grid);
    if (!offer.plan.stage_layers.empty()) text += " " + short_form(offer.plan);
    if (offer.segment > 1) text += fmt::format(", {} nodes in a rack each", offer.segment);
    return text;
}

std::string gantt_figure(const Workload& workload, const Metrics& run, double until_s,
                         GanttLimits limits) {
    return Gantt(workload, run, until_s, limits).figure();
}

}  // namespace arena::sim
