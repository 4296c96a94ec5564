// SPDX-License-Identifier: GPL-2.0-or-later
// What a user can ask of Arena, each option once. sbatch's --arena-KEY and its --help, `#ARENA
// KEY=`, the record's members, Comment=arena:KEY= and the keys under which offers are remembered
// follow from this table; tests/unit/test_options.cc holds spank_arena(8) to it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "request/request.h"

namespace arena {

struct Option {
    std::string_view key;
    std::string_view argument;  ///< as --help and the manual page show it
    std::string_view usage;     ///< in --help, with accepted() behind it
    std::string (*accepted)() = nullptr;
    /// Errors say what is wrong and what is accepted, not where. Null: build_request() reads it,
    /// which has the models.
    Status (*parse)(std::string_view text, Request&) = nullptr;
    /// What parse() reads back; "" = not given. Null: it is in the record's model.
    std::string (*format)(const Request&) = nullptr;
    std::string_view change = {};  ///< what Comment=arena:KEY= takes; "" = fixed at submit
    bool bare = false;             ///< --arena-KEY alone means yes
    bool offers = true;            ///< whether offers depend on it, beside model and GPU types
};
/// In the order of --help, of the manual page and of messages. What is read later may go by what is
/// read before.
std::span<const Option> options();
const Option* find_option(std::string_view key);
/// The whole line of --help.
std::string usage_of(const Option&);

/// How messages name a setting that is an option: "--arena-plan (#ARENA plan)".
std::string option_spelling(std::string_view key);
/// Every key of a Setting: those of options(), then those of inline_model_keys() that are none.
std::vector<std::string_view> setting_keys();

/// Reads what the settings say of all options but the model, whose facts must be there already;
/// other settings are left alone. Errors have the option's spelling as their place.
Status apply_options(const std::vector<Setting>&, Request&);
/// A request as settings: what apply_options() makes it of again, given its model.
std::vector<Setting> option_settings(const Request&);
/// Those that offers depend on beside model and GPU types, as text.
std::string offer_settings(const Request&);

/// Errors as those of parse().
Status read_integer(std::string_view text, std::int64_t min, std::int64_t max, std::int64_t&);
/// "N" or "MIN-MAX".
Status read_gpu_range(std::string_view text, std::int64_t& min, std::int64_t& max);
Status read_yes_or_no(std::string_view text, bool&);

/// The pin against the range of GPUs, some count in which must be a multiple of what is pinned.
/// `gpus_given` = false: the pin sets the range.
Status fit_range_to_pin(Request&, bool gpus_given);
/// Whether the range is the one that its pin sets where the user gave none.
bool pin_sets_range(const Request&);

}  // namespace arena
