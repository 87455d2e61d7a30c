/* approval DIRECTORY COUNT: from a yes to the return of the call that waited, by the least that grants it.
 *
 * The child has mounts of its own, in which DIRECTORY (with file0… and dir0… in it) shows empty directories only. The
 * parent keeps the host's mounts, in the same user namespace. A file is opened by it and handed over; a directory is
 * cloned, made read-only, attached in the child's mounts, and the call goes on. The yes comes when the call does. Both sides
 * are kept on one processor. */
#include "common.h"

enum { PATH = 4096 };

static void write_text(const char *file, const char *text) {
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    need(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), file);
    close(fd);
}

/* Opens everything once, each after a yes of the parent's. */
static void want(int socket, const char *outside, long *returned, int count) {
    static const int calls[] = {SYS_openat};
    char path[PATH];
    need(!unshare(CLONE_NEWNS), "mounts of its own");
    need(!mount("none", outside, "tmpfs", 0, "mode=755"), "covering the directory");
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/dir%d", outside, i);
        need(!mkdir(path, 0755), "making a place");
    }
    ask_about(socket, calls, 1);
    for (int i = 0; i < 2 * count; i++) {
        snprintf(path, sizeof path, i < count ? "%s/file%d" : "%s/dir%d", outside, i % count);
        int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
        returned[i] = now();
        need(fd >= 0, "opening");
        close(fd);
    }
}

static void give_file(int listener, __u64 id, const char *path) {
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    need(fd >= 0 && !fstat(fd, &stat), "opening for the child");
    need(!ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id), "the caller is gone");
    need(hand_over(listener, id, fd) >= 0, "handing over");
    close(fd);
}

static void show_directory(int listener, __u64 id, const char *path, int inside) {
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    int tree = syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    need(tree >= 0, "open_tree");
    need(!syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &read_only, sizeof read_only), "read-only");
    need(!setns(inside, CLONE_NEWNS), "entering the child's mounts");
    need(!syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH), "move_mount");
    need(!let_continue(listener, id), "letting go on");
    close(tree);
}

int main(int argc, char **argv) {
    need(argc == 3, "usage: approval DIRECTORY COUNT");
    int count = atoi(argv[2]), sockets[2], outer, inside = -1;
    long *returned = shared(2 * count * sizeof *returned), *answered = calloc(2 * count, sizeof *answered);
    char text[64], path[PATH];
    int user = getuid(), group = getgid();
    need(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), "socketpair");
    stay_here();
    need(!unshare(CLONE_NEWUSER | CLONE_NEWNS), "namespaces");
    write_text("/proc/self/setgroups", "deny");
    snprintf(text, sizeof text, "%d %d 1", user, user), write_text("/proc/self/uid_map", text);
    snprintf(text, sizeof text, "%d %d 1", group, group), write_text("/proc/self/gid_map", text);
    need(!mount(0, "/", 0, MS_REC | MS_SLAVE, 0), "mounts that the host does not see");
    need((outer = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)) >= 0, "its own mounts");
    pid_t child = fork();
    need(child >= 0, "fork");
    if (!child) {
        want(sockets[1], argv[1], returned, count);
        _exit(0);
    }
    int listener = listen_to(sockets[0]);
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", child);
    need((inside = open(path, O_RDONLY | O_CLOEXEC)) >= 0, "the child's mounts");
    for (int i = 0; i < 2 * count; i++) {
        struct seccomp_notif call;
        need(!receive(listener, &call), "receiving");
        read_path(&call, path, sizeof path);
        answered[i] = now();
        if (i < count) {
            give_file(listener, call.id, path);
        } else {
            show_directory(listener, call.id, path, inside);
            need(!setns(outer, CLONE_NEWNS), "going back");
        }
    }
    int status;
    need(waitpid(child, &status, 0) == child && status == 0, "the child");
    for (int i = 0; i < 2 * count; i++)
        printf("%s%ld", i == 0 ? "{\"file\":[" : i == count ? "],\"directory\":[" : ",", returned[i] - answered[i]);
    printf("]}\n");
    return 0;
}
