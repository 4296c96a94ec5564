# SPDX-License-Identifier: GPL-2.0-or-later
# How the lists X_sources of the local.mk become objects: a list as one translation unit, unity/X.cc, which includes its
# sources, for most of a compilation is the headers; or each source by itself (--disable-unity), for who changes them.
# Lists of their own, compiled file by file: what is measured (profiler/cpu), CUDA, and what is preloaded.
if UNITY
nodist_libarena_base_la_SOURCES = unity/base.cc
nodist_libarena_ipc_la_SOURCES = unity/ipc.cc
nodist_libarena_core_la_SOURCES = unity/core.cc
nodist_libarena_reports_la_SOURCES = unity/reports.cc
nodist_libarena_site_la_SOURCES = unity/site.cc
nodist_libarena_request_la_SOURCES = unity/request.cc
nodist_libarena_slowdown_la_SOURCES = unity/slowdown.cc
nodist_libarena_health_la_SOURCES = unity/health.cc
nodist_libarena_checks_la_SOURCES = unity/checks.cc
nodist_libarena_store_la_SOURCES = unity/store.cc
nodist_libarena_policy_la_SOURCES = unity/policy.cc
nodist_libarena_policy_loans_la_SOURCES = unity/policy_loans.cc
nodist_libarena_policy_order_la_SOURCES = unity/policy_order.cc
nodist_libarena_policy_aryl_la_SOURCES = unity/policy_aryl.cc
nodist_libarena_policy_arena_la_SOURCES = unity/policy_arena.cc
nodist_libarena_baselines_la_SOURCES = unity/baselines.cc
nodist_libarena_sim_loans_la_SOURCES = unity/sim_loans.cc
nodist_libarena_sim_slow_la_SOURCES = unity/sim_slow.cc
nodist_libarena_sim_la_SOURCES = unity/sim.cc
nodist_libarena_sim_history_la_SOURCES = unity/sim_history.cc
nodist_libarena_array_la_SOURCES = unity/array.cc
nodist_libarena_array_search_la_SOURCES = unity/array_search.cc
nodist_libarena_models_la_SOURCES = unity/models.cc
nodist_libarena_hardware_la_SOURCES = unity/hardware.cc
nodist_libarena_operators_la_SOURCES = unity/operators.cc
nodist_libarena_plans_la_SOURCES = unity/plans.cc
nodist_libarena_search_la_SOURCES = unity/search.cc
nodist_libarena_arrays_la_SOURCES = unity/arrays.cc
nodist_libarena_requests_la_SOURCES = unity/requests.cc
nodist_libarena_evaluate_la_SOURCES = unity/evaluate.cc
nodist_libarena_exporter_la_SOURCES = unity/exporter.cc
nodist_libarena_profiler_core_la_SOURCES = unity/profiler_core.cc
nodist_libarena_profiler_check_la_SOURCES = unity/profiler_check.cc
nodist_libarena_profiler_comm_la_SOURCES = unity/profiler_comm.cc
nodist_libarena_profiler_run_la_SOURCES = unity/profiler_run.cc unity/profiler_direct.cc
nodist_libarena_train_comm_la_SOURCES = unity/train_comm.cc
nodist_libarena_train_core_la_SOURCES = unity/train_core.cc
nodist_libarena_train_checkpoint_la_SOURCES = unity/train_checkpoint.cc
nodist_libarena_train_members_la_SOURCES = unity/train_members.cc
nodist_libarena_train_array_la_SOURCES = unity/train_array.cc
nodist_libarena_train_run_la_SOURCES = unity/train_run.cc
nodist_libarena_watch_reader_la_SOURCES = unity/watch_reader.cc
nodist_libarena_watch_chief_la_SOURCES = unity/watch_chief.cc
nodist_libarena_watch_wire_la_SOURCES = unity/watch_wire.cc
nodist_libarena_watch_agent_la_SOURCES = unity/watch_agent.cc
nodist_libarena_slurm_la_SOURCES = unity/libarena_slurm.cc
nodist_libarena_spank_la_SOURCES = unity/libarena_spank.cc
nodist_job_submit_arena_la_SOURCES = unity/job_submit_arena.cc
nodist_libarena_sched_logic_la_SOURCES = unity/sched_host.cc unity/sched_loans.cc unity/sched_profiles.cc unity/sched_plans.cc unity/sched_round.cc
nodist_sched_arena_la_SOURCES = unity/sched_arena.cc
nodist_libarena_lab_array_la_SOURCES = unity/lab_array.cc
nodist_libarena_slowdown_truth_la_SOURCES = unity/slowdown_truth.cc
nodist_arena_SOURCES = unity/cli.cc unity/cli_planning.cc unity/cli_cluster.cc unity/cli_doctor.cc
nodist_arena_simulation_SOURCES = unity/cli.cc unity/simulate.cc
nodist_arena_lab_SOURCES = unity/cli.cc unity/simulate.cc
else
libarena_base_la_SOURCES = $(base_sources)
libarena_ipc_la_SOURCES = $(ipc_sources)
libarena_core_la_SOURCES = $(core_sources)
libarena_reports_la_SOURCES = $(reports_sources)
libarena_site_la_SOURCES = $(site_sources)
libarena_request_la_SOURCES = $(request_sources)
libarena_slowdown_la_SOURCES = $(slowdown_sources)
libarena_health_la_SOURCES = $(health_sources)
libarena_checks_la_SOURCES = $(checks_sources)
libarena_store_la_SOURCES = $(store_sources)
libarena_policy_la_SOURCES = $(policy_sources)
libarena_policy_loans_la_SOURCES = $(policy_loans_sources)
libarena_policy_order_la_SOURCES = $(policy_order_sources)
libarena_policy_aryl_la_SOURCES = $(policy_aryl_sources)
libarena_policy_arena_la_SOURCES = $(policy_arena_sources)
libarena_baselines_la_SOURCES = $(baselines_sources)
libarena_sim_loans_la_SOURCES = $(sim_loans_sources)
libarena_sim_slow_la_SOURCES = $(sim_slow_sources)
libarena_sim_la_SOURCES = $(sim_sources)
libarena_sim_history_la_SOURCES = $(sim_history_sources)
libarena_array_la_SOURCES = $(array_sources)
libarena_array_search_la_SOURCES = $(array_search_sources)
libarena_models_la_SOURCES = $(models_sources)
libarena_hardware_la_SOURCES = $(hardware_sources)
libarena_operators_la_SOURCES = $(operators_sources)
libarena_plans_la_SOURCES = $(plans_sources)
libarena_search_la_SOURCES = $(search_sources)
libarena_arrays_la_SOURCES = $(arrays_sources)
libarena_requests_la_SOURCES = $(requests_sources)
libarena_evaluate_la_SOURCES = $(evaluate_sources)
libarena_exporter_la_SOURCES = $(exporter_sources)
libarena_profiler_core_la_SOURCES = $(profiler_core_sources)
libarena_profiler_check_la_SOURCES = $(profiler_check_sources)
libarena_profiler_comm_la_SOURCES = $(profiler_comm_sources)
libarena_profiler_run_la_SOURCES = $(profiler_run_sources) $(profiler_direct_sources)
libarena_train_comm_la_SOURCES = $(train_comm_sources)
libarena_train_core_la_SOURCES = $(train_core_sources)
libarena_train_checkpoint_la_SOURCES = $(train_checkpoint_sources)
libarena_train_members_la_SOURCES = $(train_members_sources)
libarena_train_array_la_SOURCES = $(train_array_sources)
libarena_train_run_la_SOURCES = $(train_run_sources)
libarena_watch_reader_la_SOURCES = $(watch_reader_sources)
libarena_watch_chief_la_SOURCES = $(watch_chief_sources)
libarena_watch_wire_la_SOURCES = $(watch_wire_sources)
libarena_watch_agent_la_SOURCES = $(watch_agent_sources)
libarena_slurm_la_SOURCES = $(libarena_slurm_sources)
libarena_spank_la_SOURCES = $(libarena_spank_sources)
job_submit_arena_la_SOURCES = $(job_submit_arena_sources)
libarena_sched_logic_la_SOURCES = $(sched_host_sources) $(sched_loans_sources) $(sched_profiles_sources) $(sched_plans_sources) $(sched_round_sources)
sched_arena_la_SOURCES = $(sched_arena_sources)
libarena_lab_array_la_SOURCES = $(lab_array_sources)
libarena_slowdown_truth_la_SOURCES = $(slowdown_truth_sources)
arena_SOURCES += $(cli_sources) $(cli_planning_sources) $(cli_cluster_sources) $(cli_doctor_sources)
arena_simulation_SOURCES += $(cli_sources) $(simulate_sources)
arena_lab_SOURCES += $(cli_sources) $(simulate_sources)
endif

units = \
	base \
	ipc \
	core \
	reports \
	site \
	request \
	slowdown \
	health \
	checks \
	store \
	policy \
	policy_loans \
	policy_order \
	policy_aryl \
	policy_arena \
	baselines \
	sim_loans \
	sim_slow \
	sim \
	sim_history \
	array \
	array_search \
	models \
	hardware \
	operators \
	plans \
	search \
	arrays \
	requests \
	evaluate \
	cli \
	simulate \
	cli_planning \
	cli_cluster \
	cli_doctor \
	exporter \
	profiler_core \
	profiler_check \
	profiler_comm \
	profiler_direct \
	profiler_run \
	train_comm \
	train_core \
	train_checkpoint \
	train_members \
	train_array \
	train_run \
	watch_reader \
	watch_chief \
	watch_wire \
	watch_agent \
	libarena_slurm \
	libarena_spank \
	job_submit_arena \
	sched_host \
	sched_loans \
	sched_profiles \
	sched_plans \
	sched_round \
	sched_arena \
	lab_array \
	slowdown_truth \
	# end
unity/stamp: Makefile
	$(AM_V_GEN)$(MKDIR_P) unity && set -e; new=unity/new.$$$$; \
	$(foreach unit,$(units),printf '#include "%s"\n' $(filter %.cc,$($(unit)_sources)) >$$new; \
	    cmp -s $$new unity/$(unit).cc || mv -f $$new unity/$(unit).cc;) \
	rm -f $$new; touch $@
# Newer than its list only where that has changed.
$(units:%=unity/%.cc): unity/stamp
	@test -e $@ || { rm -f unity/stamp && $(MAKE) $(AM_MAKEFLAGS) unity/stamp; }
CLEANFILES += unity/stamp $(units:%=unity/%.cc)
