#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What a job asks for by Slurm's own options and by its Comment: it gets what stock Slurm gives a job
# of the same fixed shape, or a sentence that names the option, once, at submit where that can be known.
# Before: cp of a Comment's plan was not counted, --mem was ignored, impossible requests went round all
# offers for ever, and a pending reason said no more than that `arena explain` would say it.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena

# One type per case. part: of a partition that goes down; cons: whose nodes end up with too little.
start_arena --nodes mem:1x4,cpu8:1x4,whole:1x4,pin:1x8,main:2x4,part:1x2,cons:1x2,resv:1x2,down:1x2,spare:1x4 \
    --conf-extra "PartitionName=side Nodes=n7 State=UP MaxTime=60" \
    --conf-extra "PartitionName=lent Nodes=n9 State=UP" --conf-extra "PartitionName=broken Nodes=n10 State=UP"
refusal() { sbatch --parsable --wrap true "$@" 2>&1; }
arena_job=(--arena-model=gpt2 --arena-batch=64 --arena-launcher=env)

# ---- B4: a partition that is not there -----------------------------------------------------------
is "$(refusal -p nosuch "${arena_job[@]}")" "$(refusal -p nosuch)" "-p nosuch is refused in Slurm's own words"
like "$(refusal -p nosuch "${arena_job[@]}")" 'Invalid partition name specified' "which name the partition"
is "$(refusal -p main,nosuch "${arena_job[@]}")" "$(refusal -p main,nosuch)" "in a list of partitions, too"

# ---- B2: what no node has, said at submit ----------------------------------------------------------
like "$(refusal --arena-cpus-per-gpu=100 "${arena_job[@]}")" \
    'error: arena: --arena-cpus-per-gpu \(or --cpus-per-task\): asks for 100 CPUs for each GPU; a job of at least 1 GPU in partition main cannot have that: the most that a node has is 32 CPUs beside 8 pin' \
    "--arena-cpus-per-gpu=100 is refused by name, with what is there"
like "$(refusal --tmp=100G "${arena_job[@]}")" 'arena: --tmp: asks for 102400 MB of temporary disk on each node' "so is --tmp=100G"
like "$(refusal --tmp=100G)" 'Requested node configuration is not available' "as Slurm refuses it of an ordinary job"
like "$(refusal --mem=100G "${arena_job[@]}")" 'arena: --mem: asks for 102400 MB of memory on each node.*64000 MB beside' "so is --mem=100G"
like "$(refusal --mem-per-cpu=1G -c 100 "${arena_job[@]}")" 'arena: --arena-cpus-per-gpu \(or --cpus-per-task\)' "so is -c 100"

# ---- B4: pins that can never run -------------------------------------------------------------------
for row in "ep2|ep2 shares out experts, and gpt2 has none: give ep1" \
    "cp3|cp3 does not split the 1024 tokens of gpt2 into 6 equal pieces" \
    "tp5|tp5 does not divide the 12 heads of gpt2" \
    "pp1,dp1,tp12|pp1,dp1,tp12 takes 12 GPUs of one type, the same number on every node; a job in partition main can have at most "; do
    pin=${row%%|*} sentence=${row#*|}
    like "$(refusal --arena-plan="$pin" "${arena_job[@]}")" "arena: --arena-plan \(#ARENA plan\): $sentence" "$pin is refused at submit"
done
like "$(refusal --comment=arena:plan=ep2 "${arena_job[@]}")" 'arena: Comment=arena:plan: ep2 shares out experts' \
    "and where sbatch --comment asks for it"

# ---- the hogs ----------------------------------------------------------------------------------------
declare -A hog job
for type in pin main part cons resv down; do
    gpus=2
    [[ $type != main ]] || gpus=4
    [[ $type != pin ]] || gpus=8
    hog[$type]=$(hog $type $gpus)
done
hog[main2]=$(hog main 4)
for type in "${!hog[@]}"; do wait_for_state "${hog[$type]}" RUNNING || BAIL_OUT "${hog[$type]}"; done

# ---- B3: memory means what it means to Slurm ---------------------------------------------------------
memory_of() { job_field "$1" TRES | tr , '\n' | sed -n 's/^mem=//p'; }
ordinary=$(submit --gres=gpu:mem:2 -n 2 --mem=3G -o /dev/null "$work/trainer")
ok "an ordinary job with --mem runs" wait_for_state "$ordinary" RUNNING
job[mem]=$(train mem --mem=3G --arena-gpus=2)
ok "an Arena job with --mem runs" wait_started "${job[mem]}"
is "$(memory_of "${job[mem]}")" "$(memory_of "$ordinary")" "with the memory that the ordinary one has"
is "$(job_field "${job[mem]}" MinMemoryNode)" "$(job_field "$ordinary" MinMemoryNode)" "asked for by node"
ordinary=$(submit --gres=gpu:cpu8:2 -n 2 -c 3 --mem-per-cpu=500 -o /dev/null "$work/trainer")
ok "an ordinary job with --mem-per-cpu runs" wait_for_state "$ordinary" RUNNING
job[cpu]=$(train cpu8 -c 3 --mem-per-cpu=500 --arena-gpus=2)
ok "an Arena job with --mem-per-cpu runs" wait_started "${job[cpu]}"
is "$(memory_of "${job[cpu]}")" "$(memory_of "$ordinary")" "with the memory that the ordinary one has"
is "$(job_field "${job[cpu]}" MinMemoryCPU)" "$(job_field "$ordinary" MinMemoryCPU)" "asked for by CPU"
ordinary=$(submit --gres=gpu:whole:1 -n 1 --mem=0 -o /dev/null "$work/trainer")
ok "an ordinary job with --mem=0 runs" wait_for_state "$ordinary" RUNNING
all=$(memory_of "$ordinary")   # of the node; later releases do not say
scancel "$ordinary"
job[whole]=$(train whole --mem=0 --arena-gpus=1)
ok "an Arena job with --mem=0 runs" wait_started "${job[whole]}"
is "$(memory_of "${job[whole]}")" "$all" "with the memory that the ordinary one had"
slurm_has 23.11 || is "$all" 62.50G "which is all of the node"
like "$(arena explain "${job[mem]}" 2>&1)" 'running' "and explain knows them"

# ---- A10: a pin by Comment -----------------------------------------------------------------------------
job[pin]=$(train pin)
ok "a job waits for its type" wait_for_reason "${job[pin]}" '^(Arena: |Resources|Priority)'
record() { grep -aoE 'ARENA_RECORD=\{[^[:cntrl:]]*' "$cluster_dir/state/job_state" | grep -F "\"$1\"" | tail -n 1; }
refused=$(scontrol update JobId="${job[pin]}" Comment=arena:plan=ep2 2>&1)
like "$refused" 'Invalid argument' "a Comment that pins what cannot be is refused"
ok "with the sentence of the option in the reason" wait_for_reason "${job[pin]}" \
    '^Arena: update refused: Comment=arena:plan: ep2 shares out experts, and gpt2 has none: give ep1'
is "$(job_field "${job[pin]}" Comment)" "" "and is not taken"
not_ok "one beyond all nodes is refused, too" scontrol update JobId="${job[pin]}" Comment=arena:gpus=99
ok "and says what there is" wait_for_reason "${job[pin]}" 'Comment=arena:gpus: at least 99 GPUs of one type are asked for'
ok "a plan with cp is taken" scontrol update JobId="${job[pin]}" Comment=arena:plan=pp1,dp2,tp2,cp2
ok "and takes the refusal out of the reason" wait_until "[[ \$(job_reason ${job[pin]}) != *refused* ]]"
ok "a Comment of other words is taken" scontrol update JobId="${job[pin]}" Comment="for the paper"
let_go "${hog[pin]}"
ok "the pinned job starts" wait_started "${job[pin]}"
like "$(arena_word "${job[pin]}" plan)" '^pp1,dp2,tp2,mb[0-9]+x[0-9]+,cp2(,[a-z0-9,]+)?$' "with the plan of the earlier Comment"
is "$(last_start "${job[pin]}")" "0 8 1 8" "and all 8 GPUs that pp*dp*tp*cp makes"

job[types]=$(train main)
ok "a job of one type waits" wait_for_reason "${job[types]}" '^(Arena: |Resources|Priority)'
ok "its types can be changed" scontrol update JobId="${job[types]}" Comment=arena:types=spare
ok "and it starts on another" wait_started "${job[types]}"
like "$(arena_word "${job[types]}" grid)" 'xspare$' "as the Comment says"
let_go "${job[types]}"

# ---- B2: what becomes impossible later ---------------------------------------------------------------------
job[cons]=$(train cons)
ok "a job waits for nodes" wait_for_reason "${job[cons]}" '^(Arena: |Resources|Priority)'
ok "its disk can be changed" scontrol update JobId="${job[cons]}" MinTmpDiskNode=90000
let_go "${hog[cons]}"
ok "what no node has is the reason, by Slurm's name and the option's" wait_for_reason "${job[cons]}" 'BadConstraints.*--tmp=90000'
lines() { grep -c "JobId=${job[cons]}\b" "$cluster_dir/log/slurmctld.log"; }
before=$(lines)
ok "ten more rounds pass" wait_rounds spare
is "$(lines)" "$before" "without a line in the log"
ok "the disk is changed back" scontrol update JobId="${job[cons]}" MinTmpDiskNode=0
ok "and the job starts" wait_started "${job[cons]}"

# ---- B4: Slurm's reasons ---------------------------------------------------------------------------------
stock_reason() {   # of an ordinary job that asks for the same
    local other
    other=$(submit -o /dev/null "$@" --wrap true)
    wait_until "[[ ! \$(job_reason $other) =~ ^(None|Priority)$ ]]" >&2
    job_reason "$other"
    scancel "$other"
}
scontrol update PartitionName=side State=DOWN
job[part]=$(train part -p side)
ok "a job whose partition is down waits in Slurm's words" wait_for_reason "${job[part]}" "^$(stock_reason -p side --gres=gpu:part:1)\$"
scontrol create reservation=lend starttime=now duration=60 nodes=n9 users=root flags=ignore_jobs >/dev/null
job[resv]=$(train resv -p lent)
ok "so does one whose nodes are reserved" wait_for_reason "${job[resv]}" 'ReqNodeNotAvail, May be reserved for other job'
scontrol update NodeName=n10 State=DRAIN Reason=test
job[down]=$(train down -p broken)
ok "and one whose nodes are drained" wait_for_reason "${job[down]}" \
    'Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions'
note "an ordinary job in their place says: $(stock_reason -p lent --gres=gpu:resv:1); $(stock_reason -p broken --gres=gpu:down:1)"
scontrol update PartitionName=side State=UP
scontrol delete reservation=lend
scontrol update NodeName=n10 State=RESUME
for type in part resv down; do let_go "${hog[$type]}"; done
for type in part resv down; do ok "the job for $type starts when it can" wait_started "${job[$type]}"; done

# ---- B6: one line at submit --------------------------------------------------------------------------------
batch=64
said() {   # what it says on standard error
    { sbatch --parsable -o /dev/null --hold --wrap true --arena-model=gpt2 --arena-launcher=env --arena-batch="$batch" "$@" >"$work/stdout"; } 2>&1
}
# The line has a third of a second to find plans in, and says so where that was too short: asked again then.
said_at_leisure() {
    local line
    for _ in {1..20}; do
        line=$(said "$@")
        [[ $line != *'; best '* || $line == *'best found '* ]] || break
    done
    echo "$line"
}
like "$(said_at_leisure --arena-types=main --time=30)" \
    '^sbatch: arena: gpt2 124 M, 1,024 tokens, [a-z0-9]+; best (2x)?[1-8]xmain [0-9.]+ (ms|s|min|h) \(analytic\), [0-9,]+ iterations in 30.0 min'$'\n''sbatch: arena: plan [a-z]+[0-9][^:]*: the script reads all of it from ARENA_. ' \
    "an accepted request is answered with a line, and one of its plan"
like "$(<"$work/stdout")" '^[0-9]+$' "and standard output has the id alone"
is "$(said --quiet)" "" "which --quiet leaves out"
like "$(said_at_leisure --arena-seq-length=512 --arena-gpus=1-1)" 'gpt2 [0-9]+ M, 512 tokens.*best 1x[a-z0-9]+ ' "the job's own limits count"
like "$(said_at_leisure -p side)" 'best [12]xpart ' "and its partition's"
like "$(said_at_leisure --time=600 --arena-steps=1000000000 | tail -n 1)" \
    '^sbatch: arena: warning: 1,000,000,000 iterations take [0-9.]+ d at best, the time limit is 10.0 h$' "what cannot end in time is a warning"
like "$(batch=4194304 said_at_leisure --time=1 | tail -n 1)" \
    'warning: not even one iteration fits in the time limit of 60 s$' "so is an iteration that does not"
like "$(ARENA_CONF=/nonexistent said)" '^sbatch: arena: gpt2 124 M, 1,024 tokens, [a-z0-9]+$' "without what it needs the line says less"
like "$(<"$work/stdout")" '^[0-9]+$' "and the job is submitted all the same"
is "$(said_at_leisure | wc -l)" 2 "two lines they are"
is "$(sbatch --parsable --hold -o /dev/null --wrap true 2>&1 | grep -c arena)" 0 "of an ordinary job nothing is said"
done_testing
