# SPDX-License-Identifier: GPL-2.0-or-later
# The `arena` command.
bin_PROGRAMS += arena arena-args
arena_args_SOURCES = cli/arena_args.cc cli/common/ask.h cli/common/ask.cc
arena_args_LDADD = $(request_libs)
cli/elastic_script.inc: contrib/launchers/elastic.sh cli/local.mk
	$(AM_V_GEN)$(MKDIR_P) cli && printf 'R"arena(' >$@.new && cat "$(srcdir)/contrib/launchers/elastic.sh" >>$@.new && \
	printf ')arena"\n' >>$@.new && mv $@.new $@
cli/arena_args.$(OBJEXT): cli/elastic_script.inc
CLEANFILES += cli/elastic_script.inc
# What each of arena, arena-simulation and arena-lab has; and who simulates.
cli_sources = \
	cli/common/ask.h cli/common/ask.cc \
	cli/common/cli.h \
	cli/common/common.cc \
	cli/common/program.h cli/common/program.cc \
	cli/common/wrap.h \
	cli/planning/plan_input.h cli/planning/plan_input.cc \
	cli/planning/plan_store.h cli/planning/plan_store.cc \
	cli/planning/site_tables.h cli/planning/site_tables.cc \
	cli/simulation/commands.h \
	# end
simulate_sources = \
	cli/simulation/planned_throughputs.h cli/simulation/planned_throughputs.cc \
	cli/simulation/simulate_command.cc \
	cli/simulation/simulate_input.h cli/simulation/simulate_input.cc \
	cli/simulation/simulate_options.h cli/simulation/simulate_options.cc \
	# end
cli_planning_sources = \
	cli/common/moment.h cli/common/moment.cc \
	cli/planning/commands.h \
	cli/planning/evaluate_command.cc \
	cli/planning/measure_command.cc \
	cli/planning/models_command.cc \
	cli/planning/plan_array.h cli/planning/plan_array.cc \
	cli/planning/plan_command.cc \
	# end
cli_cluster_sources = \
	cli/cluster/ask_scheduler.h cli/cluster/ask_scheduler.cc \
	cli/cluster/commands.h \
	cli/cluster/config_command.cc \
	cli/cluster/explain_command.cc \
	cli/cluster/array_list_command.cc \
	cli/cluster/health_report.h cli/cluster/health_report.cc \
	cli/cluster/history_command.cc \
	cli/cluster/history_page.h cli/cluster/history_page.cc \
	cli/cluster/job_id.h cli/cluster/job_id.cc \
	cli/cluster/loan_command.cc \
	cli/cluster/profile_command.cc \
	cli/cluster/profile_run.h cli/cluster/profile_run.cc \
	cli/cluster/queue_command.cc \
	cli/cluster/next_command.cc \
	cli/cluster/report_command.cc \
	cli/cluster/send_report.h cli/cluster/send_report.cc \
	cli/cluster/slowdown_command.cc \
	cli/exporter/commands.h cli/exporter/exporter_command.cc \
	# end
cli_doctor_sources = \
	cli/doctor/commands.h \
	cli/doctor/doctor.h cli/doctor/doctor.cc \
	cli/doctor/doctor_accounts.cc \
	cli/doctor/doctor_command.cc \
	cli/doctor/doctor_devices.cc \
	cli/doctor/doctor_files.cc \
	cli/doctor/doctor_loans.cc \
	cli/doctor/doctor_network.cc \
	cli/doctor/doctor_nodes.cc \
	cli/doctor/doctor_parts.h \
	cli/doctor/doctor_prolog.cc \
	cli/doctor/doctor_shared.cc \
	cli/doctor/doctor_slurm.cc \
	cli/doctor/doctor_spank.cc \
	# end
arena_SOURCES = cli/main.cc
arena_LDADD = libarena_health.la $(arrays_libs) libarena_exporter.la libarena_html.la $(planning_libs) $(MICROHTTPD_LIBS) $(NETTLE_LIBS)
# Started by `arena`: its verbs simulate, trace and snapshot.
pkglibexec_PROGRAMS += arena-simulation
arena_simulation_SOURCES = cli/simulation/main.cc cli/simulation/history_command.cc cli/simulation/snapshot_command.cc cli/simulation/trace_command.cc
arena_simulation_LDADD = libarena_sim_history.la $(all_libs)
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = contrib/completion/arena

# ---- arena exporter ------------------------------------------------------------------------------
# A library of its own, that its unit test links.
noinst_LTLIBRARIES += libarena_exporter.la libarena_http.la
exporter_sources = \
	cli/exporter/documents.h cli/exporter/documents.cc \
	cli/exporter/exposition.h cli/exporter/exposition.cc \
	cli/exporter/listen.h cli/exporter/listen.cc \
	cli/exporter/metrics.h cli/exporter/metrics.cc \
	cli/exporter/page.h cli/exporter/page.cc \
	# end
libarena_exporter_la_LIBADD = libarena_http.la libarena_html.la
libarena_http_la_CPPFLAGS = $(AM_CPPFLAGS) $(MICROHTTPD_CFLAGS)
libarena_http_la_SOURCES = cli/exporter/http_server.h
if HAVE_MICROHTTPD
libarena_http_la_SOURCES += cli/exporter/http_server.cc
else
libarena_http_la_SOURCES += cli/exporter/no_http_server.cc
endif
# The page is part of the program.
live_page_texts = cli/exporter/live_html.inc cli/exporter/live_css.inc cli/exporter/live_js.inc
cli/exporter/live_html.inc: cli/exporter/live.html
cli/exporter/live_css.inc: cli/exporter/live.css
cli/exporter/live_js.inc: cli/exporter/live.js
$(live_page_texts):
	$(AM_V_GEN)$(MKDIR_P) cli/exporter && \
	{ printf 'R"arena('; cat '$(srcdir)/cli/exporter/live.'`echo '$@' | $(SED) 's/.*live_//; s/.inc$$//'`; printf ')arena"\n'; } >$@
cli/exporter/page.lo unity/exporter.lo: $(live_page_texts)
CLEANFILES += $(live_page_texts)
EXTRA_DIST += cli/exporter/live.html cli/exporter/live.css cli/exporter/live.js
