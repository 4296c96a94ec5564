# SPDX-License-Identifier: GPL-2.0-or-later
# What Slurm loads. slurmctld's plug-ins are modules beside libarena_slurm.so, which holds policies, planner, store and
# what the two share; $ORIGIN finds it wherever the directory lies. SPANK's, which every sbatch loads and slurmstepd as
# root, stands by itself: no policy and no SQLite in it.
# It is given to the linker as a file: as a .la, libtool would tie each plug-in to one prefix and relink
# it at `make install`, so that no tree could be staged elsewhere.
ARENA_PLUGIN_LDFLAGS = -module -avoid-version -shared -Wl,-rpath,'$$ORIGIN' \
	-Wl,--no-as-needed,.libs/libarena_slurm.so,--as-needed
# Slurm's internal headers. The config.h that they ask for is ours: no struct of theirs depends on what theirs says.
SLURM_INTERNAL_CPPFLAGS = -isystem $(SLURM_SRC)

# By the Slurm that they are for, so that one installation has them for several: slurmctld takes plug-ins of its very
# release, SPANK those of its major and minor number. Without a version in the name: links to what was installed last.
slurmplugindir = $(pkglibdir)/$(SLURM_VERSION)
spankplugindir = $(pkglibdir)/$(SLURM_SERIES)
slurmplugin_LTLIBRARIES =
spankplugin_LTLIBRARIES =
if HAVE_SLURM
slurmplugin_LTLIBRARIES += libarena_slurm.la
spankplugin_LTLIBRARIES += spank_arena.la libarena_spank.la
install-data-hook: install-plugin-links
uninstall-hook: uninstall-plugin-links
endif
if HAVE_SLURM_SRC
slurmplugin_LTLIBRARIES += job_submit_arena.la
SLURM_PUBLIC_CPPFLAGS = $(SLURM_INTERNAL_CPPFLAGS)
endif
.PHONY: install-plugin-links uninstall-plugin-links
# NAME of DIRECTORY as pkglibdir's own; a real directory of that name is an earlier version's.
link_plugin = link_plugin () { \
	  if test -d "$$2" && test ! -h "$$2"; then rm -f "$$2"/*.so && rmdir "$$2"; fi; \
	  rm -f "$$2" && $(LN_S) "$$1/$$2" "$$2"; \
	}
unlink_plugin = unlink_plugin () { \
	  if test "`readlink "$$2"`" = "$$1/$$2"; then rm -f "$$2"; fi; \
	}
install-plugin-links: $(backfill_link)
	$(MKDIR_P) '$(DESTDIR)$(slurmplugindir)' '$(DESTDIR)$(spankplugindir)'
	cd '$(DESTDIR)$(pkglibdir)' && $(link_plugin) && rm -f *_arena.la libarena_slurm.la libarena_spank.la && \
	link_plugin $(SLURM_SERIES) spank_arena.so && \
	for name in libarena_slurm.so $(linked_plugins); do link_plugin $(SLURM_VERSION) $$name || exit 1; done
uninstall-plugin-links: $(backfill_unlink)
	cd '$(DESTDIR)$(pkglibdir)' && $(unlink_plugin) && unlink_plugin $(SLURM_SERIES) spank_arena.so && \
	for name in libarena_slurm.so $(linked_plugins); do unlink_plugin $(SLURM_VERSION) $$name || exit 1; done
	-rmdir '$(DESTDIR)$(slurmplugindir)' '$(DESTDIR)$(spankplugindir)'

libarena_slurm_sources = \
	plugin/common/given.h \
	plugin/common/job_mark.h plugin/common/job_mark.cc \
	plugin/common/shared.h plugin/common/shared.cc \
	plugin/common/quick_estimate.h plugin/common/quick_estimate.cc \
	plugin/common/slurm_text.h plugin/common/slurm_internal.h plugin/common/slurm_compat.h \
	plugin/common/slurm_layout.h plugin/common/record_size.h \
	# end
libarena_slurm_la_LIBADD = libarena_policy_arena.la libarena_policy_aryl.la libarena_policy_order.la libarena_policy_loans.la libarena_policy.la libarena_store.la libarena_health.la libarena_checks.la libarena_slowdown.la libarena_arrays.la libarena_array_search.la libarena_array.la $(requests_libs) $(SQLITE_LIBS)
libarena_slurm_la_LDFLAGS = -avoid-version -shared -Wl,-rpath,'$$ORIGIN'

spank_arena_la_SOURCES = plugin/spank/spank_arena.cc plugin/spank/spank_work.h
spank_arena_la_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_PUBLIC_CPPFLAGS)
spank_arena_la_CXXFLAGS = $(AM_CXXFLAGS) -fno-exceptions -fno-rtti
spank_arena_la_LINK = $(ARENA_RECORDER_LINK) $(spank_arena_la_LDFLAGS) $(LDFLAGS) -o $@
spank_arena_la_LDFLAGS = -module -avoid-version -shared
$(spank_arena_la_OBJECTS): plugin/spank/option_rows.inc
# A program of the build prints them, for this machine.
EXTRA_PROGRAMS += plugin/spank/print-options
plugin_spank_print_options_SOURCES = plugin/spank/print_options.cc
plugin_spank_print_options_LDADD = $(request_libs)
plugin/spank/option_rows.inc: plugin/spank/print-options$(EXEEXT)
	$(AM_V_GEN)plugin/spank/print-options$(EXEEXT) >$@.tmp && mv $@.tmp $@
CLEANFILES += plugin/spank/option_rows.inc plugin/spank/print-options$(EXEEXT)

libarena_spank_sources = \
	plugin/spank/spank_work.h plugin/spank/spank_work.cc \
	plugin/spank/controller.h plugin/spank/controller.cc plugin/spank/controller_rules.cc \
	plugin/spank/given.h plugin/spank/given.cc \
	plugin/spank/spank_options.h plugin/spank/spank_options.cc \
	plugin/spank/preview.h plugin/spank/preview.cc \
	plugin/spank/ranks.h plugin/spank/ranks.cc \
	plugin/spank/watch.h plugin/spank/watch.cc \
	plugin/common/quick_estimate.h plugin/common/quick_estimate.cc \
	# end
libarena_spank_la_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_PUBLIC_CPPFLAGS)
libarena_spank_la_LIBADD = $(requests_libs)
libarena_spank_la_LDFLAGS = -avoid-version -shared

job_submit_arena_sources = \
	plugin/job_submit/job_submit_arena.cc \
	plugin/job_submit/observe_rules.h plugin/job_submit/observe_rules.cc \
	plugin/job_submit/submit_rules.h plugin/job_submit/submit_rules.cc \
	plugin/job_submit/modify_rules.h plugin/job_submit/modify_rules.cc \
	plugin/job_submit/submit_line.h plugin/job_submit/submit_line.cc \
	plugin/job_submit/steps_limit_rules.h plugin/job_submit/steps_limit_rules.cc plugin/common/steps_limit.h \
	plugin/job_submit/option_rules.h plugin/job_submit/option_rules.cc \
	plugin/job_submit/hard_limits.h plugin/job_submit/hard_limits.cc \
	plugin/job_submit/take_report.h plugin/job_submit/take_report.cc \
	# end
job_submit_arena_la_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_INTERNAL_CPPFLAGS)
job_submit_arena_la_DEPENDENCIES = libarena_slurm.la
job_submit_arena_la_LDFLAGS = $(ARENA_PLUGIN_LDFLAGS)
include plugin/sched/local.mk
include plugin/prolog/local.mk
