// Races against whoever looks at a path before the kernel does. Runs for SECONDS in a prepared directory.
//   races NAME SECONDS
// Prints what came of it; the test looks at the host itself.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

static volatile int stop;
static char path[4200];
static const char *harmless = "ok", *wanted = ".git/config";

// The memory the path is read from changes while the call is looked at. Both names have one length, so that
// only the letters change.
static void *flip(void *unused) {
  (void)unused;
  while (!stop) {
    memcpy(path, wanted, strlen(wanted) + 1);
    memcpy(path, harmless, strlen(harmless) + 1);
  }
  return 0;
}

// As flip, for what lies behind the pointer of an openat2.
struct how { unsigned long long flags, mode, resolve; };
static volatile struct how how;

static void *flip_how(void *unused) {
  (void)unused;
  while (!stop) {
    how.mode = 0644;
    how.flags = O_WRONLY | O_CREAT;
    how.mode = 0;
    how.flags = O_RDONLY;
  }
  return 0;
}

// A directory and a link to another take each other's place.
static void *swap(void *unused) {
  (void)unused;
  while (!stop) syscall(SYS_renameat2, AT_FDCWD, "door", AT_FDCWD, "other", 2);
  return 0;
}

// A link that leads to one file and to the other in turn.
static void *turn(void *unused) {
  (void)unused;
  while (!stop) {
    symlink(wanted, "turned");
    rename("turned", "link");
    symlink(harmless, "turned");
    rename("turned", "link");
  }
  return 0;
}

// Two links change places, again and again.
static void *exchange(void *unused) {
  (void)unused;
  while (!stop) syscall(SYS_renameat2, AT_FDCWD, "first", AT_FDCWD, "second", 2);
  return 0;
}

// Nobody changes anything: the name comes and goes outside.
static void *rest(void *unused) {
  (void)unused;
  return 0;
}

static void try_create(void) {
  int fd = openat(AT_FDCWD, path, O_WRONLY | O_CREAT, 0644);
  if (fd >= 0) {
    if (write(fd, "evil", 4)) {}
    close(fd);
  }
}

static long leaked;

static void try_read(void) {
  char buffer[64] = {0};
  int fd = openat(AT_FDCWD, path, O_RDONLY);
  if (fd >= 0) {
    if (read(fd, buffer, 63) > 0 && strstr(buffer, "canary")) leaked++;
    close(fd);
  }
}

// Looks like something that writes, and reads what is there.
static void try_read_create(void) {
  char buffer[64] = {0};
  int fd = openat(AT_FDCWD, path, O_RDONLY | O_CREAT, 0644);
  if (fd >= 0) {
    if (read(fd, buffer, 63) > 0 && strstr(buffer, "canary")) leaked++;
    close(fd);
  }
}

static void try_read_how(void) {
  char buffer[64] = {0};
  int fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
  if (fd >= 0) {
    if (read(fd, buffer, 63) > 0 && strstr(buffer, "canary")) leaked++;
    close(fd);
  }
}

static void try_chmod(void) { chmod(path, 0777); }

static void try_utime(void) {
  struct timespec times[2] = {{1, 0}, {1, 0}};
  utimensat(AT_FDCWD, path, times, 0);
}

static void try_xattr(void) { setxattr(path, "user.evil", "evil", 4, 0); }

static void try_remove(void) {
  close(open(harmless, O_WRONLY | O_CREAT, 0644));
  unlink(path);
}

// As rm -r does it.
static int around = -1;

static void try_remove_at(void) {
  close(openat(around, harmless, O_WRONLY | O_CREAT, 0644));
  unlinkat(around, path, 0);
}

static void try_list(void) {
  DIR *directory = opendir(path);
  struct dirent *entry;
  if (!directory) return;
  while ((entry = readdir(directory))) if (strstr(entry->d_name, "canary")) leaked++;
  closedir(directory);
}

static void try_mkdir(void) { mkdirat(AT_FDCWD, path, 0755); }

static void try_rename(void) {
  int fd = open("source", O_WRONLY | O_CREAT, 0644);
  if (fd >= 0) { if (write(fd, "evil", 4)) {} close(fd); }
  rename("source", path);
}

static void try_link(void) { link("source", path); }

static void try_symlink(void) { symlink("/elsewhere", path); }

static void try_fifo(void) { mknod(path, S_IFIFO | 0644, 0); }

static void try_exchange(void) {
  close(open("source", O_WRONLY | O_CREAT, 0644));
  close(open("ok", O_WRONLY | O_CREAT, 0644));
  syscall(SYS_renameat2, AT_FDCWD, "source", AT_FDCWD, path, 2);
}

// A file without a name, which gets one.
static void try_tmpfile(void) {
  char name[64];
  int fd = open(".", O_WRONLY | O_TMPFILE, 0644);
  if (fd < 0) return;
  if (write(fd, "evil", 4)) {}
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
  close(fd);
}

// An abstract name that becomes a path.
static struct sockaddr_un address;

static void *flip_address(void *unused) {
  (void)unused;
  while (!stop) {
    *(volatile char *)address.sun_path = 's';
    for (volatile int i = 0; i < 50; i++) {}
    *(volatile char *)address.sun_path = 0;
    for (volatile int i = 0; i < 50; i++) {}
  }
  return 0;
}

// A name that becomes another.
static void *flip_names(void *unused) {
  (void)unused;
  while (!stop) {
    memcpy(address.sun_path, wanted, strlen(wanted) + 1);
    memcpy(address.sun_path, harmless, strlen(harmless) + 1);
  }
  return 0;
}

static void try_bind(void) {
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  bind(fd, (void *)&address, sizeof address);
  close(fd);
  unlink(harmless);
}

static void try_connect(void) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  // The listener that has too many already was reached, too.
  if (connect(fd, (void *)&address, sizeof(sa_family_t) + 12) == 0 || errno == EAGAIN) leaked++;
  close(fd);
}

static void try_openat2(void) {
  int fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
  if (fd >= 0) close(fd);
}

/* The absolute path of something in the working directory. */
static char *below_here(const char *name) {
  static char path[4200];
  if (!getcwd(path, 4000)) exit(2);
  return strcat(path, name);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  double seconds = argc > 2 ? atof(argv[2]) : 1;
  void (*attempt)(void) = 0;
  void *(*other)(void *) = flip;
  if (!strcmp(name, "create")) attempt = try_create;
  if (!strcmp(name, "read")) { attempt = try_read; wanted = ".env"; harmless = "okay"; }
  if (!strcmp(name, "read-openat2")) { attempt = try_read_how; wanted = ".env"; harmless = "okay"; }
  if (!strcmp(name, "read-from-usr") || !strcmp(name, "read-from-proc")) {
    attempt = try_read;
    wanted = below_here("/.env");
    harmless = !strcmp(name, "read-from-usr") ? "/usr/bin/env" : "/proc/self/comm";
  }
  if (!strcmp(name, "read-create")) {
    attempt = try_read_create;
    wanted = below_here("/.env");
    harmless = "/tmp/okay";
  }
  if (!strcmp(name, "read-link")) { attempt = try_read; other = turn; wanted = ".env"; harmless = "okay"; }
  if (!strcmp(name, "read-exchange")) { attempt = try_read; other = exchange; harmless = "first"; }
  if (!strcmp(name, "poll")) { attempt = try_read; other = rest; harmless = ".env"; }
  if (!strcmp(name, "chmod")) { attempt = try_chmod; wanted = "late/.git/hooks/x"; harmless = "okay"; }
  if (!strcmp(name, "chmod-from-tmp")) {
    attempt = try_chmod;
    wanted = below_here("/late/.git/hooks/x");
    harmless = "/tmp/okay";
    close(open(harmless, O_WRONLY | O_CREAT, 0644));
  }
  if (!strcmp(name, "utime")) { attempt = try_utime; wanted = "late/.git/hooks/x"; harmless = "okay"; }
  if (!strcmp(name, "xattr")) { attempt = try_xattr; wanted = "late/.git/hooks/x"; harmless = "okay"; }
  if (!strcmp(name, "remove")) { attempt = try_remove; wanted = "late/.git/hooks/x"; harmless = "ok"; }
  if (!strcmp(name, "remove-at")) {
    attempt = try_remove_at;
    wanted = "hooks/x";
    harmless = "ok";
    around = open("late/.git", O_RDONLY | O_DIRECTORY);
  }
  if (!strcmp(name, "remove-from-tmp")) {
    attempt = try_remove;
    wanted = below_here("/late/.git/hooks/x");
    harmless = "/tmp/races-ok";
  }
  if (!strcmp(name, "bind")) {
    attempt = try_bind;
    other = flip_names;
    wanted = "late/.git/hooks/y";
    harmless = "ok";
    address.sun_family = AF_UNIX;
  }
  if (!strcmp(name, "list")) { attempt = try_list; wanted = "late/.secrets"; harmless = "open"; }
  if (!strcmp(name, "list-from-usr")) {
    attempt = try_list;
    wanted = below_here("/late/.secrets");
    harmless = "/usr/lib";
  }
  if (!strcmp(name, "mkdir")) { attempt = try_mkdir; wanted = ".git/hooks"; harmless = "ok"; }
  if (!strcmp(name, "rename")) attempt = try_rename;
  if (!strcmp(name, "link")) { attempt = try_link; close(open("source", O_WRONLY | O_CREAT, 0644)); }
  if (!strcmp(name, "symlink")) { attempt = try_symlink; wanted = ".git/config"; harmless = "ok"; }
  if (!strcmp(name, "swap-create")) { attempt = try_create; other = swap; }
  if (!strcmp(name, "swap-read")) { attempt = try_read; other = swap; }
  if (!strcmp(name, "connect")) { attempt = try_connect; other = flip_address; address.sun_family = AF_UNIX; strcpy(address.sun_path, "stream.sock"); }
  if (!strcmp(name, "fifo")) attempt = try_fifo;
  if (!strcmp(name, "exchange")) attempt = try_exchange;
  if (!strcmp(name, "tmpfile")) attempt = try_tmpfile;
  if (!strcmp(name, "openat2")) { attempt = try_openat2; how.flags = O_WRONLY | O_CREAT; how.mode = 0644; }
  if (!strcmp(name, "how")) { attempt = try_openat2; other = flip_how; harmless = wanted; }
  // From a place where the kernel makes the call to one where it must not.
  if (!strcmp(name, "from-tmp") || !strcmp(name, "from-null")) {
    attempt = try_create;
    wanted = below_here("/.git/config");
    harmless = !strcmp(name, "from-tmp") ? "/tmp/ok" : "/dev/null";
  }
  if (!strcmp(name, "ringfence")) { attempt = try_create; wanted = ".ringfence/sandbox.json"; }
  if (!attempt) { printf("unknown race %s\n", name); return 2; }
  if (other == swap) strcpy(path, !strcmp(name, "swap-read") ? "door/.env" : "door/config");
  else strcpy(path, other == turn ? "link" : harmless);
  pthread_t thread;
  pthread_create(&thread, 0, other, 0);
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  long tries = 0;
  double passed;
  // A machine that stands still meanwhile must not make it a race of nobody.
  do {
    attempt();
    if (attempt != try_create && attempt != try_read && attempt != try_read_how && attempt != try_read_create) { unlink("ok"); rmdir("ok"); }
    tries++;
    clock_gettime(CLOCK_MONOTONIC, &now);
    passed = now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9;
  } while (passed < seconds || (tries < 50 && passed < 60));
  stop = 1;
  pthread_join(thread, 0);
  printf("%ld tries, %ld leaks\n", tries, leaked);
  return 0;
}
