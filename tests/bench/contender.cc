#include "tests/bench/contender.h"

#include <iomanip>
#include <sstream>

#include "base/file.h"
#include "base/ip.h"
#include "base/text.h"
#include "tests/support/fixture.h"

namespace nomad_bridge::bench {
namespace {

constexpr const char* kFirstAddress = "172.26.64.2";
constexpr int kFirstPort = 20000;

}  // namespace

test::Network NetworkOf(const std::filesystem::path& binary) {
  test::Network network{.list = test::Conflist("nomad_bridge"), .path = binary.parent_path()};
  network.list["plugins"][0]["type"] = binary.filename();
  return network;
}

test::Attached Contender::Next() {
  ++count_;
  const int port = kFirstPort + count_;
  std::ostringstream id;
  id << "5f3c1a2b-7d4e-4c55-9a52-" << std::setfill('0') << std::setw(12) << count_;
  return {.container_id = id.str(),
          .netns = world_.MakeContainer(),
          .port_mappings = {test::Port(port, 80), test::Port(port, 80, "udp")},
          .args = test::ReadFixture("args/nomad_add.txt")};
}

test::Attached Contender::Attach() {
  world_.Enter();
  return test::MustAdd(network_, Next());
}

void Contender::Populate(int count) {
  for (int i = 0; i < count; ++i) {
    test::MustAdd(network_, Next());
  }
}

void Contender::GrowTo(int alive) {
  // What makes the first round different (the bridge, the tables, the page cache) is not what we
  // measure.
  Round();
  Populate(alive - alive_);
  alive_ = alive;
  Round();
  times_ = {};
}

void Contender::Round() {
  world_.Enter();
  test::Attached attached = Next();
  Time(times_.add, [&] { attached = test::MustAdd(network_, std::move(attached)); });
  test::Outcome check;
  Time(times_.check, [&] { check = test::CheckIn(network_, attached); });
  complaint_ = check.exit_code == 0 ? "" : Cat(check.out, check.err);
  Time(times_.del, [&] { test::MustDelFrom(network_, attached); });
}

void Contender::UseBothFamilies() {
  const json ipam = test::Conflist("nomad_bridge_dual_stack").at("plugins").at(0).at("ipam");
  json& plugins = network_.list.at("plugins");
  const auto has_ipam = [](const json& plugin) { return plugin.contains("ipam"); };
  const auto found = std::ranges::find_if(plugins, has_ipam);
  (found == plugins.end() ? plugins.at(0) : *found)["ipam"].merge_patch(ipam);
}

void Contender::ChangeForeignRules() {
  world_.Enter();
  test::Must({.argv = {"nft", "table ip foreign { chain rules { }; }"}});
  has_foreign_rules_ = true;
}

void Contender::Time(Samples& samples, const std::function<void()>& act) const {
  if (has_foreign_rules_) {
    test::Must({.argv = {"nft", "flush chain ip foreign rules; add rule ip foreign rules accept"}});
  }
  samples.Time(act);
}

Cost Contender::CostOfAdd() {
  world_.Enter();
  test::Attached attached = Next();
  Cost cost;
  for (std::size_t i = 0; i < network_.list.at("plugins").size(); ++i) {
    const test::Command add = test::EntryCommand("ADD", network_, i, attached, attached.result);
    attached.result = test::Succeeded(ExecuteTraced(add, cost)).json;
  }
  test::MustDelFrom(network_, attached);
  return cost;
}

void Contender::WriteLeases(int count) const {
  world_.Enter();
  EnsureDirectory(test::kLeases);
  const Ip first = Ip::Parse(kFirstAddress).value();
  for (int i = 0; i < count; ++i) {
    const Ip address = first.Plus(static_cast<std::uint64_t>(i));
    ReplaceFile(Cat(test::kLeases, '/', address), Cat("other-", i, "\r\neth0"));
  }
}

void Contender::ForgetLastReserved() const {
  world_.Enter();
  EnsureFileGone(Cat(test::kLeases, "/last_reserved_ip.0"));
}

std::unique_ptr<Contender> MakeOurs(const std::string& name, const std::filesystem::path& binary) {
  return std::make_unique<Contender>(name, NetworkOf(binary));
}

std::unique_ptr<Contender> MakeByName(const std::string& name,
                                      const std::filesystem::path& binary) {
  const test::Network network{.list = test::Conflist("nomad_builtin_bridge"),
                              .path = test::kOurDirectory};
  auto contender = std::make_unique<Contender>(name, network);
  contender->world().Enter();
  static_cast<void>(test::OurDirectory(binary));
  return contender;
}

}  // namespace nomad_bridge::bench
