// SPDX-License-Identifier: GPL-2.0-or-later
// See run_command.h.
#include "profiler/run/run_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "profiler/core/progress.h"
#include "profiler/core/recorder.h"
#include "profiler/run/session.h"
#include "request/request.h"

namespace arena {
namespace {

Profile blank_profile(const ProfileRequest& r) {
    Profile p;
    p.nonce = r.nonce;
    p.gpu_type = r.gpu_type;
    p.hardware = r.hardware;
    p.model_fingerprint = fingerprint(r.model);
    return p;
}

/// Seconds of another driver or library are not this device's: there, nothing is known yet.
std::vector<std::string> known_for(const ProfileRequest& request, const Device& device) {
    const bool same = request.known_device.empty() || request.known_device == device.identity();
    return same ? request.known : std::vector<std::string>();
}

/// What the files of --reuse hold; a file of another device or type is a slip, not something to
/// skip.
Result<OpSeconds> read_reuse(const Options& o, const ProfileRequest& request,
                             const Device& device) {
    OpSeconds seconds;
    for (const std::string& file : o.reuse) {
        const auto profile = read_profile(file);
        if (!profile) return profile.error();
        if (profile->device.identity() != device.identity())
            return usage_error("was measured on " + printable(profile->device.identity(), 200) +
                                   ", this is " + printable(device.identity(), 200) +
                                   ": nothing of it can be re-used",
                               file);
        if (profile->gpu_type != request.gpu_type)
            return usage_error(
                "is a profile of GPU type " + profile->gpu_type + ", not of " + request.gpu_type,
                file);
        add_entries(*profile, seconds);
    }
    return seconds;
}

ProgressOptions progress_options(const Options& o, const ProfileRequest& request) {
    ProgressOptions p;
    p.lines = o.verbose;
    p.json = o.json;
    p.bar = !o.verbose && ::isatty(STDERR_FILENO) == 1;
    if (!o.progress.empty()) p.file = o.progress + "/" + request.nonce + ".progress";
    p.budget_s = request.budget_s;
    p.now = monotonic_s;
    return p;
}

class RunCommand {
  public:
    RunCommand(const Options& options, const ProfileRequest& request, const ProfileWork& work)
        : options_(options),
          request_(request),
          work_(work),
          progress_(progress_options(options, request)),
          recorder_(blank_profile(request), options.out) {}

    int run(const MakeBackend& make) {
        recorder_.on_finish([this](const Profile& p) { progress_.finish(p); });
        recorder_.watch(request_.budget_s * 1.1 + 2);
        auto backend = make();
        if (!backend) return fail(backend.error());
        Device device = (*backend)->device();
        if (!options_.node.empty()) device.node = options_.node;
        recorder_.set_device(device);
        auto reused = read_reuse(options_, request_, device);
        if (!reused) return fail(reused.error());
        measured_ = std::move(reused).value();
        return measure(**backend, device);
    }

  private:
    int measure(Backend& backend, const Device& device) {
        SessionOptions session;
        session.budget_s = request_.budget_s;
        session.known = known_for(request_, device);
        for (const auto& [shape, seconds] : measured_) session.known.push_back(op_hash(shape));
        session.now = monotonic_s;
        const std::size_t all = wanted_shapes(work_.shapes, {}).size();
        const std::size_t wanted = wanted_shapes(work_.shapes, session.known).size();
        recorder_.set_wanted(all, all - wanted);
        progress_.start(device, wanted, all - wanted);
        session.on_begin = [&](const OpShape& s) {
            recorder_.begin(s);
            progress_.begin(s);
        };
        session.on_entry = [&](const ProfileEntry& e) {
            recorder_.add(e);
            entries_.push_back(e);
            measured_[e.shape] = e.seconds;
            progress_.measured(e);
        };
        return conclude(run_session(backend, work_.shapes, session), backend);
    }

    int conclude(SessionOutcome done, const Backend& backend) {
        const DeviceState state = backend.state();
        const GpuPlace place = backend.place();
        if (const std::string why = implausible(work_, entries_); !why.empty()) {
            done.status = ProfileStatus::failed;
            done.reason = why;
        }
        recorder_.amend([&](Profile& p) {
            p.state = state;
            p.place = place;
            if (done.status == ProfileStatus::failed) return p.entries.clear();
            p.direct_seconds = direct_seconds(work_, ProfileTable(measured_));
        });
        if (!done.reason.empty()) std::fprintf(stderr, "arena-profiler: %s\n", done.reason.c_str());
        return recorder_.finish(done.status, done.reason, done.device_seconds);
    }

    const Options& options_;
    const ProfileRequest& request_;
    const ProfileWork& work_;
    OpSeconds measured_;  ///< with what was known before, where its seconds are known
    std::vector<ProfileEntry> entries_;
    Progress progress_;
    Recorder recorder_;  ///< last: its thread may still tell progress_
};

}  // namespace

int run_request(const Options& options, const ProfileRequest& request, const ProfileWork& work,
                const MakeBackend& make) {
    return RunCommand(options, request, work).run(make);
}

}  // namespace arena
