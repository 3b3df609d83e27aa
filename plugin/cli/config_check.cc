#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/document.h"
#include "plugin/cli/nomad_config.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/delegate.h"
#include "plugin/cni/json.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/link/subnet.h"

namespace nomad_bridge::cli {
namespace {

// The networks of all files that were checked so far. Two networks must not conflict, but they may
// share a subnet on the same bridge.
class Networks {
 public:
  // Throws if another file has a network of this name, or a network with an overlapping subnet.
  void Add(const std::string& path, const std::string& name, const config::Config& config) {
    for (const Known& known : all_) {
      if (known.path != path && known.name == name) {
        throw Error(Code::kInvalidConfig, Format("network '{}' is also in '{}'", name, known.path));
      }
    }
    for (const ipam::RangeSet& set : config.ipam.ranges) {
      for (const ipam::Range& range : set) {
        const std::string& gateway = config.link.gateway_ifname;
        RefuseOverlap(range.subnet, gateway);
        all_.push_back({.path = path, .name = name, .gateway = gateway, .subnet = range.subnet});
      }
    }
  }

 private:
  struct Known {
    std::string path;
    std::string name;
    std::string gateway;  // the bridge, or the gateway of a VLAN
    Cidr subnet;
  };

  void RefuseOverlap(const Cidr& subnet, const std::string& gateway) const {
    for (const Known& known : all_) {
      if (known.gateway != gateway && known.subnet.Overlaps(subnet)) {
        throw Error(Code::kInvalidConfig,
                    Format("subnet {} overlaps with {} of network '{}' in '{}'",
                           subnet,
                           known.subnet,
                           known.name,
                           known.path));
      }
    }
  }

  std::vector<Known> all_;
};

// Throws if `type` is almost the name of one of our plugins, and no plugin has the name `type`: an
// ADD would find none.
void RefuseTypo(const std::string& type, const std::vector<std::string_view>& ours) {
  const std::string suggestion = Suggestion(type, ours);
  const std::vector<std::string> directories = PluginDirectories();
  if (!suggestion.empty() && std::ranges::none_of(directories, [&](const std::string& directory) {
        return FindStatus(Cat(directory, '/', type)).has_value();
      })) {
    throw Error(
        Code::kInvalidConfig,
        Format("there is no plugin '{}' in {}{}", type, Joined(directories, ":"), suggestion));
  }
}

// Throws if an ADD on this node would refuse the network because another link already uses its
// subnet.
void CheckOnNode(const std::string& network, const config::Config& config) {
  state::Record record;
  record.id.network = network;
  static_cast<config::LinkSpec&>(record.link) = config.link;
  record.ipam.ranges = config.ipam.ranges;
  rtnl::Socket net = rtnl::Socket::In(netlink::Netns::Current());
  for (const ipam::RangeSet& set : config.ipam.ranges) {
    const ipam::Range& range = set.front();
    const std::optional<Finding> taker =
        config.link.is_gateway
            ? link::FindTaker(net, record, {range.gateway, range.subnet.prefix_length})
            : std::nullopt;
    if (taker) {
      throw Error(Code::kConflict, taker->text, taker->fix.Line());
    }
  }
}

// The result for one file.
struct Checked {
  std::string path;
  std::string network = {};  // its name; empty if the file has none
  std::vector<cni::PluginConfig> ours = {};
  std::vector<std::string> others = {};  // types of plugins that are not checked
  std::vector<std::string> remarks = {};
  std::string error = {};  // empty if the file is valid
  bool is_unread = false;
};

// Adds remarks about settings that an ADD accepts, but that may be a mistake.
void RemarkOnPlugin(Checked& file, const cni::PluginConfig& plugin, const config::Config& config) {
  for (const auto& [key, nearest] : config.unknown_keys) {
    file.remarks.push_back(Format(
        "unknown key '{}'{}", key, nearest.empty() ? "" : Format("; did you mean '{}'?", nearest)));
  }
  const std::string& ipam = config.ipam.type;
  if (cni::TypeOf(plugin.type).Provides(cni::Part::kLink) && !ipam.empty() &&
      ipam != cni::kHostLocal) {
    RefuseTypo(ipam, {cni::kHostLocal});
  }
}

// Adds remarks about the list as a whole.
void RemarkOnList(Checked& file, const cni::JsonView& list) {
  constexpr std::array<std::string_view, 7> kKeys = {"cniVersion",
                                                     "cniVersions",
                                                     "disableCheck",
                                                     "disableGC",
                                                     "loadOnlyInlinedPlugins",
                                                     "name",
                                                     "plugins"};
  if (!list.Find("cniVersion")) {
    file.remarks.emplace_back("there is no 'cniVersion', which means 0.1.0");
  }
  for (const std::string& key : list.Keys()) {
    if (list.Find("plugins") && !Contains(kKeys, key)) {
      file.remarks.push_back(Format(
          "'{}' beside 'plugins' has no effect: a plugin's keys belong in its own object", key));
    }
  }
}

bool AsksForPorts(const cni::PluginConfig& plugin) {
  const cni::JsonView capabilities = cni::JsonView(*plugin.request.config, "").Find("capabilities");
  return capabilities && capabilities.FindBool("portMappings").value_or(false);
}

// Checks whether our plugins in the list work together. Adds remarks, or throws.
void CheckTogether(Checked& file) {
  const auto provide = [](cni::Part part) {
    return [part](const auto& each) { return cni::TypeOf(each.type).Provides(part); };
  };
  const std::vector<cni::PluginConfig>& ours = file.ours;
  if (std::ranges::count_if(ours, provide(cni::Part::kLink)) > 1) {
    throw Error(Code::kInvalidConfig,
                "two of the 'plugins' make the container's interface",
                "allowed: one of type 'nomad-bridge' or 'bridge'");
  }
  const auto publisher = std::ranges::find_if(ours, provide(cni::Part::kPorts));
  if (publisher != ours.end() && std::ranges::none_of(ours, AsksForPorts)) {
    file.remarks.push_back(Format("no port is published: '{}' lacks {}",
                                  publisher->type,
                                  R"("capabilities": {"portMappings": true})"));
  }
}

// Throws the error that an ADD with this file would return.
void CheckFile(Checked& file, Networks& networks) {
  if (!FindStatus(file.path)) {
    throw Error(Code::kIo, "there is no such file");
  }
  const std::vector<std::string> names = cni::PluginTypeNames();
  cni::ConfigDocument read = cni::ReadConfigDocument(file.path);
  for (cni::PluginConfig& plugin : read.plugins) {
    file.network = plugin.request.id.network;
    if (const std::optional<config::Config> config = FindConfig(plugin)) {
      networks.Add(file.path, file.network, *config);
      CheckOnNode(file.network, *config);
      RemarkOnPlugin(file, plugin, *config);
      file.ours.push_back(std::move(plugin));
    } else {
      RefuseTypo(plugin.type, {names.begin(), names.end()});
      file.others.push_back(plugin.type);
    }
  }
  CheckTogether(file);
  RemarkOnList(file, cni::JsonView(*read.document, ""));
}

Checked CheckOne(const std::string& path, Networks& networks) {
  Checked file{.path = path};
  try {
    CheckFile(file, networks);
  } catch (const std::exception& error) {
    file.error = error.what();
    const auto* const of_file = dynamic_cast<const Error*>(&error);
    file.is_unread = of_file != nullptr && of_file->code() == Code::kIo;
  }
  return file;
}

std::string TextOf(const Checked& file) {
  return Format("{}: {} network '{}'\n",
                file.path,
                file.ours.empty() ? "no plugin of ours in" : "ok,",
                file.network);
}

Json ToJson(const Checked& file) {
  return {{"file", file.path},
          {"valid", file.is_unread ? Json() : Json(file.error.empty())},
          {"error", OrNull(file.error)},
          {"network", OrNull(file.network)},
          {"notChecked", file.others},
          {"remarks", file.remarks}};
}

// Prints the remarks and the error on stderr.
void Report(const Checked& file) {
  for (const std::string& remark : file.remarks) {
    LogLine("{}: {}", file.path, remark);
  }
  if (!file.error.empty()) {
    // If the list could not be read, the error already names the file.
    const bool is_named = file.error.find(file.path) != file.error.npos;
    LogLine("{}{}", is_named ? "" : Cat(file.path, ": "), file.error);
  }
}

int RunConfigCheck(const Arguments& arguments) {
  int exit = kYes;
  Networks networks;
  Json files = Json::array();
  for (const std::string& path : arguments.operands) {
    const Checked file = CheckOne(path, networks);
    Report(file);
    if (arguments.Has("json")) {
      files.push_back(ToJson(file));
    } else if (file.error.empty()) {
      Print(TextOf(file));
    }
    exit = std::max<int>(exit, file.is_unread ? kUnknown : file.error.empty() ? kYes : kNo);
  }
  if (arguments.Has("json")) {
    PrintDocument({{"files", files}});
  }
  return exit;
}

constexpr std::array kConfigCheckFlags = {kJsonFlag};

}  // namespace

const Command kConfigCheck = {
    .name = "config check",
    .operands = {"FILE...", 1, kAny},
    .summary = "whether network configs are valid",
    .text =
        R"(Reads each FILE, a conflist or a single plugin's config, as an ADD would, and
changes nothing. Needs no root. Names the file, the key, and what is allowed
there. Also refuses two FILEs with the same network, or with subnets that
overlap, and a subnet that another link of this node takes.

Remarks name unknown keys, and ports that are not asked for. Plugins that are
not ours are not checked; a name that is nearly ours is refused, unless there
is such a plugin. Exit 1: invalid; 2: a file cannot be read.
)",
    .flags = kConfigCheckFlags,
    .run = RunConfigCheck};

}  // namespace nomad_bridge::cli
