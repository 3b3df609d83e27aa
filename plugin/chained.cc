// firewall, portmap: rules for an interface that a plugin before us has made, often we ourselves
// under another name.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "plugin/checking.h"
#include "plugin/failures.h"
#include "plugin/flows.h"
#include "plugin/guest.h"
#include "plugin/json.h"
#include "plugin/log.h"
#include "plugin/mend.h"
#include "plugin/reference.h"
#include "plugin/rules.h"
#include "plugin/teardown.h"
#include "plugin/verbs.h"

namespace nomad_bridge {
namespace {

// `link` as the way to a stranger's interface: a bridge (the reference plugin's, and perhaps the
// gateway of its VLAN), or the end of a veth pair that is nobody's port. Anything else, as a
// macvlan's uplink, is not the container's alone.
void NoteHostSide(const Link& link, Record& record) {
  const bool is_vlan_gateway = (link.kind == "veth" || link.kind == "vlan") &&
                               !record.gate.empty() && link.name.starts_with(Cat(record.gate, '.'));
  if (link.kind == "bridge" || is_vlan_gateway) {
    record.gate = link.name;
  } else if (link.kind == "veth" && link.master == 0) {
    record.host_links.push_back(link.name);
  }
}

// Where the packets of a stranger's interface come from: by what its plugin says of the host's side;
// by the node's own route, if it says nothing (results before 0.3.0 know no interfaces).
void FillInHostSide(Host& host, const Result& before, Record& record) {
  record.gate.clear();
  record.host_links.clear();
  for (const Interface& interface : before.interfaces) {
    const std::optional<Link> link =
        interface.sandbox.empty() ? host.net.FindLink(interface.name) : std::nullopt;
    if (link) {
      NoteHostSide(*link, record);
    }
  }
  if (!before.interfaces.empty() || record.addresses.empty()) {
    return;
  }
  const std::optional<int> way = host.net.RouteTo(record.addresses.front().address);
  const std::optional<Link> link = way ? host.net.FindLink(*way) : std::nullopt;
  if (link) {
    NoteHostSide(*link, record);
  }
}

// The attachment as the plugins before us left it.
Record Describe(Host& host,
                const Request& request,
                const Config& config,
                const Netns& guest,
                const std::optional<Record>& earlier) {
  Record record = earlier ? *earlier
                          : Record{.who = request.who,
                                   .labels = config.labels,
                                   .netns_path = request.netns_path,
                                   .netns = guest.id(),
                                   .policy = {.admin_chain = {}}};
  if (!record.Has(Part::kLink)) {
    record.addresses = AddressesIn(*config.prev_result, request);
    FillInHostSide(host, *config.prev_result, record);
  }
  return record;
}

bool HasAny(const Record& record, const Parts& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](Part part) { return record.Has(part); });
}

bool IsReachable(const portmap::Published& port, const std::vector<Cidr>& addresses) {
  return !port.only || std::any_of(addresses.begin(), addresses.end(), [&](const Cidr& cidr) {
    return cidr.address.family() == *port.only;
  });
}

// Nomad asks for the node's own address, of whatever family it is, also in a network without that
// family. The reference plugin leaves such a port out, so that the allocation starts nevertheless.
std::vector<portmap::Published> Reachable(std::vector<portmap::Published> ports,
                                          const std::vector<Cidr>& addresses) {
  std::erase_if(ports, [&](const portmap::Published& port) {
    const bool reachable = IsReachable(port, addresses);
    if (!reachable) {
      Say("not publishing ",
          portmap::Text(port.protocol),
          " port ",
          port.host_port,
          ": the container has no ",
          *port.only == Family::kIpv4 ? "IPv4" : "IPv6",
          " address");
    }
    return !reachable;
  });
  return ports;
}

// `record` with what `name` adds to it. Without a port portmap adds nothing.
Record WithRules(Record record, const Name& name, const RulesConfig& rules) {
  record.leaving = Leaving::kNot;
  record.parts.insert(name.parts.begin(), name.parts.end());
  if (name.Does(Part::kForward)) {
    record.policy = rules.policy;
    record.policy.ipv6 = record.HasIpv6();
    record.ingress = rules.ingress;
    record.firewalld_zone = rules.firewalld_zone;
  }
  if (name.Does(Part::kPorts)) {
    record.snat = rules.snat;
    record.masq_all = rules.masq_all;
    record.ports =
        portmap::Resolve(Reachable(rules.ports, record.addresses), AddressesOnly(record.addresses));
    if (record.ports.empty()) {
      record.parts.erase(Part::kPorts);
    }
  }
  return record;
}

// The first DEL may be about its own part alone. A second one, of another name's part, says that the
// runtime goes through its list: what rules are left go with it, ahead of the DEL of the bridge they
// belong to. Every process that deletes from nf_tables waits for an RCU grace period, some 15 ms.
Leaving LeavingAfter(const Record& record, const Name& name) {
  if (record.leaving == Leaving::kNot) {
    return Leaving::kBegun;
  }
  return HasAny(record, name.parts) ? Leaving::kWithoutRules : record.leaving;
}

// What the runtime says it had; nothing is fine, and so is nonsense.
std::vector<Cidr> FindExpectedAddresses(const Request& request) {
  try {
    const std::optional<JsonView> result = JsonView(request.config, "").Find("prevResult");
    return result ? AddressesIn(ParseResult(result->value(), request.cni_version), request)
                  : std::vector<Cidr>();
  } catch (const Error&) {
    return {};
  }
}

// Passed on whole, also what we know nothing of.
void PassOn(const Request& request, int out) {
  nlohmann::ordered_json result = JsonView(request.config, "").Find("prevResult")->value();
  result["cniVersion"] = request.cni_version;
  Print(result, out);
}

}  // namespace

void AddRules(const Request& request, const Name& name, int out) {
  const Config config = ParseConfig(request, name);
  static_cast<void>(RequirePrevResult(config));
  Host host = Host::Open();
  const Guest guest = OpenGuest(request, host);
  const RangeLock mine = host.records.Lock(request.who);

  // What an earlier ADD in another namespace left belongs to nobody any more; what one in this
  // namespace left of our part is replaced.
  std::optional<Record> earlier = host.records.Find(request.who);
  Failures failures;
  if (earlier && earlier->netns != guest.netns.id()) {
    failures.Add(TearDown(host, *earlier));
    earlier.reset();
  } else if (earlier && HasAny(*earlier, name.parts)) {
    failures.Add(TearDownRules(host, *earlier, name.parts, earlier->leaving));
    for (const Part part : name.parts) {
      earlier->parts.erase(part);
    }
  }
  failures.ThrowIfAny("cannot remove what an earlier ADD left");

  const Record record =
      WithRules(Describe(host, request, config, guest.netns, earlier), name, config.rules);
  const Leaving before = earlier ? earlier->leaving : Leaving::kNot;
  if (!HasAny(record, name.parts) && before == Leaving::kNot) {
    return PassOn(request, out);
  }
  Undo undo;
  undo.Then("withdraw the rules", [&host, record, &name, before, earlier] {
    Failures left;
    left.Add(TearDownRules(host, record, name.parts, before));
    left.ThrowIfAny("some of them are still there");
    if (earlier) {
      host.records.Write(*earlier);
    }
  });
  host.records.Write(record);
  PublishRules(host, record, earlier.has_value());
  EnsureLocalhostReaches(record);
  ForgetStaleFlows(host, record);

  PassOn(request, out);
  undo.Keep();
}

void DelRules(const Request& request, const Name& name) {
  Host host = Host::Open();
  static_cast<void>(FindGuest(request, host));  // the host's own is refused
  const RangeLock mine = host.records.Lock(request.who);

  Failures failures;
  const std::optional<Record> record = host.records.Find(request.who);
  const bool are_ours = record && HasAny(*record, name.parts);
  if (record) {
    failures.Add(TearDownRules(host, *record, name.parts, LeavingAfter(*record, name)));
  } else {
    failures.Try("the rules", [&] {
      std::vector<NftElement> elements = FindRulesOf(host, request.who);
      std::erase_if(elements, [&](const NftElement& element) {
        const std::optional<Part> part = PartOf(element);
        return part && !name.Does(*part);
      });
      WithdrawRules(host, elements);
    });
  }
  if (!are_ours) {
    // Behind our own bridge, too, the reference plugin may have made them.
    failures.Try("the reference plugins' rules", [&] {
      const std::vector<Ip> addresses =
          AddressesOnly(record ? record->addresses : FindExpectedAddresses(request));
      if (record) {
        RemovePerhapsReferenceRulesOf(host, request.who, addresses, name.parts);
      } else {
        RemoveReferenceRulesOf(host, request.who, addresses, name.parts);
      }
    });
  }
  failures.ThrowIfAny(Cat("container ",
                          Quoted(request.who.container_id),
                          " still has rules of ",
                          name.name,
                          " in network ",
                          Quoted(request.who.network)));
}

void CheckRules(const Request& request, const Name& name) {
  const Config config = ParseConfig(request, name);
  static_cast<void>(RequirePrevResult(config));
  Host host = Host::Open();
  const Guest guest = OpenGuest(request, host);
  const RangeLock mine = host.records.Lock(request.who);
  const std::vector<Cidr> addresses = AddressesIn(*config.prev_result, request);
  const std::vector<portmap::Published>& ports = config.rules.ports;
  if (name.Does(Part::kPorts) &&
      std::none_of(ports.begin(), ports.end(), [&](const portmap::Published& port) {
        return IsReachable(port, addresses);
      })) {
    return;  // nothing was asked for, or nothing that there is
  }
  std::optional<Record> found = host.records.Find(request.who);
  if (!found || !HasAny(*found, name.parts)) {
    std::vector<std::string> faults = ReferenceFaults(host, request, name, config);
    if (found && !faults.empty()) {
      faults.push_back(Cat("it has no rules of ", name.name));
    }
    return ThrowIfChanged(request.who, faults);
  }
  const Record record = RequireRecord(std::move(found), request.who, guest.netns);
  if (config.repair_on_check) {
    MendRules(host, record);
    EnsureLocalhostReaches(record);
  } else {
    ThrowIfChanged(request.who, MissingRules(host, record));
  }
}

}  // namespace nomad_bridge
