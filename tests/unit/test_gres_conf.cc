// SPDX-License-Identifier: GPL-2.0-or-later
// gres.conf is read as the installed slurmd reads it: `slurmd -G` looks at each file that the lines
// of its node name, and ends at the first that it cannot look at, here a link to itself; that one
// is made a file, and slurmd asked again, until it has seen all. It ends as well of a text that it
// cannot read.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/text.h"
#include "directory.h"
#include "ipc/child.h"
#include "site/gres_conf.h"
#include "suite.h"

using namespace arena;
using arena::test::Directory;

namespace {

using Files = std::set<std::string>;

struct Case {
    const char* what;
    std::string text;           ///< @ = the directory of the devices
    std::string included = {};  ///< more.conf beside it
};

const std::vector<Case>& cases() {
    static const std::vector<Case> all{
        {"plain", "Name=gpu Type=a40 File=@/gpu0\nName=gpu Type=a40 File=@/gpu1\n"},
        {"tabs", "Nodename=n[1-2] \tName=gpu Type=m2070q\tFile=@/gpu[0-3]\n"},
        {"a blank before a tab, other nodes",
         "NodeName=v1 Name=gpu Type=gtx970 \tFile=@/gpu0\nNodeName=n1\tName=gpu\tFile=@/gpu2\n"},
        {"continued", "NodeName=n[1-8] Name=gpu Type=a100 \\\n    File=@/gpu[0-3]\n"},
        {"continued with blanks behind the backslash", "Name=gpu \\  \t\n Type=a100 File=@/gpu1\n"},
        {"continued inside a word", "Name=gpu File=@/gp\\\nu1\n"},
        {"continued over a comment", "Name=gpu \\ # of the rack\n File=@/gpu0\n"},
        {"continued three times", "NodeName=n1 \\\nName=gpu \\\nType=x \\\nFile=@/gpu[0,2]\n"},
        {"in quotes", "Name=gpu Type=\"a100\" File=\"@/gpu[0-1]\"\n"},
        {"quotes that end in a word", "Name=gpu Type=\"a\"b File=@/gpu3\n"},
        {"quoted key's node list", "NodeName=\"n[1-2],v1\" Name=gpu File=@/gpu1\n"},
        {"blanks around =", "NodeName = n1 Name= gpu File =@/gpu0\n"},
        {"keys in any case", "nodename=n1 NAME=gpu fILE=@/gpu0 tYpe=A cores=0\n"},
        {"names in any case", "Name=GPU File=@/gpu2\n"},
        {"Files", "Name=gpu Files=@/gpu[0-1]\n"},
        {"MultipleFiles", "NodeName=n1 Name=gpu Type=a MultipleFiles=@/gpu0,@/cap[66-67]\n"},
        {"MultipleFiles of one", "Name=gpu MultipleFiles=@/gpu0\n"},
        {"File and MultipleFiles", "Name=gpu File=@/gpu0 MultipleFiles=@/gpu1,@/gpu2\n"},
        {"comments", "# Name=gpu File=@/gpu0\nName=gpu File=@/gpu1 # File=@/gpu2\n#\n\n   \t\n"},
        {"a comment within a word", "Name=gpu File=@/gpu1#2\n"},
        {"windows' ends of lines",
         "Name=gpu Type=a File=@/gpu0\r\nName=gpu Type=b File=@/gpu1\r\n"},
        {"ranges of nodes",
         "NodeName=n[2-4] Name=gpu File=@/gpu0\nNodeName=n[0-1,7] Name=gpu "
         "File=@/gpu1\nNodeName=m1,n1 Name=gpu File=@/gpu2\n"},
        {"ranges with zeros",
         "NodeName=n[01-09] Name=gpu File=@/gpu0\nNodeName=n[1-9] Name=gpu "
         "File=@/gpu3\n"},
        {"ranges of files with zeros", "Name=gpu File=@/d[08-09]\n"},
        {"ranges twice in a word", "NodeName=n1 Name=gpu File=@/a[0-1]b[2-3]\n"},
        {"include", "Include more.conf\nName=gpu Type=b File=@/gpu1\n",
         "Name=gpu Type=a File=@/gpu0\n"},
        {"include of the whole path", "include\t@/../more.conf\n",
         "NodeName=n1 Name=gpu File=@/gpu2\n"},
        {"include behind a blank", " Include more.conf\n", "Name=gpu File=@/gpu0\n"},
        {"include of what is not read", "Include more.conf\n", "Name gpu File=@/gpu0\n"},
        {"include with %c", "Include more%c.conf\n"},
        {"AutoDetect alone", "AutoDetect=off\nName=gpu File=@/gpu0\n"},
        {"AutoDetect with a node",
         "NodeName=n1 AutoDetect=off Name=gpu Type=b File=@/gpu0\nNodeName=n2 AutoDetect=nvml\n"},
        {"AutoDetect before a name", "AutoDetect=off Name=gpu File=@/gpu0\n"},
        {"a node without a name", "NodeName=n1 File=@/gpu0\n"},
        {"another GRES", "Name=nic File=@/gpu3\nName=gpu File=@/gpu0\n"},
        {"a GRES that GresTypes lacks", "Name=fpga File=@/gpu3\nName=gpu File=@/gpu0\n"},
        {"NodeName behind Name", "Name=gpu NodeName=n1 File=@/gpu0\n"},
        {"a key that is none", "Name=gpu Fiel=@/gpu0\n"},
        {"a key that is none, of another node", "NodeName=n2 Name=gpu Fiel=@/gpu0\n"},
        {"a word without =", "Name=gpu a100 File=@/gpu0\n"},
        {"Type first", "Type=a100 Name=gpu File=@/gpu0\n"},
        {"said twice", "Name=gpu File=@/gpu0 File=@/gpu1\n"},
        {"an operator", "Name=gpu File+=@/gpu0\n"},
        {"an escaped #", "Name=gpu File=@/gpu\\#0\n"},
    };
    return all;
}

/// What slurmd says of it, or that it ends.
struct Told {
    Files files;
    bool ends = false;
    std::string words;
};

/// The file at which slurmd ended goes to `file`; "" = none.
Told ask_slurmd(const std::string& directory, std::string& file) {
    Told told;
    file.clear();
    const auto output =
        run_child({.words = {"slurmd", "-f", directory + "/slurm.conf", "-N", "n1", "-G"},
                   .out = Stream::pipe,
                   .err = Stream::pipe},
                  Child::Clock::now() + std::chrono::seconds(60), std::size_t{1} << 20);
    ck_assert(output.ok());
    const std::string all = output->out + output->err;
    for (const std::string_view line : split(trim(all), '\n')) {
        told.words += std::string(line) + "\n";
        constexpr std::string_view begin = "slurmd: fatal: can't stat gres.conf file ";
        if (line.starts_with(begin))
            file = line.substr(begin.size(), line.rfind(": ") - begin.size());
    }
    told.ends = output->end.status != 0;
    return told;
}

Told told_by_slurmd(const std::string& directory) {
    Files files;
    std::string file;
    Told told = ask_slurmd(directory, file);
    for (; !file.empty() && files.insert(file).second; told = ask_slurmd(directory, file)) {
        std::filesystem::remove(file);
        std::ofstream(file) << "";
    }
    told.files = std::move(files);
    return told;
}

/// stat() of it fails otherwise than of what is missing, for which slurmd waits.
void make_unreadable(const std::string& file) {
    std::filesystem::remove(file);
    std::filesystem::create_symlink(file, file);
}

Told told_by_us(const std::string& directory) {
    Told told;
    const auto conf = read_gres_conf(directory + "/gres.conf");
    ck_assert(conf.ok());
    told.ends = !conf->faults.empty();
    told.words = join(conf->faults, "\n");
    for (const GresLine& line : conf->lines)
        if (applies_to(line, {"n1"})) told.files.insert(line.files.begin(), line.files.end());
    return told;
}

std::string lacks() { return find_program("slurmd").empty() ? "slurmd is not installed" : ""; }

void write_slurm_conf(const std::string& directory) {
    const passwd* self = ::getpwuid(::geteuid());
    ck_assert(self != nullptr);
    char host[256] = {};
    ck_assert_int_eq(::gethostname(host, sizeof host - 1), 0);
    std::ofstream(directory + "/slurm.conf")
        << "ClusterName=x\nSlurmctldHost=localhost\nGresTypes=gpu,nic\nSlurmUser=" << self->pw_name
        << "\nSlurmdUser=" << self->pw_name
        << "\nSlurmdLogFile=/dev/null\nSlurmdSpoolDir=" << directory
        << "/%n\nSlurmdPidFile=" << directory << "/%n.pid\nNodeName=n1 NodeHostname=" << host
        << " Port=17001 CPUs=1 Gres=gpu:1\nPartitionName=p Nodes=ALL\n";
}

}  // namespace

TEST_NEEDING(gres_conf_is_read_as_slurmd_reads_it, lacks()) {
    const Directory directory;
    const std::string dev = directory.path() + "/dev";
    std::filesystem::create_directory(dev);
    write_slurm_conf(directory.path());
    int held = 0, with_files = 0, refused = 0;
    const auto placed = [&](std::string text) {
        for (std::size_t at = 0; (at = text.find('@')) != std::string::npos;)
            text.replace(at, 1, dev);
        return text;
    };
    for (const Case& one : cases()) {
        for (const char* name : {"gpu0", "gpu1", "gpu2", "gpu3", "cap66", "cap67", "d08", "d09",
                                 "a0b2", "a0b3", "a1b2", "a1b3", "gpu#0"})
            make_unreadable(dev + "/" + name);
        std::ofstream(directory.path() + "/gres.conf") << placed(one.text);
        std::ofstream(directory.path() + "/more.conf") << placed(one.included);
        const Told slurm = told_by_slurmd(directory.path()), ours = told_by_us(directory.path());
        ck_assert_msg(slurm.ends == ours.ends, "%s: slurmd %s:\n%sours: %s", one.what,
                      slurm.ends ? "ends" : "starts", slurm.words.c_str(), ours.words.c_str());
        ++held;
        refused += slurm.ends;
        if (slurm.ends) continue;  // it may have ended before the other lines
        ck_assert_msg(slurm.files == ours.files, "%s: slurmd looks at %zu, we at %zu\n%s", one.what,
                      slurm.files.size(), ours.files.size(), slurm.words.c_str());
        with_files += !slurm.files.empty();
    }
    ck_assert_int_ge(held, 30);
    ck_assert_int_ge(with_files, 20);
    ck_assert_int_ge(refused, 5);
}

TEST(what_keeps_slurmd_from_starting_names_file_and_line) {
    const GresConf conf = parse_gres_conf("Name=gpu \\\n File=/dev/x\n\nType=a Name=gpu\n", "g");
    ck_assert_uint_eq(conf.faults.size(), 1);
    ck_assert_str_eq(conf.faults.front().c_str(),
                     "g:4: begins with type, not with Name, NodeName, AutoDetect or Include");
}

TEST(a_file_that_includes_itself_is_a_fault) {
    const Directory directory;
    const std::string file = directory.path() + "/gres.conf";
    std::ofstream(file) << "Include gres.conf\n";
    const auto conf = read_gres_conf(file);
    ck_assert(conf.ok() && !conf->faults.empty());
    ck_assert(!read_gres_conf(directory.path() + "/none").ok());
}
