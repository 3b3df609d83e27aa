// An allocation whose published ports answer, and the commands that an operator runs if they do
// not.
//
//   8080 tcp and udp, of both families, and 8081 tcp on 198.51.100.9 only. All lead to port 80. On
//   tcp it answers "hello", on udp more than fits into one packet.
#pragma once

#include <regex>

#include "tests/plugin/cli_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {

constexpr const char* kSecondIp4 = "198.51.100.9";
// Behind the outside, not on the uplink's subnet.
constexpr const char* kFarIp4 = "203.0.113.5";
constexpr const char* kInnocentIp4 = "192.0.2.77";

// How traffic shows it.
enum class Way { kTcp, kTcp6, kLarge, kSecond, kFar };
using enum Way;

struct Broken : Named {
  // Run by sh, on the host, or in the container if the name begins with "Container". VETH is the
  // host's end of its pair, ADDRESS its address.
  std::string damage;
  std::string says = {};  // inspect, first of all
  Way way = Way::kTcp;
  std::string failed = {};  // the station at which it ends
  std::string advice = {};  // a part of it, where no command heals

  [[nodiscard]] bool IsInContainer() const { return name.starts_with("Container"); }
};

class ProbeWorld : public CliWorld, public ::testing::WithParamInterface<Broken> {
 protected:
  void SetUp() override {
    host().Must({"ip", "address", "add", Cat(kSecondIp4, "/24"), "dev", "uplink"});
    host().Must(Words(Cat("ip route replace default via ", kOutsideIp4, " dev uplink")));
    host().Must(Words(Cat("ip -6 route replace default via ", kOutsideIp6, " dev uplink")));
    outside().Must({"ip", "address", "add", Cat(kFarIp4, "/32"), "dev", "lo"});
    const json result =
        Attach(ports_, As(kAllocation, container(), NomadArgs("billing", kAllocation)));
    address_ = AddressOf(result);
    veth_ = HostVethOf(result);
    Serve(container(), Protocol::kTcp, {"::"}, 80, "hello");
    Serve(container(), Protocol::kUdp, {"0.0.0.0"}, 80, large_);
  }

  [[nodiscard]] std::string Filled(std::string text) const {
    text = std::regex_replace(text, std::regex("VETH"), veth_);
    return std::regex_replace(text, std::regex("ADDRESS"), address_);
  }

  [[nodiscard]] bool Answers(Way way, std::chrono::milliseconds patience) {
    Call call{.to = kHostIp4, .port = 8080, .patience = patience};
    switch (way) {
      case Way::kTcp:
        break;
      case Way::kTcp6:
        call.to = kHostIp6;
        break;
      case Way::kLarge:
        call.protocol = Protocol::kUdp;
        break;
      case Way::kSecond:
        call = {.to = kSecondIp4, .port = 8081, .patience = patience};
        break;
      case Way::kFar:
        call.from = kFarIp4;
        break;
    }
    return test::Ask(outside(), call).has_value();
  }
  [[nodiscard]] bool Answers(Way way) { return Answers(way, std::chrono::milliseconds(1500)); }

  // What inspect says of it, and to a client.
  [[nodiscard]] json Diagnose(Way way) {
    switch (way) {
      case Way::kFar:
        return DiagnoseFrom(kFarIp4);
      case Way::kTcp6:
        return DiagnoseFrom(kOutsideIp6);
      default:
        return DiagnosisOf(way == Way::kSecond ? "8081" : "8080");
    }
  }
  [[nodiscard]] json DiagnoseFrom(const std::string& client) {
    return DiagnosisOf(Cat("8080 -from ", client));
  }
  [[nodiscard]] json DiagnosisOf(const std::string& words) {
    const Outcome outcome = RunLine(Cat("inspect -json ", words));
    json diagnosis = At(outcome.json, "/attachments/0/diagnosis");
    EXPECT_EQ(outcome.exit_code, diagnosis.value("causes", json::array()).empty() ? 0 : 1)
        << outcome;
    return diagnosis;
  }

  // The station at which the first connection that was tried ends; empty: it was answered.
  [[nodiscard]] static std::string FailedStation(const json& diagnosis) {
    for (const json& station : At(diagnosis, "/ways/0/stations")) {
      if (station.at("state") == "failed") {
        return station.at("name");
      }
    }
    return {};
  }

  void Paste(const std::string& fix) {
    const std::string binary = Line({}).argv.front();
    const std::string path = Cat("PATH=", binary.substr(0, binary.rfind('/')), ":$PATH; ");
    host().Shell(Cat(path, fix));
    // A link that was set up has its carrier a moment later.
    EXPECT_TRUE(Soon([&] { return LinkOn(host(), "uplink").at("operstate") == "UP"; }));
  }

  // The first cause after `damage` on the node, which shows.
  [[nodiscard]] json CauseAfter(const std::string& damage, Way way = Way::kTcp) {
    EXPECT_TRUE(Answers(way));
    host().Shell(Filled(damage));
    EXPECT_FALSE(Answers(way, std::chrono::milliseconds(250)));
    return At(Diagnose(way), "/causes/0");
  }

  // As an operator does who reads them: all that it prints, until it prints none. Of two causes
  // with one fix the second has none left.
  void PasteFixes(Way way) {
    constexpr int kMost = 6;
    json causes;
    for (int i = 0; i < kMost; ++i) {
      causes = Diagnose(way).value("causes", json::array());
      if (causes.empty()) {
        return;
      }
      std::set<std::string> pasted;
      for (const json& cause : causes) {
        const std::string fix = cause.at("fix");
        EXPECT_THAT(fix, AllOf(Not(IsEmpty()), Not(EndsWith(" ")))) << cause;
        if (pasted.insert(fix).second) {
          Paste(fix);
        }
      }
    }
    ADD_FAILURE() << causes;
  }

  // The node's default routes, and rules about another address, which no fix may take away.
  [[nodiscard]] std::string Kept() {
    return Cat(host().Must(Words("ip route show default")),
               host().Must(Words("ip -6 route show default")),
               host().Must({"sh", "-c", Cat("ip rule show | grep ", kInnocentIp4, " || true")}));
  }

  // Those that doctor has something to say by.
  [[nodiscard]] std::set<std::string> DoctorsChecks() {
    std::set<std::string> checks;
    const json document = RunLine("doctor -json").json;
    for (const json& check : document.value("checks", json::array())) {
      if (check.at("verdict") != "ok") {
        checks.insert(check.at("check"));
      }
    }
    return checks;
  }

  void ExpectNoCause() {
    EXPECT_EQ(Diagnose(Way::kTcp).at("causes"), json::array());
    EXPECT_FALSE(DoctorsChecks().contains("ports.blocked"));
  }

  // What is done on the node, and connections pass.
  void ExpectNoCauseAfter(const std::string& harmless) {
    host().Shell(Filled(harmless));
    ASSERT_TRUE(Answers(Way::kTcp));
    ExpectNoCause();
  }

  void BreakAndHeal(const Broken& broken) {
    ASSERT_NE(broken.says, "") << "whatever inspect says would do";
    ASSERT_TRUE(Answers(broken.way));
    const json well = Diagnose(broken.way);
    ASSERT_EQ(well.at("cause"), nullptr);
    ASSERT_EQ(FailedStation(well), "");
    (broken.IsInContainer() ? container() : host()).Shell(Filled(broken.damage));
    EXPECT_FALSE(Answers(broken.way, std::chrono::milliseconds(250)));
    const json said = Diagnose(broken.way);
    ASSERT_FALSE(said.at("causes").empty());
    const json cause = At(said, "/causes/0");
    EXPECT_THAT(cause.at("what").get<std::string>(), HasSubstr(Filled(broken.says)));
    EXPECT_EQ(FailedStation(said), broken.failed) << said.at("ways");
    // What costs something else than small packets.
    EXPECT_EQ(said.at("cause").is_null(), broken.way == Way::kLarge);
    EXPECT_THAT(cause.at("advice").get<std::string>(), HasSubstr(Filled(broken.advice)));
    if (!broken.advice.empty()) {
      return;
    }
    const std::string kept = Kept();
    PasteFixes(broken.way);
    EXPECT_EQ(Kept(), kept);
    // An IPv6 address that is back is looked for by duplicate address detection first.
    EXPECT_TRUE(Soon([&] { return Answers(broken.way); }));
  }

  const json ports_ =
      Publish({Port(8080, 80), Port(8080, 80, "udp"), Port(8081, 80, "tcp", kSecondIp4)},
              DualStack());
  const std::string large_ = std::string(3000, 'x');
  std::string address_;
  std::string veth_;
};

}  // namespace nomad_bridge::test
