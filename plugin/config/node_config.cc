#include "plugin/config/node_config.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/cni/json.h"

namespace nomad_bridge::config {
namespace {

// A mistyped "required" would let ADDs pass that are to be refused.
void RefuseUnknownKeys(const cni::JsonView& object,
                       std::initializer_list<std::string_view> allowed,
                       const char* prefix) {
  for (const std::string& key : object.Keys()) {
    if (!Contains(allowed, key)) {
      throw Error(
          Code::kInvalidConfig,
          Format("'{}' has the unknown key '{}{}'", kNodeConfigFile, prefix, key),
          "allowed: 'ignore', a list of doctor's checks, and 'policy': {\"required\": true}");
    }
  }
}

}  // namespace

NodeConfig ReadNodeConfig() {
  const std::optional<std::string> text = FindFile(kNodeConfigFile);
  if (!text) {
    return {};
  }
  const cni::JsonPtr document = cni::ParseJson(*text, kNodeConfigFile);
  const cni::JsonView view(*document, kNodeConfigFile);
  NodeConfig node;
  RefuseUnknownKeys(view, {"ignore", "policy"}, "");
  try {
    for (const cni::JsonView& check : view.ElementsOf("ignore")) {
      node.ignore.push_back(check.String());
    }
  } catch (const Error& error) {  // which no ADD needs
    node.ignore_error = error.what();
  }
  if (const cni::JsonView policy = view.Find("policy")) {
    RefuseUnknownKeys(policy, {"required"}, "policy.");
    node.policy_required = policy.FindBool("required").value_or(false);
  }
  return node;
}

}  // namespace nomad_bridge::config
