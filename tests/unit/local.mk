# SPDX-License-Identifier: GPL-2.0-or-later
# Unit tests (Check). Several files are one program, tests/unit/run_GROUP, and by default one translation unit
# (tests/lib/unite-tests), for most of a compilation is the headers; with --disable-unity each file is one. A new file goes
# into one of these lists. In a program the files run one after the other: none computes for more than about a minute.
unit_base = \
	tests/unit/config_test.cc tests/unit/doctor_test.cc tests/unit/fifo_test.cc tests/unit/text_test.cc tests/unit/values_test.cc \
	tests/unit/test_child.cc tests/unit/test_exporter.cc tests/unit/test_gres_conf.cc tests/unit/test_health.cc tests/unit/test_history_page.cc tests/unit/test_launchers.cc \
	tests/unit/test_options.cc tests/unit/test_plan_command.cc tests/unit/test_request.cc tests/unit/test_spank_options.cc \
	tests/unit/test_statistics.cc tests/unit/test_submit_rules.cc tests/unit/test_tables.cc tests/unit/test_trusted_path.cc \
	# end
unit_planner = \
	tests/unit/test_planner_adapters.cc tests/unit/test_planner_cost.cc tests/unit/test_planner_frameworks.cc \
	tests/unit/test_planner_grids.cc tests/unit/test_planner_listed.cc tests/unit/test_planner_measured.cc \
	tests/unit/test_planner_models.cc tests/unit/test_planner_models_layers.cc tests/unit/test_planner_models_readers.cc \
	tests/unit/test_planner_models_words.cc tests/unit/test_planner_spans.cc tests/unit/test_comm_table.cc tests/unit/test_store.cc \
	tests/unit/test_store_rows.cc tests/unit/test_store_spool.cc \
	# end
unit_search = \
	tests/unit/test_array.cc tests/unit/test_array_compare.cc tests/unit/test_array_exact.cc tests/unit/test_planner_budget.cc \
	tests/unit/test_planner_mixed.cc tests/unit/test_planner_physics.cc tests/unit/test_planner_pins.cc \
	tests/unit/test_planner_schedule.cc tests/unit/test_planner_search.cc \
	# end
unit_offers = \
	tests/unit/test_array_offers.cc tests/unit/test_planner_offers.cc \
	# end
unit_policies = \
	tests/unit/test_appointed.cc tests/unit/test_arena_policy.cc tests/unit/test_arena_rigid.cc tests/unit/test_aryl_policy.cc \
	tests/unit/test_fabric.cc tests/unit/test_fairness.cc tests/unit/test_forecast.cc tests/unit/test_layouts.cc \
	tests/unit/test_loans.cc tests/unit/test_policies.cc tests/unit/test_policy_spans.cc tests/unit/test_segments.cc \
	# end
unit_simulator = \
	tests/unit/test_page.cc tests/unit/test_promises.cc tests/unit/test_sacct.cc tests/unit/test_sim_slowdowns.cc \
	tests/unit/test_simulator.cc tests/unit/test_simulator_loans.cc \
	# end
unit_sched = \
	tests/unit/test_belief.cc tests/unit/test_boots.cc tests/unit/test_carriers.cc tests/unit/test_checks.cc \
	tests/unit/test_full_store.cc tests/unit/test_history.cc tests/unit/test_loan_book.cc tests/unit/test_nodes.cc \
	tests/unit/test_offer_book.cc tests/unit/test_places.cc tests/unit/test_plan_desk.cc tests/unit/test_profile_run.cc \
	tests/unit/test_profile_turns.cc tests/unit/test_request_cache.cc tests/unit/test_sched_rules.cc tests/unit/test_slow_reports.cc \
	tests/unit/test_socket_server.cc tests/unit/test_spool_reader.cc \
	# end
unit_round = \
	tests/unit/test_array_book.cc tests/unit/test_array_rounds.cc tests/unit/test_array_tasks.cc tests/unit/test_observe.cc \
	tests/unit/test_ordinary.cc tests/unit/test_promise_watch.cc tests/unit/test_scheduler.cc tests/unit/test_scheduler_moves.cc \
	tests/unit/test_scheduler_nodes.cc tests/unit/test_scheduler_queue.cc tests/unit/test_stages.cc \
	# end
unit_watch = \
	tests/unit/test_slow_link.cc tests/unit/test_slowdown_changes.cc tests/unit/test_slowdown_locate.cc \
	tests/unit/test_slowdown_mitigate.cc tests/unit/test_slowdown_period.cc tests/unit/test_slowdown_roles.cc \
	tests/unit/test_slowdown_waits.cc tests/unit/test_watch_agent.cc tests/unit/test_watch_chief.cc \
	tests/unit/test_watch_chief_hostile.cc tests/unit/test_watch_frames.cc tests/unit/test_watch_log.cc \
	tests/unit/test_watch_profiler.cc tests/unit/test_watch_ring.cc tests/unit/test_watch_wire.cc \
	# end
unit_profiler = \
	tests/unit/test_comm.cc tests/unit/test_nvml.cc tests/unit/test_profiler.cc tests/unit/test_profiler_attention.cc \
	tests/unit/test_profiler_images.cc tests/unit/test_profiler_kernels.cc tests/unit/test_profiler_stack.cc \
	tests/unit/test_topology.cc \
	# end
unit_train = \
	tests/unit/test_train_array.cc tests/unit/test_train_array_parts.cc tests/unit/test_train_check.cc \
	tests/unit/test_train_checkpoint.cc tests/unit/test_train_control.cc tests/unit/test_train_device.cc \
	tests/unit/test_train_layers.cc tests/unit/test_train_plans.cc \
	# end
unit_properties = \
	tests/unit/properties_test.cc tests/unit/test_arena_properties.cc tests/unit/test_planner_properties.cc \
	# end
unit_groups = base planner search offers policies simulator sched round watch profiler train properties
if HAVE_CHECK
unit_programs = tests/unit/run_base tests/unit/run_planner tests/unit/run_search tests/unit/run_offers tests/unit/run_policies \
	tests/unit/run_simulator tests/unit/run_sched tests/unit/run_round tests/unit/run_watch tests/unit/run_profiler tests/unit/run_train
if HAVE_RAPIDCHECK
unit_programs += tests/unit/run_properties
endif
check_PROGRAMS += $(unit_programs)
TESTS += $(unit_programs)
endif

# What they link, and run beside them.
unit_libs = libarena_lab_array.la libarena_slowdown_truth.la libarena_sched_logic.la libarena_health.la libarena_plugin_rules.la libarena_sim_history.la \
	$(arrays_libs) $(all_libs) $(CHECK_LIBS)
LDADD = $(unit_libs)
tests_unit_run_base_LDADD = libarena_exporter.la libarena_html.la $(unit_libs) $(MICROHTTPD_LIBS) $(NETTLE_LIBS)
tests_unit_run_watch_LDADD = $(watch_agent_libs) $(slowdown_truth_libs) $(CHECK_LIBS) -ldl
EXTRA_tests_unit_run_watch_DEPENDENCIES = libarena_watch.la
tests_unit_run_profiler_LDADD = $(ARENA_PROFILER_CPU_LIBS) $(CHECK_LIBS)
EXTRA_tests_unit_run_profiler_DEPENDENCIES = tests/tools/fake_nvml.so
tests/tools/fake_nvml.so: tests/tools/fake_nvml.cc
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) $(CXXFLAGS) -shared -fPIC -o $@ $(srcdir)/tests/tools/fake_nvml.cc
CLEANFILES += tests/tools/fake_nvml.so
EXTRA_DIST += tests/tools/fake_nvml.cc
tests_unit_run_train_LDADD = $(ARENA_TRAIN_LIBS) $(CHECK_LIBS)
tests_unit_run_properties_LDADD = $(unit_libs) -lrapidcheck

# What they are compiled from.
unit_main = tests/unit/suite.h tests/unit/suite.cc
tests_unit_run_base_SOURCES = $(unit_main) cli/cluster/history_page.cc
tests_unit_run_planner_SOURCES = $(unit_main)
tests_unit_run_search_SOURCES = $(unit_main)
tests_unit_run_offers_SOURCES = $(unit_main)
tests_unit_run_policies_SOURCES = $(unit_main)
tests_unit_run_simulator_SOURCES = $(unit_main) tests/lab/simulation/slowdowns_file.cc
tests_unit_run_sched_SOURCES = $(unit_main)
tests_unit_run_round_SOURCES = $(unit_main)
tests_unit_run_watch_SOURCES = $(unit_main) tests/unit/simulated_job.h tests/unit/simulated_job.cc tests/lab/inject/slow_link_rule.cc
tests_unit_run_profiler_SOURCES = $(unit_main) profiler/comm/no_communicator.cc
tests_unit_run_train_SOURCES = $(unit_main) tests/train/emulated_device.cc tests/unit/counted_new.h tests/unit/counted_new.cc
tests_unit_run_properties_SOURCES = $(unit_main)
if UNITY
nodist_tests_unit_run_base_SOURCES = unity/tests_base.cc unity/cli.cc unity/cli_planning.cc unity/cli_doctor.cc
nodist_tests_unit_run_planner_SOURCES = unity/tests_planner.cc
nodist_tests_unit_run_search_SOURCES = unity/tests_search.cc
nodist_tests_unit_run_offers_SOURCES = unity/tests_offers.cc
nodist_tests_unit_run_policies_SOURCES = unity/tests_policies.cc
nodist_tests_unit_run_simulator_SOURCES = unity/tests_simulator.cc
nodist_tests_unit_run_sched_SOURCES = unity/tests_sched.cc
nodist_tests_unit_run_round_SOURCES = unity/tests_round.cc
nodist_tests_unit_run_watch_SOURCES = unity/tests_watch.cc
nodist_tests_unit_run_profiler_SOURCES = unity/tests_profiler.cc
nodist_tests_unit_run_train_SOURCES = unity/tests_train.cc
nodist_tests_unit_run_properties_SOURCES = unity/tests_properties.cc
else
tests_unit_run_base_SOURCES += $(unit_base) $(cli_sources) $(cli_planning_sources) $(cli_doctor_sources)
tests_unit_run_planner_SOURCES += $(unit_planner)
tests_unit_run_search_SOURCES += $(unit_search)
tests_unit_run_offers_SOURCES += $(unit_offers)
tests_unit_run_policies_SOURCES += $(unit_policies)
tests_unit_run_simulator_SOURCES += $(unit_simulator)
tests_unit_run_sched_SOURCES += $(unit_sched)
tests_unit_run_round_SOURCES += $(unit_round)
tests_unit_run_watch_SOURCES += $(unit_watch)
tests_unit_run_profiler_SOURCES += $(unit_profiler)
tests_unit_run_train_SOURCES += $(unit_train)
tests_unit_run_properties_SOURCES += $(unit_properties)
endif
unity/tests.stamp: Makefile tests/lib/unite-tests $(foreach group,$(unit_groups),$(unit_$(group)))
	$(AM_V_GEN)$(MKDIR_P) unity && set -e; new=unity/new.$$$$; \
	$(foreach group,$(unit_groups),$(SHELL) $(srcdir)/tests/lib/unite-tests '$(srcdir)' $(unit_$(group)) >$$new; \
	    cmp -s $$new unity/tests_$(group).cc || mv -f $$new unity/tests_$(group).cc;) \
	rm -f $$new; touch $@
$(unit_groups:%=unity/tests_%.cc): unity/tests.stamp
	@test -e $@ || { rm -f unity/tests.stamp && $(MAKE) $(AM_MAKEFLAGS) unity/tests.stamp; }
CLEANFILES += unity/tests.stamp $(unit_groups:%=unity/tests_%.cc)

# Optimized only where they compute for long: inline functions are linked from here, for the libraries, too.
slow_unit_objects = $(foreach group,search offers policies simulator train properties,unity/tests_$(group).$(OBJEXT) $(unit_$(group):.cc=.$(OBJEXT)))
quick_unit_objects = $(filter-out $(slow_unit_objects),$(foreach group,$(unit_groups),unity/tests_$(group).$(OBJEXT) $(unit_$(group):.cc=.$(OBJEXT)))) \
	tests/unit/suite.$(OBJEXT)
$(slow_unit_objects): CXXFLAGS += -O1
$(quick_unit_objects): CXXFLAGS += -O0 -U_FORTIFY_SOURCE
EXTRA_DIST += tests/lib/unite-tests tests/unit/arena_cases.h tests/unit/array_cases.h tests/unit/array_members.h \
	tests/unit/directory.h tests/unit/float_arrays.h tests/unit/full_disk.h tests/unit/hostile_models.h tests/unit/page_reader.h tests/unit/philly.h \
	tests/unit/planner_cases.h tests/unit/property.h tests/unit/reference_data.h tests/unit/scripted_host.h \
	tests/unit/slowdown_cases.h tests/unit/span_cases.h tests/unit/store_cases.h tests/unit/train_cases.h tests/unit/waiting_job.h
