// nf_tables in one network namespace: reads it, and changes it in one atomic commit.
//
// Generation  The kernel counts the changes of a namespace's ruleset. A commit can be tied to the
//             generation it was planned on. If the ruleset has changed since, nothing happens, and
//             the reply says so. A commit that is not tied takes effect unless a message of it is
//             refused.
// Costs       One round trip per call; Tables(), Sets(), Chains(), Elements() and Rules() are
//             dumps.
// Errors      kKernel: msg says what was tried, details have the kernel's message and the errno's
//             name. kTryAgain if the kernel does not answer in time. An absent object is no error.
// Threads     One at a time per socket. The socket stays in the namespace it was opened in.
// Shapes      Handles, generations and errnos are host numbers; keys and data as in element.h.
// Source      linux/netfilter/nf_tables.h; NFNL_BATCH_GENID (kernel 4.12).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "netlink/core/netns.h"
#include "netlink/core/request_socket.h"
#include "netlink/nft/batch.h"
#include "netlink/nft/element.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::nft {

// A table as the kernel shows it.
struct KernelTable {
  TableId id;
  std::uint64_t handle = 0;  // changes if the table is deleted and created again
  bool is_dormant = false;   // none of its chains is called
};

// A rule as the kernel shows it.
struct KernelRule {
  std::uint64_t handle = 0;
  std::string chain;  // the rule's chain
  // "[ meta load mark => reg 1 ]"; an xt match or target also shows its bytes.
  std::vector<std::string> expressions;
  // For each expression: the bytes that it compares with, or its mask; none for other kinds.
  std::vector<Bytes> compared;
  std::string comment;  // nft's comment, or that of iptables' comment match (also an expression)
  std::string target;   // the chain it jumps or goes to; empty: none
  // nullopt also if an extension of iptables, a program or a map decides.
  std::optional<Verdict> verdict;
  bool tests_source = false;      // the source address, or a set of iptables (ipset)
  bool changes_tracking = false;  // conntrack does not track the packet, or in another zone
};

// Returns the expressions of `rule` as Rules() would show them if it were in the kernel.
[[nodiscard]] std::vector<std::string> ExpressionTexts(const Rule& rule);

// Returns only the `expressions` that decide what a rule does: leaves out counters and comments.
[[nodiscard]] std::vector<std::string> Meaning(std::vector<std::string> expressions);

// A message of a batch that the kernel refused.
struct Refusal {
  std::size_t message = 0;  // index into the batch's messages
  int error = 0;            // errno
  std::string details;      // the kernel's words and the errno's name
};

struct CommitReply {
  bool generation_passed = false;  // somebody else changed the ruleset first
  std::vector<Refusal> refused;    // in the batch's order

  // Returns whether everything in the batch is in force; otherwise nothing is.
  [[nodiscard]] bool done() const { return !generation_passed && refused.empty(); }
};

// Returns the generation after `generation`: the kernel skips 0.
[[nodiscard]] constexpr std::uint32_t NextGeneration(std::uint32_t generation) {
  return generation == 0xffffffff ? 1 : generation + 1;
}

class Socket {
 public:
  [[nodiscard]] static Socket In(const netlink::Netns& ns);
  // Like In(), but does not throw if the rules cannot be read (no nf_tables, no CAP_NET_ADMIN):
  // each use of the socket then throws that error.
  [[nodiscard]] static Socket TryIn(const netlink::Netns& ns);

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] int fd() const { return socket_.fd(); }

  [[nodiscard]] std::uint32_t Generation();
  // `batch` must not be empty. Throws if the kernel refuses the batch as a whole.
  [[nodiscard]] CommitReply Commit(const Batch& batch, std::optional<std::uint32_t> generation);

  [[nodiscard]] std::optional<KernelTable> FindTable(const TableId& table);
  // Returns the tables of every family.
  [[nodiscard]] std::vector<KernelTable> Tables();
  // Returns every set and map of the table; empty if there is no such table.
  [[nodiscard]] std::vector<Set> Sets(const TableId& table);
  // A chain without its rules, and its table.
  struct TableChain {
    TableId table;
    Chain chain;
    std::uint64_t handle = 0;
    std::uint32_t use = 0;  // number of its rules, and of rules and elements that lead to it
  };
  [[nodiscard]] std::optional<TableChain> FindChain(const TableId& table, const std::string& name);
  [[nodiscard]] std::vector<TableChain> Chains(TableFamily family = TableFamily::kAny);
  // Returns the element with the set and key of `like`; not for sets of intervals.
  [[nodiscard]] std::optional<Element> FindElement(const TableId& table, const Element& like);
  // Finds several elements, in one request.
  [[nodiscard]] std::vector<std::optional<Element>> FindElements(
      const std::vector<std::pair<TableId, Element>>& likes);
  // Returns nothing if there is no such table.
  [[nodiscard]] std::vector<Counter> Counters(const TableId& table);
  // Empty if there is no such set.
  [[nodiscard]] std::vector<Element> Elements(const TableId& table, const std::string& set);
  // An element that rules have put into a dynamic set.
  struct Noted {
    std::vector<std::uint8_t> key;
    std::uint64_t packets = 0;
    std::uint64_t expires_ms = 0;  // it expires then, unless a rule updates it
  };
  // Empty if there is no such set.
  [[nodiscard]] std::vector<Noted> NotedIn(const TableId& table, const std::string& set);
  // Returns the rules of `chain`, or of every chain if `chain` is empty; each chain's rules are in
  // order. Returns nothing if there is no such chain. With `texts`, returns only rules that contain
  // one of them: a comment, or the name of a chain. Parsing a rule takes ten times as long as
  // getting it.
  [[nodiscard]] std::vector<KernelRule> Rules(const TableId& table,
                                              const std::string& chain = {},
                                              const std::vector<std::string>& texts = {});
  // Returns a hash of the rules of all chains as the kernel shows them, without their handles, of
  // the hook and policy of each base chain, and of whether the table is dormant. It stays the same
  // until somebody changes one of these. Parsing the rules would take twenty times as long.
  [[nodiscard]] std::uint64_t HashOfRules(const TableId& table);

 private:
  explicit Socket(netlink::RequestSocket socket) : socket_(std::move(socket)) {}

  netlink::RequestSocket socket_;
};

// Repeats a change if other programs change the ruleset meanwhile. Calls `attempt` with the
// ruleset's generation until it returns true: `attempt` plans on that generation, commits on it,
// and returns false if the generation has passed. Throws kTryAgain if others keep changing the
// ruleset for kTimeout. `first` is the generation if the caller has just read it. `what` completes
// "cannot ...".
void RetryOnGenerations(Socket& socket,
                        const std::string& what,
                        std::optional<std::uint32_t> first,
                        const std::function<bool(std::uint32_t)>& attempt);

// Returns kKernel for the first refusal in `reply`, and names the refused message of `batch`.
// `reply` must have a refusal.
[[nodiscard]] Error ErrorOf(const Batch& batch, const CommitReply& reply);

// Commits `batch`, or nothing if it is empty. Returns false if `generation` has passed; throws
// ErrorOf() for a refusal.
[[nodiscard]] bool TryCommit(Socket& socket, const Batch& batch, std::uint32_t generation);

}  // namespace nomad_bridge::nft
