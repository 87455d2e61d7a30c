// Races against whoever looks at a path before the kernel does. Runs for SECONDS in a prepared directory.
//   races NAME SECONDS
// Prints what came of it; the test looks at the host itself.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int stop;
static char path[64];
static char path_b[64];
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

// A directory and a link to another take each other's place.
static void *swap(void *unused) {
  (void)unused;
  while (!stop) syscall(SYS_renameat2, AT_FDCWD, "door", AT_FDCWD, "other", 2);
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

static void try_mkdir(void) { mkdirat(AT_FDCWD, path, 0755); }

static void try_rename(void) {
  int fd = open("source", O_WRONLY | O_CREAT, 0644);
  if (fd >= 0) { if (write(fd, "evil", 4)) {} close(fd); }
  rename("source", path);
}

static void try_link(void) { link("source", path); }

static void try_symlink(void) { symlink("/elsewhere", path); }

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  double seconds = argc > 2 ? atof(argv[2]) : 1;
  void (*attempt)(void) = 0;
  void *(*other)(void *) = flip;
  if (!strcmp(name, "create")) attempt = try_create;
  if (!strcmp(name, "read")) { attempt = try_read; wanted = ".env"; harmless = "okay"; }
  if (!strcmp(name, "mkdir")) { attempt = try_mkdir; wanted = ".git/hooks"; harmless = "ok"; }
  if (!strcmp(name, "rename")) attempt = try_rename;
  if (!strcmp(name, "link")) { attempt = try_link; close(open("source", O_WRONLY | O_CREAT, 0644)); }
  if (!strcmp(name, "symlink")) { attempt = try_symlink; wanted = ".git/config"; harmless = "ok"; }
  if (!strcmp(name, "swap-create")) { attempt = try_create; other = swap; }
  if (!strcmp(name, "swap-read")) { attempt = try_read; other = swap; }
  if (!attempt) { printf("unknown race %s\n", name); return 2; }
  if (other == swap) strcpy(path, !strcmp(name, "swap-read") ? "door/.env" : "door/config");
  else strcpy(path, harmless);
  (void)path_b;
  pthread_t thread;
  pthread_create(&thread, 0, other, 0);
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  long tries = 0;
  do {
    attempt();
    if (attempt != try_create && attempt != try_read) { unlink("ok"); rmdir("ok"); }
    tries++;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9 < seconds);
  stop = 1;
  pthread_join(thread, 0);
  printf("%ld tries, %ld leaks\n", tries, leaked);
  return 0;
}
