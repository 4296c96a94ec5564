// SPDX-License-Identifier: GPL-2.0-or-later
// What is told of loans, as JSON documents for the socket.
#pragma once

#include <string>

#include "plugin/sched/loans/loan_book.h"

namespace arena {

/// `arena loan list`.
std::string leases_json(const LoanBook::Told& told, const Config& config);
/// What came of `arena loan offer` and `arena loan reclaim`.
std::string offered_json(const LoanBook::Offered& offered);
std::string returned_json(const LoanBook::Returned& returned);

}  // namespace arena
