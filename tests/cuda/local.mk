# SPDX-License-Identifier: GPL-2.0-or-later
# The software device, and our CUDA programs linked anew over it: the same objects, with the shared CUDA runtime.
# Built by `make soft-gpu` and by what tests it.
soft_gpu_sources = cublaslt cudart cudnn cudnn_run driver launch memory nccl streams
soft_gpu_kernels = profiler/cuda/cuda_kernels train/cuda/cuda_train_kernels
soft_gpu_objects = $(soft_gpu_sources:%=tests/cuda/%.o) $(soft_gpu_kernels:%=tests/cuda/%.o)
soft_gpu_headers = tests/cuda/device.h tests/cuda/numbers.h tests/cuda/cudnn.h tests/cuda/kernel_words.h
soft_gpu_names = libcudart.so.13 libcublasLt.so.13 libcudnn.so.9 libnccl.so.2 libcuda.so.1 libnvidia-ml.so.1
soft_gpu_programs = tests/cuda/arena-profiler-cuda tests/cuda/test_cuda tests/cuda/test_cudnn tests/cuda/test_nccl tests/cuda/arena-train tests/cuda/arena-train-cuda.la \
	tests/cuda/misuse
SOFT_GPU_CXX = $(CXX) -std=c++20 -O3 -g -fno-math-errno -fPIC $(CXXFLAGS) -I$(top_srcdir) -I$(top_srcdir)/src -isystem $(CUDA_HOME)/include
soft_gpu_dependencies = $(soft_gpu_headers:%=$(top_srcdir)/%)
if HAVE_CUDA
if HAVE_CUDNN
if HAVE_NCCL
check_DATA += soft-gpu
tests/t0285-software-device.log tests/t0286-software-training.log tests/t0287-first-check.log: soft-gpu tests/bench/array_switch
endif
endif
endif
.PHONY: soft-gpu
soft-gpu: tests/cuda/lib/libcudart.so.13 $(soft_gpu_programs)
$(soft_gpu_sources:%=tests/cuda/%.o): tests/cuda/%.o: $(top_srcdir)/tests/cuda/%.cc $(soft_gpu_dependencies)
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(SOFT_GPU_CXX) -Wall -Wextra -c -o $@ $<
# Twice: the first object says which instances of kernels there are.
$(soft_gpu_kernels:%=tests/cuda/%.o): tests/cuda/%.o: $(top_srcdir)/%.cu $(soft_gpu_dependencies) $(top_srcdir)/tests/cuda/host-kernels \
	    $(top_srcdir)/profiler/cuda/cuda_common.cuh $(top_srcdir)/profiler/cuda/cuda_elements.h \
	    $(top_srcdir)/profiler/cuda/cuda_kernels.h $(top_srcdir)/train/cuda/cuda_train_kernels.h
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(top_srcdir)/tests/cuda/host-kernels $< >$@.cc && \
	    $(SOFT_GPU_CXX) -O0 -w -DARENA_SOFT_KERNELS -c -o $@.first $@.cc && $(top_srcdir)/tests/cuda/host-kernels $< $@.first >$@.cc && \
	    $(SOFT_GPU_CXX) -w -DARENA_SOFT_KERNELS -c -o $@ $@.cc
tests/cuda/lib/libcudart.so.13: $(soft_gpu_objects) $(top_srcdir)/tests/cuda/exports.map
	$(AM_V_CXXLD)$(MKDIR_P) $(@D) && $(CXX) $(CXXFLAGS) -shared -Wl,-z,defs -Wl,-soname,libcudart.so.13 \
	    -Wl,--version-script=$(top_srcdir)/tests/cuda/exports.map -o $@ $(soft_gpu_objects) -lpthread -lrt && \
	    for name in $(soft_gpu_names); do test -e $(@D)/$$name || ln -s libcudart.so.13 $(@D)/$$name || exit 1; done
SOFT_GPU_LIBS = $(subst -lcudart_static,-lcudart,$(1)) $(LIBS)
tests/cuda/arena-profiler-cuda: arena-profiler-cuda$(EXEEXT)
	$(AM_V_CXXLD)$(arena_profiler_cuda_LINK) $(arena_profiler_cuda_OBJECTS) $(call SOFT_GPU_LIBS,$(arena_profiler_cuda_LDADD))
tests/cuda/test_cuda: tests/gpu/test_cuda$(EXEEXT)
	$(AM_V_CXXLD)$(tests_gpu_test_cuda_LINK) $(tests_gpu_test_cuda_OBJECTS) $(call SOFT_GPU_LIBS,$(tests_gpu_test_cuda_LDADD))
tests/cuda/test_cudnn: tests/gpu/test_cudnn$(EXEEXT)
	$(AM_V_CXXLD)$(tests_gpu_test_cudnn_LINK) $(tests_gpu_test_cudnn_OBJECTS) $(call SOFT_GPU_LIBS,$(tests_gpu_test_cudnn_LDADD))
tests/cuda/test_nccl: tests/gpu/test_nccl$(EXEEXT)
	$(AM_V_CXXLD)$(tests_gpu_test_nccl_LINK) $(tests_gpu_test_nccl_OBJECTS) $(call SOFT_GPU_LIBS,$(tests_gpu_test_nccl_LDADD))
tests/cuda/misuse: $(top_srcdir)/tests/cuda/misuse.cc
	$(AM_V_CXXLD)$(MKDIR_P) $(@D) && $(CXX) $(CXXFLAGS) -isystem $(CUDA_HOME)/include -o $@ $< -L$(CUDA_HOME)/lib64 -lcudart
# Beside its module, which it looks for there.
tests/cuda/arena-train: arena-train$(EXEEXT)
	$(AM_V_GEN)cp arena-train$(EXEEXT) $@
tests/cuda/arena-train-cuda.la: arena-train-cuda.la
	$(AM_V_CXXLD)$(arena_train_cuda_la_LINK) -rpath $(cudamoduledir) $(arena_train_cuda_la_OBJECTS) \
	    $(call SOFT_GPU_LIBS,$(arena_train_cuda_la_LIBADD))
EXTRA_DIST += $(soft_gpu_sources:%=tests/cuda/%.cc) $(soft_gpu_headers) tests/cuda/exports.map tests/cuda/host-kernels tests/cuda/hardware.yaml tests/cuda/misuse.cc
TESTS += tests/t0285-software-device.t tests/t0286-software-training.t tests/t0287-first-check.t
dist_check_SCRIPTS += tests/t0285-software-device.t tests/t0286-software-training.t tests/t0287-first-check.t
.PHONY: clean-soft-gpu
clean-soft-gpu:
	rm -rf tests/cuda/lib tests/cuda/.libs tests/cuda/profiler tests/cuda/train
	rm -f $(soft_gpu_programs) $(soft_gpu_sources:%=tests/cuda/%.o) tests/cuda/arena-train-cuda.lai
