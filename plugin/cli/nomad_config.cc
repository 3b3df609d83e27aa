#include "plugin/cli/nomad_config.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/link/bridge.h"

namespace nomad_bridge::cli {
namespace {

constexpr const char* kDirectory = "/etc/nomad.d";

// A name, a quoted text without its quotes, or a single other character.
struct Token {
  std::string text;
  bool is_quoted = false;
};

bool IsOfName(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_' ||
         character == '-';
}

// Splits a config into the tokens that HCL and JSON share, without the comments of HCL.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : left_(text) {}

  // Returns the next token. At the end, returns a token without text and quotes.
  Token Take() {
    SkipBlanks();
    if (left_.starts_with('"')) {
      return {TakeQuoted(), true};
    }
    const auto end = std::ranges::find_if_not(left_, IsOfName);
    return {Cut(std::max<std::size_t>(static_cast<std::size_t>(end - left_.begin()), 1))};
  }

 private:
  std::string Cut(std::size_t size) {
    std::string cut(left_.substr(0, size));
    left_.remove_prefix(cut.size());
    return cut;
  }

  void SkipPast(std::string_view end) {
    const std::size_t at = left_.find(end);
    left_.remove_prefix(at == left_.npos ? left_.size() : at + end.size());
  }

  void SkipBlanks() {
    for (;;) {
      left_.remove_prefix(std::min(left_.find_first_not_of(" \t\r\n"), left_.size()));
      if (left_.starts_with('#') || left_.starts_with("//")) {
        SkipPast("\n");
      } else if (left_.starts_with("/*")) {
        SkipPast("*/");
      } else {
        return;
      }
    }
  }

  std::string TakeQuoted() {
    std::string text;
    left_.remove_prefix(1);
    while (!left_.empty() && left_.front() != '"') {
      left_.remove_prefix(left_.front() == '\\' ? 1 : 0);
      text += Cut(1);
    }
    left_.remove_prefix(left_.empty() ? 0 : 1);
    return text;
  }

  std::string_view left_;
};

// Returns the names of the files that Nomad reads, in its order.
std::vector<std::string> NomadFiles() {
  std::vector<std::string> names = Entries(kDirectory);
  std::ranges::sort(names);
  std::erase_if(names, [](const std::string& name) {
    return !name.ends_with(".hcl") && !name.ends_with(".json");
  });
  return names;
}

std::string NomadSetting(std::string_view key) {
  std::string value;
  for (const std::string& name : NomadFiles()) {
    const std::string found = FindSetting(FindFile(Cat(kDirectory, '/', name)).value_or(""), key);
    value = found.empty() ? value : found;
  }
  return value;
}

}  // namespace

std::string FindSetting(std::string_view config, std::string_view key) {
  Tokens tokens(config);
  for (Token token = tokens.Take(); !token.text.empty() || token.is_quoted; token = tokens.Take()) {
    while (token.text == key) {
      token = tokens.Take();
      if (!token.is_quoted && (token.text == "=" || token.text == ":")) {
        token = tokens.Take();
        if (token.is_quoted) {
          return token.text;
        }
      }
    }
  }
  return {};
}

std::vector<std::string> PluginDirectories() {
  const char* const given = ::getenv("CNI_PATH");
  const std::string path = given == nullptr ? NomadSetting("cni_path") : given;
  std::vector<std::string> directories = SplitFields(path, ":");
  if (directories.empty()) {
    directories = {"/opt/cni/bin"};
  }
  return directories;
}

std::vector<std::string> FindNodeConfigFiles() {
  const std::string directory = NomadSetting("cni_config_dir");
  return directory.empty() ? cni::FindDefaultConfigFiles() : cni::FindConfigFiles(directory);
}

std::optional<Finding> FindNoNetwork(const std::vector<std::string>& files) {
  Finding finding = {.severity = Finding::Severity::kWarning};
  if (files.empty()) {
    finding.text = "no network is configured";
    finding.fix = Fix::Advice(Cat("put a conflist into ", cni::kNomadDirectory));
    return finding;
  }
  if (!NomadSetting("cni_config_dir").empty() ||
      !files.front().starts_with(cni::kSharedDirectory)) {
    return std::nullopt;
  }
  finding.text = Format("no network is configured in {}, where Nomad looks; {} has some",
                        cni::kNomadDirectory,
                        cni::kSharedDirectory);
  finding.fix = Fix::Advice(Format(R"(for Nomad, move them there, or set: cni_config_dir = "{}")",
                                   cni::kSharedDirectory));
  return finding;
}

std::optional<Finding> FindMissingBridge(state::Host& host,
                                         const cni::PluginConfig& plugin,
                                         const config::Config& config) {
  const cni::PluginType& type = cni::TypeOf(plugin.type);
  const bool is_expected = type.Provides(cni::Part::kLink) && !config.link.makes_bridge;
  if (!is_expected || host.net.FindLink(config.link.bridge)) {
    return std::nullopt;
  }
  state::Record record = state::IntentOf(plugin.request, type, config, {});
  link::DescribeBridge(host, record);  // allocations on the bridge know whether we made it
  return link::FindObstacle(host, record);
}

std::optional<config::Config> FindConfig(const cni::PluginConfig& plugin) {
  return Contains(cni::PluginTypeNames(), plugin.type)
             ? std::optional(config::ParseConfig(plugin.request, cni::TypeOf(plugin.type)))
             : std::nullopt;
}

}  // namespace nomad_bridge::cli
