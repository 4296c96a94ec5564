// SPDX-License-Identifier: GPL-2.0-or-later
// What ranks do for the chief of a watched job: products and transfers are timed on every kind of
// ranks, computing is told from communicating, and a chief that is there, talks nonsense or goes
// away changes no loss.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "train/core/compute_clock.h"
#include "train/core/device_module.h"
#include "train/run/chief_control.h"
#include "train/run/control.h"
#include "train/run/hardware_check.h"
#include "train_cases.h"
#include "watch/wire/link.h"

using namespace arena;
using namespace arena::train;
using namespace arena::train::test;
using arena::test::assert_refused;
using arena::test::assert_text;

namespace {

Environment variables(std::map<std::string, std::string, std::less<>> all) {
    return [all](std::string_view name) -> std::optional<std::string> {
        const auto found = all.find(name);
        if (found == all.end()) return std::nullopt;
        return found->second;
    };
}

// ---- words ------------------------------------------------------------------------------------

TEST(a_check_is_read_as_it_is_written) {
    for (const char* text : {"check 7 gpus", "check 0 links 0>1", "check 7 links 0>1,2>3|1>2|3>0",
                             "check 9 gpus links 0>1"})
        assert_text(to_text(parse_word(text).value()), text);
    const Check wanted{.id = 7, .gpus = true, .passes = {{{0, 1}, {2, 3}}, {{1, 2}}}};
    ck_assert(*parse_word("check 7  gpus links 0>1,2>3|1>2") == Word(wanted));
    for (const char* text :
         {"check", "check 7", "check gpus", "check -1 gpus", "check 7 gpu", "check 7 links",
          "check 7 links 0", "check 7 links 0>", "check 7 links >1", "check 7 links 0>1,",
          "check 7 links 0>1||1>0", "check 7 links 0>-1", "check 7 links 0>1 gpus",
          "check 7 gpus gpus", "check 7 gpus links 0>1 2>3", "check 1e3 gpus",
          "check 99999999999999999999 gpus", "check 7 links 0>99999999999999999999"})
        assert_refused(parse_word(text), "check ID [gpus] [links RANK>RANK");
    std::string passes = "0>1";
    for (std::size_t i = 1; i < most_passes; ++i) passes += "|0>1";
    ck_assert(parse_word("check 1 links " + passes).ok());
    assert_refused(parse_word("check 1 links " + passes + "|0>1"), "none of");
}

TEST(a_check_of_ranks_that_are_not_there_is_refused) {
    const TrainPlan plan = make_plan(2, 2, 1);
    for (const char* good : {"check 1 gpus", "check 1 links 0>3,2>1|3>0"})
        ck_assert(check_word(*parse_word(good), plan).ok());
    for (const char* bad : {"check 1 links 0>4", "check 1 gpus links 1>1", "check 1 links 0>1,1>2",
                            "check 1 links 0>1|2>0,3>2"})
        assert_refused(check_word(*parse_word(bad), plan), "no pairs of ranks of 0 to 3");
}

// ---- where ranks run --------------------------------------------------------------------------

TEST(a_rank_s_gpu_is_that_of_slurm_s_list) {
    const auto gpu = [](std::map<std::string, std::string, std::less<>> all, int local) {
        return gpu_of_rank(variables(std::move(all)), local);
    };
    ck_assert_int_eq(gpu({}, 0), -1);
    ck_assert_int_eq(gpu({{"SLURM_STEP_GPUS", "2,5"}}, 1), 5);
    ck_assert_int_eq(gpu({{"SLURM_STEP_GPUS", "2,5"}}, 2), -1);
    ck_assert_int_eq(gpu({{"SLURM_STEP_GPUS", "3"}}, 1), 3);
    ck_assert_int_eq(gpu({{"SLURM_STEP_GPUS", "1,2"}, {"CUDA_VISIBLE_DEVICES", "0"}}, 0), 1);
    ck_assert_int_eq(gpu({{"CUDA_VISIBLE_DEVICES", "4,6"}}, 1), 6);
    ck_assert_int_eq(gpu({{"CUDA_VISIBLE_DEVICES", "GPU-8f3a"}}, 0), -1);
    ck_assert_int_eq(gpu({{"SLURM_STEP_GPUS", ""}}, 0), -1);
}

TEST(ranks_of_a_crowded_machine_take_turns) {
    const RankHost a{.node = "n1", .machine = "A", .processors = "1100", .device = "cpu"},
        b{.node = "n2", .machine = "A", .processors = "0011", .device = "cpu"},
        c{.node = "n3", .machine = "C", .processors = "11", .device = "cpu"};
    const auto of = [](const std::vector<RankHost>& hosts, int threads) {
        return turns_of(hosts, threads).of;
    };
    ck_assert(of({a, a, b, b}, 1) == (std::vector<int>{0, 0, 0, 0}));
    ck_assert(of({a, c, a, b, b}, 1) == (std::vector<int>{0, 0, 0, 0, 0}));
    ck_assert(of({a, c, a, b, b}, 2) == (std::vector<int>{0, 0, 1, 2, 3}));
    ck_assert(of({c, c, c, a}, 1) == (std::vector<int>{0, 1, 2, 0}));
    ck_assert_int_eq(turns_of({c, c, c, a}, 1).count, 3);
    ck_assert_int_eq(turns_of({c, c}, 1).count, 1);
}

// ---- products and transfers -------------------------------------------------------------------

using Make = std::function<std::unique_ptr<Device>(int, Comm&)>;
std::unique_ptr<Device> cpu_device(int threads, Comm&) { return make_cpu_device(threads); }

void check_on(int ranks, const Make& make) {
    cpu::set_gemm_threads(1);
    run_threads(ranks, [&](Comm& world) {
        const auto device = make(1, world);
        HardwareCheck hardware(world, *device, variables({{"SLURM_STEP_GPUS", "0,1,2,3"}}), 1);
        ck_assert_uint_eq(hardware.hosts().size(), at(ranks));
        ck_assert_int_eq(hardware.hosts().back().gpu, ranks - 1);
        ck_assert_double_ge(hardware.link_bytes(), 1 << 16);
        ck_assert_double_le(hardware.link_bytes(), 64 << 20);
        const auto both = hardware.run({.id = 5, .gpus = true, .passes = {{{0, 1}}, {{1, 0}}}});
        ck_assert_int_eq(both.id, 5);
        ck_assert_uint_eq(both.gpu_ms.size(), at(ranks));
        for (const double ms : both.gpu_ms) ck_assert(ms > 0 && ms < 1e4);
        assert_text(both.types.back(), device->name());
        ck_assert_uint_eq(both.links.size(), 2);
        ck_assert(both.links[1].from == 1 && both.links[1].to == 0);
        for (const auto& link : both.links) ck_assert(link.ms > 0 && link.ms < 1e4);
        ck_assert_double_gt(both.seconds, 0.3);  // five samples of 60 ms
        const auto links = hardware.run({.id = 6, .gpus = false, .passes = {{{1, 0}}}});
        ck_assert(links.gpu_ms.empty() && links.links.size() == 1);
    });
}

TEST(every_rank_and_link_is_timed) {
    check_on(2, cpu_device);
    check_on(4, cpu_device);
    check_on(2, arena_train_open_device);
}

TEST(a_machine_that_is_busy_for_a_moment_does_not_shorten_the_message) {
    cpu::set_gemm_threads(1);
    setenv("ARENA_EMULATED_STALLS", "8", 1);  // all of the first pass
    run_threads(2, [](Comm& world) {
        const auto device = arena_train_open_device(1, world);
        const HardwareCheck hardware(world, *device, variables({}), 1);
        ck_assert_double_gt(hardware.link_bytes(), 1 << 16);
    });
    unsetenv("ARENA_EMULATED_STALLS");
}

/// Rank 1 comes to the check when rank 0 has told that it gives it up.
void hang_in_a_check(const Make& make) {
    std::promise<void> told;
    const std::shared_future<void> given_up = told.get_future().share();
    run_threads(3, [&](Comm& world) {
        const auto device = make(1, world);
        HardwareCheck hardware(world, *device, variables({}), 1, 8);
        const double bytes = hardware.link_bytes();
        int heard = 0;
        const auto tell = [&](const CheckResult& found) {
            ck_assert(found.failure.find("not all ranks came") != std::string::npos);
            if (world.rank() == 0) told.set_value();
            heard += 1;
        };
        if (world.rank() == 1) given_up.wait();
        const auto lost = hardware.run({.id = 1, .gpus = true, .passes = {{{0, 1}}}}, tell);
        ck_assert(!lost.failure.empty() && heard == 1 && lost.seconds < 30);
        const auto found = hardware.run({.id = 2, .gpus = false, .passes = {{{0, 1}}, {{2, 0}}}});
        ck_assert(found.failure.empty() && found.links.size() == 2 && found.links[0].ms > 0);
        ck_assert_double_eq(hardware.link_bytes(), bytes);
    });
}

TEST(a_rank_that_hangs_in_a_check_is_not_waited_for) {
    cpu::set_gemm_threads(1);
    hang_in_a_check(cpu_device);
    hang_in_a_check(arena_train_open_device);
}

TEST(a_rank_that_hangs_again_and_again_is_asked_no_more) {
    cpu::set_gemm_threads(1);
    std::atomic<int> given_up = 0;
    run_threads(2, [&](Comm& world) {
        const auto device = make_cpu_device(1);
        HardwareCheck hardware(world, *device, variables({}), 1, 0.05);
        for (int i = 0; i < 3; ++i) {
            while (world.rank() == 1 && given_up == i) std::this_thread::yield();
            const auto lost = hardware.run({.id = i, .gpus = false, .passes = {{{0, 1}}}},
                                           [&](const auto&) { given_up += 1 - world.rank(); });
            ck_assert(!lost.failure.empty());
        }
        const auto none = hardware.run({.id = 4, .gpus = true, .passes = {}});
        ck_assert(none.failure.find("no more are made") != std::string::npos);
        ck_assert_double_lt(none.seconds, 0.05);
    });
}

TEST(a_rank_alone_has_products_and_no_links) {
    run_threads(1, [&](Comm& world) {
        const auto device = make_cpu_device(1);
        HardwareCheck hardware(world, *device, variables({}), 1);
        ck_assert_double_eq(hardware.link_bytes(), 0);
        const auto found = hardware.run({.id = 1, .gpus = true, .passes = {}});
        ck_assert(found.gpu_ms.size() == 1 && found.gpu_ms[0] > 0 && found.links.empty());
    });
}

TEST(who_waits_at_a_meeting_leaves_the_processor) {
    run_threads(2, [](Comm& world) {
        if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        timespec before{}, after{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
        world.meet(0);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
        const double used = static_cast<double>(after.tv_sec - before.tv_sec) +
                            1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
        ck_assert_double_lt(used, 0.05);
    });
}

// ---- what is computing ------------------------------------------------------------------------

void spin(double seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
    }
}

TEST(waiting_for_others_is_not_computing) {
    run_threads(2, [](Comm& world) {
        const auto device = make_cpu_device(1);
        ComputeClock clock(*device, true);
        const auto group = timed(device->group(world), clock);
        Array<float> x(*device, 1);
        clock.start();
        for (int i = 0; i < 4; ++i) {
            if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
            group->all_reduce_sum(x.span());
        }
        const double computed = clock.stop();
        if (world.rank() == 1)
            ck_assert_double_ge(computed, 0.2);  // a rank that sleeps by itself is slow
        else
            ck_assert_double_lt(computed, 0.1);
    });
}

TEST(a_clock_that_is_off_does_nothing) {
    const auto device = make_cpu_device(1);
    ComputeClock clock(*device, false);
    clock.start();
    spin(0.01);
    ck_assert_double_eq(clock.stop(), 0);
}

// ---- a chief ----------------------------------------------------------------------------------

const char* const key_text = "00112233445566778899aabbccddeeff";

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// Answers each frame with what `react` says; leaves after the frame to which that answers nothing.
class ChiefThread {
  public:
    using Answer = std::optional<std::vector<watch::Frame>>;
    using React = std::function<Answer(const watch::Frame&)>;
    explicit ChiefThread(React react) : react_(std::move(react)) {
        setenv("ARENA_WATCH_CHIEF", "127.0.0.1", 1);
        listener_.emplace(
            must(watch::Listener::open(*watch::parse_watch_key(key_text), "0.0.0", false)));
        thread_ = std::jthread([this](const std::stop_token& stop) { listen(stop); });
    }
    /// What it has heard; it leaves.
    std::vector<watch::Frame> heard() {
        thread_.request_stop();
        if (thread_.joinable()) thread_.join();
        listener_.reset();
        return heard_;
    }

  private:
    void listen(const std::stop_token& stop) {
        while (!stop.stop_requested() && listener_) {
            auto wanted = listener_->wanted();
            poll(wanted.data(), wanted.size(), 2);
            for (const auto& event : listener_->serve(now_s()))
                if (event.what == watch::LinkEvent::What::frame && listener_) hear(event.frame);
        }
    }
    void hear(const watch::Frame& frame) {
        heard_.push_back(frame);
        const Answer answer = react_(frame);
        if (!answer) return listener_.reset();
        for (const watch::Frame& one : *answer) listener_->send_all(one);
    }
    React react_;
    std::optional<watch::Listener> listener_;
    std::vector<watch::Frame> heard_;
    std::jthread thread_;
};

template <typename T>
std::vector<T> all(const std::vector<watch::Frame>& frames) {
    std::vector<T> found;
    for (const watch::Frame& frame : frames)
        if (const T* const one = std::get_if<T>(&frame)) found.push_back(*one);
    return found;
}

struct Watched {
    Directory directory;
    TrainOptions options;
    explicit Watched(const TrainPlan& plan, Index steps = 12)
        : options(options_of(plan, directory / "text", steps)) {
        write_file(options.data, text(2000));
        options.watch.key = key_text;
        options.environment =
            variables({{"SLURMD_NODENAME", "n7"}, {"SLURM_STEP_GPUS", "4,5,6,7"}});
    }
    [[nodiscard]] std::vector<double> alone() const {
        TrainOptions o = options;
        o.watch = {};
        return losses_of(o);
    }
};

/// Says `words` when step N is done; "release" and others are frames.
ChiefThread::React words_after(std::map<Index, std::vector<watch::Frame>> words) {
    return [words](const watch::Frame& frame) -> ChiefThread::Answer {
        Index step = -1;
        if (std::holds_alternative<watch::TrainerPlan>(frame)) step = 0;
        if (const auto* const done = std::get_if<watch::StepDone>(&frame)) step = done->step;
        const auto found = words.find(step);
        return found == words.end() ? std::vector<watch::Frame>{} : found->second;
    };
}

void assert_told(const std::vector<watch::Frame>& heard, const TrainPlan& plan) {
    const auto hello = all<watch::TrainerHello>(heard);
    ck_assert_uint_eq(hello.size(), 1);
    ck_assert(hello[0].nodes == std::vector<std::string>(4, "n7"));
    ck_assert(hello[0].gpus == (std::vector<Index>{4, 5, 6, 7}));
    const auto told = all<watch::TrainerPlan>(heard).front();
    ck_assert(told.dp == 2 && told.pp == 2 && told.tp == 1 && !told.checkpoints);
    ck_assert(told.micro_batches == plan.micro_batches && told.same_state_in_stage);
    ck_assert_uint_eq(told.state_bytes.size(), 2);
    for (const double bytes : told.state_bytes)
        ck_assert(bytes > 0 && bytes <= 3 * told.gradient_bytes);
    ck_assert_double_eq(told.activation_bytes, 12 * 16 * 4);  // seq x hidden floats
    ck_assert_double_ge(told.link_bytes, 1 << 16);
    ck_assert_double_gt(told.restart_s, 0);
}

TEST(a_chief_hears_of_every_step_and_its_words_change_no_loss) {
    const TrainPlan plan = make_plan(2, 2, 1);
    const Watched run(plan);
    using watch::Say;
    ChiefThread chief(words_after({{0, {Say{"check 1 gpus links 0>1,2>3|1>2"}}},
                                   {3, {Say{"swap 0 3"}}},
                                   {5, {Say{"park 60s"}, watch::Release{}}},
                                   {7, {Say{"check 2 gpus"}, Say{"swap 0 3"}}}}));
    assert_same_losses(losses_of(run.options), run.alone(), 0, "watched");
    const auto heard = chief.heard();
    assert_told(heard, plan);
    const auto steps = all<watch::StepDone>(heard);
    ck_assert_uint_ge(steps.size(), 3);  // those that come within 2 ms are left out
    for (const auto& step : steps) {
        ck_assert(step.tokens == 8 * 12 && step.seconds > 0 && step.end_ms > 0);
        ck_assert_uint_eq(step.micro_batch_s.size(), 2);
        for (const double s : step.micro_batch_s) ck_assert(s > 0 && s <= step.seconds);
    }
    const auto checked = all<watch::Checked>(heard);
    ck_assert(!checked.empty() && checked[0].id == 1 && checked[0].gpus.size() == 4);
    ck_assert(checked[0].links.size() == 3 && checked[0].links[2].from == 1);
    assert_text(checked[0].gpus[3].type, "cpu");
    const auto obeyed = all<watch::Obeyed>(heard);
    ck_assert(!obeyed.empty() && obeyed[0].step == 1);
    assert_text(obeyed[0].word, "check 1 gpus links 0>1,2>3|1>2");
    for (const auto& one : obeyed) ck_assert_double_lt(one.seconds, 30);
}

TEST(a_chief_is_told_how_micro_batches_are_dealt) {
    const TrainPlan plan = make_plan(1, 2, 1);
    const Watched run(plan);
    ChiefThread chief(words_after({{0, {watch::Say{"split 6,2"}}}}));
    assert_same_losses(losses_of(run.options), run.alone(), 2e-5, "split");
    const auto told = all<watch::TrainerPlan>(chief.heard());
    ck_assert(told.back().micro_batches == (std::vector<Index>{6, 2}));
}

TEST(words_that_cannot_be_obeyed_are_left_out) {
    const Watched run(make_plan(2, 2, 1));
    using watch::Say;
    std::vector<watch::Frame> nonsense{Say{""},
                                       Say{"leave"},
                                       Say{"split 9,9"},
                                       Say{"swap 0 9"},
                                       Say{"park 61s"},
                                       Say{"check 1 links 0>1,1>2"},
                                       Say{std::string(100'000, 'x')},
                                       watch::AgentHello{.node = "x"},
                                       watch::Silent{.rank = 0, .seconds = 4}};
    for (int i = 0; i < 100; ++i) nonsense.push_back(Say{"split 9,9"});
    ChiefThread chief(words_after({{0, nonsense}, {4, nonsense}}));
    assert_same_losses(losses_of(run.options), run.alone(), 0, "nonsense");
    ck_assert(all<watch::Obeyed>(chief.heard()).empty());
}

TEST(a_run_whose_chief_goes_away_goes_on) {
    const Watched run(make_plan(1, 2, 1), 40);
    ChiefThread chief([](const watch::Frame& frame) -> ChiefThread::Answer {
        if (std::holds_alternative<watch::TrainerPlan>(frame))
            return std::vector<watch::Frame>{watch::Say{"park 0.1s"}};
        if (std::holds_alternative<watch::StepDone>(frame)) return std::nullopt;
        return std::vector<watch::Frame>{};
    });
    assert_same_losses(losses_of(run.options), run.alone(), 0, "the chief is gone");
}

TEST(a_run_goes_on_after_a_check_that_hung) {
    const TrainPlan plan = make_plan(1, 2, 1);
    Watched run(plan);
    run.options.check_limit_s = 0;  // over before anybody has come
    ChiefThread chief(words_after({{0, {watch::Say{"check 1 gpus"}}}}));
    assert_same_losses(losses_of(run.options), run.alone(), 0, "a check that hung");
    const auto checked = all<watch::Checked>(chief.heard());
    ck_assert_uint_eq(checked.size(), 1);
    ck_assert(checked[0].id == 1 && checked[0].gpus.empty() && !checked[0].failure.empty());
}

TEST(a_park_ends_with_the_chief_that_asked_for_it) {
    const Watched run(make_plan(1, 2, 1));
    ChiefThread chief(words_after({{0, {watch::Say{"park 60s"}}}}));
    const double start = now_s();
    std::jthread leaves([&] {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        chief.heard();
    });
    const auto losses = losses_of(run.options);
    ck_assert_double_lt(now_s() - start, 40);
    assert_same_losses(losses, run.alone(), 0, "parked");
}

TEST(without_a_chief_a_run_goes_on_unwatched) {
    Watched run(make_plan(1, 2, 1));
    setenv("ARENA_WATCH_CHIEF", "127.0.0.1", 1);
    const double start = now_s();
    assert_same_losses(losses_of(run.options), run.alone(), 0, "no chief");
    ck_assert_double_lt(now_s() - start, 20);
    run.options.watch.key = "no key";
    assert_same_losses(losses_of(run.options), run.alone(), 0, "no key");
}

}  // namespace
