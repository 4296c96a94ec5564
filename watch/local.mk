# SPDX-License-Identifier: GPL-2.0-or-later
# The recorder that stands in ranks (two preloaded libraries), the rings it writes, and arena-watch, which reads them.
# A preloaded library comes before all of a foreign program: it is linked as C, for a C++ library of ours in front of the
# program's own would be an older or a newer one than it needs.
bin_PROGRAMS += arena-watch
include_HEADERS = watch/arena_watch.h
watchdir = $(pkglibexecdir)
watch_LTLIBRARIES = libarena_watch.la
noinst_LTLIBRARIES += libarena_watch_ring.la libarena_watch_reader.la libarena_watch_wire.la libarena_watch_chief.la libarena_watch_agent.la
ARENA_RECORDER_CXXFLAGS = $(AM_CXXFLAGS) -fvisibility=hidden -fvisibility-inlines-hidden -fno-exceptions -fno-rtti \
	-fno-threadsafe-statics
# Never unloaded: who opens it again (NCCL does, with each first communicator) has the same ring.
ARENA_RECORDER_LDFLAGS = -avoid-version -shared -Wl,-z,defs -Wl,-z,nodelete
ARENA_RECORDER_LINK = $(LIBTOOL) $(AM_V_lt) --tag=CC $(AM_LIBTOOLFLAGS) $(LIBTOOLFLAGS) --mode=link $(CC) $(CFLAGS)

libarena_watch_ring_la_SOURCES = \
	watch/ring/hash.h \
	watch/ring/process.h watch/ring/process.cc \
	watch/ring/rank_id.h watch/ring/rank_id.cc \
	watch/ring/record.h \
	watch/ring/ring.h watch/ring/ring.cc \
	watch/ring/ring_file.h watch/ring/ring_file.cc \
	# end
libarena_watch_ring_la_CXXFLAGS = $(ARENA_RECORDER_CXXFLAGS)
watch_reader_sources = \
	watch/reader/ring_csv.h watch/reader/ring_csv.cc \
	watch/reader/ring_reader.h watch/reader/ring_reader.cc \
	# end
watch_chief_sources = \
	watch/chief/answers.h watch/chief/answers.cc \
	watch/chief/checks.h watch/chief/checks.cc \
	watch/chief/chief.h watch/chief/chief.cc \
	watch/chief/culprits.h watch/chief/culprits.cc \
	watch/chief/event.cc \
	watch/chief/lines.h watch/chief/lines.cc \
	watch/chief/log_directory.h watch/chief/log_directory.cc \
	watch/chief/profile.h watch/chief/profile.cc \
	watch/chief/report_sender.h watch/chief/report_sender.cc \
	watch/chief/state.h \
	watch/chief/steer.cc \
	watch/chief/tracking.h watch/chief/tracking.cc \
	watch/chief/trainer.h watch/chief/trainer.cc \
	watch/chief/validation.cc \
	watch/chief/waiting.cc \
	# end
watch_chief_libs = libarena_watch_chief.la libarena_reports.la libarena_core.la $(slowdown_libs)
watch_wire_sources = \
	watch/wire/frames.h watch/wire/frames.cc \
	watch/wire/line_stream.h watch/wire/line_stream.cc \
	watch/wire/link.h watch/wire/link.cc watch/wire/listener.cc \
	watch/wire/meeting.h watch/wire/meeting.cc \
	watch/wire/sealed_line.h watch/wire/sealed_line.cc \
	# end
libarena_watch_wire_la_CPPFLAGS = $(AM_CPPFLAGS) $(NETTLE_CFLAGS)
watch_wire_libs = libarena_watch_wire.la $(base_libs) $(NETTLE_LIBS)
watch_agent_sources = \
	watch/agent/agent.h watch/agent/agent.cc \
	watch/agent/agent_loop.h watch/agent/agent_loop.cc \
	watch/agent/chief_here.h watch/agent/chief_here.cc \
	watch/agent/commands.h watch/agent/commands.cc \
	watch/agent/gpu_index.h watch/agent/gpu_index.cc \
	watch/agent/rank_profile.h watch/agent/rank_profile.cc \
	watch/agent/node_rings.h watch/agent/node_rings.cc \
	watch/agent/overhead.h watch/agent/overhead.cc \
	watch/agent/rank_watch.h watch/agent/rank_watch.cc \
	# end
watch_agent_libs = libarena_watch_agent.la libarena_watch_chief.la libarena_watch_wire.la libarena_watch_reader.la \
	libarena_watch_ring.la $(slowdown_libs) $(reports_libs) $(NETTLE_LIBS)
watch_libs = libarena_watch_reader.la libarena_watch_ring.la $(base_libs)
arena_watch_SOURCES = watch/main.cc
arena_watch_LDADD = $(watch_agent_libs)

libarena_watch_la_SOURCES = \
	watch/recorder/comms.h watch/recorder/comms.cc \
	watch/recorder/nccl_calls.h watch/recorder/nccl_front.cc \
	watch/recorder/nccl_comms.h watch/recorder/nccl_comms.cc \
	watch/recorder/nccl_profiler_abi.h watch/recorder/nccl_profiler.cc \
	watch/recorder/real.h watch/recorder/real.cc \
	watch/recorder/recorder.h watch/recorder/recorder.cc \
	watch/recorder/step_front.cc \
	# end
libarena_watch_la_CXXFLAGS = $(ARENA_RECORDER_CXXFLAGS)
libarena_watch_la_LIBADD = libarena_watch_ring.la
libarena_watch_la_LDFLAGS = $(ARENA_RECORDER_LDFLAGS)
libarena_watch_la_LINK = $(ARENA_RECORDER_LINK) $(libarena_watch_la_LDFLAGS) $(LDFLAGS) -o $@

# Found beside it, wherever the directory lies: given to the linker as a file (see plugin/local.mk).
if HAVE_MPI
watch_LTLIBRARIES += libarena_watch_mpi.la
endif
libarena_watch_mpi_la_SOURCES = \
	watch/recorder/mpi_calls.h watch/recorder/mpi_front.cc \
	watch/recorder/real.cc \
	# end
libarena_watch_mpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
libarena_watch_mpi_la_CXXFLAGS = $(ARENA_RECORDER_CXXFLAGS)
libarena_watch_mpi_la_LDFLAGS = $(ARENA_RECORDER_LDFLAGS) -Wl,-rpath,'$$ORIGIN' -Wl,--no-as-needed,.libs/libarena_watch.so,--as-needed
libarena_watch_mpi_la_DEPENDENCIES = libarena_watch.la
libarena_watch_mpi_la_LINK = $(ARENA_RECORDER_LINK) $(libarena_watch_mpi_la_LDFLAGS) $(LDFLAGS) -o $@
dist_man_MANS += doc/man/arena-watch.1

# ---- tests ------------------------------------------------------------------------------------
if HAVE_NCCL
check_PROGRAMS += tests/watch/nccl_abi
endif
tests_watch_nccl_abi_SOURCES = tests/watch/nccl_abi.cc
tests_watch_nccl_abi_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME)/include
TESTS += tests/t0540-watch-recorder.t tests/t0545-watch-agent.t
dist_check_SCRIPTS += tests/t0540-watch-recorder.t tests/t0545-watch-agent.t
tests/t0540-watch-recorder.log: arena-watch$(EXEEXT) arena-train$(EXEEXT) $(watch_LTLIBRARIES) tests/watch/nccl_program
check_PROGRAMS += tests/watch/listen
tests_watch_listen_SOURCES = tests/watch/listen.cc
tests_watch_listen_LDADD = $(watch_wire_libs)
tests/t0545-watch-agent.log: arena-watch$(EXEEXT) arena-train$(EXEEXT) $(watch_LTLIBRARIES) tests/watch/nccl_program tests/watch/listen$(EXEEXT)
# A program that stands for one with NCCL, and a libnccl that stands for NCCL's.
tests/watch/libnccl.so.2: tests/watch/stub_nccl.cc watch/recorder/nccl_calls.h
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) -I$(srcdir) -I$(srcdir)/src $(CXXFLAGS) -shared -fPIC -Wl,-soname,libnccl.so.2 -o $@ $(srcdir)/tests/watch/stub_nccl.cc
tests/watch/nccl_program: tests/watch/nccl_program.cc watch/recorder/nccl_calls.h watch/arena_watch.h tests/watch/libnccl.so.2
	$(AM_V_CXX)$(CXX) -I$(srcdir) -I$(srcdir)/src $(CXXFLAGS) -o $@ $(srcdir)/tests/watch/nccl_program.cc tests/watch/libnccl.so.2 -Wl,-rpath,'$$ORIGIN' -lpthread
check_DATA += tests/watch/libnccl.so.2 tests/watch/nccl_program
CLEANFILES += tests/watch/libnccl.so.2 tests/watch/nccl_program
EXTRA_DIST += tests/fuzz/parse_ring_header.cc tests/fuzz/parse_watch_frame.cc tests/fuzz/parse_greeting.cc tests/fuzz/parse_word.cc tests/watch/stub_nccl.cc tests/watch/nccl_program.cc tests/watch/ring_race.cc tests/bench/watch-overhead tests/bench/watched-training
# Built by `make check`, run by tests/bench/watch-overhead.
check_PROGRAMS += tests/bench/watch_overhead
tests_bench_watch_overhead_SOURCES = tests/bench/watch_overhead.cc
tests_bench_watch_overhead_LDADD = libarena_watch_ring.la tests/watch/libnccl.so.2
tests_bench_watch_overhead_LDFLAGS = -Wl,-rpath,'$(abs_top_builddir)/tests/watch'
