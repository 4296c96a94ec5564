// SPDX-License-Identifier: GPL-2.0-or-later
// What a node's tools say, of any bytes: bounded, each finding of the table, and a Comment that has
// them says them again.
// also: src/health/finding.cc src/health/kernel_time.cc src/health/merge.cc src/health/reader.cc
// src/health/reader_tables.cc src/health/signs.cc
#include "base/text.h"
#include "fuzz.h"
#include "health/reader.h"

FUZZ(text) {
    using namespace arena::health;
    const NodeComment comment = parse_health_comment(text);
    if (!comment.broken.empty() && !comment.findings.empty()) std::abort();
    if (!comment.findings.empty() &&
        parse_health_comment(format_health_comment(comment)) != comment)
        std::abort();
    Reader reader({.boot_s = 1790000000, .now_s = 1790100000, .indexes = {}, .host = "n3"});
    for (const std::string_view line : arena::split(text, '\n')) reader.parse_line(line);
    const Report report = reader.finish();
    if (report.counts.known > report.counts.lines || report.findings.size() > max_findings)
        std::abort();
    NodeComment said;
    said.findings = report.findings;
    if (!said.findings.empty() &&
        parse_health_comment(format_health_comment(said)).findings != said.findings)
        std::abort();
}
