// Every file of examples/: a list passes the plugin, a job asks for what its list gives.
#include <regex>

#include "tests/plugin/recipes_world.h"
#include "tests/support/fixture.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kListEnd = ".conflist";
constexpr const char* kJobEnd = ".nomad.hcl";

// The names of examples/<directory> with that end, without it.
std::vector<std::string> Names(const std::string& directory, const std::string& end) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(ProjectPath(Cat("examples/", directory)))) {
    const std::string file = entry.path().filename();
    if (file.ends_with(end)) {
      names.push_back(file.substr(0, file.size() - end.size()));
    }
  }
  return names;
}

std::string JobText(const std::string& name) {
  return ReadFixture(Cat("../examples/jobs/", name, kJobEnd));
}

// What the first group of the expression matches; "" if nothing.
std::string Match(const std::string& text, const char* expression) {
  std::smatch found;
  return std::regex_search(text, found, std::regex(expression)) ? found[1].str() : "";
}

class ExampleList : public Recipe, public ::testing::WithParamInterface<std::string> {};

INSTANTIATE_TEST_SUITE_P(Lists, ExampleList, ::testing::ValuesIn(Names("", kListEnd)), kNameOfText);

TEST_P(ExampleList, PassesTheCommandThatChecksLists) {
  EXPECT_THAT(Execute(Command{.argv = {BinaryUnderTest(),
                                       "config",
                                       "check",
                                       ProjectPath(Cat("examples/", GetParam(), kListEnd))},
                              .variables = {{"CNI_COMMAND", std::nullopt}}}),
              Exits(0));
}

TEST_P(ExampleList, GivesAnAllocationANetwork) {
  const Network network = Run(GetParam());
  EXPECT_EQ(network.list.at("name"), GetParam()) << "as its file";
  if (GetParam() == "lan") {
    host().Must(Words("ip link add br0 type bridge"));  // the node's network service makes it
  }

  const Attached allocation =
      MustAdd(network, Allocation("web", container(), {Port(8080, 80), Port(8080, 80, "udp")}));

  const std::string address = AddressesIn(allocation.result).front();
  EXPECT_THAT(AddressesOn(container(), "eth0"), Contains(address));
  const std::string family = address.find(':') == std::string::npos ? "-4" : "-6";
  EXPECT_EQ(container().Must({"ip", family, "route", "show", "default"}).empty(),
            GetParam() == "second")
      << "the default route is the first network's";
  MustCheckIn(network, allocation);
  MustDelFrom(network, allocation);
  EXPECT_FALSE(HasInterface(container(), "eth0"));
}

// All of them at once on one node.
TEST(Examples, DoNotOverlap) {
  std::set<std::string> bridges;
  std::vector<Cidr> subnets;
  for (const std::string& name : Names("", kListEnd)) {
    const json ours = Example(name).at("plugins").front();
    EXPECT_TRUE(bridges.insert(ours.value("bridge", "nomad")).second) << name;
    const std::string one = ours.value("/ipam/subnet"_json_pointer, "172.26.64.0/20");
    const json whole = {{{{"subnet", one}}}};
    for (const json& set : ours.value("/ipam/ranges"_json_pointer, whole)) {
      const Cidr subnet = Cidr::Parse(set.at(0).at("subnet").get<std::string>()).value();
      for (const Cidr& other : subnets) {
        EXPECT_FALSE(subnet.address.family() == other.address.family() && subnet.Overlaps(other))
            << name << ": " << subnet;
      }
      subnets.push_back(subnet);
    }
  }
}

TEST(Examples, EveryListHasItsJob) {
  for (const std::string& name : Names("", kListEnd)) {
    if (name != "containerd") {  // no network of Nomad's
      EXPECT_THAT(Names("jobs", kJobEnd), Contains(name));
    }
  }
}

TEST(Examples, EveryJobRequestsTheNetworkOfItsList) {
  for (const std::string& name : Names("jobs", kJobEnd)) {
    SCOPED_TRACE(name);
    const std::string job = JobText(name);
    EXPECT_EQ(std::ranges::count(job, '{'), std::ranges::count(job, '}'));
    const std::string network = Match(job, "\n( +network \\{[^]*?\n    \\})");
    if (network.empty()) {
      EXPECT_THAT(name, AnyOf("install", "test"));
      continue;
    }
    // Its task asks for the second one.
    const std::string asked = name == "second" ? "nomad" : name;
    EXPECT_EQ(Match(network, "mode += \"([^\"]*)\""), Cat("cni/", asked));
    const json list = Example(asked);
    const json& ours = list.at("plugins").front();
    if (network.find("port \"") != network.npos) {
      EXPECT_TRUE(ours.value("/capabilities/portMappings"_json_pointer, false));
    }
    if (const std::string address = Match(network, " IP = \"([^\"]*)\""); !address.empty()) {
      const std::string subnet = ours.at("/ipam/ranges/0/0/subnet"_json_pointer);
      EXPECT_TRUE(Cidr::Parse(subnet)->Contains(Ip::Parse(address).value()));
    }
    EXPECT_EQ(job.find("transparent_proxy") != job.npos,
              list.at("plugins").back().at("type") == "consul-cni");
  }
}

TEST(Examples, JobsOfANamespaceGetItsNetworkAlone) {
  const std::string text = ReadFixture("../examples/namespace.hcl");
  const std::string name = Match(text, "name += \"([^\"]*)\"");

  EXPECT_EQ(Match(text, "enabled_network_modes = \\[\"cni/([^\"]*)\"\\]"), name);
  EXPECT_EQ(Match(JobText(name), "namespace += \"([^\"]*)\""), name);
}

TEST(Examples, SecondRequestsTheNetworkOfItsExample) {
  json asked = json::parse(Match(JobText("second"), "data += <<EOT\n([^]*?)EOT"));
  const json list = Example("second");
  json listed = list.at("plugins").front();
  listed.update({{"name", list.at("name")}, {"cniVersion", list.at("cniVersion")}});
  EXPECT_EQ(asked, listed);
}

TEST(Examples, InstallWritesTheExampleList) {
  const std::string job = JobText("install");
  EXPECT_EQ(json::parse(Match(job, "data += <<EOT\n([^]*?)EOT")), Example("nomad"));
}

}  // namespace
}  // namespace nomad_bridge::test
