# SPDX-License-Identifier: GPL-2.0-or-later
# Communication calls of ranks: the rings in which they are recorded, by code that stands in foreign processes.
noinst_LTLIBRARIES += libarena_watch_ring.la libarena_watch_reader.la
ARENA_RECORDER_CXXFLAGS = $(AM_CXXFLAGS) -fvisibility=hidden -fvisibility-inlines-hidden -fno-exceptions -fno-rtti \
	-fno-threadsafe-statics
libarena_watch_ring_la_SOURCES = \
	watch/ring/hash.h \
	watch/ring/process.h watch/ring/process.cc \
	watch/ring/rank_id.h watch/ring/rank_id.cc \
	watch/ring/record.h \
	watch/ring/ring.h watch/ring/ring.cc \
	watch/ring/ring_file.h watch/ring/ring_file.cc \
	# end
libarena_watch_ring_la_CXXFLAGS = $(ARENA_RECORDER_CXXFLAGS)
libarena_watch_reader_la_SOURCES = \
	watch/reader/ring_csv.h watch/reader/ring_csv.cc \
	watch/reader/ring_reader.h watch/reader/ring_reader.cc \
	# end
watch_libs = libarena_watch_reader.la libarena_watch_ring.la $(base_libs)

# ---- tests ------------------------------------------------------------------------------------
watch_tests = tests/unit/test_watch_ring
if HAVE_CHECK
check_PROGRAMS += $(watch_tests)
TESTS += $(watch_tests)
endif
tests_unit_test_watch_ring_SOURCES = tests/unit/test_watch_ring.cc tests/unit/suite.h
tests_unit_test_watch_ring_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_test_watch_ring_LDADD = $(watch_libs) $(CHECK_LIBS)
EXTRA_DIST += tests/fuzz/parse_ring_header.cc tests/watch/ring_race.cc
