// A command is held before its N-th visible system call, another one runs, and the first goes on:
// as plugin nomad-bridge, and as the list of plugins that it replaces, each under its name. At the
// end nobody shares a port or an address, who is attached works, and all of it can be removed.
#include "tests/plugin/list_run.h"
#include "tests/plugin/repair_sweep.h"

namespace nomad_bridge::test {
namespace {

struct Second : Named {
  bool is_attached = false;  // the other attachment is there before
  bool breaks_things = false;
  bool is_about_the_same = false;  // the attachment of the first: then one waits for the other
};

// The bridge was deleted before. The command that makes it again plugs in all its ports.
constexpr const char* kRemovesAnotherOffItsBridge = "RemovesAnotherOffItsBridge";

// NOLINTNEXTLINE(bugprone-exception-escape): a table of names
const Second kSeconds[] = {
    {"AddsAnother"},
    {"AddsAnotherWithTheSamePort"},
    {"RemovesAnother", true},
    {kRemovesAnotherOffItsBridge, true},
    {"ChecksAnother", true},
    {"CollectsGarbage", true},
    {"ChangesAForeignRule", true, true},
    {"FlushesTheRules", true, true},
    {"DeletesTheBridge", true, true},
    {"AddsTheSame", false, false, true},
    {"RemovesTheSame", false, false, true},
    {"ChecksTheSame", false, false, true},
};

constexpr const char* kAlone = "Alone";
constexpr const char* kByName = "ByName";

// Nomad's own list without loopback, which has no state.
json ListByName() {
  json list = Conflist("nomad_builtin_bridge");
  list["plugins"].erase(0);
  list["cniVersion"] = "1.1.0";  // the first with GC
  return list;
}

json ListAlone() {
  return ListOf(
      {{{"type", "nomad-bridge"}, {"capabilities", {{"portMappings", true}}}}}, "nomad", "1.1.0");
}

// The name, the first verb, and what happens meanwhile.
using Row = std::tuple<std::string, std::string, Second>;

class Interleaving : public SweepWorld, public ::testing::WithParamInterface<Row> {
 protected:
  Interleaving() {
    host().Nft("table ip foreign { chain rules { }; }");
    const Attached once = MustAdd(network_, one_);
    any_result_ = once.result;
    MustDelFrom(network_, once);
  }

  [[nodiscard]] static bool IsByName() { return std::get<0>(GetParam()) == kByName; }
  [[nodiscard]] static std::string FirstVerb() { return std::get<1>(GetParam()); }
  [[nodiscard]] static const Second& TheSecond() { return std::get<2>(GetParam()); }
  [[nodiscard]] static bool RemovesAnother() {
    return Is("RemovesAnother") || Is(kRemovesAnotherOffItsBridge);
  }
  [[nodiscard]] static bool Is(const std::string& name) { return TheSecond().name == name; }

  // For all preparations but the first: see SweepWorld::AttachForRun.
  static Network WithoutSanitizers(Network network) {
    if (Unsanitized() != nullptr) {
      network.path = "/run/unsanitized";
      EnsureDirectory(network.path);
      for (const json& plugin : network.list.at("plugins")) {
        fs::create_symlink(Unsanitized(), fs::path(network.path) / plugin.at("type"));
      }
    }
    return network;
  }

  void Prepare() {
    const Network& network = was_prepared_ ? preparing_ : network_;
    was_prepared_ = true;
    one_.result = nullptr;
    other_.result = nullptr;
    other_.port_mappings = {Port(Is("AddsAnotherWithTheSamePort") ? 8080 : 9090, 80)};
    if (FirstVerb() != "ADD") {
      one_ = MustAdd(network, one_);
    }
    if (TheSecond().is_attached) {
      other_ = MustAdd(network, other_);
    }
    if (Is(kRemovesAnotherOffItsBridge)) {
      host().Must(Words("ip link delete nomad"));
    }
  }

  [[nodiscard]] ListRun First() {
    return FirstVerb() == "GC" ? GarbageCollection({other_.container_id})
                               : ListRun(FirstVerb(), network_, one_);
  }

  [[nodiscard]] ListRun GarbageCollection(const std::vector<std::string>& valid) const {
    Network network = network_;
    for (json& plugin : network.list["plugins"]) {
      plugin.update(WithValid(valid, json::object()));
    }
    return {"GC", network, one_};
  }

  // Of ours; nullopt: somebody else's, which has been done.
  [[nodiscard]] std::optional<ListRun> MakeSecond() {
    if (Is("CollectsGarbage")) {
      return GarbageCollection({one_.container_id, other_.container_id});
    }
    const std::string verb = Is("ChecksAnother") || Is("ChecksTheSame") ? "CHECK"
                             : RemovesAnother() || Is("RemovesTheSame") ? "DEL"
                                                                        : "ADD";
    if (TheSecond().is_about_the_same) {
      Attached same = one_;
      same.result = verb == "CHECK" && one_.result.is_null() ? any_result_ : one_.result;
      return ListRun(verb, network_, same);
    }
    if (!TheSecond().breaks_things) {
      return ListRun(verb, network_, other_);
    }
    if (Is("DeletesTheBridge")) {
      static_cast<void>(host().Run(Words("ip link delete nomad")));
    } else {
      host().Must(Words(Is("FlushesTheRules") ? "nft flush ruleset"
                                              : "nft add rule ip foreign rules accept"));
      static_cast<void>(host().Run({"nft", "add table ip foreign; add chain ip foreign rules"}));
    }
    return std::nullopt;
  }

  // False if the first command makes fewer calls.
  bool Run(int nth) {
    std::optional<ListRun> second;
    ListRun first = First();
    const bool was_held = first.RunDisturbedAt(nth, [&] {
      if ((second = MakeSecond())) {
        second->RunUntilBlocked();
      }
    });
    if (second) {
      second->RunToTheEnd();
    }
    if (second && TheSecond().is_about_the_same) {
      NoteTheSame(first, *second);
    } else {
      Note(first, second);
    }
    return was_held;
  }

  void Note(const ListRun& first, const std::optional<ListRun>& second) {
    const bool may_be_refused = Is("AddsAnotherWithTheSamePort") || Is("DeletesTheBridge");
    EXPECT_TRUE(first.succeeded() || (may_be_refused && ErrorCode(first.outcome()) > 0)) << first;
    if (FirstVerb() == "ADD") {
      one_.result = first.result();
    } else if (FirstVerb() != "CHECK") {
      one_.result = nullptr;
    }
    if (!second) {
      return;
    }
    EXPECT_TRUE(second->succeeded() || (may_be_refused && ErrorCode(second->outcome()) == 102))
        << *second;
    if (RemovesAnother()) {
      other_.result = nullptr;
    } else if (!TheSecond().is_attached) {
      other_.result = second->result();
    }
  }

  // The record tells which one was the last.
  void NoteTheSame(const ListRun& first, const ListRun& second) {
    for (const ListRun* const run : {&first, &second}) {
      // CHECK: changed, or not added.
      const int code = ErrorCode(run->outcome());
      EXPECT_TRUE(run->succeeded() || code == 102 || code == 103) << *run;
      one_.result = run->result().is_null() ? one_.result : run->result();
    }
    if (Entries(kRecords).size() == (other_.result.is_null() ? 0 : 1)) {
      one_.result = nullptr;
    }
  }

  void ExpectWorks(const Attached& attached, Node& node) {
    if (attached.result.is_null()) {
      return;
    }
    SCOPED_TRACE(attached.container_id);
    ListRun check("CHECK", network_, attached);
    check.RunToTheEnd();
    EXPECT_TRUE(check.succeeded()) << check;
    if (!TheSecond().breaks_things) {
      EXPECT_EQ(check.err(), "") << "there was something to repair";
    }
    const Server page = Server::Start(node, Protocol::kTcp, "0.0.0.0", 80, attached.container_id);
    const int port = attached.port_mappings.at(0).at("HostPort");
    EXPECT_EQ(TcpText(outside(), kHostIp4, static_cast<std::uint16_t>(port)),
              attached.container_id);
  }

  void ExpectAllIsWell() {
    const bool same_port = Is("AddsAnotherWithTheSamePort");
    EXPECT_FALSE(same_port && !one_.result.is_null() && !other_.result.is_null()) << "two owners";
    EXPECT_FALSE(same_port && FirstVerb() == "ADD" && one_.result.is_null() &&
                 other_.result.is_null())
        << "no owner";
    ExpectWorks(one_, container());
    ExpectWorks(other_, other_container_);
    MustDelFrom(network_, one_);
    MustDelFrom(network_, other_);
    EXPECT_THAT(host().Must(Words("nft list ruleset")), Not(HasSubstr("comment \"veth")));
    EXPECT_EQ(PortsOf("nomad"), json::array());
    EXPECT_THAT(Entries(kRecords), IsEmpty());
    EXPECT_THAT(Leased(), IsEmpty());
  }

  const Network network_ = ByOurs(IsByName() ? ListByName() : ListAlone());
  const Network preparing_ = WithoutSanitizers(network_);
  bool was_prepared_ = false;
  Node& other_container_ = AddContainer("other");
  // With a result as long as they are attached.
  Attached one_ = WithPorts("alloc-1", container(), {Port(8080, 80)});
  Attached other_ = As("other", other_container_);
  json any_result_;  // for a CHECK of what is not attached
};

TEST_P(Interleaving, EndsWell) {
  Prepare();
  for (int nth = FirstPoint(); Run(nth) && !HasFailure(); nth += PointStep()) {
    SCOPED_TRACE(Cat("held before call ", nth));
    ExpectAllIsWell();
    Prepare();
  }
  ExpectAllIsWell();
}

// Each second command beside the ADD or the DEL that it is likeliest to disturb.
bool IsLikely(const Row& row) {
  const auto& [names, verb, second] = row;
  const bool by_name = names == kByName;
  if (second.name == kRemovesAnotherOffItsBridge) {
    return !by_name && verb == "CHECK";
  }
  if (verb == "GC") {
    return !by_name && second.name == "AddsAnother";
  }
  if (verb == "CHECK") {
    return !by_name && (second.name == "RemovesTheSame" || second.name == "FlushesTheRules");
  }
  if (verb == "DEL") {
    return by_name ? second.name == "AddsTheSame"
                   : second.name.starts_with("Adds") || second.name == "ChecksTheSame" ||
                         second.name == "CollectsGarbage";
  }
  return by_name ? second.name == "AddsAnotherWithTheSamePort" || second.name == "RemovesTheSame"
                 : second.name != "ChangesAForeignRule";
}

std::vector<Row> Rows(bool are_likely) {
  std::vector<Row> rows;
  for (const char* const names : {kAlone, kByName}) {
    for (const char* const verb : {"ADD", "DEL", "CHECK", "GC"}) {
      for (const Second& second : kSeconds) {
        const Row row(names, verb, second);
        const bool has_no_bridge = second.name == kRemovesAnotherOffItsBridge;
        if (IsLikely(row) == are_likely && (are_likely || !has_no_bridge)) {
          rows.push_back(row);
        }
      }
    }
  }
  return rows;
}

std::string NameOf(const ::testing::TestParamInfo<Row>& row) {
  return Cat(std::get<1>(row.param), std::get<0>(row.param), "While", std::get<2>(row.param).name);
}

INSTANTIATE_TEST_SUITE_P(Likely, Interleaving, ::testing::ValuesIn(Rows(true)), NameOf);
INSTANTIATE_TEST_SUITE_P(ThoroughOthers, Interleaving, ::testing::ValuesIn(Rows(false)), NameOf);

}  // namespace
}  // namespace nomad_bridge::test
