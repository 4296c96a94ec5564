// SPDX-License-Identifier: GPL-2.0-or-later
// What jobs carry is parsed once and kept once: a queue of thousands of jobs must not be held in
// memory twice over.
#include <malloc.h>

#include <string>

#include "planner/models/readers.h"
#include "plugin/sched/round/request_cache.h"
#include "suite.h"

using namespace arena;

namespace {

/// A record of about 30 KB: many layers, no two equal.
std::string large_record(int model = 0) {
    Request request;
    request.global_batch = 32;
    request.model.name = "large";
    request.model.family = Family::custom;
    for (int i = 0; i < 220; ++i) {
        request.model.custom_layers.push_back({.name = "layer-" + std::to_string(i),
                                               .count = 1,
                                               .forward_flops = 1e10 + model,
                                               .parameter_bytes = 1e6 + i,
                                               .activation_bytes = 1e6,
                                               .output_bytes = 1e5});
        ++request.model.layers;
    }
    return format_record(request).value();
}

std::string small_record() {
    Request request;
    request.model = find_zoo_model("gpt2").value();
    request.global_batch = 32;
    return format_record(request).value();
}

TEST(equal_records_are_one_request) {
    RequestCache book;
    const std::string record = large_record();
    const SharedRequest first = book.get(1, record, "");
    ck_assert_str_eq(first->problem.c_str(), "");
    ck_assert_ptr_eq(book.get(2, record, "").get(), first.get());
    book.forget([](const auto&) { return false; });
    ck_assert_ptr_eq(book.get(3, std::string(record), "").get(), first.get());  // in a later round
    ck_assert_uint_eq(book.size(), 1);
    ck_assert_ptr_ne(book.get(4, large_record(1), "").get(), first.get());
}

TEST(a_text_is_needed_once) {
    RequestCache book;
    const RecordText record(small_record());
    ck_assert(!book.knows(1, record.tag, ""));
    const SharedRequest wanted = book.get(1, record, "");
    ck_assert(book.knows(1, record.tag, ""));
    ck_assert(!book.knows(2, record.tag, ""));  // whose text nobody has looked at
    RecordText untold;
    untold.tag = record.tag;
    ck_assert_ptr_eq(book.get(1, untold, "").get(), wanted.get());
    ck_assert(!book.knows(1, record.tag, "arena:gpus=1-1"));
    ck_assert(!book.knows(1, RecordText(large_record()).tag, ""));
    book.forget([](const auto&) { return true; });
    ck_assert(!book.knows(1, record.tag, ""));
    ck_assert_uint_eq(book.size(), 1);  // which we hold still
}

TEST(a_comment_makes_another_request_of_the_same_record) {
    RequestCache book;
    const RecordText record(small_record());
    const SharedRequest plain = book.get(1, record, "");
    const SharedRequest one_gpu = book.get(2, record, "arena:gpus=1-1");
    ck_assert_int_eq(one_gpu->request.max_gpus, 1);
    ck_assert_int_ne(plain->request.max_gpus, 1);
    ck_assert_ptr_eq(book.get(1, record, "arena:gpus=1-1").get(), one_gpu.get());
    ck_assert_ptr_eq(book.get(1, record, "").get(), plain.get());
}

TEST(a_job_without_text_waits_to_be_read) {
    RequestCache book;
    RecordText untold;
    untold.tag = 7;
    ck_assert(!book.get(1, untold, "")->problem.empty());
    ck_assert(book.get(1, small_record(), "")->problem.empty());
}

/// In several rounds, so that nothing is shared by chance of one.
TEST(a_thousand_large_jobs_are_kept_in_little_memory) {
    RequestCache book;
    const auto bytes = [] { return mallinfo2().uordblks; };
    (void)book.get(1, large_record(), "");
    const std::size_t before = bytes();
    for (JobId id = 2; id <= 1001; ++id) {
        (void)book.get(id, large_record(), "");
        if (id % 100 == 0) book.forget([](const auto&) { return false; });
    }
    book.forget([](const auto&) { return false; });
    const std::size_t per_job = (bytes() - before) / 1000;
    ck_assert_msg(per_job < 1024, "%zu bytes per job", per_job);
}

}  // namespace
