// The part of explain.h that is about the containers at both ends.
//
// Errors   kKernel
#pragma once

#include "plugin/causes/cause.h"
#include "plugin/causes/probe.h"

namespace nomad_bridge::causes {

// The request does not leave the client's container.
[[nodiscard]] Causes ExplainLeaving(NodeFacts& facts,
                                    const Connection& connection,
                                    const Trail& trail);

// Frames do not get into the container of `record`.
[[nodiscard]] Causes ExplainEntering(const state::Record& record);

// The request gets into the server's container, and to no service.
[[nodiscard]] Causes ExplainInContainer(const Connection& connection, const Trail& trail);

// The request comes to a service, and is not answered, or refused.
[[nodiscard]] Causes ExplainService(NodeFacts& facts,
                                    const Connection& connection,
                                    const Trail& trail);

// The answer does not leave the server's container.
[[nodiscard]] Causes ExplainAnswer(NodeFacts& facts,
                                   const Connection& connection,
                                   const Trail& trail);

}  // namespace nomad_bridge::causes
