// SPDX-License-Identifier: GPL-2.0-or-later
// Where GPUs sit, on machines written down here as hwloc's XML: two sockets; on the first a switch
// with two GPUs and an adapter, that switch below another one with a third GPU; on the second a GPU
// of its own root port, an adapter elsewhere on the socket, and the server's display chip.
#include "base/text.h"
#include "profiler/core/topology.h"
#include "suite.h"

namespace {

using namespace arena;
using arena::test::assert_refused;
using arena::test::assert_text;
using arena::test::must;

/// hwloc's XML, one object inside the other.
class Xml {
  public:
    Xml() : text_("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<topology version=\"2.0\">\n") {}
    Xml& open(const std::string& type, const std::string& more) {
        text_ += "<object type=\"" + type + "\" gp_index=\"" + std::to_string(++objects_) + "\" " +
                 more + ">\n";
        return *this;
    }
    Xml& close() {
        text_ += "</object>\n";
        return *this;
    }
    Xml& leaf(const std::string& type, const std::string& more) { return open(type, more).close(); }
    Xml& bridge(const std::string& address, const std::string& buses) {
        return open("Bridge",
                    "bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[" + buses +
                        "]\" pci_busid=\"" + address +
                        "\" pci_type=\"0604 [8086:2030] [0000:0000] 02\" pci_link_speed=\"15.75\"");
    }
    Xml& device(const std::string& address, const std::string& pci_class, const std::string& vendor,
                const std::string& parts = {}) {
        open("PCIDev", "pci_busid=\"" + address + "\" pci_type=\"" + pci_class + " [" + vendor +
                           "] [0000:0000] a1\" pci_link_speed=\"15.75\"");
        for (const auto part : split(parts, ' ')) {
            const auto words = split(part, '/');
            if (words.size() != 3) continue;
            leaf("OSDev",
                 "name=\"" + std::string(words[0]) + "\" osdev_type=\"" + std::string(words[1]) +
                     "\"" + (words[2].empty() ? "" : " subtype=\"" + std::string(words[2]) + "\""));
        }
        return close();
    }
    Xml& gpu(const std::string& address, const std::string& parts = {}) {
        return device(address, "0302", "10de:20b0", parts);
    }
    [[nodiscard]] std::string text() const { return text_ + "</topology>\n"; }

  private:
    std::string text_;
    int objects_ = 0;
};

std::string sets(const std::string& mask) {
    return "cpuset=\"" + mask + "\" complete_cpuset=\"" + mask + "\" nodeset=\"" + mask +
           "\" complete_nodeset=\"" + mask + "\"";
}

std::string two_sockets() {
    Xml xml;
    xml.open("Machine", "os_index=\"0\" " + sets("0x00000003") +
                            " allowed_cpuset=\"0x00000003\" allowed_nodeset=\"0x00000003\"");
    for (int number : {0, 1}) {
        const std::string index = "os_index=\"" + std::to_string(number) + "\" ";
        const std::string mask = number == 0 ? "0x00000001" : "0x00000002";
        xml.open("Package", index + sets(mask));
        xml.leaf("NUMANode", index + sets(mask) + " local_memory=\"1073741824\"");
        xml.leaf("PU", index + sets(mask));
        if (number == 0) {
            xml.open("Bridge", "bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[00-1f]\"");
            xml.bridge("0000:00:01.0", "10-1f");
            xml.bridge("0000:10:00.0", "14-17");
            xml.gpu("0000:15:00.0", "card1/1/ cuda1/5/CUDA nvml1/1/NVML");
            xml.gpu("0000:14:00.0", "nvml0/1/NVML cuda0/5/CUDA");
            xml.device("0000:16:00.0", "0207", "15b3:101b", "ib0/2/ mlx5_0/3/");
            xml.close();
            xml.bridge("0000:10:01.0", "18-18").gpu("0000:18:00.0", "nvml2/1/NVML").close();
            xml.close().close();
        } else {
            xml.open("Bridge", "bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[80-9f]\"");
            xml.bridge("0000:80:01.0", "81-81").gpu("0000:81:00.0").close();
            xml.bridge("0000:80:02.0", "82-82")
                .device("0000:82:00.0", "0200", "8086:1592", "eth0/2/")
                .close();
            xml.device("0000:83:00.0", "0300", "1a03:2000", "card0/1/");
            xml.close();
        }
        xml.close();
    }
    return xml.close().text();
}

TEST(each_gpu_is_found_with_its_socket_its_switches_and_its_adapters) {
    const auto found = must(parse_topology_xml(two_sockets()));
    ck_assert_uint_eq(found.gpus.size(), 4);
    const auto gpu = [&](std::size_t i) { return found.gpus[i]; };
    ck_assert(gpu(0).place ==
              GpuPlace({"0000:14:00.0", 0, {"0000:10:00.0", "0000:00:01.0"}, {"mlx5_0"}}));
    ck_assert(gpu(1).place ==
              GpuPlace({"0000:15:00.0", 0, {"0000:10:00.0", "0000:00:01.0"}, {"mlx5_0"}}));
    ck_assert(gpu(2).place ==
              GpuPlace({"0000:18:00.0", 0, {"0000:10:01.0", "0000:00:01.0"}, {"mlx5_0"}}));
    ck_assert(gpu(3).place == GpuPlace({"0000:81:00.0", 1, {"0000:80:01.0"}, {"eth0"}}));
    assert_text(gpu(0).name, "cuda0");
    assert_text(gpu(1).name, "cuda1");
    assert_text(gpu(2).name, "nvml2");
}

TEST(what_two_gpus_share_is_the_nearest_of_switch_socket_and_machine) {
    const auto found = parse_topology_xml(two_sockets());
    const auto shared = [&](std::size_t a, std::size_t b) {
        return std::string(shared_by(found->gpus.at(a).place, found->gpus.at(b).place));
    };
    assert_text(shared(0, 1), "switch");
    assert_text(shared(0, 2), "switch");
    assert_text(shared(0, 3), "machine");
    const GpuPlace a{"0000:01:00.0", 0, {"0000:00:01.0"}, {}},
        b{"0000:02:00.0", 0, {"0000:00:02.0"}, {}};
    assert_text(std::string(shared_by(a, b)), "numa_node");
    GpuPlace unknown = a, other = b;
    unknown.numa_node = other.numa_node = -1;
    assert_text(std::string(shared_by(unknown, other)), "machine");
}

TEST(a_gpu_is_looked_up_by_its_pci_address) {
    const auto found = parse_topology_xml(two_sockets());
    assert_text(place_of(*found, "0000:18:00.0").switches.at(0), "0000:10:01.0");
    ck_assert(place_of(*found, "0000:83:00.0") == GpuPlace{});  // the display chip
    ck_assert(place_of(*found, "") == GpuPlace{});
}

TEST(the_same_for_people_and_programs) {
    const auto found = parse_topology_xml(two_sockets());
    const auto lines = to_text(*found);
    assert_text(lines.substr(0, lines.find('\n')),
                "0000:14:00.0  cuda0, NUMA node 0, below PCI bridge 0000:10:00.0, beside mlx5_0, "
                "shares a switch "
                "with 0000:15:00.0, shares a switch with 0000:18:00.0");
    const Json json = json_of(*found);
    assert_text(json["shared"].dump(),
                R"([["self","switch","switch","machine"],["switch","self","switch","machine"],)"
                R"(["switch","switch","self","machine"],["machine","machine","machine","self"]])");
    assert_text(
        json["gpus"][3].dump(),
        R"({"name":"","nics":["eth0"],"numa_node":1,"pci":"0000:81:00.0","switches":["0000:80:01.0"]})");
    assert_text(to_text(NodeTopology{}), "no GPU here\n");
}

TEST(places_survive_json_and_anything_else_is_none) {
    const GpuPlace place{"0000:14:00.0", 0, {"0000:10:00.0"}, {"mlx5_0", "mlx5_1"}};
    ck_assert(parse_gpu_place(to_json(place)) == place);
    assert_text(to_json(GpuPlace{}), "");
    for (const char* bad : {"", "{}", "[]", "{\"pci\":1}",
                            "{\"pci\":\"x\",\"numa_node\":-2,\"switches\":[],\"nics\":[]}"})
        ck_assert(!parse_gpu_place(bad));
}

TEST(what_is_no_topology_is_refused) {
    for (const std::string& bad :
         {std::string(), std::string("<topology"), std::string("{}"), two_sockets().substr(0, 700)})
        assert_refused(parse_topology_xml(bad), "is not hwloc's XML");
    assert_refused(parse_topology_xml(std::string((16 << 20) + 1, ' ')), "larger than 16 MiB");
    assert_refused(read_topology_of("/nonexistent/x.xml"), "/nonexistent/x.xml");
}

TEST(this_machine_can_be_read) { ck_assert(read_topology().ok()); }

}  // namespace
