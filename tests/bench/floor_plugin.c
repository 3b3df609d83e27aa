// The least that the kernel takes for an attachment: a static program that sends the requests
// nobody can do without, as few system calls as possible, and does nothing else. No config is read,
// no lease and no record written, nothing is compared, repaired or waited for.
//
// Needs   the bridge "nomad" and our tables, as an ADD of nomad-bridge leaves them; in
//         /run/floor/<container id>.ADD and .DEL the nf_tables batches of its elements, as
//         nomad-bridge would send them (floor.cc writes both)
// Env     CNI_COMMAND, CNI_CONTAINERID (its last six digits are the attachment's number), CNI_NETNS
// DEL     the link is deleted by a child, whom nobody waits for once the link is out of sight
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kInside = 2, kPrefix = 20 };  // the only link beside lo in a new namespace

static _Alignas(8) char bytes[16384];  // requests, or a reply
static size_t size;
static struct nlmsghdr* message;

static void require(int holds, const char* what) {
  if (!holds) {
    perror(what);
    exit(EXIT_FAILURE);
  }
}

static void* put(size_t count) {
  void* const at = memset(bytes + size, 0, NLMSG_ALIGN(count));
  size += NLMSG_ALIGN(count);
  message->nlmsg_len += NLMSG_ALIGN(count);
  return at;
}

static void begin(int type, int flags, const void* head, size_t count) {
  message = (struct nlmsghdr*)(bytes + size);
  message->nlmsg_len = 0;
  put(sizeof *message);
  message->nlmsg_type = type;
  message->nlmsg_flags = NLM_F_REQUEST | flags;
  memcpy(put(count), head, count);
}

static struct rtattr* attribute(int type, const void* value, size_t count) {
  struct rtattr* const at = put(RTA_LENGTH(count));
  *at = (struct rtattr){.rta_len = RTA_LENGTH(count), .rta_type = type};
  memcpy(RTA_DATA(at), value, count);
  return at;
}

static void end(struct rtattr* nest) {
  nest->rta_len = (char*)message + message->nlmsg_len - (char*)nest;
}

#define TEXT(type, text) attribute(type, text, strlen(text) + 1)
#define VALUE(type, ctype, value) attribute(type, &(ctype){value}, sizeof(ctype))
#define NEST(type) attribute((type) | NLA_F_NESTED, "", 0)

// Sends all requests and reads until `expected` of them are answered.
static void send_all(int fd, int expected) {
  require(send(fd, bytes, size, 0) == (ssize_t)size, "send");
  size = 0;
  for (int answers = 0; answers < expected;) {
    const ssize_t received = recv(fd, bytes, sizeof bytes, 0);
    require(received > 0, "recv");
    int got = (int)received;  // at most sizeof bytes
    for (struct nlmsghdr* at = (struct nlmsghdr*)bytes; NLMSG_OK(at, got);
         at = NLMSG_NEXT(at, got)) {
      const int* const error = NLMSG_DATA(at);
      require(at->nlmsg_type != NLMSG_ERROR || *error == 0, "the kernel has refused a request");
      answers += (at->nlmsg_flags & NLM_F_MULTI) == 0 || at->nlmsg_type == NLMSG_DONE;
    }
  }
}

static int open_socket(int protocol, unsigned groups) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
  require(fd >= 0 && (groups == 0 || bind(fd, (const void*)&address, sizeof address) == 0),
          "socket");
  return fd;
}

static void send_elements(int nft, const char* container, const char* verb) {
  char path[128];
  snprintf(path, sizeof path, "/run/floor/%s.%s", container, verb);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = read(file, bytes, sizeof bytes);
  require(got > 0, path);
  size = got;
  send_all(nft, 1);
}

// Both ends, then what only an existing link can be told.
static void add_link(int host, int netns, int index, const char* name) {
  begin(RTM_NEWLINK,
        NLM_F_CREATE | NLM_F_EXCL,
        &(struct ifinfomsg){.ifi_index = index},
        sizeof(struct ifinfomsg));
  TEXT(IFLA_IFNAME, name);
  VALUE(IFLA_NUM_TX_QUEUES, uint32_t, 1);
  VALUE(IFLA_NUM_RX_QUEUES, uint32_t, 1);
  VALUE(IFLA_MASTER, uint32_t, if_nametoindex("nomad"));
  struct rtattr* info = NEST(IFLA_LINKINFO);
  TEXT(IFLA_INFO_KIND, "veth");
  struct rtattr* data = NEST(IFLA_INFO_DATA);
  struct rtattr* const peer = NEST(VETH_INFO_PEER);
  ((struct ifinfomsg*)put(sizeof(struct ifinfomsg)))->ifi_index = kInside;
  TEXT(IFLA_IFNAME, "eth0");
  VALUE(IFLA_NUM_TX_QUEUES, uint32_t, 1);
  VALUE(IFLA_NUM_RX_QUEUES, uint32_t, 1);
  VALUE(IFLA_NET_NS_FD, uint32_t, netns);
  end(peer), end(data), end(info);
  const struct ifinfomsg up = {.ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
  begin(RTM_NEWLINK, NLM_F_ACK, &up, sizeof up);
  attribute(IFLA_IFALIAS, name, strlen(name));
  info = NEST(IFLA_LINKINFO);
  TEXT(IFLA_INFO_SLAVE_KIND, "bridge");
  data = NEST(IFLA_INFO_SLAVE_DATA);
  VALUE(IFLA_BRPORT_MODE, uint8_t, 1);
  VALUE(IFLA_BRPORT_GROUP_FWD_MASK, uint16_t, 0xfffd);
  end(data), end(info);
  send_all(host, 1);
}

static void set_up_inside(int inside, in_addr_t address, in_addr_t gateway) {
  const struct ifinfomsg lo = {.ifi_index = 1, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
  begin(RTM_NEWLINK, 0, &lo, sizeof lo);
  const struct ifaddrmsg head = {
      .ifa_family = AF_INET, .ifa_prefixlen = kPrefix, .ifa_index = kInside};
  begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof head);
  VALUE(IFA_LOCAL, in_addr_t, address);
  VALUE(IFA_ADDRESS, in_addr_t, address);
  const struct ifinfomsg eth0 = {.ifi_index = kInside, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
  begin(RTM_NEWLINK, 0, &eth0, sizeof eth0);
  const struct rtmsg route = {.rtm_family = AF_INET,
                              .rtm_table = RT_TABLE_MAIN,
                              .rtm_protocol = RTPROT_STATIC,
                              .rtm_type = RTN_UNICAST};
  begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &route, sizeof route);
  VALUE(RTA_GATEWAY, in_addr_t, gateway);
  VALUE(RTA_OIF, uint32_t, kInside);
  send_all(inside, 1);
}

static void check(int host, int inside, int nft, int index) {
  begin(RTM_GETLINK,
        0,
        &(struct ifinfomsg){.ifi_index = (int)if_nametoindex("nomad")},
        sizeof(struct ifinfomsg));
  begin(RTM_GETLINK, 0, &(struct ifinfomsg){.ifi_index = index}, sizeof(struct ifinfomsg));
  send_all(host, 2);
  begin(RTM_GETLINK, 0, &(struct ifinfomsg){.ifi_index = kInside}, sizeof(struct ifinfomsg));
  send_all(inside, 1);
  begin(RTM_GETADDR,
        NLM_F_DUMP,
        &(struct ifaddrmsg){.ifa_family = AF_INET},
        sizeof(struct ifaddrmsg));
  send_all(inside, 1);
  begin(RTM_GETROUTE, NLM_F_DUMP, &(struct rtmsg){.rtm_family = AF_INET}, sizeof(struct rtmsg));
  send_all(inside, 1);
  begin(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN,
        0,
        &(struct nfgenmsg){.nfgen_family = 0},
        sizeof(struct nfgenmsg));
  send_all(nft, 1);
}

// The kernel waits for grace periods of RCU in the child: in the request, after it has told of the
// deletion, and when the last descriptor of a socket is closed that has removed elements.
static void delete_link(int host, int nft, int index) {
  const int events = open_socket(NETLINK_ROUTE, RTMGRP_LINK);
  const pid_t child = fork();
  require(child >= 0, "fork");
  if (child == 0) {
    dup2(host, 0);
    dup2(nft, 1);
    syscall(SYS_close_range, 2, ~0U, 0U);
    begin(
        RTM_DELLINK, NLM_F_ACK, &(struct ifinfomsg){.ifi_index = index}, sizeof(struct ifinfomsg));
    send_all(0, 1);
    _exit(EXIT_SUCCESS);
  }
  for (;;) {
    require(recv(events, bytes, sizeof bytes, 0) > 0, "recv");
    const struct nlmsghdr* const event = (const struct nlmsghdr*)bytes;
    const struct ifinfomsg* const head = NLMSG_DATA(event);
    if (event->nlmsg_type == RTM_DELLINK && head->ifi_index == index &&
        head->ifi_family == AF_UNSPEC) {
      return;
    }
  }
}

int main(void) {
  const char* const verb = getenv("CNI_COMMAND");
  const char* const container = getenv("CNI_CONTAINERID");
  const int number = atoi(container + strlen(container) - 6);
  const int index = 1000000 + number;
  const int host = open_socket(NETLINK_ROUTE, 0);
  const int nft = open_socket(NETLINK_NETFILTER, 0);
  if (strcmp(verb, "DEL") == 0) {
    send_elements(nft, container, verb);
    delete_link(host, nft, index);
    return EXIT_SUCCESS;
  }
  const int netns = open(getenv("CNI_NETNS"), O_RDONLY | O_CLOEXEC);
  const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  require(setns(netns, CLONE_NEWNET) == 0, "setns");
  const int inside = open_socket(NETLINK_ROUTE, 0);
  require(setns(home, CLONE_NEWNET) == 0, "setns");
  if (strcmp(verb, "CHECK") == 0) {
    check(host, inside, nft, index);
    return EXIT_SUCCESS;
  }
  char name[IFNAMSIZ];
  snprintf(name, sizeof name, "floor%d", number);
  const in_addr_t first = ntohl(inet_addr("172.26.64.0"));
  add_link(host, netns, index, name);
  set_up_inside(inside, htonl(first + 2048 + number), htonl(first + 1));
  send_elements(nft, container, verb);
  puts("{\"cniVersion\":\"1.0.0\"}");
  return EXIT_SUCCESS;
}
