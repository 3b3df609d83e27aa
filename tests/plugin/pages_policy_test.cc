// The rollout of docs/policy.md, from its first command to its last, with a scraper that goes on
// and an intruder that is kept out.
#include "tests/plugin/pages_world.h"
#include "tests/support/fixture.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kPolicyPage = "docs/policy.md";
constexpr const char* kFile = "/etc/nomad-bridge/policy.d/namespaces.json";

class PolicyRollout : public TypedPage {
 protected:
  PolicyRollout() : TypedPage(kPolicyPage, "A rollout in six commands") {
    EnsureDirectory("/run/share");
    fs::create_directories("/run/share/nomad-bridge");
    fs::copy(
        ProjectPath("examples"), "/run/share/nomad-bridge/examples", fs::copy_options::recursive);
    share_.emplace(
        std::vector<std::string>{"-t", "overlay", "-olowerdir=/run/share:/usr/share", "overlay"},
        "/usr/share");
    InstallPlugin();
  }

  struct Allocation {
    const Node* node;
    std::string address;
  };
  Allocation Start(const std::string& nomad_namespace,
                   const std::string& job,
                   const std::string& group,
                   std::uint16_t port) {
    Node& node = AddContainer(Cat(nomad_namespace, '-', job));
    const json result = Attach(DualStack(),
                               As(node.name(),
                                  node,
                                  Format("IgnoreUnknown=true;NOMAD_NAMESPACE={};NOMAD_JOB_ID={};"
                                         "NOMAD_GROUP_NAME={};NOMAD_ALLOC_ID={}",
                                         nomad_namespace,
                                         job,
                                         group,
                                         node.name())));
    Serve(node, Protocol::kTcp, {"::"}, port, job);
    return {&node, AddressOf(result, 4)};
  }
  static bool Reaches(const Allocation& from, const Allocation& to, std::uint16_t port) {
    return Ask(*from.node,
               {.protocol = Protocol::kTcp,
                .to = to.address,
                .port = port,
                .patience = std::chrono::milliseconds(700)})
        .has_value();
  }

  // The first such block of the page.
  [[nodiscard]] static std::string FencedAs(const std::string& language) {
    const std::string page = ReadFixture(Cat("../", kPolicyPage));
    const std::string fence = Cat("```", language, "\n");
    const std::size_t begin = page.find(fence) + fence.size();
    return page.substr(begin, page.find("```", begin) - begin);
  }

 private:
  Mounted etc_{{"-t", "tmpfs", "tmpfs"}, "/etc"};
  std::optional<Mounted> share_;
};

TEST_F(PolicyRollout, KeepsTheScraperAndRefusesTheIntruder) {
  EXPECT_THAT(Type().err, HasSubstr("nothing is closed"));  // audit, on an empty node
  const Allocation api = Start("prod", "api", "web", 9100);
  const Allocation db = Start("prod", "db", "main", 5432);
  const Allocation scraper = Start("infra", "prometheus", "main", 80);
  const Allocation etl = Start("dev", "etl", "main", 80);
  std::optional<Connection> scrape =
      Connection::Open(*scraper.node, {.to = api.address, .port = 9100});
  ASSERT_TRUE(scrape);
  EXPECT_TRUE(Reaches(etl, db, 5432));
  Type();  // look at the flows
  ReplaceFile(kFile, FencedAs("json"));
  EXPECT_THAT(Type().out, HasSubstr("allowed now by namespaces#1"));
  EXPECT_THAT(TypeInVain().out, HasSubstr("dev/etl/main"));
  Type();  // enforce
  EXPECT_TRUE(Reaches(scraper, api, 9100));
  EXPECT_TRUE(Reaches(api, db, 5432));
  EXPECT_FALSE(Reaches(etl, db, 5432));
  Type();                                                    // watch
  EXPECT_THAT(Type().err, HasSubstr("1 connection ended"));  // cut
  ExpectAllTyped();
  EXPECT_TRUE(scrape->Echoes("still there"));
  const json document = Execute(InShell("nomad-bridge policy status -flows -json")).json;
  for (const json& flow : document.at("flows")) {
    EXPECT_EQ(flow.at("allowedNow"), flow.at("from").at("job") != "etl") << flow;
  }

  Turn(kPolicyPage, "Who reaches whom");
  EXPECT_EQ(Type().out, FencedAs("mermaid"));
}

}  // namespace
}  // namespace nomad_bridge::test
