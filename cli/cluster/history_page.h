// SPDX-License-Identifier: GPL-2.0-or-later
// A job's life as one HTML page that needs no network and no script: its waits, runs and moves over
// time, how long its iterations took beside the estimates, and every event with its reason. Leaves
// out what the history does not have: it is a cache within bounds, and the page says where it ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace arena::cli {

/// As `arena history --json` has it: times in seconds since the epoch.
struct PastEvent {
    double time_s = 0;
    std::string state, text;
    double iteration_s = 0, estimate_s = 0;  ///< of an iteration; 0: not said
};

struct Past {
    std::int64_t job = 0, uid = 0;
    std::vector<PastEvent> events;  ///< in their order
    bool over = false;
    std::int64_t left_out = 0, left_out_after = 0;
};

/// A part of a job's life in which it was in one state, with one shape and for one reason.
struct Stretch {
    enum class Kind { waits, runs, saves } kind = Kind::waits;
    double from_s = 0, to_s = 0;
    std::string shape;  ///< "4xa40 pp2,dp2,tp1,mb1x4" of one that runs or saves; "" = not known
    std::string why;    ///< what it waits for; why it got that shape, or leaves it
    double estimate_s = 0, measured_s = 0;  ///< of an iteration, of one that runs; 0: not known
};
/// `now_s`: until when the last one lasts of a job that is not over.
std::vector<Stretch> stretches_of(const Past& past, double now_s);

/// Well-formed as XML, too; all text is escaped. Same arguments, same bytes.
std::string history_page(const Past& past, double now_s);

}  // namespace arena::cli
