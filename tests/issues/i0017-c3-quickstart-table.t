#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The quickstart's table holds what jobs took against what they could take where their ranks share cores, and its page has
# every job: 15 ms estimated beside 83 ms measured, of four ranks on two cores, told a newcomer nothing.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
: "${ARENA_SRCDIR:=$PWD}"
command -v jq >/dev/null || skip_all 'jq is not installed'
work=$(mktemp -d "${TMPDIR:-/tmp}/arena-quickstart-table.XXXXXX")
trap 'rm -rf "$work"' EXIT

# job ID NAME START END RANKS ESTIMATE SOURCE MEASURED: times in seconds after midnight
job() {
    printf 'JobId=%s JobName=%s JobState=COMPLETED StartTime=2026-11-22T00:00:%02d EndTime=2026-11-22T00:00:%02d NumNodes=1 NumTasks=%s NodeList=n1 TresPerNode=gres:gpu:a40:%s AdminComment=arena:v1 state=completed grid=%sxa40 plan=pp1,dp%s,tp1,mb1x8,zero1 est=%ss source=%s \n' \
        "$1" "$2" "$3" "$4" "$5" "$5" "$5" "$5" "$6" "$7" >>"$work/all-jobs.txt"
    echo '{"event":"start"}' >"$work/$2.log"
    for i in 1 2 3; do echo "{\"step\":$i,\"loss\":1,\"iteration_s\":$8}"; done >>"$work/$2.log"
}
job 1 small-alone 0 5 1 0.015 profiled 0.018
job 2 small 10 20 4 0.015 profiled 0.066
job 3 small-pinned 10 20 4 0.020 profiled 0.080
echo 'JobId=4 JobName=ordinary JobState=COMPLETED StartTime=2026-11-22T00:00:10 EndTime=2026-11-22T00:00:12 NumNodes=1 NumTasks=1 NodeList=n2 TresPerNode=gres:gpu:1 ' >>"$work/all-jobs.txt"
table=$("$ARENA_SRCDIR/contrib/quickstart.d/compare" "$work" 2)
note "$table"
row() { grep "^$1 " <<<"$table"; }
like "$(row small-alone)" ' 1 +1\.0 +15\.0 ms profiled +15\.0 ms +18\.0 ms +1\.20$' "alone, the estimate stands as it is"
like "$(row small)" ' 4 +8\.0 +15\.0 ms profiled +60\.0 ms +66\.0 ms +1\.10$' "eight ranks on two cores have four times as long"
like "$(row small-pinned)" ' 4 +8\.0 +20\.0 ms profiled +80\.0 ms +80\.0 ms +1\.00$' "each of the jobs"
unlike "$table" '^ordinary' "an ordinary job has no estimate"
like "$("$ARENA_SRCDIR/contrib/quickstart.d/compare" "$work" 16 | grep '^small ')" ' 15\.0 ms profiled +15\.0 ms +66\.0 ms +4\.40$' "with cores enough nobody shares"
is "$(awk 'length($0) > 100' <<<"$table")" "" "lines are at most 100 columns"

unlike "$table" 'was busy' "nothing is said of a machine that had nothing else to do"
echo 11.9 >"$work/load"
like "$("$ARENA_SRCDIR/contrib/quickstart.d/compare" "$work" 2)" 'This machine was busy before .load 11.9 on 2 cores.' "a busy one is told"

mkdir "$work/bin"
# shellcheck disable=SC2016 # expands in the script
printf '#!/bin/sh\n%s\n' 'echo "$3"' >"$work/bin/scontrol"
printf '#!/bin/sh\necho "slurm 22.05.8"\n' >"$work/bin/sinfo"
chmod 755 "$work/bin/scontrol" "$work/bin/sinfo"
page=$(PATH=$work/bin:$PATH "$ARENA_SRCDIR/contrib/quickstart.d/report" "$work" a40:1x4 0)
for id in 1 2 3 4; do like "$page" "<tr><td>$id</td>" "the page's table has job $id"; done
is "$(grep -c '<title>job ' <<<"$page")" 4 "and its picture a bar for each"
done_testing
