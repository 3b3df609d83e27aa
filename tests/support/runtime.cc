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

Attached::operator Variables() const {
  Variables variables = {
      {"CNI_CONTAINERID", container_id}, {"CNI_NETNS", netns}, {"CNI_IFNAME", ifname}};
  if (!args.empty()) {
    variables["CNI_ARGS"] = args;
  }
  return variables;
}

Command CniCommand(const std::string& program,
                   const std::string& verb,
                   std::string input,
                   Variables variables) {
  variables.insert(
      {{"CNI_COMMAND", verb},
       {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"},
       {"ASAN_OPTIONS", LeakChecks(Cat(program.substr(program.rfind('/') + 1), ' ', verb))}});
  return {.argv = {program},
          .input = std::move(input),
          .variables = std::move(variables),
          .inherits_environment = false};
}

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
  Variables variables = attached;
  variables["CNI_ARGS"] = verb == "DEL" ? "" : attached.args;
  variables["CNI_PATH"] = network.path;
  variables["PATH"] = network.program_path;
  return CniCommand(Find(network.path, network.list.at("plugins").at(index).at("type")),
                    verb,
                    ConfigOf(network.list, index, attached, prev_result).dump(),
                    std::move(variables));
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
