// SPDX-License-Identifier: GPL-2.0-or-later
// Private to the reader of Hugging Face configs: one row per model_type says which keys hold which
// fact, which have a default in the library that is not ours (those are demanded), and what is
// special. Which keys a type has at all, and what they do, is config.table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/model.h"
#include "core/profile.h"
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
/// Fails where `parts`, the key's value, do not divide `whole`, which `of` names.
void must_divide(HfReader&, std::string_view key, double parts, double whole, std::string_view of);

// ---- models that are lists of layers
// ------------------------------------------------------------------------------------------------

/// Writes the layers of a custom model down by their operators, of one sample: FLOPs, parameters
/// and what backward keeps follow from these. Everything is in elements of the model's precision.
class LayerWriter {
  public:
    explicit LayerWriter(Precision precision) : width_(element_bytes(precision)) {}
    /// The layers that what follows is of; `output`: elements that cross a cut behind each.
    void layer(std::string name, std::int64_t count, double output);
    /// rows x k by weights n x k; `keeps`: backward needs the input, which nothing kept so far.
    void gemm(double rows, double n, double k, bool bias, bool keeps = true, double times = 1);
    /// Matrices of activations, `batch` times; keeps nothing itself.
    void bmm(double m, double n, double k, double batch);
    /// Fused: keeps queries, keys, values and its result.
    void attention(double heads, double kv_heads, double tokens, double dim, bool causal);
    /// Queries of another number than the keys, each of which sees them all.
    void cross_attention(double heads, double queries, double keys, double dim);
    void conv(double in, double out, double edge, double kernel, double stride, bool bias = true);
    /// Moves bytes alone, whatever its taps.
    void depthwise(double rows, double channels, double taps);
    /// Reads and writes its input; `vectors` parameters of `cols` each.
    void norm(double rows, double cols, double vectors = 1);
    /// A memory-bound kernel that moves `moved` elements and keeps `kept`.
    void pass(double moved, double kept = 0);
    void loss(double rows, double classes);
    void parameters(double number) { layers_.back().parameter_bytes += number * width_; }
    void keep(double elements) { layers_.back().activation_bytes += elements * width_; }
    /// Queries, keys, values and result of attention with a matrix each around fused attention.
    void attention_block(double tokens, double hidden, double heads, double kv_heads, double dim,
                         bool causal, bool bias);
    /// An activation between two matrices, three where gated.
    void mlp(double rows, double hidden, double width, bool gated, bool bias);
    std::vector<CustomLayer> take() { return std::move(layers_); }

  private:
    void add(LayerOperator::Kind, std::initializer_list<double> sizes, double times = 1);
    double width_;
    std::vector<CustomLayer> layers_;
};

/// Whether models of that type are read as lists of layers: no tensor parallelism splits them.
bool is_listed_type(std::string_view model_type);
/// "vit, convnext, ...".
std::string listed_types();
/// What is wrong with the config is the reader's error.
Model read_listed_model(HfReader&, std::string_view model_type);
/// Those of images, and those of sequences; false: it is none.
bool write_image_layers(HfReader&, std::string_view model_type, LayerWriter&);
bool write_sequence_layers(HfReader&, std::string_view model_type, LayerWriter&);

}  // namespace arena
