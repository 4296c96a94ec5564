// SPDX-License-Identifier: GPL-2.0-or-later
// read_spool_profile treats the spool as hostile: only a plain file of the service user, with the
// expected nonce inside and sane values, becomes a Profile; everything else is one clear error, at
// once.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/text.h"
#include "store/store.h"
#include "suite.h"

using namespace arena;
using arena::test::must;
namespace fs = std::filesystem;

namespace {

const std::string nonce = "Abcdefgh01234567";
std::string spool;

void make_spool() {
    char name[] = "/tmp/arena-spool-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(name));
    spool = name;
}
void remove_spool() { fs::remove_all(spool); }
std::string file() { return spool + "/" + nonce + ".json"; }

Profile sample() {
    Profile p;
    p.nonce = nonce;
    p.gpu_type = "a40";
    p.hardware = "emulated-cpu";
    p.model_fingerprint = sha256_hex("gpt2");
    p.device = {"cpu", "AMD EPYC", "", "6.1", "OpenBLAS", 1 << 30, 2, "n1"};
    OpShape g;
    g.dims = {64, 32, 16, 1};
    p.entries = {{g, 0.001, 5, 0.005}};
    return p;
}

void write(const std::string& text) { std::ofstream(file(), std::ios::binary) << text; }

/// The error must be of this kind and hold these words.
void refused(ErrorCode code, const std::string& words, unsigned owner = geteuid()) {
    const auto r = read_spool_profile(spool, nonce, owner);
    ck_assert_msg(!r.ok(), "was accepted; wanted: %s", words.c_str());
    ck_assert_msg(r.error().code == code && r.error().message().find(words) != std::string::npos,
                  "got: %s", r.error().message().c_str());
}

}  // namespace

TEST(good_file_is_read) {
    write(to_json(sample()));
    const auto r = must(read_spool_profile(spool, nonce, geteuid()));
    ck_assert(r == sample());
}

TEST(missing_file_is_no_and_not_an_environment_error) { refused(ErrorCode::no, "no result"); }

TEST(symbolic_link_to_a_good_file_is_refused) {
    write(to_json(sample()));
    fs::rename(file(), spool + "/real");
    fs::create_symlink("real", file());
    refused(ErrorCode::environment, "symbolic link");
}

TEST(fifo_is_refused_without_waiting) {
    ck_assert_int_eq(mkfifo(file().c_str(), 0644), 0);
    alarm(5);
    refused(ErrorCode::environment, "not a regular file");
    alarm(0);
}

TEST(directory_in_place_of_the_file_is_refused) {
    fs::create_directory(file());
    refused(ErrorCode::environment, "not a regular file");
}

TEST(file_of_another_owner_is_refused) {
    write(to_json(sample()));
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(file().c_str(), 12345, 12345), 0);
        refused(ErrorCode::environment, "belongs to uid 12345");
    } else {
        refused(ErrorCode::environment, "belongs to uid", geteuid() + 1);
    }
}

TEST(spool_of_another_owner_or_open_to_others_is_refused) {
    write(to_json(sample()));
    chmod(spool.c_str(), 0777);
    refused(ErrorCode::environment, "writable by group or others");
    chmod(spool.c_str(), 0755);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(spool.c_str(), 12345, 12345), 0);
        refused(ErrorCode::environment, "spool belongs to uid 12345");
    } else {
        refused(ErrorCode::environment, "spool belongs to uid", geteuid() + 1);
    }
}

TEST(file_over_one_mebibyte_is_refused) {
    write(to_json(sample()) + std::string(max_profile_bytes, ' '));
    refused(ErrorCode::environment, "larger than 1 MiB");
    fs::resize_file(file(), 1ULL << 40);  // sparse
    refused(ErrorCode::environment, "larger than 1 MiB");
}

TEST(nonce_inside_must_be_that_of_the_file) {
    Profile p = sample();
    p.nonce = "Zbcdefgh01234567";
    write(to_json(p));
    refused(ErrorCode::usage, "nonce inside");
}

TEST(garbage_cut_and_empty_files_are_refused) {
    const auto text = to_json(sample());
    for (std::size_t n = 0; n < text.size(); n += 7) {
        write(text.substr(0, n));
        const auto r = read_spool_profile(spool, nonce, geteuid());
        ck_assert_msg(!r.ok(), "accepted the first %zu bytes", n);
    }
    write(std::string("\0\xff\xfe{}", 5));
    ck_assert(!read_spool_profile(spool, nonce, geteuid()).ok());
}

TEST(nonce_cannot_name_a_path) {
    for (const char* bad :
         {"", "short", "../../etc/passwd/x", "abcdefghijklmnop/", "abcdefgh.jklmnop"})
        ck_assert(!read_spool_profile(spool, bad, geteuid()).ok());
    ck_assert(!read_spool_profile(spool, std::string(65, 'a'), geteuid()).ok());
    ck_assert(!read_spool_profile(spool, std::string("abcdefgh\0ijklmnop", 17), geteuid()).ok());
}

SUITE({make_spool, remove_spool});
