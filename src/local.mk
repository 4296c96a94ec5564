# SPDX-License-Identifier: GPL-2.0-or-later
noinst_LTLIBRARIES += libarena_core.la
libarena_core_la_SOURCES = \
	src/base/result.h src/base/file_descriptor.h src/base/signals.h src/base/signals.cc \
	src/core/values.h src/core/values.cc src/core/values_json.cc src/core/snapshot_json.cc \
	src/core/model_fields.h src/core/model_fields.cc \
	src/base/json.h src/base/json.cc src/base/json_place.h src/base/json_place.cc \
	src/core/profile.h src/core/profile.cc src/core/profile_json.cc \
	src/core/comm_table.h src/core/comm_table.cc \
	src/base/count_text.h src/base/count_text.cc \
	src/request/launcher_features.h src/request/launcher_features.cc \
	src/request/launcher_table.h src/request/launcher_table.cc \
	src/base/hostlist.h src/base/hostlist.cc \
	src/request/launchers.h src/request/launchers.cc \
	src/core/observation.h src/core/observation.cc \
	src/request/request.h src/request/request.cc src/request/directives.cc \
	src/site/plugin_dir.h src/site/plugin_dir.cc \
	src/site/slurm_conf.h src/site/slurm_conf.cc \
	src/site/plugin_version.h src/site/plugin_version.cc \
	src/base/trusted_path.h src/base/trusted_path.cc \
	src/site/gpu_facts.h src/site/gpu_facts.cc \
	src/base/text.h src/base/text.cc src/base/files.cc src/base/user_file.h \
	src/base/yaml.h src/base/yaml.cc \
	src/site/config.h src/site/config.cc src/site/config_sum.h \
	src/policy/policy.h src/policy/policy.cc src/policy/replay.h src/policy/replay.cc \
	src/policy/fifo.h src/policy/fifo.cc src/policy/places.h src/policy/work_left.h \
	src/policy/forecast.h src/policy/forecast.cc \
	src/policy/problem.h src/policy/problem.cc src/policy/packing.h src/policy/packing.cc \
	src/policy/arena/room.h src/policy/arena/room.cc src/policy/arena/exhaustive.h src/policy/arena/exhaustive.cc \
	src/policy/arena/seating.h src/policy/arena/seating.cc \
	src/policy/reservation.h src/policy/reservation.cc \
	src/policy/arena/long_queue.h src/policy/arena/long_queue.cc \
	src/policy/knapsack.h src/policy/knapsack.cc src/policy/arena/arena_policy.h src/policy/arena/arena_policy.cc \
	src/policy/arena/appointed.h src/policy/arena/foresight.h src/policy/arena/foresight.cc \
	src/baselines/fcfs.h src/baselines/fcfs.cc \
	src/baselines/backfill.h src/baselines/backfill.cc \
	src/baselines/allocation.h src/baselines/allocation.cc \
	src/baselines/elasticflow.h src/baselines/elasticflow.cc \
	src/baselines/gavel.h src/baselines/gavel.cc \
	src/baselines/sia.h src/baselines/sia.cc \
	src/baselines/gandiva.h src/baselines/gandiva.cc \
	src/baselines/arena_paper.h src/baselines/arena_paper.cc \
	src/store/store.h src/store/sql.h src/store/open.h src/store/open.cc src/store/rows.h src/store/rows.cc \
	src/store/recognise.h src/store/recognise.cc \
	src/store/verify.h src/store/verify.cc src/store/store.cc src/store/spool.cc \
	# end
libarena_core_la_LIBADD = $(FMT_LIBS) $(YAML_LIBS) $(SQLITE_LIBS)

# Compiled in, in this order.
launcher_tables = \
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
	$(AM_V_GEN)$(MKDIR_P) src/core && \
	for table in $(launcher_tables); do \
	    name=$${table##*/} && printf '{"%s", R"arena(' "$${name%.table}" && \
	    cat "$(srcdir)/$$table" && printf ')arena"},\n' || exit; \
	done >$@.new && mv $@.new $@
src/request/launchers.lo: src/request/launcher_tables.inc
CLEANFILES += src/request/launcher_tables.inc

# ---- the simulator: policies on traces ----------------------------------------------------------
noinst_LTLIBRARIES += libarena_sim.la
libarena_sim_la_SOURCES = \
	src/base/csv.h src/base/csv.cc \
	src/sim/inputs.h src/sim/inputs.cc \
	src/sim/workload.h src/sim/workload.cc \
	src/sim/random.h src/sim/generate.h src/sim/generate.cc \
	src/sim/metrics.h src/sim/metrics.cc \
	src/sim/page.h src/sim/page_parts.h src/sim/page.cc src/sim/page_charts.cc src/sim/page_gantt.cc \
	src/sim/lower_bound.h src/sim/lower_bound.cc \
	src/sim/simulator.h src/sim/simulator.cc \
	# end
libarena_sim_la_LIBADD = libarena_core.la

# ---- the arena command -----------------------------------------------------------------------
bin_PROGRAMS += arena arena-args
arena_args_SOURCES = cli/arena_args.cc
arena_args_LDADD = libarena_core.la
arena_SOURCES = \
	cli/common/cli.h cli/common/common.cc cli/main.cc \
	cli/common/ask.h cli/common/ask.cc \
	cli/cluster/config_command.cc \
	cli/doctor/doctor.h cli/doctor/doctor_parts.h cli/doctor/doctor.cc cli/doctor/doctor_slurm.cc cli/doctor/doctor_prolog.cc \
	cli/doctor/doctor_devices.cc cli/doctor/doctor_accounts.cc cli/doctor/doctor_spank.cc cli/doctor/doctor_files.cc cli/doctor/doctor_nodes.cc cli/doctor/doctor_command.cc \
	cli/planning/evaluate_command.cc \
	cli/cluster/explain_command.cc cli/cluster/queue_command.cc \
	cli/planning/measure_command.cc \
	cli/planning/models_command.h cli/planning/models_command.cc cli/common/wrap.h \
	cli/cluster/report_command.cc \
	cli/planning/plan_input.h cli/planning/plan_input.cc cli/planning/plan_store.h cli/planning/plan_store.cc cli/planning/plan_command.cc \
	cli/planning/site_tables.h cli/planning/site_tables.cc \
	cli/cluster/profile_command.cc cli/cluster/profile_run.h cli/cluster/profile_run.cc \
	cli/planning/planned_throughputs.h cli/planning/planned_throughputs.cc \
	cli/simulation/simulate_input.h cli/simulation/simulate_input.cc cli/simulation/simulate_command.cc \
	cli/simulation/trace_command.cc \
	cli/simulation/snapshot_command.cc \
	# end
arena_CPPFLAGS = $(AM_CPPFLAGS) -DARENA_PLUGINDIR='"$(pkglibdir)"'
arena_LDADD = libarena_sim.la libarena_planner.la libarena_core.la
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = contrib/completion/arena
