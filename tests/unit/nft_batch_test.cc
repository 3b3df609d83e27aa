// Batches as text, and tables as values.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "netlink/nft/batch.h"

namespace nomad_bridge {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const nft::TableId kTable = {nft::TableFamily::kInet, "nomad-bridge"};
const nft::Set kMap = {
    .name = "hostip4",
    .key = {nft::Type::kIpv4Addr, nft::Type::kInetProto, nft::Type::kInetService},
    .data = {nft::Type::kIpv4Addr, nft::Type::kInetService}};
const nft::Element kElement = {.set = "hostip4",
                               .key = {192, 0, 2, 1, 6, 0, 0, 0, 0x1f, 0x90, 0, 0},
                               .data = {172, 26, 64, 2, 0, 80, 0, 0},
                               .comment = "veth1 job=billing"};

TEST(NftBatch, ReadsAsAListOfWhatItDoes) {
  nft::Batch batch;
  batch.AddTable(kTable);
  batch.DeleteElement(kTable, kElement);
  batch.AddElement(kTable, kElement);
  batch.FlushChain(kTable, "forward");
  EXPECT_EQ(batch.Text(),
            "add table inet nomad-bridge\n"
            "\n"
            "delete the element of hostip4 for 'veth1' from table inet nomad-bridge\n"
            "hostip4 nomad-bridge 0\n"
            "\telement 010200c0 00000006 0000901f  : 02401aac 00005000 0 [end]  userdata = { "
            "\\x00\\x12veth1 job=billing\\x00 }\n"
            "\n"
            "add the element of hostip4 for 'veth1' to table inet nomad-bridge\n"
            "hostip4 nomad-bridge 0\n"
            "\telement 010200c0 00000006 0000901f  : 02401aac 00005000 0 [end]  userdata = { "
            "\\x00\\x12veth1 job=billing\\x00 }\n"
            "\n"
            "flush chain 'forward' of table inet nomad-bridge\n"
            "\n");
}

TEST(NftBatch, KeepsTheOrderItWasWrittenIn) {
  nft::Batch batch;
  EXPECT_TRUE(batch.empty());
  batch.InsertRule(kTable, "forward", nft::Rule().Accept());
  batch.AppendRule(kTable, "forward", nft::Rule().Drop());
  batch.DeleteRule(kTable, "forward", 7);
  ASSERT_EQ(batch.messages().size(), 3U);
  EXPECT_EQ(batch.messages()[0].action, nft::BatchMessage::Action::kInsertRule);
  EXPECT_EQ(batch.messages()[1].action, nft::BatchMessage::Action::kAppendRule);
  EXPECT_EQ(batch.messages()[2].handle, 7U);
}

TEST(NftBatch, CutsACommentThatIsTooLongForNft) {
  nft::Element element = kElement;
  element.comment = std::string(127, 'x') + "\xc3\xa9 and more";  // an e acute across the limit
  nft::Batch batch;
  batch.AddElement(kTable, element);
  EXPECT_THAT(batch.Text(), HasSubstr(std::string(127, 'x') + "\\x00 }"));
  EXPECT_THAT(batch.Text(), Not(HasSubstr("more")));
}

TEST(NftTable, ReadsKeysAsNftDoes) {
  EXPECT_EQ(nft::KeyText(kMap, kElement), "192.0.2.1 . tcp . 8080");
  const nft::Set bridges = {.name = "bridges", .key = {nft::Type::kIfname}};
  EXPECT_EQ(nft::KeyText(bridges,
                         {.set = "bridges",
                          .key = {'n', 'o', 'm', 'a', 'd', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}),
            "nomad");
  EXPECT_EQ(nft::KeyText(kMap, {.set = "hostip4", .key = {192, 0, 2, 1, 132, 0, 0, 0}}),
            "192.0.2.1 . sctp")
      << "a key that is too short is read as far as it goes";
}

TEST(NftTable, KnowsItsChainsByName) {
  nft::Table table = {.id = kTable, .sets = {kMap}, .chains = {{.name = "forward"}}};
  table.RequireChain("forward").rules.push_back(nft::Rule().Accept());
  EXPECT_EQ(table.chains[0].rules.size(), 1U);
  EXPECT_NE(table.FindSet("hostip4"), nullptr);
  EXPECT_EQ(table.FindSet("hostip5"), nullptr);
  EXPECT_THROW(static_cast<void>(table.RequireChain("backward")), Error);
}

TEST(NftElement, BelongsToTheFirstWordOfItsComment) {
  EXPECT_EQ(kElement.owner(), "veth1");
  EXPECT_EQ(nft::Element{.comment = "veth2"}.owner(), "veth2");
  EXPECT_EQ(nft::Element{}.owner(), "");
}

}  // namespace
}  // namespace nomad_bridge
