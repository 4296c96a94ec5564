// SPDX-License-Identifier: GPL-2.0-or-later
// The function behind ours: the next of its name, else that of a library which the process opened
// for itself, where a preloaded library's search does not come.
#pragma once

#include <atomic>

#include "watch/recorder/recorder.h"

namespace arena::watch {

/// From the library that calls it: each has its own. Null where there is none. `library` may be
/// null: what the process has loaded is searched, and nothing is loaded.
void* find_real(const char* name, const char* library);
/// Of all that is loaded, also what a program opened for itself alone, the first but ours.
void* find_loaded(const char* name);

constexpr const char* nccl_library = "libnccl.so.2";

template <typename Function>
class Real {
  public:
    constexpr explicit Real(const char* name, const char* library = nullptr)
        : name_(name), library_(library) {}
    Function* get() {
        void* found = found_.load(std::memory_order_relaxed);
        if (found == nullptr) [[unlikely]]
            found_.store(found = find_real(name_, library_), std::memory_order_relaxed);
        return reinterpret_cast<Function*>(found);
    }

  private:
    const char* name_;
    const char* library_;
    std::atomic<void*> found_{nullptr};
};

}  // namespace arena::watch
