#include "tests/bench/contender.h"

#include <iomanip>
#include <sstream>

#include "base/file.h"
#include "base/ip.h"
#include "base/text.h"
#include "tests/support/fixture.h"

namespace nomad_bridge::bench {
namespace {

using nlohmann::json;

constexpr const char* kLeaseFolder = "/var/run/cni/nomad";
constexpr const char* kNamesFolder = "/run/names";
constexpr const char* kFirstAddress = "172.26.64.2";
constexpr int kFirstPort = 20000;

}  // namespace

Attachment Contender::Next() {
  ++count_;
  std::ostringstream id;
  id << "5f3c1a2b-7d4e-4c55-9a52-" << std::setfill('0') << std::setw(12) << count_;
  return {.container_id = id.str(),
          .netns_path = world_.MakeContainer(),
          .host_port = kFirstPort + count_,
          .result = nullptr};
}

void Contender::Populate(int count) {
  for (int i = 0; i < count; ++i) {
    Attachment attachment = Next();
    runtime_.Add(attachment);
  }
}

void Contender::GrowTo(int alive) {
  // What makes the first round different (the bridge, the tables, the page cache) is not what we
  // measure.
  Round();
  Populate(alive - alive_);
  alive_ = alive;
  Round();
  add_ = {};
  check_ = {};
  del_ = {};
}

void Contender::Round() {
  world_.Enter();
  Attachment attachment = Next();
  add_.Time([&] { runtime_.Add(attachment); });
  check_.Time([&] { complaint_ = runtime_.Check(attachment); });
  del_.Time([&] { runtime_.Del(attachment); });
}

Cost Contender::CostOfAdd() {
  world_.Enter();
  Attachment attachment = Next();
  Cost cost;
  runtime_.Add(attachment,
               [&](const test::Command& command) { return ExecuteTraced(command, cost); });
  runtime_.Del(attachment);
  return cost;
}

void Contender::WriteLeases(int count) const {
  world_.Enter();
  EnsureDirectory(kLeaseFolder);
  const Ip first = Ip::Parse(kFirstAddress).value();
  for (int i = 0; i < count; ++i) {
    const Ip address = first.Plus(static_cast<std::uint64_t>(i));
    ReplaceFile(Cat(kLeaseFolder, '/', address), Cat("other-", i, "\r\neth0"));
  }
}

void Contender::ForgetLastReserved() const {
  world_.Enter();
  EnsureFileGone(Cat(kLeaseFolder, "/last_reserved_ip.0"));
}

std::unique_ptr<Contender> MakeOurs(const std::string& name, const std::filesystem::path& binary) {
  json list = json::parse(test::ReadFixture("conf/nomad_bridge.conflist"));
  list["plugins"][0]["type"] = binary.filename();
  return std::make_unique<Contender>(name, Runtime(list, binary.parent_path()));
}

std::unique_ptr<Contender> MakeByName(const std::string& name,
                                      const std::filesystem::path& binary) {
  const json list = json::parse(test::ReadFixture("conf/nomad_builtin_bridge.conflist"));
  auto contender = std::make_unique<Contender>(name, Runtime(list, kNamesFolder));
  contender->world().Enter();
  EnsureDirectory(kNamesFolder);
  for (const json& plugin : list.at("plugins")) {
    std::filesystem::create_symlink(binary,
                                    Cat(kNamesFolder, '/', plugin.at("type").get<std::string>()));
  }
  return contender;
}

}  // namespace nomad_bridge::bench
