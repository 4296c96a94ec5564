# SPDX-License-Identifier: GPL-2.0-or-later
# arena-train: the reference trainer. The kernels are the profiler's; MPI is optional (without it the ranks
# are threads of one process).
bin_PROGRAMS += arena-train
noinst_LTLIBRARIES += libarena_train_base.la libarena_train.la
# What knows no device.
libarena_train_base_la_SOURCES = \
	train/core/shape.h train/core/shape.cc \
	train/comm/comm.h train/comm/comm_threads.cc train/comm/comm_mpi.cc \
	train/core/parameters.h train/core/parameters.cc \
	train/core/data.h train/core/data.cc \
	train/run/gpu_program.h train/run/gpu_program.cc \
	train/checkpoint/checkpoint_file.h train/checkpoint/checkpoint_file.cc \
	# end
libarena_train_base_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
libarena_train_base_la_CXXFLAGS = $(AM_CXXFLAGS) $(ARENA_KERNEL_CXXFLAGS)
# What is compiled for a device (train/core/device.h): once for the CPU, once for those with memory of their own.
ARENA_TRAIN_ON_DEVICE = \
	train/core/device.h train/core/weights.h train/cpu/cpu_device.h \
	train/core/block.h train/core/block.cc \
	train/core/ends.h train/core/ends.cc \
	train/core/pipeline.h train/core/pipeline.cc \
	train/core/optimizer.h train/core/optimizer.cc \
	train/run/plan.h train/run/plan.cc \
	train/checkpoint/checkpoint.h train/checkpoint/checkpoint.cc \
	train/run/report.h train/run/report.cc \
	train/run/trainer.h train/run/trainer.cc \
	# end
libarena_train_la_SOURCES = $(ARENA_TRAIN_ON_DEVICE) train/cpu/cpu_device.cc
libarena_train_la_CXXFLAGS = $(AM_CXXFLAGS) $(ARENA_KERNEL_CXXFLAGS)
ARENA_TRAIN_LIBS = libarena_train.la libarena_train_base.la $(ARENA_PROFILER_CPU_LIBS) $(MPI_LIBS)
ARENA_TRAIN_MAIN = train/run/main.cc train/run/options.h train/run/options.cc
arena_train_SOURCES = $(ARENA_TRAIN_MAIN)
arena_train_LDADD = $(ARENA_TRAIN_LIBS)

ARENA_FAR = -DARENA_TRAIN_DEVICE='"train/core/far_device.h"'
libarena_train_far_la_SOURCES = $(ARENA_TRAIN_ON_DEVICE) train/core/far.h train/core/far_device.h train/core/far_device.cc
libarena_train_far_la_CPPFLAGS = $(AM_CPPFLAGS) $(ARENA_FAR)
if HAVE_CUDA
noinst_LTLIBRARIES += libarena_train_far.la
pkglibexec_PROGRAMS += arena-train-cuda
else
check_LTLIBRARIES += libarena_train_far.la
endif
# The program that arena-train becomes where it trains on GPUs.
arena_train_cuda_SOURCES = $(ARENA_TRAIN_MAIN) \
	train/cuda/cuda_device.h train/cuda/cuda_device.cc \
	train/cuda/cuda_attention.h train/cuda/cuda_attention.cc \
	train/cuda/cuda_train_kernels.h train/cuda/cuda_train_kernels.cu \
	profiler/cuda/cuda_gemm.h profiler/cuda/cuda_gemm.cc \
	profiler/cuda/cuda_kernels.h profiler/cuda/cuda_common.cuh profiler/cuda/cuda_elements.h profiler/cuda/cuda_kernels.cu
arena_train_cuda_CPPFLAGS = $(AM_CPPFLAGS) $(ARENA_FAR) -isystem $(CUDA_HOME)/include
if HAVE_CUDNN
arena_train_cuda_SOURCES += $(ARENA_CUDNN_SOURCES)
arena_train_cuda_CPPFLAGS += -DARENA_WITH_CUDNN
endif
if HAVE_NCCL
arena_train_cuda_SOURCES += train/cuda/nccl_group.cc
else
arena_train_cuda_SOURCES += train/cuda/no_nccl_group.cc
endif
arena_train_cuda_LDFLAGS = -Wl,-rpath,$(CUDA_HOME)/lib64
arena_train_cuda_LDADD = libarena_train_far.la libarena_train_base.la $(search_libs) \
	$(ARENA_CUDA_LIBS) $(ARENA_CUDNN_LIBS) $(ARENA_NCCL_LIBS) $(MPI_LIBS)
train/cuda/cuda_train_kernels.o: $(top_srcdir)/train/cuda/cuda_train_kernels.h $(top_srcdir)/profiler/cuda/cuda_elements.h $(top_srcdir)/profiler/cuda/cuda_common.cuh
# The same program over a device that is emulated on the host: for tests, never installed.
check_PROGRAMS += arena-train-emulated
ARENA_EMULATED = tests/train/emulated_device.cc train/cpu/cpu_device.cc
arena_train_emulated_SOURCES = $(ARENA_TRAIN_MAIN) $(ARENA_EMULATED)
arena_train_emulated_CPPFLAGS = $(AM_CPPFLAGS) $(ARENA_FAR)
arena_train_emulated_CXXFLAGS = $(AM_CXXFLAGS) $(ARENA_KERNEL_CXXFLAGS)
arena_train_emulated_LDADD = libarena_train_far.la libarena_train_base.la $(ARENA_PROFILER_CPU_LIBS) $(MPI_LIBS)

# ---- tests ------------------------------------------------------------------------------------
train_tests = tests/unit/test_train_layers tests/unit/test_train_plans tests/unit/test_train_checkpoint \
	tests/unit/test_train_far
if HAVE_CHECK
check_PROGRAMS += $(train_tests)
TESTS += $(train_tests)
endif
tests_unit_test_train_layers_SOURCES = tests/unit/test_train_layers.cc tests/unit/train_cases.h tests/unit/suite.h
tests_unit_test_train_layers_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_test_train_layers_LDADD = $(ARENA_TRAIN_LIBS) $(CHECK_LIBS)
tests_unit_test_train_far_SOURCES = tests/unit/test_train_far.cc tests/unit/suite.h $(ARENA_EMULATED)
tests_unit_test_train_far_CPPFLAGS = $(AM_CPPFLAGS) $(ARENA_FAR) $(CHECK_CFLAGS)
tests_unit_test_train_far_CXXFLAGS = $(AM_CXXFLAGS) $(ARENA_KERNEL_CXXFLAGS)
tests_unit_test_train_far_LDADD = libarena_train_far.la libarena_train_base.la $(ARENA_PROFILER_CPU_LIBS) $(MPI_LIBS) $(CHECK_LIBS)
tests_unit_test_train_plans_SOURCES = tests/unit/test_train_plans.cc tests/unit/train_cases.h tests/unit/suite.h
tests_unit_test_train_plans_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_test_train_plans_LDADD = $(ARENA_TRAIN_LIBS) $(CHECK_LIBS)
tests_unit_test_train_checkpoint_SOURCES = tests/unit/test_train_checkpoint.cc tests/unit/train_cases.h tests/unit/suite.h
tests_unit_test_train_checkpoint_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_test_train_checkpoint_LDADD = $(ARENA_TRAIN_LIBS) $(CHECK_LIBS)
TESTS += tests/t0400-train.t tests/t0405-train-faults.t tests/t0410-train-in-slurm.t tests/t0415-train-rank-dies.t tests/t0420-train-device.t tests/t0430-report.t tests/t0435-elastic-training.t tests/t0440-measure.t
dist_check_SCRIPTS += tests/t0400-train.t tests/t0405-train-faults.t tests/t0410-train-in-slurm.t tests/t0415-train-rank-dies.t tests/t0420-train-device.t tests/t0430-report.t tests/t0435-elastic-training.t tests/t0440-measure.t
EXTRA_DIST += tests/train/gpt_numpy.py tests/train/gpt_pytorch.py tests/bench/train-vs-pytorch tests/bench/train-resume tests/bench/trainer-accuracy
tests/t0400-train.log tests/t0405-train-faults.log tests/t0410-train-in-slurm.log tests/t0415-train-rank-dies.log tests/t0430-report.log tests/t0435-elastic-training.log tests/t0440-measure.log: arena-train$(EXEEXT)
tests/t0405-train-faults.log: tests/tools/kill_at_call.so
tests/t0420-train-device.log: arena-train$(EXEEXT) arena-train-emulated$(EXEEXT)
check_DATA = tests/tools/kill_at_call.so
tests/tools/kill_at_call.so: tests/tools/kill_at_call.cc
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) -std=c++20 $(CXXFLAGS) -shared -fPIC -o $@ $(srcdir)/tests/tools/kill_at_call.cc -ldl
CLEANFILES += tests/tools/kill_at_call.so
EXTRA_DIST += tests/tools/kill_at_call.cc
dist_man_MANS += doc/man/arena-train.1
