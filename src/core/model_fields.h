// SPDX-License-Identifier: GPL-2.0-or-later
// Every field of Model by the name that people and JSON use, with its range: the one list behind
// the readers (YAML, inline keys), the writers (JSON, request record), the checks and the
// fingerprint. A field added here is read, written, ranged and hashed everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model.h"

namespace arena {

/// Which models a field speaks of; check_model() refuses it in others.
enum class FieldGroup { transformer, attention, moe, latent, adapter, resnet };

/// An integer field of Model as people write it in YAML (inline keys use '-' for '_'). 0 = not
/// given.
struct IntegerField {
    const char* key;
    std::int64_t Model::*member;
    std::int64_t min, max;
    FieldGroup group;
};
/// Those of FieldGroup::transformer first.
std::span<const IntegerField> integer_fields();
const IntegerField* find_integer_field(std::string_view key);

struct FlagField {
    const char* key;
    bool Model::*member;
    FieldGroup group;
};
std::span<const FlagField> flag_fields();

/// Keys that describe a model on `#ARENA` lines in place of its name: family, name, precision,
/// every field above with '-' for '_', capacity-factor. What is a list (blocks, custom layers)
/// needs a file.
const std::vector<std::string_view>& inline_model_keys();
std::string inline_spelling(std::string_view key);

/// Gives the flags the values that are usual in the model's family: gpt and bert have learned
/// positions, biases, layer norms and a tied embedding; llama and moe RMS norms, gated MLPs and a
/// head of their own.
void set_family_flags(Model&);

/// A matrix of a layer that can have an adapter of its own, by the name that most published models
/// give it. qkv_proj and gate_up_proj: where one adapter is on several matrices as one.
namespace lora_target {
inline constexpr std::int64_t q_proj = 1, k_proj = 2, v_proj = 4, qkv_proj = 8, o_proj = 16,
                              gate_proj = 32, up_proj = 64, gate_up_proj = 128, down_proj = 256,
                              all = 511;
}
/// Names -> bits. Errors: a name that is unknown or there twice, none at all.
Result<std::int64_t> read_lora_targets(const std::vector<std::string_view>& names);
/// "q_proj,v_proj"
std::string lora_target_names(std::int64_t targets, std::string_view separator = ",");

inline constexpr double max_capacity_factor = 1024;
inline constexpr std::size_t max_resnet_stages = 16;
inline constexpr std::int64_t max_resnet_blocks = 10000;  ///< of one stage

/// Words that a reader passes over because the user says so, and which of them it met.
class IgnoredWords {
  public:
    IgnoredWords() = default;
    explicit IgnoredWords(std::vector<std::string> asked) : asked_(std::move(asked)) {}
    void ask(std::string word) { asked_.push_back(std::move(word)); }
    /// Whether the word is to be passed over; it is then one of taken().
    bool take(std::string_view word);
    /// A part of the text that the reader always passes over.
    void note(std::string word) { taken_.push_back(std::move(word)); }
    /// In the order of the text, each once.
    [[nodiscard]] const std::vector<std::string>& taken() const { return taken_; }
    /// Asked for, but not in the text.
    [[nodiscard]] std::vector<std::string> idle() const;

  private:
    std::vector<std::string> asked_, taken_;
};

/// "--some-option,some_key": 1 to 64 words, each of 1 to 128 characters of a key or an option.
Result<std::vector<std::string>> read_ignored_words(std::string_view list);

}  // namespace arena
