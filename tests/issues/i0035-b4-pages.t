#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Issue 35, B4: the timelines of the quickstart's report and of demo-loans' page held job names as they were, so that
# `sbatch -J '</title><script>...'` of any user ran in the browser of who looked. Every page is fed with hostile words
# wherever it takes words, and opened in a real browser: nothing of them runs.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/command.sh" || exit 99
need_lab
export ARENA_DATA_DIR=${ARENA_DATA_DIR:-$ARENA_SRCDIR/etc}

# Each marks the document if it runs: as a script, as an attribute, behind the end of a title, a style, a quote.
run='document.documentElement.setAttribute(`pwned`,`1`)'
evil="</title></style></script></pre></svg><script>$run</script>\"'><img/src=x/onerror=$run><svg/onload=$run>"
# Without a slash or a blank, for what is a file's name or a word.
evil_word="\"'><img$(printf '\f')src=x$(printf '\f')onerror=$run>&#60;"

browser=$(command -v chromium-headless-shell || command -v chromium || true)
dom() { # URL: what the browser makes of it once its scripts had their time
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$PWD/browser" \
        --virtual-time-budget=4000 --dump-dom "$1" 2>/dev/null
}
nothing_runs() { # FILE|URL WHAT
    local url=$1
    [[ $url == http* ]] || url=file://$PWD/$url
    if [[ ! $browser ]]; then skip 1 "no chromium: apt-get install chromium-headless-shell"; return; fi
    dom "$url" >dom
    ok "$2: the browser shows it, and nothing of the words runs" bash -c '[[ $(tail -c 8 dom) == "</html>"* ]] && ! grep -q "<html[^>]*pwned" dom'
}
safe() { # FILE WHAT: without a browser, too
    like "$(cat "$1")" "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; " "$2: the page has a policy"
    unlike "$(cat "$1")" "unsafe-inline|<script>document|<img|<svg/onload" "$2: no word of a stranger is markup"
    like "$(cat "$1")" 'name="viewport"' "$2: a phone shows it in its own width"
    nothing_runs "$1" "$2"
}

# ---- the browser does run what is not held ---------------------------------------------------------------
if [[ $browser ]]; then
    printf '<!DOCTYPE html><html><title>job 1 %s</title>\n' "$evil" >open.html
    dom "file://$PWD/open.html" >dom
    like "$(cat dom)" '<html[^>]*pwned' 'the same words as they are do run'
    . "$ARENA_SRCDIR/contrib/page.sh"
    { page_begin title ''; echo "$evil"; page_end; } >forgotten.html
    nothing_runs forgotten.html 'where escaping was forgotten the policy holds'
else
    skip 2 'no chromium: apt-get install chromium-headless-shell'
fi

# ---- scripts' pages ---------------------------------------------------------------------------------------
mkdir run bin
cat >bin/scontrol <<'END'
#!/bin/sh
if [ "$1" = show ]; then echo "$3" | tr , '\n'; else echo 'slurm-wlm 22.05.8'; fi
END
cp bin/scontrol bin/sinfo
chmod 755 bin/*
begin=$(date -d 2026-11-22T10:00:00 +%s)
times='StartTime=2026-11-22T10:00:05 EndTime=2026-11-22T10:00:09'
word=${evil// /}
{
    echo "JobId=1 JobName=$word UserId=x JobState=$word $times NodeList=n1 NumNodes=$word NumTasks=$word TresPerNode=$word plan=$word est=$word source=$word"
    echo "JobId=$word JobName=$word JobState=COMPLETED $times NodeList=n2,n3 NumNodes=2"
    echo "JobId=3 JobName=x JobState=COMPLETED $times NodeList=$word"
    echo "JobId=4 JobName=twice JobState=COMPLETED $times NodeList=n2 NumNodes=1 Comment=StartTime=$word"
    echo "JobId=5 JobName=bad JobState=COMPLETED $times NodeList=n1 NumNodes=1 Comment=$word StartTime=$word"
} >run/all-jobs.txt
printf '%s\n' "$begin 4 RUNNING n1" "$((begin + 2)) 4 COMPLETING n1" "$((begin + 3)) 4 PENDING" "$((begin + 5)) 4 RUNNING n2" >run/lives.txt
for file in problems compare cluster submit events slowdown profiles observed job-a explain-a out-a losses-a summary loans stats; do
    echo "$evil" >"run/$file.txt"
done
echo "$evil" >run/returns
PATH=$PWD/bin:$PATH "$ARENA_SRCDIR/contrib/quickstart.d/report" run "$evil" 1 >report.html
is $? 0 'the report of the quickstart is written'
safe report.html 'quickstart'
is "$(grep -o '<text x="4"[^>]*>n[0-9]*<' report.html | sed 's/.*>\(n[0-9]*\)</\1/' | paste -sd' ')" 'n1 n2 n3' 'each node has its label'
is "$(grep -o '<title>job 4 twice, [0-9]* s' report.html | paste -sd';')" '<title>job 4 twice, 2 s;<title>job 4 twice, 4 s' 'both lives of a job that was requeued are there'
like "$(cat report.html)" 'prefers-color-scheme: dark' 'by night it is dark'
like "$(cat report.html)" '<h2>What next</h2>' 'it ends with what to do next'

printf '%s\n' '0 wanted 1' "0 run n1 5 train $word" "0 run n6 7 $word $word" "0 lease n6 $word $word 0" "0 run $word 8 train x" \
    "0 run n999999999 8 train x" '500 wanted 2' "500 run n1 5 train y" "1000 run n1 $word infer $word" >run/seen
PATH=$PWD/bin:$PATH "$ARENA_SRCDIR/contrib/demo-loans.d/page" run 1 4 1 >loans.html
is $? 0 'the page of a day of loans is written'
safe loans.html 'demo-loans'
like "$(cat loans.html)" 'prefers-color-scheme: dark' 'by night it is dark, too'

# ---- the command's pages ----------------------------------------------------------------------------------
cat >"c$evil_word.yaml" <<'END'
nodes:
  - {gpu_type: a40, count: 2, gpus_per_node: 2}
END
printf '%s\n' 'model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s' 'bert,1B,8,a40,1,1,8' 'bert,1B,8,a40,1,2,5' >"t$evil_word.csv"
exits 0 'a trace is generated' "$arena" trace generate --cluster "c$evil_word.yaml" --throughputs "t$evil_word.csv" --jobs 5 --load 1.2 --seed 5
mv out "j$evil_word.csv"
exits 0 'a simulation of it is drawn' "$arena" simulate --cluster "c$evil_word.yaml" --trace "j$evil_word.csv" \
    --throughputs "t$evil_word.csv" --policy fifo,arena --html simulate.html
safe simulate.html 'simulate --html'
jq -n --arg name "$evil" '{name: $name, stages: 2, fp: [[1, 2], [1, 2]], bp: [[1, 2], [1, 2]]}' >array.json
exits 0 'a schedule is drawn' "$lab" array solve array.json --html array.html
safe array.html 'array solve --html'

# ---- the live page, of a plug-in that says nothing else ----------------------------------------------------
if ! grep -q '^S\["HAVE_MICROHTTPD_TRUE"\]=""$' "$ARENA_BUILDDIR/config.status"; then
    skip 4 'built without libmicrohttpd'
    done_testing
    exit
fi
EVIL=$evil python3 - >live.json <<'END'
import json, os
evil = os.environ["EVIL"]
job = {"job": evil, "uid": 0, "state": evil, "reason": evil, "name": evil, "partition": evil, "grid": evil, "plan": evil, "place": evil,
       "expected_start_s": 9e9, "expected_grid": evil, "expected_span": evil, "span": evil, "behind": evil, "nodes": [evil], "start_s": 1, "slow": evil, "speed": evil,
       "ran": [[evil, evil], [-1, 0]], "expected_end_s": 9e9}
print(json.dumps({"schema_version": 1, "enabled": True, "policy": evil, "now_s": 1, "round_s": 1, "rounds": evil, "round_ms": 1, "jobs_shown": True,
    "pools": [{"gpu_type": evil, "gpus": 4, "free": 1, "down": 1, "nodes": evil, "lent": evil, "slow_nodes": evil}],
    "nodes_in_all": 1, "nodes": [{"node": evil, "gpu_type": evil, "gpus": 4, "free": 1, "up": True, "lent": evil, "why": evil,
        "below": [evil, evil], "boot_s": 5, "jobs": [{"job": evil, "gpus": 2}]}], "over": [job],
    "jobs_waiting": evil, "waiting": [job], "jobs_running": evil, "running": [job],
    "slow": [{"job": evil, "at": evil, "peer": evil, "cause": evil, "factor": 2.0, "onset_s": 0, "action": evil, "lost_s": 1}],
    "leases": [{"node": evil, "partition": evil, "state": evil, "why": evil, "since_s": 1, "jobs": [evil]}],
    "news": [{"time_s": 1, "job": evil, "state": evil, "text": evil}]}))
END
python3 - "$PWD/live.json" "$PWD/arena.sock" >server.out <<'END' &
import socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[2])
server.listen(16)
print("up", flush=True)
while True:
    client, _ = server.accept()
    with client, open(sys.argv[1], "rb") as file:
        client.recv(4096)
        client.sendall(file.read())
END
server=$!
printf '%s\n' "socket: $PWD/arena.sock" 'gpu_types: {a40: A40}' >arena.yaml
"$arena" --config arena.yaml exporter --listen 127.0.0.1:0 >exporter.out 2>&1 &
exporter=$!
trap 'kill $server $exporter 2>/dev/null; rm -rf "$work"' EXIT
for ((i = 0; i < 200; i++)); do [[ -s exporter.out && -s server.out ]] && break; sleep 0.05; done
url=$(sed -n 's/^arena exporter: //p' exporter.out)
ok 'the live page is served' test "$url"
nothing_runs "$url" 'the live page'
if [[ $browser ]]; then
    like "$(cat dom)" '&lt;/title&gt;.*&lt;script&gt;' 'its own script did run, and shows the words'
    like "$(cat dom)" '>1 node<' 'one thing is told as one'
else
    skip 2 'no chromium'
fi

# ---- a job's life, of a plug-in that says nothing else -----------------------------------------------------
mv live.json live.kept
jq -n --arg evil "${evil:0:250}" '{schema_version: 1, job: 7, uid: 0, over: true, left_out: 0, left_out_after: 8,
    account: {}, events: [["waiting", 1], ["running", 2], ["checkpointing", 3], [$evil, 4], ["over", 5]]
        | map({time_s: .[1], state: .[0], text: ("4x" + $evil + ": " + $evil), estimate_s: 1, iteration_s: 2})}' >live.json
exits 0 "a job's life is drawn" "$arena" --config arena.yaml history 7 --html life.html
safe life.html 'history --html'
mv live.kept live.json

# ---- what the page draws of a small cluster ------------------------------------------------------------------
python3 - >next.json <<'END'
import json
now = 1000000
def node(name, leaf, **more):
    return {"node": name, "gpu_type": "a40", "gpus": 2, "free": 0, "up": True, "below": ["spine", leaf], **more}
nodes = [node("n1", "leaf1", jobs=[{"job": 7, "gpus": 2}]), node("n2", "leaf1", jobs=[{"job": 8, "gpus": 1}], free=1),
         node("n3", "leaf2", up=False), node("n4", "leaf2", free=2, boot_s=60), node("n5", "leaf2", free=2, lent="loan L1"),
         node("n6", "leaf2", free=2, why="GPU 0 is slow")]
print(json.dumps({"schema_version": 1, "enabled": True, "policy": "arena", "now_s": now, "round_s": now, "rounds": 1, "round_ms": 1, "jobs_shown": True,
    "pools": [], "nodes_in_all": 6, "nodes": nodes, "slow": [], "leases": [], "news": [], "jobs_waiting": 1, "jobs_running": 1,
    "running": [{"job": 7, "uid": 0, "name": "seven", "state": "running", "reason": "its fastest shape; started before a promised job", "speed": "the fastest of its 3 shapes",
                 "start_s": now - 600, "expected_end_s": now + 600, "ran": [[now - 2000, now - 1500]], "nodes": ["n1"], "grid": "2xa40", "span": "in one leaf"}],
    "waiting": [{"job": 9, "uid": 0, "name": "nine", "state": "waiting", "reason": "waits for 4xa40", "place": 1, "expected_start_s": now + 600,
                 "expected_end_s": now + 900, "expected_grid": "4xa40", "expected_span": "over 2 leaves", "ends_by_s": now + 1200}],
    "over": [{"job": 5, "uid": 0, "ran": [[now - 3000, now - 2500]]}]}))
END
mv next.json live.json
counted() { LC_ALL=C sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\2: \1/' | paste -sd';'; }
classes() { grep -oE "<$1 class=\"$2( [^\"]*)?\"" dom | sed 's/.*class="//; s/"$//' | counted; }
if [[ $browser ]]; then
    for ((i = 0; i < 20; i++)); do   # the exporter keeps an answer for a moment
        dom "$url" >dom
        ! grep -q 'leaf2' dom || break
    done
    sed -i 's/<p id="[a-z-]*legend"/\n&/g; s/<\/p>/&\n/g' dom && sed -i '/^<p id="[a-z-]*legend"/d' dom
    is "$(grep -oE '<h3[^>]*>leaf[^<]*' dom | sed 's/.*>//' | paste -sd';')" 'leaf1: 1 of 4 free;leaf2: 6 of 8 free' 'the map has the nodes by leaf, with what is free'
    is "$(classes div cell)" 'cell: 2;cell is-asleep: 1;cell is-down: 1;cell is-lent: 1;cell is-slow: 1' \
        'and tells those that are down, asleep, lent and slow apart'
    is "$(classes i gpu)" 'gpu: 9;gpu ordinary: 1;gpu ours: 2' 'a GPU is free, an ordinary job has it, or a job with a colour of its own'
    is "$(classes span "bar-[a-z-]*")" 'bar-expected: 1;bar-goes-on: 1;bar-promise: 1;bar-ran: 2;bar-runs: 1' 'the timeline has runs, what is expected and what is promised'
    like "$(cat dom)" 'the fastest of its 3 shapes; started before a promised job' 'a running job has words of its own'
    like "$(cat dom)" '2xa40, in one leaf' 'and how near its nodes are'
    like "$(cat dom)" 'with 4xa40 over 2 leaves' 'a waiting one says how near those will be that it is expected to have'
    unlike "$(sed '/<script/,/<\/script>/d' dom)" 'its fastest shape' 'and none that its speed says'
else
    skip 8 'no chromium'
fi
done_testing
