#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The Prolog of carrier jobs, called as slurmd calls it (absolute path, built environment, no terminal):
# it always exits 0, acts only for the service user's jobs, and turns every end of a profiler into a file.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
: "${ARENA_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}" "${ARENA_BUILDDIR:=$PWD}"
for program in setpriv flock timeout; do
    command -v $program >/dev/null || skip_all "$program is not installed (util-linux, coreutils)"
done
[[ -x $ARENA_BUILDDIR/arena-profiler && -x $ARENA_BUILDDIR/plugin/prolog/arena-prolog ]] ||
    skip_all "arena-profiler or the Prolog is not built"

work=$(mktemp -d "${TMPDIR:-/tmp}/arena-prolog-XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/libexec" "$work/spool"
# copies: the service user may not be able to reach the build directory
cp "$ARENA_BUILDDIR/arena-profiler" "$ARENA_BUILDDIR/plugin/prolog/arena-prolog" "$work/libexec/"
cp "$ARENA_SRCDIR/etc/hardware.yaml" "$work/"
if [[ $(id -u) == 0 ]]; then user=daemon; else user=$(id -un); fi
uid=$(id -u "$user")
chown "$user" "$work/spool"

config() { # KEY: VALUE lines of profile:
    { echo profile:; printf '  %s\n' "user: $user" "spool: $work/spool" "$@"; } >"$work/arena.yaml"
    chmod 644 "$work/arena.yaml"
}
tool=$work/libexec/arena-profiler
request() {
    local words=("$@")
    (($#)) || words=(--model gpt2 --budget 1)
    ARENA_DATA_DIR=$work "$tool" request "${words[@]}" --batch 8 --max-gpus 1 --gpu-type a40
}
# shellcheck disable=SC2001
nonce() { sed 's/.*"nonce":"\([A-Za-z0-9]*\)".*/\1/' <<<"$1"; }
field() { sed -n "s/.*\"$2\":\"\([^\"]*\)\".*/\1/p" "$work/spool/$(nonce "$1").json"; }
# prolog UID REQUEST [VARIABLE=VALUE...]: as slurmd does it; stderr in $work/err
# shellcheck disable=SC2317
prolog() {
    local job_uid=$1 text=$2
    shift 2
    env -i SLURM_JOB_ID=42 SLURM_JOB_UID="$job_uid" SLURM_CONF="$work/slurm.conf" SLURMD_NODENAME=n7 \
        SPANK_ARENA_PROFILE="$text" ARENA_LIBEXECDIR="$work/libexec" ARENA_DATA_DIR="$work" "$@" \
        "$work/libexec/arena-prolog" 2>"$work/err"
}
program() { # body of a measuring program in place of ours
    printf '#!/bin/bash\n%s\n' "$1" >"$work/program"
    chmod 755 "$work/program"
}
spooled() { find "$work/spool" -name '*.json' | wc -l; }
clear_spool() { find "$work/spool" -mindepth 1 -delete; }

echo SlurmUser=slurm >"$work/slurm.conf"
config 'budget_s: 10' 'time_limit_s: 60'
# Small: its largest operator is measured in time on any machine.
printf '%s\n' 'name: small' 'family: gpt' 'layers: 2' 'hidden: 64' 'heads: 4' 'vocab: 256' 'seq_length: 32' 'precision: fp32' >"$work/small.yaml"
one=$(request --model "$work/small.yaml" --budget 10)

# ---- ordinary jobs and forgers ---------------------------------------------------------------
is "$(env -i SLURM_JOB_ID=1 SLURM_JOB_UID=0 sh -x "$work/libexec/arena-prolog" 2>&1)" \
    $'+ [ -n  ]\n+ exit 0' "an ordinary job costs one test and no process"
ok "a job of somebody else that carries the variable passes" prolog 54321 "$one"
ok "a job with a uid that is no number passes" prolog 'x; touch /tmp/owned' "$one"
is "$(spooled)" 0 "neither wrote a result"
ok "the service user's job with garbage for a request passes" prolog "$uid" '{"nonce": "../../x"'
# shellcheck disable=SC2016
ok "a request with shell text in it passes" prolog "$uid" '$(touch '"$work"'/owned)`id`"; exit 7'
ok "nothing of it was executed" test ! -e "$work/owned"
is "$(spooled)" 0 "neither wrote a result"

# ---- success ---------------------------------------------------------------------------------
ok "a carrier job passes" prolog "$uid" "$one"
like "$(field "$one" status)" '^(complete|partial)$' "its result is complete or partial"
is "$(stat -c '%U %a' "$work/spool/$(nonce "$one").json")" "$user 644" "the result belongs to the service user"
is "$(field "$one" node)" n7 "the result names the node"
like "$(cat "$work/spool/$(nonce "$one").json")" '"op":"[a-z_]+"' "the result has measured operators"
is "$(find "$work/spool" -name '.run*' | wc -l)" 0 "no part file stays"

# ---- what the profiler sees -------------------------------------------------------------------
# shellcheck disable=SC2016
program 'exec >'"$work"'/spool/seen; env | sort; echo "id $(id -u) $(id -g) $(id -G)"; pwd; ls /proc/self/fd | tr "\n" " "
grep -E "NoNewPrivs|CapEff" /proc/self/status'
exec 7<"$work/hardware.yaml"
ok "a substituted program passes" prolog "$uid" "$one" ARENA_PROFILER="$work/program" CUDA_VISIBLE_DEVICES=3 \
    LD_LIBRARY_PATH=/evil BASH_ENV=/evil SPANK_LD_PRELOAD=/evil SPANK_PATH=/evil HOME=/evil
exec 7<&-
seen=$(cat "$work/spool/seen")
is "$(grep -c evil <<<"$seen")" 0 "nothing of the job's environment reaches the profiler"
like "$seen" $'\nCUDA_VISIBLE_DEVICES=3\n' "the devices of the allocation do"
like "$seen" $'\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\n' "PATH is the fixed one"
is "$(grep -cE '^[A-Z_]+=' <<<"$seen")" "$(grep -cE '^(ARENA_DATA_DIR|CUDA_VISIBLE_DEVICES|HOME|LC_ALL|OLDPWD|PATH|PWD|SHLVL|SLURMD_NODENAME|SLURM_JOB_ID|SPANK_ARENA_PROFILE|_)=' <<<"$seen")" \
    "no other variable is there"
like "$seen" $'\nid '"$uid" "it runs as the service user"
if [[ $(id -u) == 0 ]]; then
    like "$seen" "NoNewPrivs:.1" "it cannot gain privileges"
    like "$seen" "CapEff:.0000000000000000" "it has no capabilities"
fi
unlike "$seen" $'\n0 1 2 [0-9 ]*7' "the descriptors of the caller are closed"
is "$(field "$one" reason)" "profiler wrote no usable result: cannot open: No such file or directory" \
    "a program that writes nothing becomes a failed result"

# ---- what everybody on the node can read -------------------------------------------------------
program 'exit 0'
sed -e '1s|.*|#!/bin/sh -x|' -e 's|>/dev/null 2>&1 *||' "$work/libexec/arena-prolog" >"$work/libexec/traced" && chmod 755 "$work/libexec/traced"
env -i SLURM_JOB_ID=42 SLURM_JOB_UID="$uid" SLURM_CONF="$work/slurm.conf" SPANK_ARENA_PROFILE="$one" \
    ARENA_LIBEXECDIR="$work/libexec" ARENA_DATA_DIR="$work" ARENA_PROFILER="$work/program" "$work/libexec/traced" 2>"$work/trace"
programs=$(grep -aE '^\+ (env|setpriv|timeout|/)' "$work/trace")
like "$programs" 'SLURM_JOB_ID=42.*--as-service-user' "the trace shows how the service user's part is called"
unlike "$programs" "$(nonce "$one")" "the request is not among the arguments, which ps shows to everybody"

# ---- every bad end ----------------------------------------------------------------------------
bad_end() { # NAME BODY REASON-REGEX
    local r
    r=$(request)
    program "$2"
    ok "$1: the Prolog passes" prolog "$uid" "$r" ARENA_PROFILER="$work/program"
    is "$(field "$r" status)" failed "$1: the result says failed"
    like "$(field "$r" reason)" "$3" "$1: the result says why"
}
# shellcheck disable=SC2016
bad_end "crash" 'kill -SEGV $$' 'Segmentation fault'
# shellcheck disable=SC2016
bad_end "killed for memory" 'kill -KILL $$' 'killed'
bad_end "error" 'echo "no usable GPU" >&2; exit 3' 'exit code 3: no usable GPU'
# shellcheck disable=SC2016
bad_end "garbage" 'while [ $# -gt 1 ] && [ "$1" != --out ]; do shift; done; head -c 3000 /dev/urandom >"$2"' 'no usable result'
# shellcheck disable=SC2016
bad_end "a fifo for a result" 'while [ $# -gt 1 ] && [ "$1" != --out ]; do shift; done; mkfifo "$2"' 'not a regular file'
config 'budget_s: 1' 'time_limit_s: 10'
# shellcheck disable=SC2012 # the newest result's time, less the program's begin
took() { echo $(($(stat -c %Y "$(ls -t "$work"/spool/*.json | head -n 1)") - $(<"$work/spool/begun"))); }
bad_end "time-out with SIGTERM ignored" 'trap "" TERM; date +%s >'"$work"'/spool/begun; while :; do sleep 1; done' 'timed out'
ok "the time-out came before the carrier's limit and its kill" test "$(took)" -lt 20
exec 8>"$work/spool/lock-$(uname -n)"
flock 8
bad_end "another profiler on this host" 'exit 0' 'lock'
exec 8>&-

# ---- what the administrator may have wrong ------------------------------------------------------
two=$(request)
clear_spool
refused() { # NAME REGEX [VARIABLE=VALUE...]
    ok "$1: the Prolog passes" prolog "$uid" "$two" "${@:3}"
    like "$(cat "$work/err")" "$2" "$1: stderr says why"
    is "$(spooled)" 0 "$1: no result"
}
config 'budget_s: 1'; chmod 666 "$work/arena.yaml"
refused "arena.yaml writable by all" 'others may write to it'
config 'budget_s: nine'
refused "arena.yaml with a bad value" 'arena.yaml:4'
if [[ $(id -u) == 0 ]]; then
    config 'budget_s: 1'; echo "slurmuser = $user # comment" >"$work/slurm.conf"
    refused "service user is SlurmUser" 'SlurmUser'
    echo "SlurmUser = $user" >"$work/users.conf"; printf "SlurmUser=slurm\\nInclude users.conf\\n" >"$work/slurm.conf"
    refused "an included file says who SlurmUser is" "SlurmUser"
    echo "Include missing.conf" >"$work/slurm.conf"
    refused "an included file cannot be read" "missing.conf"
    echo SlurmUser=slurm >"$work/slurm.conf"
    # A link, as at sites with /etc/slurm on shared storage: followed where it and its target are root's alone.
    mkdir "$work/shared"; echo SlurmUser=slurm >"$work/shared/slurm.conf"
    config 'budget_s: 1'; ln -sf shared/slurm.conf "$work/slurm.conf"
    ok "slurm.conf is a link: the Prolog passes" prolog "$uid" "$two" ARENA_CONF="$work/arena.yaml"
    is "$(spooled)" 1 "and profiles"
    clear_spool
    chmod 666 "$work/shared/slurm.conf"
    refused "a link to a file that others may write" 'symbolic link by way of .*others may write'
    chmod 644 "$work/shared/slurm.conf"; chown "$user" "$work/shared/slurm.conf"
    refused "a link to a file of another user" 'symbolic link by way of .*chown it'
    chown root "$work/shared/slurm.conf"; chmod 777 "$work/shared"
    refused "a link into a directory that others may write" 'symbolic link by way of .*others may write'
    chmod 755 "$work/shared"; chown -h "$user" "$work/slurm.conf"
    refused "a link of another user" 'symbolic link by way of .*chown it'
    ln -sf missing.conf "$work/slurm.conf"
    refused "a link to nothing" 'symbolic link to what cannot be found'
    ln -sf slurm.conf "$work/slurm.conf"
    refused "a link to itself" 'symbolic link by way of .*too many links'
    rm "$work/slurm.conf"; echo SlurmUser=slurm >"$work/slurm.conf"
    config 'budget_s: 1'; sed -i 's/user: .*/user: root/' "$work/arena.yaml"
    uid_was=$uid uid=0
    refused "service user is root" 'root'
    uid=$uid_was
    config 'budget_s: 1'; chown root "$work/spool"
    refused "spool of another user" 'no result could be written'
    chown "$user" "$work/spool"
fi
config 'budget_s: 1'; sed -i "s|spool: .*|spool: $work/nowhere|" "$work/arena.yaml"
refused "spool that does not exist" 'no result could be written'
rm "$work/arena.yaml"
refused "no arena.yaml" 'No such file' ARENA_CONF="$work/arena.yaml"
config 'budget_s: 1'
ok "an odd CUDA_VISIBLE_DEVICES passes" prolog "$uid" "$two" CUDA_VISIBLE_DEVICES='0;id'
is "$(spooled)" 0 "and nothing is profiled"

done_testing
