#include "tests/bench/runtime.h"

#include <stdexcept>
#include <utility>

#include "base/text.h"
#include "tests/support/fixture.h"

namespace nomad_bridge::bench {
namespace {

using nlohmann::json;

json PortMappings(int host_port) {
  json mappings = json::array();
  for (const char* const protocol : {"tcp", "udp"}) {
    mappings.push_back(
        {{"HostPort", host_port}, {"ContainerPort", 80}, {"Protocol", protocol}, {"HostIP", ""}});
  }
  return mappings;
}

void RequireSuccess(const test::Command& command, const test::Outcome& outcome) {
  if (outcome.exit_code != 0) {
    throw std::runtime_error(
        Cat(command.argv.front(), ' ', *command.variables.at("CNI_COMMAND"), ": ", outcome.Text()));
  }
}

}  // namespace

const Runtime::Execute Runtime::kExecute = [](const test::Command& command) {
  return test::Execute(command);
};

Runtime::Runtime(json conflist, std::string folder)
    : list_(std::move(conflist)),
      folder_(std::move(folder)),
      cni_args_(test::ReadFixture("args/nomad_add.txt")) {}

test::Command Runtime::Prepare(const std::string& verb,
                               const json& plugin,
                               const Attachment& attachment,
                               const json& prev_result) const {
  json config = plugin;
  config["name"] = list_.at("name");
  config["cniVersion"] = list_.at("cniVersion");
  if (config.contains("/capabilities/portMappings"_json_pointer)) {
    config["runtimeConfig"]["portMappings"] = PortMappings(attachment.host_port);
  }
  if (!prev_result.is_null()) {
    config["prevResult"] = prev_result;
  }
  return {.argv = {Cat(folder_, '/', plugin.at("type").get<std::string>())},
          .input = config.dump(),
          .variables = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"},
                        {"CNI_COMMAND", verb},
                        {"CNI_CONTAINERID", attachment.container_id},
                        {"CNI_NETNS", attachment.netns_path},
                        {"CNI_IFNAME", "eth0"},
                        {"CNI_ARGS", verb == "DEL" ? "" : cni_args_},
                        {"CNI_PATH", folder_}},
          .inherits_environment = false};
}

void Runtime::Add(Attachment& attachment, const Execute& execute) const {
  json result;
  for (const json& plugin : list_.at("plugins")) {
    const test::Command command = Prepare("ADD", plugin, attachment, result);
    const test::Outcome outcome = execute(command);
    RequireSuccess(command, outcome);
    result = outcome.json;
  }
  attachment.result = std::move(result);
}

std::string Runtime::Check(const Attachment& attachment) const {
  for (const json& plugin : list_.at("plugins")) {
    const test::Command command = Prepare("CHECK", plugin, attachment, attachment.result);
    const test::Outcome outcome = test::Execute(command);
    if (outcome.exit_code != 0) {
      return Cat(command.argv.front(), ": ", outcome.out, outcome.err);
    }
  }
  return {};
}

void Runtime::Del(const Attachment& attachment) const {
  const json& plugins = list_.at("plugins");
  for (auto plugin = plugins.rbegin(); plugin != plugins.rend(); ++plugin) {
    const test::Command command = Prepare("DEL", *plugin, attachment, attachment.result);
    RequireSuccess(command, test::Execute(command));
  }
}

}  // namespace nomad_bridge::bench
