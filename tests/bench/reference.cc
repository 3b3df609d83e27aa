// The reference plugins, and how a thousand of their attachments are made in a minute.
//
// How     Each ADD of theirs runs some forty times iptables, each of which reads and writes back
//         what all others have left. So the attachments that only stay get namespace, veth pair,
//         address and lease from the reference's own bridge and host-local, without masquerading
//         and ports, and their rules from one iptables-restore: those of a first, whole ADD with
//         id, address, port and chain names exchanged. The iptables tables hold the same as after
//         whole ADDs: the number of rules per attachment is compared with what the next whole ADD
//         adds.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "base/text.h"
#include "tests/bench/contender.h"

namespace nomad_bridge::bench {
namespace {

using nlohmann::json;

struct Line {
  std::string table;
  std::string text;
  auto operator<=>(const Line&) const = default;
};
using Lines = std::vector<Line>;

// Every rule and every chain that is not built in (those have counters).
Lines SaveLines() {
  Lines lines;
  std::istringstream save(test::Must({.argv = {"iptables-save"}}));
  std::string table;
  for (std::string text; std::getline(save, text);) {
    if (text.starts_with('*')) {
      table = text;
    } else if (text.starts_with("-A") || (text.starts_with(':') && text.ends_with(" - [0:0]"))) {
      lines.push_back({table, text});
    }
  }
  return lines;
}

// What `act` adds to the iptables tables, in their order.
Lines LinesAddedBy(const std::function<void()>& act) {
  const Lines listed = SaveLines();
  const std::set<Line> before(listed.begin(), listed.end());
  act();
  Lines added = SaveLines();
  std::erase_if(added, [&](const Line& line) { return before.contains(line); });
  return added;
}

void ReplaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// `lines`, those of `model`, as those of `other`.
Lines Imitate(const Lines& lines, const test::Attached& model, const test::Attached& other) {
  const auto address = [](const test::Attached& of) { return test::AddressOf(of.result); };
  const auto port = [](const test::Attached& of) {
    return Cat(' ', of.port_mappings.at(0).at("HostPort").get<int>(), ' ');
  };
  const std::string serial = other.container_id.substr(other.container_id.size() - 12);
  std::map<std::string, std::string> exchanged = {
      {model.container_id, other.container_id},
      {Cat(address(model), "/32"), Cat(address(other), "/32")},
      {Cat(address(model), ":"), Cat(address(other), ":")},
      {port(model), port(other)}};
  for (const Line& line : lines) {
    if (line.text.front() == ':') {  // the name ends in a hash; any other ending will do
      const std::string chain = line.text.substr(1, line.text.find(' ') - 1);
      exchanged[chain] = Cat(chain.substr(0, chain.size() - serial.size()), serial);
    }
  }
  Lines imitated = lines;
  for (Line& line : imitated) {
    for (const auto& [from, to] : exchanged) {
      ReplaceAll(line.text, from, to);
    }
  }
  return imitated;
}

// Chains first: a rule may jump to one only then.
void Restore(Lines lines) {
  std::stable_sort(lines.begin(), lines.end(), [](const Line& one, const Line& other) {
    return std::pair(one.table, one.text.front() != ':') <
           std::pair(other.table, other.text.front() != ':');
  });
  std::string input;
  std::string table;
  for (const Line& line : lines) {
    if (line.table != table) {
      input += Cat(table.empty() ? "" : "COMMIT\n", line.table, '\n');
      table = line.table;
    }
    input += Cat(line.text, '\n');
  }
  if (!input.empty()) {
    test::Must({.argv = {"iptables-restore", "--noflush", "--wait"}, .input = input + "COMMIT\n"});
  }
}

// Links, addresses and leases alone: what loopback and bridge make, the first two of the list.
test::Network WithoutRules(test::Network network) {
  json& plugins = network.list.at("plugins");
  plugins = {plugins.at(0), plugins.at(1)};
  plugins.at(1)["ipMasq"] = false;
  return network;
}

class Reference : public Contender {
 public:
  explicit Reference(const std::filesystem::path& directory)
      : Contender("reference",
                  {.list = test::Conflist("nomad_builtin_bridge"), .path = directory}) {}

 protected:
  void Populate(int count) override {
    if (count == 0) {
      return;
    }
    test::Attached model = Next();
    const Lines added = LinesAddedBy([&] { model = test::MustAdd(network(), model); });
    const test::Network without_rules = WithoutRules(network());
    Lines imitated;
    for (int i = 2; i < count; ++i) {
      const Lines lines = Imitate(added, model, test::MustAdd(without_rules, Next()));
      imitated.insert(imitated.end(), lines.begin(), lines.end());
    }
    Restore(imitated);
    if (count == 1) {
      return;
    }
    // The last one whole again, to see that the others have as much.
    const Lines whole = LinesAddedBy([&] { test::MustAdd(network(), Next()); });
    if (whole.size() != added.size()) {
      throw std::runtime_error(Cat("an ADD of the reference adds ",
                                   whole.size(),
                                   " chains and rules, our imitation ",
                                   added.size()));
    }
  }
};

class OneRule : public Contender {
 public:
  explicit OneRule(const std::filesystem::path& directory)
      : Contender(
            "one rule",
            WithoutRules({.list = test::Conflist("nomad_builtin_bridge"), .path = directory})) {
    world().Enter();
    test::Must({.argv = {"nft", "-f", "-"}, .input = R"(table ip nat {
      chain prerouting { type nat hook prerouting priority dstnat; }
      chain postrouting {
        type nat hook postrouting priority srcnat;
        ip saddr 172.26.64.0/20 oifname "uplink" masquerade
      }
    })"});
  }

  test::Attached Attach() override {
    test::Attached attached = Contender::Attach();
    for (const char* const protocol : {"tcp", "udp"}) {
      test::Must(
          {.argv = {"nft", "-f", "-"},
           .input = Format("add rule ip nat prerouting iifname uplink {} dport {} dnat to {}:80",
                           protocol,
                           attached.port_mappings.at(0).at("HostPort").get<int>(),
                           test::AddressOf(attached.result))});
    }
    return attached;
  }
};

}  // namespace

std::unique_ptr<Contender> MakeOneRule(const std::filesystem::path& directory) {
  return std::make_unique<OneRule>(directory);
}

std::unique_ptr<Contender> MakeReference(const std::filesystem::path& directory) {
  return std::make_unique<Reference>(directory);
}

}  // namespace nomad_bridge::bench
