// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/comm/messages.h"

#include <algorithm>
#include <cstdint>

namespace arena::train {
namespace {

template <typename T, typename Do>
void in_pieces(std::span<T> values, Do piece) {
    constexpr std::size_t most = std::size_t{1} << 28;
    for (std::size_t i = 0; i < values.size(); i += most)
        piece(values.subspan(i, std::min(most, values.size() - i)));
}

}  // namespace

void broadcast_floats(Comm& comm, std::span<float> values, int root) {
    in_pieces(values, [&](auto piece) { comm.broadcast(std::as_writable_bytes(piece), root); });
}

void send_floats(Comm& comm, std::span<const float> values, int to) {
    in_pieces(values, [&](auto piece) { comm.send(piece, to); });
}

void receive_floats(Comm& comm, std::span<float> values, int from) {
    in_pieces(values, [&](auto piece) { comm.receive(piece, from); });
}

std::string share_text(Comm& comm, std::string text, int root) {
    auto size = static_cast<std::uint64_t>(text.size());
    comm.broadcast(std::as_writable_bytes(std::span(&size, 1)), root);
    text.resize(size);
    comm.broadcast(std::as_writable_bytes(std::span(text)), root);
    return text;
}

std::vector<std::string> share_texts(Comm& comm, const std::string& mine) {
    std::vector<std::string> all;
    for (int rank = 0; rank < comm.size(); ++rank) all.push_back(share_text(comm, mine, rank));
    return all;
}

}  // namespace arena::train
