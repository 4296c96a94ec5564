// SPDX-License-Identifier: GPL-2.0-or-later
// Networks for images that a row of a measured table names: ViT and DeiT, ConvNeXt, Swin, residual
// networks of 18 and 34 layers. The table has no columns for their shapes: published variants are
// found by name.
#pragma once

#include "core/model.h"
#include "planner/evaluate/measured.h"

namespace arena {

/// Whether the row is one of these; residual networks of bottleneck blocks are not.
bool is_image_row(const MeasuredRow&);
/// A list of layers, each as what tensor cores compute and what passes through memory around it; an
/// error names what is not known.
Result<Model> image_row_model(const MeasuredRow&, Precision);

}  // namespace arena
