#include <array>
#include <filesystem>
#include <set>

#include <sys/statvfs.h>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/cli/doctor.h"
#include "plugin/cli/nomad_config.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/config/node_config.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::size_t kMaxPluginBytes = 256 << 20;
// The list of the resolvers that systemd-resolved asks behind its stub.
constexpr const char* kRealResolvConf = "/run/systemd/resolve/resolv.conf";
constexpr const char* kOwnName = "nomad-bridge";

// A program that manages links. It writes a file for each link, named after the link's index.
struct LinkManager {
  std::string_view name;
  std::string_view directory;
  std::string_view key;
  std::vector<std::string_view> harmless;  // values of `key` for links that it leaves alone
};

// The pattern of our host veths, in the syntax of both managers.
constexpr const char* kHostVeths = "veth???????????";

// Returns a command that writes `lines` into a file.
std::string WriteCommand(const std::vector<std::string>& lines, const std::string& path) {
  return Format("mkdir -p {} && printf '%s\\n' {} >{}",
                path.substr(0, path.rfind('/')),
                Joined(lines, " ", ShellWord),
                path);
}

// Warns about our links that `manager` manages.
void CheckManager(Examination& node, const LinkManager& manager, const std::string& fix) {
  // Lists the directory once, instead of opening a file for each link: a node may have a thousand
  // links and no such manager.
  const std::vector<std::string> entries = Entries(std::string(manager.directory));
  const std::set<std::string> known(entries.begin(), entries.end());
  std::vector<std::string> managed;
  for (const rtnl::Link& link : node.inventory.links) {
    const bool is_ours = known.contains(std::to_string(link.index)) &&
                         (state::ParseAlias(link.alias) || node.gateways.contains(link.name));
    if (!is_ours) {
      continue;
    }
    const std::string text = FindFile(Cat(manager.directory, link.index)).value_or("");
    for (const std::string& line : SplitFields(text, "\n")) {
      if (line.starts_with(manager.key) &&
          !Contains(manager.harmless, std::string_view(line).substr(manager.key.size()))) {
        managed.push_back(Format(
            "'{}' is managed by {}, which may take its addresses away", link.name, manager.name));
      }
    }
  }
  node.AddAll(Severity::kWarning, managed, fix);
}

// Returns the path without symbolic links; empty if it leads nowhere.
std::string RealPath(const std::string& path) {
  std::error_code error;
  return std::filesystem::canonical(path, error);
}

// Returns the files of the plugin in the order in which runtimes find them, each file once.
std::vector<std::string> FilesOf(Examination& node, const std::string& type) {
  std::vector<std::string> files;
  for (const std::string& directory : node.PluginDirs()) {
    const std::string file = RealPath(Cat(directory, '/', type));
    if (!file.empty() && !Contains(files, file)) {
      files.push_back(file);
    }
  }
  return files;
}

bool HaveSameContent(const std::string& one, const std::string& other) {
  return FindFile(one, kMaxPluginBytes) == FindFile(other, kMaxPluginBytes);
}

// Returns our own name, and the plugins that the configs name.
std::set<std::string> PluginNames(Examination& node) {
  std::set<std::string> names = {kOwnName};
  for (const ConfigFile& file : node.Configs()) {
    for (const cni::PluginConfig& plugin : file.plugins) {
      names.insert(plugin.type);
    }
  }
  return names;
}

// Returns whether the config gives its allocations name servers of its own.
bool HasDns(const config::Config& config) {
  return !config.dns.nameservers.empty() || !config.ipam.dns.nameservers.empty();
}

// Returns whether the file names name servers, and all of them are on the node itself.
bool IsStub(const std::string& resolv_conf) {
  bool is_any = false;
  for (const std::string& line : SplitFields(resolv_conf, "\n")) {
    const std::vector<std::string> words = SplitFields(line, " \t\r");
    const std::optional<Ip> address =
        words.size() > 1 && words[0] == "nameserver" ? Ip::Parse(words[1]) : std::nullopt;
    if (address && !address->IsLoopback()) {
      return false;
    }
    is_any = is_any || address;
  }
  return is_any;
}

void CheckDead(Examination& node) {
  std::size_t attachments = 0;
  std::size_t addresses = 0;
  for (const Attachment& attachment : node.inventory.attachments) {
    if (attachment.state == State::kDead) {
      ++attachments;
      addresses += attachment.record ? attachment.record->ipam.addresses.size() : 0;
    }
  }
  if (attachments != 0) {
    node.Warn(Format("{} {} {}",
                     Counted(attachments, "attachment"),
                     attachments == 1 ? "holds" : "hold",
                     addresses == 1 ? "1 address" : Cat(addresses, " addresses")),
              kGcFix);
  }
}

void CheckNetworkd(Examination& node) {
  std::string names = Cat("Name=", kHostVeths);
  for (const auto& [gateway, record] : node.gateways) {
    names += Cat(' ', gateway);
  }
  CheckManager(node,
               {.name = "systemd-networkd",
                .directory = "/run/systemd/netif/links/",
                .key = "ADMIN_STATE=",
                .harmless = {"unmanaged", "pending", "initialized"}},
               Cat(WriteCommand({"[Match]", names, "[Link]", "Unmanaged=yes"},
                                "/etc/systemd/network/10-nomad-bridge.network"),
                   " && networkctl reload"));
}

void CheckNetworkManager(Examination& node) {
  std::string names = Cat("unmanaged-devices+=interface-name:", kHostVeths);
  for (const auto& [gateway, record] : node.gateways) {
    names += Cat(";interface-name:", gateway);
  }
  CheckManager(
      node,
      {.name = "NetworkManager",
       .directory = "/run/NetworkManager/devices/",
       .key = "managed=",
       .harmless = {"false", "unmanaged", "unknown", "0"}},
      Cat(WriteCommand({"[keyfile]", names}, "/etc/NetworkManager/conf.d/10-nomad-bridge.conf"),
          " && nmcli general reload"));
}

void CheckPluginVersion(Examination& node) {
  const std::vector<std::string> files = FilesOf(node, kOwnName);
  const std::string self = RealPath("/proc/self/exe");
  if (!files.empty() && !self.empty() && files.front() != self &&
      !HaveSameContent(files.front(), self)) {
    node.Warn(Format("runtimes run '{}', which is another release than this program '{}'",
                     files.front(),
                     self),
              Format("{} install {}", ShellWord(self), ShellWord(node.PluginDirs().front())));
  }
}

// Warns about different files of one plugin: Nomad may read the version from one directory, and run
// the file in another.
void CheckShadowedPlugins(Examination& node) {
  for (const std::string& name : PluginNames(node)) {
    const std::vector<std::string> files = FilesOf(node, name);
    for (const std::string& other : files) {
      if (!HaveSameContent(files.front(), other)) {
        node.Warn(Format("'{}' and '{}' differ: Nomad may show the version of one file and run "
                         "the other",
                         files.front(),
                         other),
                  other.starts_with("/usr/")  // a package has it, and other runtimes need it
                      ? Fix::Advice("leave one of the two directories in Nomad's cni_path")
                      : Fix(Cat("rm ", ShellWord(other))));
      }
    }
  }
}

void CheckMissingPlugins(Examination& node) {
  for (const std::string& name : PluginNames(node)) {
    if (FilesOf(node, name).empty()) {
      node.Fail(Format("plugin '{}' is not in {}", name, Joined(node.PluginDirs(), ":")),
                Contains(cni::PluginTypeNames(), name)
                    ? Fix(Cat("nomad-bridge install ", ShellWord(node.PluginDirs().front())))
                    : Fix::Advice("install it there, or take it out of the conflist"));
    }
  }
}

// Checks the file system of the records, because an ADD writes its record before it changes
// anything in the kernel.
void CheckRun(Examination& node) {
  struct statvfs room {};
  if (::statvfs(state::kStateDirectory, &room) != 0 && ::statvfs("/run", &room) != 0) {
    return;
  }
  if (room.f_bavail == 0 || (room.f_files != 0 && room.f_favail == 0)) {
    node.Fail(
        "/run is full: no ADD can write its record; what fills it: du -xh /run | sort -h | tail",
        "mount -o remount,size=20%,nr_inodes=0 /run");
  }
}

// Returns whether runtimes that run the reference plugin `bridge` run us: then Nomad's own mode
// "bridge" needs no conflist.
bool StandsInForReference(Examination& node) {
  const std::vector<std::string> bridge = FilesOf(node, "bridge");
  return !bridge.empty() && bridge == FilesOf(node, kOwnName);
}

// Reports networks that no ADD would serve.
void CheckNetworksOf(Examination& node, const ConfigFile& file) {
  const Fix fix = Fix::Advice(
      Cat("correct it until this says ok: nomad-bridge config check ", ShellWord(file.path)));
  if (!file.error.empty()) {
    node.Fail(file.error, fix);
  }
  FindingList missing;
  for (const cni::PluginConfig& plugin : file.plugins) {
    try {
      const std::optional<config::Config> config = FindConfig(plugin);
      if (auto found = config ? FindMissingBridge(node.host, plugin, *config) : std::nullopt) {
        missing.push_back(*std::move(found));
      }
    } catch (const std::exception& error) {
      node.Fail(Format("{}: {}", file.path, error.what()), fix);
    }
  }
  node.AddUnreported(std::move(missing));
}

void CheckConflists(Examination& node) {
  // Where allocations run, their runtime has found a network.
  if (node.running.empty() && !StandsInForReference(node)) {
    std::vector<std::string> files;
    for (const ConfigFile& file : node.Configs()) {
      files.push_back(file.path);
    }
    if (const std::optional<Finding> warning = FindNoNetwork(files)) {
      node.Warn(warning->text, warning->fix);
    }
  }
  for (const ConfigFile& file : node.Configs()) {
    CheckNetworksOf(node, file);
  }
}

void CheckDnsStub(Examination& node) {
  if (!IsStub(FindFile("/etc/resolv.conf").value_or(""))) {
    return;
  }
  for (const ConfigFile& file : node.Configs()) {
    for (const cni::PluginConfig& plugin : file.plugins) {
      const std::optional<config::Config> config = FindConfig(plugin);
      if (config && cni::TypeOf(plugin.type).Provides(cni::Part::kLink) && !HasDns(*config)) {
        return node.Warn(
            Format("/etc/resolv.conf names a resolver on the node's 127.0.0.0/8, which "
                   "allocations of network '{}' cannot reach",
                   plugin.request.id.network),
            Fix::Advice(
                Format("in the plugin's object of {}: {}",
                       ShellWord(file.path),
                       IsStub(FindFile(kRealResolvConf).value_or("nameserver 127.0.0.1"))
                           ? R"("dns": {"nameservers": ["ADDRESS"]}, of a resolver that they reach)"
                           : Cat(R"("ipam": {"resolvConf": ")", kRealResolvConf, R"("})"))));
      }
    }
  }
}

void CheckNodeConfig(Examination& node) {
  const Fix fix = Fix::Advice("correct the file there");
  config::NodeConfig config;
  try {
    config = config::ReadNodeConfig();
  } catch (const Error& error) {
    return node.Fail(Cat(error.what(), "; ADDs are refused while no policies were applied"), fix);
  }
  for (const std::string& problem : config.problems) {
    node.Warn(problem, fix);
  }
  for (const std::string& name : config.ignore) {
    if (!IsAnyCalled(name)) {
      node.Warn(
          Format("'{}' ignores '{}', and there is no such check", config::kNodeConfigFile, name),
          Fix::Advice("use an ID that `nomad-bridge doctor` prints, or the first word of IDs"));
    }
  }
}

constexpr std::array kNodeTable = {
    Check{"dead", CheckDead},
    Check{"networkd", CheckNetworkd},
    Check{"networkmanager", CheckNetworkManager},
    Check{"plugins.version", CheckPluginVersion},
    Check{"plugins.shadowed", CheckShadowedPlugins},
    Check{"plugins.missing", CheckMissingPlugins},
    Check{"config", CheckNodeConfig},
    Check{"run", CheckRun},
    Check{"conflist.valid", CheckConflists},
    Check{"dns.stub", CheckDnsStub},
};

}  // namespace

const std::span<const Check> kNodeChecks = kNodeTable;

}  // namespace nomad_bridge::cli
