// Reads labels back from the link's alias, the elements' comments and the record, each with a tool
// that is not ours.
#pragma once

#include "tests/support/world.h"

namespace nomad_bridge::test {

// As Nomad sends them, but for the lengths.
constexpr const char* kNomadArgs =
    "IgnoreUnknown=true;NOMAD_REGION=global;NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=billing;"
    "NOMAD_GROUP_NAME=api;NOMAD_ALLOC_ID=5f3c1a2b";

// For tests with one attachment.
class LabelsWorld : public World {
 protected:
  [[nodiscard]] static json Web() { return Publish({Port(8080, 80)}, DualStack()); }

  // The attachment's link on the host, as ip -j shows it.
  [[nodiscard]] json HostLink() {
    for (const json& link : host().Json({"ip", "-j", "-d", "link"})) {
      if (link.value("master", "") == "nomad") {
        return link;
      }
    }
    return json::object();
  }
  [[nodiscard]] std::string HostVeth() { return HostLink().value("ifname", ""); }
  [[nodiscard]] std::string Alias() { return HostLink().value("ifalias", ""); }

  // The comment of the only element of `set`.
  [[nodiscard]] std::string Comment(const std::string& set) {
    const json elements = Elements(set);
    EXPECT_EQ(elements.size(), 1U) << elements;
    const json element = elements.empty() ? json() : elements.at(0);
    // A map's element is the pair of its key and its value.
    const json key = element.is_array() ? element.at(0) : element;
    return key.contains("elem") ? key.at("elem").value("comment", "") : "";
  }

  // The only record, as jq prints it.
  [[nodiscard]] json RecordText() {
    for (const std::string& name : Entries(kRecords)) {
      return host().Json({"jq", "-c", ".", Cat(kRecords, "/", name)});
    }
    return json::object();
  }
  [[nodiscard]] std::string RecordedLabel(const std::string& key) {
    for (const json& label : RecordText().value("labels", json::array())) {
      if (label.at("key") == key) {
        return label.at("value");
      }
    }
    return "(none)";
  }
};

}  // namespace nomad_bridge::test
