# SPDX-License-Identifier: GPL-2.0-or-later
# The laboratory: `arena-lab` and what makes processes and links slow. `make check` builds it, `make install` leaves it
# out, `make install-lab` installs it (package slurm-arena-lab).
check_PROGRAMS += arena-lab
arena_lab_SOURCES = \
	tests/lab/main.cc \
	cli/cluster/job_id.h cli/cluster/job_id.cc \
	tests/lab/array/array_files.h tests/lab/array/array_files.cc \
	tests/lab/array/check_command.cc \
	tests/lab/array/commands.h \
	tests/lab/array/compare_command.cc \
	tests/lab/array/compare_models.h tests/lab/array/compare_models.cc \
	tests/lab/array/comparison_text.h tests/lab/array/comparison_text.cc \
	tests/lab/array/evaluate_array_command.cc \
	tests/lab/array/evaluation.h tests/lab/array/evaluation.cc \
	tests/lab/array/schedule_page.h tests/lab/array/schedule_page.cc \
	tests/lab/array/solve_command.cc \
	tests/lab/loan/commands.h \
	tests/lab/loan/evaluate_loan_command.cc \
	tests/lab/loan/kind_knapsack.cc \
	tests/lab/loan/kind_reclaim.cc \
	tests/lab/loan/kinds.h tests/lab/loan/kinds.cc \
	tests/lab/loan/plan_command.cc \
	tests/lab/simulation/commands.h tests/lab/simulation/simulate_slowdowns.cc \
	tests/lab/simulation/slowdowns_file.h tests/lab/simulation/slowdowns_file.cc \
	tests/lab/slowdown/accuracy.h tests/lab/slowdown/accuracy.cc \
	tests/lab/slowdown/commands.h \
	tests/lab/slowdown/evaluate_slowdown_command.cc \
	tests/lab/slowdown/kind_detection.cc \
	tests/lab/slowdown/kind_locate.cc \
	tests/lab/slowdown/kind_logs.cc \
	tests/lab/slowdown/kind_mitigate.cc \
	tests/lab/slowdown/kind_period.cc \
	tests/lab/slowdown/kinds.h tests/lab/slowdown/kinds.cc \
	tests/lab/slowdown/slowdown_command.cc \
	# end
arena_lab_LDADD = libarena_lab_array.la libarena_slowdown_truth.la $(arrays_libs) $(all_libs)

# What unit tests link, too.
check_LTLIBRARIES += libarena_lab_array.la libarena_slowdown_truth.la
lab_array_sources = \
	tests/lab/array/array_compare.h tests/lab/array/array_compare.cc \
	tests/lab/array/baselines.h tests/lab/array/baselines.cc \
	tests/lab/array/instance_file.h tests/lab/array/instance_file.cc \
	tests/lab/array/pipelines.h tests/lab/array/pipelines.cc \
	tests/lab/array/schedule_check.h tests/lab/array/schedule_check.cc \
	# end
slowdown_truth_sources = \
	tests/lab/slowdown/truth/accuracy.h tests/lab/slowdown/truth/accuracy.cc \
	tests/lab/slowdown/truth/calls_file.h tests/lab/slowdown/truth/calls_file.cc \
	tests/lab/slowdown/truth/series.h tests/lab/slowdown/truth/series.cc \
	tests/lab/slowdown/truth/steps.h tests/lab/slowdown/truth/steps.cc \
	# end
slowdown_truth_libs = libarena_slowdown_truth.la $(slowdown_libs)

# ---- what makes a process, a link or a GPU slow ----------------------------------------------------
injectdir = $(pkglibexecdir)/inject
inject_scripts = tests/lab/inject/lock-clock tests/lab/inject/slow-link
check_PROGRAMS += tests/lab/inject/slow-process
tests_lab_inject_slow_process_SOURCES = tests/lab/inject/slow_process.cc
tests_lab_inject_slow_process_LDADD = libarena_watch_ring.la $(base_libs)
# Preloaded as the recorder is, and linked as it is (watch/local.mk); libtool makes no shared library without -rpath.
if HAVE_MPI
inject_libraries = libarena_slow_link.la
check_LTLIBRARIES += libarena_slow_link.la
endif
libarena_slow_link_la_SOURCES = \
	tests/lab/inject/slow_link.cc \
	tests/lab/inject/slow_link_rule.h tests/lab/inject/slow_link_rule.cc \
	watch/recorder/mpi_calls.h \
	watch/recorder/real.h watch/recorder/real.cc \
	# end
libarena_slow_link_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
libarena_slow_link_la_CXXFLAGS = $(ARENA_RECORDER_CXXFLAGS)
libarena_slow_link_la_LDFLAGS = $(ARENA_RECORDER_LDFLAGS) -rpath $(watchdir)
libarena_slow_link_la_LINK = $(ARENA_RECORDER_LINK) $(libarena_slow_link_la_LDFLAGS) $(LDFLAGS) -o $@
EXTRA_DIST += $(inject_scripts) tests/lab/inject/busy.c tests/lab/inject/pairs.c

# ---- installation: automake's own rules, on other lists -------------------------------------------
lab_programs = arena-lab$(EXEEXT) tests/lab/inject/slow-process$(EXEEXT)
lab_pages = doc/man/arena-lab.1 doc/man/arena-array.5 doc/man/arena-inject.8
EXTRA_DIST += $(lab_pages)
.PHONY: lab install-lab uninstall-lab
lab: $(lab_programs) $(inject_libraries)
install-lab: lab
	$(MAKE) $(AM_MAKEFLAGS) bin_PROGRAMS='arena-lab$(EXEEXT)' install-binPROGRAMS
	$(MAKE) $(AM_MAKEFLAGS) watch_LTLIBRARIES='$(inject_libraries)' install-watchLTLIBRARIES
	$(MAKE) $(AM_MAKEFLAGS) dist_man_MANS='$(lab_pages)' install-man
	$(MKDIR_P) '$(DESTDIR)$(injectdir)'
	$(LIBTOOL) $(AM_LIBTOOLFLAGS) $(LIBTOOLFLAGS) --mode=install $(INSTALL_PROGRAM) tests/lab/inject/slow-process$(EXEEXT) '$(DESTDIR)$(injectdir)'
	for script in $(inject_scripts); do $(INSTALL_SCRIPT) "$(srcdir)/$$script" '$(DESTDIR)$(injectdir)' || exit; done
uninstall-lab:
	$(MAKE) $(AM_MAKEFLAGS) bin_PROGRAMS='arena-lab$(EXEEXT)' uninstall-binPROGRAMS
	$(MAKE) $(AM_MAKEFLAGS) watch_LTLIBRARIES='$(inject_libraries)' uninstall-watchLTLIBRARIES
	$(MAKE) $(AM_MAKEFLAGS) dist_man_MANS='$(lab_pages)' uninstall-man
	cd '$(DESTDIR)$(injectdir)' && rm -f slow-process$(EXEEXT) lock-clock slow-link

# ---- its tests --------------------------------------------------------------------------------------
lab_tests = \
	tests/t0075-simulate-slowdowns.t \
	tests/t0500-evaluate-slowdown.t \
	tests/t0550-inject.t \
	tests/t0600-evaluate-loan.t \
	tests/t0700-evaluate-array.t \
	# end
TESTS += $(lab_tests)
dist_check_SCRIPTS += $(lab_tests)
tests/t0550-inject.log: arena-watch$(EXEEXT) $(watch_LTLIBRARIES)
EXTRA_DIST += tests/fuzz/parse_slow_link.cc tests/fuzz/parse_slowdowns.cc tests/fuzz/parse_calls.cc
