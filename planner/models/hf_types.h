// SPDX-License-Identifier: GPL-2.0-or-later
// Private to the reader of Hugging Face configs: one row per model_type says which keys hold which
// fact, which have a default in the library that is not ours (those are demanded), and what is
// special. Which keys a type has at all, and what they do, is config.table.
#pragma once

#include <string>
#include <string_view>

#include "core/model.h"
#include "planner/models/hf_reader.h"

namespace arena {

struct FactKeys {
    HfReader::Names layers, hidden, heads, ffn, positions;
};

struct TypeRow {
    std::string_view model_type;
    Family family;
    FactKeys keys;
    bool tied;  ///< the library's default of tie_word_embeddings
    void (*special)(HfReader&, Model&);
    /// Keys whose default in the library is a number of one certain model: a config must have them.
    std::string_view demanded;
};

/// Null: no such type.
const TypeRow* find_type_row(std::string_view model_type);
/// "gpt2, gpt_neox, ...", image models among them.
std::string accepted_types();
/// dtype or torch_dtype; left as it is when neither is there.
void read_precision(HfReader&, Model&);
/// Fails unless the key is absent or has this value.
void must_be(HfReader&, std::string_view key, bool wanted, std::string_view why);

bool is_image_type(std::string_view model_type);
/// vit and convnext with a classifier, as a list of layers; activations as unfused training keeps
/// them. What is wrong is the reader's error.
Model read_image_model(HfReader&, std::string_view model_type);

}  // namespace arena
