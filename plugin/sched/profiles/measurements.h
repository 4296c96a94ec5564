// SPDX-License-Identifier: GPL-2.0-or-later
// Measurements: what this site has measured, as a round asks for it: operators and links by GPU
// type, which models are measured, what jobs reported. A cache over the profile store, which may be
// closed: then there is nothing measured, and the store is tried again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/hardware.h"
#include "plugin/sched/host/host.h"
#include "site/config.h"
#include "store/store.h"

namespace arena {

using ProfileKey = std::pair<std::string, std::string>;  ///< fingerprint of a model, GPU type

class Measurements {
  public:
    Measurements(Host& host, const Config& config, std::vector<GpuType> hardware);

    /// Call once a round. True when the store was opened only now: observed() has more than it had.
    [[nodiscard]] bool new_round(double now_s);
    /// Null while it is closed.
    [[nodiscard]] ProfileStore* store() const { return store_.get(); }
    /// Measured operators of a GPU type: this site's, else those that come with slurm-arena;
    /// changes when version() does.
    const ProfileTable& table(const std::string& gpu_type);
    /// The type with its links as this site measured them; read once.
    GpuType with_links(const std::string& gpu_type, GpuType hardware);
    [[nodiscard]] std::uint64_t version(const std::string& gpu_type) const;
    /// What jobs have reported so far, oldest first; the latest of each shape.
    [[nodiscard]] std::vector<ObservedRun> observed();
    /// While the store is closed, the latest wait for it.
    void keep_observed(const ObservedRun&);

    /// Whether a run for the pair is in the store.
    [[nodiscard]] bool measured(const ProfileKey& key);
    /// Whether every operator that would be asked for was measured on the type's device, for other
    /// models: then there is nothing to run for.
    [[nodiscard]] bool covers(const ProfileKey& key,
                              const std::function<ProfileRequest()>& request);
    /// Tells the run what need not be measured on the node.
    void fill_known(ProfileRequest& request, const std::string& node) const;
    /// With an open store. What the store cannot take (a full disk, another process that holds it)
    /// counts all the same, and is tried again; a damaged store is set aside as at its opening. An
    /// error: it is in the store already, or cannot be a result.
    [[nodiscard]] Status import(const Profile& profile, const std::string& model_name);
    /// Results that count and are not in the store yet.
    [[nodiscard]] std::size_t unkept_runs() const { return unkept_runs_.size(); }

  private:
    struct Known {
        bool measured = false;
        bool looked_up = false;                   ///< in this round
        std::optional<std::uint64_t> lacking_at;  ///< has operators to measure, at this version
    };
    struct UnkeptRun {
        Profile profile;
        std::string model_name;
    };
    void open_store();
    [[nodiscard]] bool replace_damaged_store();
    void forget_tables();
    Status import_or_replace(const Profile& profile, const std::string& model_name);
    void keep_for_later(const Profile& profile, const std::string& model_name, const Error& why);
    void import_unkept(double now_s);
    [[nodiscard]] ProfileTable shipped_table(const std::string& gpu_type) const;
    template <class T>
    T or_said(Result<T> answer, const std::string& meaning) const;
    /// What the run will be asked for; empty when the hardware entry is not known (then the run
    /// fails and says so). `whole` (may be null): false where the model has more of them than there
    /// was time to list.
    std::vector<OpShape> wanted_operators(const ProfileRequest& request, bool* whole) const;

    Host& host_;
    Config config_;
    std::vector<GpuType> hardware_;
    std::unique_ptr<ProfileStore> store_;
    std::string store_error_;  ///< said last
    double store_tried_s_ = 0;
    std::map<ProfileKey, Known> known_;
    std::vector<ObservedRun> unkept_;  ///< reported while the store was closed
    std::vector<UnkeptRun> unkept_runs_;
    double import_tried_s_ = 0;
    std::map<std::string, ProfileTable> tables_;
    std::map<std::string, std::vector<CommTime>> links_;
    std::map<std::string, std::uint64_t> versions_;
};

}  // namespace arena
