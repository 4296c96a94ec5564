# SPDX-License-Identifier: GPL-2.0-or-later
# arena-train: the reference trainer, a library per room. The kernels are the profiler's; MPI is optional
# (without it the ranks are threads of one process).
bin_PROGRAMS += arena-train
noinst_LTLIBRARIES += libarena_train_comm.la libarena_train_core.la libarena_train_cpu.la \
	libarena_train_checkpoint.la libarena_train_members.la libarena_train_array.la libarena_train_run.la
ARENA_TRAIN_CXXFLAGS = $(AM_CXXFLAGS) $(ARENA_KERNEL_CXXFLAGS)
train_comm_sources = \
	train/comm/comm.h train/comm/comm_threads.cc train/comm/comm_mpi.cc \
	train/comm/messages.h train/comm/messages.cc \
	# end
# OMPI_SKIP_MPICXX: MPI's C interface alone
libarena_train_comm_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) -DOMPI_SKIP_MPICXX=1
libarena_train_comm_la_CXXFLAGS = $(ARENA_TRAIN_CXXFLAGS)
train_core_sources = \
	train/core/shape.h train/core/shape.cc \
	train/core/step_line.h train/core/step_line.cc \
	train/core/parameters.h train/core/parameters.cc \
	train/core/data.h train/core/data.cc \
	train/core/device_memory.h train/core/device.h train/core/device_module.h \
	train/core/weights.h \
	train/core/block.h train/core/block.cc \
	train/core/compute_clock.h train/core/compute_clock.cc \
	train/core/ends.h train/core/ends.cc \
	train/core/pipeline.h train/core/pipeline.cc \
	train/core/optimizer.h train/core/optimizer.cc \
	# end
libarena_train_core_la_CXXFLAGS = $(ARENA_TRAIN_CXXFLAGS)
libarena_train_cpu_la_SOURCES = train/cpu/cpu_device.h train/cpu/cpu_device.cc
libarena_train_cpu_la_CXXFLAGS = $(ARENA_TRAIN_CXXFLAGS)
train_checkpoint_sources = \
	train/checkpoint/checkpoint_file.h train/checkpoint/checkpoint_file.cc \
	train/checkpoint/checkpoint.h train/checkpoint/checkpoint.cc \
	# end
libarena_train_checkpoint_la_CXXFLAGS = $(ARENA_TRAIN_CXXFLAGS)
train_members_sources = \
	train/members/address.h train/members/address.cc \
	train/members/attach.h train/members/attach.cc \
	train/members/desk.h train/members/desk.cc \
	train/members/frames.h train/members/frames.cc \
	train/members/member_options.h train/members/member_options.cc \
	train/members/member_source.h \
	train/members/serving_desk.h train/members/serving_desk.cc \
	# end
libarena_train_members_la_CXXFLAGS = $(ARENA_TRAIN_CXXFLAGS)
train_array_sources = \
	train/array/array_executor.h train/array/array_executor.cc \
	train/array/crew.h train/array/crew.cc \
	train/array/member.h train/array/member.cc \
	train/array/mover.h train/array/mover.cc \
	train/array/round_sums.h train/array/round_sums.cc \
	train/array/skeleton.h train/array/skeleton.cc \
	train/array/states.h train/array/states.cc \
	train/array/timetable.h train/array/timetable.cc \
	# end
libarena_train_array_la_CXXFLAGS = $(ARENA_TRAIN_CXXFLAGS)
train_run_sources = \
	train/run/array_run.h train/run/array_run.cc \
	train/run/chief_control.h train/run/chief_control.cc \
	train/run/control.h train/run/control.cc \
	train/run/device_choice.h train/run/device_choice.cc \
	train/run/hardware_check.h train/run/hardware_check.cc \
	train/run/journal.h train/run/journal.cc \
	train/run/options.h train/run/options.cc \
	train/run/plan.h train/run/plan.cc \
	train/run/rank_host.h train/run/rank_host.cc \
	train/run/report.h train/run/report.cc \
	train/run/role.h train/run/role.cc \
	train/run/trainer.h train/run/trainer.cc \
	# end
libarena_train_run_la_CXXFLAGS = $(ARENA_TRAIN_CXXFLAGS)
ARENA_TRAIN_LIBS = libarena_train_run.la libarena_train_array.la libarena_train_members.la libarena_train_checkpoint.la libarena_train_cpu.la \
	libarena_train_core.la libarena_train_comm.la libarena_watch_wire.la $(array_search_libs) $(ARENA_PROFILER_CPU_LIBS) $(MPI_LIBS) $(NETTLE_LIBS) -ldl
arena_train_SOURCES = train/run/main.cc
arena_train_LDADD = $(ARENA_TRAIN_LIBS)

# What arena-train opens for --device cuda: complete by itself, so that it takes nothing from the program.
cudamoduledir = $(pkglibexecdir)
if HAVE_CUDA
cudamodule_LTLIBRARIES = arena-train-cuda.la
noinst_LTLIBRARIES += libarena_train_cuda_kernels.la
endif
libarena_train_cuda_kernels_la_SOURCES = train/cuda/cuda_train_kernels.h train/cuda/cuda_train_kernels.cu
train/cuda/cuda_train_kernels.lo: $(top_srcdir)/train/cuda/cuda_train_kernels.h $(top_srcdir)/profiler/cuda/cuda_elements.h $(top_srcdir)/profiler/cuda/cuda_common.cuh
arena_train_cuda_la_SOURCES = \
	train/cuda/cuda_device.h train/cuda/cuda_device.cc \
	train/cuda/cuda_lane.h train/cuda/cuda_lane.cc \
	train/cuda/cuda_attention.h train/cuda/cuda_attention.cc
arena_train_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME)/include
if HAVE_CUDNN
arena_train_cuda_la_CPPFLAGS += -DARENA_WITH_CUDNN
endif
if HAVE_NCCL
arena_train_cuda_la_SOURCES += train/cuda/nccl_group.cc
else
arena_train_cuda_la_SOURCES += train/cuda/nccl_absent.cc
endif
arena_train_cuda_la_LDFLAGS = -module -avoid-version -shared -Wl,-z,defs -Wl,-rpath,$(CUDA_HOME)/lib64
arena_train_cuda_la_LIBADD = libarena_train_cuda_kernels.la libarena_cuda.la \
	$(ARENA_CUDA_LIBS) $(ARENA_CUDNN_LIBS) $(ARENA_NCCL_LIBS) $(FMT_LIBS)

# ---- tests ------------------------------------------------------------------------------------
check_PROGRAMS += tests/tools/fake_chief
tests_tools_fake_chief_SOURCES = tests/tools/fake_chief.cc
tests_tools_fake_chief_LDADD = $(watch_wire_libs)
# Built by `make check`, run by hand.
check_PROGRAMS += tests/bench/array_switch
tests_bench_array_switch_SOURCES = tests/bench/array_switch.cc
tests_bench_array_switch_LDADD = $(ARENA_TRAIN_LIBS)
EXTRA_DIST += tests/bench/array-speed
TESTS += tests/t0720-array-executor.t
dist_check_SCRIPTS += tests/t0720-array-executor.t
tests/t0720-array-executor.log: arena-train$(EXEEXT)
TESTS += tests/t0400-train.t tests/t0405-train-faults.t tests/t0410-train-in-slurm.t tests/t0415-train-rank-dies.t tests/t0420-train-device.t tests/t0430-report.t tests/t0435-elastic-training.t tests/t0440-measure.t tests/t0510-train-control.t tests/t0515-train-under-chief.t
dist_check_SCRIPTS += tests/t0400-train.t tests/t0405-train-faults.t tests/t0410-train-in-slurm.t tests/t0415-train-rank-dies.t tests/t0420-train-device.t tests/t0430-report.t tests/t0435-elastic-training.t tests/t0440-measure.t tests/t0510-train-control.t tests/t0515-train-under-chief.t
EXTRA_DIST += tests/fuzz/parse_array_frame.cc tests/train/gpt_numpy.py tests/train/gpt_pytorch.py tests/bench/train-vs-pytorch tests/bench/train-resume tests/bench/trainer-accuracy
tests/t0400-train.log tests/t0405-train-faults.log tests/t0410-train-in-slurm.log tests/t0415-train-rank-dies.log tests/t0430-report.log tests/t0435-elastic-training.log tests/t0440-measure.log tests/t0510-train-control.log: arena-train$(EXEEXT)
tests/t0515-train-under-chief.log: arena-train$(EXEEXT) tests/tools/fake_chief$(EXEEXT)
tests/t0405-train-faults.log: tests/tools/kill_at_call.so
tests/t0420-train-device.log: arena-train$(EXEEXT) tests/train/emulated_device.so
check_DATA = tests/train/emulated_device.so
# A module as arena-train-cuda.so is, for a device that is emulated on the host.
tests/train/emulated_device.so: tests/train/emulated_device.cc train/core/device.h train/core/device_module.h libarena_train_cpu.la libarena_profiler_cpu.la
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) -I. $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CXXFLAGS) $(CXXFLAGS) -shared -fPIC \
	    -Wl,-z,defs -o $@ $(srcdir)/tests/train/emulated_device.cc .libs/libarena_train_cpu.a .libs/libarena_profiler_cpu.a \
	    $(ARENA_BLAS_LIBS) $(FMT_LIBS) -lgomp -lpthread
CLEANFILES += tests/train/emulated_device.so
dist_man_MANS += doc/man/arena-train.1
