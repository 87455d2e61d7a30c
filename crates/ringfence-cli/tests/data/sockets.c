// Tries to get a byte to somebody outside. Prints "REACHED" when the kernel took it, else "refused ERRNO".
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_un address;
static socklen_t length;

// A leading '@' stands for the NUL of an abstract name.
static void name(const char *path) {
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  length = offsetof(struct sockaddr_un, sun_path) + strlen(path) + (path[0] != '@');
  if (path[0] == '@') address.sun_path[0] = 0;
}

static long unix_connect(int kind) {
  int fd = socket(AF_UNIX, kind, 0);
  if (fd < 0) return -1;
  if (connect(fd, (void *)&address, length) < 0) return -1;
  return send(fd, "canary", 6, MSG_NOSIGNAL);
}

static long unix_sendto(int fd) {
  return fd < 0 ? -1 : sendto(fd, "canary", 6, MSG_NOSIGNAL, (void *)&address, length);
}

static long unix_sendmsg(int fd, int with_descriptor) {
  if (fd < 0) return -1;
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec bytes = {"canary", 6};
  struct msghdr message = {&address, length, &bytes, 1, 0, 0, 0};
  if (with_descriptor) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    *(int *)CMSG_DATA(header) = 0;
  }
  return sendmsg(fd, &message, MSG_NOSIGNAL);
}

static long unix_sendmmsg(int fd) {
  if (fd < 0) return -1;
  struct iovec bytes = {"canary", 6};
  struct mmsghdr message = {.msg_hdr = {&address, length, &bytes, 1, 0, 0, 0}};
  return sendmmsg(fd, &message, 1, MSG_NOSIGNAL);
}

static int pair(int kind) {
  int fds[2];
  return socketpair(AF_UNIX, kind, 0, fds) < 0 ? -1 : fds[0];
}

static int shared, stop;

static void *sender(void *unused) {
  (void)unused;
  while (!stop)
    if (send(shared, "canary", 6, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) stop = 2;
  return 0;
}

// One thread connects, another sends on the same socket: a connection that is only refused afterwards would
// let bytes through meanwhile.
static long connect_race(void) {
  time_t end = time(0) + 2;
  while (time(0) < end && stop != 2) {
    shared = socket(AF_UNIX, SOCK_STREAM, 0);
    if (shared < 0) return -1;
    pthread_t thread;
    stop = 0;
    pthread_create(&thread, 0, sender, 0);
    connect(shared, (void *)&address, length);
    usleep(200);
    if (!stop) stop = 1;
    pthread_join(thread, 0);
    close(shared);
  }
  errno = EACCES;
  return stop == 2 ? 0 : -1;
}

static long internet(int family, int kind, int protocol, const char *host, int port, int only_send) {
  int fd = socket(family, kind, protocol);
  if (fd < 0) return -1;
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  struct sockaddr *to = family == AF_INET ? (void *)&v4 : (void *)&v6;
  socklen_t size = family == AF_INET ? sizeof v4 : sizeof v6;
  if (family == AF_INET) inet_pton(AF_INET, host, &v4.sin_addr);
  else inet_pton(AF_INET6, host, &v6.sin6_addr);
  struct timeval patience = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (only_send == 1) return sendto(fd, "canary", 6, MSG_NOSIGNAL, to, size);
  if (only_send == 2) return sendto(fd, "canary", 6, MSG_NOSIGNAL | MSG_FASTOPEN, to, size);
  if (only_send == 3) {
    struct iovec bytes = {"canary", 6};
    struct msghdr message = {to, size, &bytes, 1, 0, 0, 0};
    return sendmsg(fd, &message, MSG_NOSIGNAL);
  }
  if (connect(fd, to, size) < 0) return -1;
  return send(fd, "canary", 6, MSG_NOSIGNAL);
}

#define P(label, code) if (!strcmp(what, label)) { got = (code); known = 1; }

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "", *where = argc > 2 ? argv[2] : "";
  int port = argc > 3 ? atoi(argv[3]) : 0, known = 0;
  long got = -1;
  name(where);
  P("stream", unix_connect(SOCK_STREAM))
  P("seqpacket", unix_connect(SOCK_SEQPACKET))
  P("dgram", unix_connect(SOCK_DGRAM))
  P("raw-local", unix_connect(SOCK_RAW))
  P("dgram-sendto", unix_sendto(socket(AF_UNIX, SOCK_DGRAM, 0)))
  P("dgram-sendmsg", unix_sendmsg(socket(AF_UNIX, SOCK_DGRAM, 0), 0))
  P("dgram-sendmmsg", unix_sendmmsg(socket(AF_UNIX, SOCK_DGRAM, 0)))
  P("dgram-rights", unix_sendmsg(socket(AF_UNIX, SOCK_DGRAM, 0), 1))
  P("pair-dgram-sendto", unix_sendto(pair(SOCK_DGRAM)))
  P("pair-dgram-sendmsg", unix_sendmsg(pair(SOCK_DGRAM), 0))
  P("pair-raw-sendto", unix_sendto(pair(SOCK_RAW)))
  P("pair-seqpacket-sendto", ({ int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0); unix_sendto(fd); }))
  P("stream-sendmsg", unix_sendmsg(socket(AF_UNIX, SOCK_STREAM, 0), 0))
  P("seqpacket-rights", unix_sendmsg(socket(AF_UNIX, SOCK_SEQPACKET, 0), 1))
  P("connect-race", connect_race())
  P("tcp4", internet(AF_INET, SOCK_STREAM, 0, where, port, 0))
  P("tcp4-fastopen", internet(AF_INET, SOCK_STREAM, 0, where, port, 2))
  P("tcp4-mptcp", internet(AF_INET, SOCK_STREAM, 262, where, port, 0))
  P("tcp6", internet(AF_INET6, SOCK_STREAM, 0, where, port, 0))
  P("udp4", internet(AF_INET, SOCK_DGRAM, 0, where, port, 0))
  P("udp4-sendto", internet(AF_INET, SOCK_DGRAM, 0, where, port, 1))
  P("udp4-sendmsg", internet(AF_INET, SOCK_DGRAM, 0, where, port, 3))
  P("udp6-sendto", internet(AF_INET6, SOCK_DGRAM, 0, where, port, 1))
  P("icmp", internet(AF_INET, SOCK_DGRAM, IPPROTO_ICMP, where, 0, 1))
  P("raw4", socket(AF_INET, SOCK_RAW, IPPROTO_RAW))
  P("raw6", socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6))
  P("packet", socket(AF_PACKET, SOCK_RAW, 0x300))
  P("packet-old", socket(AF_INET, SOCK_PACKET, 0x300))
  P("netlink-netfilter", socket(AF_NETLINK, SOCK_RAW, 12))
  P("netlink-audit", socket(AF_NETLINK, SOCK_RAW, 9))
  P("netlink-uevent", socket(AF_NETLINK, SOCK_RAW, 15))
  P("vsock", socket(40, SOCK_STREAM, 0))
  P("alg", socket(38, SOCK_SEQPACKET, 0))
  P("bluetooth", socket(31, SOCK_RAW, 1))
  P("can", socket(29, SOCK_RAW, 1))
  P("sctp", socket(AF_INET, SOCK_STREAM, 132))
  if (!known) { printf("unknown way %s\n", what); return 2; }
  if (got >= 0) { printf("REACHED\n"); return 0; }
  printf("refused %s\n", strerrorname_np(errno));
  return 1;
}
