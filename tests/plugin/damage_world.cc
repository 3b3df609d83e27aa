#include "tests/plugin/damage_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kAdminRule = "203.0.113.128/25";
constexpr const char* kPolicies = R"(policies() {
  mkdir /run/policy.d
  echo '{"version": 1, "policies": [{"name": "open", "to": {"namespace": "prod"},
    "allow": [{"from": ["outside"]}]}]}' >/run/policy.d/open.json
  nomad-bridge policy apply /run/policy.d
}
)";
constexpr const char* kSecondNetwork = R"(second_network() {
  echo '{"cniVersion": "1.1.0", "name": "other", "type": "nomad-bridge", "bridge": "br-other",
    "ipam": {"subnet": "10.8.0.0/24"}}' |
    env CNI_COMMAND=ADD CNI_CONTAINERID=alloc-1 CNI_NETNS=/run/netns/container CNI_IFNAME=eth1 \
      CNI_PATH=/opt/cni/bin $BIN >/dev/null
}
)";
constexpr std::chrono::milliseconds kShortly{250};
constexpr const char* kLabels = "IgnoreUnknown=true;NOMAD_GROUP_NAME=api;";

std::vector<std::string> Split(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at = 0; at != text.npos; from = at + by.size()) {
    at = text.find(by, from);
    parts.push_back(text.substr(from, at == text.npos ? at : at - from));
  }
  return parts;
}

// "fail bridge.ports", "warn drops: inbound has dropped"
std::vector<std::string> CheckOf(const std::string& words) {
  static const std::regex kCheck(R"((fail|warn) ([\w.]+)(?:: ?(.*))?)");
  std::smatch part;
  if (!std::regex_match(words, part, kCheck)) {
    throw std::logic_error(Cat("no check of doctor: ", words));
  }
  return {part.str(1), part.str(2), part.str(3)};
}

void Read(const std::string& key, const std::string& value, Damage& damage) {
  if (key == "=") {
    damage.says = value;
  } else if (key == "stops:") {
    damage.stops = Words(value);
  } else if (key == "inspect:") {
    damage.station = value;
  } else if (key == "doctor:") {
    for (const std::string& check : Split(value, " + ")) {
      damage.checks.push_back(CheckOf(check));
    }
  } else if (key == "reconcile:") {
    damage.reconcile = value;
  } else if (key == "check:") {
    damage.is_refused = true;
  } else if (key == "before:") {
    damage.before = value;
  } else if (key == "beside:") {
    damage.firewall = value;
  } else {
    damage.remedy = key.substr(0, key.size() - 1);
    damage.fix = value;
  }
}

}  // namespace

std::vector<Damage> Damages() {
  static const std::string kText = ReadFixture("damages.txt");
  static const std::regex kHead(R"((\w+)( in container)? \$ )");
  static const std::regex kLine(
      R"((=|stops:|inspect:|doctor:|reconcile:|check:|before:|beside:|fix:|advice:) (.*))");
  std::vector<Damage> damages;
  std::size_t at = kText.find("\n\n") + 2;
  for (const std::string& block : Split(kText.substr(at, kText.size() - at - 1), "\n\n")) {
    std::smatch head;
    if (!std::regex_search(block, head, kHead, std::regex_constants::match_continuous)) {
      throw std::logic_error(Cat("no row: ", block));
    }
    Damage damage{{std::string_view(kText).substr(at, static_cast<std::size_t>(head.length(1)))}};
    damage.is_in_container = head[2].matched;
    for (const std::string& line : Lines(head.suffix())) {
      std::smatch part;
      if (std::regex_match(line, part, kLine)) {
        Read(part.str(1), part.str(2), damage);
      } else {
        damage.command += Cat(line, "\n");
      }
    }
    if (damage.reconcile == "repairs") {
      damage.remedy = "fix";
      damage.fix = "nomad-bridge reconcile";
      damage.is_refused = true;
    }
    damages.push_back(damage);
    at += block.size() + 2;
  }
  return damages;
}

std::vector<Damage> DamagesNamed(const std::set<std::string_view>& names) {
  std::vector<Damage> damages = Damages();
  std::erase_if(damages, [&](const Damage& damage) { return !names.contains(damage.name); });
  if (damages.size() != names.size()) {
    throw std::logic_error("a name is not in the table");
  }
  return damages;
}

std::string DamageWorld::MakeLayers() {
  EnsureDirectory("/run/etc/upper/nomad-bridge");
  EnsureDirectory("/run/etc/work");
  // The node's address in these tests is a public one.
  ReplaceFile("/run/etc/upper/nomad-bridge/config.json", R"({"ignore": ["ports.world"]})");
  ReplaceFile("/run/etc/upper/resolv.conf", "nameserver 203.0.113.53\n");
  return "-olowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work";
}

void DamageWorld::SetUp() {
  fs::create_directories("/opt/cni/bin");
  fs::create_directories("/opt/cni/config");
  fs::create_symlink(BinaryUnderTest(), "/opt/cni/bin/nomad-bridge");
  ReplaceFile("/opt/cni/config/nomad.conflist",
              R"({"cniVersion": "1.1.0", "name": "nomad", "plugins": [{"type": "nomad-bridge"}]})");
  Paste(Cat(kPolicies, GetParam().before));
  StartFirewall(GetParam().firewall);
  host().Must({"ip", "address", "add", Cat(kSecondIp4, "/24"), "dev", "uplink"});
  host().Must(Words(Cat("ip route replace default via ", kOutsideIp4, " dev uplink")));
  host().Must(Words(Cat("ip -6 route replace default via ", kOutsideIp6, " dev uplink")));
  outside().Must({"ip", "address", "add", Cat(kFarIp4, "/32"), "dev", "lo"});
  if (GetParam().before.find("policies") != std::string::npos) {
    neighbour_ = &AddContainer("neighbour");
    Attach(DualStack(), As("neighbour", *neighbour_, Cat(kLabels, "NOMAD_NAMESPACE=dev")));
  }
  add_ = Attach(
      config_,
      {{"CNI_ARGS", Cat(kLabels, "NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=web;NOMAD_ALLOC_ID=alloc-1")}});
  address_ = AddressOf(add_);
  veth_ = HostVethOf(add_);
  Serve(container(), Protocol::kTcp, {"::"}, 80, "hello");
  Serve(container(), Protocol::kUdp, {"0.0.0.0"}, 80, std::string(3000, 'x'));
  RestoreOperatorsRules();
  before_ = TakeSnapshot();
}

// What a damage has mounted; /etc goes by itself.
void DamageWorld::TearDown() {
  ::umount2("/proc/sys/net/netfilter", MNT_DETACH);
}

std::string DamageWorld::Filled(std::string text) const {
  text = std::regex_replace(text, std::regex(R"(\$VETH)"), veth_);
  return std::regex_replace(text, std::regex(R"(\$ADDRESS)"), address_);
}

bool DamageWorld::Answers(const std::string& way, std::chrono::milliseconds patience) {
  if (way == "out" || way == "out6") {
    const std::string seconds = Format("{}.{}", patience.count() / 1000, patience.count() % 1000);
    const char* const to = way == "out" ? kOutsideIp4 : kOutsideIp6;
    return container().Run({"ping", "-c", "1", "-W", seconds, to}).exit_code == 0;
  }
  Call call{.to = kHostIp4, .port = 8080, .patience = patience};
  call.protocol = way == "udp" ? Protocol::kUdp : Protocol::kTcp;
  call.from = way == "far" ? kFarIp4 : "";
  call.to = way == "tcp6" ? kHostIp6 : way == "node" ? "127.0.0.1" : call.to;
  if (way == "second") {
    call = {.to = kSecondIp4, .port = 8081, .patience = patience};
  } else if (way == "policy") {
    call = {.to = address_, .port = 80, .patience = patience};
  }
  return Ask(way == "policy" ? *neighbour_ : way == "node" ? host() : outside(), call).has_value();
}

bool DamageWorld::Answers(const std::string& way) {
  return Answers(way, std::chrono::milliseconds(1500));
}

void DamageWorld::ExpectStopped() {
  std::vector<std::string> stops = GetParam().stops;
  const bool are_more = !stops.empty() && stops.back() == "...";
  for (const std::string way : {"tcp", "tcp6", "udp", "second", "far", "node", "out", "out6"}) {
    if (std::ranges::find(stops, way) != stops.end()) {
      EXPECT_FALSE(Answers(way, kShortly)) << way;
    } else if (!are_more) {
      EXPECT_TRUE(Answers(way)) << way;
    }
  }
  if (neighbour_ != nullptr) {
    EXPECT_EQ(Answers("policy", kShortly), !stops.empty() && stops.back() == "policy");
  }
}

const std::string& DamageWorld::FirstWay() const {
  static const std::string kTcp = "tcp";
  return GetParam().stops.empty() ? kTcp : GetParam().stops.front();
}

Outcome DamageWorld::Inspect(const std::string& way) {
  return RunLine(Cat("inspect -json ",
                     way == "tcp6"     ? Cat("8080 -from ", kOutsideIp6)
                     : way == "far"    ? Cat("8080 -from ", kFarIp4)
                     : way == "second" ? "8081"
                                       : "8080"));
}

json DamageWorld::Causes(const Outcome& inspect) {
  const json causes = At(inspect.json, "/attachments/0/diagnosis/causes");
  return causes.is_null() ? json::array() : causes;
}

std::string DamageWorld::StationOf(const Outcome& inspect) {
  for (const json& station : At(inspect.json, "/attachments/0/diagnosis/ways/0/stations")) {
    if (station.at("state") == "failed") {
      return station.at("name");
    }
  }
  return "-";
}

bool DamageWorld::NeedsProbe() {
  return std::ranges::any_of(GetParam().checks,
                             [](const auto& check) { return check.at(1) == "ports.probe"; });
}

std::vector<json> DamageWorld::Examine(bool probes) {
  std::vector<json> found;
  const Outcome outcome =
      Run(Words(probes ? "doctor -json -probe" : "doctor -json"), {{"CNI_PATH", std::nullopt}});
  for (const json& each : outcome.json.at("checks")) {
    if (each.at("verdict") != "ok") {
      found.push_back(each);
    }
  }
  return found;
}

void DamageWorld::Break() {
  const Node& where = GetParam().is_in_container ? container() : host();
  where.Shell(Cat("INDEX=$(ip -o link show nomad 2>/dev/null | cut -d: -f1); BIN=",
                  BinaryUnderTest(),
                  "\n",
                  kSecondNetwork,
                  Filled(GetParam().command)));
}

void DamageWorld::Paste(const std::string& fix) {
  const std::string directory = fs::path(BinaryUnderTest()).parent_path();
  Must({.argv = {"sh", "-ec", Cat("PATH=/run/stubs:", directory, ":$PATH; ", fix)},
        .variables = {{"CNI_COMMAND", std::nullopt}}});
  // A link that was set up has its carrier a moment later.
  EXPECT_TRUE(Soon([&] { return LinkOn(host(), "uplink").at("operstate") == "UP"; }));
}

// As an operator does who reads them. Of two causes with one fix the second has none left.
void DamageWorld::PasteFixes(json said) {
  constexpr int kMost = 6;
  for (int i = 0; i < kMost; ++i) {
    SCOPED_TRACE(said);
    std::set<std::string> fixes;
    for (const json& each : said) {
      fixes.insert(each.at("fix").get<std::string>());
    }
    fixes.erase("");
    for (const std::string& fix : fixes) {
      EXPECT_THAT(fix, Not(EndsWith(" ")));
      Paste(fix);
    }
    said = fixes.empty() ? json() : Causes(Inspect(FirstWay()));
  }
}

void DamageWorld::RestoreOperatorsRules() {
  if (RulesWith(kAdminRule).empty()) {
    host().Must({"iptables", "-A", "NOMAD-ADMIN", "-s", kAdminRule, "-j", "DROP"});
  }
  host().Must({"iptables", "-P", "FORWARD", "DROP"});
}

void DamageWorld::ExpectHealed() {
  const bool is_repaired = GetParam().reconcile == "repairs";
  for (const std::string way : {"tcp", "tcp6", "udp", "second", "far", "node", "out", "out6"}) {
    // An IPv6 address that is back is looked for by duplicate address detection first.
    if ((is_repaired || way == FirstWay()) && HasRecord("alloc-1")) {
      EXPECT_TRUE(Soon([&] { return Answers(way); })) << way;
    }
  }
  EXPECT_EQ(Causes(Inspect(FirstWay())), json::array());
  for (const json& each : Examine(NeedsProbe())) {
    const std::string id = each.at("check");
    const auto is_it = [&](const auto& check) { return check.at(1) == id; };
    // What was dropped meanwhile is said for five minutes. Other ways may need a fix of their own.
    EXPECT_TRUE(id == "drops" || id == "ports.probe" ||
                !std::ranges::any_of(GetParam().checks, is_it))
        << each;
  }
  if (is_repaired) {
    EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(0, Out(HasSubstr("; nothing to repair\n"))));
    EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
  }
}

}  // namespace nomad_bridge::test
