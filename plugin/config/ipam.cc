#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/cni/version.h"
#include "plugin/config/sources.h"

namespace nomad_bridge::config {
namespace {

using SpecSets = std::vector<std::vector<ipam::RangeSpec>>;

ipam::RangeSpec MakeSpec(const JsonView& object, const Cidr& subnet) {
  return {.path = object.path(),
          .subnet = subnet,
          .start = object.FindAddress("rangeStart"),
          .end = object.FindAddress("rangeEnd"),
          .gateway = object.FindAddress("gateway")};
}

ipam::RangeSpec ParseRange(const JsonView& object) {
  const JsonView subnet = object.Require(
      "subnet", "an object with 'subnet', and perhaps 'rangeStart', 'rangeEnd' and 'gateway'");
  return MakeSpec(object, subnet.Subnet());
}

// Appends an array of sets, each an array of ranges. go-cni's capability has ranges instead of
// sets.
void AppendSets(SpecSets& sets, const std::vector<JsonView>& elements) {
  for (const JsonView& element : elements) {
    const bool is_bare = element.Kind() == "object";
    const std::vector<JsonView> set = is_bare ? std::vector{element} : element.Elements();
    if (set.empty()) {
      throw element.Wrong("an array of at least one range");
    }
    std::ranges::transform(set, std::back_inserter(sets.emplace_back()), ParseRange);
  }
}

// Appends the range of the keys subnet, rangeStart, rangeEnd and gateway of ipam itself. If the
// config has no range at all, a missing subnet becomes `subnet`, the default.
void AppendOldStyle(SpecSets& sets, const JsonView& ipam, const std::string& subnet) {
  if (ipam.FindString("subnet")) {
    sets.push_back({ParseRange(ipam)});
    return;
  }
  const bool is_alone = sets.empty() && ipam.FindArray("ranges").empty();
  // The reference plugin silently ignores these keys, and assigns other addresses than intended.
  for (const char* const key : {"rangeStart", "rangeEnd", "gateway"}) {
    if (ipam.FindAddress(key) && !(is_alone && !subnet.empty())) {
      throw ipam.Find(key).Wrong(
          "only together with 'ipam.subnet'; in 'ipam.ranges' each range has its own");
    }
  }
}

void AppendDefault(SpecSets& sets, const JsonView& ipam, const std::string& subnet) {
  const std::optional<Cidr> parsed = Cidr::Parse(subnet);
  if (!parsed) {
    throw Error(Code::kInvalidConfig, "the network has no IP ranges", "'ipam.ranges' is missing");
  }
  sets.push_back({MakeSpec(ipam, *parsed)});
}

// Throws if the result has no room for the addresses. The message is the reference plugin's,
// because its test suites check it.
void CheckResultHasRoom(const std::vector<ipam::RangeSet>& sets, const std::string& cni_version) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const auto count = std::ranges::count_if(sets, [&](const ipam::RangeSet& set) {
      return set.front().subnet.address.family() == family;
    });
    if (count > 1 && !cni::IsAtLeast(cni_version, "0.3.0")) {
      throw Error(
          Code::kInvalidConfig,
          Cat("CNI version ", cni_version, " does not support more than 1 address per family"),
          Cat("the network has ", count, " range sets of one family"));
    }
  }
}

// Reads ranges in the reference plugin's order: the runtime's, the old style's, then 'ipam.ranges'.
std::vector<ipam::RangeSet> ParseRanges(const Sources& sources, const cni::Defaults& defaults) {
  SpecSets sets;
  AppendSets(sets, sources.runtime.FindArray("ipRanges"));
  AppendOldStyle(sets, sources.ipam, defaults.subnet);
  AppendSets(sets, sources.ipam.FindArray("ranges"));
  if (sets.empty()) {
    AppendDefault(sets, sources.ipam, defaults.subnet);
  }
  std::vector<ipam::RangeSet> ranges = ipam::MakeRangeSets(sets);
  CheckResultHasRoom(ranges, sources.cni_version);
  return ranges;
}

// Parses a route. This is stricter than for another plugin's result: the kernel would refuse such a
// route, and ADD would fail halfway.
Route ParseOwnRoute(const JsonView& object) {
  Route route = cni::ParseRoute(object);
  const Cidr& destination = route.destination;
  if (destination.address != destination.Network()) {
    throw object.Find("dst").Wrong(Format("a network without host bits, as '{}/{}'",
                                          destination.Network(),
                                          destination.prefix_length));
  }
  if (route.gateway && route.gateway->family() != destination.address.family()) {
    throw object.Find("gw").Wrong("an address of the family of 'dst'");
  }
  return route;
}

void AppendLine(cni::Dns& dns, const std::vector<std::string>& words) {
  const std::string& keyword = words.front();
  if (keyword == "nameserver") {
    dns.nameservers.push_back(words[1]);
  } else if (keyword == "domain") {
    dns.domain = words[1];
  } else if (keyword == "search") {
    dns.search.insert(dns.search.end(), words.begin() + 1, words.end());
  } else if (keyword == "options") {
    dns.options.insert(dns.options.end(), words.begin() + 1, words.end());
  }
}

cni::Dns ParseResolvConf(const JsonView& ipam) {
  const std::optional<std::string> path = ipam.FindString("resolvConf");
  if (!path) {
    return {};
  }
  const std::optional<std::string> file =
      path->find('\0') == path->npos ? FindFile(*path) : std::nullopt;
  if (!file) {
    throw ipam.Find("resolvConf").Wrong("the path of a file that exists");
  }
  cni::Dns dns;
  for (const std::string& line : SplitFields(*file, "\n")) {
    // Printable: the file may have bytes that are not UTF-8, and a result must be UTF-8.
    const std::vector<std::string> words = SplitFields(Printable(line), " ");
    // Ignores a keyword without a value. Comments need no check: they begin with no keyword.
    if (words.size() > 1) {
      AppendLine(dns, words);
    }
  }
  return dns;
}

// Parses a requested address. "10.0.0.5" and "10.0.0.5/24" mean the same: the prefix length comes
// from the range.
Ip ParseRequested(const JsonView& element) {
  const std::string text = element.String();
  const std::optional<Cidr> with_prefix = Cidr::Parse(text);
  const std::optional<Ip> address = with_prefix ? with_prefix->address : Ip::Parse(text);
  if (!address) {
    throw element.Wrong("an IP address, as '10.0.0.5' or '10.0.0.5/24'");
  }
  return *address;
}

std::vector<Ip> ParseAllRequested(const Sources& sources) {
  std::vector<Ip> requested;
  const auto add = [&](const Ip& address) {
    if (!Contains(requested, address)) {
      requested.push_back(address);
    }
  };
  if (sources.args.ip) {
    add(*sources.args.ip);
  }
  for (const JsonView& object : {sources.cni, sources.runtime}) {
    std::ranges::for_each(object.FindEach("ips", ParseRequested), add);
  }
  return requested;
}

std::string ParseDataDir(const JsonView& ipam, const cni::Defaults& defaults) {
  std::string directory = ipam.FindString("dataDir").value_or(defaults.data_dir);
  if (!IsDirectoryPath(directory)) {
    throw ipam.Find("dataDir").Wrong("an absolute path");
  }
  return directory;
}

std::string ParseIpamType(const JsonView& ipam, const cni::Defaults& defaults) {
  std::string type = defaults.ipam_type;
  if (!defaults.ignores_ipam_type) {
    type = ipam.FindString("type").value_or(type);
  }
  if (type.find('/') != type.npos) {
    throw ipam.Find("type").Wrong("the name of a plugin, without '/'");
  }
  // The reference plugin would create a link without addresses, and give no reason.
  for (const char* const key : {"subnet", "ranges"}) {
    if (type.empty() && ipam.Find(key)) {
      throw ipam.Find(key).Wrong("only together with 'ipam.type', as \"host-local\"");
    }
  }
  return type;
}

}  // namespace

IpamConfig ParseIpam(const Sources& sources, const cni::Defaults& defaults) {
  IpamConfig config{.type = ParseIpamType(sources.ipam, defaults), .data_dir = defaults.data_dir};
  if (config.type != cni::kHostLocal) {
    return config;  // the other keys are for that plugin
  }
  config.data_dir = ParseDataDir(sources.ipam, defaults);
  config.routes = sources.ipam.FindEach("routes", ParseOwnRoute);
  if (sources.is_add) {  // only ADD needs its content, and the file may be missing for a moment
    config.dns = ParseResolvConf(sources.ipam);
  }
  config.ranges = ParseRanges(sources, defaults);
  config.requested = ParseAllRequested(sources);
  return config;
}

// Returns whether the path is absolute and has no NUL. A relative path would depend on the runtime,
// and the kernel would end the path at the NUL.
bool IsDirectoryPath(std::string_view path) {
  return path.starts_with('/') && path.find('\0') == path.npos;
}

}  // namespace nomad_bridge::config
