// SPDX-License-Identifier: GPL-2.0-or-later
// How comparisons of models are shown: a table of ways for each model, how much time arrays save
// over each, and what ArrayPipe's authors report of the same.
#pragma once

#include "base/json.h"
#include "tests/lab/array/compare_models.h"

namespace arena::cli {

Json json_of(const ComparedCell&);
/// The mean over cells of how much less time the array takes than members one after another by the
/// same rule, in percent; where none of both is possible, 0.
double mean_saving(const std::vector<ComparedCell>&, PipelineKind);
Json json_of(const ComparedSetting&);

void print_cell(const ComparedCell&);
void print_savings(const ComparedSetting&);
/// Settings that differ in one thing.
void print_axis(const std::vector<ComparedSetting>&);

}  // namespace arena::cli
