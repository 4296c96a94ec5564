// SPDX-License-Identifier: GPL-2.0-or-later
// Reader: nvidia-smi nvlink, dcgmi's tables, perfquery and ibqueryerrors. See reader.h.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "health/reader.h"

namespace arena::health {
namespace {

/// "| GPU 3   | Memory:  Failure  |" -> "GPU 3", "Memory:  Failure".
std::vector<std::string_view> cells_of(std::string_view line) {
    std::vector<std::string_view> cells;
    if (!line.starts_with('|')) return cells;
    for (const std::string_view cell : split(line.substr(1), '|')) cells.push_back(trim(cell));
    if (!cells.empty() && cells.back().empty()) cells.pop_back();
    return cells;
}

/// "GPU 3", "GPU ID: 3", "GPU3"
std::optional<std::int64_t> gpu_in(std::string_view text) {
    if (!text.starts_with("GPU")) return std::nullopt;
    text = trim(text.substr(3));
    if (text.starts_with("ID:")) text = trim(text.substr(3));
    return parse_integer(text, 0, 4095);
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    return out;
}

bool is_rule(std::string_view line) {
    return line.empty() || (line.find_first_not_of("+-=|") == std::string_view::npos);
}

std::string place_of(std::int64_t gpu) { return "gpu" + std::to_string(gpu); }

/// What a Comment can hold of a stranger's word.
std::string plain(std::string_view text, std::size_t most) {
    std::string word(text.substr(0, most));
    for (char& c : word) {
        const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
        if (!is_plain) c = '_';
    }
    return word;
}

std::string port_place(std::string_view device, std::string_view port) {
    return plain(device, 40) + "." + plain(port, 8);
}

}  // namespace

/// "Link 0: 25 GB/s", "Link 0: <inactive>", "Link 0: Replay Errors: 0", "NVML: Unable to retrieve
/// NVLink information as all links are inactive".
bool Reader::take_nvlink(std::string_view line) {
    line = trim(line);
    if (line.empty()) return true;
    Gpu& gpu = gpus_[place_];
    if (line.ends_with("as all links are inactive")) {
        report_.heard.insert(Tool::nvlink_status);
        gpu.links = 0;
        return true;
    }
    if (!line.starts_with("Link ")) return false;
    const std::size_t colon = line.find(": ");
    const auto link = parse_integer(line.substr(5, std::min(colon, line.size()) - 5), 0, 255);
    if (!link || colon == std::string_view::npos) return false;
    const std::string_view rest = line.substr(colon + 2);
    if (rest == "<inactive>" || rest.ends_with("GB/s")) {
        report_.heard.insert(Tool::nvlink_status);
        if (std::exchange(new_list_, false)) gpu.links = 0;
        gpu.links += rest.ends_with("GB/s") ? 1 : 0;
        return true;
    }
    const std::size_t value = rest.rfind(": ");
    if (value == std::string_view::npos) return false;
    report_.heard.insert(Tool::nvlink_errors);
    note(Tool::nvlink_errors, rest.substr(0, value), trim(rest.substr(value + 2)),
         place_ + ".link" + std::to_string(*link));
    return true;
}

/// "| GPU 3 | Memory:  Failure |"; of earlier versions "| GPU ID: 3 | Failure |" and below it
/// "| | Memory system: Failure - ... |".
bool Reader::take_health(std::string_view line) {
    const auto cells = cells_of(line);
    if (cells.size() < 2) return is_rule(line) || !cells.empty();
    if (const auto gpu = gpu_in(cells[0])) place_ = place_of(*gpu);
    const std::size_t colon = cells[1].find(':');
    if (colon == std::string_view::npos) return true;
    std::string system = lower(cells[1].substr(0, colon));
    if (system.ends_with(" system")) system.resize(system.size() - 7);
    note(Tool::dcgm_health, system, trim(cells[1].substr(colon + 1)), place_);
    return true;
}

/// "| memory | Fail |" and below it "| | GPU3: Fail |"; of earlier versions
/// "| GPU Memory | Fail - GPU 3 |".
bool Reader::take_diag(std::string_view line) {
    const auto cells = cells_of(line);
    if (cells.size() < 2) return is_rule(line) || !cells.empty() || line.starts_with("+--");
    if (!cells[0].empty()) test_ = lower(cells[0]);
    std::string_view result = cells[1];
    if (cells[0].empty()) {
        const std::size_t colon = result.find(':');
        const auto gpu = gpu_in(result.substr(0, colon));
        if (!gpu || colon == std::string_view::npos) return true;
        note(Tool::dcgm_diag, test_, trim(result.substr(colon + 1)), place_of(*gpu));
        return true;
    }
    const std::size_t dash = result.find(" - ");
    if (dash == std::string_view::npos) return true;
    for (const std::string_view name : split(result.substr(dash + 3), ','))
        if (const auto gpu = gpu_in(trim(name)))
            note(Tool::dcgm_diag, test_, result, place_of(*gpu));
    return true;
}

/// "# Port counters: Lid 17 port 1 (CapMask: 0x5A00)"; "Errors for "n3 mlx5_0""; below the latter
/// "   GUID 0x7cfe port 1: [SymbolErrorCounter == 12] [PortXmitWait == 3]".
bool Reader::take_errors(std::string_view line) {
    if (line.starts_with("# Port ") && line.find("counters: ") != line.npos) {
        begin(Section::port, Tool::ib);
        const std::size_t lid = line.find("Lid "), port = line.find(" port ");
        if (lid == line.npos || port == line.npos || port < lid) return true;
        const std::string_view number = line.substr(port + 6);
        place_ = port_place("lid" + std::string(line.substr(lid + 4, port - lid - 4)),
                            number.substr(0, number.find(' ')));
        is_perfquery_ = true;
        return true;
    }
    if (!line.starts_with("Errors for ")) return false;
    begin(Section::port, Tool::ib);
    is_perfquery_ = false;
    const std::size_t open = line.find('"'), close = line.rfind('"');
    const std::string_view name =
        open < close ? line.substr(open + 1, close - open - 1) : std::string_view();
    const std::size_t blank = name.find(' ');
    own_port_ = blank != name.npos && name.substr(0, blank) == machine_.host;
    place_ = own_port_ ? std::string(name.substr(blank + 1)) : "node";
    return true;
}

bool Reader::take_port(std::string_view line) {
    const std::string_view body = trim(line);
    if (body.starts_with("## ") || body.empty()) return true;
    if (const std::size_t colon = body.find(":.."); is_perfquery_ && colon != body.npos) {
        const std::size_t value = body.find_first_not_of('.', colon + 1);
        if (value != body.npos) note(Tool::ib, body.substr(0, colon), body.substr(value), place_);
        return true;
    }
    if (is_perfquery_ || !body.starts_with("GUID ")) return false;
    if (!own_port_) return ++report_.counts.elsewhere, true;
    const std::size_t port = body.find(" port ");
    const std::string_view number = port == body.npos ? "" : body.substr(port + 6);
    const std::string place = port_place(place_, number.substr(0, number.find(':')));
    for (const std::string_view part : split(body, '[')) {
        const std::size_t equals = part.find(" == "), close = part.find(']');
        if (equals != part.npos && close != part.npos && equals < close)
            note(Tool::ib, part.substr(0, equals), part.substr(equals + 4, close - equals - 4),
                 place);
    }
    return true;
}

}  // namespace arena::health
