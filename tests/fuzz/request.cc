// What a runtime writes to stdin, read and checked as each verb does under each of our names. The
// last byte chooses both.
#include "plugin/cni/request.h"

#include <cstdlib>
#include <map>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fd.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/cni/result.h"
#include "plugin/config/config.h"
#include "tests/fuzz/fuzz.h"

namespace nomad_bridge {
namespace {

constexpr std::array kVerbs = {"ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"};

UniqueFd Stdin(std::string_view text) {
  UniqueFd fd(::memfd_create("stdin", MFD_CLOEXEC));
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(fd.get(), 0, SEEK_SET) != 0) {
    std::abort();
  }
  return fd;
}

const char* Variable(const char* verb, std::string_view name) {
  static const std::map<std::string_view, const char*> kOthers = {
      {"CNI_CONTAINERID", "5f3c1a2b"},
      {"CNI_NETNS", "/var/run/netns/5f3c1a2b"},
      {"CNI_IFNAME", "eth0"},
      {"CNI_PATH", "/opt/cni/bin"},
      {"CNI_ARGS", "IgnoreUnknown=true;NOMAD_JOB_ID=billing"}};
  const auto other = kOthers.find(name);
  return name == "CNI_COMMAND" ? verb : other != kOthers.end() ? other->second : nullptr;
}

}  // namespace

void fuzz::Run(std::string_view input) {
  if (input.empty()) {
    return;
  }
  const std::size_t choice = TakeChoice(input);
  const std::vector<std::string>& names = cni::PluginTypeNames();
  const char* const verb = kVerbs.at(choice % kVerbs.size());
  const cni::PluginType& type = cni::TypeOf(names.at(choice / kVerbs.size() % names.size()));
  const UniqueFd in = Stdin(input);
  std::string version;
  try {
    const cni::Request request =
        cni::ReadRequest([&](const char* name) { return Variable(verb, name); }, in.get(), version);
    if (request.verb == cni::Verb::kVersion) {
      return;
    }
    static_cast<void>(config::ParseLenient(cni::JsonView(*request.config, ""), type.defaults));
    static_cast<void>(cni::FindValidAttachments(request));
    const config::Config config = config::ParseConfig(request, type);
    if (config.prev_result) {
      static_cast<void>(cni::ToJson(*config.prev_result, request.cni_version).dump());
    }
  } catch (const Error&) {
    return;  // refused
  }
}

}  // namespace nomad_bridge
