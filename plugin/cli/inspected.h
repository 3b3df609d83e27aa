// What `inspect` found out about an attachment: as values, as a JSON object, and this object as
// text.
//
// Errors   kKernel
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "plugin/causes/explain.h"
#include "plugin/cli/document.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

// The way of one connection that was probed.
struct NamedWay {
  std::string title;  // "tcp 8080", "tcp 10.0.0.1:22"
  causes::Way way;
  causes::Connection::Place from = causes::Connection::Place::kBeyond;
  std::string why = {};  // why it ends; empty: it does not
};

// Whether one client gets an answer, or whether the allocation reaches the target of -to.
struct Answer {
  std::string from;       // "outside", "the node", "neighbours", "10.0.0.1"; empty: the allocation
  std::string to;         // the target of -to; empty: the allocation
  std::string address;    // of the client, if inspect has chosen it
  std::string leaves_by;  // the link by which its packets leave the node; what answers is not known
  std::string why;        // why there is no answer; empty: there is one
};

// The section in which inspect shows a finding. kNote: no fault. kUnknown: a check failed. Faults
// come before kNote.
enum class Section { kHost, kPath, kContainer, kNote, kUnknown };

struct Inspected {
  FindingList findings;
  std::vector<NamedWay> ways;
  std::vector<Answer> answers;  // first of the question itself; see answers.h
  std::optional<std::vector<std::size_t>> connections;  // of each published port; nullopt: unknown
  bool is_host_known = true;                            // false: nothing was compared, or not all
  bool is_container_known = true;  // false: a check of the container, or of the way to it, failed
  bool is_asked = true;  // false: no port is published, and neither a client nor a target is named
  bool are_rules_whole = true;  // false: some of ours are missing, or were changed

  [[nodiscard]] FindingList In(Section section) const;
  // Returns why a packet, or its answer, does not arrive; nullopt if no cause was found, or if no
  // connection is in question.
  [[nodiscard]] std::optional<Finding> FindCause() const;
  // Returns whether the findings explain why the probed connection ended. Then what the probe saw
  // is a consequence, and its own explanation would mislead.
  [[nodiscard]] bool Explains(const causes::Diagnosis& diagnosis) const;
};

constexpr std::size_t kHeadWidth = 13;  // of the titles in front of all lines

// Counts the connections of each published port.
[[nodiscard]] std::vector<std::size_t> CountConnections(state::Host& host,
                                                        const state::Record& record);

// Returns "diagnosis" of docs/schema/inspect.json.
[[nodiscard]] Json ToJson(const Inspected& inspected);

// Returns whether something could not be looked at. `attachment`: as in inspect.json.
[[nodiscard]] bool IsUnknown(const Json& attachment);
// Returns whether nothing is wrong.
[[nodiscard]] bool IsWell(const Json& attachment);

// Returns the lines about an attachment. `is_to`: -to was given.
[[nodiscard]] std::string ShowInspected(const Json& attachment, bool is_to);
// Returns "allocation '5f3c1a2b' (web/api): ok"; with the cause, or else the first other fault, and
// its fix, or else what could not be looked at.
[[nodiscard]] std::string ShowShortly(const Json& attachment);
[[nodiscard]] std::string ShowTrace(const Json& lines);

}  // namespace nomad_bridge::cli
