// SPDX-License-Identifier: GPL-2.0-or-later
#include "request/script_programs.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "request/launchers.h"

namespace arena {
namespace {

/// Commands whose arguments are commands; of a Python, its module or script.
constexpr std::array<std::string_view, 18> starters = {
    "srun",     "exec",      "env",       "time",        "nice",   "nohup",
    "numactl",  "taskset",   "timeout",   "stdbuf",      "mpirun", "mpiexec",
    "torchrun", "deepspeed", "apptainer", "singularity", "nsys",   "command"};
constexpr std::array<std::string_view, 9> keywords = {"if",    "then",  "else", "elif", "do",
                                                      "while", "until", "!",    "{"};
/// Of starters: what follows them is a name.
constexpr std::array<std::string_view, 12> valued = {"-J", "--job-name", "-D", "--chdir",
                                                     "-w", "--nodelist", "-p", "--partition",
                                                     "-A", "--account",  "-o", "-e"};

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& list) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_gap(char c) { return c == ' ' || c == '\t' || c == '\r'; }
/// Ends a word and begins a command.
bool is_operator(char c) {
    return c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')' || c == '`';
}

/// With at most one '*'.
bool matches(std::string_view pattern, std::string_view word) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return word == pattern;
    const std::string_view rest = pattern.substr(star + 1);
    const std::size_t again = rest.find('*');
    if (again != std::string_view::npos)  // "*WORD*.END"
        return word.ends_with(rest.substr(again + 1)) &&
               word.find(rest.substr(0, again)) != std::string_view::npos;
    return word.size() >= pattern.size() - 1 && word.starts_with(pattern.substr(0, star)) &&
           word.ends_with(rest);
}

std::string_view name_of(std::string_view path) {
    return path.substr(path.rfind('/') + 1);  // npos + 1 = 0
}

bool is_python(std::string_view name) { return name.starts_with("python"); }
bool is_shell(std::string_view name) { return name == "bash" || name == "sh"; }

bool is_assignment(std::string_view word) {
    const std::size_t equals = word.find('=');
    return equals != std::string_view::npos && equals > 0 && word.front() != '-';
}

class Scan {
  public:
    std::vector<ScriptProgram> found;

    /// `depth`: of text that a shell is given by -c.
    void script(std::string_view text, std::size_t line, int depth) {
        std::vector<std::string> command;
        std::vector<std::string> documents;  // whose bodies begin at the line's end
        std::size_t at = 0, begun = line;
        while (at < text.size() && found.size() < max_script_programs) {
            const char c = text[at];
            if (is_gap(c) || starts_continuation(text, at)) {
                line += c == '\\' ? 1 : 0;
                at += c == '\\' ? 2 : 1;
            } else if (c == '#') {
                at = std::min(text.find('\n', at), text.size());
            } else if (is_operator(c)) {
                run(command, begun, depth);
                command.clear();
                ++at;
                if (c == '\n') ++line, skip_documents(text, at, line, documents);
                begun = line;
            } else {
                if (command.empty()) begun = line;
                std::string word = take_word(text, at, line);
                if (std::string end = document_end(word, text, at); !end.empty())
                    documents.push_back(std::move(end));
                else
                    command.push_back(std::move(word));
            }
        }
        run(command, begun, depth);
    }

  private:
    static bool starts_continuation(std::string_view text, std::size_t at) {
        return text[at] == '\\' && at + 1 < text.size() && text[at + 1] == '\n';
    }

    /// One word with its quotes taken off; what '$' stands for stays as it is.
    static std::string take_word(std::string_view text, std::size_t& at, std::size_t& line) {
        std::string word;
        char quote = 0;
        for (; at < text.size(); ++at) {
            const char c = text[at];
            if (quote == 0 && (is_gap(c) || is_operator(c))) break;
            line += c == '\n' ? 1 : 0;
            if (quote != 0 && c == quote)
                quote = 0;
            else if (quote == 0 && (c == '"' || c == '\''))
                quote = c;
            else if (quote != '\'' && c == '\\' && at + 1 < text.size())
                word += text[++at];
            else
                word += c;
        }
        return word;
    }

    /// Of "<<END", "<<-'END'" or "<< END"; "" where the word begins none.
    static std::string document_end(std::string_view word, std::string_view text, std::size_t& at) {
        const std::size_t mark = word.find("<<");
        if (mark == std::string_view::npos || word.substr(mark).starts_with("<<<")) return {};
        std::string end(word.substr(mark + 2));
        if (end.starts_with('-')) end.erase(0, 1);
        if (!end.empty()) return end;
        while (at < text.size() && is_gap(text[at])) ++at;
        std::size_t unused = 0;
        return take_word(text, at, unused);
    }

    static void skip_documents(std::string_view text, std::size_t& at, std::size_t& line,
                               std::vector<std::string>& documents) {
        for (const std::string& end : documents)
            for (bool is_end = false; !is_end && at < text.size(); ++line) {
                const std::size_t newline = std::min(text.find('\n', at), text.size());
                is_end = trim(text.substr(at, newline - at)) == end;
                at = std::min(newline + 1, text.size());
            }
        documents.clear();
    }

    /// Looks at the words of a command that are commands themselves.
    void run(const std::vector<std::string>& words, std::size_t line, int depth) {
        std::size_t i = 0;
        while (i < words.size() && (is_one_of(words[i], keywords) || is_assignment(words[i]))) ++i;
        if (i == words.size()) return;
        for (const std::size_t first = i; i < words.size(); ++i) {
            const std::string_view name = name_of(words[i]);
            const bool follows_option = i > first && words[i - 1].starts_with('-');
            if (i > first && (words[i].starts_with('-') || is_one_of(words[i - 1], valued)))
                continue;
            note(words, i, line);
            if (is_python(name)) return python(words, i + 1, line);
            if (is_shell(name)) return shell(words, i + 1, line, depth);
            if (!is_one_of(name, starters) && !follows_option && !is_argument(words[i])) return;
        }
    }

    /// Of a starter, before the command that it starts: "4", "60m", "X=1", "image.sif".
    static bool is_argument(std::string_view word) {
        return word.empty() || (word.front() >= '0' && word.front() <= '9') ||
               is_assignment(word) || word.ends_with(".sif");
    }

    /// -m MODULE, or the first word that is no option.
    void python(const std::vector<std::string>& words, std::size_t i, std::size_t line) {
        for (; i < words.size(); ++i) {
            if (words[i] == "-m" && i + 1 < words.size()) return note(words, i + 1, line);
            if (!words[i].starts_with('-')) return note(words, i, line);
        }
    }

    void shell(const std::vector<std::string>& words, std::size_t i, std::size_t line, int depth) {
        for (; i + 1 < words.size() && words[i].starts_with('-'); ++i)
            if (words[i].ends_with('c') && !words[i].starts_with("--") && depth < 2)
                return script(words[i + 1], line, depth + 1);
    }

    void note(const std::vector<std::string>& words, std::size_t i, std::size_t line) {
        const std::string_view word = words[i];
        for (const Launcher& launcher : launchers()) {
            const auto names = [&](const std::string& p) { return matches(p, name_of(word)); };
            if (std::none_of(launcher.programs.begin(), launcher.programs.end(), names)) continue;
            const auto same = [&](const ScriptProgram& p) { return p.launcher == launcher.name; };
            if (found.size() < max_script_programs &&
                std::none_of(found.begin(), found.end(), same))
                found.push_back(
                    {printable(name_of(word), 40),
                     launcher.name,
                     line,
                     {words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()}});
        }
    }
};

}  // namespace

std::vector<ScriptProgram> parse_script_programs(std::string_view script) {
    Scan scan;
    scan.script(script.substr(0, max_script_bytes), 1, 0);
    return scan.found;
}

}  // namespace arena
