#include "tests/support/runtime.h"

#include <unistd.h>

#include "tests/support/fixture.h"

namespace nomad_bridge::test {
namespace {

// Returns the first executable of that name in the directories of CNI_PATH.
std::string Find(const std::string& path, const std::string& name) {
  std::istringstream directories(path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string candidate = Cat(directory, '/', name);
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

}  // namespace

json Conflist(const std::string& name) {
  return json::parse(ReadFixture(Cat("conf/", name, ".conflist")));
}

json Example(const std::string& name) {
  return json::parse(ReadFixture(Cat("../examples/", name, ".conflist")));
}

json ListOf(const std::vector<json>& plugins, const std::string& name, const std::string& version) {
  return {{"cniVersion", version}, {"name", name}, {"plugins", plugins}};
}

json PortmapEntry() {
  return {{"type", "portmap"}, {"capabilities", {{"portMappings", true}}}};
}

std::string OurDirectory(const std::string& binary) {
  EnsureDirectory(kOurDirectory);
  for (const char* const name :
       {"nomad-bridge", "bridge", "host-local", "firewall", "portmap", "loopback"}) {
    const std::string link = Cat(kOurDirectory, '/', name);
    if (!fs::exists(link)) {
      fs::create_symlink(binary, link);
    }
  }
  return kOurDirectory;
}

Network ByOurs(json list) {
  return {.list = std::move(list), .path = OurDirectory()};
}

std::string MixedPath(const std::vector<std::string>& ours) {
  EnsureDirectory("/run/mixed");
  for (const std::string& name : ours) {
    fs::create_symlink(Cat(OurDirectory(), '/', name), Cat("/run/mixed/", name));
  }
  return Cat("/run/mixed:", kReferenceDirectory);
}

Command EntryCommand(const std::string& verb,
                     const Network& network,
                     std::size_t index,
                     const Attached& attached,
                     const json& prev_result) {
  const std::string type = network.list.at("plugins").at(index).at("type");
  return {.argv = {Find(network.path, type)},
          .input = ConfigOf(network.list, index, attached, prev_result).dump(),
          .variables = {{"CNI_COMMAND", verb},
                        {"CNI_CONTAINERID", attached.container_id},
                        {"CNI_NETNS", attached.netns},
                        {"CNI_IFNAME", attached.ifname},
                        {"CNI_ARGS", verb == "DEL" ? "" : attached.args},
                        {"CNI_PATH", network.path},
                        {"ASAN_OPTIONS", LeakChecks(Cat(type, ' ', verb))},
                        {"PATH", network.program_path}},
          .inherits_environment = false};
}

Outcome RunEntry(const std::string& verb,
                 const Network& network,
                 std::size_t index,
                 const Attached& attached,
                 const json& prev_result) {
  return Execute(EntryCommand(verb, network, index, attached, prev_result));
}

Outcome AddTo(const Network& network, Attached& attached) {
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

Outcome CheckIn(const Network& network, const Attached& attached) {
  Outcome outcome{.exit_code = 0};
  for (std::size_t i = 0; i < network.list.at("plugins").size() && outcome.exit_code == 0; ++i) {
    outcome = RunEntry("CHECK", network, i, attached, attached.result);
  }
  return outcome;
}

Outcome DelFrom(const Network& network, const Attached& attached) {
  Outcome outcome{.exit_code = 0};
  for (std::size_t i = network.list.at("plugins").size(); i-- > 0 && outcome.exit_code == 0;) {
    outcome = RunEntry("DEL", network, i, attached, attached.result);
  }
  return outcome;
}

Attached MustAdd(const Network& network, Attached attached) {
  Succeeded(AddTo(network, attached));
  return attached;
}

Outcome MustCheckIn(const Network& network, const Attached& attached) {
  return Succeeded(CheckIn(network, attached));
}

Outcome MustDelFrom(const Network& network, const Attached& attached) {
  return Succeeded(DelFrom(network, attached));
}

Outcome MustRunEntry(const std::string& verb,
                     const Network& network,
                     std::size_t index,
                     const Attached& attached,
                     const json& prev_result) {
  return Succeeded(RunEntry(verb, network, index, attached, prev_result));
}

}  // namespace nomad_bridge::test
