// SPDX-License-Identifier: GPL-2.0-or-later
// What the plug-ins inside one slurmctld share. They are dlopen()ed apart, but all link
// libarena_slurm.so, of which there is one instance.
#pragma once

namespace arena {

/// True while the calling thread runs Arena's own update_job(): job_modify lets it pass untouched.
bool own_call();

/// Sets own_call() for its scope.
class OwnCall {
  public:
    OwnCall();
    ~OwnCall();
    OwnCall(const OwnCall&) = delete;
    OwnCall& operator=(const OwnCall&) = delete;
};

/// job_submit/job_modify -> scheduler: something to look at. Cheap, never blocks.
void request_round();

/// The scheduler's side: an eventfd that request_round() makes readable; -1 on failure. Reading it is
/// the scheduler's business.
int open_round_fd();
void close_round_fd();

}  // namespace arena
