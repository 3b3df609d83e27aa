#include "plugin/names.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "netlink/nft_element.h"

namespace nomad_bridge {
namespace {

constexpr std::size_t kMaxAliasBytes = 255;  // the kernel's IFALIASZ, less its terminator

const std::vector<Name>& Table() {
  using enum Part;
  // The reference plugins' own.
  const Defaults reference{.bridge = "cni0",
                           .data_dir = "/var/lib/cni/networks",
                           .ipam_type = {},
                           .subnet = {},
                           .admin_chain = "CNI-ADMIN"};
  Defaults leases = reference;
  leases.ipam_type = "host-local";
  leases.is_ipam = true;
  static const std::vector<Name> kTable = {
      {.name = "nomad-bridge",
       .parts = {kLoopback, kAddress, kLink, kMasquerade, kForward, kPorts},
       .defaults = {.bridge = "nomad",
                    .data_dir = "/var/run/cni",
                    .ipam_type = "host-local",
                    .subnet = "172.26.64.0/20",
                    .admin_chain = "NOMAD-ADMIN",
                    .is_gateway = true,
                    .is_default_gateway = true,
                    .force_address = true,
                    .hairpin_mode = true,
                    .ip_masq = true}},
      {.name = "bridge",
       .parts = {kAddress, kLink, kMasquerade},
       .defaults = reference,
       .passes_on = false},
      {.name = "host-local", .parts = {kAddress}, .defaults = leases},
      {.name = "firewall", .parts = {kForward}, .defaults = reference},
      {.name = "portmap", .parts = {kPorts}, .defaults = reference},
      {.name = "loopback", .parts = {kLoopback}, .defaults = reference},
  };
  return kTable;
}

std::string Identity(const Attachment& who) {
  return Cat("nomad-bridge net=", who.network, " id=", who.container_id, " if=", who.ifname);
}

std::string Cut(std::string_view text, std::size_t max_bytes) {
  return CutUtf8(Printable(text), max_bytes);
}

}  // namespace

bool Name::DoesRules() const {
  return Does(Part::kMasquerade) || Does(Part::kForward) || Does(Part::kPorts);
}

const Name& NameFor(std::string_view program) {
  const std::string_view base = program.substr(program.rfind('/') + 1);
  const auto row = std::find_if(
      Table().begin(), Table().end(), [&](const Name& name) { return name.name == base; });
  return row != Table().end() ? *row : Table().front();
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const Name& name : Table()) {
    names.push_back(name.name);
  }
  return names;
}

std::string HostVethName(const Attachment& who) {
  constexpr int kDigits = 11;  // what a link's 15 bytes leave behind "veth"
  const std::string key = Cat(who.network, '\0', who.container_id, '\0', who.ifname);
  return Cat("veth", Hex(StableHash(key), kDigits));
}

std::string LinkAlias(const Attachment& who, const Labels& labels) {
  const std::string text = Describe(labels);
  return Cut(Cat(Identity(who), text.empty() ? "" : " ", text), kMaxAliasBytes);
}

bool IsAliasOf(std::string_view alias, const Attachment& who) {
  const std::string identity = Cut(Identity(who), kMaxAliasBytes);
  const bool begins = alias.substr(0, identity.size()) == identity;
  return begins && (alias.size() == identity.size() || alias[identity.size()] == ' ');
}

std::string ElementComment(const Attachment& who, const Labels& labels) {
  // Nomad's container id is its allocation id: said once, under the name people look for.
  Labels others = labels;
  const auto is_container = [&](const Label& label) { return label.value == who.container_id; };
  const auto removed = std::remove_if(others.begin(), others.end(), is_container);
  const bool is_allocation = removed != others.end();
  others.erase(removed, others.end());
  const std::string text = Describe(others);
  return Cut(Cat(HostVethName(who),
                 is_allocation ? " alloc=" : " id=",
                 who.container_id,
                 text.empty() ? "" : " ",
                 text,
                 " net=",
                 who.network),
             kMaxNftCommentBytes);
}

}  // namespace nomad_bridge
