# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Whether a directory is ours alone, for every script that reads, runs or deletes what one holds: in a
# directory that anybody may write to (/tmp, /var/tmp), somebody else may have made it first. Sourced.
#   why_not_ours DIR     says why DIR (a full path without links, as of realpath) may not be trusted, naming
#                        the part at fault; nothing where it may
#   own_directory DIR    succeeds where DIR itself is no link, ours, and nobody else may write in it: enough
#                        where what is above it is trusted anyway, as our own source tree
#   own_file FILE        succeeds where FILE, in such a directory, is a plain file of ours

# Group write is nobody else's where the group is the user's own, as many systems set up.
writable_by_others() { (($2 & 0002)) || { (($2 & 0020)) && ! private_group "$1"; }; } # GROUP MODE
private_group() { [[ $1 == "$(id -g)" && $(id -gn) == "$(id -un)" ]]; }

# From the root down: what has been looked at cannot be renamed any more while the rest is. A directory
# above may be sticky, for then only its owner moves what is in it, and that is looked at next.
# return 0: in a trap at exit a plain return gives what the script ends with, and set -e ends the trap there.
why_not_ours() {
    local at='' rest=${1#/} owner group mode
    [[ $1 == /* ]] || { echo "$1 is not a full path"; return 0; }
    while :; do
        read -r owner group mode < <(stat -c '%u %g %f' -- "${at:-/}" 2>/dev/null) ||
            { echo "${at:-/} is not there or cannot be looked at"; return 0; }
        mode=$((16#$mode))
        if ((mode & 0170000 ^ 0040000)); then
            echo "$at is a link or no directory"
        elif ((owner != EUID)) && { ((owner != 0)) || [[ ! $rest ]]; }; then
            echo "${at:-/} belongs to $(id -un "$owner" 2>/dev/null || echo "uid $owner")"
        elif writable_by_others "$group" "$mode" && { [[ ! $rest ]] || ! ((mode & 01000)); }; then
            echo "others may write to ${at:-/} (mode $(printf %o $((mode & 07777))))"
        elif [[ $rest ]]; then
            at=$at/${rest%%/*} rest=${rest#"${rest%%/*}"} rest=${rest#/}
            continue
        fi
        return 0
    done
}

own_directory() {
    local group mode
    [[ -d $1 && ! -L ${1%/} && -O $1 ]] && read -r group mode < <(stat -c '%g %f' -- "$1") &&
        ! writable_by_others "$group" "$((16#$mode))"
}
own_file() { [[ -f $1 && ! -L $1 && -O $1 ]]; }
