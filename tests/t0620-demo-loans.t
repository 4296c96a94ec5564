#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# contrib/demo-loans: half a minute's day on a real cluster ends well, with a page of everything; what is no option is
# refused; its judge calls a late return late, and its curve is a day.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
demo=$ARENA_SRCDIR/contrib/demo-loans
files=$demo.d
make_work

# ---- its parts ---------------------------------------------------------------------------------------
curve=$(awk -v seconds=48 -v low=1 -v high=5 -v seed=3 -f "$files/curve.awk")
is "$(wc -l <<<"$curve")" 96 "the curve has two points a second"
is "$(awk '$2 < 7 || $2 >= 21 { print $3 }' <<<"$curve" | sort -u)" 1 "it is low at night"
is "$(awk '{ print $3 }' <<<"$curve" | sort -n | tail -n 1)" 5 "and high by day"
is "$curve" "$(awk -v seconds=48 -v low=1 -v high=5 -v seed=3 -f "$files/curve.awk")" "the same again by the same seed"
is "$(printf '%s\n' '1000 lease n6 L3 lent 0' '2000 lease n6 L3 returning 9000' '2000 lease n7 L4 returning 9000' \
    '9900 lease n7 L4 returning 9000' '11000 lease n6 L3 returning 9000' | awk -f "$files/returns.awk" | paste -sd';')" \
    'n6 L3 2.0 11.0 9.0 LATE;n7 L4 2.0 9.9 9.0 in time' "a node that is still away after its deadline is late"
mkdir "$work/run" "$work/bin"
printf '#!/bin/sh\necho slurm-wlm 22.05.8\n' >"$work/bin/sinfo" && chmod 755 "$work/bin/sinfo"
printf '%s\n' '0 wanted 1' '0 run n1 5 train train-1' '0 run n6 7 loan train-2' '0 lease n6 L3 lent 0' \
    '500 wanted 2' '500 run n1 5 train train-1' '500 run n6 7 loan train-2' '500 lease n6 L3 returning 3000' \
    '1000 wanted 2' '1000 run n6 9 infer replica-2' >"$work/run/seen"
echo 'a < b' >"$work/run/summary.txt"
page=$(PATH=$work/bin:$PATH "$files/page" "$work/run" 1 4 0)
is "$(grep -oE 'class="(infer|train|lent|leased|returning)"><title>[^<]*' <<<"$page" | sed 's/class=//; s/><title>/ /' | sort)" \
    '"infer" replica-2, 1.0 s to 1.0 s
"leased" lease L3, 0.0 s to 0.5 s
"lent" train-2, 0.0 s to 1.0 s
"returning" lease L3, 0.5 s to 1.0 s
"train" train-1, 0.0 s to 1.0 s' "the page has a bar for each job, lease and return"
like "$page" 'a &lt; b' "text is escaped"

# ---- options -------------------------------------------------------------------------------------------
for words in --seconds '--seconds 5' '--seconds x' '--loan maybe' '--seed -1' '--deadline 0' now; do
    # shellcheck disable=SC2086  # words
    out=$("$demo" $words 2>&1 </dev/null)
    is $? 2 "demo-loans $words is refused"
    like "$out" '^usage: contrib/demo-loans' "with its usage"
done

# ---- a day ---------------------------------------------------------------------------------------------
need_arena
# It would build what this build directory lacks; here nothing is.
out=$(TMPDIR=$work timeout 900 "$demo" --no-install --build "$ARENA_BUILDDIR" --seconds 30 --deadline 30 --limit 300 --report "$work/page.html" 2>&1 </dev/null)
is $? 0 "a day of half a minute ends well" || diag "$(tail -n 40 <<<"$out")"
like "$out" 'demo-loans: every job COMPLETED and every node was back in time' "and says so"
like "$out" 'returns +[1-9][0-9]*, 0 late' "nodes were lent and came back"
like "$out" 'Nodes are lent by inference.s own demand' "arena loan list is shown"
page=$(cat "$work/page.html")
for kind in infer train lent leased returning; do like "$page" "class=\"$kind\"" "the page has bars of $kind"; done
is "$(find "$work" -maxdepth 1 -name "arena-demo-loans.*")" "" "nothing is left behind"
done_testing
