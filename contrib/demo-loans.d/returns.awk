# SPDX-License-Identifier: GPL-2.0-or-later
# Of each lease that was asked back, from what was polled ("MS lease NODE ID STATE DEADLINE_MS" among other lines):
# "NODE ID ASKED SEEN DUE in time|LATE", in seconds; SEEN is when it was last seen away. A poll takes up to half a
# second, and a deadline is in whole seconds.
$2 == "lease" && $5 == "returning" {
    key = $3 " " $4
    if (!(key in asked)) { asked[key] = $1; order[++n] = key }
    due[key] = $6
    seen[key] = $1
}
END {
    for (i = 1; i <= n; i++) {
        key = order[i]
        printf "%s %.1f %.1f %.1f %s\n", key, asked[key] / 1000, seen[key] / 1000, due[key] / 1000, \
            (seen[key] > due[key] + 1500 ? "LATE" : "in time")
    }
}
