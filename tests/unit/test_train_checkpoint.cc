// SPDX-License-Identifier: GPL-2.0-or-later
// arena-train's checkpoints: written under one plan and read under another the run goes on as if it
// had never stopped; a kill at any operation of a save leaves a whole set; damage, other models and
// a full disk are said.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "ipc/child.h"
#include "train_cases.h"

using namespace arena;
using namespace arena::train;
using namespace arena::train::test;
using arena::test::assert_refused;
using arena::test::must;

namespace {

constexpr Index half = 6, all = 12;

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

TrainOptions options_in(const Directory& directory, const TrainPlan& plan, Index steps) {
    const std::string data = directory / "text";
    if (!std::filesystem::exists(data)) write_file(data, text(2000));
    TrainOptions o = options_of(plan, data, steps);
    o.checkpoints = directory.path();
    return o;
}

std::vector<double> uninterrupted() {
    const Directory directory;
    auto options = options_in(directory, make_plan(1, 1, 1), all);
    options.checkpoints.clear();
    return losses_of(options);
}

TEST(a_run_goes_on_exactly_under_another_plan) {
    const TrainPlan one = make_plan(1, 1, 1), pp2 = make_plan(2, 1, 1, {1, 3}),
                    dp4 = make_plan(1, 4, 1, {}, 2), tp4 = make_plan(1, 1, 4),
                    zero = make_plan(1, 2, 1, {}, 1, Recompute::none, 1),
                    mixed = make_plan(2, 2, 2, {}, 2, Recompute::full, 1), pp4 = make_plan(4, 1, 1);
    const std::pair<TrainPlan, TrainPlan> pairs[] = {
        {one, one}, {one, pp2},  {pp2, one},  {one, mixed}, {mixed, one}, {dp4, tp4},
        {tp4, dp4}, {zero, dp4}, {dp4, zero}, {pp2, mixed}, {mixed, pp4}, {pp4, zero}};
    static_assert(std::size(pairs) == 12);
    const auto wanted = uninterrupted();
    for (const auto& [writer, reader] : pairs) {
        const Directory directory;
        auto losses = losses_of(options_in(directory, writer, half));
        const auto rest = losses_of(options_in(directory, reader, all));
        ck_assert_uint_eq(rest.size(), static_cast<std::size_t>(all - half));
        losses.insert(losses.end(), rest.begin(), rest.end());
        assert_same_losses(losses, wanted, 1e-5, describe(writer) + " then " + describe(reader));
    }
}

TEST(a_checkpoint_is_the_same_whatever_plan_wrote_it) {
    std::string first;
    for (const TrainPlan& plan :
         {make_plan(1, 1, 1), make_plan(4, 1, 1), make_plan(2, 1, 1, {3, 1})}) {
        const Directory directory;
        losses_of(options_in(directory, plan, 0));
        const std::string bytes = read_file(checkpoint_path(directory.path(), 0));
        ck_assert_uint_gt(bytes.size(), 10000U);
        if (first.empty()) first = bytes;
        ck_assert_msg(bytes == first, "%s", describe(plan).c_str());
    }
}

TEST(the_newest_two_are_kept) {
    const Directory directory;
    auto options = options_in(directory, make_plan(1, 2, 1), 7);
    options.save_every = 2;
    write_file(checkpoint_path(directory.path(), 3) + ".new", "what a killed writer left");
    losses_of(options);
    ck_assert(*checkpoint_steps(directory.path()) == (std::vector<Index>{7, 6}));
    ck_assert(!std::filesystem::exists(checkpoint_path(directory.path(), 3) + ".new"));
}

TEST(a_signal_ends_the_run_after_the_step_with_a_checkpoint_and_the_code_of_requeue) {
    const Directory directory;
    const auto options = options_in(directory, make_plan(2, 1, 1), all);
    told_to_leave = true;
    const auto told = train_all(options);
    told_to_leave = false;
    for (const Outcome& outcome : told) {
        ck_assert(outcome.status.ok() && outcome.requeue);
        ck_assert_int_eq(exit_code(outcome, options), 99);
    }
    ck_assert_uint_eq(told.front().losses.size(), 1U);
    ck_assert(*checkpoint_steps(directory.path()) == std::vector<Index>{1});
    auto losses = told.front().losses;
    const auto rest = train_all(options);
    ck_assert_int_eq(exit_code(rest.front(), options), 0);
    losses.insert(losses.end(), rest.front().losses.begin(), rest.front().losses.end());
    assert_same_losses(losses, uninterrupted(), 1e-5, "after the signal");
}

TEST(a_signal_without_a_place_to_save_to_is_no_success) {
    const Directory directory;
    auto options = options_in(directory, make_plan(1, 1, 1), all);
    options.checkpoints.clear();
    told_to_leave = true;
    const Outcome outcome = train_all(options).front();
    told_to_leave = false;
    assert_refused(outcome.status, "told to leave after step 1 of 12, without --checkpoint");
    ck_assert_int_eq(exit_code(outcome, options), 1);
}

// ---- the file, without a run
// ---------------------------------------------------------------------

GptShape tiny() { return {.layers = 1, .hidden = 4, .heads = 2, .ffn = 8, .vocab = 5, .seq = 3}; }
CheckpointFacts tiny_facts(Index step) { return {tiny(), step, 1, 8, 100}; }

/// Values say which step wrote them.
std::vector<float> values_of(const TensorSpec& spec, Part part, Index step) {
    return std::vector<float>(static_cast<std::size_t>(spec.size()),
                              static_cast<float>(step) + 0.25F * static_cast<float>(part));
}

Status write_tiny(const std::string& directory, Index step,
                  const CheckpointWriter::Hook& hook = {}) {
    CheckpointWriter writer(checkpoint_path(directory, step), hook);
    if (Status s = writer.create(); !s) return s;
    for (const TensorSpec& spec : all_specs(tiny()))
        for (const Part part : parts)
            if (Status s = writer.append(spec, part, values_of(spec, part, step)); !s) return s;
    if (Status s = writer.finish(tiny_facts(step)); !s) return s;
    return remove_old_checkpoints(directory, step, checkpoint_path(directory, step - 1), hook);
}

void assert_whole(const std::string& directory, Index step) {
    const auto reader = must(CheckpointReader::open(checkpoint_path(directory, step)));
    ck_assert(reader.facts() == tiny_facts(step));
    for (const TensorSpec& spec : all_specs(tiny()))
        for (const Part part : parts) {
            std::vector<float> whole(static_cast<std::size_t>(spec.size()));
            ck_assert(reader.read(spec, part, whole).ok());
            ck_assert(whole == values_of(spec, part, step));
        }
}

Status read_all(const CheckpointReader& reader) {
    for (const TensorSpec& spec : all_specs(tiny()))
        for (const Part part : parts) {
            std::vector<float> whole(static_cast<std::size_t>(spec.size()));
            if (Status status = reader.read(spec, part, whole); !status) return status;
        }
    return Done{};
}

/// Saves step 4 after 2 and 3 in a process that kills itself before operation `n`; whether it lived
/// to the end.
bool save_until_killed(const std::string& directory, int n) {
    auto child = start_copy({}, [&](CopyEnds&) {
        int operation = 0;
        const Status status = write_tiny(directory, 4, [&] {
            if (operation++ == n) raise(SIGKILL);
        });
        return status ? 0 : 1;
    });
    ck_assert(child.ok());
    const ChildEnd end = child->wait();
    if (end.by_signal) return false;
    ck_assert_int_eq(end.status, 0);
    return true;
}

TEST(a_kill_before_any_operation_of_a_save_leaves_whole_checkpoints) {
    int kills = 0;
    for (bool alive = false; !alive; ++kills) {
        const Directory directory;
        ck_assert(write_tiny(directory.path(), 2).ok() && write_tiny(directory.path(), 3).ok());
        alive = save_until_killed(directory.path(), kills);
        const auto steps = *checkpoint_steps(directory.path());
        ck_assert_uint_ge(steps.size(), 2U);
        for (const Index step : steps) assert_whole(directory.path(), step);
        if (alive) ck_assert_int_eq(steps.front(), 4);
        ck_assert(write_tiny(directory.path(), 5).ok());
        ck_assert(checkpoint_steps(directory.path())->front() == 5);
    }
    ck_assert_int_ge(kills, 50);  // 48 arrays, footer, syncs, rename, removal
}

TEST(a_checkpoint_that_is_cut_anywhere_is_refused) {
    const Directory directory;
    ck_assert(write_tiny(directory.path(), 2).ok());
    const std::string path = checkpoint_path(directory.path(), 2), whole = read_file(path);
    for (std::size_t length = 0; length < whole.size(); length += 37) {
        write_file(path, whole.substr(0, length));
        assert_refused(CheckpointReader::open(path),
                       length < 48 ? "is damaged: it does not begin as a checkpoint does"
                                   : "is damaged: it does not end as a checkpoint does");
    }
}

TEST(a_flipped_bit_anywhere_is_found) {
    const Directory directory;
    ck_assert(write_tiny(directory.path(), 2).ok());
    const std::string path = checkpoint_path(directory.path(), 2), whole = read_file(path);
    for (std::size_t at = 0; at < whole.size(); at += 11) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
        write_file(path, bytes);
        const auto reader = CheckpointReader::open(path);
        const Status status = reader ? read_all(*reader) : Status(reader.error());
        ck_assert_msg(!status.ok(), "byte %zu of %zu", at, whole.size());
        ck_assert(status.error().code == ErrorCode::environment);
    }
}

void flip(const std::string& path) {
    std::string bytes = read_file(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
    write_file(path, bytes);
}

TEST(a_damaged_newest_checkpoint_is_passed_by_for_the_one_before) {
    const Directory directory;
    auto options = options_in(directory, make_plan(1, 1, 1), half);
    options.save_every = 3;
    losses_of(options);
    flip(checkpoint_path(directory.path(), half));
    options.steps = all;
    options.plan = make_plan(2, 1, 1);
    options.log = directory / "log";
    const auto losses = losses_of(options);
    ck_assert_uint_eq(losses.size(), static_cast<std::size_t>(all - 3));
    ck_assert(read_file(options.log).find("does not match its checksum") != std::string::npos);
    const auto wanted = uninterrupted();
    assert_same_losses(losses, {wanted.begin() + 3, wanted.end()}, 1e-5, "from the older one");
}

/// Runs, resumes, runs and resumes beside files that are not whole; the last one starts where the
/// one before it ended.
void assert_goes_on_beside(const std::function<void(const std::string& directory)>& spoil,
                           std::size_t spoiled) {
    const Directory directory;
    auto options = options_in(directory, make_plan(1, 1, 1), 2);
    options.save_every = 1;
    losses_of(options);
    spoil(directory.path());
    for (options.steps = 4; options.steps <= 8; options.steps += 2) {
        ck_assert_uint_eq(losses_of(options).size(), 2U);  // it began where the one before ended
        const auto steps = *checkpoint_steps(directory.path());
        ck_assert_uint_eq(steps.size(), 2 + spoiled);
        ck_assert(steps[spoiled] == options.steps && steps[spoiled + 1] == options.steps - 1);
    }
}

TEST(damaged_files_of_higher_numbers_push_out_no_whole_checkpoint) {
    assert_goes_on_beside(
        [](const std::string& directory) {
            for (const Index step : {9999999998, 9999999999})
                write_file(checkpoint_path(directory, step), "a hundred bytes of nothing");
        },
        2);
    assert_goes_on_beside(  // whole at their end, damaged in their midst
        [](const std::string& directory) {
            for (const Index step : {70, 71, 72}) {
                std::filesystem::copy_file(checkpoint_path(directory, 2),
                                           checkpoint_path(directory, step));
                flip(checkpoint_path(directory, step));
            }
        },
        3);
}

TEST(the_one_resumed_from_stays_beside_a_damaged_one_that_looks_whole) {
    const Directory directory;
    auto options = options_in(directory, make_plan(1, 1, 1), 3);
    options.save_every = 1;
    losses_of(options);
    flip(checkpoint_path(directory.path(), 3));  // resumes from 2
    options.save_every = 0, options.steps = 6;
    ck_assert_uint_eq(losses_of(options).size(), 4U);
    ck_assert(*checkpoint_steps(directory.path()) == (std::vector<Index>{6, 2}));
}

TEST(what_is_no_file_is_passed_by_and_never_waited_for) {
    const auto with = [](auto make) {
        assert_goes_on_beside(
            [&](const std::string& directory) {
                const std::string path = checkpoint_path(directory, 99);
                make(path);
                ck_assert(!CheckpointReader::open(path).ok());
            },
            1);
    };
    with([](const std::string& path) { ck_assert_int_eq(mkfifo(path.c_str(), 0600), 0); });
    with([](const std::string& path) { std::filesystem::create_symlink("/dev/zero", path); });
    with([](const std::string& path) {
        std::filesystem::create_symlink(checkpoint_path(path.substr(0, path.rfind('/')), 2), path);
    });
    with([](const std::string& path) { std::filesystem::create_directory(path); });
    with([](const std::string& path) {  // where the next one is written
        const std::string next = checkpoint_path(path.substr(0, path.rfind('/')), 3) + ".new";
        ck_assert_int_eq(mkfifo(next.c_str(), 0600), 0);
        ck_assert_int_eq(mkfifo(path.c_str(), 0600), 0);
    });
    const Directory directory;
    const std::string path = checkpoint_path(directory.path(), 1);
    ck_assert_int_eq(mkfifo(path.c_str(), 0600), 0);
    assert_refused(CheckpointReader::open(path), "is not a regular file");
    std::filesystem::remove(path);
    std::filesystem::create_symlink("/dev/zero", path);
    assert_refused(CheckpointReader::open(path), "is a link");
}

TEST(no_whole_checkpoint_among_several_is_an_error_and_no_new_start) {
    const Directory directory;
    auto options = options_in(directory, make_plan(1, 1, 1), 2);
    options.save_every = 1;
    losses_of(options);
    flip(checkpoint_path(directory.path(), 1));
    flip(checkpoint_path(directory.path(), 2));
    options.plan = make_plan(1, 2, 1);
    const auto outcomes = train_all(options);
    assert_refused(outcomes.front().status, "none of its 2 checkpoints is whole");
    for (const Outcome& outcome : outcomes) ck_assert_int_eq(exit_code(outcome, options), 3);
}

TEST(a_checkpoint_of_another_model_or_run_is_refused) {
    const Directory directory;
    auto options = options_in(directory, make_plan(1, 1, 1), 1);
    losses_of(options);
    options.shape.tied = false;
    auto outcome = train_all(options).front();
    assert_refused(outcome.status,
                   "is of a model of 4 layers, hidden 16, 4 heads, ffn 64, vocabulary 66, 12 "
                   "tokens per sample, "
                   "tied; this run's has 4 layers");
    ck_assert_int_eq(exit_code(outcome, options), 2);
    options.shape.tied = true;
    options.seed = 5;
    assert_refused(
        train_all(options).front().status,
        "is of a run with seed 1, global batch 8 and 2000 tokens of data; this one has 5");
}

TEST(a_full_disk_ends_the_run_and_leaves_the_checkpoint_before) {
    const Directory directory;
    auto options = options_in(directory, make_plan(2, 1, 1), 1);
    losses_of(options);
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit full{10000, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
    options.steps = 2;
    const auto outcomes = train_all(options);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_refused(outcomes.front().status,
                   "cannot be written; the checkpoint before it stands: File too large");
    for (const Outcome& outcome : outcomes) ck_assert_int_eq(exit_code(outcome, options), 3);
    ck_assert(*checkpoint_steps(directory.path()) == std::vector<Index>{1});
    ck_assert(!std::filesystem::exists(checkpoint_path(directory.path(), 2) + ".new"));
    ck_assert_uint_eq(losses_of(options).size(), 1U);
}

TEST(data_that_cannot_be_used_is_refused_with_a_sentence) {
    const Directory directory;
    const auto refused = [&](const std::string& bytes, TokenWidth width, const char* why,
                             int code) {
        auto options = options_of(make_plan(2, 2, 1), directory / "data", 2);
        if (!bytes.empty()) write_file(options.data, bytes);
        options.width = width;
        const auto outcomes = train_all(options);
        int said = 0;
        for (const Outcome& outcome : outcomes) {
            ck_assert_int_eq(exit_code(outcome, options), code);
            if (!outcome.status.error().text.empty()) assert_refused(outcome.status, why);
            said += outcome.status.error().text.empty() ? 0 : 1;
        }
        ck_assert_int_eq(said, 1);
    };
    refused("", TokenWidth::u8, "cannot be opened: No such file", 3);
    refused("twelve bytes", TokenWidth::u8, "has 12 tokens; one sample takes 13", 2);
    refused("odd", TokenWidth::u16, "has 3 bytes, which is no whole number of tokens of 2 bytes",
            2);
    refused(std::string(500, 'z'), TokenWidth::u8, "token 122 at position", 2);
    refused(std::string(500, '\1'), TokenWidth::u32, "token 16843009 at position", 2);
}

TEST(tokens_of_all_widths_are_little_endian) {
    const Directory directory;
    std::vector<std::int32_t> inputs(2), labels(2);
    write_file(directory / "data", std::string("\1\0\0\0\2\1\0\0\3\0\1\0", 12));
    const auto read = [&](TokenWidth width) {
        const auto file = TokenFile::open(directory / "data", width, 2, 100000);
        ck_assert(file.ok() && file->read(0, inputs, labels).ok());
    };
    read(TokenWidth::u32);
    ck_assert(inputs == (std::vector<std::int32_t>{1, 258}) &&
              labels == (std::vector<std::int32_t>{258, 65539}));
    read(TokenWidth::u16);
    ck_assert(inputs == (std::vector<std::int32_t>{1, 0}) &&
              labels == (std::vector<std::int32_t>{0, 258}));
}

}  // namespace
