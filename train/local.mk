# SPDX-License-Identifier: GPL-2.0-or-later
# arena-train: the reference trainer. The kernels are the profiler's; MPI is optional (without it the ranks
# are threads of one process).
bin_PROGRAMS += arena-train
noinst_LTLIBRARIES += libarena_train.la
libarena_train_la_SOURCES = \
	train/shape.h train/shape.cc \
	train/comm.h train/comm_threads.cc train/comm_mpi.cc \
	train/device.h train/cpu_device.h train/cpu_device.cc train/weights.h \
	train/parameters.h train/parameters.cc \
	train/block.h train/block.cc \
	train/ends.h train/ends.cc \
	train/pipeline.h train/pipeline.cc \
	train/optimizer.h train/optimizer.cc \
	train/data.h train/data.cc \
	train/plan.h train/plan.cc \
	train/checkpoint_file.h train/checkpoint_file.cc \
	train/checkpoint.h train/checkpoint.cc \
	train/trainer.h train/trainer.cc \
	# end
libarena_train_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
libarena_train_la_CXXFLAGS = $(AM_CXXFLAGS) $(ARENA_KERNEL_CXXFLAGS)
ARENA_TRAIN_LIBS = libarena_train.la $(ARENA_PROFILER_CPU_LIBS) $(MPI_LIBS)
arena_train_SOURCES = train/main.cc train/options.h train/options.cc
arena_train_LDADD = $(ARENA_TRAIN_LIBS)

# ---- tests ------------------------------------------------------------------------------------
train_tests = tests/unit/test_train_layers tests/unit/test_train_plans tests/unit/test_train_checkpoint
if HAVE_CHECK
check_PROGRAMS += $(train_tests)
TESTS += $(train_tests)
endif
tests_unit_test_train_layers_SOURCES = tests/unit/test_train_layers.cc tests/unit/train_cases.h tests/unit/suite.h
tests_unit_test_train_layers_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_test_train_layers_LDADD = $(ARENA_TRAIN_LIBS) $(CHECK_LIBS)
tests_unit_test_train_plans_SOURCES = tests/unit/test_train_plans.cc tests/unit/train_cases.h tests/unit/suite.h
tests_unit_test_train_plans_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_test_train_plans_LDADD = $(ARENA_TRAIN_LIBS) $(CHECK_LIBS)
tests_unit_test_train_checkpoint_SOURCES = tests/unit/test_train_checkpoint.cc tests/unit/train_cases.h tests/unit/suite.h
tests_unit_test_train_checkpoint_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_test_train_checkpoint_LDADD = $(ARENA_TRAIN_LIBS) $(CHECK_LIBS)
TESTS += tests/t0400-train.t tests/t0405-train-faults.t tests/t0410-train-in-slurm.t
dist_check_SCRIPTS += tests/t0400-train.t tests/t0405-train-faults.t tests/t0410-train-in-slurm.t
EXTRA_DIST += tests/train/gpt_numpy.py tests/train/gpt_pytorch.py tests/bench/train-vs-pytorch
tests/t0400-train.log tests/t0405-train-faults.log tests/t0410-train-in-slurm.log: arena-train$(EXEEXT)
tests/t0405-train-faults.log: tests/tools/kill_at_call.so
check_DATA = tests/tools/kill_at_call.so
tests/tools/kill_at_call.so: tests/tools/kill_at_call.cc
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) -std=c++20 $(CXXFLAGS) -shared -fPIC -o $@ $(srcdir)/tests/tools/kill_at_call.cc -ldl
CLEANFILES += tests/tools/kill_at_call.so
EXTRA_DIST += tests/tools/kill_at_call.cc
dist_man_MANS += doc/man/arena-train.1
