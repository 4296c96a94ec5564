// SPDX-License-Identifier: GPL-2.0-or-later
// Order statistics: by hand, and at the ends.
#include <vector>

#include "base/statistics.h"
#include "suite.h"

using namespace arena;

TEST(quantiles_lie_between_their_neighbours) {
    const std::vector<double> four{1, 2, 4, 8};
    ck_assert_double_eq(median(four), 3);
    ck_assert_double_eq(median_high(four), 4);
    ck_assert_double_eq(quantile(four, 0), 1);
    ck_assert_double_eq(quantile(four, 0.25), 1.75);
    ck_assert_double_eq(quantile(four, 1), 8);
    ck_assert_double_eq(median({}), 0);
    ck_assert_double_eq(median(std::vector<double>{7}), 7);
    ck_assert_double_eq(median(std::vector<double>{1, 5, 6}), 5);
}

TEST(values_in_any_order_have_the_same_median) {
    ck_assert_double_eq(median_of({8, 1, 4, 2}), 3);
    ck_assert_double_eq(median_low_of({8, 1, 4, 2}), 2);
    ck_assert_double_eq(median_low_of({5}), 5);
    ck_assert_double_eq(median_of({}), 0);
}

TEST(percentiles_are_values_that_were_there) {
    const std::vector<double> four{1, 2, 4, 8};
    ck_assert_double_eq(percentile(four, 0.5), 2);
    ck_assert_double_eq(percentile(four, 0.51), 4);
    ck_assert_double_eq(percentile(four, 0.99), 8);
    ck_assert_double_eq(percentile(four, 1), 8);
    ck_assert_double_eq(percentile(four, 1e-9), 1);
    ck_assert_double_eq(percentile({}, 0.5), 0);
}
