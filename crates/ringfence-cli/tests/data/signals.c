/* Makes mediated calls while signals come that nobody asked to restart calls for, and counts how many of each return what
   they never return on a host. Prints a line for each: name, calls, interrupted ones, other failures. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int over;
static pthread_t target;

static void handler(int number) { (void)number; }

static void *storm(void *pause) {
  struct timespec wait = {0, *(long *)pause};
  while (!over) {
    pthread_kill(target, SIGUSR1);
    nanosleep(&wait, NULL);
  }
  return NULL;
}

static int reap(pid_t child) {
  if (child < 0) return -1;
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
  }
  return 0;
}

static int make_child(void) {
  pid_t child = fork();
  if (child == 0) _exit(0);
  return reap(child);
}

static int raw_fork(long number) {
  /* Threads of the parent do not exist in the child, which only ends. */
  pid_t child = (pid_t)syscall(number, number == SYS_clone ? SIGCHLD : 0, 0, 0, 0, 0);
  if (child == 0) syscall(SYS_exit_group, 0);
  return reap(child);
}

static int by_vfork(void) {
  pid_t child = vfork();
  if (child == 0) _exit(0);
  return reap(child);
}

static int by_clone(void) { return raw_fork(SYS_clone); }

static void *nothing(void *argument) { return argument; }

static int make_thread(void) {
  pthread_t thread;
  int error = pthread_create(&thread, NULL, nothing, NULL);
  if (error) {
    errno = error;
    return -1;
  }
  return pthread_join(thread, NULL);
}

static int look_affinity(void) {
  unsigned char set[128];
  return syscall(SYS_sched_getaffinity, 0, sizeof set, set) < 0 ? -1 : 0;
}

static int open_read(void) {
  int fd = open("plain", O_RDONLY);
  return fd < 0 ? -1 : close(fd);
}

static int open_write(void) {
  int fd = open("written", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  return fd < 0 ? -1 : close(fd);
}

static int names(void) {
  if (mkdir("made", 0755) && errno == EINTR) return -1;
  if (rename("made", "moved") && errno == EINTR) return -1;
  if (rmdir("moved") && errno == EINTR) return -1;
  return rmdir("made") && errno == EINTR ? -1 : 0;
}

static int mode(void) { return chmod("plain", 0644); }

static int ask(void) { return access("plain", R_OK); }

static int local(void) {
  struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "nobody"};
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  int made = connect(fd, (struct sockaddr *)&to, sizeof to);
  int error = errno;
  close(fd);
  errno = error;
  return made && error == EINTR ? -1 : 0;
}

static const struct {
  const char *name;
  int (*call)(void);
} CALLS[] = {{"fork", make_child},   {"vfork", by_vfork},      {"clone", by_clone}, {"thread", make_thread},
             {"affinity", look_affinity}, {"open", open_read}, {"create", open_write}, {"names", names},
             {"chmod", mode},        {"access", ask},          {"connect", local}};

/* Four processes that make another one of themselves and end, again and again. */
static int run_away(void) {
  for (int n = 0; n < 2; n++) fork();
  for (;;)
    if (fork() > 0) _exit(0);
}

int main(int count, char **arguments) {
  if (count > 1 && strcmp(arguments[1], "run") == 0) return run_away();
  int calls = count > 1 ? atoi(arguments[1]) : 1000;
  long pause = count > 2 ? atol(arguments[2]) : 20000;
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGUSR1, &action, NULL);
  target = pthread_self();
  close(open("plain", O_WRONLY | O_CREAT, 0644));
  pthread_t thread;
  if (pthread_create(&thread, NULL, storm, &pause)) return 1;
  for (unsigned i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
    int interrupted = 0, failed = 0;
    for (int n = 0; n < calls; n++) {
      if (CALLS[i].call() == 0) continue;
      if (errno == EINTR)
        interrupted++;
      else
        failed++;
    }
    printf("%s %d %d %d\n", CALLS[i].name, calls, interrupted, failed);
    fflush(stdout);
  }
  over = 1;
  return pthread_join(thread, NULL);
}
