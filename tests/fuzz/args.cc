// CNI_ARGS: the arguments of a job's author and the labels of Nomad, as far as they come into the
// alias of a link, the comment of an element, and messages.
#include "plugin/cni/args.h"

#include <cstdlib>

#include "base/error.h"
#include "plugin/cni/labels.h"
#include "plugin/state/kernel_names.h"
#include "tests/fuzz/fuzz.h"

namespace nomad_bridge {

void fuzz::Run(std::string_view input) {
  constexpr std::size_t kMaxAlias = 255;    // IFALIASZ - 1
  constexpr std::size_t kMaxComment = 128;  // what nft takes
  try {
    const cni::Args args = cni::ParseArgs(input);
    const cni::Labels labels = cni::LastOfEach(args.labels);
    const AttachmentId id{.network = "nomad", .container_id = "5f3c1a2b", .ifname = "eth0"};
    static_cast<void>(cni::NameOwner(labels, id.container_id));
    if (state::LinkAlias(id, labels).size() > kMaxAlias ||
        state::ElementComment(id, labels).size() > kMaxComment ||
        !state::IsAliasOf(state::LinkAlias(id, labels), id)) {
      std::abort();
    }
  } catch (const Error&) {
    return;  // refused
  }
}

}  // namespace nomad_bridge
