// The binary is replaced while attachments are alive, by one whose table and records differ: the
// next call brings the node to what the new one wants, and nothing is lost meanwhile.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

constexpr int kOldOthers = 49;

// "inbound" has its default: a record may lack it.
const json kNetwork = Config({{"ingressPolicy", "same-bridge"}, {"inbound", "any"}});

// What a release of another time had besides.
constexpr const char* kOtherChain =
    "add set inet nomad-bridge other { type ipv4_addr; }\n"
    "table inet nomad-bridge {\n"
    "  chain other { type filter hook forward priority 3; ip saddr @other drop; }\n"
    "}\n";

class Upgrade : public World {
 protected:
  Upgrade() {
    const Node& other = AddContainer("other");
    for (int n = 1; n <= kOldOthers; ++n) {
      Variables variables = As(Cat("other-", n), other);
      variables["CNI_IFNAME"] = Cat("eth", n);
      Attach(Publish({Port(10000 + n, 80)}, kNetwork), variables);
    }
    add_ = Attach(config_);
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
    before_ = Table();
    connection_ = Connection::Open(outside(), {.to = kHostIp4, .port = 8080});
  }

  // In no order: what was added again stands last.
  std::multiset<std::string> Table() {
    std::istringstream list(ListTable());
    std::multiset<std::string> lines;
    for (std::string word; list >> word;) {
      lines.insert(word.substr(0, word.find(',')));
    }
    return lines;
  }

  // Commands for nft that add what is in the sets that `table` has, too.
  std::string ElementsFor(const std::string& table) {
    std::string commands;
    for (const std::string set : {"bridges", "alloc4", "masq4", "snat4", "port4"}) {
      EXPECT_THAT(table, HasSubstr(Cat(" ", set, " {")));
      const std::string kind = set == "port4" ? "map" : "set";
      const std::string list = host().Must({"nft", "list", kind, "inet", kTable, set});
      const std::size_t elements = list.find("elements = ") + std::string("elements = ").size();
      commands += Cat("add element inet nomad-bridge ",
                      set,
                      ' ',
                      list.substr(elements, list.rfind("}\n}") - elements - 2),
                      '\n');
    }
    return commands;
  }

  // At one stroke, so that the connection does not notice.
  void ReplaceTable(const std::string& table, const std::string& more = {}) {
    std::string about = host().Must(Words("nft list set inet nomad-bridge about"));
    about = about.substr(about.find("elements = ") + std::string("elements = ").size());
    about = about.substr(0, about.find('\n'));
    const std::size_t revision = about.find("tables=") + std::string("tables=").size();
    about.replace(revision, 16, "0123456789abcdef");
    const std::string commands = Cat("delete table inet nomad-bridge\n",
                                     table,
                                     ElementsFor(table),
                                     "add element inet nomad-bridge about ",
                                     about,
                                     '\n',
                                     more);
    host().Nft(commands);
    ASSERT_NE(Table(), before_);
    ASSERT_TRUE(connection_->Echoes("in the other release's time\n"));
  }

  static void ChangeRecords(const std::function<json(const json&)>& change) {
    for (const std::string& name : Entries(kRecords)) {
      const std::string path = Cat(kRecords, '/', name);
      ReplaceFile(path, change(json::parse(FindFile(path).value())).dump());
    }
  }

  // As nft lists the static part of the table.
  std::string TableWithoutElements() {
    std::string table;
    bool is_element = false;
    for (const std::string& line :
         Lines(host().Must({"nft", "-s", "list", "table", "inet", kTable}))) {
      is_element = is_element || line.find("elements = {") != line.npos;
      table += is_element ? "" : Cat(line, '\n');
      is_element = is_element && !line.ends_with('}');
    }
    return table;
  }

  void ExpectConnected() {
    EXPECT_TRUE(connection_->Echoes("still there\n"));
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
  }

  const json config_ = Publish({Port(8080, 80)}, kNetwork);
  json add_;
  std::multiset<std::string> before_;
  std::optional<Connection> connection_;
};

TEST_F(Upgrade, ConvergesWithTheFirstCheck) {
  std::string table = TableWithoutElements();
  const std::string rule = "ct state invalid jump invalid";
  EXPECT_THAT(table, HasSubstr(rule));
  table.erase(table.find(rule), rule.size());
  ReplaceTable(table, kOtherChain);
  ChangeRecords([](json record) {
    record["colour"] = "of another release";
    record["link"].erase("foreign_ports");
    record["rules"].erase("inbound");
    return record;
  });

  EXPECT_THAT(MustCheck(config_, add_),
              Err(HasSubstr("removed: chain other in table inet nomad-bridge is left over")));

  ExpectConnected();
  EXPECT_EQ(Table(), before_);
  Detach(config_);
  MustRun("GC", WithValid({}));
  EXPECT_EQ(PortsOf("nomad"), json::array());
  EXPECT_EQ(Elements("alloc4"), json::array());
  EXPECT_THAT(Leased(), IsEmpty());
}

TEST_F(Upgrade, ConvergesWithTheNextAdd) {
  ReplaceTable(TableWithoutElements(), kOtherChain);

  Attach(Publish({Port(9090, 80)}), As("another", AddContainer("another")));
  EXPECT_THAT(TableWithoutElements(), Not(HasSubstr(" other "))) << "its chain and its set";

  ExpectConnected();
  Detach(Publish({Port(9090, 80)}), As("another", container()));
  EXPECT_EQ(Table(), before_);
  MustCheck(config_, add_);
}

// The kernel does not change the priority of a chain. Elements that no record explains stay.
TEST_F(Upgrade, ConvergesFromOtherPrioritiesOfNatChains) {
  std::string table = TableWithoutElements();
  for (const auto& [chain, earlier] : {std::pair("hook postrouting priority 120", "100"),
                                       std::pair("hook prerouting priority -80", "-100"),
                                       std::pair("hook output priority -80", "-100")}) {
    const std::string now = chain;
    ASSERT_THAT(table, HasSubstr(now));
    table.replace(table.find(now), now.size(), Cat(now.substr(0, now.rfind(' ') + 1), earlier));
  }
  ReplaceTable(table, "add element inet nomad-bridge alloc4 { 192.0.2.9 comment \"veth9 x\" }");

  EXPECT_THAT(MustCheck(config_, add_), Err(HasSubstr("chain postrouting")));

  ExpectConnected();
  EXPECT_THAT(ListTable(), HasSubstr("192.0.2.9"));
  host().Must(Words("nft delete element inet nomad-bridge alloc4 { 192.0.2.9 }"));
  EXPECT_EQ(Table(), before_);
}

// ---- back to an older release: a record has keys that this one does not know

class NewerRecord : public CliWorld {
 protected:
  void MarkRecord() {
    json record = ReadRecord("alloc-1");
    record["version"] = 99;
    record["link"]["shaping"] = {{"rate", 7}};
    record["parts"]["shaper"] = "live";
    WriteRecord("alloc-1", record);
    text_ = FindFile(RecordOf("alloc-1"));
  }
  void ExpectUnchanged() { EXPECT_EQ(FindFile(RecordOf("alloc-1")), text_); }

  const json config_ = Publish({Port(8080, 80)}, DualStack());
  const Variables labels_ = {{"CNI_ARGS", NomadArgs("billing", "alloc-1")}};
  std::optional<std::string> text_;
};

TEST_F(NewerRecord, IsNeverWrittenAgain) {
  const json result = Attach(config_, labels_);
  MarkRecord();
  host().Must({"nft", "delete", "table", "inet", kTable});
  MustCheck(config_, result, labels_);
  ExpectUnchanged();
  host().Must({"ip", "link", "set", OnlyPort(), "nomaster"});
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  ExpectUnchanged();
  fs::create_directories("/run/policies");
  ReplaceFile("/run/policies/p.json",
              R"({"version": 1, "policies": [{"name": "p", "to": {"namespace": "*"},
                  "allow": [{"from": ["same-namespace"]}]}]})");
  EXPECT_THAT(RunLine("policy apply /run/policies"), Exits(0));
  ExpectUnchanged();
  EXPECT_THAT(RunLine("gc"), Exits(0));
  ExpectUnchanged();
  EXPECT_THAT(RunLine("doctor records"),
              Out(HasSubstr("the record of container 'alloc-1' is of a newer release")));

  EXPECT_THAT(RunPlugin("DEL", config_), Exits(0, Err(HasSubstr("is of a newer release"))));
  EXPECT_FALSE(HasRecord("alloc-1"));
  for (const char* const set : {"alloc4", "alloc6", "port4", "port6", "bridges"}) {
    EXPECT_EQ(Elements(set), json::array()) << set;
  }
  EXPECT_THAT(Leased(), IsEmpty());
}

TEST_F(NewerRecord, IsReplacedByTheNextAddOfItsContainer) {
  const json result = Attach(config_);
  MarkRecord();
  EXPECT_EQ(Attach(config_), result);
  EXPECT_FALSE(ReadRecord("alloc-1").contains("version"));
  Detach(config_);
}

}  // namespace
}  // namespace nomad_bridge::test
