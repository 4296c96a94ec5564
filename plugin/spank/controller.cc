// SPDX-License-Identifier: GPL-2.0-or-later
// The request of controller.h: Slurm's public API only.
#include "plugin/spank/controller.h"

#include <cerrno>
#include <memory>

extern "C" {
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
}

namespace arena {
namespace {

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

/// Has another name since 26.05.
struct FreeConf {
    template <typename Conf>
    void operator()(Conf* conf) const {
        if constexpr (requires { slurm_free_ctl_conf(conf); })
            slurm_free_ctl_conf(conf);
        else
            slurm_free_conf(conf);
    }
};

}  // namespace

Result<ControllerFacts> ask_controller() {
    slurm_conf_t* loaded = nullptr;
    if (slurm_load_ctl_conf(0, &loaded) != SLURM_SUCCESS || loaded == nullptr)
        return environment_error(
            std::string(
                "slurmctld does not say whether Arena is on, and the job is not submitted: ") +
            slurm_strerror(errno));
    const std::unique_ptr<slurm_conf_t, FreeConf> conf(loaded);
    return ControllerFacts{text_of(conf->job_submit_plugins), text_of(conf->schedtype),
                           text_of(conf->plugindir)};
}

}  // namespace arena
