// SPDX-License-Identifier: GPL-2.0-or-later
// Frames between the chief and its callers over TCP. Nothing here waits or starts a thread: who
// owns one polls wanted() and calls serve() when there is something to do, and at least every
// second. The clock is the caller's: seconds that do not go back.
//
// Limits: 32 connections that have not said who they are, each for 5 s; 4,096 that have; of each
// 1,000 lines a second (4,000 at once), beyond which it is not read; 4 MiB that it does not read,
// beyond which it is dropped. One bad line ends a connection, and nothing else.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "watch/wire/frames.h"
#include "watch/wire/line_stream.h"
#include "watch/wire/meeting.h"

namespace arena::watch {

/// Of one connection, at either end.
inline constexpr std::size_t most_unsent = std::size_t{4} << 20,
                             read_at_once = std::size_t{256} << 10;
/// Who has not shown by then that it has the key is dropped.
inline constexpr double time_to_prove_s = 5;

struct LinkEvent {
    enum class What {
        up,     ///< it has shown that it has the key: frames go both ways
        frame,  ///< it says something
        down,   ///< it is gone
    };
    What what = What::up;
    PeerId peer = 0;  ///< of a Link's: 0
    Frame frame;      ///< of What::frame
};

/// How many lines a peer may have taken from it: 1,000 a second, 4,000 at once.
class LineBudget {
  public:
    bool take(double now_s);
    [[nodiscard]] bool is_spent() const { return left_ < 1; }
    void refill(double now_s);

  private:
    double left_ = 4000;
    double at_s_ = -1;
};

/// The chief's side.
class Listener {
  public:
    /// Binds the first of the step's ports that is free: of all interfaces, or of loopback alone.
    static Result<Listener> open(const WatchKey& key, std::string_view run, bool all_interfaces);

    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] std::vector<pollfd> wanted() const;
    std::vector<LinkEvent> serve(double now_s);
    /// Nothing happens where it is gone.
    void send(PeerId to, const Frame& frame);
    void send_all(const Frame& frame);

    struct Counts {
        std::int64_t forged = 0;   ///< lines that did not have the key's seal, or were no frame
        std::int64_t refused = 0;  ///< connections that did not say who they are, or were too many
        std::int64_t dropped = 0;  ///< peers that did not read
    };
    [[nodiscard]] const Counts& counts() const { return counts_; }

  private:
    struct Peer {
        PeerId id = 0;
        LineStream stream;
        std::string nonce;
        double since_s = 0;
        bool known = false;
        Seal up, down;
        LineBudget budget;
    };
    Listener(const WatchKey& key, FileDescriptor socket, std::uint16_t port)
        : key_(key), socket_(std::move(socket)), port_(port) {}
    void accept_callers(double now_s);
    void take_caller(int fd, double now_s);
    void end_strangers(double now_s);
    bool drop_oldest_stranger();
    void say(Peer& peer, const Frame& frame);
    void serve(Peer& peer, double now_s, std::vector<LinkEvent>& events);
    bool take_line(Peer& peer, std::string_view line, std::vector<LinkEvent>& events);
    bool welcome(Peer& peer, std::string_view nonce, std::vector<LinkEvent>& events);
    [[nodiscard]] std::size_t count(bool known) const;
    void remove_closed(std::vector<LinkEvent>& events);

    WatchKey key_;
    FileDescriptor socket_;
    std::uint16_t port_ = 0;
    PeerId last_ = 0;
    std::list<Peer> peers_;
    Counts counts_;
};

/// A caller's side: finds the chief, and finds it again.
class Link {
  public:
    /// `addresses` without ports: resolve_hosts().
    Link(const WatchKey& key, std::string_view run, std::vector<Address> addresses);

    [[nodiscard]] std::vector<pollfd> wanted() const;
    std::vector<LinkEvent> serve(double now_s);
    /// False, and it is forgotten, where the chief is not connected. Who sends says first things
    /// again at each LinkEvent::What::up.
    bool send(const Frame& frame);
    [[nodiscard]] bool is_up() const { return state_ == State::up; }

  private:
    enum class State { waiting, connecting, greeting, proving, up };
    void look_for_chief(double now_s);
    void try_next(double now_s);
    void give_up(double now_s);
    bool read_lines(double now_s, std::vector<LinkEvent>& events);
    bool take_line(std::string_view line, std::vector<LinkEvent>& events);
    bool answer(std::string_view line);
    bool finish_connecting();

    WatchKey key_;
    std::vector<Address> targets_;  ///< with ports
    std::size_t next_target_ = 0;
    State state_ = State::waiting;
    double try_at_s_ = 0, since_s_ = 0, pause_s_ = 0;
    std::optional<LineStream> stream_;
    std::optional<Seal> up_, down_;
    LineBudget budget_;
};

}  // namespace arena::watch
