/* start all|none PROJECT HOME [SHOWN…] -- COMMAND…: the least that fences a command in as Ringfence does.
 *
 * Six namespaces, an empty root with some ten binds, /dev, /proc, the loopback up, no capabilities, Landlock, a filter, a
 * first process that reaps, and (with `all`) a second filter whose every open, program, change and connection waits for this
 * process, which lets all of them go on after the same look as in opens.c. It knows no policy and refuses nothing
 * that the namespaces do not. */
#include "common.h"
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>

static const int CALLS[] = {SYS_openat, SYS_openat2, SYS_execve, SYS_execveat, SYS_unlinkat, SYS_renameat2, SYS_mkdirat,
    SYS_linkat, SYS_symlinkat, SYS_fchmodat, SYS_fchownat, SYS_truncate, SYS_mknodat, SYS_connect, SYS_bind,
#ifdef SYS_open
    SYS_open, SYS_creat, SYS_unlink, SYS_rename, SYS_renameat, SYS_mkdir, SYS_rmdir, SYS_link, SYS_symlink, SYS_chmod,
    SYS_chown, SYS_lchown, SYS_mknod,
#endif
};

/* What no command needs, and attacks on the kernel do. */
static const int DENIED[] = {SYS_mount, SYS_umount2, SYS_pivot_root, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsmount,
    SYS_fsconfig, SYS_fspick, SYS_mount_setattr, SYS_unshare, SYS_setns, SYS_bpf, SYS_keyctl, SYS_add_key, SYS_request_key,
    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_open_by_handle_at, SYS_name_to_handle_at,
    SYS_perf_event_open, SYS_userfaultfd, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_swapon,
    SYS_swapoff, SYS_reboot, SYS_acct, SYS_quotactl, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace};

static void deny(void) {
    enum { COUNT = sizeof DENIED / sizeof *DENIED };
    struct sock_filter filter[COUNT + 3];
    filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < COUNT; i++)
        filter[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DENIED[i], COUNT - i, 0);
    filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_fprog program = {COUNT + 3, filter};
    need(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp");
}

static void write_text(const char *file, const char *text) {
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    need(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), file);
    close(fd);
}

/* Makes the directories on the way to `path` in the new root, which is the current directory. */
static void make_way(const char *path) {
    char part[4096];
    for (const char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path - 1), path + 1);
        mkdir(part, 0755);
    }
    mkdir(path + 1, 0755);
}

static void bind_tree(const char *path, __u64 attributes) {
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | attributes};
    int tree = syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    need(tree >= 0, path);
    need(!syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr), path);
    need(!syscall(SYS_move_mount, tree, "", AT_FDCWD, path + 1, MOVE_MOUNT_F_EMPTY_PATH), path);
    close(tree);
}

static void view(const char *project, const char *home, char **shown) {
    static const char *system[] = {"/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64"};
    static const char *devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
    char path[64], link[256];
    need(!mount(0, "/", 0, MS_REC | MS_SLAVE, 0), "mounts of its own");
    need(!mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") && !chdir("/tmp"), "a new root");
    for (size_t i = 0; i < sizeof system / sizeof *system; i++) {
        ssize_t length = readlink(system[i], link, sizeof link - 1);
        struct stat stat;
        if (length > 0) {
            link[length] = 0;
            need(!symlink(link, system[i] + 1), system[i]);
        } else if (!lstat(system[i], &stat)) {
            mkdir(system[i] + 1, 0755);
            bind_tree(system[i], MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV);
        }
    }
    need(!mkdir("dev", 0755) && !mount("none", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755"), "/dev");
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        snprintf(path, sizeof path, "/dev/%s", devices[i]);
        close(open(path + 1, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
        bind_tree(path, MOUNT_ATTR_NOEXEC);
    }
    need(!mkdir("dev/pts", 0755) && !mkdir("dev/shm", 01777), "/dev/pts");
    need(!mount("none", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"), "devpts");
    need(!mount("none", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"), "/dev/shm");
    need(!mkdir("proc", 0755) && !mount("none", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, 0), "/proc");
    need(!mkdir("tmp", 01777) && !mount("none", "tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"), "/tmp");
    make_way(home);
    need(!mount("none", home + 1, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755"), "a home");
    make_way(project);
    bind_tree(project, MOUNT_ATTR_NODEV);
    for (; *shown; shown++) {
        make_way(*shown);
        bind_tree(*shown, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV);
    }
    need(!syscall(SYS_pivot_root, ".", ".") && !umount2(".", MNT_DETACH) && !chdir(project), "pivot_root");
}

static void loopback_up(void) {
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    need(socket_fd >= 0 && !ioctl(socket_fd, 0x8914 /* SIOCSIFFLAGS */, &request), "loopback");
    close(socket_fd);
}

static void no_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {0};
    for (int i = 0; prctl(PR_CAPBSET_DROP, i, 0, 0, 0) == 0; i++);
    need(!syscall(SYS_capset, &header, none), "capset");
}

/* Some twenty rules: all of the system to be read, and three places to be written. */
static void landlock(const char *project, const char *home, char **shown) {
    static const char *paths[] = {"/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/usr/bin", "/usr/lib",
        "/usr/share", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm",
        "/dev/pts", "/tmp"};
    enum { WRITABLE_FROM = 10 };
    long version = syscall(SYS_landlock_create_ruleset, 0, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1) return;
    __u64 all = version >= 5 ? (1 << 16) - 1 : version >= 3 ? (1 << 15) - 1 : version == 2 ? (1 << 14) - 1 : (1 << 13) - 1;
    const __u64 reading = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    /* Of files: execute, write, read, truncate, ioctl. */
    const __u64 of_files = 1 | 2 | 4 | 1 << 14 | 1 << 15;
    struct landlock_ruleset_attr handled = {.handled_access_fs = all};
    int rules = syscall(SYS_landlock_create_ruleset, &handled, sizeof handled.handled_access_fs, 0);
    need(rules >= 0, "landlock");
    for (int i = -2; i < (int)(sizeof paths / sizeof *paths) || *shown; i++) {
        const char *path = i == -2 ? project : i == -1 ? home : i < (int)(sizeof paths / sizeof *paths) ? paths[i] : *shown++;
        struct landlock_path_beneath_attr rule = {.parent_fd = open(path, O_PATH | O_CLOEXEC)};
        struct stat stat;
        if (rule.parent_fd < 0) continue;
        int writable = i < 0 || (i >= WRITABLE_FROM && i < (int)(sizeof paths / sizeof *paths));
        rule.allowed_access = writable ? all : reading;
        if (!fstat(rule.parent_fd, &stat) && !S_ISDIR(stat.st_mode)) rule.allowed_access &= of_files;
        need(!syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0), path);
        close(rule.parent_fd);
    }
    need(!syscall(SYS_landlock_restrict_self, rules, 0), "landlock_restrict_self");
    close(rules);
}

/* The first process: reaps until the command has ended, and ends as it did. */
static int reap(pid_t command) {
    int status;
    for (pid_t ended; (ended = wait(&status)) > 0;)
        if (ended == command) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 1;
}

static void inside(int socket, int ask, char **argv, char **shown, char **command, int user, int group) {
    char text[64];
    need(!prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "pdeathsig");
    write_text("/proc/self/setgroups", "deny");
    snprintf(text, sizeof text, "%d %d 1", user, user), write_text("/proc/self/uid_map", text);
    snprintf(text, sizeof text, "%d %d 1", group, group), write_text("/proc/self/gid_map", text);
    view(argv[2], argv[3], shown);
    loopback_up();
    no_capabilities();
    need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    pid_t payload = fork();
    need(payload >= 0, "fork");
    if (payload) {
        close(socket);
        _exit(reap(payload));
    }
    landlock(argv[2], argv[3], shown);
    deny();
    if (ask) ask_about(socket, CALLS, sizeof CALLS / sizeof *CALLS);
    execvp(command[0], command);
    need(0, command[0]);
}

static void serve(int listener, int ended) {
    char path[4096], link[64], directory[4096];
    struct pollfd fds[2] = {{listener, POLLIN, 0}, {ended, POLLIN, 0}};
    struct seccomp_notif call;
    while (poll(fds, 2, -1) > 0 && !fds[1].revents) {
        if (fds[0].revents & POLLHUP) fds[0].fd = -1;
        if (!(fds[0].revents & POLLIN) || receive(listener, &call)) continue;
        read_path(&call, path, 256);
        snprintf(link, sizeof link, "/proc/%d/cwd", call.pid);
        if (readlink(link, directory, sizeof directory) > 0 && !ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &call.id))
            let_continue(listener, call.id);
    }
}

int main(int argc, char **argv) {
    char **command = argv + 4;
    while (argc > 4 && *command && strcmp(*command, "--")) command++;
    need(argc > 4 && *command && command[1], "usage: start all|none PROJECT HOME [SHOWN…] -- COMMAND…");
    *command++ = 0;
    int ask = !strcmp(argv[1], "all"), sockets[2], ended = -1, user = getuid(), group = getgid();
    need(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), "socketpair");
    struct clone_args args = {.exit_signal = SIGCHLD, .pidfd = (__u64)&ended, .flags = CLONE_PIDFD | CLONE_NEWUSER | CLONE_NEWNS
        | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS};
    pid_t child = syscall(SYS_clone3, &args, sizeof args);
    need(child >= 0, "clone3");
    if (!child) inside(sockets[1], ask, argv, argv + 4, command, user, group);
    close(sockets[1]);
    if (ask) serve(listen_to(sockets[0]), ended);
    int status;
    need(waitpid(child, &status, 0) == child, "waiting");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
