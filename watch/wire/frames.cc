// SPDX-License-Identifier: GPL-2.0-or-later
// See frames.h. One description of each frame serves both directions: the Writer puts its fields
// into JSON, the Reader takes them from it within their ranges.
#include "watch/wire/frames.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/json.h"

namespace arena::watch {
namespace {

constexpr std::int64_t most_ms = 253'402'300'799'000;  ///< the end of year 9999
constexpr std::int64_t most_us = 1'000'000'000'000;    ///< 11 days
constexpr std::int64_t most_count = std::int64_t{1} << 53;
constexpr double most_s = 1e9, most_bytes = 1e18, least_ms = 1e-9;
constexpr std::size_t longest_name = 255, longest_word = longest_frame / 2;
constexpr std::int64_t most_gpus = 4096;

class Writer {
  public:
    template <typename... Range>
    void integer(const char* key, std::int64_t value, Range...) {
        json_[key] = value;
    }
    template <typename... Range>
    void number(const char* key, double value, Range...) {
        json_[key] = value;
    }
    void boolean(const char* key, bool value) { json_[key] = value; }
    void text(const char* key, const std::string& value, std::size_t) { json_[key] = value; }
    template <typename T, typename... Range>
    void values(const char* key, const std::vector<T>& list, Range...) {
        json_[key] = list;
    }
    template <typename T, typename Describe>
    void list(const char* key, const std::vector<T>& items, std::size_t, Describe describe) {
        Json& all = json_[key] = Json::array();
        for (const T& item : items) {
            Writer one;
            describe(one, item);
            all.push_back(std::move(one.json_));
        }
    }
    void demand(const char*, bool, const char*) {}
    Json json_ = Json::object();
};

class Reader {
  public:
    Reader(const Json& value, std::string where, std::optional<Error>& error)
        : fields_(value, std::move(where), error), error_(error) {}

    void integer(const char* key, std::int64_t& out, std::int64_t min, std::int64_t max) {
        fields_.integer(key, out, min, max);
    }
    void number(const char* key, double& out, double min, double max) {
        fields_.number(key, out, min, max);
    }
    void boolean(const char* key, bool& out) { fields_.boolean(key, out); }
    void text(const char* key, std::string& out, std::size_t longest) {
        fields_.text(key, out, longest);
    }
    void values(const char* key, std::vector<std::int64_t>& out, std::size_t most, std::int64_t min,
                std::int64_t max) {
        fields_.integers(key, out, min, max, most);
    }
    void values(const char* key, std::vector<std::string>& out, std::size_t most,
                std::size_t longest) {
        fields_.texts(key, out, most, longest);
    }
    void values(const char* key, std::vector<double>& out, std::size_t most, double min,
                double max) {
        const Json* all = fields_.list(key, most);
        for (std::size_t i = 0; all != nullptr && i < all->size(); ++i) {
            const double value = (*all)[i].is_number() ? (*all)[i].get<double>() : min - 1;
            if (!(value >= min && value <= max))
                return fields_.refuse(key,
                                      fmt::format("a list of numbers from {} to {}", min, max));
            out.push_back(value);
        }
    }
    template <typename T, typename Describe>
    void list(const char* key, std::vector<T>& out, std::size_t most, Describe describe) {
        const Json* all = fields_.list(key, most);
        for (std::size_t i = 0; all != nullptr && i < all->size() && !error_; ++i) {
            Reader one((*all)[i], fmt::format("{}[{}]", fields_.path(key), i), error_);
            describe(one, out.emplace_back());
        }
    }
    void demand(const char* key, bool holds, const char* wanted) {
        if (!error_ && !holds) fields_.refuse(key, wanted);
    }

  private:
    JsonFields fields_;
    std::optional<Error>& error_;
};

template <typename F, typename T>
void rank(F& f, T& value) {
    f.integer("rank", value.rank, std::int64_t{0}, most_ranks - 1);
}

// ---- what each frame says; `v` is const for the Writer -----------------------------------------

constexpr auto agent_hello = [](auto& f, auto& v) {
    f.text("node", v.node, longest_name);
    f.integer("poll_ms", v.poll_ms, 1, 3'600'000);
};
constexpr auto rank_here = [](auto& f, auto& v) {
    rank(f, v);
    f.integer("ranks", v.ranks, 0, most_ranks);
    f.integer("gpu", v.gpu, -1, most_gpus);
};
constexpr auto iterations = [](auto& f, auto& v) {
    rank(f, v);
    f.integer("series", v.series, 0, most_count);
    f.list("done", v.done, 4096, [](auto& each, auto& one) {
        each.integer("end_ms", one.end_ms, 0, most_ms);
        each.integer("time_us", one.time_us, 1, most_us);
        each.integer("tokens", one.tokens, 0, most_count);
    });
};
constexpr auto group_times = [](auto& f, auto& v) {
    rank(f, v);
    f.values("step_s", v.step_s, most_profiled, 0, most_s);
    f.list("groups", v.groups, 1024, [&v](auto& each, auto& one) {
        each.text("group", one.group, longest_name);
        each.text("kind", one.kind, 64);
        each.integer("bytes", one.bytes, 0, INT64_MAX);
        each.integer("peer", one.peer, -1, most_ranks);
        each.values("seconds", one.seconds, most_profiled, 0, most_s);
        each.demand("seconds", one.seconds.size() == v.step_s.size(), "one for each of step_s");
    });
};
constexpr auto silent = [](auto& f, auto& v) {
    rank(f, v);
    f.number("seconds", v.seconds, 0, most_s);
};
constexpr auto too_dear = [](auto& f, auto& v) {
    f.number("share", v.share, 0, most_s);
    f.boolean("stopped", v.stopped);
};
constexpr auto trainer_hello = [](auto& f, auto& v) {
    f.values("nodes", v.nodes, std::size_t{most_ranks}, longest_name);
    f.values("gpus", v.gpus, std::size_t{most_ranks}, -1, most_gpus);
    f.demand("gpus", v.gpus.size() == v.nodes.size(), "one for each of nodes");
};
constexpr auto trainer_plan = [](auto& f, auto& v) {
    f.integer("dp", v.dp, 1, most_ranks);
    f.integer("pp", v.pp, 1, most_ranks);
    f.integer("tp", v.tp, 1, most_ranks);
    f.demand("dp", v.dp * v.pp <= most_ranks && v.dp * v.pp * v.tp <= most_ranks,
             "a plan of at most 65536 ranks");
    f.values("micro_batches", v.micro_batches, std::size_t{most_ranks}, 0, most_count);
    f.demand("micro_batches", v.micro_batches.size() == static_cast<std::size_t>(v.dp),
             "a count for each replica");
    f.number("gradient_bytes", v.gradient_bytes, 0, most_bytes);
    f.number("activation_bytes", v.activation_bytes, 0, most_bytes);
    f.values("state_bytes", v.state_bytes, std::size_t{most_ranks}, 0, most_bytes);
    f.demand("state_bytes",
             v.state_bytes.empty() || v.state_bytes.size() == static_cast<std::size_t>(v.pp),
             "a number for each stage, or none");
    f.number("link_bytes", v.link_bytes, 0, most_bytes);
    f.boolean("same_state_in_stage", v.same_state_in_stage);
    f.boolean("checkpoints", v.checkpoints);
    f.number("restart_s", v.restart_s, 0, most_s);
};
constexpr auto step_done = [](auto& f, auto& v) {
    f.integer("step", v.step, 1, most_count);
    f.integer("end_ms", v.end_ms, 0, most_ms);
    f.number("seconds", v.seconds, 0, most_s);
    f.integer("tokens", v.tokens, 0, most_count);
    f.values("micro_batch_s", v.micro_batch_s, std::size_t{most_ranks}, 0, most_s);
};
constexpr auto obeyed = [](auto& f, auto& v) {
    f.integer("step", v.step, 0, most_count);
    f.text("word", v.word, longest_word);
    f.number("seconds", v.seconds, 0, most_s);
};
constexpr auto checked = [](auto& f, auto& v) {
    f.integer("id", v.id, 0, most_count);
    f.list("gpus", v.gpus, std::size_t{most_ranks}, [](auto& each, auto& one) {
        rank(each, one);
        each.number("ms", one.ms, least_ms, most_s);
        each.text("type", one.type, 64);
    });
    f.list("links", v.links, std::size_t{2 * most_ranks}, [](auto& each, auto& one) {
        each.integer("from", one.from, 0, most_ranks - 1);
        each.integer("to", one.to, 0, most_ranks - 1);
        each.number("ms", one.ms, least_ms, most_s);
        each.number("latency_ms", one.latency_ms, 0, most_s);
    });
    f.number("seconds", v.seconds, 0, most_s);
    f.text("failure", v.failure, longest_name);
};
constexpr auto profile = [](auto& f, auto& v) {
    f.integer("iterations", v.iterations, 0, 1'000'000);
};
constexpr auto event_open = [](auto& f, auto& v) { f.boolean("open", v.open); };
constexpr auto say = [](auto& f, auto& v) { f.text("word", v.word, longest_word); };
constexpr auto release = [](auto&, auto&) {};
constexpr auto tell = [](auto& f, auto& v) { f.text("text", v.text, longest_tell); };

// ---- the table ---------------------------------------------------------------------------------

template <typename T, auto describe>
void put(Json& json, const Frame& frame) {
    Writer writer;
    describe(writer, std::get<T>(frame));
    json = std::move(writer.json_);
}

template <typename T, auto describe>
Frame take(const Json& json, std::optional<Error>& error) {
    Reader reader(json, "", error);
    T value;
    describe(reader, value);
    return value;
}

struct Type {
    const char* name;
    void (*put)(Json&, const Frame&);
    Frame (*take)(const Json&, std::optional<Error>&);
};
template <typename T, auto describe>
constexpr Type type_of(const char* name) {
    return {name, put<T, describe>, take<T, describe>};
}

/// In the order of Frame's alternatives.
constexpr std::array<Type, std::variant_size_v<Frame>> types{
    type_of<AgentHello, agent_hello>("agent_hello"),
    type_of<RankHere, rank_here>("rank_here"),
    type_of<Iterations, iterations>("iterations"),
    type_of<GroupTimes, group_times>("group_times"),
    type_of<Silent, silent>("silent"),
    type_of<TooDear, too_dear>("too_dear"),
    type_of<TrainerHello, trainer_hello>("trainer_hello"),
    type_of<TrainerPlan, trainer_plan>("trainer_plan"),
    type_of<StepDone, step_done>("step_done"),
    type_of<Obeyed, obeyed>("obeyed"),
    type_of<Checked, checked>("checked"),
    type_of<Profile, profile>("profile"),
    type_of<EventOpen, event_open>("event_open"),
    type_of<Say, say>("say"),
    type_of<Release, release>("release"),
    type_of<Tell, tell>("tell"),
};

}  // namespace

std::string format_watch_frame(const Frame& frame) {
    const Type& type = types[frame.index()];
    Json json;
    type.put(json, frame);
    json["type"] = type.name;
    return dump_json(json);
}

Result<Frame> parse_watch_frame(std::string_view text) {
    const auto json = parse_json(text, {.bytes = longest_frame, .depth = 4});
    if (!json) return json.error();
    std::optional<Error> error;
    std::string name;
    JsonFields(*json, "", error).text("type", name, 32);
    if (error) return *error;
    for (const Type& type : types) {
        if (name != type.name) continue;
        Frame frame = type.take(*json, error);
        if (error) return *error;
        return frame;
    }
    return usage_error("is the name of no frame", "type");
}

}  // namespace arena::watch
