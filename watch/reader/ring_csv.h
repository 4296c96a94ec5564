// SPDX-License-Identifier: GPL-2.0-or-later
// Records as rows: the fourteen columns of Greyhound's published logs, then what these lack. The
// columns sequence, t_us, op_id, count, comm and peer are those of `arena-lab slowdown period`.
#pragma once

#include <string>
#include <vector>

#include "watch/reader/ring_reader.h"

namespace arena::watch {

std::string csv_head();
/// One line per record of `kind`, in order of time (threads of a rank may overtake each other
/// between their clock and their place in the ring).
std::string csv_rows(const RingReader& ring, std::vector<Record> records, Kind kind);

}  // namespace arena::watch
