// SPDX-License-Identifier: GPL-2.0-or-later
// Who could change what a configuration file says: its owner, its mode, and those of everything on
// the way to it. Only root can play other users.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/text.h"
#include "base/trusted_path.h"
#include "site/config.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

constexpr uid_t other = 65534;
std::string top, site, file;

void before() {
    char name[] = "/tmp/arena-trusted-XXXXXX";
    top = ::mkdtemp(name);
    site = top + "/site";
    file = site + "/arena.yaml";
    ck_assert(::mkdir(site.c_str(), 0755) == 0);
    ck_assert(write_file_atomic(file, "interval_s: 3\n").ok());
}

void after() { std::filesystem::remove_all(top); }

Status check(const std::string& path) { return check_trusted(path, ::geteuid()); }
void change_mode(const std::string& path, mode_t mode) {
    ck_assert(::chmod(path.c_str(), mode) == 0);
}
void give_away(const std::string& path, uid_t uid) {
    ck_assert(::lchown(path.c_str(), uid, 65534) == 0);
}

}  // namespace

TEST(a_file_below_tmp_is_trusted_where_all_of_it_is_ours) {
    ck_assert_msg(check(file).ok(), "%s", check(file) ? "" : check(file).error().message().c_str());
    ck_assert(check(site).ok());
    ck_assert(check(site + "/./../site//arena.yaml").ok());
    ck_assert(check("/").ok());
    ck_assert(check(site + "/missing").ok());  // for the reader to say
    ck_assert(load_config(file).ok());
}

TEST(a_file_that_others_may_write_to_is_refused) {
    for (const mode_t mode : {0666, 0646, 0602}) {
        change_mode(file, mode);
        assert_refused(check(file), file + ": others may write to it (mode 0" +
                                        (mode == 0666   ? "666"
                                         : mode == 0646 ? "646"
                                                        : "602"));
        assert_refused(load_config(file), "chmod go-w it");
    }
}

TEST(so_is_one_in_a_directory_that_others_may_write_to) {
    for (const mode_t mode : {0777, 0757}) {
        change_mode(site, mode);
        assert_refused(check(file), site + ": others may write to it");
    }
    change_mode(site, 01777);
    ck_assert(check(file).ok());  // who may make files there cannot move ours
    assert_refused(check(site), "others may write to it");
}

TEST_NEEDING(a_group_may_write_only_where_it_is_the_owners_own,
             ::geteuid() == 0 ? "" : "only root can give files away") {
    ck_assert(::chown(site.c_str(), 0, 65534) == 0);
    change_mode(site, 0775);
    assert_refused(check(file), site + ": others may write to it (mode 0775)");
    ck_assert(::chown(site.c_str(), 0, 0) == 0);  // root's group is root
    ck_assert(check(file).ok());
}

TEST_NEEDING(what_belongs_to_another_is_refused_wherever_it_stands,
             ::geteuid() == 0 ? "" : "only root can give files away") {
    give_away(file, other);
    assert_refused(check(file), file + ": belongs to nobody, not to root");
    assert_refused(load_config(file), "belongs to nobody");
    ck_assert(check_trusted(file, other).ok());  // as SlurmUser's would be
    ck_assert(load_config(file, other).ok());
    give_away(file, 0);
    give_away(site, other);
    assert_refused(check(file), site + ": belongs to nobody");
    assert_refused(check_trusted(file, 12345), "not to root or uid 12345");
}

TEST_NEEDING(links_are_looked_at_and_what_they_lead_through,
             ::geteuid() == 0 ? "" : "only root can give files away") {
    const std::string link = top + "/link", theirs = top + "/theirs", inner = theirs + "/inner";
    ck_assert(::symlink("site", link.c_str()) == 0);
    ck_assert(check(link + "/arena.yaml").ok());
    give_away(link, other);
    assert_refused(check(link + "/arena.yaml"), link + ": belongs to nobody");
    // Ours leads through theirs to ours: they can lead it elsewhere tomorrow.
    ck_assert(::mkdir(theirs.c_str(), 0755) == 0 && ::symlink(site.c_str(), inner.c_str()) == 0);
    give_away(theirs, other);
    const std::string long_way = top + "/long-way";
    ck_assert(::symlink("theirs/inner", long_way.c_str()) == 0);
    assert_refused(check(long_way + "/arena.yaml"), theirs + ": belongs to nobody");
    const std::string loop = top + "/loop";
    ck_assert(::symlink("loop", loop.c_str()) == 0);
    assert_refused(check(loop), "too many links");
}

SUITE({.before = before, .after = after});
