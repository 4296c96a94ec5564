// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/recorder/real.h"

#include <dlfcn.h>
#include <link.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace arena::watch {
namespace {

void* opened(const char* library) {
    if (const char* path = ::secure_getenv("ARENA_WATCH_NCCL")) return ::dlopen(path, RTLD_NOW);
    if (void* there = ::dlopen(library, RTLD_NOW | RTLD_NOLOAD)) return there;
    return ::dlopen(library, RTLD_NOW);
}

/// Paths of what is loaded; kept apart, for nothing may be opened while they are walked through.
struct Loaded {
    char* paths[1024];
    int count = 0;
};

int add_path(dl_phdr_info* object, std::size_t, void* argument) {
    auto& loaded = *static_cast<Loaded*>(argument);
    const bool has_path = object->dlpi_name != nullptr && object->dlpi_name[0] == '/';
    if (has_path && loaded.count < 1024)
        if (char* path = ::strdup(object->dlpi_name)) loaded.paths[loaded.count++] = path;
    return 0;
}

bool is_ours(void* found) {
    Dl_info of_found{}, of_us{};
    return ::dladdr(found, &of_found) != 0 &&
           ::dladdr(reinterpret_cast<void*>(&find_loaded), &of_us) != 0 &&
           of_found.dli_fbase == of_us.dli_fbase;
}

void* look_in(const char* path, const char* name) {
    void* handle = ::dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) return nullptr;
    void* found = ::dlsym(handle, name);
    ::dlclose(handle);
    return found == nullptr || is_ours(found) ? nullptr : found;
}

}  // namespace

void* find_loaded(const char* name) {
    auto* loaded = static_cast<Loaded*>(std::calloc(1, sizeof(Loaded)));
    if (loaded == nullptr) return nullptr;
    ::dl_iterate_phdr(&add_path, loaded);
    void* found = nullptr;
    for (int i = 0; i < loaded->count; ++i) {
        if (found == nullptr) found = look_in(loaded->paths[i], name);
        std::free(loaded->paths[i]);
    }
    std::free(loaded);
    return found;
}

void* find_real(const char* name, const char* library) {
    const int kept = errno;
    void* found = ::dlsym(RTLD_NEXT, name);
    if (found == nullptr && library != nullptr)
        if (void* handle = opened(library)) found = ::dlsym(handle, name);
    if (found == nullptr && library == nullptr) found = find_loaded(name);
    if (found == nullptr) {
        char text[128];
        std::snprintf(text, sizeof text, "%s is called, but no library has it", name);
        say_once(text);
    }
    errno = kept;
    return found;
}

}  // namespace arena::watch
