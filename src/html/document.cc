// SPDX-License-Identifier: GPL-2.0-or-later
#include "html/document.h"

#include <fmt/format.h>
#include <nettle/base64.h>
#include <nettle/sha2.h>

#include <array>

#include "base/text.h"

namespace arena::html {
namespace {

/// 'sha256-...', as a policy names what stands in a document.
std::string source_of(std::string_view text) {
    if (text.empty()) return "'none'";
    sha256_ctx context{};
    sha256_init(&context);
    sha256_update(&context, text.size(), reinterpret_cast<const std::uint8_t*>(text.data()));
    std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
    sha256_digest(&context, digest.size(), digest.data());
    std::array<char, BASE64_ENCODE_RAW_LENGTH(SHA256_DIGEST_SIZE)> code{};
    base64_encode_raw(code.data(), digest.size(), digest.data());
    return "'sha256-" + std::string(code.data(), code.size()) + "'";
}

std::string_view entity_of(char c) {
    switch (c) {
        case '&':
            return "&amp;";
        case '<':
            return "&lt;";
        case '>':
            return "&gt;";
        case '"':
            return "&quot;";
        case '\'':
            return "&#39;";
        default:
            return "";
    }
}

}  // namespace

std::string escaped(std::string_view text, std::size_t most) {
    std::string out;
    for (const char c : printable(text, most)) {
        if (const std::string_view entity = entity_of(c); !entity.empty())
            out += entity;
        else
            out += c;
    }
    return out;
}

std::string policy_of(const Document& document, std::string_view connect) {
    return fmt::format(
        "default-src 'none'; {}script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        connect.empty() ? "" : fmt::format("connect-src {}; ", connect), source_of(document.script),
        source_of(document.style));
}

std::string page_of(const Document& document, std::string_view connect) {
    std::string page = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<title>{}</title>\n<style>",
        policy_of(document, connect), escaped(document.title, 200));
    page += document.style + "</style></head>\n<body>" + document.body;
    if (!document.script.empty()) page += "<script>" + document.script + "</script>";
    return page + "</body></html>\n";
}

}  // namespace arena::html
