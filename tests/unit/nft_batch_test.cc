// Batches and tables as values.
#include <linux/netlink.h>

#include "netlink/nft/batch.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

const nft::TableId kTable = {nft::TableFamily::kInet, "nomad-bridge"};
const nft::Set kMap = {
    .name = "hostip4",
    .key = {nft::Type::kIpv4Addr, nft::Type::kInetProto, nft::Type::kInetService},
    .data = {nft::Type::kIpv4Addr, nft::Type::kInetService}};
const nft::Element kElement = {.set = "hostip4",
                               .key = {192, 0, 2, 1, 6, 0, 0, 0, 0x1f, 0x90, 0, 0},
                               .data = {172, 26, 64, 2, 0, 80, 0, 0},
                               .comment = "veth1 job=billing"};

std::vector<std::string> TextsOf(const nft::Batch& batch) {
  std::vector<std::string> texts;
  for (const nft::BatchMessage& message : batch.messages()) {
    texts.push_back(Text(message));
  }
  return texts;
}

// What the kernel gets.
std::string BytesOf(const nft::Batch& batch) {
  const std::vector<char> bytes = nft::EncodeBatch(batch, 1, 1);
  return {bytes.begin(), bytes.end()};
}

TEST(NftBatch, DescribesEachMessage) {
  nft::Batch batch;
  batch.AddTable(kTable);
  batch.DeleteElement(kTable, kElement);
  batch.AddElement(kTable, kElement);
  batch.FlushChain(kTable, "forward");
  EXPECT_THAT(TextsOf(batch),
              ElementsAre("add table inet nomad-bridge",
                          "delete the element of hostip4 for 'veth1' from table inet nomad-bridge",
                          "add the element of hostip4 for 'veth1' to table inet nomad-bridge",
                          "flush chain 'forward' of table inet nomad-bridge"));
}

TEST(NftBatch, SendsAnElementsKeyDataAndComment) {
  nft::Batch batch;
  batch.AddElement(kTable, kElement);
  const std::string bytes = BytesOf(batch);
  EXPECT_THAT(bytes, HasSubstr(std::string(kElement.key.begin(), kElement.key.end())));
  EXPECT_THAT(bytes, HasSubstr(std::string(kElement.data.begin(), kElement.data.end())));
  // User data: type 0, 18 bytes with the final zero.
  EXPECT_THAT(bytes, HasSubstr(std::string("\0\x12veth1 job=billing\0", 20)));
}

TEST(NftBatch, KeepsTheOrderItWasWrittenIn) {
  nft::Batch batch;
  EXPECT_TRUE(batch.empty());
  batch.InsertRule(kTable, "forward", nft::Rule().Accept());
  batch.AppendRule(kTable, "forward", nft::Rule().Drop());
  batch.DeleteRule(kTable, "forward", 7);
  ASSERT_EQ(batch.messages().size(), 3U);
  EXPECT_EQ(batch.messages()[0].flags & NLM_F_APPEND, 0);
  EXPECT_NE(batch.messages()[1].flags & NLM_F_APPEND, 0);
  EXPECT_EQ(batch.messages()[2].handle, 7U);
}

TEST(NftBatch, CutsACommentThatIsTooLongForNft) {
  nft::Element element = kElement;
  element.comment = std::string(127, 'x') + "\xc3\xa9 and more";  // an e acute across the limit
  nft::Batch batch;
  batch.AddElement(kTable, element);
  EXPECT_THAT(BytesOf(batch), HasSubstr(std::string(127, 'x') + '\0'));
  EXPECT_THAT(BytesOf(batch), Not(HasSubstr("more")));
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

TEST(NftTable, FindsItsSetsAndChainsByName) {
  const nft::Table table = {.id = kTable, .sets = {kMap}, .chains = {{.name = "forward"}}};
  EXPECT_NE(table.FindSet("hostip4"), nullptr);
  EXPECT_EQ(table.FindSet("hostip5"), nullptr);
  EXPECT_EQ(table.FindChain("forward"), table.chains.data());
  EXPECT_EQ(table.FindChain("backward"), nullptr);
}

TEST(NftElement, BelongsToTheFirstWordOfItsComment) {
  EXPECT_EQ(kElement.owner(), "veth1");
  EXPECT_EQ(nft::Element{.comment = "veth2"}.owner(), "veth2");
  EXPECT_EQ(nft::Element{}.owner(), "");
}

}  // namespace
}  // namespace nomad_bridge
