#include "plugin/cni/plugin_type.h"

#include <algorithm>
#include <array>

#include "base/names.h"

namespace nomad_bridge::cni {
namespace {

constexpr Names<Part, 6> kNames = {{{Part::kLoopback, "loopback"},
                                    {Part::kAddress, "address"},
                                    {Part::kLink, "link"},
                                    {Part::kMasquerade, "masquerade"},
                                    {Part::kForward, "forward"},
                                    {Part::kPorts, "ports"}}};

const std::vector<PluginType>& Table() {
  using enum Part;
  // The defaults of the reference plugins.
  const Defaults reference{
      .bridge = "cni0", .data_dir = "/var/lib/cni/networks", .admin_chain = "CNI-ADMIN"};
  Defaults leases = reference;
  leases.ipam_type = "host-local";
  leases.ignores_ipam_type = true;
  static const std::vector<PluginType> kTable = {
      {.name = "nomad-bridge",
       .parts = {kLoopback, kAddress, kLink, kMasquerade, kForward, kPorts},
       .defaults = {.bridge = "nomad",
                    .data_dir = "/var/run/cni",
                    .ipam_type = "host-local",
                    .subnet = "172.26.64.0/20",
                    .admin_chain = "NOMAD-ADMIN",
                    .inbound = "published",
                    .makes_bridge_without_gateway = false,
                    .is_gateway = true,
                    .is_default_gateway = true,
                    .force_address = true,
                    .hairpin_mode = true,
                    .source_check = true,
                    .ip_masq = true}},
      {.name = "bridge",
       .parts = {kAddress, kLink, kMasquerade},
       .defaults = reference,
       .appends_prev_result = false},
      {.name = "host-local", .parts = {kAddress}, .defaults = leases},
      {.name = "firewall", .parts = {kForward}, .defaults = reference},
      {.name = "portmap", .parts = {kPorts}, .defaults = reference},
      {.name = "loopback", .parts = {kLoopback}, .defaults = reference},
  };
  return kTable;
}

}  // namespace

std::string_view Text(Part part) {
  return NameOf(kNames, part);
}

std::optional<Part> ParsePart(std::string_view text) {
  return FindNamed(kNames, text);
}

bool PluginType::ProvidesRules() const {
  return Provides(Part::kMasquerade) || Provides(Part::kForward) || Provides(Part::kPorts);
}

const PluginType& TypeOf(std::string_view program) {
  const std::string_view base = program.substr(program.rfind('/') + 1);
  const auto row =
      std::ranges::find_if(Table(), [&](const PluginType& type) { return type.name == base; });
  return row != Table().end() ? *row : Table().front();
}

std::vector<std::string> PluginTypeNames() {
  std::vector<std::string> names;
  for (const PluginType& type : Table()) {
    names.push_back(type.name);
  }
  return names;
}

}  // namespace nomad_bridge::cni
