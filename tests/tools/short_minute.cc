// SPDX-License-Identifier: GPL-2.0-or-later
// LD_PRELOAD: the thread of slurmctld that counts usage and priorities (priority/multifactor) does
// so once a second, not once a minute, which is the least that PriorityCalcPeriod can say.
#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <ctime>

namespace {

/// Slurm names it.
bool counts_usage() {
    char name[17] = "";
    return ::prctl(PR_GET_NAME, name) == 0 && std::strcmp(name, "decay") == 0;
}

}  // namespace

extern "C" int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                      const timespec* until) {
    timespec soon{};
    ::clock_gettime(CLOCK_REALTIME, &soon);
    ++soon.tv_sec;
    return ::pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME,
                                    counts_usage() ? &soon : until);
}
