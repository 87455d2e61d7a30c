/* What the references share: the clock, a filter that asks, and handing its listener to the parent.
 *
 * The references are the limit that the bench measures Ringfence against: each makes the system calls that its
 * purpose needs and nothing else. They check what they did, and decide nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Newer than the headers of some systems. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif

/* Says on standard output, as JSON, what failed, as the other programs of the bench do. */
static void need(int ok, const char *what) {
    if (ok) return;
    dprintf(1, "{\"failed\":\"%s: %s\"}\n", what, strerror(errno));
    _exit(1);
}

static inline long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* Memory that this process and its children see alike. */
static inline void *shared(size_t size) {
    void *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    need(memory != MAP_FAILED, "mmap");
    return memory;
}

/* Keeps this process and its children on one processor, without which waking the other one costs more than the rest. */
static inline void stay_here(void) {
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    need(!sched_setaffinity(0, sizeof here, &here), "staying on one processor");
}

static void pass(int socket, int fd) {
    char byte = 0, control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    need(sendmsg(socket, &message, 0) == 1, "passing the listener");
}

static int passed(int socket) {
    int fd = -1;
    char byte, control[CMSG_SPACE(sizeof fd)];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    need(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message), "getting the listener");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* In the child: every one of these calls waits for the parent from here on. Returns once it listens. */
static void ask_about(int socket, const int *calls, int count) {
    struct sock_filter filter[64];
    int at = 0;
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++)
        filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], count - i, 0);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {at, filter};
    need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
    need(listener >= 0, "seccomp");
    char byte;
    pass(socket, listener);
    close(listener);
    need(read(socket, &byte, 1) == 1, "waiting for the parent");
}

/* In the parent: the other side. Who is answered is woken on the processor of the one who answers. */
static int listen_to(int socket) {
    int listener = passed(socket);
    need(!ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP), "SYNC_WAKE_UP");
    need(write(socket, "", 1) == 1, "letting the child go on");
    return listener;
}

static inline int receive(int listener, struct seccomp_notif *call) {
    memset(call, 0, sizeof *call);
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, call);
}

static inline void read_path(const struct seccomp_notif *call, char *path, size_t size) {
    struct iovec here = {path, size}, there = {(void *)call->data.args[1], size};
    process_vm_readv(call->pid, &here, 1, &there, 1, 0);
}

static inline int let_continue(int listener, __u64 id) {
    struct seccomp_notif_resp answer = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

static inline int hand_over(int listener, __u64 id, int fd) {
    struct seccomp_notif_addfd gift = {.id = id, .srcfd = fd, .newfd_flags = O_CLOEXEC, .flags = SECCOMP_ADDFD_FLAG_SEND};
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &gift);
}
