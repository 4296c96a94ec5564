// SPDX-License-Identifier: GPL-2.0-or-later
// See reader.h: whose line it is, the kernel's and nvidia-smi's. reader_tables.cc has the others.
#include "health/reader.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace arena::health {
namespace {

constexpr std::string_view xid_mark = "NVRM: Xid (", sxid_mark = "SXid (";
/// Beyond what any node has: of a stranger's text no more is kept.
constexpr std::size_t most_devices = 4096;
/// What else of a device's fields is looked at, by its two names.
struct FactName {
    std::string_view key, also;
};
constexpr std::array<FactName, 8> facts{{
    {"name", "Product Name"},
    {"power.limit", "GPU Power Readings/Current Power Limit"},
    {"power.limit", "Power Readings/Power Limit"},
    {"power.default_limit", "GPU Power Readings/Default Power Limit"},
    {"power.default_limit", "Power Readings/Default Power Limit"},
    {"pcie.link.width.current", "PCI/GPU Link Info/Link Width/Current"},
    {"pcie.link.width.max", "PCI/GPU Link Info/Link Width/Max"},
    {"clocks_event_reasons.active", ""},
}};
/// Bits of clocks_event_reasons.active (NvmlClocksEventReasons); those that no sign is about are
/// left out.
struct Bit {
    std::uint64_t mask;
    std::string_view key;
};
constexpr std::array<Bit, 6> reason_bits{{
    {0x02, "clocks_event_reasons.applications_clocks_setting"},
    {0x04, "clocks_event_reasons.sw_power_cap"},
    {0x08, "clocks_event_reasons.hw_slowdown"},
    {0x20, "clocks_event_reasons.sw_thermal_slowdown"},
    {0x40, "clocks_event_reasons.hw_thermal_slowdown"},
    {0x80, "clocks_event_reasons.hw_power_brake_slowdown"},
}};

bool has(std::string_view text, std::string_view words) {
    return text.find(words) != std::string_view::npos;
}

bool is_hex(std::string_view text, std::size_t least, std::size_t most) {
    return text.size() >= least && text.size() <= most &&
           text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

/// Older drivers call what clocks do throttling.
std::string today(std::string_view key) {
    std::string name(key);
    for (const auto& [old, now] : {std::pair<std::string_view, std::string_view>{
                                       "clocks_throttle_reasons.", "clocks_event_reasons."},
                                   {"Clocks Throttle Reasons/", "Clocks Event Reasons/"}})
        if (name.starts_with(old)) name.replace(0, old.size(), now);
    return name;
}

std::string gpu_place(std::int64_t index) { return "gpu" + std::to_string(index); }

/// The first number of the text: "250.00 W", "16x".
double number_of(std::string_view text) {
    const std::size_t end = text.find_first_not_of("0123456789.");
    return parse_number(text.substr(0, end), 0, 1e9).value_or(0);
}

/// What stands in place of a value of a device that does not answer.
std::string_view no_answer(std::string_view value) {
    if (has(value, "GPU is lost") || value == "[Unknown Error]" || value == "ERR!") return "lost";
    return has(value, "GPU requires reset") ? "reset required" : "";
}

}  // namespace

std::string bus_of(std::string_view text) {
    const auto parts = split(text.substr(0, text.find('.')), ':');
    if (parts.size() != 3 || !is_hex(parts[0], 4, 8) || !is_hex(parts[1], 2, 2) ||
        !is_hex(parts[2], 2, 2))
        return {};
    std::string bus = std::string(parts[0].substr(parts[0].size() - 4)) + ":" +
                      std::string(parts[1]) + ":" + std::string(parts[2]);
    std::transform(bus.begin(), bus.end(), bus.begin(),
                   [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; });
    return bus;
}

void Reader::parse_line(std::string_view line) {
    if (line.size() > max_line_bytes) return skip_line();
    ++report_.counts.lines;
    if (line.ends_with('\r')) line.remove_suffix(1);
    report_.counts.known += take(line) ? 1 : 0;
}

void Reader::skip_line() {
    ++report_.counts.lines;
    ++report_.counts.too_long;
}

bool Reader::take(std::string_view line) {
    if (take_kernel(line) || take_failure(line) || take_head(line)) return true;
    switch (section_) {
        case Section::none:
            return false;
        case Section::query:
            return take_query(line);
        case Section::csv:
            return take_csv(line);
        case Section::nvlink:
            return take_nvlink(line);
        case Section::health:
            return take_health(line);
        case Section::diag:
            return take_diag(line);
        case Section::port:
            break;
    }
    return take_port(line);
}

void Reader::begin(Section section, Tool tool) {
    section_ = section;
    report_.heard.insert(tool);
    headings_.clear();
    columns_.clear();
    test_.clear();
    place_ = "node";
}

// ---- the kernel's log --------------------------------------------------------------------------

bool Reader::take_kernel(std::string_view line) {
    if (const std::size_t at = line.find(xid_mark); at != std::string_view::npos)
        return take_event(line, at, false);
    if (const std::size_t at = line.find(sxid_mark); at != std::string_view::npos)
        return take_event(line, at, true);
    const std::size_t close = line.find(']');
    const bool is_dmesg =
        line.starts_with('[') && close != std::string_view::npos &&
        (parse_number(trim(line.substr(1, close - 1)), 0, 1e10) ||
         parse_kernel_time(line.substr(0, close + 1),
                           {.now_s = machine_.now_s, .indexes = {}, .host = {}}) > 0);
    const bool is_log = is_dmesg || has(line.substr(0, 160), " kernel: ");
    if (!is_log) return false;
    report_.heard.insert({Tool::xid, Tool::sxid});
    return true;
}

/// "NVRM: Xid (PCI:0000:3b:00): 79, ...", "SXid (PCI:0000:05:00.0): 20034, Fatal, Link 48 ..."
bool Reader::take_event(std::string_view line, std::size_t at, bool is_switch) {
    const std::string_view mark = is_switch ? sxid_mark : xid_mark;
    std::string_view rest = line.substr(at + mark.size());
    const std::size_t close = rest.find(')');
    if (close == std::string_view::npos || rest.substr(close, 3) != "): ") return false;
    std::string_view address = rest.substr(0, close);
    if (address.starts_with("PCI:")) address.remove_prefix(4);
    rest.remove_prefix(close + 3);
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const auto number = parse_integer(rest.substr(0, comma), 1, 999999);
    if (!number) return false;
    report_.heard.insert({Tool::xid, Tool::sxid});
    const std::int64_t said_s = parse_kernel_time(line.substr(0, at), machine_);
    if (said_s != 0 && said_s < machine_.boot_s) {
        ++report_.counts.before_boot;
        return true;
    }
    const std::string_view words = trim(rest.substr(std::min(comma + 1, rest.size())));
    if (is_switch) {
        note(Tool::sxid, words.substr(0, words.find(',')), words, "node", said_s);
        return true;
    }
    const std::string bus = bus_of(address);
    const std::string place = bus.empty() ? "node" : bus;
    std::string key = std::to_string(*number);
    if (*number == 154) {  // "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset ...)"
        const std::size_t open = words.rfind('(');
        const std::string_view action = open == words.npos ? "" : words.substr(open + 1);
        key += ":" + std::string(action.substr(0, action.find_first_of(" )")));
    } else if (signs_of(Tool::xid, key).empty() && report_.unknown_xids.size() < max_findings) {
        report_.unknown_xids.insert(key);
    }
    note(Tool::xid, key, words, place, said_s);
    return true;
}

// ---- nvidia-smi --------------------------------------------------------------------------------

/// What it says instead of anything else.
bool Reader::take_failure(std::string_view line) {
    if (line.starts_with("NVIDIA-SMI has failed because it couldn't communicate")) {
        begin(Section::none, Tool::smi);
        note(Tool::smi, "driver", line, "node");
    } else if (line.starts_with("No devices were found")) {
        begin(Section::none, Tool::smi);
        note(Tool::smi, "no devices", line, "node");
    } else if (constexpr std::string_view words = "Unable to determine the device handle for GPU";
               line.starts_with(words)) {
        begin(Section::none, Tool::smi);
        std::string place = "node";
        for (const std::string_view word : split(line.substr(words.size()), ' ')) {
            std::string_view address = word;
            while (address.ends_with(':')) address.remove_suffix(1);
            if (const std::string bus = bus_of(address); !bus.empty()) place = bus;
        }
        note(Tool::smi, "lost", line, place);
    } else {
        return false;
    }
    return true;
}

bool Reader::take_head(std::string_view line) {
    if (has(line, "=NVSMI LOG=")) {
        begin(Section::query, Tool::smi);
    } else if (line.starts_with("GPU ") && !bus_of(line.substr(4)).empty()) {
        begin(Section::query, Tool::smi);
        place_ = bus_of(line.substr(4));
    } else if (const auto index = line.starts_with("GPU ") && line.find(": ") < 8
                                      ? parse_integer(line.substr(4, line.find(": ") - 4), 0, 4095)
                                      : std::nullopt) {
        section_ = Section::nvlink;
        new_list_ = true;
        place_ = gpu_place(*index);
        const std::string_view model = line.substr(line.find(": ") + 2);
        gpus_[place_].name = std::string(trim(model.substr(0, model.find(" (UUID"))));
    } else if (line.starts_with("Health Monitor Report")) {
        begin(Section::health, Tool::dcgm_health);
    } else if (line.starts_with("Successfully ran diagnostic for group")) {
        begin(Section::diag, Tool::dcgm_diag);
    } else {
        return take_errors(line) || take_csv_head(line);
    }
    return true;
}

/// "        HW Slowdown                       : Not Active", and headings without a colon.
bool Reader::take_query(std::string_view line) {
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos) return true;
    const std::size_t colon = line.find(" : ");
    if (indent == 0) return colon != std::string_view::npos;
    while (!headings_.empty() && headings_.back().indent >= indent) headings_.pop_back();
    if (colon == std::string_view::npos) {
        headings_.push_back({indent, std::string(trim(line))});
        return headings_.size() < 8;
    }
    std::string key;
    for (const Heading& heading : headings_) key += heading.name + "/";
    key += trim(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 3));
    if (place_ == "node") return true;
    if (key == "Minor Number") {
        if (const auto index = parse_integer(value, 0, 4095)) note_index(place_, *index);
        return true;
    }
    take_fact(place_, key, value);
    return true;
}

bool Reader::take_csv_head(std::string_view line) {
    std::vector<std::string> names;
    bool is_known = false;
    for (const std::string_view cell : split(line, ',')) {
        const std::string_view word = trim(cell.substr(0, cell.find('[')));
        if (word.empty() || word.size() > 64 ||
            word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._") != word.npos)
            return false;
        names.push_back(today(word));
        is_known |= names.back() == "pci.bus_id" || names.back() == "gpu_bus_id" ||
                    !signs_of(Tool::smi, names.back()).empty() ||
                    std::any_of(facts.begin(), facts.end(), [&](const FactName& fact) {
                        return fact.key == names.back() && fact.key != "name";
                    });
    }
    if (!is_known) return false;
    begin(Section::csv, Tool::smi);
    columns_ = std::move(names);
    return true;
}

bool Reader::take_csv(std::string_view line) {
    const auto cells = split(line, ',');
    if (cells.size() != columns_.size()) return false;
    std::string bus, place = "node";
    std::optional<std::int64_t> index;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (columns_[i] == "index") index = parse_integer(trim(cells[i]), 0, 4095);
        if (columns_[i] == "pci.bus_id" || columns_[i] == "gpu_bus_id")
            bus = bus_of(trim(cells[i]));
    }
    if (index && !bus.empty()) note_index(bus, *index);
    if (!bus.empty()) place = bus;
    if (index) place = gpu_place(*index);
    for (std::size_t i = 0; i < cells.size(); ++i) take_fact(place, columns_[i], trim(cells[i]));
    return true;
}

void Reader::take_fact(const std::string& place, std::string_view name, std::string_view value) {
    if (const std::string_view why = no_answer(value); !why.empty())
        return note(Tool::smi, why, value, place);
    const std::string key = today(name);
    note(Tool::smi, key, value, place);
    if (place == "node" || gpus_.size() > most_devices) return;
    const auto fact = std::find_if(facts.begin(), facts.end(), [&](const FactName& known) {
        return known.key == key || known.also == key;
    });
    if (fact == facts.end()) return;
    Gpu& gpu = gpus_[place];
    if (fact->key == "name") gpu.name = std::string(value);
    if (fact->key == "power.limit") gpu.limit_w = number_of(value);
    if (fact->key == "power.default_limit") gpu.default_w = number_of(value);
    if (fact->key == "pcie.link.width.current")
        gpu.width = static_cast<std::int64_t>(number_of(value));
    if (fact->key == "pcie.link.width.max")
        gpu.width_max = static_cast<std::int64_t>(number_of(value));
    if (fact->key == "clocks_event_reasons.active") take_reasons(place, value);
}

void Reader::note_index(const std::string& bus, std::int64_t index) {
    if (machine_.indexes.size() < most_devices) machine_.indexes[bus] = index;
}

void Reader::take_reasons(const std::string& place, std::string_view mask) {
    if (!mask.starts_with("0x") || !is_hex(mask.substr(2), 1, 16)) return;
    const std::uint64_t bits = std::stoull(std::string(mask), nullptr, 16);
    for (const Bit& bit : reason_bits)
        if ((bits & bit.mask) != 0) note(Tool::smi, bit.key, "Active", place);
}

// ---- what it comes to --------------------------------------------------------------------------

void Reader::note(Tool tool, std::string_view key, std::string_view value, const std::string& place,
                  std::int64_t at) {
    for (const Sign* sign : signs_of(tool, key))
        if (holds(*sign, value))
            return add(*sign,
                       sign->code == "xid" ? "xid" + std::string(key) : std::string(sign->code),
                       sign->culprit == Culprit::node ? "node" : place, at);
}

void Reader::add(const Sign& sign, const std::string& code, const std::string& place,
                 std::int64_t at) {
    const auto key = std::pair(code, place);
    const auto known = found_.find(key);
    if (known == found_.end() && found_.size() >= most_devices)
        return static_cast<void>(++report_.counts.beyond);
    Finding& finding = found_[key];
    // Of what the driver asks for the latest word counts; else the worst, and its latest time.
    const bool asks = sign.code == "xid154";
    finding = {code, place,
               known == found_.end() || asks ? sign.severity
                                             : std::max(known->second.severity, sign.severity),
               std::max(known == found_.end() ? 0 : known->second.at, at)};
}

std::string known_place(const std::string& place,
                        const std::map<std::string, std::int64_t>& indexes) {
    const std::size_t dot = place.find('.');
    const auto index = indexes.find(place.substr(0, dot));
    if (index == indexes.end()) return place;
    return gpu_place(index->second) + (dot == std::string::npos ? "" : place.substr(dot));
}

void Reader::derive() {
    for (const auto& [place, gpu] : gpus_) {
        if (gpu.limit_w > 0 && gpu.limit_w + 0.5 < gpu.default_w)
            note(Tool::smi, "power.limit below power.default_limit", "", place);
        derive_width(place, gpu);
        derive_links(place, gpu);
    }
}

/// Slots that are narrower by design are so for all.
void Reader::derive_width(const std::string& place, const Gpu& gpu) {
    const bool is_narrow =
        gpu.width > 0 && gpu.width < gpu.width_max &&
        std::any_of(gpus_.begin(), gpus_.end(), [&](const auto& other) {
            return other.second.width_max == gpu.width_max && other.second.width > gpu.width;
        });
    if (is_narrow) note(Tool::smi, "pcie.link.width.current below others", "", place);
}

/// GPUs that bridges join by pairs have links where others have none: only what most of the node's
/// GPUs of its kind have counts as what it should have.
void Reader::derive_links(const std::string& place, const Gpu& gpu) {
    if (gpu.links < 0) return;
    std::map<std::int64_t, std::size_t> counts;
    std::size_t alike = 0;
    for (const auto& [other, known] : gpus_)
        if (known.links >= 0 && known.name == gpu.name) ++counts[known.links], ++alike;
    for (const auto& [links, times] : counts)
        if (2 * times > alike && gpu.links < links)
            note(Tool::nvlink_status, "fewer than others", "", place);
}

Report Reader::finish() {
    derive();
    std::map<std::pair<std::string, std::string>, Finding> merged;
    for (const auto& [key, found] : found_) {
        Finding finding = found;
        finding.place = known_place(finding.place, machine_.indexes);
        Finding& known = merged[{finding.code, finding.place}];
        finding.at = std::max(finding.at, known.at);
        known = finding;
    }
    for (const auto& [key, finding] : merged)
        (finding.severity == Severity::note ? report_.notes : report_.findings).push_back(finding);
    auto& list = report_.findings;
    std::stable_sort(list.begin(), list.end(),
                     [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
    if (list.size() > max_findings) {
        report_.counts.beyond += list.size() - max_findings;
        list.resize(max_findings);
    }
    report_.indexes = std::move(machine_.indexes);
    return std::move(report_);
}

}  // namespace arena::health
