/* opens continue|give FILE COUNT: what one open costs under the least supervisor there can be.
 *
 * continue: it reads the path, asks for the caller's directory, makes sure that the caller still waits, and lets the
 *           call go on. Nothing is decided, and the kernel reads the path again: a limit, not a protection.
 * give:     it opens the file itself and hands the descriptor over, which is what a decision can hold for. Both sides
 *           are kept on one processor: the kernel wakes who gets a descriptor wherever it likes. */
#include "common.h"

static int by_size(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return x < y ? -1 : x > y;
}

static void open_often(int socket, const char *file, long *times, int count) {
    static const int calls[] = {SYS_openat};
    ask_about(socket, calls, 1);
    for (int i = 0; i < count; i++) {
        long start = now();
        int fd = openat(AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
        times[i] = now() - start;
        need(fd >= 0, "opening");
        close(fd);
    }
}

int main(int argc, char **argv) {
    need(argc == 4, "usage: opens continue|give FILE COUNT");
    int give = !strcmp(argv[1], "give"), count = atoi(argv[3]), sockets[2];
    long *times = shared(count * sizeof *times);
    need(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), "socketpair");
    if (give) stay_here();
    pid_t child = fork();
    need(child >= 0, "fork");
    if (!child) {
        open_often(sockets[1], argv[2], times, count);
        _exit(0);
    }
    int listener = listen_to(sockets[0]);
    char path[4096], link[64], directory[4096];
    for (int i = 0; i < count; i++) {
        struct seccomp_notif call;
        need(!receive(listener, &call), "receiving");
        read_path(&call, path, 256);
        if (give) {
            struct stat stat;
            int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
            need(fd >= 0 && !fstat(fd, &stat) && hand_over(listener, call.id, fd) >= 0, "handing over");
            close(fd);
        } else {
            snprintf(link, sizeof link, "/proc/%d/cwd", call.pid);
            need(readlink(link, directory, sizeof directory) > 0, "reading the directory");
            need(!ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &call.id), "the caller is gone");
            need(!let_continue(listener, call.id), "letting go on");
        }
    }
    int status;
    need(waitpid(child, &status, 0) == child && status == 0, "the child");
    double sum = 0;
    for (int i = 0; i < count; i++) sum += times[i];
    qsort(times, count, sizeof *times, by_size);
    printf("{\"p50\":%ld,\"mean\":%.0f,\"p99\":%ld}\n", times[count / 2], sum / count, times[count * 99L / 100]);
    return 0;
}
