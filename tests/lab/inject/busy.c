// SPDX-License-Identifier: GPL-2.0-or-later
// A rank that computes: its count, and when it was so, in a file that others read; a second thread's
// count behind it where asked for.
// Usage: busy FILE [THREADS]
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void* count_up(void* place) {
    volatile uint64_t* const counter = place;
    for (;;) {
        for (int i = 0; i < 1000; i++) __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        counter[1] = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    }
}

int main(int count, char** values) {
    if (count < 2) return 2;
    const int fd = open(values[1], O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, 4096) != 0) return 3;
    uint64_t* counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counters == MAP_FAILED) return 3;
    pthread_t thread;
    if (count > 2 && atoi(values[2]) == 2) pthread_create(&thread, NULL, count_up, counters + 64);
    count_up(counters);
}
