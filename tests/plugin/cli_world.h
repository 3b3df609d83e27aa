// The command line as an operator uses it: the built binary with arguments and without CNI_COMMAND,
// in the host of a World.
#pragma once

#include <regex>
#include <sstream>

#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/fixture.h"
#include "tests/support/mounted.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {

constexpr const char* kAllocation = "5f3c1a2b-0000-4000-8000-000000000001";
// A second network.
const json kOther =
    Config({{"name", "other"}, {"bridge", "br-other"}, {"ipam", {{"subnet", "10.8.0.0/24"}}}});

// /etc/nomad-bridge/config.json, for as long as this lives.
class NodeConfig {
 public:
  explicit NodeConfig(const std::string& text) {
    fs::create_directories("/run/etc/nomad-bridge");
    ReplaceFile("/run/etc/nomad-bridge/config.json", text);
    etc_.emplace(std::vector<std::string>{"-t", "overlay", "-olowerdir=/run/etc:/etc", "overlay"},
                 "/etc");
  }

 private:
  std::optional<Mounted> etc_;
};

// argv[1]: the directory of the schemas, argv[2]: one of them. Comments are left out of the
// document. jsonschema before 4.18 has no registry.
constexpr const char* kValidate = R"(
import json, pathlib, re, sys, warnings
warnings.simplefilter("ignore")
import jsonschema
schemas = {p.name: json.loads(p.read_text()) for p in pathlib.Path(sys.argv[1]).glob("*.json")}
schema = schemas[sys.argv[2]]
jsonschema.Draft202012Validator.check_schema(schema)
resolver = jsonschema.RefResolver(sys.argv[2], schema, store=schemas)
document = json.loads(re.sub(r"(?m)(?<!\S)//.*$", "", sys.stdin.read()))
for error in jsonschema.Draft202012Validator(schema, resolver=resolver).iter_errors(document):
    print(error.json_path, error.message)
)";

class CliWorld : public World {
 protected:
  [[nodiscard]] Command Line(const std::vector<std::string>& arguments,
                             const Variables& variables = {}) {
    Variables all = variables;
    all.emplace("CNI_COMMAND", std::nullopt);
    Command command = PluginCommand("", "", all);
    command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
    return command;
  }
  [[nodiscard]] Outcome Run(const std::vector<std::string>& arguments,
                            const Variables& variables = {}) {
    return Execute(Line(arguments, variables));
  }
  // "list -json" as one string.
  [[nodiscard]] Outcome RunLine(const std::string& line) { return Run(Words(line)); }

  // A document that is as a schema of docs/schema says, by another program.
  void ExpectValid(const std::string& document, const std::string& schema) {
    EXPECT_EQ(
        host().Must({"python3", "-c", kValidate, ProjectPath("docs/schema"), schema}, document), "")
        << document;
  }

  // As a user who may not enter the directory that the binary was built in: of a copy.
  [[nodiscard]] Command LineWithoutRoot(const std::vector<std::string>& arguments) {
    EXPECT_EQ(Run({"install", "/run/shared"}).exit_code, 0);
    Command command = Line(arguments);
    command.argv.front() = "/run/shared/nomad-bridge";
    command.in_child = [] { static_cast<void>(!::setuid(65534)); };
    return command;
  }

  // An attachment whose container is gone.
  void AttachDead(const std::string& name, const json& config = Config()) {
    Node& doomed = AddContainer(name);
    Attach(config, As(name, doomed));
    KillContainer(doomed);
  }

  // stdout of a command that must exit 0, and say nothing on stderr.
  [[nodiscard]] std::string Output(const std::string& line) {
    const Outcome outcome = RunLine(line);
    EXPECT_EQ(outcome.exit_code, 0) << outcome;
    EXPECT_EQ(outcome.err, "") << line;
    return outcome.out;
  }

  // What a terminal of so many columns shows, line by line: script(1) gives it.
  [[nodiscard]] std::vector<std::string> OnTerminal(int columns,
                                                    const std::string& line,
                                                    const std::string& variable = "NO_COLOR=1") {
    const std::string shell =
        Format("stty cols {}; {} {} {}", columns, variable, BinaryUnderTest(), line);
    std::vector<std::string> lines;
    std::istringstream shown(host().Run({"script", "-qec", shell, "/dev/null"}).out);
    for (std::string each; std::getline(shown, each);) {
      lines.push_back(each.substr(0, each.find('\r')));
    }
    return lines;
  }
  // But for lines to be pasted.
  void ExpectColumns(int columns, const std::string& line) {
    static const std::regex kToPaste(" *(fix|all [0-9]+): .*|  [a-z]+: \\{.*");
    for (const std::string& each : OnTerminal(columns, line)) {
      const auto characters = std::ranges::count_if(each, BeginsCharacter);
      EXPECT_TRUE(characters <= columns || std::regex_match(each, kToPaste))
          << line << ": " << each;
    }
  }

  // What help lists, by the names alone.
  [[nodiscard]] std::vector<std::string> CommandNames() {
    std::vector<std::string> names;
    for (const std::string& line : Lines(Output("help"))) {
      const bool is_two = line.starts_with("  config ") || line.starts_with("  policy ");
      if (line.starts_with("  ")) {
        const std::vector<std::string> words = Words(line);
        names.push_back(is_two ? Cat(words.at(0), ' ', words.at(1)) : words.at(0));
      }
    }
    return names;
  }

  // As systemd does with ListenNetlink=netfilter 64.
  void Listen() {
    socket_ = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
    const sockaddr_nl address{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = 64};
    ASSERT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
  }

  [[nodiscard]] Outcome RunByTheSocket() {
    Command command = Line({});
    // The shell for the process id, which LISTEN_PID must be.
    command.argv = {
        "sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" reconcile", command.argv.front()};
    command.in_child = [this] {
      constexpr int kFirstHanded = 3;
      ::dup2(socket_.get(), kFirstHanded);
    };
    return Execute(command);
  }

  UniqueFd socket_;
};

}  // namespace nomad_bridge::test
