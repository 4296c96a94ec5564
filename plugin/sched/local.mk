# SPDX-License-Identifier: GPL-2.0-or-later
# The scheduler: its logic is a library without Slurm, so that unit tests drive it with a scripted host.
noinst_LTLIBRARIES += libarena_sched_logic.la
sched_host_sources = \
	plugin/sched/host/arrays.h \
	plugin/sched/host/carrier_time.h plugin/sched/host/carrier_time.cc \
	plugin/sched/host/classify.cc \
	plugin/sched/host/end_comment.h \
	plugin/sched/host/excludes.h plugin/sched/host/excludes.cc \
	plugin/sched/host/host.h \
	plugin/sched/host/loans.h \
	plugin/sched/host/move_end.h plugin/sched/host/move_end.cc \
	plugin/sched/host/nonce.h \
	plugin/sched/host/one_word.h \
	plugin/sched/host/ordinary.h plugin/sched/host/ordinary.cc \
	plugin/sched/host/pool_counts.h \
	plugin/sched/host/refusals.h plugin/sched/host/refusals.cc \
	plugin/sched/host/segments.h \
	plugin/sched/nodes/avoidance.h plugin/sched/nodes/avoidance.cc \
	plugin/sched/nodes/boot_book.h plugin/sched/nodes/boot_book.cc \
	plugin/sched/nodes/boot_file.h plugin/sched/nodes/boot_file.cc \
	plugin/sched/nodes/node_book.h plugin/sched/nodes/node_book.cc \
	plugin/sched/nodes/node_extra.h plugin/sched/nodes/node_extra.cc \
	plugin/sched/nodes/slow_fact.h plugin/sched/nodes/slow_fact.cc \
	plugin/sched/nodes/slow_links.h plugin/sched/nodes/slow_links.cc \
	plugin/sched/nodes/slow_nodes.h plugin/sched/nodes/slow_nodes.cc \
	plugin/sched/slowdown/slowdown_book.h plugin/sched/slowdown/slowdown_book.cc \
	# end
sched_loans_sources = \
	plugin/sched/loans/lending_desk.h plugin/sched/loans/lending_desk.cc \
	plugin/sched/loans/loan_book.h plugin/sched/loans/loan_book.cc \
	plugin/sched/loans/loan_leases.cc \
	plugin/sched/loans/loan_net.h plugin/sched/loans/loan_net.cc \
	plugin/sched/loans/loan_report.h plugin/sched/loans/loan_report.cc \
	plugin/sched/loans/loan_steps.h plugin/sched/loans/loan_steps.cc \
	plugin/sched/loans/loan_view.h plugin/sched/loans/loan_view.cc \
	plugin/sched/loans/loan_words.h plugin/sched/loans/loan_words.cc \
	plugin/sched/arrays/array_book.h plugin/sched/arrays/array_book.cc \
	plugin/sched/arrays/array_report.h plugin/sched/arrays/array_report.cc \
	plugin/sched/arrays/array_tasks.h plugin/sched/arrays/array_tasks.cc \
	plugin/sched/arrays/carrier_words.h plugin/sched/arrays/carrier_words.cc \
	# end
sched_profiles_sources = \
	plugin/sched/profiles/carrier_watch.h plugin/sched/profiles/carrier_watch.cc \
	plugin/sched/profiles/measurements.h plugin/sched/profiles/measurements.cc \
	plugin/sched/profiles/profile_book.h plugin/sched/profiles/profile_book.cc \
	plugin/sched/profiles/profile_turns.h plugin/sched/profiles/profile_turns.cc \
	plugin/sched/profiles/run_machine.h plugin/sched/profiles/run_machine.cc \
	plugin/sched/profiles/run_place.h plugin/sched/profiles/run_place.cc \
	plugin/sched/profiles/spool_reader.h plugin/sched/profiles/spool_reader.cc \
	plugin/sched/checks/check_book.h plugin/sched/checks/check_book.cc \
	plugin/sched/checks/check_start.cc \
	# end
sched_plans_sources = \
	plugin/sched/plans/memory_room.h plugin/sched/plans/memory_room.cc \
	plugin/sched/plans/offer_book.h plugin/sched/plans/offer_book.cc \
	plugin/sched/plans/plan_desk.h plugin/sched/plans/plan_desk.cc \
	plugin/sched/plans/plan_turns.h plugin/sched/plans/plan_turns.cc \
	plugin/sched/belief/belief.h plugin/sched/belief/belief.cc \
	plugin/sched/history/histogram.h \
	plugin/sched/history/history_file.h plugin/sched/history/history_file.cc \
	plugin/sched/history/job_account.h plugin/sched/history/job_account.cc \
	plugin/sched/history/job_history.h plugin/sched/history/job_history.cc \
	plugin/sched/history/line_file.h plugin/sched/history/line_file.cc \
	plugin/sched/history/past_use.h plugin/sched/history/past_use.cc \
	plugin/sched/promises/promise_file.h plugin/sched/promises/promise_file.cc \
	plugin/sched/promises/promise_watch.h plugin/sched/promises/promise_watch.cc \
	plugin/sched/promises/promise_words.h plugin/sched/promises/promise_words.cc \
	plugin/sched/live/live_json.h plugin/sched/live/live_json.cc \
	plugin/sched/socket/socket_clients.h plugin/sched/socket/socket_clients.cc \
	plugin/sched/socket/socket_server.h plugin/sched/socket/socket_server.cc \
	plugin/sched/socket/verbs.h plugin/sched/socket/verbs.cc \
	# end
sched_round_sources = \
	plugin/sched/round/apply.cc \
	plugin/sched/round/array_moves.cc \
	plugin/sched/round/blocked_offers.h plugin/sched/round/blocked_offers.cc \
	plugin/sched/round/books.h plugin/sched/round/books.cc \
	plugin/sched/round/decide.cc \
	plugin/sched/round/explain.cc \
	plugin/sched/round/intake.cc \
	plugin/sched/round/launch.h plugin/sched/round/launch.cc \
	plugin/sched/round/queue.h plugin/sched/round/queue.cc \
	plugin/sched/round/report.h plugin/sched/round/report.cc \
	plugin/sched/round/request_cache.h plugin/sched/round/request_cache.cc \
	plugin/sched/round/round.h \
	plugin/sched/round/running.h plugin/sched/round/running.cc \
	plugin/sched/round/scheduler.h plugin/sched/round/scheduler.cc \
	plugin/sched/round/shares.h plugin/sched/round/shares.cc \
	plugin/sched/round/stages.h \
	plugin/sched/observe/clock.cc \
	plugin/sched/observe/diary.h plugin/sched/observe/diary.cc \
	plugin/sched/observe/imagine.cc \
	plugin/sched/observe/let_go.h plugin/sched/observe/let_go.cc \
	plugin/sched/observe/observer.h plugin/sched/observe/observer.cc \
	plugin/sched/observe/observing_host.h plugin/sched/observe/observing_host.cc \
	plugin/sched/observe/ordinary_past.h plugin/sched/observe/ordinary_past.cc \
	plugin/sched/observe/shadow.h plugin/sched/observe/shadow.cc \
	# end

if HAVE_SLURM_SRC
slurmplugin_LTLIBRARIES += sched_arena.la
endif
sched_arena_sources = \
	plugin/sched/slurm/sched_arena.cc \
	plugin/sched/slurm/slurm_util.h plugin/sched/slurm/slurm_util.cc \
	plugin/sched/slurm/host_slurm.h plugin/sched/slurm/host_slurm_carrier.cc \
	plugin/sched/slurm/host_slurm_read.h plugin/sched/slurm/host_slurm_read.cc \
	plugin/sched/slurm/host_slurm_tables.h plugin/sched/slurm/host_slurm_tables.cc \
	plugin/sched/slurm/host_slurm_partitions.h plugin/sched/slurm/host_slurm_partitions.cc \
	plugin/sched/slurm/host_slurm_nodes.h plugin/sched/slurm/host_slurm_nodes.cc \
	plugin/sched/slurm/host_slurm_apply.h plugin/sched/slurm/host_slurm_apply.cc \
	plugin/sched/slurm/host_slurm_survey.cc plugin/sched/slurm/host_slurm_checks.cc \
	plugin/sched/host/fingerprint.h \
	plugin/sched/slurm/host_slurm_facts.h plugin/sched/slurm/host_slurm_facts.cc \
	plugin/sched/slurm/host_slurm_launch.h plugin/sched/slurm/host_slurm_launch.cc \
	plugin/sched/slurm/host_slurm_loans.h plugin/sched/slurm/host_slurm_loans.cc \
	plugin/sched/slurm/host_slurm_arrays.h plugin/sched/slurm/host_slurm_arrays.cc \
	# end
sched_arena_la_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_INTERNAL_CPPFLAGS)
sched_arena_la_LIBADD = libarena_sched_logic.la
sched_arena_la_DEPENDENCIES = libarena_sched_logic.la libarena_slurm.la
sched_arena_la_LDFLAGS = $(ARENA_PLUGIN_LDFLAGS) -Wl,-rpath,'$$ORIGIN/..'

# Heterogeneous jobs are refused unless SchedulerType is literally sched/backfill: for sites that have
# them, the same plug-in under that name in a directory to be put in front of PluginDir (sched_arena(8)).
if HAVE_SLURM_SRC
backfill_link = install-as-backfill
backfill_unlink = uninstall-as-backfill
linked_plugins = sched_arena.so job_submit_arena.so as-backfill
endif
.PHONY: install-as-backfill uninstall-as-backfill
install-as-backfill:
	$(MKDIR_P) '$(DESTDIR)$(slurmplugindir)/as-backfill'
	cd '$(DESTDIR)$(slurmplugindir)/as-backfill' && rm -f sched_backfill.so && \
	  $(LN_S) ../sched_arena.so sched_backfill.so
uninstall-as-backfill:
	rm -f '$(DESTDIR)$(slurmplugindir)/as-backfill/sched_backfill.so'
	-rmdir '$(DESTDIR)$(slurmplugindir)/as-backfill'
