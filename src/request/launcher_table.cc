// SPDX-License-Identifier: GPL-2.0-or-later
#include "request/launcher_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace arena {
namespace {

constexpr std::size_t max_table_bytes = 64 * 1024, max_rows = 1024, max_words = 64,
                      max_word_bytes = 256;

// ---- words --------------------------------------------------------------------------------------

struct Placeholder {
    std::string_view name;
    bool of_hosts;  ///< known only on the job's nodes
    std::string (*text)(const PlanWords&);
};

std::string number(std::int64_t value) { return std::to_string(value); }

/// E embedding, t*N layers, L loss, | between stages.
std::string layout(const PlanWords& w) {
    std::string text = "E";
    for (std::size_t i = 0; i < w.stage_layers.size(); ++i)
        text += fmt::format("{}t*{}", i == 0 ? "" : "|", w.stage_layers[i]);
    return text + "L";
}

std::int64_t world(const PlanWords& w) { return w.facts.pp * w.facts.dp * w.facts.tp * w.facts.cp; }

/// Replicas of a group that shares states.
std::int64_t group(const PlanWords& w) { return w.facts.hsdp == 0 ? w.facts.dp : w.facts.hsdp; }

constexpr Placeholder placeholders[] = {
    {"pp", false, [](const PlanWords& w) { return number(w.facts.pp); }},
    {"dp", false, [](const PlanWords& w) { return number(w.facts.dp); }},
    {"tp", false, [](const PlanWords& w) { return number(w.facts.tp); }},
    {"cp", false, [](const PlanWords& w) { return number(w.facts.cp); }},
    {"ep", false, [](const PlanWords& w) { return number(w.facts.ep); }},
    {"etp", false, [](const PlanWords& w) { return number(w.facts.etp); }},
    {"vpp", false, [](const PlanWords& w) { return number(w.facts.vpp); }},
    {"zero", false, [](const PlanWords& w) { return number(w.facts.zero); }},
    {"group", false, [](const PlanWords& w) { return number(group(w)); }},
    {"groups", false, [](const PlanWords& w) { return number(w.facts.dp / group(w)); }},
    {"lora_rank", false, [](const PlanWords& w) { return number(w.facts.lora_rank); }},
    {"mb", false, [](const PlanWords& w) { return number(w.micro_batch); }},
    {"nmb", false, [](const PlanWords& w) { return number(w.facts.micro_batches); }},
    {"batch", false, [](const PlanWords& w) { return number(w.global_batch); }},
    {"local_batch", false,
     [](const PlanWords& w) { return number(w.micro_batch * w.facts.micro_batches); }},
    {"seq", false, [](const PlanWords& w) { return number(w.seq_length); }},
    {"mb_tokens", false, [](const PlanWords& w) { return number(w.micro_batch * w.seq_length); }},
    {"step_tokens", false,
     [](const PlanWords& w) { return number(w.global_batch * w.seq_length); }},
    {"chunk", false,
     [](const PlanWords& w) { return number(w.stage_layers.front() / w.facts.vpp); }},
    {"first", false, [](const PlanWords& w) { return number(w.stage_layers.front()); }},
    {"last", false, [](const PlanWords& w) { return number(w.stage_layers.back()); }},
    {"layout", false, layout},
    {"world", false, [](const PlanWords& w) { return number(world(w)); }},
    {"nodes", true, [](const PlanWords& w) { return number(w.place.nodes); }},
    {"per_node", true,
     [](const PlanWords& w) {
         return w.place.uneven ? std::string("gpu")
                               : number(world(w) / std::max<std::int64_t>(1, w.place.nodes));
     }},
    {"node_rank", true, [](const PlanWords& w) { return number(w.place.node_rank); }},
    {"job", true, [](const PlanWords& w) { return number(w.place.job); }},
    {"host", true, [](const PlanWords& w) { return w.place.host; }},
    {"port", true, [](const PlanWords& w) { return number(w.place.port); }},
};

const Placeholder* find_placeholder(std::string_view name) {
    const auto at = std::find_if(std::begin(placeholders), std::end(placeholders),
                                 [&](const Placeholder& p) { return p.name == name; });
    return at == std::end(placeholders) ? nullptr : at;
}

/// The parts of a word: text, {name}, text, ... in turn; false where a brace has no partner or its
/// name is none.
template <typename Text, typename Value>
bool walk(std::string_view word, Text on_text, Value on_value) {
    while (!word.empty()) {
        const std::size_t open = word.find('{');
        on_text(word.substr(0, open));
        if (open == std::string_view::npos) return true;
        const std::size_t close = word.find('}', open);
        if (close == std::string_view::npos) return false;
        const Placeholder* value = find_placeholder(word.substr(open + 1, close - open - 1));
        if (value == nullptr) return false;
        on_value(*value);
        word.remove_prefix(close + 1);
    }
    return true;
}

std::string placeholder_names() {
    std::vector<std::string> names;
    for (const Placeholder& p : placeholders) names.push_back(fmt::format("{{{}}}", p.name));
    return join(names, " ");
}

// ---- the text of a table
// --------------------------------------------------------------------------

using Fields = std::vector<std::string_view>;

Fields fields_of(std::string_view line) {
    Fields fields;
    for (const std::string_view part : split(line, ' '))
        if (!part.empty()) fields.push_back(part);
    return fields;
}

class TableReader {
  public:
    explicit TableReader(std::string_view name) : name_(name) { launcher_.name = name; }

    Status line(std::string_view text, std::size_t number) {
        number_ = number;
        text = trim(text);
        if (text.empty() || text.front() == '#') return Done{};
        const auto is_plain = [](char c) { return c >= 0x20 && c < 0x7f; };
        if (!std::all_of(text.begin(), text.end(), is_plain))
            return wrong("bytes that are not printable");
        const Fields fields = fields_of(text);
        const bool is_row = fields[0] == "-" || (fields[0][0] >= '0' && fields[0][0] <= '9');
        return is_row ? row(fields) : header(fields, text);
    }

    Result<Launcher> finish() {
        number_ = 0;
        if (launcher_.title.empty()) return wrong("no line 'title WORDS'").error();
        if (!has_tasks_) return wrong("no line 'tasks gpu' or 'tasks node'").error();
        if (gap_) leave_out_gap();
        if (launcher_.rows.empty()) return wrong("no rows").error();
        if (launcher_.version && !launcher_.knows(*launcher_.version))
            return wrong(fmt::format("version {} has no rows", to_string(*launcher_.version)))
                .error();
        const bool has_limits =
            std::any_of(launcher_.rows.begin(), launcher_.rows.end(),
                        [](const LauncherRow& r) { return r.from || r.before; });
        if (has_limits != launcher_.version.has_value())
            return wrong("rows of versions and a line 'version V' go together").error();
        return std::move(launcher_);
    }

  private:
    [[nodiscard]] Status wrong(std::string text) const {
        return usage_error(std::move(text),
                           number_ == 0 ? name_ : fmt::format("{}:{}", name_, number_));
    }

    Status header(const Fields& fields, std::string_view text) {
        const std::string_view key = fields[0];
        if (std::find(seen_.begin(), seen_.end(), key) != seen_.end())
            return wrong(fmt::format("'{}' is there twice", printable(key, 40)));
        seen_.emplace_back(key);
        if (key == "title") return prose(text.substr(key.size()), key, launcher_.title);
        if (key == "script") return prose(text.substr(key.size()), key, launcher_.script);
        if (key == "programs") return programs(fields);
        if (key == "unasked") return unasked(fields);
        if (key == "asked") return asked(fields);
        if (key == "gap") return gap(fields);
        if (fields.size() != 2)
            return wrong(
                fmt::format("'{}' is not a row, nor a word with one value", printable(text, 40)));
        const std::string_view value = fields[1];
        if (key == "tasks") return one_of(value, "node", "gpu", launcher_.one_task_per_node);
        if (key == "ranks") return one_of(value, "env", "own", launcher_.wants_ranks);
        if (key == "nodes") return one_of(value, "uneven", "even", launcher_.uneven);
        if (key == "version") return version(value, launcher_.version);
        return wrong(
            fmt::format("unknown word '{}': accepted are title, script, programs, tasks, ranks, "
                        "nodes, version, "
                        "gap, asked, unasked, or a row FROM BEFORE FEATURE WORDS",
                        printable(key, 40)));
    }

    Status prose(std::string_view text, std::string_view key, std::string& out) {
        out = trim(text);
        return out.empty() ? wrong(fmt::format("'{}' without words", key)) : Done{};
    }

    Status one_of(std::string_view value, std::string_view yes, std::string_view no, bool& out) {
        if (value != yes && value != no)
            return wrong(fmt::format("'{}' is not {} or {}", printable(value, 40), yes, no));
        has_tasks_ = has_tasks_ || yes == "node";
        out = value == yes;
        return Done{};
    }

    Status programs(const Fields& fields) {
        if (fields.size() == 1 || fields.size() > max_words)
            return wrong("'programs' is followed by the words by which a script names them");
        for (std::size_t i = 1; i < fields.size(); ++i) launcher_.programs.emplace_back(fields[i]);
        return Done{};
    }

    Status version(std::string_view text, std::optional<Version>& out) {
        out = parse_version(text);
        return out ? Status(Done{})
                   : wrong(fmt::format("'{}' is no version such as 0.13", printable(text, 40)));
    }

    /// Versions that rows span and the launcher does not know.
    Status gap(const Fields& fields) {
        if (fields.size() != 3)
            return wrong(
                "'gap' is followed by the first version that is not known and the next that is");
        std::optional<Version> from, before;
        if (Status s = version(fields[1], from); !s) return s;
        if (Status s = version(fields[2], before); !s) return s;
        if (*from >= *before)
            return wrong(fmt::format("{} does not come before {}", fields[1], fields[2]));
        gap_ = {*from, *before};
        return Done{};
    }

    void leave_out_gap() {
        const auto& [from, before] = *gap_;
        std::vector<LauncherRow> rows;
        for (const LauncherRow& row : launcher_.rows) {
            LauncherRow early = row, late = row;
            if (!row.before || *row.before > from) early.before = from;
            if (!row.from || *row.from < before) late.from = before;
            const auto is_some = [](const LauncherRow& r) {
                return !r.from || !r.before || *r.from < *r.before;
            };
            if (is_some(early)) rows.push_back(std::move(early));
            if (is_some(late)) rows.push_back(std::move(late));
        }
        launcher_.rows = std::move(rows);
    }

    Status unasked(const Fields& fields) {
        for (std::size_t i = 1; i < fields.size(); ++i) {
            const auto feature = parse_feature(fields[i]);
            if (!feature || !asked_features().has(*feature))
                return wrong(
                    fmt::format("'{}' is none of vpp, cp, ep, convolutions, zero2, zero3, "
                                "zero2-pipeline, zero3-pipeline",
                                printable(fields[i], 40)));
            launcher_.asked.remove(*feature);
        }
        return Done{};
    }

    /// Beside asked_features(): those that a search could take as well as not.
    Status asked(const Fields& fields) {
        constexpr FeatureSet choices{Feature::recompute_selective, Feature::recompute_full};
        for (std::size_t i = 1; i < fields.size(); ++i) {
            const auto feature = parse_feature(fields[i]);
            if (!feature || !choices.has(*feature))
                return wrong(fmt::format("'{}' is none of recompute-selective, recompute-full",
                                         printable(fields[i], 40)));
            launcher_.asked.add(*feature);
        }
        return Done{};
    }

    Status limit(std::string_view text, std::optional<Version>& out) {
        return text == "-" ? Done{} : version(text, out);
    }

    Status row(const Fields& fields) {
        if (fields.size() < 4)
            return wrong("a row is FROM BEFORE FEATURE WORDS, with '-' for no words");
        if (launcher_.rows.size() == max_rows)
            return wrong(fmt::format("more than {} rows", max_rows));
        LauncherRow row;
        if (Status s = limit(fields[0], row.from); !s) return s;
        if (Status s = limit(fields[1], row.before); !s) return s;
        if (row.from && row.before && *row.from >= *row.before)
            return wrong(fmt::format("{} does not come before {}", fields[0], fields[1]));
        if (Status s = features(fields[2], row); !s) return s;
        if (Status s = words(fields, row.words); !s) return s;
        launcher_.rows.push_back(std::move(row));
        return Done{};
    }

    /// FEATURE or FEATURE+FEATURE...
    Status features(std::string_view text, LauncherRow& row) {
        const std::vector<std::string_view> names = split(text, '+');
        for (const std::string_view name : names) {
            const auto feature = parse_feature(name);
            if (!feature)
                return wrong(fmt::format("unknown feature '{}': accepted are {}",
                                         printable(name, 40), feature_names()));
            if (name.data() == names.front().data())
                row.feature = *feature;
            else
                row.beside.add(*feature);
        }
        return Done{};
    }

    Status words(const Fields& fields, std::vector<std::string>& out) {
        if (fields.size() == 4 && fields[3] == "-") return Done{};
        if (fields.size() - 3 > max_words)
            return wrong(fmt::format("more than {} words", max_words));
        for (std::size_t i = 3; i < fields.size(); ++i) {
            if (fields[i].size() > max_word_bytes)
                return wrong(fmt::format("a word of more than {} characters", max_word_bytes));
            if (!walk(
                    fields[i], [](std::string_view) {}, [](const Placeholder&) {}))
                return wrong(fmt::format("'{}' names none of {}", printable(fields[i], 40),
                                         placeholder_names()));
            out.emplace_back(fields[i]);
        }
        return Done{};
    }

    std::string name_;
    Launcher launcher_;
    std::vector<std::string> seen_;
    std::optional<std::pair<Version, Version>> gap_;
    std::size_t number_ = 0;
    bool has_tasks_ = false;
};

}  // namespace

// ---- versions
// -------------------------------------------------------------------------------------

std::optional<Version> parse_version(std::string_view text) {
    const std::vector<std::string_view> parts = split(text, '.');
    Version version;
    if (parts.size() > version.part.size()) return std::nullopt;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto number = parse_integer(parts[i], 0, 9999);
        if (!number || parts[i].front() == '-') return std::nullopt;
        version.part[i] = static_cast<std::int16_t>(*number);
    }
    return version;
}

std::string to_string(const Version& version) {
    std::size_t last = 1;
    for (std::size_t i = 2; i < version.part.size(); ++i)
        if (version.part[i] != 0) last = i;
    std::string text = std::to_string(version.part[0]);
    for (std::size_t i = 1; i <= last; ++i) text += "." + std::to_string(version.part[i]);
    return text;
}

bool LauncherRow::holds_in(const std::optional<Version>& version) const {
    return !version || ((!from || *version >= *from) && (!before || *version < *before));
}

// ---- launchers
// --------------------------------------------------------------------------------------

bool Launcher::knows(const Version& wanted) const {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const LauncherRow& row) { return row.holds_in(wanted); });
}

std::vector<Version> Launcher::changes() const {
    std::vector<Version> list;
    for (const LauncherRow& row : rows)
        for (const auto& limit : {row.from, row.before})
            if (limit && knows(*limit)) list.push_back(*limit);
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
}

std::string Launcher::known_versions() const {
    std::vector<Version> limits;
    for (const LauncherRow& row : rows)
        for (const auto& limit : {row.from, row.before})
            if (limit) limits.push_back(*limit);
    std::sort(limits.begin(), limits.end());
    const auto is_open = [](const LauncherRow& row) { return !row.from; };
    std::vector<std::string> ranges;
    bool inside = std::any_of(rows.begin(), rows.end(), is_open);
    if (inside) ranges.emplace_back("any");
    for (const Version& limit : limits) {
        if (knows(limit) == inside) continue;
        inside = !inside;
        if (inside)
            ranges.push_back(to_string(limit));
        else
            ranges.back() += " to before " + to_string(limit);
    }
    if (inside) ranges.back() += " and newer";
    return join(ranges, ", ");
}

Capabilities Launcher::can(std::optional<Version> wanted) const {
    if (!wanted) wanted = version;
    Capabilities can{{}, asked};
    for (const LauncherRow& row : rows)
        if (row.beside.empty() && row.holds_in(wanted)) can.told.add(row.feature);
    return can;
}

bool Launcher::names_hosts() const {
    bool found = false;
    for (const LauncherRow& row : rows)
        for (const std::string& word : row.words)
            walk(
                word, [](std::string_view) {},
                [&](const Placeholder& p) { found = found || p.of_hosts; });
    return found;
}

Result<Version> parse_version_of(const Launcher& launcher, std::string_view text) {
    if (!launcher.version)
        return usage_error(
            fmt::format("{} has no versions: leave out '@{}'", launcher.name, printable(text, 40)));
    const auto version = parse_version(text);
    if (!version)
        return usage_error(fmt::format("'{}' is no version of {}: give one such as {}@{}",
                                       printable(text, 40), launcher.name, launcher.name,
                                       to_string(*launcher.version)));
    if (!launcher.knows(*version))
        return usage_error(fmt::format("{} {} is not known: its versions are {}", launcher.name,
                                       to_string(*version), launcher.known_versions()));
    return *version;
}

// ---- plans
// ------------------------------------------------------------------------------------------

PlanWords words_of(const Model& model, std::int64_t global_batch, const Plan& plan) {
    PlanWords words{.facts = facts_of(model, plan),
                    .micro_batch = plan.micro_batch,
                    .global_batch = global_batch,
                    .seq_length = model.seq_length,
                    .stage_layers = plan.stage_layers};
    words.facts.stage_layers = {};
    return words;
}

Result<std::vector<std::string>> render(const Launcher& launcher, std::optional<Version> version,
                                        const PlanWords& plan) {
    if (!version) version = launcher.version;
    PlanFacts facts = plan.facts;
    facts.stage_layers = plan.stage_layers;
    const Capabilities can = launcher.can(version);
    if (std::string what = inexpressible(can, facts); !what.empty())
        return no_error(std::move(what));
    const FeatureSet needed = needs_of(can.told, needs(facts));
    std::vector<std::string> words;
    for (std::size_t i = 0; i < feature_count; ++i)
        for (const LauncherRow& row : launcher.rows) {
            if (!needed.has(static_cast<Feature>(i)) || row.feature != static_cast<Feature>(i))
                continue;
            if (!row.holds_in(version) || !needed.has(row.beside)) continue;
            for (const std::string& word : row.words) {
                std::string text;
                walk(
                    word, [&](std::string_view part) { text += part; },
                    [&](const Placeholder& p) { text += p.text(plan); });
                words.push_back(std::move(text));
            }
        }
    return words;
}

Result<Launcher> parse_launcher_table(std::string_view text, std::string_view name) {
    if (text.size() > max_table_bytes)
        return usage_error(fmt::format("larger than {} bytes", max_table_bytes), std::string(name));
    TableReader reader(name);
    std::size_t number = 0;
    for (const std::string_view line : split(text, '\n'))
        if (Status s = reader.line(line, ++number); !s) return s.error();
    return reader.finish();
}

}  // namespace arena
