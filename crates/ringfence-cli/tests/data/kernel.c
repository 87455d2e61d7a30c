// Asks the kernel for things no sandboxed program may have. One name per run.
// Prints "ALLOWED" when the kernel says yes, else "refused ERRNO".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fspick 433
#endif
#define SYS_clone3_ 435
#define SYS_pidfd_open_ 434
#define SYS_pidfd_getfd_ 438
#define SYS_mount_setattr_ 442

static long unshare_(int flags) { return unshare(flags); }

static long clone_flags(unsigned long flags) {
  long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid(pid, 0, 0);
  return pid;
}

static long clone3_flags(uint64_t flags) {
  uint64_t args[11] = {flags, 0, 0, 0, SIGCHLD};
  long pid = syscall(SYS_clone3_, args, sizeof args);
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid(pid, 0, 0);
  return pid;
}

static long join(const char *path) {
  int fd = open(path, O_RDONLY);
  return fd < 0 ? -1 : setns(fd, 0);
}

static long open_for(const char *path, int flags) { return open(path, flags); }

// Reading counts, not only opening.
static long read_some(const char *path) {
  char buffer[16];
  int fd = open(path, O_RDONLY);
  return fd < 0 ? -1 : read(fd, buffer, sizeof buffer);
}

static long write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY);
  return fd < 0 ? -1 : write(fd, text, strlen(text));
}

static long vm_of(long number, int pid) {
  char here[8] = {0};
  struct iovec local = {here, 8}, remote = {(void *)0x400000, 8};
  long got = syscall(number, pid, &local, 1, &remote, 1, 0);
  return got < 0 && errno == EFAULT ? 0 : got;
}

static long steal(int which) {
  int pidfd = syscall(SYS_pidfd_open_, 1, 0);
  return pidfd < 0 ? -1 : syscall(SYS_pidfd_getfd_, pidfd, which, 0);
}

static long handle(int by_handle) {
  struct { struct file_handle head; char rest[128]; } h;
  int id;
  h.head.handle_bytes = 128;
  if (syscall(SYS_name_to_handle_at, AT_FDCWD, ".", &h, &id, 0) < 0 && !by_handle) return -1;
  if (!by_handle) return 0;
  h.head.handle_bytes = 8;
  h.head.handle_type = 1;
  long fd = syscall(SYS_open_by_handle_at, AT_FDCWD, &h, O_RDONLY);
  return fd < 0 && errno == ESTALE ? 0 : fd;
}

// A terminal of our own, made the controlling one, so that only the filter can say no.
static long on_terminal(unsigned long request, void *argument) {
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || unlockpt(master)) return -1;
  int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (slave < 0) return -1;
  pid_t pid = fork();
  if (pid == 0) {
    setsid();
    ioctl(slave, TIOCSCTTY, 0);
    long got = ioctl(slave, request, argument);
    // Without the filter newer kernels say EIO (switched off) or ENOTTY, never EPERM.
    _exit(got < 0 && errno == EPERM ? 1 : 0);
  }
  int status;
  waitpid(pid, &status, 0);
  errno = EPERM;
  return WEXITSTATUS(status) ? -1 : 0;
}

static long i386_getpid(void) {
  // A foreign call either fails or ends the process; both are told by the child.
  pid_t pid = fork();
  if (pid == 0) {
    long got = 20;
    __asm__ volatile("int $0x80" : "+a"(got) : : "memory", "r8", "r9", "r10", "r11");
    _exit((int)got == getpid() ? 0 : 1);
  }
  int status;
  waitpid(pid, &status, 0);
  errno = ENOSYS;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static long i386_mkdir(const char *path) {
  // The path must lie below 4 GiB to be named by a 32-bit register.
  char *low = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (low == MAP_FAILED) return -1;
  strcpy(low, path);
  pid_t pid = fork();
  if (pid == 0) {
    long got = 39;
    __asm__ volatile("int $0x80" : "+a"(got) : "b"(low), "c"(0777) : "memory", "r8", "r9", "r10", "r11");
    _exit((int)got == 0 ? 0 : 1);
  }
  int status;
  waitpid(pid, &status, 0);
  errno = ENOSYS;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static long x32_getpid(void) {
  long got = syscall(0x40000000 | SYS_getpid);
  return got == getpid() ? 0 : -1;
}

static long descriptors(void) {
  for (int fd = 3; fd < 4096; fd++)
    if (fcntl(fd, F_GETFD) >= 0) return fd;
  errno = EBADF;
  return -1;
}

static long raise_limit(void) {
  struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  return setrlimit(RLIMIT_CORE, &limit);
}

static long raise_ambient(void) { return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0); }

static long key(long number) {
  if (number == SYS_keyctl) return syscall(number, 0, -3, 0);
  if (number == SYS_add_key) return syscall(number, "user", "ringfence-test", "x", 1, -3);
  return syscall(number, "user", "ringfence-test", 0, -3);
}

static long uring(void) {
  char params[120] = {0};
  return syscall(425, 2, params);
}

static long bpf_map(void) {
  uint32_t attributes[18] = {2 /* array */, 4, 4, 1};
  return syscall(SYS_bpf, 0, attributes, sizeof attributes);
}

static long perf(void) {
  char attributes[128] = {0};
  *(uint32_t *)attributes = 1;
  *(uint32_t *)(attributes + 4) = 128;
  return syscall(SYS_perf_event_open, attributes, 0, -1, -1, 0);
}

static long ldt(void) { char entry[16]; return syscall(SYS_modify_ldt, 0, entry, 16); }

struct probe { const char *name; long (*run)(void); };
#define P(label, code) if (!strcmp(name, label)) { got = (code); known = 1; }

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";
  long got = -1;
  int known = 0;
  P("unshare-user", unshare_(CLONE_NEWUSER))
  P("unshare-mount", unshare_(CLONE_NEWNS))
  P("unshare-user-and-mount", unshare_(CLONE_NEWUSER | CLONE_NEWNS))
  P("unshare-net", unshare_(CLONE_NEWNET))
  P("unshare-pid", unshare_(CLONE_NEWPID))
  P("unshare-time", unshare_(0x80))
  P("clone-user", clone_flags(CLONE_NEWUSER))
  P("clone-user-and-pid", clone_flags(CLONE_NEWUSER | CLONE_NEWPID))
  P("clone3-user", clone3_flags(CLONE_NEWUSER))
  P("clone3-plain", clone3_flags(0))
  P("setns-own", join("/proc/self/ns/mnt"))
  P("setns-own-user", join("/proc/self/ns/user"))
  P("setns-init", join("/proc/1/ns/mnt"))
  P("mount-tmpfs", mount("tmpfs", "/tmp", "tmpfs", 0, 0))
  P("mount-bind", mount("/", "/tmp", 0, MS_BIND, 0))
  P("mount-remount", mount(0, arg, 0, MS_REMOUNT | MS_BIND, 0))
  P("mount-proc", mount("proc", "/proc", "proc", 0, 0))
  P("umount", umount2(arg, MNT_DETACH))
  P("pivot-root", syscall(SYS_pivot_root, ".", "."))
  P("chroot", chroot("."))
  P("open-tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* clone */))
  P("open-tree-plain", syscall(SYS_open_tree, AT_FDCWD, arg, 0))
  P("move-mount", syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/var/tmp", 0))
  P("fsopen", syscall(SYS_fsopen, "tmpfs", 0))
  P("fspick", syscall(SYS_fspick, AT_FDCWD, "/", 0))
  P("mount-setattr", ({ uint64_t a[4] = {0, 1, 0, 0}; syscall(SYS_mount_setattr_, AT_FDCWD, arg, 0, a, 32); }))
  P("ptrace-attach-init", ptrace(PTRACE_ATTACH, 1, 0, 0))
  P("ptrace-seize-init", ptrace(PTRACE_SEIZE, 1, 0, 0))
  P("ptrace-attach-parent", ptrace(PTRACE_ATTACH, getppid(), 0, 0))
  P("vm-read-init", vm_of(SYS_process_vm_readv, 1))
  P("vm-write-init", vm_of(SYS_process_vm_writev, 1))
  P("pidfd-getfd-init", steal(0))
  P("pidfd-getfd-init-3", steal(3))
  P("kcmp-init", syscall(SYS_kcmp, getpid(), 1, 2, 0, 0))
  P("prlimit-init", ({ struct rlimit l = {1, 1}; syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, &l, 0); }))
  P("read", read_some(arg))
  P("open-write", open_for(arg, O_WRONLY))
  P("open-path", open_for(arg, O_PATH))
  P("write", write_text(arg, argc > 3 ? argv[3] : "x"))
  P("io-uring", uring())
  P("bpf", bpf_map())
  P("keyctl", key(SYS_keyctl))
  P("add-key", key(SYS_add_key))
  P("request-key", key(SYS_request_key))
  P("userfaultfd", syscall(SYS_userfaultfd, 1))
  P("perf", perf())
  P("name-to-handle", handle(0))
  P("open-by-handle", handle(1))
  P("fanotify", syscall(SYS_fanotify_init, 0x200, 0))
  P("kexec", syscall(SYS_kexec_load, 0, 0, 0, 0))
  P("init-module", syscall(SYS_init_module, "", 0, ""))
  P("delete-module", syscall(SYS_delete_module, "no_such_module", 0))
  P("syslog", syscall(SYS_syslog, 10, 0, 0))
  P("iopl", syscall(SYS_iopl, 3))
  P("modify-ldt", ldt())
  P("personality", personality(0x0400000))
  P("no-randomisation", personality(0x0040000))
  P("ptrace-attach", ptrace(PTRACE_ATTACH, atoi(arg), 0, 0))
  P("ptrace-seize", ptrace(PTRACE_SEIZE, atoi(arg), 0, 0))
  P("vm-read", vm_of(SYS_process_vm_readv, atoi(arg)))
  P("renice", setpriority(PRIO_PROCESS, atoi(arg), 5))
  P("renice-user", setpriority(PRIO_USER, getuid(), 5))
  P("idle", ({ struct sched_param p = {0}; sched_setscheduler(atoi(arg), SCHED_IDLE, &p); }))
  P("idle-attr", ({ uint32_t a[12] = {48, SCHED_IDLE}; syscall(SYS_sched_setattr, atoi(arg), a, 0); }))
  P("affinity", ({ unsigned long m = ~0ul; syscall(SYS_sched_setaffinity, atoi(arg), sizeof m, &m); }))
  P("ioprio", syscall(SYS_ioprio_set, 1, atoi(arg), 3 << 13))
  P("ioprio-user", syscall(SYS_ioprio_set, 3, getuid(), 3 << 13))
  P("prlimit-look", ({ struct rlimit l; syscall(SYS_prlimit64, atoi(arg), RLIMIT_NOFILE, 0, &l); }))
  P("swapon", syscall(SYS_swapon, "/none", 0))
  P("acct", syscall(SYS_acct, 0))
  P("sethostname", sethostname("evil", 4))
  P("mknod-device", mknod("device", S_IFCHR | 0666, makedev(1, 3)))
  P("mknod-block", mknod("device", S_IFBLK | 0666, makedev(8, 0)))
  P("tiocsti", on_terminal(TIOCSTI, "x"))
  P("tioclinux", on_terminal(TIOCLINUX, "\x02"))
  P("tiocsti-high-bits", on_terminal(0xdead00000000ul | TIOCSTI, "x"))
  P("i386", i386_getpid())
  P("i386-mkdir", i386_mkdir(arg))
  P("x32", x32_getpid())
  P("x32-unshare", syscall(0x40000000 | SYS_unshare, CLONE_NEWUSER))
  P("descriptor-above-2", descriptors())
  P("raise-limit", raise_limit())
  P("raise-ambient", raise_ambient())
  P("setuid-other", setuid(getuid() == 12345 ? 12346 : 12345))
  P("setgroups", ({ gid_t g = 0; syscall(SYS_setgroups, 1, &g); }))
  P("chmod", chmod(arg, 0777))
  P("chown", chown(arg, 12345, 12345))
  P("utime", utimensat(AT_FDCWD, arg, 0, 0))
  P("setxattr", syscall(SYS_setxattr, arg, "user.x", "x", 1, 0))
  P("truncate", truncate(arg, 0))
  P("link-from", link(arg, "linked"))
  P("exchange", syscall(SYS_renameat2, AT_FDCWD, arg, AT_FDCWD, argv[3], 2))
  P("kill", kill(atoi(arg), 0))
  P("tgkill", syscall(SYS_tgkill, atoi(arg), atoi(arg), 0))
  P("pidfd-open", syscall(SYS_pidfd_open_, atoi(arg), 0))
  if (!known) { printf("unknown probe %s\n", name); return 2; }
  if (got >= 0) { printf("ALLOWED\n"); return 0; }
  printf("refused %s\n", strerrorname_np(errno));
  return 1;
}
