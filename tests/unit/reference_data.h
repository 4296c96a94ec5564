// SPDX-License-Identifier: GPL-2.0-or-later
// Where the reference data lies, for tests that read it in place and skip, saying so, without it;
// and our own small tables, which are always there (tests/data/README).
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace arena::test {

inline std::string source_tree() {
    const char* source = std::getenv("ARENA_SRCDIR");
    return source != nullptr ? source : ".";
}

/// "" of a file that is missing.
inline std::string read_whole(const std::string& file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

/// One of our own tables, whole.
inline std::string read_own(const std::string& name) {
    return read_whole(source_tree() + "/tests/data/" + name);
}

/// $ARENA_REFERENCE_DATA, else ../shared/data beside the source tree. It may not exist.
inline std::string reference_data() {
    if (const char* given = std::getenv("ARENA_REFERENCE_DATA")) return given;
    return source_tree() + "/../shared/data";
}

/// What a test that needs this file below it lacks: "" where it is there (SuiteOptions::lacks).
inline std::string lacks_reference(const std::string& path) {
    const std::string file = reference_data() + "/" + path;
    return std::ifstream(file) ? "" : "no reference data " + file + " (ARENA_REFERENCE_DATA)";
}

/// A file below it, whole; "" where it is missing.
inline std::string read_reference(const std::string& path) {
    return read_whole(reference_data() + "/" + path);
}

}  // namespace arena::test
