#include "tests/bench/runtime.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/text.h"

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

void RequireSuccess(const Command& command, const std::string& verb, const Outcome& outcome) {
  if (outcome.status != 0) {
    throw std::runtime_error(
        Cat(command.program, ' ', verb, " failed: ", outcome.out, ' ', outcome.err));
  }
}

}  // namespace

Runtime::Runtime(const json& conflist, std::string folder, std::string cni_args)
    : version_(conflist.at("cniVersion")),
      folder_(std::move(folder)),
      cni_args_(std::move(cni_args)) {
  for (json plugin : conflist.at("plugins")) {
    plugin["name"] = conflist.at("name");
    plugin["cniVersion"] = version_;
    plugins_.push_back(std::move(plugin));
  }
}

Command Runtime::Prepare(const std::string& verb,
                         const json& plugin,
                         const AttachmentId& attachment,
                         const json& prev_result) const {
  json config = plugin;
  if (config.contains("/capabilities/portMappings"_json_pointer)) {
    config["runtimeConfig"]["portMappings"] = PortMappings(attachment.host_port);
  }
  if (!prev_result.is_null()) {
    config["prevResult"] = prev_result;
  }
  return {.program = Cat(folder_, '/', plugin.at("type").get<std::string>()),
          .arguments = {},
          .input = config.dump(),
          .environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                          Cat("CNI_COMMAND=", verb),
                          Cat("CNI_CONTAINERID=", attachment.container_id),
                          Cat("CNI_NETNS=", attachment.netns_path),
                          "CNI_IFNAME=eth0",
                          Cat("CNI_ARGS=", verb == "DEL" ? "" : cni_args_),
                          Cat("CNI_PATH=", folder_)}};
}

void Runtime::Add(AttachmentId& attachment) const {
  json result;
  for (const json& plugin : plugins_) {
    const Command command = Prepare("ADD", plugin, attachment, result);
    const Outcome outcome = Run(command);
    RequireSuccess(command, "ADD", outcome);
    result = json::parse(outcome.out);
  }
  attachment.result = std::move(result);
}

void Runtime::AddTraced(AttachmentId& attachment, Cost& cost) const {
  json result;
  for (const json& plugin : plugins_) {
    const Command command = Prepare("ADD", plugin, attachment, result);
    const Outcome outcome = RunTraced(command, cost);
    RequireSuccess(command, "ADD", outcome);
    result = json::parse(outcome.out);
  }
  attachment.result = std::move(result);
}

std::string Runtime::Check(const AttachmentId& attachment) const {
  for (const json& plugin : plugins_) {
    const Command command = Prepare("CHECK", plugin, attachment, attachment.result);
    const Outcome outcome = Run(command);
    if (outcome.status != 0) {
      return Cat(command.program, ": ", outcome.out, outcome.err);
    }
  }
  return {};
}

void Runtime::Del(const AttachmentId& attachment) const {
  for (auto plugin = plugins_.rbegin(); plugin != plugins_.rend(); ++plugin) {
    const Command command = Prepare("DEL", *plugin, attachment, attachment.result);
    RequireSuccess(command, "DEL", Run(command));
  }
}

}  // namespace nomad_bridge::bench
