// SPDX-License-Identifier: GPL-2.0-or-later
// See spank_options.h.
#include "plugin/spank/spank_options.h"

#include <sys/stat.h>

#include <cstdlib>
#include <memory>

#include "base/text.h"
#include "planner/models/readers.h"
#include "planner/requests/build_request.h"

namespace arena {
namespace {

std::string option_name(std::string_view key) { return "--arena-" + std::string(key); }

bool is_regular_file(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

/// Links resolved as the calling user; the path itself where that fails, so that opening it says
/// why.
std::string resolve(const std::string& path) {
    const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                           &std::free);
    return real ? real.get() : path;
}

}  // namespace

void OptionSet::add(std::string_view key, std::string_view value,
                    std::optional<OptionSource> source) {
    const auto [it, added] =
        values_.try_emplace(std::string(key), Value{std::string(value), source});
    if (added) return;
    Value& known = it->second;
    const bool one_place = source && known.source && *source == *known.source;
    if (one_place && known.text != value && !conflict_)
        conflict_ = usage_error("given twice, as '" + printable(known.text, 40) + "' and as '" +
                                    printable(value, 40) + "'; give it once",
                                option_name(key));
    known = {std::string(value), source};
}

const std::string* OptionSet::find(std::string_view key) const {
    const auto it = values_.find(key);
    return it == values_.end() ? nullptr : &it->second.text;
}

std::vector<Setting> OptionSet::settings() const {
    std::vector<Setting> list;
    for (const auto& [key, value] : values_) list.emplace_back(key, value.text);
    return list;
}

Status OptionSet::status() const {
    if (conflict_) return *conflict_;
    return Done{};
}

bool names_model_file(const std::string& model) {
    const auto ends = [&](std::string_view suffix) {
        return std::string_view(model).ends_with(suffix);
    };
    if (model.find('/') != std::string::npos || ends(".json") || ends(".yaml") || ends(".yml"))
        return true;
    return !find_zoo_model(model).ok() && is_regular_file(model);
}

Result<std::string> read_model_file(const std::string& path, bool is_root) {
    Result<std::string> text =
        read_regular_file(is_root ? path : resolve(path), max_model_file_bytes);
    if (text && text->empty()) return usage_error("the file is empty", printable(path, 200));
    return text;
}

Result<Request> make_request(const OptionSet& options, bool is_root) {
    if (Status status = options.status(); !status) return status.error();
    std::string text;
    const std::string* model = options.find("model");
    const bool is_file = model != nullptr && names_model_file(*model);
    if (is_file) {
        Result<std::string> content = read_model_file(*model, is_root);
        if (!content) return usage_error(content.error().message(), option_name("model"));
        text = std::move(*content);
    }
    const auto read_base = [&](const std::string& path) -> Result<std::optional<std::string>> {
        if (!is_regular_file(path)) return std::optional<std::string>();
        Result<std::string> base = read_model_file(path, is_root);
        if (!base) return base.error();
        return std::optional<std::string>(std::move(*base));
    };
    return build_request(options.settings(), text, is_file ? *model : "", read_base);
}

Result<std::string> make_record(const OptionSet& options, bool is_root) {
    const Result<Request> request = make_request(options, is_root);
    if (!request) return request.error();
    return format_record(*request);
}

}  // namespace arena
