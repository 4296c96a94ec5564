// SPDX-License-Identifier: GPL-2.0-or-later
// What a stage keeps of its members' weights and moments: at home in the host's memory, and in a
// few buffers of the device while they are computed with. Which use comes when is known, so that
// the states of the next uses are fetched while one computes, and a switch is the exchange of a
// pointer. Forward needs the weights alone; what backward has changed is written back before its
// buffer is another's.
#pragma once

#include <optional>
#include <vector>

#include "train/array/mover.h"
#include "train/core/optimizer.h"
#include "train/core/pipeline.h"

namespace arena::train {

/// A member's state where a device computes with it.
struct DeviceState {
    /// Of so many elements.
    DeviceState(Device&, std::size_t size);
    /// A view, where the device's memory is the host's.
    DeviceState(Device&, std::span<float> weights, std::span<float> first, std::span<float> second);
    Array<float> masters, first, second;
    Array<Element> weights;  ///< the masters themselves where memory is the host's
};

/// A member's state at home.
class HomeState final : public Moments {
  public:
    HomeState(const GptShape&, const TrainPlan&, const Place&, Device&);
    std::vector<float> gather(Moment) override;
    void set(Moment, std::span<const float> all) override;
    /// After the parameters were changed here.
    void refresh();
    [[nodiscard]] std::size_t bytes() const;

    Parameters parameters;
    std::vector<float> first, second;
    std::vector<Bf16> elements;           ///< of a device with memory of its own
    std::optional<DeviceState> in_place;  ///< where the device's memory is the host's
};

class StateBuffers {
  public:
    struct Use {
        HomeState* state = nullptr;
        bool backward = false;  ///< with moments, and changes it
    };
    /// States of `size` elements. No buffers: members are computed with at home, which only a
    /// device whose memory is the host's can do. The mover is make_mover()'s where none is given.
    StateBuffers(Device&, std::size_t size, Index buffers,
                 std::unique_ptr<StateMover> mover = nullptr);

    /// The uses to come, all before them being over; begins to fetch.
    void plan(std::vector<Use>);
    /// The state of the next use, which may have to be waited for. Neither this nor release()
    /// allocates.
    DeviceState& acquire();
    /// That use is over.
    void release();
    /// Seconds that the last acquire() waited.
    [[nodiscard]] double waited_s() const { return waited_s_; }

    /// Between plans: what was changed is at home, too.
    void settle();
    /// Between plans: a member leaves; what is not settled of it is lost. Before its state ends.
    void forget(HomeState&);

  private:
    struct Buffer {
        DeviceState state;
        HomeState* owner = nullptr;
        bool has_moments = false, changed = false;
        Index pins = 0;  ///< uses that are prepared and not over
        StateMover::Ticket weights = 0, moments = 0;
    };
    struct Prepared {
        Buffer* buffer = nullptr;
        StateMover::Ticket ready = 0;
    };
    void prepare();
    Buffer* holder(const HomeState*);
    Buffer* find_room();
    [[nodiscard]] std::size_t next_use(const HomeState*) const;
    void fetch_weights(Buffer&);
    void fetch_moments(Buffer&);
    StateMover::Ticket write_back(Buffer&);
    template <typename T>
    StateMover::Ticket move(StateMover::Way, const Array<T>&, void* host);

    Device& device_;
    std::vector<Buffer> buffers_;
    std::unique_ptr<StateMover> mover_;
    std::vector<Use> uses_;
    std::vector<Prepared> prepared_;
    std::size_t next_ = 0, ready_ = 0;  ///< uses begun; uses prepared
    StateMover::Ticket last_ = 0;
    double waited_s_ = 0;
};

}  // namespace arena::train
