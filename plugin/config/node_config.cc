#include "plugin/config/node_config.h"

#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/nearest.h"
#include "base/text.h"
#include "plugin/policy/document.h"

namespace nomad_bridge::config {
namespace {

constexpr std::string_view kIgnore = "ignore";
constexpr std::string_view kNonMasqueradeCidrs = "nonMasqueradeCIDRs";
constexpr std::string_view kMetricsDirectory = "metricsDirectory";
constexpr std::string_view kPolicy = "policy";
constexpr std::string_view kRequired = "required";

// Throws if a key is almost "policy": ADDs that must be refused would pass because of the typing
// error. Reports any other unknown key as a problem.
void NameUnknownKeys(const policy::Node& root, NodeConfig& node) {
  for (const policy::Node& key : root.Keys()) {
    const std::vector<std::string_view> known = {
        kIgnore, kNonMasqueradeCidrs, kMetricsDirectory, kPolicy};
    if (root.Find(key.text) != &root.elements[static_cast<std::size_t>(&key - root.keys.data())]) {
      throw key.Refused(Format("'{}' stands twice", Excerpt(key.text)));
    }
    if (Contains(known, key.text)) {
      continue;
    }
    const Error unknown =
        key.Refused(Format("unknown key '{}'{}", Excerpt(key.text), Suggestion(key.text, known)));
    if (FindNearest(key.text, known) == kPolicy) {
      throw unknown;
    }
    node.problems.emplace_back(unknown.what());
  }
}

void ReadIgnored(const policy::Node& root, NodeConfig& node) try {
  for (const policy::Node& check : root.FindArray(kIgnore)) {
    node.ignore.push_back(check.String("the id of a check of doctor"));
  }
} catch (const Error& error) {  // no ADD needs this key, so none fails
  node.problems.emplace_back(error.what());
}

void ReadNonMasqueraded(const policy::Node& root, NodeConfig& node) try {
  for (const policy::Node& prefix : root.FindArray(kNonMasqueradeCidrs)) {
    constexpr std::string_view kAllowed = "an address and prefix length, as '10.0.0.0/8'";
    const std::optional<Cidr> parsed = Cidr::Parse(prefix.String(kAllowed));
    node.non_masquerade_cidrs.push_back(parsed ? *parsed : throw prefix.Wrong(kAllowed));
  }
} catch (const Error& error) {
  node.problems.emplace_back(error.what());
}

void ReadMetricsDirectory(const policy::Node& root, NodeConfig& node) try {
  constexpr std::string_view kAllowed = "an absolute path, as '/var/lib/node_exporter'";
  if (const policy::Node* const directory = root.Find(kMetricsDirectory)) {
    node.metrics_directory = directory->String(kAllowed);
    if (!node.metrics_directory.starts_with('/')) {
      node.metrics_directory.clear();
      throw directory->Wrong(kAllowed);
    }
  }
} catch (const Error& error) {
  node.problems.emplace_back(error.what());
}

NodeConfig Read(const policy::SourceText& source) {
  NodeConfig node;
  const policy::Node root = policy::ParseDocument(source);
  NameUnknownKeys(root, node);
  ReadIgnored(root, node);
  ReadNonMasqueraded(root, node);
  ReadMetricsDirectory(root, node);
  if (const policy::Node* const policy = root.Find(kPolicy)) {
    policy->RequireKeys({kRequired});
    const policy::Node* const required = policy->Find(kRequired);
    node.policy_required = required != nullptr && required->Bool();
  }
  return node;
}

}  // namespace

NodeConfig ReadNodeConfig() {
  const std::optional<std::string> text = FindFile(kNodeConfigFile);
  if (!text) {
    return {};
  }
  const policy::SourceText source = {.file = kNodeConfigFile, .text = *text};
  try {
    return Read(source);
  } catch (const Error& error) {
    if (text->find(kRequired) != std::string::npos || text->find(kPolicy) != std::string::npos) {
      throw Error(error.code(),
                  error.msg(),
                  Cat(error.details().empty() ? "" : Cat(error.details(), "; "),
                      "correct it there: until then, nobody knows whether policies are required"),
                  Fix::Advice("correct the file there"));
    }
    return {.ignore = {}, .problems = {error.what()}};
  }
}

}  // namespace nomad_bridge::config
