#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# INSTALL.md, step by step and typed as it stands, on the Slurm of a bare Debian 12 (tests/lib/bare_debian.sh);
# then each mistake that an administrator can make there, made on purpose: arena doctor names it and ends in 1, and
# what it prints to do about it, typed as it stands, makes it say again that all is ok.
# shellcheck disable=SC2034 # names that wait_until reads
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/bare_debian.sh" || exit 99
grep -q '^S\["HAVE_SLURM_SRC_TRUE"\]=""$' "$ARENA_BUILDDIR/config.status" || skip_all "this build has no scheduler plug-in"
command -v jq >/dev/null || skip_all "jq is not installed"
enter_bare_debian "$@"

# ---- the machine before: a Slurm of one node, and a build tree of slurm-arena ----------------------------
# The tree is this build, as `./configure --sysconfdir=/etc && make` would have left it: its few files that know the
# prefix are made again, in a layer over it.
own_build() {
    mount_layer "$ARENA_BUILDDIR" build "$ARENA_BUILDDIR" || return 1
    cd "$ARENA_BUILDDIR" || return 1
    sed -i -e 's|^prefix = .*|prefix = /usr/local|' -e 's|^sysconfdir = .*|sysconfdir = /etc|' Makefile
    # Whoever includes it is compiled again.
    sed -i -e '/ARENA_SYSCONFDIR/s|".*"|"/etc"|' -e '/ARENA_BINDIR/s|".*"|"/usr/local/bin"|' \
        -e '/ARENA_PKGLIBDIR/s|".*"|"/usr/local/lib/slurm-arena"|' -e '/ARENA_PKGDATADIR/s|".*"|"/usr/local/share/slurm-arena"|' \
        -e '/ARENA_LIBEXECDIR/s|".*"|"/usr/local/libexec/slurm-arena"|' installed_paths.h
    rm -f ./*_arena.la plugin/prolog/arena-prolog etc/plugstack.conf.d/arena.conf libarena_slurm.la
    make -s -j"$(nproc)" >"$layer/make.log" 2>&1 || { tail -n 20 "$layer/make.log" >&2; return 1; }
    # `make install` in there must not miss the headers that are not there.
    find . -path '*/.deps/*.P*o' -type f -exec truncate -s 0 {} +
    mkdir -p "$root$ARENA_SRCDIR"
    mount --bind "$ARENA_SRCDIR" "$root$ARENA_SRCDIR" && mkdir -p "$root$ARENA_BUILDDIR" &&
        mount --bind "$ARENA_BUILDDIR" "$root$ARENA_BUILDDIR"
}
install_systemctl
write_stock_slurm
is "$(chroot "$root" scontrol version)" "slurm-wlm $(sed -n 's/^S\["SLURM_VERSION"\]="\(.*\)"$/\1/p' "$ARENA_BUILDDIR/config.status")" \
    "Debian's Slurm is the one that the plug-ins were built for" || exit 1
for unit in munge slurmctld slurmd; do ok "systemctl restart $unit" in_root systemctl restart $unit; done
ok "the cluster works without Arena" wait_until 'node_is idle' 30
ok "the tree is built for /usr/local" own_build
not_ok "before installation there is no arena" in_root arena doctor

# ---- INSTALL.md ----------------------------------------------------------------------------------------------
inline() { sed -n '/^## Steps/,/^## What has run/p' "$ARENA_SRCDIR/INSTALL.md" | grep -oE "\`$1[^\`]*\`" | head -n 1 | tr -d '\`'; }
follow "1: make install" "make install"
follow "2: the service user" "$(inline useradd)"
follow "3: directories" "$(block 'install -d')"
ok "3 has made all directories of arena.yaml(5)'s table" in_root bash -c '[[ $(stat -c %U:%G:%a /var/spool/slurm-arena /var/lib/slurm-arena /run/slurm-arena) == $'"'arena:slurm:2750\nslurm:slurm:700\nslurm:slurm:755'"' ]]'
printf 'gpu_types:\n  a100: emulated-cpu   # no GPU here\nprofile:\n  budget_s: 20\n' >>"$root/etc/slurm/arena.yaml"
follow "4: arena.yaml" "arena config check"
lines=$(block SchedulerType)
ok "5: INSTALL.md has the lines for slurm.conf" test "$(wc -l <<<"$lines")" -ge 7
printf '%s\n' "$lines" >>"$root/etc/slurm/slurm.conf"
follow "5: restart and reconfigure" $'systemctl restart slurmctld\nscontrol reconfigure'
like "$(in_root sbatch --help 2>&1)" '--arena-model' "6: sbatch knows the options"

ok "7: arena doctor finds all ok" wait_until doctor 30 || { doctor; diag "$said"; }
doctor
note "$said"
like "$said" 'ok +host: node1: controller and compute node \(SlurmctldHost=node1, NodeName=node1\)' "it says what host this is, and why"

# ---- an Arena job, profiled and run ------------------------------------------------------------------------
job=$(job_there --arena-model=gpt2 --arena-launcher=env --arena-batch=8 --arena-gpus=1 -t 5 --wrap 'echo "plan: $ARENA_PP $ARENA_DP $ARENA_TP on $ARENA_GPU_TYPE"')
ok "an Arena job runs to its end" wait_until '[[ $(state_there $job) == COMPLETED ]]' 180
is "$(cat "$root/tmp/job.out")" "plan: 1 1 1 on a100" "with its plan"
like "$(in_root arena profile list)" 'gpt2.*a100.*(complete|partial)' "its model was measured, by the Prolog, and imported" ||
    diag "$(in_root arena profile list; tail -n 20 "$root/var/log/slurm/slurmctld.log")"

# ---- mistakes ------------------------------------------------------------------------------------------------
# The commands below the first line that says FAIL or warn.
remedy() {
    awk '/^(FAIL|warn) / { n++ } /^(ok|skip) / && n { exit } n > 1 { exit } n == 1 && /^          / { print substr($0, 11) }' <<<"$said"
}
is_found() { doctor; grep -qE "^FAIL .*$finding" <<<"$said"; }
# mistake NAME COMMANDS FINDING: COMMANDS make it; doctor then has a line that FINDING matches
mistake() {
    local name=$1 make=$2 finding=$3 round line typed_lines=''
    ok "$name: made" typed "$make"
    wait_until is_found 10
    said=$(in_root arena doctor 2>&1)
    is $? 1 "$name: doctor ends in 1"
    line=$(grep -E "^FAIL .*$finding" <<<"$said")
    like "$line" "$finding" "$name: and names it" || diag "$said"
    note "$line"
    for ((round = 0; round < 6; round++)); do
        while read -r line; do
            note "# $line"
            typed_lines+=$line$'\n'
            typed "$line" >"$layer/typed" 2>&1 || diag "$line: $(cat "$layer/typed")"
        done < <(remedy)
        wait_until doctor 10 && break
    done
    ok "$name: what it prints, typed, makes all ok" doctor || diag "typed: $typed_lines"$'\n'"$said"
}
conf=/etc/slurm/slurm.conf yaml=/etc/slurm/arena.yaml
set_key() { echo "sed -i 's|^$1=.*|$1=$2|' $conf"; }
drop_key() { echo "sed -i '/^$1=/d' $conf"; }
restart='systemctl restart slurmctld' reconfigure='scontrol reconfigure'

mistake "no Prolog" "$(drop_key Prolog); $reconfigure" 'Prolog: none in slurm.conf: nothing is ever profiled'
mistake "a wrong path as Prolog" "$(set_key Prolog /usr/libexec/arena-prolog); $reconfigure" \
    'Prolog: /usr/libexec/arena-prolog is not on this node'
typed "$(set_key Prolog /usr/libexec/arena-prolog); $reconfigure"
job_there --gres=gpu:a100:1 -t 1 --wrap true >/dev/null
wait_until 'node_is draining || node_is drained' 30
mistake "a wrong path as Prolog, and its node is drained" true 'node node1: .*[Pp]rolog'
ok "the node works again" wait_until 'node_is idle || node_is mixed' 30
in_root scancel -u root
mistake "another program as Prolog" "printf '#!/bin/sh\nexit 0\n' >/usr/local/sbin/site-prolog; chmod 755 /usr/local/sbin/site-prolog; \
    $(set_key Prolog /usr/local/sbin/site-prolog); $reconfigure" 'Prolog: /usr/local/sbin/site-prolog does not run arena-prolog'
mistake "a Prolog that is not executable" "chmod 644 /usr/local/libexec/slurm-arena/arena-prolog" 'Prolog: .*cannot be executed'
mistake "a Prolog that all may write to" "chmod 777 /usr/local/libexec/slurm-arena/arena-prolog" 'Prolog: .*others may write'
mistake "no arena-profiler" "rm /usr/local/libexec/slurm-arena/arena-profiler" 'arena-profiler: .*is missing'
mistake "a spool that SlurmUser cannot read" "install -d -o arena -g arena -m 0750 /var/spool/slurm-arena" \
    'profile spool: .*SlurmUser slurm cannot read it'
mistake "no spool" "rm -rf /var/spool/slurm-arena" 'profile spool: .*No such file'
mistake "root's spool" "chown root:root /var/spool/slurm-arena" 'profile spool: .*belongs to root, not to arena'
mistake "a spool that all may write to" "chmod 2777 /var/spool/slurm-arena" 'profile spool: .*written to by others'
mistake "an arena.yaml that only root can read" "chmod 600 $yaml; $reconfigure" 'arena.yaml: .*SlurmUser slurm cannot read it'
mistake "an arena.yaml that all may write to" "chmod 666 $yaml; $reconfigure" 'arena.yaml: .*others may write to it'
mistake "another owner's arena.yaml" "chown arena $yaml; $reconfigure" 'arena.yaml: .*belongs to arena'
mistake "no arena.yaml" "mv $yaml $yaml.away; $reconfigure" 'arena.yaml: ' # make install brings the example
typed "mv $yaml.away $yaml; $reconfigure"
wait_until doctor 20
mistake "an arena.yaml that slurmctld has not read again" "echo '# changed' >>$yaml" 'socket: slurmctld goes by another text'
mistake "Arena switched off" "sed -i 's/^enabled: .*/enabled: false/' $yaml; $reconfigure" 'enabled: is false'
mistake "no GPU type" "sed -i '/^gpu_types:/,/^  a100/d' $yaml; $reconfigure" 'gpu:a100: has no hardware entry'
ok "arena config check says so, too" in_root bash -c "printf 'enabled: true\n' >/tmp/none.yaml; ! arena config check /tmp/none.yaml 2>/tmp/said && grep -q 'no GPU type' /tmp/said"
mistake "a corrupt profile store" "systemctl stop slurmctld; head -c 9000 /dev/urandom | dd of=/var/lib/slurm-arena/profiles.db bs=1 seek=2000 conv=notrunc; \
    chown slurm:slurm /var/lib/slurm-arena/profiles.db; true" 'profile store: .*profiles.db'
mistake "root's store directory" "chown root:root /var/lib/slurm-arena; $restart" 'profile store: .*belongs to root, not to slurm'
mistake "no store directory" "rm -rf /var/lib/slurm-arena; $restart" 'profile store: .*No such file'
mistake "root's profile store" "chown root:root /var/lib/slurm-arena/profiles.db" "profile store: .*slurm's alone"
mistake "no /run/slurm-arena" "rm -rf /run/slurm-arena; $restart" 'socket: /run/slurm-arena: No such file'
mistake "no plug-in directory" "mv /usr/local/lib/slurm-arena /usr/local/lib/away" \
    'PluginDir: /usr/local/lib/slurm-arena is not on this host'
mistake "a plug-in directory with a slip of the pen" "$(set_key PluginDir /usr/local/lib/slurm-arean:/usr/lib/x86_64-linux-gnu/slurm-wlm)" \
    'PluginDir: /usr/local/lib/slurm-arean is not on this host'
mistake "a plug-in that is missing" "rm /usr/local/lib/slurm-arena/job_submit_arena.so" 'plug-in files: job_submit_arena.so'
# Its own symbol tells, whatever the commands of this host are of.
version=$(sed -n 's/^S\["SLURM_VERSION"\]="\(.*\)"$/\1/p' "$ARENA_BUILDDIR/config.status")
IFS=. read -r major minor micro <<<"$version"
bytes=$(printf '\\x%02x\\x%02x\\x%02x\\x00' $((10#$micro)) $((10#$minor)) $((10#$major)))
mistake "a plug-in of another Slurm" "LC_ALL=C sed -i 's/$bytes/\\x01${bytes:4}/' /usr/local/lib/slurm-arena/job_submit_arena.so" \
    "Slurm version: $version runs, /usr/local/lib/slurm-arena/job_submit_arena.so was built for $major.$minor.1"
mistake "another SchedulerType" "$(set_key SchedulerType sched/backfill); $restart" 'SchedulerType: sched/backfill is not'
mistake "no SchedulerType" "$(drop_key SchedulerType); $restart" 'SchedulerType: '
mistake "no JobSubmitPlugins" "$(drop_key JobSubmitPlugins); $restart" 'JobSubmitPlugins: .*without arena'
mistake "another plug-in behind ours" "$(set_key JobSubmitPlugins arena,all_partitions); $restart" 'JobSubmitPlugins: .*last one'
mistake "half a SPANK part" "rm /usr/local/lib/slurm-arena/${version%.*}/libarena_spank.so" 'plugstack.conf: .*libarena_spank.so is not beside'
mistake "no RequeueExitHold" "$(drop_key RequeueExitHold); $reconfigure" 'RequeueExitHold: .*without 99'
mistake "a short PrologEpilogTimeout" "$(set_key PrologEpilogTimeout 60); $reconfigure" 'PrologEpilogTimeout: 60 s is too short'
mistake "no BatchStartTimeout" "$(drop_key BatchStartTimeout); $reconfigure" 'BatchStartTimeout: 10 s is too short'
cp "$root$conf" "$layer/good.conf"
mistake "slurmctld not restarted" "$(drop_key SchedulerType); $restart; echo SchedulerType=sched/arena >>$conf; $reconfigure; true" \
    'SchedulerType: slurm.conf says sched/arena, slurmctld still runs with sched/backfill'
mistake "no line in plugstack.conf" "rm /etc/slurm/plugstack.conf.d/arena.conf" 'plugstack.conf: .*loads no spank_arena.so'
mistake "two lines in plugstack.conf" "echo 'optional /usr/local/lib/slurm-arena/spank_arena.so' >>/etc/slurm/plugstack.conf" \
    'plugstack.conf: spank_arena.so is loaded 2 times'
mistake "a line in plugstack.conf that leads nowhere" "sed -i 's|/usr/local/lib|/usr/lib|' /etc/slurm/plugstack.conf.d/arena.conf" \
    'plugstack.conf: .*is not on this host'
mistake "no service user" "userdel arena" 'service user: arena does not exist'
mistake "a Prolog on a file system without exec" "mount --bind /usr/local/libexec /usr/local/libexec; \
    mount -o remount,bind,noexec /usr/local/libexec" 'Prolog: .*noexec'
mistake "slurmctld is down" "systemctl stop slurmctld" 'slurmctld: '

# ---- what no command mends, other users, other hosts -----------------------------------------------------------
mount -t tmpfs -o size=1m,mode=2750 tmpfs "$root/var/spool/slurm-arena" && typed 'chown arena:slurm /var/spool/slurm-arena'
like "$(in_root arena doctor)" 'FAIL +profile spool: .*is full' "a full spool is told"
umount "$root/var/spool/slurm-arena"
ok "made room, all is ok" wait_until doctor 20
typed 'mv /dev/fake-gpu1 /dev/fake-gpu1.away'
like "$(in_root arena doctor)" 'FAIL +GPU devices: /dev/fake-gpu1 of /etc/slurm/gres.conf is not on this node .1 of 2 are missing.' \
    "a missing device is told"
typed 'mv /dev/fake-gpu1.away /dev/fake-gpu1'
ok "with it, all is ok" wait_until doctor 20
ordinary=$(in_root setpriv --reuid 65534 --regid 65534 --clear-groups arena doctor)
is $? 0 "an ordinary user may ask, too"
like "$ordinary" 'not run as root' "and is told so"
like "$ordinary" 'skip +profile store: .*run as root' "and what could not be looked at"
elsewhere() { unshare --uts bash -c "hostname $1; chroot '$root' arena doctor"; }
like "$(elsewhere login1)" 'ok +host: login1: login node \(neither SlurmctldHost nor a node' "a login node knows that it is one"
ok "and has nothing wrong" elsewhere login1
like "$(elsewhere login1)" 'ok +arena.yaml: .*as on the controller' "and has the controller's arena.yaml"
typed "sed '\$a# another' $yaml >/etc/slurm/other.yaml"
like "$(unshare --uts bash -c "hostname login1; chroot '$root' arena --config /etc/slurm/other.yaml doctor")" \
    'FAIL +arena.yaml: /etc/slurm/other.yaml has sum .*, that of the controller .*
 +scp node1:/etc/slurm/other.yaml /etc/slurm/other.yaml' "one that differs is told, with what to do"
is "$(in_root squeue -h -a -t PD -o %k)" "" "asking leaves no job"
ok "--json is the same for programs" bash -c "chroot '$root' arena doctor --json | jq -e '.ok and (.checks | length > 15)'"

job=$(job_there --arena-model=gpt2 --arena-launcher=env --arena-batch=8 --arena-gpus=2 -t 5 --wrap true)
ok "after all of it an Arena job still runs" wait_until '[[ $(state_there $job) == COMPLETED ]]' 180
for unit in slurmd slurmctld munge; do in_root systemctl stop $unit; done
done_testing
