// SPDX-License-Identifier: GPL-2.0-or-later
// See program.h.
#include "cli/common/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/user_file.h"
#include "installed_paths.h"

namespace arena::cli {
namespace {

/// The command that the words before the mistake name.
const CLI::App* innermost(const CLI::App* app) {
    while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
    return app;
}

std::string full_name(const CLI::App* app) {
    return app->get_parent() == nullptr ? app->get_name()
                                        : full_name(app->get_parent()) + " " + app->get_name();
}

std::string with_nearest(const std::string& word, const std::vector<std::string>& known) {
    const std::string near = nearest(word, {known.begin(), known.end()});
    return near.empty() ? "" : fmt::format(", did you mean {}?", near);
}

std::vector<std::string> options_of(const CLI::App* command) {
    std::vector<std::string> names;
    for (; command != nullptr; command = command->get_parent())
        for (const CLI::Option* option : command->get_options())
            for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return names;
}

/// A word that no command expects, or that there is none.
std::string unexpected(const CLI::App* app, const std::string& otherwise) {
    const CLI::App* command = innermost(app);
    const std::string name = full_name(command);
    std::vector<std::string> commands, extra = app->remaining(true);
    for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; }))
        commands.push_back(sub->get_name());
    if (extra.empty() && !commands.empty())
        return fmt::format("a command is needed: {} {}", name, fmt::join(commands, " | "));
    if (extra.empty()) return otherwise;
    const std::string word = printable(extra.front(), 60);
    if (word.starts_with('-'))
        return fmt::format("{} has no option {}{}", name, word,
                           with_nearest(word, options_of(command)));
    if (commands.empty()) return fmt::format("{}: '{}' is one word too many", name, word);
    return fmt::format("{} has no command '{}'{}; there are {}", name, word,
                       with_nearest(word, commands), fmt::join(commands, ", "));
}

/// One sentence, and where more is said.
std::string usage_sentence(const CLI::App* app, const CLI::Error& error) {
    const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
    const bool is_word =
        code == CLI::ExitCodes::ExtrasError || code == CLI::ExitCodes::RequiredError;
    const std::string text = is_word ? unexpected(app, error.what()) : error.what();
    return fmt::format("{}; {} --help says more", text, full_name(innermost(app)));
}

/// The mistake may stand before --json was read.
bool asks_for_json(int argc, char** argv) {
    return std::any_of(argv, argv + argc,
                       [](const char* word) { return std::string_view(word) == "--json"; });
}

/// The first word that is no option; --config takes a word.
std::string_view first_verb(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == "--config") ++i;
        if (!word.starts_with('-')) return word;
    }
    return "";
}

const VerbElsewhere* verb_elsewhere(const CommandProgram& program, int argc, char** argv) {
    const std::string_view verb = first_verb(argc, argv);
    const auto at = std::ranges::find(program.elsewhere, verb, &VerbElsewhere::verb);
    return at == program.elsewhere.end() ? nullptr : &*at;
}

/// Returns where that failed only.
int start(const Globals& globals, const VerbElsewhere& verb, char** argv) {
    const std::string path = libexec_program(verb.program);
    ::execv(path.c_str(), argv);
    return fail(globals,
                environment_error(fmt::format("{}, which has this command, cannot be started: {}; "
                                              "`make` builds it, `make install` puts it there",
                                              path, std::strerror(errno)),
                                  verb.verb));
}

int main_of(const CommandProgram& program, int argc, char** argv) {
    Globals globals;
    globals.program = program.name;
    if (const VerbElsewhere* verb = verb_elsewhere(program, argc, argv)) {
        globals.json = asks_for_json(argc, argv);
        return start(globals, *verb, argv);
    }
    CLI::App app{program.about};
    app.name(program.name);
    app.set_version_flag("--version", std::string(program.name) + " " ARENA_VERSION);
    app.add_flag("--json", globals.json, "write one JSON document with schema_version");
    app.add_option("--config", globals.config_file,
                   "arena.yaml [$ARENA_CONF, else the one beside slurm.conf]");
    app.require_subcommand(1);
    app.fallthrough();
    app.failure_message([&globals](const CLI::App* at, const CLI::Error& error) {
        return fmt::format("{}: {}\n", globals.program, usage_sentence(at, error));
    });
    program.add_commands(app, globals);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (app.exit(error) == 0) return exit_yes;
        if (asks_for_json(argc, argv)) print_error_json(usage_error(usage_sentence(&app, error)));
        return exit_usage;
    }
    return globals.status;
}

}  // namespace

std::string libexec_program(const std::string& name) {
    for (const std::string& path :
         {program_beside(name), program_beside("../libexec/slurm-arena/" + name)})
        if (!path.empty()) return path;
    return ARENA_LIBEXECDIR "/" + name;
}

int run_commands(const CommandProgram& program, int argc, char** argv) {
    return arena::run_program(program.name, [&] { return main_of(program, argc, argv); });
}

}  // namespace arena::cli
