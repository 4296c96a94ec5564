#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Issue 16, A12: a configuration that others than root and SlurmUser could have written is refused by
# slurmctld, job_submit and doctor, with the path at fault; silent clients of the plug-in's socket keep
# nobody waiting.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
command -v python3 >/dev/null || skip_all "python3 is not installed"
make_work
mkdir -m 755 "$work/site" && cp "$ARENA_SRCDIR/etc/hardware.yaml" "$work/site/hardware.yaml"
start_cluster --nodes a40:1x2 --arena on --profile off --arena-set hardware_file="$work/site/hardware.yaml"
log=$cluster_dir/log/slurmctld.log
conf=$cluster_dir/arena.yaml
stats() { arena stats >/dev/null; }
ok "arena stats answers" wait_until stats

# ---- silent clients -------------------------------------------------------------------------------
# silent N [COMMAND...]: N connections that say nothing, made anew when they are hung up, until the pipe is closed
cat >"$work/silent.py" <<'END2'
import select, socket, sys
path, count = sys.argv[1], int(sys.argv[2])
def call():
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(path)
    return client
clients = [call() for _ in range(count)]
print("ready", flush=True)
while True:
    gone, _, _ = select.select(clients + [sys.stdin], [], [])
    if sys.stdin in gone:
        break
    for client in gone:
        clients.remove(client)
        client.close()
        clients.append(call())
    select.select([sys.stdin], [], [], 0.05)
END2
silent() {
    local n=$1
    shift
    mkfifo "$work/go.$n"
    "$@" python3 "$work/silent.py" "$cluster_dir/run/arena.sock" "$n" <"$work/go.$n" >"$work/said.$n" &
    silent_pid=$!
    exec {silent_in}>"$work/go.$n"
    wait_until "grep -q ready '$work/said.$n'" || BAIL_OUT "$n clients could not connect"
}
quiet_end() { # they were there all the time
    ok "they were there all the time" kill -0 "$silent_pid"
    exec {silent_in}>&-
    wait "$silent_pid"
}
fastest_stats() { # ms of the fastest of five, as another user perhaps
    local begin fastest=999999 ms
    for _ in {1..5}; do
        begin=${EPOCHREALTIME/./}
        "$@" arena stats >/dev/null || { echo "no answer"; return; }
        ms=$(((${EPOCHREALTIME/./} - begin) / 1000))
        ((ms >= fastest)) || fastest=$ms
    done
    echo $fastest
}
# What a silent client delays waits for as long as one may be silent: 2 s.
in_time() { note "$1: $2 ms"; ok "$1" test "$2" -lt 1500; }
silent 64   # not by `ok`: a subshell's end of the pipe would close
in_time "64 silent clients do not delay arena stats" "$(fastest_stats)"
quiet_end
if can_be_user; then
    silent 100 as_user
    in_time "100 of another user, more than one may have, do not delay arena stats" "$(fastest_stats)"
    in_time "nor that user's own" "$(fastest_stats as_user env ARENA_CONF="$conf" PATH="$PATH")"
    quiet_end
else
    skip 3 "only root can play another user"
fi

# Who is hung up on before its question was read asks again.
cat >"$work/fickle.py" <<'END2'
import socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.bind(sys.argv[2])
server.listen()
for turn in range(6):
    client, _ = server.accept()
    if turn == 5:
        plugin = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plugin.connect(sys.argv[1])
        plugin.sendall(client.recv(256))
        while answer := plugin.recv(65536):
            client.sendall(answer)
    client.close()
END2
python3 "$work/fickle.py" "$cluster_dir/run/arena.sock" "$work/fickle.sock" &
wait_until "[[ -S $work/fickle.sock ]]"
sed "s#^socket:.*#socket: $work/fickle.sock#" "$conf" >"$work/fickle.yaml"
like "$(ARENA_CONF="$work/fickle.yaml" arena stats)" rounds "a question that was hung up on is asked again"
wait $!

# ---- who may have written the configuration -------------------------------------------------------
reads() { grep -cE 'arena: (policy |.*(stays|Arena is off))' "$log"; }
reread() {
    local before
    before=$(reads)
    scontrol reconfigure && wait_until "(( \$(reads) > $before ))"
}
refused() { # PATTERN: by slurmctld and by doctor
    local said
    reread || { echo "not read again"; return 1; }
    # A slurmctld that is a new process after it (since 23.11) takes the one that it kept, and says so.
    said=$(grep -E 'error: arena: .*(stays|Arena is off|the last one that was good)' "$log" | tail -n 1)
    note "${said#*error: }"
    [[ $said =~ error:\ arena:\ $1.*('the configuration in force stays'|'the last one that was good') ]] || { echo "slurmctld said: $said"; return 1; }
    said=$(arena doctor | grep 'arena.yaml: ')
    [[ $said =~ ^FAIL\ +arena.yaml:\ $1 ]] || { echo "doctor said: $said"; return 1; }
}
accepted() {
    reread && grep -E 'arena: (policy |.*(stays|Arena is off))' "$log" | tail -n 1 | grep -q 'arena: policy' &&
        arena doctor | grep -qE '^ok +arena.yaml: '
}
ok "the private cluster's own files are accepted" accepted
chmod 666 "$conf"
ok "arena.yaml that all may write to is refused" refused "$conf: others may write to it \(mode 0666\)"
chmod 644 "$conf"
ok "and accepted when that is mended" accepted
chmod 646 "$work/site/hardware.yaml"
ok "so is a hardware file" refused "$work/site/hardware.yaml: others may write to it \(mode 0646\)"
chmod 644 "$work/site/hardware.yaml" && chmod 777 "$work/site"
ok "and one in a directory that all may write to" refused "$work/site: others may write to it \(mode 0777\)"
chmod 1777 "$work/site"
ok "the sticky bit helps" accepted
chmod 755 "$work/site"
if can_be_user; then
    chown "$arena_user" "$conf"
    ok "arena.yaml of another user is refused" refused "$conf: belongs to $arena_user, not to root or slurm"
    chown slurm "$conf"
    ok "SlurmUser's is accepted" accepted
    chown root "$conf" && chown "$arena_user" "$work/site"
    ok "a directory of another user on the way is refused" refused "$work/site: belongs to $arena_user"
    chown root "$work/site"
else
    skip 3 "only root can give files away"
fi
chmod 666 "$conf"
ok "slurmctld starts with such a file" cluster ctld restart
ok "and goes by the last one that only its own could write" submit --hold --arena-model=gpt2 --arena-launcher=env --arena-batch=8 --wrap true
rm -r "$cluster_dir/state/arena"
ok "it starts without one, too" cluster ctld restart
not_ok "and takes no Arena job" submit --arena-model=gpt2 --arena-launcher=env --arena-batch=8 --wrap true
like "$(grep 'arena: ' "$log" | tail -n 3)" "$conf: others may write to it" "its log says why"
ok "ordinary jobs are taken" submit --hold --wrap true
chmod 644 "$conf"
ok "mended, Arena jobs are taken at once" submit --hold --arena-model=gpt2 --arena-launcher=env --arena-batch=8 --wrap true
done_testing
