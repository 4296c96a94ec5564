// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/array/schedule_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "html/document.h"
#include "tests/lab/array/baselines.h"
#include "tests/lab/array/schedule_check.h"

namespace arena::cli {
namespace {

constexpr double left = 70, width = 1200, row = 34, gap = 8, top = 6;
constexpr const char* style =
    "body{font:14px sans-serif;margin:20px;color:#1a1a1a;background:#fff}"
    "text{font:11px sans-serif}.b{text-anchor:middle}rect{stroke:#333;stroke-width:.4}"
    ".s{fill:#bbb}";
constexpr double letter = 7;  ///< width of one, at font size 11

class Picture {
  public:
    Picture(const array::Instance& instance, const array::Schedule& schedule)
        : instance_(instance),
          schedule_(schedule),
          scale_((width - left) / std::max(1, schedule.makespan)) {}

    std::string svg() {
        const double height = top + instance_.devices * (row + gap) + 24;
        fmt::format_to(out(), "<svg viewBox=\"0 0 {} {}\" width=\"100%\">\n", width + 20, height);
        for (int d = 0; d < instance_.devices; ++d)
            fmt::format_to(out(), "<text x=\"4\" y=\"{:.1f}\">device {}</text>\n",
                           y(d) + row / 2 + 4, d);
        std::vector<const array::Block*> last(static_cast<std::size_t>(instance_.devices), nullptr);
        for (const std::size_t b : array::blocks_in_order(instance_, schedule_)) {
            const array::Block& block = instance_.blocks[b];
            const array::Block*& before = last[static_cast<std::size_t>(block.device)];
            const bool switches =
                before != nullptr && before->state != block.state && block.setup > 0;
            if (switches) draw_switch(block, schedule_.start[b]);
            draw(block, schedule_.start[b]);
            before = &block;
        }
        axis(height - 10);
        return text_ + "</svg>\n";
    }

  private:
    std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }
    [[nodiscard]] double x(double time) const { return left + time * scale_; }
    static double y(int device) { return top + device * (row + gap); }

    void draw_switch(const array::Block& block, array::Ticks start) {
        fmt::format_to(out(),
                       "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" class=\"s\">"
                       "<title>switch to job {} stage {}: {}</title></rect>\n",
                       x(start - block.setup), y(block.device) + 6, block.setup * scale_, row - 12,
                       block.job, block.stage, block.setup);
    }
    void draw(const array::Block& block, array::Ticks start) {
        const double wide = block.hold * scale_;
        const std::string label = fmt::format("{}{}", block.backward ? "B" : "F", block.job);
        fmt::format_to(out(),
                       "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" "
                       "fill=\"hsl({},{}%,{}%)\"><title>{}: {} to {}</title></rect>\n",
                       x(start), y(block.device), wide, row, block.job * 137 % 360,
                       block.backward ? 55 : 65, block.backward ? 52 : 76, array::name_of(block),
                       start, start + block.hold);
        if (wide < letter * static_cast<double>(label.size())) return;
        fmt::format_to(out(), "<text x=\"{:.2f}\" y=\"{:.1f}\" class=\"b\">{}</text>\n",
                       x(start) + wide / 2, y(block.device) + row / 2 + 4, label);
    }
    void axis(double at) {
        for (int i = 0; i <= 10; ++i) {
            const double time = schedule_.makespan / 10.0 * i;
            fmt::format_to(out(), "<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"b\">{:.0f}</text>\n",
                           x(time), at, time);
        }
    }

    const array::Instance& instance_;
    const array::Schedule& schedule_;
    double scale_;
    std::string text_;
};

}  // namespace

std::string schedule_page(const array::Instance& instance, const array::Schedule& schedule,
                          const std::string& verdict) {
    const auto parts = array::breakdown(instance, schedule);
    const std::string name = instance.name.empty() ? "instance" : instance.name;
    std::string body = fmt::format(
        "<h1>{}</h1>\n<p>{} members, {} stages on {} devices: T = {}, {}.</p>\n"
        "<p>Devices: forward {:.1f} %, backward {:.1f} %, switches {:.1f} %, bubble {:.1f} "
        "%.</p>\n",
        html::escaped(name, 200), instance.jobs, instance.stages, instance.devices,
        schedule.makespan, html::escaped(verdict, 400), 100 * parts.forward, 100 * parts.backward,
        100 * parts.switching, 100 * parts.bubble);
    body += Picture(instance, schedule).svg();
    body +=
        "<p>F forward, B backward; a colour for each member; grey: the device switches to another "
        "member's state.</p>";
    return html::page_of({.title = name, .style = style, .body = body});
}

}  // namespace arena::cli
