#include "plugin/causes/names.h"

#include <algorithm>
#include <array>
#include <chrono>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "netlink/sockets/name_server.h"
#include "plugin/causes/explain.h"

namespace nomad_bridge::causes {
namespace {

using sockets::NameAnswer;

// The files of a process, or of the node.
class Files {
 public:
  static Files Of(const netlink::Netns& netns) {
    int newest = 0;
    for (const std::string& entry : Entries("/proc")) {
      const int pid = FindNumber<int>(entry).value_or(0);
      struct stat status {};
      if (pid > newest && ::stat(Format("/proc/{}/ns/net", pid).c_str(), &status) == 0 &&
          status.st_ino == netns.id().inode && status.st_dev == netns.id().device) {
        newest = pid;
      }
    }
    return Files(newest);
  }

  static Files OfNode() { return Files(0); }

  [[nodiscard]] bool IsOfNode() const { return pid_ == 0; }
  [[nodiscard]] std::string owner() const {
    return pid_ == 0 ? std::string("the node") : Cat("process ", pid_);
  }

  // Returns the lines as words; none if there is no such file. Symbolic links are followed only
  // inside the container's root, because the container can write them.
  [[nodiscard]] std::vector<std::vector<std::string>> Read(const std::string& path) const {
    const std::string root = pid_ == 0 ? "/" : Format("/proc/{}/root", pid_);
    const UniqueFd top(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    open_how how{.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK, .mode = 0, .resolve = RESOLVE_IN_ROOT};
    const UniqueFd file(
        static_cast<int>(::syscall(SYS_openat2, top.get(), path.c_str(), &how, sizeof how)));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
      return {};
    }
    constexpr std::size_t kMost = 1 << 20;
    std::vector<std::vector<std::string>> lines;
    for (const std::string& line : SplitFields(ReadAll(file.get(), path, kMost), "\n")) {
      lines.push_back(
          SplitFields(std::string_view(line).substr(0, line.find_first_of("#;")), " \t\r"));
    }
    return lines;
  }

 private:
  explicit Files(int pid) : pid_(pid) {}

  int pid_;  // 0: the node
};

std::optional<Ip> FindInHosts(const Files& files, const std::string& name) {
  for (const std::vector<std::string>& words : files.Read("etc/hosts")) {
    if (words.size() > 1 && std::find(words.begin() + 1, words.end(), name) != words.end()) {
      if (const std::optional<Ip> address = Ip::Parse(words.front())) {
        return address;
      }
    }
  }
  return std::nullopt;
}

// What resolv.conf(5) says.
struct Resolver {
  std::vector<Ip> servers;
  std::vector<std::string> domains;
  int dots = 1;                // a name with as many is tried as it is first
  bool names_servers = false;  // false: glibc asks 127.0.0.1

  explicit Resolver(const Files& files) {
    for (const std::vector<std::string>& words : files.Read("etc/resolv.conf")) {
      if (words.size() < 2) {
        continue;
      }
      if (const auto server = words[0] == "nameserver" ? Ip::Parse(words[1]) : std::nullopt) {
        servers.push_back(*server);
      } else if (words[0] == "search" || words[0] == "domain") {
        domains.assign(words.begin() + 1, words.end());
      } else if (words[0] == "options") {
        ReadOptions(words);
      }
    }
    constexpr std::size_t kMost = 3;  // of glibc
    names_servers = !servers.empty();
    if (!names_servers) {
      servers.push_back(Ip::Parse("127.0.0.1").value());
    }
    servers.resize(std::min(servers.size(), kMost));
  }

  [[nodiscard]] std::vector<Ip> NamedServers() const {
    return names_servers ? servers : std::vector<Ip>();
  }

  // Returns the names to ask for, in their order.
  [[nodiscard]] std::vector<std::string> NamesFor(std::string name) const {
    if (name.ends_with('.')) {
      name.pop_back();
      return {name};
    }
    std::vector<std::string> names;
    for (const std::string& domain : domains) {
      names.push_back(Cat(name, '.', domain));
    }
    const bool is_first = std::ranges::count(name, '.') >= dots;
    names.insert(is_first ? names.begin() : names.end(), name);
    return names;
  }

 private:
  void ReadOptions(const std::vector<std::string>& words) {
    constexpr std::string_view kDots = "ndots:";
    for (const std::string& word : words) {
      if (word.starts_with(kDots)) {
        dots = FindNumber<int>(word.substr(kDots.size())).value_or(dots);
      }
    }
  }
};

std::string TextOf(NameAnswer::Outcome outcome) {
  switch (outcome) {
    case NameAnswer::Outcome::kAnswered:
      return "has no address for it";
    case NameAnswer::Outcome::kNoSuchName:
      return "knows no such name";
    case NameAnswer::Outcome::kRefused:
      return "fails to look it up";
    case NameAnswer::Outcome::kUnreachable:
      return "is not reached, or nobody listens there";
    case NameAnswer::Outcome::kSilent:
      return "does not answer";
  }
  return "";
}

// Asks one server after the other, for one name after the other.
class Search {
 public:
  Search(const Inside& inside, const Resolver& resolver) : inside_(inside), resolver_(resolver) {}

  // Returns the first address that is found, and who gave it.
  std::optional<std::pair<Ip, Ip>> Find(const std::string& name) {
    for (const Ip& server : resolver_.servers) {
      const std::optional<Ip> address = FindBy(server, name);
      if (address) {
        return std::pair{*address, server};
      }
      if (last_.IsKnown()) {
        break;  // other servers are asked only if this one does not answer
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] const std::vector<Ip>& silent() const { return silent_; }
  // "name server 10.0.0.1 does not answer; name server 10.0.0.2 knows no such name"
  [[nodiscard]] const std::string& words() const { return words_; }

 private:
  std::optional<Ip> FindBy(const Ip& server, const std::string& name) {
    constexpr std::chrono::seconds kPatience{2};
    const Deadline deadline = FromNow(kPatience);
    for (const std::string& each : resolver_.NamesFor(name)) {
      for (const Family family : {Family::kIpv4, Family::kIpv6}) {
        if (!HasFamily(inside_.record.ipam.addresses, family)) {
          continue;
        }
        last_ = sockets::AskNameServer(inside_.netns, server, each, family, deadline);
        if (!last_.addresses.empty()) {
          return last_.addresses.front();
        }
        if (!last_.IsKnown()) {
          return Note(server);
        }
      }
    }
    return Note(server);
  }

  std::nullopt_t Note(const Ip& server) {
    words_ +=
        Format("{}name server {} {}", words_.empty() ? "" : "; ", server, TextOf(last_.outcome));
    if (last_.outcome >= NameAnswer::Outcome::kUnreachable) {
      silent_.push_back(server);
    }
    return std::nullopt;
  }

  const Inside& inside_;
  const Resolver& resolver_;
  NameAnswer last_;
  std::vector<Ip> silent_;
  std::string words_;
};

}  // namespace

Resolution Resolve(const Inside& inside, const std::string& name) {
  const Files files = Files::Of(inside.netns);
  if (const std::optional<Ip> address = FindInHosts(files, name)) {
    return {.address = address, .source = Cat("/etc/hosts of ", files.owner())};
  }
  const Resolver resolver(files);
  Search search(inside, resolver);
  if (const auto found = search.Find(name)) {
    return {
        .address = found->first,
        .source = Format(
            "name server {}, which /etc/resolv.conf of {} names", found->second, files.owner())};
  }
  return {.address = std::nullopt,
          .source = {},
          .silent = search.silent(),
          .causes = {{.area = Finding::Area::kContainer,
                      .owner = inside.record.id.container_id,
                      .text = Format("'{}' has no address: {}", name, search.words()),
                      .fix = Fix::Advice(Format("look at /etc/resolv.conf of {}; in Nomad, 'dns' "
                                                "of the group's network writes it",
                                                files.owner()))}}};
}

std::vector<Ip> FindNameServers(const Inside& inside) {
  const Files files = Files::Of(inside.netns);
  return files.IsOfNode() ? std::vector<Ip>() : Resolver(files).NamedServers();
}

std::vector<Ip> FindNameServersOfNode() {
  return Resolver(Files::OfNode()).NamedServers();
}

std::optional<Finding> FindLostNameServer(NodeFacts& facts,
                                          const state::Record& record,
                                          const Ip& server,
                                          FindingList& unseen) {
  constexpr std::uint16_t kDns = 53;
  const Fix other = Fix::Advice(
      "name a resolver that it reaches: 'dns' of the group's network, or the key 'dns' of the "
      "network's config");
  const auto connection = Planner(facts).FromAllocation(record, Protocol::kUdp, server, kDns);
  Finding cause = {.text = "the container has no address of that family", .fix = other};
  if (connection) {
    Diagnosis diagnosis = Diagnose(facts, *connection);
    Append(unseen, std::move(diagnosis.unseen));
    if (diagnosis.way.IsWhole()) {
      return std::nullopt;
    }
    cause = std::move(diagnosis.causes.front());
    cause.fix = connection->IsInside() ? other : cause.fix;
  }
  cause.area = Finding::Area::kContainer;
  cause.owner = record.id.container_id;
  cause.text = Format("name server {} is not reached: {}", server, cause.text);
  return cause;
}

}  // namespace nomad_bridge::causes
