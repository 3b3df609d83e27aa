#include "tests/support/runtime_world.h"

#include <filesystem>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

#include "base/error.h"

namespace nomad_bridge::test {
namespace {

// The first executable of that name in the folders of CNI_PATH.
std::string Find(const std::string& path, const std::string& name) {
  std::istringstream folders(path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    std::string candidate = Cat(folder, '/', name);
    if (::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  throw std::runtime_error(Cat("no plugin ", name, " in ", path));
}

json ConfigOf(const json& list, std::size_t index, const Attached& attached, const json& previous) {
  json config = list.at("plugins").at(index);
  config["name"] = list.at("name");
  config["cniVersion"] = list.value("cniVersion", "");
  if (config.contains("/capabilities/portMappings"_json_pointer)) {
    config["runtimeConfig"]["portMappings"] = attached.port_mappings;
  }
  if (!previous.is_null()) {
    config["prevResult"] = previous;
  }
  return config;
}

Outcome Succeeded(Outcome outcome) {
  if (outcome.exit_code != 0) {
    throw std::runtime_error(outcome.Text());
  }
  return outcome;
}

}  // namespace

std::string RuntimeWorld::OurFolder() {
  constexpr const char* kFolder = "/run/our-plugins";
  EnsureDirectory(kFolder);
  for (const char* const name :
       {"nomad-bridge", "bridge", "host-local", "firewall", "portmap", "loopback"}) {
    const std::string link = Cat(kFolder, '/', name);
    if (!std::filesystem::exists(link)) {
      std::filesystem::create_symlink(Binary(), link);
    }
  }
  return kFolder;
}

json RuntimeWorld::Fixture(const std::string& name) {
  return json::parse(ReadFixture(Cat("conf/", name)));
}

Command RuntimeWorld::EntryCommand(const std::string& verb,
                                   const Network& network,
                                   std::size_t index,
                                   const Attached& attached,
                                   const json& prev_result) {
  const std::string type = network.list.at("plugins").at(index).at("type");
  Command command = PluginCommand(verb,
                                  ConfigOf(network.list, index, attached, prev_result).dump(),
                                  As(attached.container_id, *attached.container));
  command.argv = {Find(network.path, type)};
  command.variables["CNI_PATH"] = network.path;
  if (!network.program_path.empty()) {
    command.variables["PATH"] = network.program_path;
  }
  command.variables["CNI_IFNAME"] = attached.ifname;
  command.variables["CNI_ARGS"] = verb == "DEL" ? "" : attached.args;
  return command;
}

Outcome RuntimeWorld::RunEntry(const std::string& verb,
                               const Network& network,
                               std::size_t index,
                               const Attached& attached,
                               const json& prev_result) {
  return Execute(EntryCommand(verb, network, index, attached, prev_result));
}

Outcome RuntimeWorld::AddTo(const Network& network, Attached& attached) {
  json result;
  Outcome outcome;
  for (std::size_t i = 0; i < network.list.at("plugins").size(); ++i) {
    outcome = RunEntry("ADD", network, i, attached, result);
    if (outcome.exit_code != 0) {
      return outcome;
    }
    result = outcome.json;
  }
  attached.result = std::move(result);
  return outcome;
}

Outcome RuntimeWorld::CheckIn(const Network& network, const Attached& attached) {
  Outcome outcome;
  for (std::size_t i = 0; i < network.list.at("plugins").size(); ++i) {
    outcome = RunEntry("CHECK", network, i, attached, attached.result);
    if (outcome.exit_code != 0) {
      return outcome;
    }
  }
  return outcome;
}

Outcome RuntimeWorld::DelFrom(const Network& network, const Attached& attached) {
  Outcome outcome;
  for (std::size_t i = network.list.at("plugins").size(); i-- > 0;) {
    outcome = RunEntry("DEL", network, i, attached, attached.result);
    if (outcome.exit_code != 0) {
      return outcome;
    }
  }
  return outcome;
}

Attached RuntimeWorld::MustAdd(const Network& network, Attached attached) {
  Succeeded(AddTo(network, attached));
  return attached;
}

Outcome RuntimeWorld::MustCheckIn(const Network& network, const Attached& attached) {
  return Succeeded(CheckIn(network, attached));
}

Outcome RuntimeWorld::MustDelFrom(const Network& network, const Attached& attached) {
  return Succeeded(DelFrom(network, attached));
}

Outcome RuntimeWorld::MustRunEntry(const std::string& verb,
                                   const Network& network,
                                   std::size_t index,
                                   const Attached& attached,
                                   const json& prev_result) {
  return Succeeded(RunEntry(verb, network, index, attached, prev_result));
}

}  // namespace nomad_bridge::test
