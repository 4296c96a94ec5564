# SPDX-License-Identifier: GPL-2.0-or-later
# Replicas that inference wants over a day: few at night, many at noon, as a sine from 7 to 21 o'clock, with
# noise of a quarter of one. One line for each half second of the demo: "MS HOUR REPLICAS".
# Variables: seconds (length of the day), low, high (replicas), seed.
BEGIN {
    srand(seed)
    pi = atan2(0, -1)
    for (t = 0; t < seconds; t += 0.5) {
        hour = 24 * t / seconds
        sun = hour > 7 && hour < 21 ? sin(pi * (hour - 7) / 14) : 0
        wanted = int(low + (high - low) * sun + (sun > 0 ? (rand() - 0.5) / 2 : 0) + 0.5)
        if (wanted < low) wanted = low
        if (wanted > high) wanted = high
        printf "%d %.1f %d\n", 1000 * t, hour, wanted
    }
}
