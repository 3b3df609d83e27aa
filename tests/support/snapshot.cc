#include "tests/support/snapshot.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kAbsent = "(absent)";

// `object`'s members of these names, as compact JSON.
std::string Pick(const json& object, const std::vector<std::string>& names) {
  json picked = json::object();
  for (const std::string& name : names) {
    if (object.contains(name)) {
      picked[name] = object.at(name);
    }
  }
  return picked.dump();
}

bool HasFlag(const json& link, const char* flag) {
  const json flags = link.value("flags", json::array());
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

std::string LinkText(const json& link) {
  json text = json::parse(Pick(link, {"mtu", "master", "address", "ifalias"}));
  text["up"] = HasFlag(link, "UP");
  text["promiscuous"] = link.value("promiscuity", 0) > 0;
  if (link.contains("linkinfo")) {
    const json& info = link.at("linkinfo");
    text["kind"] = info.value("info_kind", "");
    const json port = info.value("info_slave_data", json::object());
    if (!port.empty()) {
      text["port"] = json::parse(Pick(port, {"hairpin", "isolated", "learning", "flood"}));
    }
  }
  return text.dump();
}

// Returns whether the kernel itself adds such a route for every link, at an unknown time.
bool IsByItself(const json& route) {
  const std::string destination = route.value("dst", "");
  return route.value("table", "") == "local" || destination.starts_with("fe80:") ||
         destination.starts_with("ff00:") || route.value("type", "") == "multicast";
}

// Removes members that differ between two equal rulesets.
json Still(json object) {
  if (object.is_object()) {
    object.erase("handle");
    if (object.contains("counter")) {
      object["counter"] = "...";
    }
    for (auto& [key, value] : object.items()) {
      value = Still(value);
    }
  } else if (object.is_array()) {
    for (json& value : object) {
      value = Still(value);
    }
  }
  return object;
}

// Returns whether the set notes dropped packets (firewall/drops.h). A container sends some by
// itself, at an unknown time: they are dropped if a test has just broken the rules.
bool IsOfDrops(const std::string& name) {
  return name.find("_drops") != name.npos;
}

bool IsMemory(const fs::path& path) {
  const std::string file_name = path.filename();
  const std::string directory = path.parent_path().filename();
  return directory == ".counts" || directory == ".gateways" || directory == ".leases" ||
         file_name.ends_with("lock") || file_name.starts_with("last_reserved_ip.") ||
         file_name == ".children" || file_name == ".opened";
}

}  // namespace

std::string WithoutHash(std::string ruleset) {
  constexpr std::string_view kHash = " rules=";
  constexpr std::size_t kDigits = 16;
  for (std::size_t at = 0; (at = ruleset.find(kHash, at)) != ruleset.npos;) {
    ruleset.erase(at, kHash.size() + kDigits);
  }
  return ruleset;
}

void Snapshot::AddLinks(const Node& node) {
  for (const json& link : node.Json({"ip", "-j", "-d", "address"})) {
    if (!link.contains("ifname")) {
      continue;  // ip prints {} for what it filters
    }
    const std::string name = Cat(node.name(), " link ", link.at("ifname").get<std::string>());
    facts_[name] = LinkText(link);
    for (const json& address : link.value("addr_info", json::array())) {
      if (address.contains("local") && address.value("scope", "") != "link") {
        facts_[Cat(name, " address ", address.at("local").get<std::string>())] =
            Pick(address, {"prefixlen", "broadcast", "scope", "label"});
      }
    }
  }
}

void Snapshot::AddRoutes(const Node& node) {
  for (const char* family : {"-4", "-6"}) {
    // One process for both lists, of a line each: starting it is most of what it costs.
    const std::vector<std::string> lists = test::Lines(
        node.Must({"ip", "-j", family, "-batch", "-"}, "route show table all\nrule show\n"));
    for (const json& route : json::parse(lists.at(0))) {
      if (!IsByItself(route)) {
        const std::string text = Pick(
            route,
            {"dst", "type", "gateway", "dev", "table", "scope", "metric", "prefsrc", "metrics"});
        facts_[Cat(node.name(), " route ", text)] = "";
      }
    }
    for (const json& rule : json::parse(lists.at(1))) {
      facts_[Cat(node.name(), " rule ", family, " ", rule.dump())] = "";
    }
  }
}

void Snapshot::AddRuleset(const Node& node) {
  std::map<std::string, int> rules;  // of a chain, so far
  const json ruleset = node.Json({"nft", "-j", "list", "ruleset"});
  for (const json& entry : ruleset.at("nftables")) {
    const std::string& kind = entry.begin().key();
    if (kind == "metainfo") {
      continue;
    }
    json object = Still(entry.begin().value());
    const std::string where = Cat(node.name(),
                                  " nft ",
                                  object.value("family", ""),
                                  " ",
                                  object.value("table", object.value("name", "")));
    if (kind == "rule") {
      const std::string chain = Cat(where, " chain ", object.value("chain", ""));
      const std::string number = Hex(static_cast<std::uint64_t>(rules[chain]++), 3);
      facts_[Cat(chain, " rule ", number)] =
          Cat(object.value("expr", json::array()).dump(), " ", object.value("comment", ""));
      continue;
    }
    if (kind == "counter") {
      for (const char* const changing : {"packets", "bytes", "comment"}) {
        object.erase(changing);
      }
    } else if (IsOfDrops(object.value("name", ""))) {
      object.erase("elem");
    }
    for (const json& element : object.value("elem", json::array())) {
      const std::string text = WithoutHash(element.dump());
      facts_[Cat(where, " element of ", object.value("name", ""), " ", text)] = "";
    }
    object.erase("elem");
    facts_[Cat(where, " ", kind, " ", object.value("name", ""))] = object.dump();
  }
}

void Snapshot::AddSysctls(const Node& node) {
  std::vector<std::string> names = {"net/ipv4/ip_forward"};
  for (const std::string& link : node.SysctlDirectory("net/ipv4/conf")) {
    for (const char* key : {"forwarding", "route_localnet"}) {
      names.push_back(Cat("net/ipv4/conf/", link, "/", key));
    }
  }
  for (const std::string& link : node.SysctlDirectory("net/ipv6/conf")) {
    for (const char* key : {"forwarding", "disable_ipv6", "accept_ra", "accept_dad"}) {
      names.push_back(Cat("net/ipv6/conf/", link, "/", key));
    }
  }
  for (const std::string& name : names) {
    facts_[Cat(node.name(), " sysctl ", name)] = node.Sysctl(name);
  }
}

void Snapshot::AddNode(const Node& node) {
  AddLinks(node);
  AddRoutes(node);
  AddRuleset(node);
  AddSysctls(node);
}

void Snapshot::AddDirectory(const std::string& directory) {
  namespace fs = std::filesystem;
  if (!fs::exists(directory)) {
    return;
  }
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() && !IsMemory(entry.path())) {
      const std::string path = entry.path().string();
      const std::string content = FindFile(path).value_or(kAbsent);
      const json parsed = json::parse(content, nullptr, /*allow_exceptions=*/false);
      facts_[Cat("file ", path)] = parsed.is_object() ? parsed.dump() : content;
    }
  }
}

Snapshot Snapshot::Of(const std::vector<std::string>& beginnings) const {
  Snapshot part;
  for (const auto& fact : facts_) {
    if (std::any_of(beginnings.begin(), beginnings.end(), [&](const std::string& beginning) {
          return fact.first.starts_with(beginning);
        })) {
      part.facts_.insert(fact);
    }
  }
  return part;
}

std::string Snapshot::Difference(const Snapshot& before, const Snapshot& after) {
  std::string text;
  const auto add = [&text](char sign, const Snapshot& one, const Snapshot& other) {
    for (const auto& [name, value] : one.facts_) {
      const auto same = other.facts_.find(name);
      if (same == other.facts_.end() || same->second != value) {
        text += Cat(sign, " ", name, value.empty() ? "" : ": ", value, "\n");
      }
    }
  };
  add('-', before, after);
  add('+', after, before);
  return text;
}

std::string Snapshot::Lines(const std::string& part) const {
  std::string text;
  for (const auto& [name, value] : facts_) {
    if (name.find(part) != std::string::npos) {
      text += Cat(name, value.empty() ? "" : ": ", value, "\n");
    }
  }
  return text;
}

::testing::AssertionResult Unchanged(const Snapshot& before, const Snapshot& after) {
  const std::string difference = Snapshot::Difference(before, after);
  if (difference.empty()) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "it differs (- before, + after):\n" << difference;
}

std::ostream& operator<<(std::ostream& stream, const Snapshot& snapshot) {
  return stream << snapshot.Lines();
}

}  // namespace nomad_bridge::test
