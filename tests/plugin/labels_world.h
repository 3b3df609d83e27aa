// Where labels are read back: the link's alias, the elements' comments and the record, each with
// another tool than ours.
#pragma once

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/plugin/rules_world.h"

namespace nomad_bridge::test {

// As Nomad sends them, but for the lengths.
constexpr const char* kNomadArgs =
    "IgnoreUnknown=true;NOMAD_REGION=global;NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=billing;"
    "NOMAD_GROUP_NAME=api;NOMAD_ALLOC_ID=5f3c1a2b";

// For tests with one attachment.
class LabelsWorld : public RulesWorld {
 protected:
  [[nodiscard]] static nlohmann::json Web() { return Publish({Port(8080, 80)}); }

  // The attachment's link on the host, as ip -j shows it.
  [[nodiscard]] nlohmann::json HostLink() {
    for (const nlohmann::json& link : host().Json({"ip", "-j", "-d", "link"})) {
      if (link.value("master", "") == "nomad") {
        return link;
      }
    }
    return nlohmann::json::object();
  }
  [[nodiscard]] std::string HostVeth() { return HostLink().value("ifname", ""); }
  [[nodiscard]] std::string Alias() { return HostLink().value("ifalias", ""); }

  // The comment of the only element of `set`.
  [[nodiscard]] std::string Comment(const std::string& set) {
    const nlohmann::json elements = Elements(set);
    EXPECT_EQ(elements.size(), 1U) << elements;
    const nlohmann::json element = elements.empty() ? nlohmann::json() : elements.at(0);
    // A map's element is the pair of its key and its value.
    const nlohmann::json key = element.is_array() ? element.at(0) : element;
    return key.contains("elem") ? key.at("elem").value("comment", "") : "";
  }

  // The only record, as jq prints it.
  [[nodiscard]] nlohmann::json RecordText() {
    for (const std::string& name : Entries(kRecordFolder)) {
      return host().Json({"jq", "-c", ".", Cat(kRecordFolder, "/", name)});
    }
    return nlohmann::json::object();
  }
  [[nodiscard]] std::string RecordedLabel(const std::string& key) {
    for (const nlohmann::json& label : RecordText().value("labels", nlohmann::json::array())) {
      if (label.at("key") == key) {
        return label.at("value");
      }
    }
    return "(none)";
  }

 private:
  static constexpr const char* kRecordFolder = "/run/nomad-bridge/nomad";
};

}  // namespace nomad_bridge::test
