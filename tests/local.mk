# SPDX-License-Identifier: GPL-2.0-or-later
# What is tested and how; unit tests: tests/unit/local.mk.
# The rules of the plug-ins, which their Slurm-facing files call.
check_LTLIBRARIES += libarena_plugin_rules.la
libarena_plugin_rules_la_SOURCES = plugin/common/job_mark.cc plugin/common/quick_estimate.cc plugin/common/shared.cc plugin/job_submit/modify_rules.cc \
	plugin/job_submit/submit_line.cc plugin/job_submit/observe_rules.cc plugin/job_submit/steps_limit_rules.cc plugin/job_submit/submit_rules.cc plugin/spank/controller_rules.cc plugin/spank/given.cc plugin/spank/preview.cc \
	plugin/spank/spank_options.cc plugin/spank/watch.cc

# A client of Slurm's public API that sends what sbatch would not.
if HAVE_SLURM
slurm_clients = tests/tools/forge_submit$(EXEEXT) tests/tools/submit_many$(EXEEXT)
check_PROGRAMS += tests/tools/forge_submit tests/tools/submit_many
endif
tests_tools_forge_submit_SOURCES = tests/tools/forge_submit.c
tests_tools_forge_submit_LDADD = -lslurm
# Fills a queue for tests/bench/pending-jobs.
tests_tools_submit_many_SOURCES = tests/tools/submit_many.cc
tests_tools_submit_many_LDADD = $(all_libs) -lslurm

# Preloaded into slurmctld: a round waits between its decision and what comes of it.
tests/issues/i0016-a10-changed-mid-round.log: tests/tools/round_gate.so
tests/tools/round_gate.so: tests/tools/round_gate.cc src/policy/policy.h src/core/cluster.h src/core/decision.h
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) -std=c++20 $(CXXFLAGS) -I$(srcdir)/src -shared -fPIC -o $@ $(srcdir)/tests/tools/round_gate.cc -ldl
CLEANFILES += tests/tools/round_gate.so
EXTRA_DIST += tests/tools/round_gate.cc

# For contrib/check and contrib/slurm-smoke: what black-box tests start; the rest of what `make check` builds; all tests.
.PHONY: black-box-programs check-programs list-tests
black-box-programs: lab $(check_DATA) $(slurm_clients) tests/tools/round_gate.so arena-profiler-faulty$(EXEEXT) tests/tools/fake_chief$(EXEEXT) tests/watch/listen$(EXEEXT)
check-programs: $(check_LTLIBRARIES) $(check_PROGRAMS)
list-tests:
	@echo $(TESTS)

# `make check-fuzz`: every parse_* function under libFuzzer, ASan and UBSan (needs clang).
EXTRA_DIST += tests/fuzz/run tests/fuzz/fuzz.h tests/fuzz/parse_record.cc tests/fuzz/parse_directives.cc \
	tests/fuzz/parse_script_programs.cc tests/fuzz/parse_estimate.cc tests/fuzz/parse_model.cc tests/fuzz/parse_measured.cc tests/fuzz/parse_calibration.cc tests/fuzz/parse_config.cc \
	tests/fuzz/parse_launcher_table.cc tests/fuzz/parse_first_host.cc tests/fuzz/parse_elapsed.cc tests/fuzz/parse_moment.cc tests/fuzz/parse_json_place.cc tests/fuzz/parse_plugin_version.cc tests/fuzz/seeds
.PHONY: check-fuzz
check-fuzz:
	$(SHELL) $(srcdir)/tests/fuzz/run $(abs_top_srcdir) $(abs_top_builddir)/tests/fuzz

# ---- planner ---------------------------------------------------------------------------------
# Built by `make check`, run by tests/bench/planner.
check_PROGRAMS += tests/bench/planner-speed
tests_bench_planner_speed_SOURCES = tests/bench/planner_speed.cc
tests_bench_planner_speed_LDADD = $(all_libs)
EXTRA_DIST += tests/fuzz/parse_hardware.cc tests/fuzz/parse_op_key.cc

# ---- black-box tests: TAP, each against its own private Slurm cluster (tests/lib) --------------
TEST_EXTENSIONS = .t
timed = python3 $(top_srcdir)/tests/lib/timed
LOG_DRIVER = $(T_LOG_DRIVER)
AM_LOG_DRIVER_FLAGS = --merge
T_LOG_DRIVER = $(timed) env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
# Those that train much stand apart: they run in this order, some at a time.
black_box_tests = \
	tests/t0200-lifecycle.t \
	tests/t0210-races.t \
	tests/issues/i0016-b-requests.t \
	tests/issues/i0016-a3-planning-budget.t \
	tests/t0437-inplace.t tests/t0445-ddp-in-slurm.t tests/t0850-hosts.t tests/t0220-restart.t \
	tests/t0230-elastic.t \
	tests/t0290-soak-short.t \
	tests/t0050-command.t \
	tests/t0055-pages-and-completion.t \
	tests/t0060-explain.t \
	tests/t0062-explain-data-sheet.t \
	tests/t0730-array-pipeline.t tests/t0070-simulate.t \
	tests/t0605-loan-command.t tests/t0615-doctor-loans.t tests/t0620-demo-loans.t \
	tests/t0001-private-cluster.t \
	tests/t0240-profiling.t \
	tests/t0245-profiling-races.t \
	tests/t0246-profiling-nodes.t \
	tests/t0247-profiling-order.t \
	tests/t0250-different-plans.t tests/t0255-salloc.t \
	tests/t0100-bad-input.t \
	tests/t0110-submit-channels.t \
	tests/t0300-ordinary-jobs.t \
	tests/t0310-queue-place.t tests/t0710-array-tasks.t \
	tests/issues/i0016-a9-records-kept-once.t tests/issues/i0016-b5-place-and-time.t \
	tests/issues/i0017-c1-private-cluster.t tests/issues/i0017-c2-pasted-plan.t \
	tests/t0320-cluster-changes.t \
	tests/t0452-plain-culprit.t tests/t0330-installed.t tests/t0332-other-slurm.t tests/t0334-kept-config.t tests/t0336-reconfigures.t tests/t0338-topology.t tests/t0339-boots.t tests/t0335-bare-debian.t \
	tests/t0340-accounting.t \
	tests/t0731-array-faults.t tests/t0345-order.t tests/t0347-order-accounting.t tests/t0348-promise-restart.t \
	tests/t0346-believed-work.t \
	tests/t0350-moves.t tests/t0520-node-facts.t tests/t0522-node-health.t tests/t0525-checks.t tests/t0530-slow-reports.t \
	tests/t0555-slowdown-in-slurm.t tests/t0556-slow-link-in-slurm.t tests/t0560-leave-slow-node.t tests/t0610-loans.t tests/t0612-loan-net.t \
	tests/t0732-array-moves.t tests/issues/i0016-a1-shutdown.t \
	tests/issues/i0016-a6-lost-rights.t \
	tests/issues/i0016-a10-changed-mid-round.t \
	tests/t0360-sbatch-options.t tests/t0370-observe.t \
	tests/issues/i0016-a4-partitions.t \
	tests/issues/i0016-a7-profiling-turns.t \
	tests/issues/i0016-a8-false-reports.t \
	tests/issues/i0016-a12-hanging-spool.t tests/issues/i0022-requeued-at-once.t \
	tests/issues/i0035-a1-killed-by-our-move.t tests/issues/i0035-a4-a6-nodes.t tests/issues/i0035-a5-uneven.t \
	# end
issue_tests = \
	tests/issues/i0016-a12-trust-and-silence.t \
	tests/issues/i0016-a2-planted-directories.t \
	tests/issues/i0017-a1-environment.t tests/issues/i0017-c3-quickstart-table.t \
	tests/issues/i0016-b1-install-states.t \
	tests/issues/i0035-a3-rendezvous.t tests/issues/i0035-a7-inner-jobs.t \
	tests/issues/i0035-b4-pages.t tests/issues/i0035-b5-scripts.t tests/issues/i0035-b5-full-output.t \
	# end
TESTS += $(black_box_tests) $(issue_tests)
# What tests preload.
preloads = hanging_open kill_at_call paced short_minute
check_DATA += $(preloads:%=tests/tools/%.so)
$(preloads:%=tests/tools/%.so): tests/tools/%.so: tests/tools/%.cc
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) -std=c++20 $(CXXFLAGS) -shared -fPIC -o $@ $(srcdir)/tests/tools/$*.cc -ldl
CLEANFILES += $(preloads:%=tests/tools/%.so)
EXTRA_DIST += $(preloads:%=tests/tools/%.cc)
tests/issues/i0016-a12-hanging-spool.log: tests/tools/hanging_open.so
tests/t0347-order-accounting.log: tests/tools/short_minute.so
tests/t0435-elastic-training.log tests/t0850-hosts.log tests/t0555-slowdown-in-slurm.log tests/t0556-slow-link-in-slurm.log tests/t0560-leave-slow-node.log: tests/tools/paced.so
EXTRA_DIST += $(issue_tests)
EXTRA_DIST += $(black_box_tests) \
	tests/lib/arena.sh tests/lib/command.sh tests/lib/bare_debian.sh tests/lib/train.sh tests/lib/watched.sh tests/lib/hosts.sh tests/lib/loans.sh tests/lib/soft_gpu.sh \
	tests/lib/mpi.sh tests/lib/movers.sh tests/lib/siblings.sh \
	tests/packages/autopkgtest tests/packages/bare-debian tests/packages/bare-rpm tests/packages/rpm-content \
	tests/soak/kill9 tests/soak/judge.awk tests/soak/moves tests/soak/cuda-faults \
	tests/soak/submit-race tests/tools/race_submit.cc \
	tests/soak/shutdown-bursts tests/soak/loan-cycles tests/soak/promises tests/soak/slow-host tests/soak/slow-host.t tests/lib/bursts.sh \
	tests/lib/cluster.sh \
	tests/lib/ddp.sh tests/lib/plain.sh tests/bench/culprit tests/arena_py/plain.py tests/train/ddp.py tests/train/torchrun tests/bench/ddp-batches \
	tests/lib/start_order.sh tests/lib/faulty.sh tests/lib/beside_stock.sh tests/lib/placement.sh \
	tests/lib/tap.sh \
	tests/lib/timed \
	tests/bench/ordinary-cost \
	tests/bench/pending-jobs \
	tests/bench/round-cost \
	tests/bench/spike-start \
	tests/bench/month tests/bench/network tests/bench/order tests/bench/order-trial tests/bench/placement \
	tests/bench/restarts \
	tests/bench/start-order \
	tests/bench/planner-accuracy \
	tests/bench/planner-sources \
	tests/bench/planner-arena-data \
	tests/bench/planner-ceiling \
	tests/bench/planner \
	tests/bench/planner-budget \
	tests/bench/properties \
	tests/bench/policies \
	tests/bench/stock-starts \
	tests/bench/describe-model \
	tests/bench/launcher-parsers \
	tests/bench/launcher_parsers/__init__.py \
	tests/bench/launcher_parsers/accelerate.py \
	tests/bench/launcher_parsers/deepspeed.py \
	tests/bench/launcher_parsers/driver.py \
	tests/bench/launcher_parsers/fsdp.py \
	tests/bench/launcher_parsers/hf_trainer.py \
	tests/bench/launcher_parsers/lightning.py \
	tests/bench/launcher_parsers/megatron.py \
	tests/bench/launcher_parsers/megatron_deepspeed.py \
	tests/bench/launcher_parsers/mesh.py \
	tests/bench/launcher_parsers/models.py \
	tests/bench/launcher_parsers/nemo.py \
	tests/bench/launcher_parsers/plans.py \
	tests/bench/launcher_parsers/pydantic_shim.py \
	tests/bench/launcher_parsers/rows.py \
	tests/bench/launcher_parsers/stubs.py \
	tests/bench/launcher_parsers/torchrun.py \
	tests/bench/launcher_parsers/torchtitan.py \
	tests/bench/launcher_parsers/torchtitan_dev.py \
	# end
clean-local: clean-stage clean-soft-gpu
.PHONY: clean-stage
clean-stage:
	rm -rf stage stage.log .stage.lock .machine.lock

# Built by `make check`, run by tests/bench/planner-budget.
check_PROGRAMS += tests/bench/planner-budget-search
tests_bench_planner_budget_search_SOURCES = tests/bench/planner_budget.cc tests/unit/hostile_models.h
tests_bench_planner_budget_search_LDADD = libarena_sched_logic.la libarena_health.la libarena_plugin_rules.la libarena_arrays.la libarena_array_search.la libarena_array.la $(all_libs)

# Built by `make check`, run by tests/bench/policies.
check_PROGRAMS += tests/bench/arena-optimum
tests_bench_arena_optimum_SOURCES = tests/bench/arena_optimum.cc tests/unit/arena_cases.h
tests_bench_arena_optimum_LDADD = $(baselines_libs)
check_PROGRAMS += tests/bench/arena-rules
tests_bench_arena_rules_SOURCES = tests/bench/arena_rules.cc
tests_bench_arena_rules_LDADD = $(sim_libs)

# ---- slowdowns ---------------------------------------------------------------------------------
# Built by `make check`, run by hand: what a sample costs, and what the answers to a slowdown take to find.
check_PROGRAMS += tests/bench/slowdown tests/bench/slowdown-mitigation
tests_bench_slowdown_SOURCES = tests/bench/slowdown.cc tests/unit/slowdown_cases.h
tests_bench_slowdown_LDADD = $(slowdown_truth_libs)
tests_bench_slowdown_mitigation_SOURCES = tests/bench/slowdown_mitigation.cc
tests_bench_slowdown_mitigation_LDADD = $(slowdown_libs)

# ---- loans ---------------------------------------------------------------------------------------
# Built by `make check`, run by tests/bench/loans.
check_PROGRAMS += tests/bench/loan-victims
tests_bench_loan_victims_SOURCES = tests/bench/loan_victims.cc
tests_bench_loan_victims_LDADD = $(sim_libs)
EXTRA_DIST += tests/bench/loans tests/fuzz/parse_lease.cc tests/fuzz/parse_inference_curve.cc \
	tests/fuzz/parse_hostlist.cc tests/fuzz/parse_loan_offer.cc tests/fuzz/parse_loan_reclaim.cc

# ---- arrays of siblings ------------------------------------------------------------------------
EXTRA_DIST += tests/unit/array_cases.h tests/fuzz/parse_array_instance.cc tests/fuzz/parse_array_schedule.cc tests/bench/array \
	tests/bench/array_minizinc.py

# ---- live view ---------------------------------------------------------------------------------
TESTS += tests/t0800-live.t
dist_check_SCRIPTS += tests/t0800-live.t
EXTRA_DIST += tests/bench/exporter tests/bench/observe tests/fuzz/parse_history_line.cc tests/fuzz/parse_promises.cc tests/fuzz/parse_boots.cc

# ---- shape of the tree -----------------------------------------------------------------------
TESTS += tests/layering.t tests/said-once.t
dist_check_SCRIPTS += tests/layering.t tests/said-once.t
EXTRA_DIST += tests/rooms

# ---- golden decisions ------------------------------------------------------------------------
TESTS += tests/golden.t tests/soak-judge.t
dist_check_SCRIPTS += tests/golden.t tests/soak-judge.t
tests/golden.log: arena$(EXEEXT) arena-simulation$(EXEEXT)
EXTRA_DIST += tests/golden tests/data tests/fuzz/parse_yaml.cc tests/fuzz/parse_profile.cc tests/fuzz/parse_snapshot.cc

# ---- simulator --------------------------------------------------------------------------------
EXTRA_DIST += tests/fuzz/apply_comment.cc tests/fuzz/parse_gres_config.cc tests/fuzz/parse_check_request.cc tests/fuzz/parse_mark.cc tests/fuzz/parse_health.cc tests/fuzz/parse_node_check.cc tests/fuzz/parse_node_extra.cc \
	tests/fuzz/parse_offer_json.cc tests/fuzz/parse_plan_pin.cc tests/fuzz/parse_profile_request.cc \
	tests/fuzz/parse_next_ask.cc tests/fuzz/parse_next_answer.cc tests/fuzz/parse_report.cc tests/fuzz/parse_scontrol.cc tests/fuzz/parse_slowdown_report.cc \
	tests/fuzz/parse_gres_conf.cc tests/fuzz/parse_slurm_conf.cc tests/fuzz/parse_sacct.cc tests/fuzz/parse_nodes.cc \
	tests/fuzz/parse_model_rules.cc tests/fuzz/parse_layer_operator.cc tests/fuzz/parse_diary_line.cc tests/fuzz/parse_script_training.cc
