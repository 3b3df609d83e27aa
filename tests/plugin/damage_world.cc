#include "tests/plugin/damage_world.h"

#include <sys/mount.h>

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
Damage::Check CheckOf(const std::string& words) {
  static const std::regex kCheck(R"((fail|warn) ([\w.]+)(?:: (.*))?)");
  std::smatch part;
  if (!std::regex_match(words, part, kCheck)) {
    throw std::logic_error(Cat("no check of doctor: ", words));
  }
  return {part.str(1), part.str(2), part.str(3)};
}

bool IsIn(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
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
  } else if (key == "ends:") {
    damage.ends_allocation = true;
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
      R"((=|stops:|inspect:|doctor:|reconcile:|check:|ends:|before:|beside:|fix:|advice:) (.*))");
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
  AddWays();
  if (GetParam().before.find("policies") != std::string::npos) {
    neighbour_ = &AddContainer("neighbour");
    Attach(DualStack(), As("neighbour", *neighbour_, Cat(kLabels, "NOMAD_NAMESPACE=dev")));
  }
  AttachPublished(
      {{"CNI_ARGS", Cat(kLabels, "NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=web;NOMAD_ALLOC_ID=alloc-1")}});
  RestoreOperatorsRules();
  before_ = TakeSnapshot();
}

// What a damage has mounted; /etc goes by itself.
void DamageWorld::TearDown() {
  ::umount2("/proc/sys/net/netfilter", MNT_DETACH);
}

bool DamageWorld::IsPolicyOpen() {
  const Call call = {.to = address_, .port = 80, .patience = kShortly};
  return neighbour_ != nullptr && Ask(*neighbour_, call).has_value();
}

void DamageWorld::ExpectStopped() {
  const std::vector<std::string>& stops = GetParam().stops;
  for (const Way way : kWays) {
    if (IsIn(stops, way)) {
      EXPECT_FALSE(Answers(way, kShortly)) << way;
    } else if (!IsIn(stops, "...")) {
      EXPECT_TRUE(Answers(way)) << way;
    }
  }
  EXPECT_EQ(IsPolicyOpen(), IsIn(stops, "policy"));
}

Way DamageWorld::FirstWay() {
  const std::vector<std::string>& stops = GetParam().stops;
  return stops.empty() ? kTcp : Way(stops.front());
}

Outcome DamageWorld::Inspect() {
  return RunLine(Cat("inspect -json ", Question(FirstWay())));
}

json DamageWorld::DiagnosisIn(const Outcome& inspect) {
  return At(inspect.json, "/attachments/0/diagnosis");
}

json DamageWorld::CausesIn(const Outcome& inspect) {
  const json causes = At(inspect.json, "/attachments/0/diagnosis/causes");
  return causes.is_null() ? json::array() : causes;
}

std::vector<json> DamageWorld::Examine() {
  const bool needs_probe = std::ranges::any_of(
      GetParam().checks, [](const Damage::Check& check) { return check.id == "ports.probe"; });
  const Outcome outcome = Run(Words(needs_probe ? "doctor -json -probe" : "doctor -json"),
                              {{"CNI_PATH", std::nullopt}});
  std::vector<json> found;
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

void DamageWorld::PasteFixes(json said) {
  constexpr int kMost = 6;
  for (int i = 0; i < kMost; ++i) {
    SCOPED_TRACE(said);
    std::set<std::string> fixes;  // two causes may have the same
    for (const json& each : said) {
      fixes.insert(each.at("fix").get<std::string>());
    }
    fixes.erase("");
    for (const std::string& fix : fixes) {
      EXPECT_THAT(fix, Not(EndsWith(" ")));
      Paste(fix);
    }
    said = fixes.empty() ? json() : CausesIn(Inspect());
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
  EXPECT_EQ(HasRecord("alloc-1"), !GetParam().ends_allocation);
  for (const Way way : kWays) {
    // An IPv6 address that is back is looked for by duplicate address detection first.
    if ((is_repaired || way == FirstWay()) && !GetParam().ends_allocation) {
      EXPECT_TRUE(Soon([&] { return Answers(way); })) << way;
    }
  }
  EXPECT_EQ(CausesIn(Inspect()), json::array());
  for (const json& each : Examine()) {
    // What was dropped meanwhile is said for five minutes. Other ways may need a fix of their own.
    const std::string id = each.at("check");
    const auto is_it = [&](const Damage::Check& check) { return check.id == id; };
    EXPECT_TRUE(id == "drops" || id == "ports.probe" ||
                std::ranges::none_of(GetParam().checks, is_it))
        << each;
  }
  if (is_repaired) {
    EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(0, Out(HasSubstr("; nothing to repair\n"))));
    EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
    EXPECT_FALSE(IsPolicyOpen());
  }
}

}  // namespace nomad_bridge::test
