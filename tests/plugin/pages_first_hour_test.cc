// docs/first-hour.md from its first command to its last.
#include "tests/plugin/pages_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kPage = "docs/first-hour.md";

class FirstHour : public TypedPage {
 protected:
  FirstHour() : TypedPage(kPage, "Install") {
    fs::create_directories("/run/share/nomad-bridge");
    fs::copy(
        ProjectPath("examples"), "/run/share/nomad-bridge/examples", fs::copy_options::recursive);
    share_.emplace(
        std::vector<std::string>{"-t", "overlay", "-olowerdir=/run/share:/usr/share", "overlay"},
        "/usr/share");
    ReplaceFile("/run/resolv.conf", "nameserver 203.0.113.53\n");
    resolv_.emplace(std::vector<std::string>{"--bind", "/run/resolv.conf"}, "/etc/resolv.conf");
    EnsureDirectory(FirstHour::Here());
    std::ofstream(Cat(FirstHour::Here(), "/nomad-bridge_2.0.0_amd64.deb"));
  }

  // Nothing is left untyped.
  void TurnTo(const std::string& heading) {
    ExpectAllTyped();
    Turn(kPage, heading);
  }
  [[nodiscard]] std::string Here() override { return "/run/operator"; }

 private:
  std::optional<Mounted> share_;
  std::optional<Mounted> resolv_;
};

TEST_F(FirstHour, IsAsThePageSays) {
  Type();
  Type();
  Type();

  TurnTo("First job");
  Type();
  EXPECT_THAT(outside().Must({"curl", "-s", "-m", "5", Cat("http://", kHostIp4, ":8080")}),
              HasSubstr("Welcome to nginx!"));

  TurnTo("Look at it");
  Type();
  const std::string names = Type().out;
  EXPECT_THAT(names, HasSubstr("alias nomad-bridge net=nomad"));
  EXPECT_THAT(names, HasSubstr("job=web group=web"));
  EXPECT_THAT(names, HasSubstr(": 172.26.64.2 . 80"));

  TurnTo("Break it");
  Type();
  TypeInVain();

  TurnTo("Heal it");
  Type();

  TurnTo("Metrics");
  Type();

  TurnTo("Remove it");
  Type();
  ExpectAllTyped();
  EXPECT_THAT(host().Must(Words("nft list tables")), Not(HasSubstr("nomad-bridge")));
  EXPECT_NE(host().Run(Words("ip link show nomad")).exit_code, 0);
  EXPECT_THAT(Entries("/opt/cni/bin"), IsEmpty());
}

}  // namespace
}  // namespace nomad_bridge::test
