// Batches as text, and tables as values.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "netlink/nft_batch.h"

namespace nomad_bridge {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const NftTableId kTable = {NftFamily::kInet, "nomad-bridge"};
const NftSet kMap = {.name = "hostip4",
                     .key = {NftType::kIpv4Addr, NftType::kInetProto, NftType::kInetService},
                     .data = {NftType::kIpv4Addr, NftType::kInetService}};
const NftElement kElement = {.set = "hostip4",
                             .key = {192, 0, 2, 1, 6, 0, 0, 0, 0x1f, 0x90, 0, 0},
                             .data = {172, 26, 64, 2, 0, 80, 0, 0},
                             .comment = "veth1 job=billing"};

TEST(NftBatch, ReadsAsAListOfWhatItDoes) {
  NftBatch batch;
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
  NftBatch batch;
  EXPECT_TRUE(batch.empty());
  batch.InsertRule(kTable, "forward", NftRule().Accept());
  batch.AppendRule(kTable, "forward", NftRule().Drop());
  batch.DeleteRule(kTable, "forward", 7);
  ASSERT_EQ(batch.messages().size(), 3U);
  EXPECT_EQ(batch.messages()[0].action, NftMessage::Action::kInsertRule);
  EXPECT_EQ(batch.messages()[1].action, NftMessage::Action::kAppendRule);
  EXPECT_EQ(batch.messages()[2].handle, 7U);
}

TEST(NftBatch, CutsACommentThatIsTooLongForNft) {
  NftElement element = kElement;
  element.comment = std::string(127, 'x') + "\xc3\xa9 and more";  // an e acute across the limit
  NftBatch batch;
  batch.AddElement(kTable, element);
  EXPECT_THAT(batch.Text(), HasSubstr(std::string(127, 'x') + "\\x00 }"));
  EXPECT_THAT(batch.Text(), Not(HasSubstr("more")));
}

TEST(NftTable, ReadsKeysAsNftDoes) {
  EXPECT_EQ(KeyText(kMap, kElement), "192.0.2.1 . tcp . 8080");
  const NftSet bridges = {.name = "bridges", .key = {NftType::kIfname}};
  EXPECT_EQ(KeyText(bridges,
                    {.set = "bridges",
                     .key = {'n', 'o', 'm', 'a', 'd', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}),
            "nomad");
  EXPECT_EQ(KeyText(kMap, {.set = "hostip4", .key = {192, 0, 2, 1, 132, 0, 0, 0}}),
            "192.0.2.1 . sctp")
      << "a key that is too short is read as far as it goes";
}

TEST(NftTable, KnowsItsChainsByName) {
  NftTable table = {.id = kTable, .sets = {kMap}, .chains = {{.name = "forward"}}};
  table.Chain("forward").rules.push_back(NftRule().Accept());
  EXPECT_EQ(table.chains[0].rules.size(), 1U);
  EXPECT_NE(table.FindSet("hostip4"), nullptr);
  EXPECT_EQ(table.FindSet("hostip5"), nullptr);
  EXPECT_THROW(static_cast<void>(table.Chain("backward")), Error);
}

TEST(NftElement, BelongsToTheFirstWordOfItsComment) {
  EXPECT_EQ(kElement.owner(), "veth1");
  EXPECT_EQ(NftElement{.comment = "veth2"}.owner(), "veth2");
  EXPECT_EQ(NftElement{}.owner(), "");
}

}  // namespace
}  // namespace nomad_bridge
