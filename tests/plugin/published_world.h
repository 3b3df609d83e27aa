// A node with an allocation whose published ports answer, and an operator who asks and repairs.
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

// Of nobody here; the node has a routing rule about it.
constexpr const char* kInnocentIp4 = "192.0.2.77";

// How traffic shows that something works.
using Way = std::string_view;
constexpr Way kTcp = "tcp";
constexpr Way kTcp6 = "tcp6";
constexpr Way kLarge = "udp";      // an answer of several packets
constexpr Way kSecond = "second";  // to the second address
constexpr Way kFar = "far";        // from a client beyond the uplink's subnet
constexpr Way kNode = "node";      // from the node, to 127.0.0.1
constexpr Way kOut = "out";        // a ping of the allocation
constexpr Way kOut6 = "out6";
inline constexpr std::array kWays = {kTcp, kTcp6, kLarge, kSecond, kFar, kNode, kOut, kOut6};

class PublishedWorld : public CliWorld {
 protected:
  void AddWays() {
    host().Must({"ip", "address", "add", Cat(kSecondIp4, "/24"), "dev", "uplink"});
    host().Must(Words(Cat("ip route replace default via ", kOutsideIp4, " dev uplink")));
    host().Must(Words(Cat("ip -6 route replace default via ", kOutsideIp6, " dev uplink")));
    outside().Must({"ip", "address", "add", Cat(kFarIp4, "/32"), "dev", "lo"});
    host().Must(Words(Cat("ip rule add from ", kInnocentIp4, " lookup main priority 50")));
  }

  void AttachPublished(const Variables& variables) {
    result_ = Attach(ports_, variables);
    address_ = AddressOf(result_);
    veth_ = HostVethOf(result_);
    Serve(container(), Protocol::kTcp, {"::"}, 80, "hello");
    Serve(container(), Protocol::kUdp, {"0.0.0.0"}, 80, std::string(3000, 'x'));
  }

  // With the allocation's address and host veth in the place of $ADDRESS and $VETH.
  [[nodiscard]] std::string Filled(std::string text) const {
    text = std::regex_replace(text, std::regex(R"(\$VETH\b)"), veth_);
    return std::regex_replace(text, std::regex(R"(\$ADDRESS\b)"), address_);
  }

  [[nodiscard]] bool Answers(Way way, std::chrono::milliseconds patience) {
    if (way == kOut || way == kOut6) {
      const auto ms = patience.count();
      return container()
                 .Run({"ping",
                       "-c",
                       "1",
                       "-W",
                       Format("{}.{}", ms / 1000, ms % 1000 / 100),
                       way == kOut ? kOutsideIp4 : kOutsideIp6})
                 .exit_code == 0;
    }
    const Call call = {.protocol = way == kLarge ? Protocol::kUdp : Protocol::kTcp,
                       .to = way == kTcp6     ? kHostIp6
                             : way == kNode   ? "127.0.0.1"
                             : way == kSecond ? kSecondIp4
                                              : kHostIp4,
                       .port = static_cast<std::uint16_t>(way == kSecond ? 8081 : 8080),
                       .from = way == kFar ? kFarIp4 : "",
                       .patience = patience};
    return test::Ask(way == kNode ? host() : outside(), call).has_value();
  }
  [[nodiscard]] bool Answers(Way way) { return Answers(way, std::chrono::milliseconds(1500)); }

  // The words after "inspect" that ask about it.
  [[nodiscard]] static std::string Question(Way way) {
    return way == kTcp6     ? Cat("8080 -from ", kOutsideIp6)
           : way == kFar    ? Cat("8080 -from ", kFarIp4)
           : way == kSecond ? "8081"
                            : "8080";
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

  // Runs a fix as an operator does, by sh with nomad-bridge in PATH.
  void Paste(const std::string& fix) {
    const std::string directory = fs::path(BinaryUnderTest()).parent_path();
    Must({.argv = {"sh", "-ec", Cat("PATH=/run/stubs:", directory, ":$PATH; ", fix)},
          .variables = {{"CNI_COMMAND", std::nullopt}}});
    // A link that was set up has its carrier a moment later.
    EXPECT_TRUE(Soon([&] { return LinkOn(host(), "uplink").at("operstate") == "UP"; }));
  }

  // The node's default routes, and a rule about another address: no fix may take them away.
  [[nodiscard]] std::string Kept() {
    return Cat(host().Must(Words("ip route show default")),
               host().Must(Words("ip -6 route show default")),
               host().Must(Words(Cat("ip rule show from ", kInnocentIp4))));
  }

  const json ports_ =
      Publish({Port(8080, 80), Port(8080, 80, "udp"), Port(8081, 80, "tcp", kSecondIp4)},
              DualStack());
  json result_;
  std::string address_;
  std::string veth_;
};

}  // namespace nomad_bridge::test
