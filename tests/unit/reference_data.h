// SPDX-License-Identifier: GPL-2.0-or-later
// Where the reference data lies, for tests that read it in place and skip, saying so, without it.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace arena::test {

/// $ARENA_REFERENCE_DATA, else ../shared/data beside the source tree. It may not exist.
inline std::string reference_data() {
    if (const char* given = std::getenv("ARENA_REFERENCE_DATA")) return given;
    const char* source = std::getenv("ARENA_SRCDIR");
    return std::string(source != nullptr ? source : ".") + "/../shared/data";
}

/// What a test that needs this file below it lacks: "" where it is there (SuiteOptions::lacks).
inline std::string lacks_reference(const std::string& path) {
    const std::string file = reference_data() + "/" + path;
    return std::ifstream(file) ? "" : "no reference data " + file + " (ARENA_REFERENCE_DATA)";
}

/// A file below it, whole; "" where it is missing.
inline std::string read_reference(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(reference_data() + "/" + path).rdbuf();
    return text.str();
}

}  // namespace arena::test
