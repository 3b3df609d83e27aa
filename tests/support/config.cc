#include "tests/support/config.h"

namespace nomad_bridge::test {
namespace {

std::string TextAt(const Outcome& outcome, const char* key) {
  return outcome.json.is_object() ? outcome.json.value(key, "") : "";
}

}  // namespace

json Config(const json& changes) {
  json config = {{"cniVersion", "1.1.0"}, {"name", "nomad"}, {"type", "nomad-bridge"}};
  config.merge_patch(changes.is_null() ? json::object() : changes);
  return config;
}

json Config(const char* changes, const char* more) {
  json config = Config(json::parse(changes));
  config.merge_patch(json::parse(more));
  return config;
}

json DualStack(const json& changes) {
  json config = Config(
      R"({"ipam": {"ranges": [[{"subnet": "172.26.64.0/20"}], [{"subnet": "fd00:26::/64"}]]}})");
  config.merge_patch(changes.is_null() ? json::object() : changes);
  return config;
}

json DualStack(const char* changes) {
  return DualStack(json::parse(changes));
}

json Port(int host_port,
          int container_port,
          const std::string& protocol,
          const std::string& host_ip) {
  return {{"HostPort", host_port},
          {"ContainerPort", container_port},
          {"Protocol", protocol},
          {"HostIP", host_ip}};
}

json Publish(const std::vector<json>& ports, json config) {
  for (const json& port : ports) {
    config["runtimeConfig"]["portMappings"].push_back(port);
  }
  return config;
}

json WithResult(json config, const json& result) {
  config["prevResult"] = result;
  return config;
}

json WithValid(const std::vector<std::string>& container_ids, json config) {
  json& valid = config["cni.dev/valid-attachments"] = json::array();
  for (const std::string& id : container_ids) {
    valid.push_back({{"containerID", id}, {"ifname", "eth0"}});
  }
  return config;
}

std::string BinaryUnderTest() {
  const char* named = std::getenv("NOMAD_BRIDGE_BINARY");
  return named != nullptr ? named : NOMAD_BRIDGE_BINARY;
}

std::string LeakChecks(const std::string& kind) {
  static std::set<std::string> seen;
  return seen.insert(kind).second ? "detect_leaks=1" : "detect_leaks=0";
}

std::string NomadArgs(const std::string& job, const std::string& allocation) {
  return Cat("IgnoreUnknown=true;NOMAD_REGION=global;NOMAD_NAMESPACE=default;NOMAD_JOB_ID=",
             job,
             ";NOMAD_GROUP_NAME=api;NOMAD_ALLOC_ID=",
             allocation);
}

json At(const json& document, const std::string& pointer) {
  const json::json_pointer where(pointer);
  return document.contains(where) ? document.at(where) : json();
}

std::vector<std::string> AddressesIn(const json& result) {
  std::vector<std::string> addresses;
  for (const json& ip : result.value("ips", json::array())) {
    addresses.push_back(ip.at("address"));
  }
  return addresses;
}

std::string AddressOf(const json& result, int family) {
  for (const std::string& address : AddressesIn(result)) {
    if ((address.find(':') == std::string::npos) == (family == 4)) {
      return address.substr(0, address.find('/'));
    }
  }
  throw std::runtime_error(Cat("no address of family ", family, " in ", result.dump()));
}

std::string HostVethOf(const json& result) {
  return result.at("interfaces").at(1).at("name");
}

std::string Msg(const Outcome& outcome) {
  return TextAt(outcome, "msg");
}

std::string Details(const Outcome& outcome) {
  return TextAt(outcome, "details");
}

std::string MsgAndDetails(const Outcome& outcome) {
  return Cat(Msg(outcome), " / ", Details(outcome));
}

int ErrorCode(const Outcome& outcome) {
  return outcome.json.is_object() ? outcome.json.value("code", -1) : -1;
}

OutcomeMatcher Out(const TextMatcher& text) {
  return ::testing::Field("out", &Outcome::out, text);
}

OutcomeMatcher Err(const TextMatcher& text) {
  return ::testing::Field("err", &Outcome::err, text);
}

OutcomeMatcher Msg(const TextMatcher& text) {
  return ::testing::ResultOf(
      "msg", [](const Outcome& outcome) { return Msg(outcome); }, text);
}

OutcomeMatcher Details(const TextMatcher& text) {
  return ::testing::ResultOf(
      "details", [](const Outcome& outcome) { return Details(outcome); }, text);
}

OutcomeMatcher MsgAndDetails(const TextMatcher& text) {
  return ::testing::ResultOf(
      "error", [](const Outcome& outcome) { return MsgAndDetails(outcome); }, text);
}

std::vector<std::string> Words(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

}  // namespace nomad_bridge::test
