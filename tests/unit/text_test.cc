// SPDX-License-Identifier: GPL-2.0-or-later
// Text helpers and bounded file access.
#include "base/text.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/count_text.h"
#include "base/hash.h"
#include "directory.h"
#include "suite.h"

using namespace arena;
using arena::test::assert_refused;
using arena::test::assert_text;

TEST(integers_are_whole_and_in_range) {
    ck_assert(parse_integer("42", 0, 100) == 42);
    ck_assert(parse_integer("-3", -5, 0) == -3);
    for (const char* bad : {"", " 1", "1 ", "+1", "0x10", "1e3", "101", "99999999999999999999"}) {
        ck_assert_msg(!parse_integer(bad, 0, 100), "%s", bad);
    }
}

TEST(numbers_are_finite) {
    ck_assert(parse_number("2.5e3", 0, 1e9) == 2500.0);
    for (const char* bad : {"", "nan", "inf", "-inf", "1,5", "1.5x", "1e999"}) {
        ck_assert_msg(!parse_number(bad, -1e300, 1e300), "%s", bad);
    }
}

TEST(splitting_keeps_empty_parts) {
    ck_assert(split("a,,b", ',') == (std::vector<std::string_view>{"a", "", "b"}));
    ck_assert(split("", ',').size() == 1);
    ck_assert(trim(" \t a b \r\n") == "a b");
    ck_assert(join({"x", "y"}, ", ") == "x, y");
}

TEST(the_nearest_word_is_within_half_its_length) {
    assert_text(nearest("polcy", {"interval", "policy"}), "policy");
    assert_text(nearest("zzzzzz", {"interval", "policy"}), "");
    assert_text(nearest(std::string(100000, 'a'), {"a"}), "");
}

TEST(printable_text_has_no_control_bytes_and_a_bound) {
    assert_text(printable("a\n\x1b[31m\xff"), "a\\x0a\\x1b[31m\\xff");
    ck_assert_uint_le(printable(std::string(1000, '\n'), 80).size(), 80);
}

TEST(people_read_bytes_and_seconds) {
    assert_text(human_bytes(1536), "1.5 KiB");
    assert_text(human_bytes(80.0 * (1 << 30)), "80.0 GiB");
    assert_text(human_seconds(0.35), "350 ms");
    assert_text(human_seconds(600), "10.0 min");
    assert_text(count_text(124.4e6), "124 M");
    assert_text(count_text(8.03e9), "8.03 B");
    assert_text(count_text(999.6e9), "1 T");
    assert_text(count_text(999.4e6), "999 M");
    assert_text(count_text(51200), "51.2 k");
    assert_text(count_text(12), "12");
}

TEST(the_hash_of_tables_is_fnv_1a_64) {
    ck_assert(Fnv1a().value() == 0xcbf29ce484222325);
    ck_assert(Fnv1a().bytes("a").value() == 0xaf63dc4c8601ec8c);
}

TEST(what_stands_for_a_text_is_its_sha_256) {
    // FIPS 180-4's examples, and texts around the length of one block.
    assert_text(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_text(sha256_hex("abc"),
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_text(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_text(sha256_hex(std::string(1000000, 'a')),
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_text(sha256_hex(std::string(64, '\0')),
                "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
}

TEST(only_regular_files_of_bounded_size_are_read) {
    const test::Directory dir;
    const std::string file = dir / "file", link = dir / "link", fifo = dir / "fifo";
    ck_assert(write_file_atomic(file, "hello", 0600).ok());
    struct stat info {};
    ck_assert_int_eq(::stat(file.c_str(), &info), 0);
    ck_assert_int_eq(info.st_mode & 07777, 0600);
    assert_text(read_regular_file(file, 5).value(), "hello");
    assert_refused(read_regular_file(file, 4), "larger than 4 bytes");
    assert_refused(read_regular_file(dir / "none", 4), "No such file");
    ck_assert_int_eq(::symlink(file.c_str(), link.c_str()), 0);
    assert_refused(read_regular_file(link, 99), "symbolic link");
    ck_assert_int_eq(::mkfifo(fifo.c_str(), 0600), 0);
    assert_refused(read_regular_file(fifo, 99), "not a regular file");
    assert_refused(read_regular_file("/dev/zero", 99), "not a regular file");
    assert_refused(read_regular_file(dir.path(), 99), "not a regular file");
}

TEST(devices_and_pipes_are_never_replaced_by_a_file) {
    const test::Directory dir;
    const std::string file = dir / "file", fifo = dir / "fifo", null = dir / "null";
    ck_assert_int_eq(::mkfifo(fifo.c_str(), 0600), 0);
    ck_assert_int_eq(::symlink("/dev/null", null.c_str()), 0);  // the device itself is not risked
    for (const std::string& path : {fifo, null}) {
        struct stat before {
        }, after{};
        ck_assert_int_eq(::lstat(path.c_str(), &before), 0);
        assert_refused(write_file_atomic(path, "hello"),
                       "is not a regular file, and stays as it is");
        ck_assert_int_eq(::lstat(path.c_str(), &after), 0);
        ck_assert_uint_eq(before.st_ino, after.st_ino);
        ck_assert(!std::filesystem::exists(path + ".new"));
    }
    ck_assert(write_file_atomic(file, "one").ok() && write_file_atomic(file, "two").ok());
    assert_text(read_regular_file(file, 5).value(), "two");
}
