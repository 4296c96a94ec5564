// SPDX-License-Identifier: GPL-2.0-or-later
#include "simulated_job.h"
#include "suite.h"
int main() { return arena::test::run_suite(); }
