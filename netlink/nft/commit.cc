#include "netlink/nft/commit.h"

#include "base/error.h"
#include "base/file_lock.h"
#include "base/text.h"

namespace nomad_bridge::nft {

void RetryOnGenerations(Socket& socket,
                        const std::string& what,
                        std::optional<std::uint32_t> first,
                        const std::function<bool(std::uint32_t)>& attempt) {
  const Deadline deadline = FromNow(kTimeout);
  while (!attempt(first ? *first : socket.Generation())) {
    first.reset();
    if (std::chrono::steady_clock::now() > deadline) {
      throw Error(Code::kTryAgain,
                  Cat("cannot ", what),
                  "other programs keep changing the nf_tables ruleset");
    }
  }
}

Error ErrorOf(const Batch& batch, const CommitReply& reply) {
  const Refusal& first = reply.refused.front();
  return {Code::kKernel, Cat("cannot ", batch.messages()[first.message].label), first.details};
}

bool TryCommit(Socket& socket, const Batch& batch, std::uint32_t generation) {
  if (batch.empty()) {
    return true;
  }
  const CommitReply reply = socket.Commit(batch, generation);
  if (!reply.refused.empty()) {
    throw ErrorOf(batch, reply);
  }
  return reply.done();
}

}  // namespace nomad_bridge::nft
