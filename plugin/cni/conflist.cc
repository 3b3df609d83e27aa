#include "plugin/cni/conflist.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "plugin/cni/json.h"
#include "plugin/cni/plugin_type.h"

namespace nomad_bridge::cni {
namespace {

constexpr std::size_t kMaxBytes = 8 << 20;

bool IsConfigName(std::string_view name) {
  constexpr std::array<std::string_view, 3> kSuffixes = {".conflist", ".conf", ".json"};
  return std::ranges::any_of(kSuffixes,
                             [&](std::string_view suffix) { return name.ends_with(suffix); });
}

PluginConfig Parse(const JsonView& plugin) {
  const std::optional<std::string> type = plugin.FindString("type");
  if (!type) {
    throw Error(Code::kInvalidConfig,
                plugin.path().empty() ? std::string("there is neither 'plugins' nor 'type'")
                                      : Format("'{}' has no 'type'", plugin.path()),
                "'type' is the name of a plugin, and 'plugins' an array of objects with one each");
  }
  return {.type = *type, .request = RequestFor(Verb::kAdd, plugin.value().dump())};
}

// Refuses a document whose shape does not fit the file's name: runtimes ignore such a file.
void RequireShapeOf(const JsonView& config, std::string_view path) {
  const bool is_list = static_cast<bool>(config.Find("plugins"));
  if (path.ends_with(".conflist") && !is_list) {
    throw Error(
        Code::kInvalidConfig,
        "there is no 'plugins', which a .conflist needs",
        "allowed: an array of objects with a 'type' each; a single one is a file NAME.conf");
  }
  if (IsConfigName(path) && !path.ends_with(".conflist") && is_list) {
    throw Error(Code::kInvalidConfig,
                "there is 'plugins', which only a .conflist may have",
                "rename the file to NAME.conflist");
  }
}

std::vector<PluginConfig> ParseAll(const nlohmann::json& document, std::string_view path) {
  const JsonView config(document, "");
  RequireShapeOf(config, path);
  const JsonView plugins = config.Find("plugins");
  std::vector<PluginConfig> configs;
  if (!plugins) {
    configs.push_back(Parse(config));
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
    configs.push_back(Parse(JsonView(completed, plugin.path())));
  }
  if (configs.empty()) {
    throw plugins.Wrong("an array with at least one object");
  }
  return configs;
}

std::vector<PluginConfig> ParseFile(const nlohmann::json& document, const std::string& path) {
  try {
    return ParseAll(document, path);
  } catch (const Error& error) {
    throw Error(error.code(), Format("{}: {}", path, error.msg()), error.details());
  }
}

// Returns whether the config has a plugin of our type. A config with a mistake in it counts only if
// its text mentions our type.
bool NamesOurType(const std::string& path) {
  const std::string type = PluginTypeNames().front();
  std::string text;
  try {
    text = FindFile(path, kMaxBytes).value_or("");
    return std::ranges::count(ParseFile(*ParseJson(text, path), path), type, &PluginConfig::type) !=
           0;
  } catch (const Error&) {
    return text.find(Cat('"', type, '"')) != text.npos;
  }
}

bool IsShared(const std::string& directory) {
  return (std::filesystem::path(directory) / "").lexically_normal() == Cat(kSharedDirectory, '/');
}

}  // namespace

std::vector<std::string> FindConfigFiles(const std::string& path) {
  const std::vector<std::string> names = Entries(path);
  if (names.empty()) {
    return IsConfigName(path) ? std::vector{path} : std::vector<std::string>();
  }
  const bool is_shared = IsShared(path);
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::string file = (std::filesystem::path(path) / name).string();
    if (IsConfigName(name) && (!is_shared || NamesOurType(file))) {
      files.push_back(std::move(file));
    }
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> FindDefaultConfigFiles() {
  const std::vector<std::string> nomads = FindConfigFiles(kNomadDirectory);
  return nomads.empty() ? FindConfigFiles(kSharedDirectory) : nomads;
}

ConfigDocument ReadConfigDocument(const std::string& path) {
  const std::optional<std::string> text = FindFile(path, kMaxBytes);
  if (!text) {
    throw Error(Code::kIo, Format("'{}' does not exist", path));
  }
  if (text->starts_with("\xEF\xBB\xBF")) {
    throw Error(Code::kDecode,
                Format("cannot decode {} as JSON", path),
                "it begins with a byte order mark, which runtimes refuse");
  }
  JsonPtr document = ParseJson(*text, path);
  std::vector<PluginConfig> plugins = ParseFile(*document, path);
  return {std::move(document), std::move(plugins)};
}

std::vector<PluginConfig> ReadPluginConfigs(const std::string& path) {
  return ReadConfigDocument(path).plugins;
}

}  // namespace nomad_bridge::cni
