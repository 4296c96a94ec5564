# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# install-deps: keeps the services of Slurm, munge and MariaDB from being started while their packages are unpacked, by a
# wrapper in the place of the machine's policy-rc.d. Whatever happens (two at once, kill -9, a power cut) the site's own
# one is never lost: it is set aside by a link, never overwritten, and the wrapper asks it. Sourced.
policy=${policy-/usr/sbin/policy-rc.d}
policy_lock=${policy_lock-/run/slurm-arena-install-deps.lock}
policy_mark='# written by install-deps of slurm-arena; goes when it ends'

# One at a time, until this process ends.
lock_services() {
    exec 9>"$policy_lock"
    flock 9
}

is_own_wrapper() { [[ -f $policy && ! -L $policy ]] && grep -qxF "$policy_mark" "$policy"; }

hold_services() {
    local saved=$policy.slurm-arena-saved new
    if [[ -e $policy || -L $policy ]] && ! is_own_wrapper; then
        # Both are the site's, where one of ours was killed and somebody wrote a new one since: the older stays beside it.
        if [[ -e $saved || -L $saved ]] && ! cmp -s "$saved" "$policy"; then mv "$saved" "$saved.$(date +%s)"; fi
        cp -a --remove-destination "$policy" "$saved"
    fi
    new=$(mktemp "$policy.XXXXXX")
    cat >"$new" <<END
#!/bin/sh
$policy_mark
if [ -e /proc/$$ ]; then
    case "\$1" in munge|slurmctld|slurmd|slurmdbd|mariadb|mysql) exit 101 ;; esac
fi
[ ! -x $saved ] || exec $saved "\$@"
END
    chmod 755 "$new"
    mv -f "$new" "$policy"   # at every moment there is the one or the other
    trap release_services EXIT
}

# Back to what the site had; nothing where somebody else's policy-rc.d stands there.
release_services() {
    is_own_wrapper || return 0
    if [[ -e $policy.slurm-arena-saved || -L $policy.slurm-arena-saved ]]; then
        mv -f "$policy.slurm-arena-saved" "$policy"
    else
        rm -f "$policy"
    fi
}
