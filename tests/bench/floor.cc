// The contender that is floor_plugin.c: what the kernel alone takes, beside attachments of ours.
#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/text.h"
#include "firewall/table.h"
#include "netlink/nft/batch.h"
#include "plugin/rules/elements.h"
#include "plugin/state/record.h"
#include "tests/bench/contender.h"

namespace nomad_bridge::bench {
namespace {

constexpr const char* kBatches = "/run/floor";
constexpr const char* kNetwork = "172.26.64.0";
constexpr std::uint64_t kFirst = 2048;  // the floor's addresses, behind those of its neighbours

// What nomad-bridge would write for attachment `number`, with one port for tcp and udp.
state::Record RecordOf(const test::Attached& attached, int number) {
  const Ip address = Ip::Parse(kNetwork).value().Plus(kFirst + static_cast<std::uint64_t>(number));
  state::Record record;
  record.id = {.network = "nomad", .container_id = attached.container_id, .ifname = "eth0"};
  for (const cni::Part part :
       {cni::Part::kLink, cni::Part::kMasquerade, cni::Part::kForward, cni::Part::kPorts}) {
    record.parts[part] = state::Phase::kLive;
  }
  record.link.bridge = "nomad";
  record.link.gateway_ifname = "nomad";
  record.link.port = {.hairpin = true, .source_check = true};
  record.link.gateways = {Cidr::Parse("172.26.64.1/20").value()};
  record.ipam.addresses = {{address, 20}};
  record.rules.ip_masq = true;
  record.rules.snat = true;
  record.rules.inbound = firewall::Inbound::kPublished;
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
    record.rules.ports.push_back(
        {.protocol = protocol,
         .host_port = attached.port_mappings.at(0).at("HostPort").get<std::uint16_t>(),
         .container_ip = address,
         .container_port = 80});
  }
  return record;
}

void WriteBatch(const test::Attached& attached, const char* verb, const nft::Batch& batch) {
  const std::vector<char> bytes = nft::EncodeBatch(batch, /*generation=*/0, /*sequence=*/1);
  ReplaceFile(Format("{}/{}.{}", kBatches, attached.container_id, verb),
              std::string(bytes.begin(), bytes.end()));
}

class Floor : public Contender {
 public:
  explicit Floor(const std::filesystem::path& binary)
      : Contender("floor", NetworkOf(NOMAD_BRIDGE_FLOOR)), neighbours_(NetworkOf(binary)) {
    world().Enter();
    // Makes bridge and tables.
    test::MustDelFrom(neighbours_, test::MustAdd(neighbours_, Contender::Next()));
  }

 protected:
  void Populate(int count) override {
    for (int i = 0; i < count; ++i) {
      test::MustAdd(neighbours_, Contender::Next());
    }
  }

  test::Attached Next() override {
    test::Attached attached = Contender::Next();
    EnsureDirectory(kBatches);
    nft::Batch add;
    nft::Batch del;
    for (const nft::Element& element : rules::ElementsOf(RecordOf(attached, count()))) {
      add.AddElement(firewall::TableOf(element), element);
      if (!element.comment.empty()) {  // the others are shared
        del.DeleteElement(firewall::TableOf(element), element);
      }
    }
    WriteBatch(attached, "ADD", add);
    WriteBatch(attached, "DEL", del);
    return attached;
  }

 private:
  test::Network neighbours_;
};

}  // namespace

std::unique_ptr<Contender> MakeFloor(const std::filesystem::path& binary) {
  return std::make_unique<Floor>(binary);
}

}  // namespace nomad_bridge::bench
