#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The live view against a running controller: metrics and page over HTTP, without a question to Slurm for each of
# their clients; what PrivateData hides; the history of a job, also of one that is over; slurmctld down.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh" || exit 99
need_arena
command -v jq >/dev/null || skip_all 'jq is not installed'
"$stage/bin/arena" exporter --once 2>&1 | grep -q 'slurm_arena_up' || BAIL_OUT 'no exporter in this build'
grep -q '^S\["HAVE_MICROHTTPD_TRUE"\]=""$' "$ARENA_BUILDDIR/config.status" || skip_all 'built without libmicrohttpd'

# ---- without a cluster --------------------------------------------------------------------------------
exits() { # CODE COMMAND...
    local code=$1 got=0
    shift
    "$@" >/dev/null 2>&1 || got=$?
    ((got == code)) || { echo "exit $got, not $code: $*"; return 1; }
}
make_work
sed "s|^socket:.*|socket: $work/no.sock|" "$ARENA_SRCDIR/etc/arena.yaml" >"$work/none.yaml"
ok 'a listen address without a port is a usage error' exits 2 "$stage/bin/arena" --config "$work/none.yaml" exporter --listen 127.0.0.1
ok 'without a plug-in --once ends in environment' exits 3 "$stage/bin/arena" --config "$work/none.yaml" exporter --once
is "$("$stage/bin/arena" --config "$work/none.yaml" exporter --once 2>/dev/null | grep '^slurm_arena_up')" 'slurm_arena_up 0' 'and says down'

start_arena --nodes a40:1x4 --arena-set policy=fifo

# ---- the exporter ---------------------------------------------------------------------------------------
url='' exporter=''
end_exporter() {
    local code=$? pid
    pid=$(exporter_pid) && kill "$pid"
    (exit "$code")
    leave_test
}
start_exporter() { # COMMAND BEFORE...: it needs no rights
    rm -f "$work/exporter.out"
    "$@" "$stage/bin/arena" --config "$ARENA_CONF" exporter --listen 127.0.0.1:0 >"$work/exporter.out" 2>&1 6>&- &
    exporter=$!
    trap end_exporter EXIT
    wait_until '[[ -s $work/exporter.out ]]' || return 1
    url=$(sed -n 's/^arena exporter: //p' "$work/exporter.out")
    [[ $url == http://127.0.0.1:*/ ]]
}
exporter_pid() { pgrep -f "^$stage/bin/arena --config $ARENA_CONF exporter"; }
say() { # TEXT: sent as it is; what comes until the end
    (
        port=${url%/} port=${port##*:}
        exec 3<>"/dev/tcp/127.0.0.1/$port" || exit 1
        printf '%b' "$1" >&3
        timeout 60 cat <&3
    )
}
answer() { say "GET $1 HTTP/1.1\r\nHost: ${2-localhost}\r\nAccept: ${3-*/*}\r\n\r\n"; }
get() { answer "$@" | sed '1,/^\r$/d'; }
status() { answer "$@" | sed -n '1s/^HTTP[^ ]* \([0-9]*\).*/\1/p'; }
live() { get /live.json | jq -r "$1"; }
# Not by ok, in whose subshell its place would stay.
if can_be_user; then start_exporter as_user; else start_exporter env; fi
ok "it starts, where it can as an unprivileged user: $url" test "$url"
is "$(status /) $(status /metrics) $(status /live.json) $(status /etc/passwd) $(status /../../etc/passwd)" '200 200 200 404 404' \
    'there are a page, metrics and live.json, and no more'
is "$(status / evil.example)" 421 'a name that was made to point here is not served'
like "$(answer /)" "Content-Security-Policy: default-src 'none'; connect-src 'self'; script-src 'sha256-" 'the page may run its own script only'

# ---- jobs ------------------------------------------------------------------------------------------------
name=$'<img src=x onerror=alert(1)>"\\ \303\274'
first=$(train a40 -J "$name" --arena-gpus=4-4)
ok 'a job runs' wait_started "$first"
ok 'the page has it' wait_until "[[ \$(live '.running[0].job') == $first ]]"
is "$(live '.running[0].name')" "$name" 'under the name that its user gave it'
ok 'with state, node and user' wait_until "[[ \$(live '.running[0] | \"\(.state) \(.nodes[0]) \(.user)\"') == 'running n1 $(id -un)' ]]"
second=$(train a40 --arena-gpus=4-4)
ok 'the next one waits, with a reason' wait_until "[[ \$(live '.waiting[0] | select(.job == $second) | .reason | length > 0') == true ]]"
same_reason() { [[ $(live '.waiting[0].reason') == "$(arena queue --json | jq -r '.jobs[0].reason')" ]]; }
ok 'the one that the queue tells' wait_until same_reason
is "$(live '.pools[0] | "\(.gpu_type) \(.gpus) \(.free)"')" 'a40 4 0' 'its GPUs are busy'
ok 'the queue says place and start' wait_until "arena queue --json | jq -e '.jobs[0] | .place == 1 and .expected_start_s > 0 and .expected_grid == \"4xa40\"' >/dev/null"
ok 'metrics count it' wait_until "get /metrics | grep -qF 'jobs_pending{grid_known=\"true\"} 1'"

# ---- metrics -------------------------------------------------------------------------------------------
get /metrics >"$work/metrics"
is "$(grep '^slurm_arena_up' "$work/metrics")" 'slurm_arena_up 1' 'the plug-in answers'
if command -v promtool >/dev/null; then
    ok "promtool finds nothing to say: $(promtool check metrics <"$work/metrics" 2>&1 | head -3)" promtool check metrics <"$work/metrics"
else
    skip 1 'promtool is not installed (Debian: prometheus)'
fi
like "$(get /metrics localhost application/openmetrics-text)" '# EOF$' 'OpenMetrics has its end'
names() { sed -n 's/^\(slurm_arena_[a-z_]*\)[{ ].*/\1/p' "$work/metrics" | sort -u; }
shown() { jq -r '.panels[].targets[].expr' "$ARENA_SRCDIR/contrib/grafana/slurm-arena.json" | grep -oE 'slurm_arena_[a-z_]+' | sort -u; }
ok "the dashboard has $(shown | wc -l) metrics" test "$(shown | wc -l)" -ge 20
is "$(comm -23 <(shown) <(names))" '' 'all of which are exported'
manual=$(sed 's/\\-/-/g' "$ARENA_SRCDIR/doc/man/arena-exporter.8")
undocumented=''
for name in $(names | sed 's/^slurm_arena_//; s/_\(bucket\|sum\|count\)$//' | sort -u); do
    grep -qw "$name" <<<"$manual" || undocumented+=" $name"
done
is "$undocumented" '' 'all that is exported is in the manual page'

# ---- history ---------------------------------------------------------------------------------------------
like "$(arena history "$first")" 'running +4xa40 pp' 'the history says how the job runs'
let_go "$first"
ok 'the second starts when the first ends' wait_started "$second"
ok 'the history says that the first is over' wait_until "[[ \$(arena history $first --json | jq .over) == true ]]"
states() { arena history "$1" --json | jq -r '[.events[].state] | join(" ")'; }
ok 'and of the second that it runs' wait_until "[[ \$(states $second) == *' running' ]]"
like "$(states "$second")" '^waiting.* running$' 'after it waited'
ok 'the page has the news' wait_until "[[ \$(live '[.news[] | select(.job == $first and .state == \"over\")] | length') == 1 ]]"
ok 'the history of one that is over is a page, too' arena history "$first" --html "$work/life.html"
like "$(cat "$work/life.html")" "<dt>state</dt><dd>over</dd>.*<rect class=\"waits\" .*<rect class=\"runs\" .*</html>" 'which says how it waited and ran'
not_ok 'nothing is known of a job that never was' arena history 4000000 --html "$work/none.html"
not_ok 'and no page is written' test -e "$work/none.html"
like "$(arena history "$first" --html "$work/no/page.html" 2>&1; echo "$?")" 'no/page.html.*3$' 'a page that cannot be written is an error'
if can_be_user; then
    not_ok 'another user gets no page' as_user env "ARENA_CONF=$ARENA_CONF" "$stage/bin/arena" history "$first" --html /dev/stdout
    like "$(as_user env "ARENA_CONF=$ARENA_CONF" "$stage/bin/arena" history "$first" 2>&1)" 'or not yours' 'another user is told nothing'
else
    skip 2 'needs root: another user'
fi

# ---- how often it asks -----------------------------------------------------------------------------------
questions() { get /metrics | sed -n 's/^slurm_arena_exporter_questions_total //p'; }
begin=$SECONDS before=$(questions)
for ((n = 0; n < 100; n++)); do get /metrics; done >"$work/hundred"
asked=$(($(questions) - before)) took=$((SECONDS - begin))
is "$(grep -c '^slurm_arena_up 1$' "$work/hundred")" 100 'a hundred scrapes are answered'
ok "by $asked questions in $took s" test "$asked" -le $((took + 2))

# ---- PrivateData -----------------------------------------------------------------------------------------
echo PrivateData=jobs >>"$cluster_dir/slurm.conf"
scontrol reconfigure
ok 'with PrivateData=jobs no job is named' wait_until "[[ \$(live '\"\(.jobs_shown) \(.running | length) \(.news | length)\"') == 'false 0 0' ]]"
ok 'but counted' wait_until "[[ \$(live .jobs_running) == 1 ]]"
ok 'its owner reads its history, over a reconfigure' bash -c "arena history $first --json | jq -e .over >/dev/null"

# ---- slurmctld down --------------------------------------------------------------------------------------
ok 'Slurm has saved that the first is over' wait_saved
ok 'slurmctld is killed' cluster ctld kill
ok 'metrics say so' wait_until "get /metrics | grep -q '^slurm_arena_up 0\$'"
ok 'and live.json' wait_until '[[ $(status /live.json) == 503 ]]'
like "$(get /live.json)" '"error".*does not answer' 'with a sentence'
ok 'slurmctld starts again' cluster ctld start
ok 'metrics come back by themselves' wait_until "get /metrics | grep -q '^slurm_arena_up 1\$'" 60
ok 'and the history' wait_until "[[ \$(arena history $first --json 2>/dev/null | jq .over) == true ]]"
let_go "$second"

# ---- the end ---------------------------------------------------------------------------------------------
kill -TERM "$(exporter_pid)"
wait "$exporter"
is "$?" 0 'SIGTERM ends it with 0'
done_testing
