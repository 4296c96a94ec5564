// SPDX-License-Identifier: GPL-2.0-or-later
// Private to the reader of Megatron's arguments: a text of options taken apart, each with its
// place, and held against megatron.table. Which fork the text is of follows from its options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/model_fields.h"
#include "planner/models/words.h"

namespace arena {

enum class MegatronDialect { megatron, deepspeed, bigscience, bigcode, mindspeed };

/// An option with its value; a value glued on by '=' is taken apart.
struct GivenOption {
    std::string option, value;
    std::size_t at = 0;  ///< its byte of the text
};

struct MegatronWords {
    MegatronDialect dialect = MegatronDialect::megatron;
    std::vector<GivenOption> read;  ///< those that say something of the model
    bool is_bert = false;           ///< the text starts pretrain_bert
};

/// At most 4096 words. Errors: an option that no dialect knows, that is refused, or that no dialect
/// has beside the others; all of them in one sentence.
Result<MegatronWords> parse_megatron_words(std::string_view text, std::string_view name,
                                           IgnoredWords&);

/// "([0]*3+[1]*58)", "[0,1]*24": the 0s and 1s of the layers as Megatron evaluates them; empty for
/// anything else, more than 10000 of them, and parentheses deeper than 8.
std::vector<int> layer_pattern(std::string_view text);

}  // namespace arena
