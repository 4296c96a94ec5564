# SPDX-License-Identifier: GPL-2.0-or-later
# A library for each room (tests/rooms), from the ground up; ROOM_libs is what links with it: itself and all below.
noinst_LTLIBRARIES += libarena_base.la
base_sources = \
	src/base/count_text.h src/base/count_text.cc \
	src/base/csv.h src/base/csv.cc \
	src/base/file_descriptor.h \
	src/base/files.cc \
	src/base/hash.h \
	src/base/hostlist.h src/base/hostlist.cc \
	src/base/json.h src/base/json.cc \
	src/base/json_place.h src/base/json_place.cc \
	src/base/names.h \
	src/base/result.h \
	src/base/signals.h src/base/signals.cc \
	src/base/statistics.h \
	src/base/text.h src/base/text.cc \
	src/base/trusted_path.h src/base/trusted_path.cc \
	src/base/user_file.h \
	src/base/yaml.h src/base/yaml.cc \
	# end
libarena_base_la_CPPFLAGS = $(AM_CPPFLAGS) $(NETTLE_CFLAGS)
base_libs = libarena_ipc.la libarena_base.la $(FMT_LIBS) $(YAML_LIBS) $(NETTLE_LIBS)

noinst_LTLIBRARIES += libarena_ipc.la
ipc_sources = \
	src/ipc/child.h src/ipc/child.cc \
	src/ipc/incoming.h src/ipc/incoming.cc \
	# end

noinst_LTLIBRARIES += libarena_html.la
libarena_html_la_SOURCES = \
	src/html/chart.h src/html/chart.cc \
	src/html/document.h src/html/document.cc \
	# end
libarena_html_la_CPPFLAGS = $(AM_CPPFLAGS) $(NETTLE_CFLAGS)
html_libs = libarena_html.la $(base_libs)

noinst_LTLIBRARIES += libarena_core.la
core_sources = \
	src/core/cluster.h \
	src/core/cluster_json.cc \
	src/core/comm_table.h src/core/comm_table.cc \
	src/core/decision.h src/core/decision.cc \
	src/core/hardware.h \
	src/core/limits.h src/core/limits.cc \
	src/core/model.h src/core/model.cc \
	src/core/model_fields.h src/core/model_fields.cc \
	src/core/observation.h src/core/observation.cc \
	src/core/offer.h src/core/offer.cc \
	src/core/op_key.cc \
	src/core/plan.h src/core/plan.cc \
	src/core/profile.h src/core/profile.cc \
	src/core/profile_json.cc \
	src/core/values_json.h src/core/values_json.cc \
	# end
core_libs = libarena_core.la $(base_libs)

noinst_LTLIBRARIES += libarena_reports.la
reports_sources = \
	src/reports/next_plan.h src/reports/next_plan.cc \
	src/reports/quarantine.h src/reports/quarantine.cc \
	src/reports/rate_limit.h src/reports/rate_limit.cc \
	src/reports/slow_report.h src/reports/slow_report.cc \
	src/reports/slowdown_mode.h \
	src/reports/watch_preload.h src/reports/watch_preload.cc \
	# end
reports_libs = libarena_reports.la $(core_libs)

noinst_LTLIBRARIES += libarena_site.la
site_sources = \
	src/site/config.h src/site/config.cc \
	src/site/leave_signals.h \
	src/site/config_place.h \
	src/site/config_sum.h \
	src/site/gpu_facts.h src/site/gpu_facts.cc \
	src/site/gres_conf.h src/site/gres_conf.cc \
	src/site/kept_config.h src/site/kept_config.cc \
	src/site/model_rules.h src/site/model_rules.cc \
	src/site/plugin_dir.h src/site/plugin_dir.cc \
	src/site/plugin_version.h src/site/plugin_version.cc \
	src/site/slurm_conf.h src/site/slurm_conf.cc \
	# end
site_libs = libarena_site.la $(reports_libs)

noinst_LTLIBRARIES += libarena_request.la
request_sources = \
	src/request/directives.cc \
	src/request/launcher_features.h src/request/launcher_features.cc \
	src/request/launcher_table.h src/request/launcher_table.cc \
	src/request/launchers.h src/request/launchers.cc \
	src/request/options.h src/request/options.cc \
	src/request/rendezvous.h src/request/rendezvous.cc \
	src/request/resolver.h src/request/resolver.cc \
	src/request/request.h src/request/request.cc \
	src/request/script_programs.h src/request/script_programs.cc \
	src/request/script_training.h src/request/script_training.cc \
	# end
request_libs = libarena_request.la $(site_libs)

# Compiled in, in this order.
launcher_tables = \
	src/request/launchers/ddp.table \
	src/request/launchers/env.table \
	src/request/launchers/torchrun.table \
	src/request/launchers/arena-train.table \
	src/request/launchers/megatron.table \
	src/request/launchers/megatron-deepspeed.table \
	src/request/launchers/deepspeed.table \
	src/request/launchers/fsdp.table \
	src/request/launchers/accelerate.table \
	src/request/launchers/hf-trainer.table \
	src/request/launchers/lightning.table \
	src/request/launchers/nemo.table \
	src/request/launchers/torchtitan.table \
	# end
EXTRA_DIST += $(launcher_tables)
src/request/launcher_tables.inc: $(launcher_tables) src/local.mk
	$(AM_V_GEN)$(MKDIR_P) src/request && \
	for table in $(launcher_tables); do \
	    name=$${table##*/} && printf '{"%s", R"arena(' "$${name%.table}" && \
	    cat "$(srcdir)/$$table" && printf ')arena"},\n' || exit; \
	done >$@.new && mv $@.new $@
src/request/launchers.lo unity/request.lo: src/request/launcher_tables.inc
CLEANFILES += src/request/launcher_tables.inc

noinst_LTLIBRARIES += libarena_slowdown.la
slowdown_sources = \
	src/slowdown/calls.h \
	src/slowdown/cause.h \
	src/slowdown/change_points.h src/slowdown/change_points.cc \
	src/slowdown/event.h src/slowdown/event.cc \
	src/slowdown/locate.h src/slowdown/locate.cc \
	src/slowdown/micro_batches.h src/slowdown/micro_batches.cc \
	src/slowdown/op.h \
	src/slowdown/passes.h src/slowdown/passes.cc \
	src/slowdown/period.h src/slowdown/period.cc \
	src/slowdown/roles.h src/slowdown/roles.cc \
	src/slowdown/ski_rental.h src/slowdown/ski_rental.cc \
	src/slowdown/suspects.h src/slowdown/suspects.cc \
	src/slowdown/verify.h src/slowdown/verify.cc \
	src/slowdown/waits.h src/slowdown/waits.cc \
	# end
slowdown_libs = libarena_slowdown.la $(base_libs)

# What a node's tools say is wrong with it, by one table.
noinst_LTLIBRARIES += libarena_health.la
health_sources = \
	src/health/finding.h src/health/finding.cc \
	src/health/kernel_time.cc \
	src/health/merge.cc \
	src/health/reader.h src/health/reader.cc \
	src/health/reader_tables.cc \
	src/health/signs.h src/health/signs.cc \
	# end

# Checks of GPUs: what is measured and what follows from it.
noinst_LTLIBRARIES += libarena_checks.la
checks_sources = \
	src/checks/judge.h src/checks/judge.cc \
	src/checks/node_check.h src/checks/node_check_json.cc \
	# end
checks_libs = libarena_checks.la libarena_slowdown.la $(request_libs)

noinst_LTLIBRARIES += libarena_store.la
store_sources = \
	src/store/checks.cc \
	src/store/comm.cc \
	src/store/open.h src/store/open.cc \
	src/store/recognise.h src/store/recognise.cc \
	src/store/reports.cc \
	src/store/rows.h src/store/rows.cc \
	src/store/spool.cc \
	src/store/sql.h \
	src/store/state_file.h src/store/state_file.cc \
	src/store/store.h src/store/store.cc \
	src/store/verify.h src/store/verify.cc \
	# end
store_libs = libarena_store.la $(checks_libs) $(SQLITE_LIBS)

noinst_LTLIBRARIES += libarena_policy.la
policy_sources = \
	src/policy/fifo.h src/policy/fifo.cc \
	src/policy/forecast.h src/policy/forecast.cc \
	src/policy/holds.h src/policy/holds.cc \
	src/policy/knapsack.h src/policy/knapsack.cc \
	src/policy/fabric.h src/policy/fabric.cc \
	src/policy/packing.h src/policy/packing.cc src/policy/packing_search.cc \
	src/policy/places.h \
	src/policy/policy.h src/policy/policy.cc \
	src/policy/problem.h src/policy/problem.cc \
	src/policy/replay.h src/policy/replay.cc \
	src/policy/reservation.h src/policy/reservation.cc \
	src/policy/why_chosen.h src/policy/why_chosen.cc \
	src/policy/work_left.h \
	# end
policy_libs = libarena_policy.la $(store_libs)

noinst_LTLIBRARIES += libarena_policy_loans.la
policy_loans_sources = \
	src/policy/loans/demand.h src/policy/loans/demand.cc \
	src/policy/loans/lease.h src/policy/loans/lease.cc \
	src/policy/loans/ledger.h src/policy/loans/ledger.cc \
	src/policy/loans/reclaim.h src/policy/loans/reclaim.cc \
	src/policy/loans/reclaim_bound.cc \
	src/policy/loans/reclaim_moves.h src/policy/loans/reclaim_moves.cc \
	src/policy/loans/reclaim_search.h src/policy/loans/reclaim_search.cc \
	src/policy/loans/reclaim_state.h src/policy/loans/reclaim_state.cc \
	# end
policy_loans_libs = libarena_policy_loans.la $(policy_libs)

noinst_LTLIBRARIES += libarena_policy_order.la
policy_order_sources = \
	src/policy/order/availability.h src/policy/order/availability.cc \
	src/policy/order/keeping.h src/policy/order/keeping.cc \
	src/policy/order/promises.h src/policy/order/promises.cc \
	src/policy/order/steps.h src/policy/order/steps.cc \
	src/policy/order/turn.h src/policy/order/turn.cc \
	# end
policy_order_libs = libarena_policy_order.la $(policy_loans_libs)

noinst_LTLIBRARIES += libarena_policy_aryl.la
policy_aryl_sources = \
	src/policy/aryl/aryl_policy.h src/policy/aryl/aryl_policy.cc \
	src/policy/aryl/demands.h src/policy/aryl/demands.cc \
	src/policy/aryl/two_phase.h src/policy/aryl/two_phase.cc \
	# end
policy_aryl_libs = libarena_policy_aryl.la $(policy_order_libs)

noinst_LTLIBRARIES += libarena_policy_arena.la
policy_arena_sources = \
	src/policy/arena/appointed.h \
	src/policy/arena/arena_policy.h src/policy/arena/arena_policy.cc \
	src/policy/arena/arena_rules.h \
	src/policy/arena/assignment.h src/policy/arena/assignment.cc \
	src/policy/arena/choose.h src/policy/arena/choose.cc \
	src/policy/arena/displacement.h src/policy/arena/displacement.cc \
	src/policy/arena/exhaustive.h src/policy/arena/exhaustive.cc \
	src/policy/arena/foresight.h src/policy/arena/foresight.cc \
	src/policy/arena/long_queue.h src/policy/arena/long_queue.cc \
	src/policy/arena/place.h src/policy/arena/place.cc \
	src/policy/arena/price.h src/policy/arena/price.cc \
	src/policy/arena/slurm_policies.h src/policy/arena/slurm_policies.cc \
	src/policy/arena/worth.h src/policy/arena/worth.cc \
	# end
policy_arena_libs = libarena_policy_arena.la $(policy_aryl_libs)

noinst_LTLIBRARIES += libarena_baselines.la
baselines_sources = \
	src/baselines/allocation.h src/baselines/allocation.cc \
	src/baselines/arena_beside_slurm.h src/baselines/arena_beside_slurm.cc \
	src/baselines/arena_paper.h src/baselines/arena_paper.cc \
	src/baselines/backfill.h src/baselines/backfill.cc \
	src/baselines/elasticflow.h src/baselines/elasticflow.cc \
	src/baselines/fcfs.h src/baselines/fcfs.cc \
	src/baselines/gandiva.h src/baselines/gandiva.cc \
	src/baselines/gavel.h src/baselines/gavel.cc \
	src/baselines/registry.h src/baselines/registry.cc \
	src/baselines/sia.h src/baselines/sia.cc \
	src/baselines/slurm_backfill.h src/baselines/slurm_backfill.cc \
	# end
baselines_libs = libarena_baselines.la $(policy_arena_libs)

noinst_LTLIBRARIES += libarena_sim_loans.la
sim_loans_sources = \
	src/sim/loans/inference.h src/sim/loans/inference.cc \
	src/sim/loans/lending.h src/sim/loans/lending.cc \
	src/sim/loans/loan_metrics.h \
	# end
sim_loans_libs = libarena_sim_loans.la $(baselines_libs)

noinst_LTLIBRARIES += libarena_sim_slow.la
sim_slow_sources = \
	src/sim/slow/slow_cluster.h src/sim/slow/slow_cluster.cc \
	src/sim/slow/slow_effect.h src/sim/slow/slow_effect.cc \
	src/sim/slow/slow_watch.h \
	src/sim/slow/slowdowns.h src/sim/slow/slowdowns.cc \
	# end

noinst_LTLIBRARIES += libarena_sim_power.la
libarena_sim_power_la_SOURCES = \
	src/sim/power/power.h src/sim/power/power.cc \
	# end

noinst_LTLIBRARIES += libarena_sim.la
sim_sources = \
	src/sim/generate.h src/sim/generate.cc \
	src/sim/generate_inference.h src/sim/generate_inference.cc \
	src/sim/inputs.h src/sim/inputs.cc \
	src/sim/lower_bound.h src/sim/lower_bound.cc \
	src/sim/metrics.h src/sim/metrics.cc \
	src/sim/page.h src/sim/page.cc \
	src/sim/page_charts.cc \
	src/sim/page_gantt.cc \
	src/sim/page_loans.cc \
	src/sim/page_parts.h \
	src/sim/random.h \
	src/sim/simulation.h \
	src/sim/simulator.h src/sim/simulator.cc \
	src/sim/simulator_account.cc \
	src/sim/simulator_apply.cc \
	src/sim/simulator_slow.cc \
	src/sim/workload.h src/sim/workload.cc \
	# end
sim_libs = libarena_sim.la libarena_html.la libarena_sim_power.la libarena_sim_slow.la libarena_slowdown.la $(sim_loans_libs)

noinst_LTLIBRARIES += libarena_sim_history.la
sim_history_sources = \
	src/sim/history/import.h src/sim/history/import.cc \
	src/sim/history/report.h src/sim/history/report.cc \
	src/sim/history/sacct.h src/sim/history/sacct.cc \
	# end
sim_history_libs = libarena_sim_history.la $(sim_libs)

noinst_LTLIBRARIES += libarena_array.la
array_sources = \
	src/array/bounds.h src/array/bounds.cc \
	src/array/instance.h src/array/instance.cc \
	src/array/line.h \
	src/array/list_rule.h src/array/list_rule.cc \
	src/array/memory.h src/array/memory.cc \
	src/array/schedule.h src/array/schedule.cc \
	# end
array_libs = libarena_array.la $(base_libs)

noinst_LTLIBRARIES += libarena_array_search.la
array_search_sources = \
	src/array/search/deadline.h \
	src/array/search/exact.h src/array/search/exact.cc \
	src/array/search/exact_layer.h src/array/search/exact_layer.cc \
	src/array/search/exact_problem.h src/array/search/exact_problem.cc \
	src/array/search/genetic.h src/array/search/genetic.cc \
	src/array/search/polish.h src/array/search/polish.cc \
	src/array/search/prefetch.h src/array/search/prefetch.cc \
	src/array/search/solve.h src/array/search/solve.cc \
	# end
array_search_libs = libarena_array_search.la $(array_libs)
