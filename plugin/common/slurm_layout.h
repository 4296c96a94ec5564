// SPDX-License-Identifier: GPL-2.0-or-later
// Layout canary: plug-ins built with the headers of another Slurm than runs would corrupt it. Every
// record is an allocation of its own, and Slurm knows how large each is (xsize). Of a record that
// has another size no pointer is followed.
#pragma once

#include <cstdint>

#include "plugin/common/record_size.h"
#include "plugin/common/slurm_compat.h"

namespace arena {

/// "" where the record looks as in the headers; else what does not, as size_fault() says it.
template <typename Record>
std::string record_fault(const char* name, const Record* record, std::uint32_t magic) {
    std::string fault = size_fault(name, xsize(const_cast<Record*>(record)), sizeof *record);
    if (fault.empty() && record->magic != magic)
        fault = std::string(name) + " does not look as in the headers";
    return fault;
}

inline std::string layout_fault(const part_record_t* part) {
    return record_fault("part_record_t", part, PART_MAGIC);
}

inline std::string layout_fault(const node_record_t* node) {
    return record_fault("node_record_t", node, NODE_MAGIC);
}

inline std::string layout_fault(const job_record_t* job) {
    std::string fault = record_fault("job_record_t", job, JOB_MAGIC);
    if (fault.empty() && job->details != nullptr)
        fault = record_fault("job_details_t", job->details, DETAILS_MAGIC);
    return fault;
}

/// The line for the log.
inline std::string layout_error(const std::string& fault, const char* plugin,
                                const char* consequence) {
    return "arena: " + fault + " that " + plugin + " was built with (Slurm " + built_for() +
           "): " + consequence +
           "; build slurm-arena with the headers of the running Slurm (contrib/get-slurm-headers), "
           "install it and restart slurmctld";
}

}  // namespace arena
