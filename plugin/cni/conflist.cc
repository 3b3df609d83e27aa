#include "plugin/cni/conflist.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "plugin/cni/json.h"

namespace nomad_bridge::cni {
namespace {

bool IsConfigName(std::string_view name) {
  constexpr std::array<std::string_view, 3> kSuffixes = {".conflist", ".conf", ".json"};
  return std::ranges::any_of(kSuffixes,
                             [&](std::string_view suffix) { return name.ends_with(suffix); });
}

PluginConfig Parse(const JsonView& plugin, const std::string& path) {
  const std::optional<std::string> type = plugin.FindString("type");
  if (!type) {
    throw Error(Code::kInvalidConfig, Format("'{}' has a plugin without 'type'", path));
  }
  return {.type = *type, .request = RequestFor(Verb::kAdd, plugin.value().dump())};
}

std::vector<PluginConfig> ParseAll(const nlohmann::json& document, const std::string& path) {
  const JsonView config(document, "");
  const JsonView plugins = config.Find("plugins");
  std::vector<PluginConfig> configs;
  if (!plugins) {
    configs.push_back(Parse(config, path));
    return configs;
  }
  for (const JsonView& plugin : plugins.Elements()) {
    nlohmann::json completed = plugin.value();
    if (!completed.is_object()) {
      throw plugin.Wrong("an object with 'type'");
    }
    for (const char* const key : {"name", "cniVersion"}) {
      if (document.contains(key)) {
        completed[key] = document.at(key);
      }
    }
    configs.push_back(Parse(JsonView(completed, plugin.path()), path));
  }
  return configs;
}

}  // namespace

std::vector<std::string> FindConfigFiles(const std::string& path) {
  const std::vector<std::string> names = Entries(path);
  if (names.empty()) {
    return IsConfigName(path) ? std::vector{path} : std::vector<std::string>();
  }
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (IsConfigName(name)) {
      files.push_back(Cat(path, '/', name));
    }
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> FindDefaultConfigFiles() {
  const std::vector<std::string> nomads = FindConfigFiles("/opt/cni/config");
  return nomads.empty() ? FindConfigFiles("/etc/cni/net.d") : nomads;
}

std::vector<PluginConfig> ReadPluginConfigs(const std::string& path) {
  const std::optional<std::string> text = FindFile(path, 8 << 20);
  if (!text) {
    throw Error(Code::kIo, Format("'{}' does not exist", path));
  }
  const JsonPtr document = ParseJson(*text, path);
  try {
    return ParseAll(*document, path);
  } catch (const Error& error) {
    throw Error(error.code(), Format("{}: {}", path, error.msg()), error.details());
  }
}

}  // namespace nomad_bridge::cni
