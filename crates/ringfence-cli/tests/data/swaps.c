// Makes every mediated call while another thread swaps what it is about: descriptors by dup2, paths by renaming, linking
// and rewriting the memory they are read from, addresses by rewriting. Runs in a prepared directory.
//   swaps COUNT SECONDS SEED PORT
// Ends after COUNT calls or SECONDS, whichever comes later. Prints the number of calls, how many succeeded, how many read
// something denied, and which.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define SLOT 90
#define SOCKET 91
#define COUNT(list) (sizeof(list) / sizeof *(list))

static volatile int over;
static char path[64], other_path[64];
static struct sockaddr_storage address;
static volatile socklen_t length;
static int port;
static int held[16], held_count, sockets[4], leaks;
static char leaked[256];

static const char *PATHS[] = {"ok", "a", ".env", "n/.git/config", "n/.git/hooks/x", "door/config", "door/.env", "link",
                              "/proc/self/fd/90", "/dev/fd/90", "n/../.env", "d/.env", "n/.git", "other/config", "s"};
static const char *LINKS[] = {"ok", ".env", "n/.git/config", "n/.git", "/proc/self/fd/90"};

static unsigned long next(unsigned long *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void put_address(unsigned long which) {
  struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  struct sockaddr_un un = {.sun_family = AF_UNIX};
  strcpy(un.sun_path, which % 3 == 0 ? "late.sock" : which % 3 == 1 ? "own.sock" : "door/late.sock");
  if (which % 2) {
    memcpy(&address, &in, sizeof in);
    length = sizeof in;
  } else {
    memcpy(&address, &un, sizeof un);
    length = sizeof un;
  }
}

static void *swap(void *seed) {
  unsigned long state = *(unsigned long *)seed | 1;
  while (!over) {
    unsigned long dice = next(&state);
    const char *to = PATHS[(dice >> 8) % COUNT(PATHS)];
    switch (dice % 8) {
      case 0: dup2(held[(dice >> 8) % held_count], SLOT); break;
      case 1: dup2(sockets[(dice >> 8) % 4], SOCKET); break;
      case 2: memcpy(path, to, strlen(to) + 1); break;
      case 3: memcpy(other_path, to, strlen(to) + 1); break;
      case 4: put_address(dice >> 8); break;
      case 5: syscall(SYS_renameat2, AT_FDCWD, "door", AT_FDCWD, "other", 2); break;
      case 6:
        unlink("link");
        symlink(LINKS[(dice >> 8) % COUNT(LINKS)], "link");
        break;
      default:  // For some time only what the kernel does by itself, which is fast.
        for (int n = 0; n < 200; n++) {
          dup2(held[(dice + n) % held_count], SLOT);
          dup2(sockets[(dice + n) % 4], SOCKET);
          put_address(dice + n);
          to = PATHS[(dice + n) % COUNT(PATHS)];
          memcpy(path, to, strlen(to) + 1);
        }
    }
  }
  return NULL;
}

// Whatever can be read through a descriptor is looked at, and whatever can be written is.
static void use(int fd, const char *call) {
  char bytes[256] = "";
  ssize_t got = pread(fd, bytes, sizeof bytes - 1, 0);
  if (got > 0 && memmem(bytes, got, "canary", 6)) {
    leaks++;
    snprintf(leaked, sizeof leaked, "%s", call);
  }
  if (write(fd, "evil", 4) < 0 && ftruncate(fd, 0) < 0) {
  }
  close(fd);
}

static int opened(int fd, const char *call) {
  if (fd < 0) return 0;
  use(fd, call);
  return 1;
}

static int connected(void) {
  int made = connect(SOCKET, (struct sockaddr *)&address, length);
  if (made == 0 || errno == EINPROGRESS) send(SOCKET, "evil", 4, MSG_DONTWAIT | MSG_NOSIGNAL);
  for (int n = 0; n < 4; n++) send(sockets[n], "evil", 4, MSG_DONTWAIT | MSG_NOSIGNAL);
  return made == 0;
}

static void renew_sockets(void) {
  for (int n = 0; n < 4; n++) {
    int family = n % 2 ? AF_UNIX : AF_INET, kind = SOCK_STREAM | (n < 2 ? SOCK_NONBLOCK : 0);
    int fresh = socket(family, kind, 0);
    struct timeval soon = {0, 1000};
    setsockopt(fresh, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    dup2(fresh, sockets[n]);
    close(fresh);
  }
}

static int call(unsigned long dice) {
  static const int FLAGS[] = {O_RDONLY, O_RDONLY, O_RDWR, O_WRONLY | O_CREAT, O_RDWR | O_CREAT, O_WRONLY | O_TRUNC,
                              O_WRONLY | O_APPEND, O_RDONLY | O_NOFOLLOW, O_RDONLY | O_DIRECTORY};
  int flags = FLAGS[(dice >> 8) % COUNT(FLAGS)] | O_NONBLOCK;
  int at = dice & 0x10000 ? AT_FDCWD : SLOT;
  struct { unsigned long long flags, mode, resolve; } how = {flags, flags & O_CREAT ? 0644 : 0, dice & 0x20000 ? 8 : 0};
  struct timespec times[2] = {{1, 0}, {1, 0}};
  switch (dice % 28) {
    case 0: return opened(open(path, flags, 0644), "open");
    case 1: return opened(openat(at, path, flags, 0644), "openat");
    case 2: return opened(syscall(SYS_openat2, at, path, &how, sizeof how), "openat2");
    case 3: return opened(openat(SLOT, "config", flags, 0644), "openat config");
    case 4: return opened(openat(SLOT, ".env", flags, 0644), "openat .env");
    case 5: return opened(open("/proc/self/fd/90", flags), "open fd");
    case 6:
      memcpy(other_path, "/proc/self/fd/90", 17);
      return opened(syscall(SYS_openat2, AT_FDCWD, other_path, &how, sizeof how), "openat2 fd");
    case 7: return opened(open("link", flags), "open link");
    case 8: return truncate(path, 0) == 0;
    case 9: return mkdirat(at, path, 0755) == 0;
    case 10: return mknodat(at, path, S_IFREG | 0644, 0) == 0;
    case 11: return symlinkat(other_path, at, path) == 0;
    case 12: return linkat(at, path, AT_FDCWD, other_path, 0) == 0;
    case 13: return linkat(SLOT, "", AT_FDCWD, other_path, AT_EMPTY_PATH) == 0;
    case 14: return linkat(AT_FDCWD, "/proc/self/fd/90", AT_FDCWD, other_path, AT_SYMLINK_FOLLOW) == 0;
    case 15: return renameat(at, path, AT_FDCWD, other_path) == 0;
    case 16: return syscall(SYS_renameat2, AT_FDCWD, path, at, other_path, 2) == 0;
    case 17: return unlinkat(at, path, 0) == 0;
    case 18: return unlinkat(SLOT, "config", 0) == 0;
    case 19: return fchmodat(at, path, 0777, 0) == 0;
    case 20: return fchmod(SLOT, 0777) == 0;
    case 21: return utimensat(at, path, times, 0) == 0;
    case 22: return futimens(SLOT, times) == 0;
    case 23: return setxattr(path, "user.evil", "evil", 4, 0) == 0;
    case 24: return fsetxattr(SLOT, "user.evil", "evil", 4, 0) == 0;
    case 25: return faccessat(at, path, R_OK, 0) == 0;
    case 26: return bind(SOCKET, (struct sockaddr *)&address, length) == 0;
    default: return connected();
  }
}

static void hold(const char *name, int flags) {
  int fd = open(name, flags);
  if (fd >= 0) held[held_count++] = fcntl(fd, F_DUPFD, 100);
}

int main(int count, char **arguments) {
  if (count != 5) return 2;
  long calls = atol(arguments[1]), seconds = atol(arguments[2]);
  unsigned long state = strtoul(arguments[3], NULL, 10) * 2654435761u | 1;
  port = atoi(arguments[4]);
  signal(SIGPIPE, SIG_IGN);
  mkdir("d", 0755);
  mkdir("door", 0755);
  symlink("n/.git", "other");
  close(open("ok", O_WRONLY | O_CREAT, 0644));
  hold(".", O_RDONLY | O_DIRECTORY);
  hold("n", O_RDONLY | O_DIRECTORY);
  hold("n/.git", O_RDONLY | O_DIRECTORY);
  hold("n/.git/config", O_RDONLY);
  hold("n/.git/config", O_PATH);
  hold(".env", O_PATH);
  hold("ok", O_RDWR);
  hold("/etc/hostname", O_RDONLY);
  hold(".", O_TMPFILE | O_RDWR);
  hold("/dev/null", O_RDWR);
  for (int n = 0; n < 4; n++) sockets[n] = fcntl(0, F_DUPFD, 120);
  renew_sockets();
  struct sockaddr_un own = {.sun_family = AF_UNIX, .sun_path = "own.sock"};
  int server = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (bind(server, (struct sockaddr *)&own, sizeof own) == 0) listen(server, 100);
  strcpy(path, "ok");
  strcpy(other_path, "a");
  put_address(1);
  dup2(held[0], SLOT);
  dup2(sockets[0], SOCKET);
  pthread_t thread;
  unsigned long seed = state;
  if (pthread_create(&thread, NULL, swap, &seed)) return 2;
  struct timespec begun, now;
  clock_gettime(CLOCK_MONOTONIC, &begun);
  long made = 0, succeeded = 0;
  do {
    unsigned long dice = next(&state);
    succeeded += call(dice >> 4);
    if (++made % 64 == 0) {
      int accepted;
      renew_sockets();
      while ((accepted = accept(server, NULL, NULL)) >= 0) close(accepted);
      close(open("ok", O_WRONLY | O_CREAT, 0644));
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (made < calls || now.tv_sec - begun.tv_sec < seconds);
  over = 1;
  pthread_join(thread, NULL);
  printf("%ld calls %ld succeeded %d leaks %s\n", made, succeeded, leaks, leaked);
  return 0;
}
