// SPDX-License-Identifier: GPL-2.0-or-later
// Our answers to instances held against known ones.
#pragma once

#include <string>
#include <vector>

#include "array/search/solve.h"
#include "base/json.h"
#include "tests/lab/array/instance_file.h"

namespace arena::cli {

struct ArrayEvaluationOptions {
    array::Solver solver = array::Solver::exact;
    int seeds = 1;       ///< runs of the genetic search, from seed 1 on
    double seconds = 0;  ///< of each search; 0: 10 of the exact one, 3 of the genetic one
    [[nodiscard]] double limit_s() const {
        if (seconds > 0) return seconds;
        return solver == array::Solver::exact ? 10 : 3;
    }
};

class ArrayEvaluation {
  public:
    explicit ArrayEvaluation(const ArrayEvaluationOptions& options) : options_(options) {}
    void judge(const array::ArrayCase& one);
    /// {"cases", "passed", "failed", "metrics"} of all that was judged. To be called once, at last.
    Json finish();

  private:
    void expect(const std::string& name, bool passed, const Json& got, const Json& want);
    void judge_stored(const array::ArrayCase& one);
    void judge_exact(const array::ArrayCase& one);
    array::Solution solve_exactly(const array::Instance& instance, const array::Rules& rules);
    void judge_optimum(const std::string& name, const array::Instance& instance,
                       const array::Rules& rules, array::Ticks want);
    void judge_genetic(const array::ArrayCase& one);
    void judge_large(const array::ArrayCase& one, array::Ticks makespan);
    void judge_runs();

    ArrayEvaluationOptions options_;
    std::size_t cases_ = 0, proven_ = 0, nodes_ = 0, optima_ = 0, vectors_ = 0;
    double slowest_s_ = 0, total_s_ = 0;
    std::vector<double> gaps_;  ///< percent, of runs on small instances with a known optimum
    Json failed_ = Json::array(), open_ = Json::array(), answers_ = Json::object();
};

}  // namespace arena::cli
