// The reference plugins, and how a thousand of their attachments are made in a minute.
//
// How     Each ADD of theirs runs some forty times iptables, each of which reads and writes back what
//         all others have left. So the attachments that only stay get namespace, veth pair, address
//         and lease from the reference's own bridge and host-local, without masquerading and
//         ports, and their rules from one iptables-restore: those of a first, whole ADD with id,
//         address, port and chain names exchanged. The iptables tables hold the same as after whole ADDs:
//         the number of rules per attachment is compared with what the next whole ADD adds.
#include <algorithm>
#include <iomanip>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "base/text.h"
#include "tests/bench/contender.h"
#include "tests/support/fixture.h"

namespace nomad_bridge::bench {
namespace {

using nlohmann::json;

// Of iptables-save: the lines of a table that name something.
using Tables = std::map<std::string, std::vector<std::string>>;

std::string Must(const std::vector<std::string>& argv, const std::string& input = "") {
  const test::Outcome outcome = test::Execute(argv, input);
  if (outcome.exit_code != 0) {
    throw std::runtime_error(Cat(argv.front(), ": ", outcome.Text()));
  }
  return outcome.out;
}

Tables SaveTables() {
  Tables tables;
  std::istringstream save(Must({"iptables-save"}));
  std::string table;
  for (std::string line; std::getline(save, line);) {
    if (line.starts_with('*')) {
      table = line;
    } else if (line.starts_with(':') || line.starts_with('-')) {
      tables[table].push_back(line);
    }
  }
  return tables;
}

std::size_t CountRules() {
  std::size_t rules = 0;
  for (const auto& [table, lines] : SaveTables()) {
    rules += static_cast<std::size_t>(std::count_if(
        lines.begin(), lines.end(), [](const std::string& line) { return line.front() == '-'; }));
  }
  return rules;
}

std::string AddressOf(const Attachment& attachment) {
  const std::string cidr = attachment.result.at("ips").at(0).at("address");
  return cidr.substr(0, cidr.find('/'));
}

void ReplaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// The rules of one attachment, to be written for others.
class Template {
 public:
  explicit Template(const Attachment& model) : model_(model) {
    const std::regex chain(R"(CNI-(DN-)?[0-9a-f]{21,24}\b)");
    const Tables tables = SaveTables();
    for (const auto& [table, lines] : tables) {
      for (const std::string& line : lines) {
        std::smatch match;
        if (line.find(model.container_id) != line.npos && std::regex_search(line, match, chain)) {
          chains_.insert(match.str());
        }
      }
    }
    for (const auto& [table, lines] : tables) {
      std::copy_if(lines.begin(),
                   lines.end(),
                   std::back_inserter(lines_[table]),
                   [&](const std::string& line) { return Concerns(line); });
    }
  }

  [[nodiscard]] std::size_t rules() const {
    std::size_t rules = 0;
    for (const auto& [table, lines] : lines_) {
      for (const std::string& line : lines) {
        rules += line.front() == '-' ? 1U : 0U;
      }
    }
    return rules;
  }

  // Adds those of `attachment` to what iptables-restore shall read.
  void Write(const Attachment& attachment, Tables& tables) const {
    const std::string serial = attachment.container_id.substr(attachment.container_id.size() - 12);
    for (const auto& [table, lines] : lines_) {
      for (std::string line : lines) {
        for (const std::string& chain : chains_) {
          ReplaceAll(line, chain, Cat(chain.substr(0, chain.size() - serial.size()), serial));
        }
        ReplaceAll(line, model_.container_id, attachment.container_id);
        ReplaceAll(line, Cat(AddressOf(model_), "/32"), Cat(AddressOf(attachment), "/32"));
        ReplaceAll(line, Cat(AddressOf(model_), ":"), Cat(AddressOf(attachment), ":"));
        ReplaceAll(line, Cat(" ", model_.host_port, " "), Cat(" ", attachment.host_port, " "));
        tables[table].push_back(line);
      }
    }
  }

 private:
  [[nodiscard]] bool Concerns(const std::string& line) const {
    return line.find(model_.container_id) != line.npos ||
           line.find(Cat(AddressOf(model_), "/32")) != line.npos ||
           std::any_of(chains_.begin(), chains_.end(), [&](const std::string& chain) {
             return line.find(chain) != line.npos;
           });
  }

  Attachment model_;
  std::set<std::string> chains_;
  Tables lines_;
};

json WholeList() {
  return json::parse(test::ReadFixture("conf/nomad_builtin_bridge.conflist"));
}

// Links, addresses and leases alone.
json ListWithoutRules() {
  json list = WholeList();
  json& plugins = list.at("plugins");
  for (auto plugin = plugins.begin(); plugin != plugins.end();) {
    const bool has_rules = plugin->at("type") == "firewall" || plugin->at("type") == "portmap";
    plugin = has_rules ? plugins.erase(plugin) : std::next(plugin);
  }
  for (json& plugin : plugins) {
    if (plugin.at("type") == "bridge") {
      plugin["ipMasq"] = false;
    }
  }
  return list;
}

class Reference : public Contender {
 public:
  explicit Reference(const std::filesystem::path& folder)
      : Contender("reference", Runtime(WholeList(), folder)),
        without_rules_(ListWithoutRules(), folder) {}

 protected:
  void Populate(int count) override {
    if (count == 0) {
      return;
    }
    Attachment model = Next();
    runtime().Add(model);
    const Template rules(model);
    Tables tables;
    for (int i = 1; i + 1 < count; ++i) {
      Attachment attachment = Next();
      without_rules_.Add(attachment);
      rules.Write(attachment, tables);
    }
    Restore(tables);
    if (count > 1) {
      AddWhole(rules.rules());
    }
  }

 private:
  static void Restore(const Tables& tables) {
    std::string input;
    for (const auto& [table, lines] : tables) {
      input += Cat(table, '\n');
      // Chains first: a rule may jump to one only then.
      for (const char kind : {':', '-'}) {
        for (const std::string& line : lines) {
          input += line.front() == kind ? Cat(line, '\n') : "";
        }
      }
      input += "COMMIT\n";
    }
    static_cast<void>(Must({"iptables-restore", "--noflush", "--wait"}, input));
  }

  // The last one whole again, to see that the others have as many rules.
  void AddWhole(std::size_t rules) {
    const std::size_t before = CountRules();
    Attachment attachment = Next();
    runtime().Add(attachment);
    const std::size_t added = CountRules() - before;
    if (added != rules) {
      throw std::runtime_error(Cat(
          "an ADD of the reference makes ", added, " rules, our imitation ", rules, " of them"));
    }
  }

  Runtime without_rules_;
};

}  // namespace

std::unique_ptr<Contender> MakeReference(const std::filesystem::path& folder) {
  return std::make_unique<Reference>(folder);
}

}  // namespace nomad_bridge::bench
