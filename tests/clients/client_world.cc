#include "tests/clients/client_world.h"

#include <sys/mount.h>

namespace nomad_bridge::test {
namespace {

constexpr const char* kBusybox = "/bin/busybox";

// So that no container leaves a group of processes in the machine's own.
void HideCgroups() {
  if (::mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, "mode=0755") != 0) {
    throw ErrnoError(Code::kIo, "cannot hide the machine's cgroups");
  }
}

}  // namespace

ClientWorld::ClientWorld() {
  HideCgroups();
  Command install = PluginCommand("", "", {{"CNI_COMMAND", std::nullopt}});
  install.argv.insert(install.argv.end(), {"install", kPlugins});
  Must(install);
}

std::string ClientWorld::MakeRoot(const std::string& name) {
  std::string root = Cat("/run/roots/", name);
  for (const char* const directory : {"bin", "dev", "etc", "proc", "run", "sys", "tmp", "www"}) {
    fs::create_directories(Cat(root, '/', directory));
  }
  fs::copy_file(kBusybox, Cat(root, kBusybox), fs::copy_options::overwrite_existing);
  WriteFile(Cat(root, "/www/index.html"), name);
  return root;
}

void ClientWorld::WriteFile(const std::string& path, const std::string& content) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << content;
}

std::vector<std::string> ClientWorld::PageProgram(const std::string& address, int port) {
  return {kBusybox, "nc", "-w", "3", address, Cat(port)};
}

std::string ClientWorld::PageIn(const std::string& answer) {
  constexpr std::string_view kEndOfHeaders = "\r\n\r\n";
  const std::size_t end = answer.find(kEndOfHeaders);
  return end == answer.npos ? "" : answer.substr(end + kEndOfHeaders.size());
}

std::string ClientWorld::Page(const Node& from, const std::string& address, int port) {
  return PageIn(from.Run(PageProgram(address, port), kPageRequest).out);
}

std::string ClientWorld::AwaitPage(const Node& from, const std::string& address, int port) {
  std::string page;
  static_cast<void>(Soon([&] { return !(page = Page(from, address, port)).empty(); }));
  return page;
}

std::vector<std::string> ClientWorld::AliasesOn(const std::string& bridge) {
  std::vector<std::string> aliases;
  for (const json& link : PortsOf(bridge)) {
    aliases.push_back(link.value("ifalias", ""));
  }
  return aliases;
}

}  // namespace nomad_bridge::test
