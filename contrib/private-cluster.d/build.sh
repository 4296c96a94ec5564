# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# private-cluster: which slurm-arena runs in it, and which hardware entry stands for each GPU type. Sourced.
# shellcheck disable=SC2154,SC2004  # the variables of the options are private-cluster's; keys of hardware_of are words

# The build directory of this source tree, "" without one: configured by contrib/quickstart, contrib/check or by hand.
find_build() {
    local top=$1 found
    for found in ${ARENA_BUILD:+"$ARENA_BUILD"} "$top/build" "/var/cache/slurm-arena-build-$(cksum <<<"$top" | cut -d' ' -f1)" "$top"; do
        if [[ -e $found/config.status ]]; then realpath "$found"; return; fi
    done
}

# What was built, put into its stage as contrib/quickstart does; prints the prefix.
# shellcheck disable=SC2030  # a subshell: build-lib.sh has names of its own
stage_of_build() (
    top=$1 ARENA_BUILD=$2
    # shellcheck source=contrib/build-lib.sh
    . "$top/contrib/build-lib.sh"
    die() { echo "private-cluster: $*" >&2; exit 3; }
    build=$2
    why=$(why_not_trusted "$build")
    [[ ! $why ]] || die "$build is not used, for others could change what is in it: $why"
    [[ -x $build/arena ]] || die "$build is configured but not built: make -C $build -j$(nproc), or contrib/quickstart"
    stage_build || die "make install into $build/stage failed: $(tail -n 5 "$build/stage.log")"
    echo "$build/stage"
)

# Where an installation has its plug-ins: systems of RPM packages have them in lib64.
plugins_of() { # PREFIX
    if [[ ! -e $1/lib/slurm-arena && -e $1/lib64/slurm-arena ]]; then echo "$1/lib64/slurm-arena"; else echo "$1/lib/slurm-arena"; fi
}

find_prefix() {
    local top built installed
    top=$(realpath "$parts/../..")
    built=$(find_build "$top")
    if [[ $built ]]; then prefix=$(stage_of_build "$top" "$built") || exit; return; fi
    for installed in /usr/local /usr; do
        if [[ -e $(plugins_of "$installed")/sched_arena.so ]]; then prefix=$installed; return; fi
    done
    die "no slurm-arena is built in $top or installed below /usr/local: contrib/quickstart builds it, or" \
        "./configure && make -j$(nproc); --prefix DIR names another, --arena off starts stock Slurm"
}

# An installation may have plug-ins for several Slurms: those of ours, in plug-ins' directories and SPANK's.
choose_plugins() {
    local all version
    all=$(plugins_of "$prefix") version=$(slurm_version)
    if [[ -e $all/$version/sched_arena.so && -e $all/${version%.*}/spank_arena.so ]]; then
        plugin_dir=$all/$version spank_dir=$all/${version%.*}
        return
    fi
    plugin_dir=$all
    local built
    built=$(for built in "$all"/*.*.*/sched_arena.so; do [[ ! -e $built ]] || basename "${built%/*}"; done | paste -sd' ')
    [[ ! $built ]] || die "slurmctld is Slurm ${version:-?}, and $all has plug-ins for $built only: configure --with-slurm-src=DIR" \
        "with its headers (contrib/get-slurm-headers), make and make install"
}

readable_by() { runuser -u "$1" -- test -r "$2"; }

# Sets prefix, plugin_dir and prolog; every file that the cluster will need is there and readable.
find_arena() {
    [[ $prefix || $plugin_dir ]] || find_prefix
    prefix=$(realpath -m "${prefix:-$plugin_dir/../..}")
    [[ $plugin_dir ]] || choose_plugins
    plugin_dir=$(realpath -m "$plugin_dir") spank_dir=$(realpath -m "${spank_dir:-$plugin_dir}")
    prolog=$prefix/libexec/slurm-arena/arena-prolog
    local file user files=("$plugin_dir"/{sched_arena,job_submit_arena}.so "$spank_dir/spank_arena.so")
    [[ $profile == off ]] || files+=("$prolog" "${prolog%/*}/arena-profiler")
    for file in "${files[@]}"; do
        [[ -e $file ]] || die "$file is missing: make install to $prefix first (configure prints which parts are off)"
        ((EUID == 0)) || continue
        for user in "$slurm_user" "$service_user"; do
            readable_by "$user" "$file" ||
                die "$file: user $user cannot read it; build and stage below a directory that others may enter"
        done
    done
}

hardware_file() {
    local file
    for file in ${prefix:+"$prefix/share/slurm-arena/hardware.yaml"} "$parts/../../etc/hardware.yaml"; do
        if [[ -r $file ]]; then echo "$file"; return; fi
    done
}

# The name of the entry that a word is a name or alias of, in any case.
entry_called() {
    awk -v word="$1" '
        { line = $0; sub(/#.*/, "", line) }
        line ~ /^  - name:/ { name = $3; if (tolower(name) == tolower(word)) { print name; exit } }
        line ~ /^    aliases:/ {
            gsub(/.*\[|\].*|"/, "", line); n = split(line, alias, / *, */)
            for (i = 1; i <= n; i++) if (tolower(alias[i]) == tolower(word)) { print name; exit }
        }' "$2"
}

# Fills hardware_of for every GPU type. A type that stands for nothing would never be offered.
choose_hardware() {
    local type file entry own=''
    file=$(hardware_file)
    [[ " ${arena_set[*]-}" != *' hardware_file='* ]] || own=yes   # it may have any entries
    [[ $hardware || $profile == off ]] || hardware=emulated-cpu
    for type in "${!hardware_of[@]}"; do
        grep -qxF "$type" <<<"$(gpu_types)" || usage_error "--hardware $type=...: no node has GPUs of type $type"
    done
    for type in $(gpu_types); do
        entry=${hardware_of[$type]:-${hardware:-$type}}
        hardware_of[$type]=$entry
        [[ $arena == on && $file && ! $arena_yaml ]] || continue
        entry=$(entry_called "$entry" "$file")
        [[ $entry || $own ]] ||
            die "no hardware entry is called ${hardware_of[$type]}; --hardware $type=NAME says which one stands for $type:" \
                "$(sed -n 's/^  - name: *//p' "$file" | paste -sd' ' | sed 's/ /, /g')"
        hardware_of[$type]=${entry:-${hardware_of[$type]}}
    done
}

# "A40 and A100-SXM-80GB"
named_hardware() {
    local type names=()
    for type in $(gpu_types); do names+=("${hardware_of[$type]}"); done
    printf '%s\n' "${names[@]-no GPU}" | sort -u | paste -sd' ' | sed 's/ / and /g'
}
