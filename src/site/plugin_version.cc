// SPDX-License-Identifier: GPL-2.0-or-later
// See plugin_version.h. Names and numbers are those of the System V ABI (elf.h).
#include "site/plugin_version.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>

namespace arena {
namespace {

constexpr std::uint64_t max_entries = 1 << 20;  ///< of sections, of symbols

/// Bytes [offset, offset + size) of the file; nothing where it has not as many.
std::optional<std::string_view> part(std::string_view file, std::uint64_t offset,
                                     std::uint64_t size) {
    if (offset > file.size() || size > file.size() - offset) return std::nullopt;
    return file.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

template <typename T>
std::optional<T> read(std::string_view file, std::uint64_t offset) {
    const auto bytes = part(file, offset, sizeof(T));
    if (!bytes) return std::nullopt;
    T value;
    std::memcpy(&value, bytes->data(), sizeof value);
    return value;
}

std::optional<Elf64_Ehdr> header_of(std::string_view file) {
    const auto header = read<Elf64_Ehdr>(file, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
    const bool is_ours =
        header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB;
    return is_ours && header->e_shentsize == sizeof(Elf64_Shdr) ? header : std::nullopt;
}

std::optional<Elf64_Shdr> section(std::string_view file, const Elf64_Ehdr& header,
                                  std::uint64_t index) {
    if (index >= header.e_shnum || header.e_shoff > file.size()) return std::nullopt;
    return read<Elf64_Shdr>(file, header.e_shoff + index * sizeof(Elf64_Shdr));
}

bool has_name(std::string_view strings, std::uint64_t at, std::string_view name) {
    return at < strings.size() &&
           strings.substr(static_cast<std::size_t>(at)).starts_with(std::string(name) + '\0');
}

std::optional<std::uint32_t> value_of(std::string_view file, const Elf64_Ehdr& header,
                                      const Elf64_Sym& symbol) {
    const auto home = section(file, header, symbol.st_shndx);
    if (!home || home->sh_type == SHT_NOBITS || symbol.st_value < home->sh_addr)
        return std::nullopt;
    const auto bytes = part(file, home->sh_offset, home->sh_size);
    return bytes ? read<std::uint32_t>(*bytes, symbol.st_value - home->sh_addr) : std::nullopt;
}

std::optional<std::uint32_t> find_in(std::string_view file, const Elf64_Ehdr& header,
                                     const Elf64_Shdr& table) {
    const auto names = section(file, header, table.sh_link);
    const auto strings = names ? part(file, names->sh_offset, names->sh_size) : std::nullopt;
    const auto symbols = part(file, table.sh_offset, table.sh_size);
    if (!strings || !symbols) return std::nullopt;
    for (std::uint64_t i = 0; i < max_entries; ++i) {
        const auto symbol = read<Elf64_Sym>(*symbols, i * sizeof(Elf64_Sym));
        if (!symbol) return std::nullopt;
        if (has_name(*strings, symbol->st_name, "plugin_version"))
            return value_of(file, header, *symbol);
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::string> parse_plugin_version(std::string_view elf) {
    const auto header = header_of(elf);
    if (!header) return std::nullopt;
    for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
        const auto table = section(elf, *header, i);
        if (!table || table->sh_type != SHT_DYNSYM) continue;
        if (const auto number = find_in(elf, *header, *table))
            return fmt::format("{}.{:02}.{}", *number >> 16, (*number >> 8) & 0xff, *number & 0xff);
    }
    return std::nullopt;
}

}  // namespace arena
