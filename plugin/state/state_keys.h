// The keys of records and of the checkpoint, once for both directions.
//
// Shapes  Fields(visit, value) calls visit(key, field) for every field of `value`; `visit` is the
//         Writer or Reader::Finder of state_json.cc. Fields(visit, value, missing) calls
//         visit(key, field, the same one of `missing`), but for keys that are always written. What
//         the keys hold: state_json.h.
// Release A new struct has what a missing key means, so that no default of a member ever changes:
//         another release would read what this one leaves out as something else.
#pragma once

#include <concepts>
#include <type_traits>

#include "plugin/state/state_json.h"  // StoredRecord, StoredCheckpoint

namespace nomad_bridge::state {

template <typename Value, typename Named>
concept Is = std::same_as<std::remove_const_t<Value>, Named>;

auto& First(auto& value, auto&... /*missing*/) {
  return value;
}

void Fields(auto& visit, Is<cni::Label> auto&... label) {
  visit("key", label.key...);
  visit("value", label.value...);
}

void Fields(auto& visit, Is<netlink::NetnsId> auto&... id) {
  visit("device", id.device...);
  visit("inode", id.inode...);
  visit("cookie", id.cookie...);
}

void Fields(auto& visit, Is<portmap::DnatEntry> auto&... port) {
  visit("protocol", port.protocol...);
  visit("hostIp", port.host_ip...);
  visit("hostPort", port.host_port...);
  visit("containerIp", port.container_ip...);
  visit("containerPort", port.container_port...);
}

void Fields(auto& visit, Is<cni::DelegatedIpam> auto&... delegated) {
  visit("type", delegated.type...);
  visit("cniPath", delegated.cni_path...);
  visit("args", delegated.args...);
  visit("config", delegated.config...);
}

void Fields(auto& visit, Is<PortVlans> auto&... vlans) {
  visit("untagged", vlans.untagged...);
  visit("tagged", vlans.tagged...);
  visit("keepDefault", vlans.keep_default...);
}

void Fields(auto& visit, Is<ipam::Range> auto&... range) {
  visit("subnet", range.subnet...);
  visit("first", range.first...);
  visit("last", range.last...);
  visit("gateway", range.gateway...);
}

void Fields(auto& visit, Is<config::PortSpec> auto&... port) {
  visit("hairpin", port.hairpin...);
  visit("isolated", port.isolated...);
  visit("locked", port.locked...);
  visit("sourceCheck", port.source_check...);
  visit("vlans", port.vlans...);
}

void Fields(auto& visit, Is<Record::Link> auto&... link) {
  visit("bridge", link.bridge...);
  visit("mtu", link.mtu...);
  visit("forceAddress", link.force_address...);
  visit("promiscMode", link.promisc_mode...);
  visit("gatewayIfname", link.gateway_ifname...);
  visit("foreignHostIfnames", link.foreign_host_ifnames...);
  visit("foreignPorts", link.foreign_ports...);
  visit("port", link.port...);
  visit("mac", link.mac...);
  visit("gateways", link.gateways...);
  visit("adopted", link.adopted...);
}

void Fields(auto& visit, Is<Record::Ipam> auto&... ipam) {
  visit("addresses", ipam.addresses...);
  visit("dataDir", ipam.data_dir...);
  visit("leases", ipam.leases...);
  visit("ranges", ipam.ranges...);
  visit("delegated", ipam.delegated...);
}

void Fields(auto& visit, Is<Record::Policy> auto&... policy) {
  visit("revision", policy.revision...);
  visit("sets", policy.sets...);
  visit("in", policy.in...);
  visit("out", policy.out...);
}

void Fields(auto& visit, Is<cni::Workload> auto&... workload) {
  visit("namespace", workload.nomad_namespace...);
  visit("job", workload.job...);
  visit("group", workload.group...);
}

void Fields(auto& visit, Is<Record::Ways> auto&... ways) {
  visit("ipv4", ways.ipv4...);
  visit("ipv6", ways.ipv6...);
}

void Fields(auto& visit, Is<Record::Rules> auto&... rules) {
  visit("ipMasq", rules.ip_masq...);
  visit("randomPorts", rules.random_ports...);
  visit("snat", rules.snat...);
  visit("masqAll", rules.masq_all...);
  // Always: before commit 99234d3 the default was "NOMAD-ADMIN".
  visit("adminChain", First(rules...).forward_hook.admin_chain);
  visit("acceptMarkBit", rules.forward_hook.accept_mark_bit...);
  visit("ingress", rules.ingress...);
  visit("inbound", rules.inbound...);
  visit("firewalldZone", rules.firewalld_zone...);
  visit("ports", rules.ports...);
  visit("ways", rules.ways...);
  visit("policy", rules.policy...);
}

void Fields(auto& visit, Is<StoredRecord> auto&... stored) {
  visit("version", First(stored...).record.version);  // always: its default is each release's own
  visit("network", stored.record.id.network...);
  visit("containerId", stored.record.id.container_id...);
  visit("ifname", stored.record.id.ifname...);
  visit("parts", stored.record.parts...);
  visit("labels", stored.record.labels...);
  visit("netnsPath", stored.record.netns_path...);
  visit("netns", stored.record.netns...);
  visit("created", stored.record.created...);
  visit("link", stored.record.link...);
  visit("ipam", stored.record.ipam...);
  visit("rules", stored.record.rules...);
  visit("bootId", stored.origin.boot_id...);
  visit("hostNetns", stored.origin.netns...);
  visit("hostVeth", stored.host_veth...);
}

void Fields(auto& visit, Is<StoredCheckpoint> auto&... stored) {
  visit("generation", stored.checkpoint.generation...);
  visit("tableHandles", stored.checkpoint.table_handles...);
  visit("tablesRevision", stored.checkpoint.tables_revision...);
  visit("policyRevision", stored.checkpoint.policy_revision...);
  visit("policyKinds", stored.checkpoint.policy_kinds...);
  visit("acceptMarkBit", stored.checkpoint.accept_mark_bit...);
  visit("adminChains", stored.checkpoint.admin_chains...);
  visit("knownBridges", stored.checkpoint.bridges...);
  visit("openedIfnames", stored.checkpoint.opened_ifnames...);
  visit("legacyFilter", stored.checkpoint.legacy_filter...);
  visit("publishedOn", stored.checkpoint.published_on...);
  visit("hasSiblings", stored.checkpoint.has_siblings...);
  visit("bootId", stored.origin.boot_id...);
  visit("hostNetns", stored.origin.netns...);
}

}  // namespace nomad_bridge::state
