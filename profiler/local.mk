# SPDX-License-Identifier: GPL-2.0-or-later
# arena-profiler (CPU) and arena-profiler-cuda are the same program over two back-ends. The first becomes
# the second when a GPU is asked for, so that no CUDA library is loaded otherwise.
pkglibexec_PROGRAMS += arena-profiler
noinst_LTLIBRARIES += libarena_profiler_core.la libarena_profiler_check.la libarena_profiler_cpu.la libarena_profiler_comm.la libarena_profiler_run.la
profiler_core_sources = \
	profiler/core/cpu_memory.h profiler/core/cpu_memory.cc \
	profiler/core/measure.h profiler/core/measure.cc \
	profiler/core/nvml.h profiler/core/nvml.cc \
	profiler/core/operator.h \
	profiler/core/options.h profiler/core/options.cc \
	profiler/core/progress.h profiler/core/progress.cc \
	profiler/core/prolog_help.h profiler/core/prolog_help.cc \
	profiler/core/recorder.h profiler/core/recorder.cc \
	profiler/core/request.h profiler/core/request.cc \
	profiler/core/topology.h profiler/core/topology.cc \
	# end
libarena_profiler_core_la_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CFLAGS)
profiler_check_sources = \
	profiler/check/check_command.h profiler/check/check_command.cc \
	profiler/check/check_run.h profiler/check/check_run.cc \
	profiler/check/links.h profiler/check/host_links.cc \
	# end
libarena_profiler_cpu_la_SOURCES = \
	profiler/cpu/cpu_attention.cc \
	profiler/cpu/cpu_backend.h profiler/cpu/cpu_backend.cc \
	profiler/cpu/cpu_conv.cc \
	profiler/cpu/cpu_device.h profiler/cpu/cpu_device.cc \
	profiler/cpu/cpu_gemm.cc \
	profiler/cpu/cpu_images.cc \
	profiler/cpu/cpu_kernels.h \
	profiler/cpu/cpu_layer.h profiler/cpu/cpu_layer.cc \
	profiler/cpu/cpu_math.h \
	profiler/cpu/cpu_rows.cc \
	profiler/cpu/cpu_stack.h profiler/cpu/cpu_stack.cc \
	# end
libarena_profiler_cpu_la_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS) $(HWLOC_CFLAGS)
libarena_profiler_cpu_la_CXXFLAGS = $(AM_CXXFLAGS) $(ARENA_KERNEL_CXXFLAGS)
profiler_comm_sources = \
	profiler/comm/comm.h \
	profiler/comm/comm_bench.h profiler/comm/comm_bench.cc \
	profiler/comm/comm_command.h profiler/comm/comm_command.cc \
	profiler/comm/host_ranks.h profiler/comm/host_ranks.cc \
	profiler/comm/launcher.h profiler/comm/launcher.cc \
	profiler/comm/node_span.h profiler/comm/node_span.cc \
	profiler/comm/thread_transport.h profiler/comm/thread_transport.cc \
	profiler/comm/transport.h \
	profiler/comm/watch.h profiler/comm/watch.cc \
	# end
libarena_profiler_comm_la_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CFLAGS)
# What the profiler opens for ranks that an MPI launcher started: complete by itself, and the only part that needs MPI.
profilermoduledir = $(pkglibexecdir)
if HAVE_MPI
profilermodule_LTLIBRARIES = arena-profiler-mpi.la
endif
arena_profiler_mpi_la_SOURCES = profiler/comm/mpi_transport.cc
arena_profiler_mpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
arena_profiler_mpi_la_LDFLAGS = -module -avoid-version -shared -Wl,-z,defs
arena_profiler_mpi_la_LIBADD = $(MPI_LIBS)
# What the program over CUDA does not link, for it is of CPUs.
profiler_direct_sources = \
	profiler/run/direct.h profiler/run/direct.cc \
	profiler/run/direct_command.h profiler/run/direct_command.cc \
	# end
profiler_run_sources = \
	profiler/run/predict.h profiler/run/predict.cc \
	profiler/run/run_command.h profiler/run/run_command.cc \
	profiler/run/session.h profiler/run/session.cc \
	# end
# The kernels are what is measured: always at -O3, whatever CXXFLAGS says of the rest.
ARENA_KERNEL_CXXFLAGS = -O3 -fno-math-errno -fno-trapping-math -fopenmp
if HAVE_ONEDNN
ARENA_BLAS_LIBS = -ldnnl
else
ARENA_BLAS_LIBS = $(OPENBLAS_LIBS)
endif
ARENA_PROFILER_LIBS = libarena_profiler_run.la libarena_profiler_comm.la libarena_profiler_check.la libarena_checks.la libarena_slowdown.la
ARENA_PROFILER_CPU_LIBS = $(ARENA_PROFILER_LIBS) libarena_profiler_cpu.la libarena_profiler_core.la $(search_libs) $(ARENA_BLAS_LIBS) $(HWLOC_LIBS) -lgomp -lpthread -ldl
arena_profiler_SOURCES = profiler/run/main.cc profiler/comm/no_communicator.cc
arena_profiler_LDADD = $(ARENA_PROFILER_CPU_LIBS)

# For tests of failures, never installed: the same program over a device that fails as it is told to.
check_PROGRAMS += arena-profiler-faulty
arena_profiler_faulty_SOURCES = profiler/run/main.cc tests/tools/faulty_backend.cc tests/tools/faulty_communicator.cc
arena_profiler_faulty_CPPFLAGS = $(AM_CPPFLAGS) -DARENA_FAULTY
arena_profiler_faulty_LDADD = $(ARENA_PROFILER_CPU_LIBS)

if HAVE_CUDA
pkglibexec_PROGRAMS += arena-profiler-cuda
noinst_LTLIBRARIES += libarena_cuda.la
check_PROGRAMS += tests/gpu/test_cuda
if HAVE_CUDNN
check_PROGRAMS += tests/gpu/test_cudnn
endif
if HAVE_NCCL
check_PROGRAMS += tests/gpu/test_nccl
endif
endif
arena_profiler_cuda_SOURCES = profiler/run/main.cc profiler/cuda/cuda_backend.h profiler/cuda/cuda_backend.cc \
	profiler/cuda/cuda_identity.h profiler/cuda/cuda_identity.cc \
	profiler/cuda/cuda_links.h profiler/cuda/cuda_links.cc \
	profiler/cuda/cuda_recipes.h profiler/cuda/cuda_recipes.cc \
	profiler/cuda/cuda_layer.h profiler/cuda/cuda_layer.cc
# What arena-train's CUDA module computes with, too.
libarena_cuda_la_SOURCES = \
	profiler/cuda/cuda_gemm.h profiler/cuda/cuda_gemm.cc \
	profiler/cuda/cuda_kernels.h profiler/cuda/cuda_common.cuh profiler/cuda/cuda_elements.h profiler/cuda/cuda_kernels.cu
libarena_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME)/include
ARENA_CUDNN_LIBS =
arena_profiler_cuda_SOURCES += profiler/cuda/cuda_recipe.h profiler/cuda/cudnn_recipes.h
if HAVE_CUDNN
libarena_cuda_la_SOURCES += profiler/cuda/cudnn_graph.h profiler/cuda/cudnn_graph.cc \
	profiler/cuda/cudnn_attention.h profiler/cuda/cudnn_attention.cc
arena_profiler_cuda_SOURCES += profiler/cuda/cudnn_recipes.cc
ARENA_CUDNN_LIBS += -lcudnn
else
arena_profiler_cuda_SOURCES += profiler/cuda/no_cudnn.cc
endif
ARENA_NCCL_LIBS =
if HAVE_NCCL
arena_profiler_cuda_SOURCES += profiler/comm/nccl_communicator.cc
ARENA_NCCL_LIBS += -lnccl
else
arena_profiler_cuda_SOURCES += profiler/comm/no_communicator.cc
endif
arena_profiler_cuda_CPPFLAGS = $(AM_CPPFLAGS) -DARENA_WITH_CUDA -isystem $(CUDA_HOME)/include
# The Prolog's environment has no LD_LIBRARY_PATH: the program itself says where cuBLASLt lies.
arena_profiler_cuda_LDFLAGS = -Wl,-rpath,$(CUDA_HOME)/lib64
arena_profiler_cuda_LDADD = $(ARENA_PROFILER_LIBS) libarena_profiler_core.la libarena_cuda.la $(search_libs) $(HWLOC_LIBS) $(ARENA_CUDA_LIBS) $(ARENA_CUDNN_LIBS) $(ARENA_NCCL_LIBS)
ARENA_CUDA_LIBS = -L$(CUDA_HOME)/lib64 -lcublasLt -lcudart_static -ldl -lrt -lpthread
# sm_80: A100; sm_90: H100; PTX for what comes later. NVCCFLAGS adds to it.
ARENA_NVCCFLAGS = -std=c++20 -O3 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
	-gencode arch=compute_90,code=compute_90
AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =
SUFFIXES = .cu
.cu.lo:
	$(AM_V_NVCC)$(MKDIR_P) $(@D) && $(LIBTOOL) --silent --tag=CXX --mode=compile $(NVCC) -forward-unknown-to-host-compiler \
	    $(ARENA_NVCCFLAGS) $(NVCCFLAGS) -I$(top_srcdir)/src -I$(top_srcdir) -c -o $@ $<
profiler/cuda/cuda_kernels.lo: $(top_srcdir)/profiler/cuda/cuda_kernels.h $(top_srcdir)/profiler/cuda/cuda_common.cuh $(top_srcdir)/profiler/cuda/cuda_elements.h
tests_gpu_test_cudnn_SOURCES = tests/gpu/test_cudnn.cc tests/gpu/device_array.h
tests_gpu_test_cudnn_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME)/include
tests_gpu_test_cudnn_LDFLAGS = -Wl,-rpath,$(CUDA_HOME)/lib64
tests_gpu_test_cudnn_LDADD = libarena_cuda.la $(core_libs) $(ARENA_CUDA_LIBS) $(ARENA_CUDNN_LIBS)
tests_gpu_test_nccl_SOURCES = tests/gpu/test_nccl.cc
tests_gpu_test_nccl_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME)/include
tests_gpu_test_nccl_LDFLAGS = -Wl,-rpath,$(CUDA_HOME)/lib64
tests_gpu_test_nccl_LDADD = $(ARENA_CUDA_LIBS) $(ARENA_NCCL_LIBS)
tests_gpu_test_cuda_SOURCES = tests/gpu/test_cuda.cc tests/gpu/device_array.h
tests_gpu_test_cuda_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME)/include
tests_gpu_test_cuda_LDFLAGS = -Wl,-rpath,$(CUDA_HOME)/lib64
tests_gpu_test_cuda_LDADD = libarena_train_cuda_kernels.la libarena_cuda.la libarena_train_cpu.la $(ARENA_PROFILER_CPU_LIBS) $(ARENA_CUDA_LIBS)
EXTRA_DIST += tests/gpu/run tests/gpu/first tests/gpu/compare tests/gpu/train tests/gpu/gpt_torch.py tests/tools/faulty_backend.cc tests/tools/faulty_communicator.cc
.PHONY: check-gpu-programs check-gpu
check-gpu-programs: $(check_PROGRAMS) all
check-gpu: check-gpu-programs
	ARENA_SRCDIR='$(abs_top_srcdir)' $(srcdir)/tests/gpu/run '$(abs_top_builddir)'

# ---- tests of the profile store and the profiler -------------------------------------------------
EXTRA_DIST += tests/fuzz/parse_comm_csv.cc tests/fuzz/parse_progress.cc tests/bench/profile-accuracy tests/bench/profile-cost \
	tests/bench/profile_rounds.py
profiler_black_box_tests = \
	tests/t0260-throttled-profile.t \
	tests/t0265-profiler-faults.t \
	tests/t0266-device-faults-in-slurm.t \
	tests/t0267-comm-over-nodes.t \
	tests/t0268-profiler-by-hand.t \
	tests/t0269-comm-by-mpi.t \
	tests/t0270-prolog.t \
	tests/t0275-profile-run.t \
	tests/t0280-gpu.t \
	# end
TESTS += $(profiler_black_box_tests)
dist_check_SCRIPTS += $(profiler_black_box_tests)
dist_man_MANS += doc/man/arena-profiler.8
