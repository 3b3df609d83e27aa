#include "plugin/cli/throw_away.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace nomad_bridge::cli {
namespace {

constexpr const char* kName = "nomad-bridge-test";
constexpr const char* kInterface = "eth0";
constexpr std::chrono::seconds kLongest{60};  // of one plugin

std::string FindProgram(const PluginList& list, const std::string& type) {
  for (const std::string& directory : list.directories) {
    std::string path = Cat(directory, '/', type);
    if (std::error_code none; std::filesystem::is_regular_file(path, none)) {
      return path;
    }
  }
  throw Error(Code::kInvalidConfig,
              Format("plugin '{}' is not in {}", type, Joined(list.directories, ":")));
}

// Returns our environment without the variables of CNI, which the runtime sets.
std::vector<std::string> Environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (const std::string text = *variable; !text.starts_with("CNI_")) {
      variables.push_back(text);
    }
  }
  return variables;
}

// Runs the plugins of a list for one container.
class Runtime {
 public:
  // `netns` is CNI_NETNS.
  Runtime(const PluginList& list, const ThrowAway& container, std::string netns)
      : list_(list), container_(container), netns_(std::move(netns)) {}

  // Returns the result of the last plugin.
  [[nodiscard]] Json Add() const {
    Json result;
    for (const cni::PluginConfig& plugin : list_.plugins) {
      result = Json::parse(Run(cni::Verb::kAdd, plugin, result), nullptr, /*throws=*/false);
    }
    return result;
  }

  // Goes on if a plugin fails, and throws the first error at the end.
  void Del() const {
    std::optional<Error> first;
    for (auto plugin = list_.plugins.rbegin(); plugin != list_.plugins.rend(); ++plugin) {
      try {
        static_cast<void>(Run(cni::Verb::kDel, *plugin, container_.result));
      } catch (const Error& error) {
        first = first ? first : error;
      }
    }
    if (first) {
      throw *first;
    }
  }

 private:
  // Returns stdout. Throws what the plugin says if it fails.
  [[nodiscard]] std::string Run(cni::Verb verb,
                                const cni::PluginConfig& plugin,
                                const Json& previous) const {
    std::vector<std::string> variables = Environment();
    for (const std::string& variable :
         {Cat("CNI_COMMAND=", cni::Text(verb)),
          Cat("CNI_CONTAINERID=", container_.id.container_id),
          Cat("CNI_NETNS=", netns_),
          Cat("CNI_IFNAME=", container_.id.ifname),
          Cat("CNI_PATH=", Joined(list_.directories, ":")),
          Format("CNI_ARGS=IgnoreUnknown=true;NOMAD_NAMESPACE={};NOMAD_JOB_ID={};"
                 "NOMAD_GROUP_NAME={}",
                 container_.nomad_namespace,
                 kName,
                 container_.group)}) {
      variables.push_back(variable);
    }
    ExitInfo exit = RunSubprocess({.path = FindProgram(list_, plugin.type),
                                   .environment = std::move(variables),
                                   .input = ConfigOf(plugin, previous).dump(),
                                   .timeout = kLongest});
    if (!exit.Succeeded()) {
      throw Failed(verb, plugin, exit);
    }
    return std::move(exit.out);
  }

  [[nodiscard]] Json ConfigOf(const cni::PluginConfig& plugin, const Json& previous) const {
    Json config = Json::parse(plugin.request.config_text);
    const Json::json_pointer capability("/capabilities/portMappings");
    if (config.value(capability, false)) {
      for (const std::uint16_t port : container_.published) {
        config["runtimeConfig"]["portMappings"].push_back({{"hostPort", port},
                                                           {"containerPort", kContainerPort},
                                                           {"protocol", "tcp"},
                                                           {"hostIP", ""}});
      }
    }
    if (!previous.is_null() && !previous.is_discarded()) {
      config["prevResult"] = previous;
    }
    return config;
  }

  static Error Failed(cni::Verb verb, const cni::PluginConfig& plugin, const ExitInfo& exit) {
    const Json error = Json::parse(exit.out, nullptr, /*throws=*/false);
    const std::string what = Format("plugin '{}' fails at {}", plugin.type, cni::Text(verb));
    if (exit.how != End::kExit || !error.is_object() || !error.contains("msg")) {
      return {Code::kDelegate, what, Cat(exit.HowItEnded(), ": ", Excerpt(exit.err))};
    }
    const Json details = error.value("details", Json(""));
    return {Code::kDelegate,
            Cat(what, ": ", PlainText(error.at("msg"))),
            details == "" ? std::string() : PlainText(details)};
  }

  const PluginList& list_;
  const ThrowAway& container_;
  std::string netns_;
};

// Returns a path to the namespace that leads there for as long as this process lives.
std::string PathOf(const netlink::Netns& netns) {
  return Format("/proc/{}/fd/{}", ::getpid(), netns.fd());
}

// Returns eight digits that differ between commands.
std::string Unique() {
  constexpr int kDigits = 8;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return Hex(StableHash(Cat(now, ' ', ::getpid())), kDigits);
}

}  // namespace

ThrowAways::ThrowAways(const PluginList& list, std::vector<ThrowAway> wanted)
    : list_(list), all_(std::move(wanted)) {
  const std::string unique = Unique();
  for (ThrowAway& each : all_) {
    each.id = {.network = list_.network,
               .container_id = Format("{}-{}-{}", kName, unique, each.group),
               .ifname = kInterface};
    namespaces_.push_back(netlink::Netns::Create());
  }
  guard_.emplace([this] { return AddAll(); }, [this] { DelAll(); });
  const Json report = Json::parse(guard_->Await());
  if (report.contains("error")) {
    throw Error(Code::kDelegate, report.at("error").get<std::string>());
  }
  for (std::size_t i = 0; i < all_.size(); ++i) {
    all_[i].result = report.at("results").at(i);
  }
}

std::string ThrowAways::AddAll() {
  Json results = Json::array();
  try {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      all_[i].result = Runtime(list_, all_[i], PathOf(namespaces_[i])).Add();
      results.push_back(all_[i].result);
    }
    return Json({{"results", results}}).dump();
  } catch (const std::exception& error) {
    return Json({{"error", error.what()}}).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

void ThrowAways::DelAll() const {
  std::optional<Error> first;
  for (std::size_t i = all_.size(); i-- > 0;) {
    try {
      Runtime(list_, all_[i], PathOf(namespaces_[i])).Del();
    } catch (const Error& error) {
      first = first ? first : error;
    }
  }
  if (first) {
    throw *first;
  }
}

}  // namespace nomad_bridge::cli
