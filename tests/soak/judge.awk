# SPDX-License-Identifier: GPL-2.0-or-later
# The verdict of tests/soak/kill9 over one half of a run, apart from the run so that tests can show it
# failing. It goes by Slurm's own account (slurmctld.log), not by how near some kill happened to be: a job
# may be lost only when Slurm forgot it because its submission was less than 6 s old and not yet on disk; it
# may start again only when the start, or the end, of its earlier run was. Everything else is UNEXPLAINED.
# Input, one fact a line, all times in ms; jobs are numbered in order of submission:
#   job I ID KIND HALF LOW HIGH TYPES   id that sbatch printed, what the job allows (kind 1: an Arena job)
#   submit MS ID | change MS ID start | change MS ID end | recovered MS ID     of slurmctld.log
#   ran MS I ID RESTART NODES GPUS NODE | ended MS I ID     of the job's own script; left MS I ID: at Arena's signal, to
#   start again elsewhere
#   preempted MS ID     of slurmctld.log: Slurm took it off for inference
#   mixed MS NODE | late MS NODE | broken MS NODE     of loans, see kill9
#   kill MS DEAD_MS SAVED_MS UP_MS      when it was sent and had worked, the newest state on disk, when slurmctld was back
#   drain MS NODE REASON...   of slurmctld.log        queue ID STATE REASON...   at the end
#   refused I
# Output: `WHAT I|NODE explained|UNEXPLAINED why`, then `count NAME N` lines.
# Variables: window (6000): ms that Slurm may take to save a change; slack (500): ms between a change and its
# line in the log, or between reading the state and its file's time; launch (2000): ms a launch is under
# way; longest (20000): ms no job outlasts.
BEGIN {
    if (!window) window = 6000
    if (!slack) slack = 500
    if (!launch) launch = 2000
    if (!longest) longest = 20000
}
$1 == "job" { jobs++; id[$2] = $3; kind[$2] = $4; half = $5; low[$2] = $6; high[$2] = $7; types[$2] = $8; given[$3] = given[$3] " " $2; next }
$1 == "refused" { verdict("refused", $2, "UNEXPLAINED", "sbatch failed"); next }
$1 == "submit" { submits[$3]++; submit_at[$3, submits[$3]] = $2; next }
$1 == "change" { n = ++changes[$3]; starts += $4 == "start"; change_at[$3, n] = $2; change_what[$3, n] = $4; next }
$1 == "recovered" { recovered[$3] = recovered[$3] " " $2; next }
$1 == "ran" { n = ++runs[$3]; ran_at[$3, n] = $2; check_shape($3, $6 * $7, $8); next }
$1 == "ended" { ends[$3]++; ended_at[$3, runs[$3]] = $2; next }
$1 == "preempted" { taken[$3] = taken[$3] " " $2; next }
$1 == "left" { left_at[$3, runs[$3]] = $2; moves++; next }
$1 == "mixed" || $1 == "late" || $1 == "broken" { if (!told[$1, $3]++) verdict($1, $3, "UNEXPLAINED", "at " $2); next }
$1 == "kill" { kills++; kill_at[kills] = $2; dead_at[kills] = $3; saved_at[kills] = $4; up_at[kills] = $5; next }
$1 == "drain" { drains++; drain_at[drains] = $2; drain_node[drains] = $3; $1 = $2 = $3 = ""; drain_why[drains] = trim($0); next }
$1 == "queue" { q = $2; $1 = $2 = ""; queue[q] = trim($0); next }
END {
    find_times()
    for (i = 0; i < jobs; i++) judge_job(i)
    for (d = 1; d <= drains; d++) judge_drain(d)
    print "count jobs " jobs + 0
    print "count starts " starts + 0
    print "count safe " safe + 0
    print "count risky " risky + 0
    print "count moves " moves + 0
}

function trim(text) { sub(/^ +/, "", text); return text }
function verdict(what, who, how, why) { print what, who, how, why }

# A job that starts with another number of GPUs or on another type than it allows.
function check_shape(i, gpus, node,   type) {
    type = substr(node, 2) + 0 <= 3 ? "a40" : "a100"
    if (kind[i] == 1 && half == "arena" && (gpus < low[i] || gpus > high[i] || !index("," types[i] ",", "," type ",")))
        verdict("outside", i, "UNEXPLAINED", gpus "x" type)
}

# Slurm gives ids out again that it forgot: the n-th submission of an id is the n-th job that got it.
function find_times(   i, n, part, k) {
    for (k in given) {
        n = split(given[k], part, " ")
        for (i = 1; i <= n; i++) {
            born[part[i]] = submit_at[k, i]
            dies[part[i]] = i < n ? submit_at[k, i + 1] : 1e18
            shared[part[i]] = n > 1
        }
    }
}

# Why kill k may undo a change of the time t ("" = it may not); a launch may also be cut off on its way.
function undone(k, t, way,   age) {
    if (t > dead_at[k] || kill_at[k] - t >= window) return ""
    age = t < kill_at[k] ? kill_at[k] - t : 0
    if (t > saved_at[k] - slack) return age " ms old and not on disk"
    return way && age < launch ? age " ms old and on its way" : ""
}

# The newest line of the log about job i up to the time t.
function newest_change(i, t, what,   n, found) {
    found = 0
    for (n = 1; n <= changes[id[i]]; n++)
        if (change_what[id[i], n] == what && change_at[id[i], n] >= born[i] && change_at[id[i], n] < dies[i] &&
            change_at[id[i], n] <= t) found = change_at[id[i], n]
    return found
}
function was_taken(i, from, to,   n, part, m) {
    n = split(taken[id[i]], part, " ")
    for (m = 1; m <= n; m++) if (part[m] >= from - slack && part[m] <= to) return 1
    return 0
}
function came_back(i, k,   n, part, m) {
    n = split(recovered[id[i]], part, " ")
    for (m = 1; m <= n; m++) if (part[m] >= kill_at[k] && part[m] <= up_at[k] + slack) return 1
    return 0
}

# Why the run r of job i may be repeated or cut off by a kill before the time t.
function run_undone(i, r, t,   k, start, why, end, noted) {
    start = newest_change(i, ran_at[i, r], "start")
    if (!start) start = ran_at[i, r]
    for (k = 1; k <= kills; k++) {
        if (kill_at[k] > t) break
        if ((why = undone(k, start, 1)) != "") return "its start was " why
        end = ended_at[i, r] ? ended_at[i, r] : left_at[i, r]
        if (!end) continue
        noted = newest_change(i, t, "end")
        if (noted >= end && (why = undone(k, noted, 0)) != "") return "its end was " why
        # Slurm had not heard of the end when it was killed, or was away.
        if ((noted < end || noted > dead_at[k]) && end > kill_at[k] - window && end < up_at[k])
            return "it ended while slurmctld went down"
    }
    return ""
}

function forgotten_by(i, t,   k) {
    for (k = 1; k <= kills; k++)
        if (dead_at[k] >= born[i] && kill_at[k] <= t && !came_back(i, k)) return k
    return 0
}

function judge_job(i,   r, why, k) {
    count_exposure(i)
    for (r = 1; r < runs[i]; r++) {
        if (left_at[i, r] || was_taken(i, ran_at[i, r], ran_at[i, r + 1])) continue
        why = run_undone(i, r, ran_at[i, r + 1])
        verdict("repeated", i, why == "" ? "UNEXPLAINED" : "explained", why == "" ? "no kill undid its start or end" : why)
    }
    if (ends[i] || !(i in id)) return
    k = forgotten_by(i, 1e18)
    if (k) {
        why = undone(k, born[i], 0)
        if (why != "") verdict("lost", i, "explained", "its submission was " why)
        else verdict("lost", i, "UNEXPLAINED", "forgotten " kill_at[k] - born[i] " ms after its submission")
        return
    }
    why = runs[i] ? run_undone(i, runs[i], 1e18) : start_cut_off(i)
    if (why == "") why = refused_launch(i)
    verdict("lost", i, why == "" ? "UNEXPLAINED" : "explained", why == "" ? "Slurm knew it: " queue[id[i]] : why)
}

# A node refuses an id that still runs there: that of a job which Slurm forgot, and whose id it gave out again.
# Slurm then holds the newcomer, "launch failed requeued held", for an administrator.
function refused_launch(i,   j, n, r, t) {
    if (!shared[i]) return ""
    for (n = 1; n <= changes[id[i]]; n++) {
        t = change_at[id[i], n]
        if (change_what[id[i], n] != "start" || t < born[i] || t >= dies[i]) continue
        for (j = 0; j < i; j++)
            for (r = 1; id[j] == id[i] && r <= runs[j]; r++)
                if (ran_at[j, r] < t && (ended_at[j, r] ? ended_at[j, r] > t - slack : ran_at[j, r] > t - longest))
                    return "its id was given out twice, and job " j " with it still ran"
    }
    return ""
}

# A start that the script never saw: Slurm believed in it, or held the job after the launch failed.
function start_cut_off(i,   k, n, why) {
    for (n = 1; n <= changes[id[i]]; n++)
        for (k = 1; k <= kills; k++)
            if (change_what[id[i], n] == "start" && (why = undone(k, change_at[id[i], n], 1)) != "")
                return "its start was " why
    return ""
}

# Pairs of a live job and a kill: risky when one of its changes was younger than the window, else safe.
function count_exposure(i,   k, n, last, over) {
    over = ends[i] ? ended_at[i, runs[i]] : 0
    for (k = 1; k <= kills; k++) {
        if (kill_at[k] < born[i] || (over && kill_at[k] > over + window)) continue
        last = born[i]
        for (n = 1; n <= changes[id[i]]; n++)
            if (change_at[id[i], n] >= born[i] && change_at[id[i], n] <= kill_at[k]) last = change_at[id[i], n]
        if (kill_at[k] - last < window) risky++
        else if (!over || kill_at[k] < over) safe++
    }
}

# Stock Slurm drains a node that refuses a job id which still runs there: one given out again, or one whose
# start it forgot. Both need a kill less than 6 s after the first launch, and a second launch just now.
function judge_drain(d,   i, n, r, why, start) {
    why = ""
    if (drain_why[d] == "Duplicate jobid")
        for (i = 0; i < jobs && why == ""; i++) {
            start = newest_change(i, drain_at[d], "start")
            if (!start || start < drain_at[d] - launch) continue
            why = refused_launch(i)
            for (r = 1; r <= runs[i] && why == ""; r++)
                if (ran_at[i, r] < start) why = run_undone(i, r, drain_at[d])
            if (why == "") why = start_cut_off(i)
        }
    verdict("drained", drain_node[d], why == "" ? "UNEXPLAINED" : "explained", drain_why[d] (why == "" ? "" : ": " why))
}
