/*
 * Bystanders with recorded pids, in a PID namespace of their own.
 *
 *   reuse collide [--setsid] [--cgroup DIR] [NAME=VALUE ...]   a process ends; a bystander gets its pid in
 *                                                              the same clock tick: pid and start time are equal
 *   reuse place PID [--setsid] [--cgroup DIR] [NAME=VALUE ...] a bystander with that pid
 *   reuse hold [--setsid] [--cgroup DIR] [NAME=VALUE ...]      a bystander with any pid
 *
 * Prints one JSON line when the bystander runs. At the end of its input, one more: whether it is alive, and its signals.
 * The bystander blocks and reports every signal; those that cannot be blocked show in its status.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 20000
#define REPORTS 9 /* the bystander's descriptor for its reports */

struct identity {
  pid_t pid;
  uint64_t start, unique;
};

static bool new_session;
static const char *cgroup;
static char **environment;

static void fail(const char *what) {
  fprintf(stderr, "reuse: %s: %s\n", what, strerror(errno));
  exit(1);
}

static uint64_t start_of(pid_t pid) {
  char path[32], line[1024];
  unsigned long long start = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
  if (fd >= 0) close(fd);
  if (n <= 0) return 0;
  line[n] = 0;
  char *rest = strrchr(line, ')');
  if (rest == NULL || sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &start) != 1) return 0;
  return start;
}

static struct identity identity_of(pid_t pid) {
  struct identity id = {.pid = pid, .start = start_of(pid)};
  struct stat st;
  int handle = (int)syscall(SYS_pidfd_open, pid, 0);
  if (handle >= 0 && fstat(handle, &st) == 0) id.unique = (uint64_t)st.st_ino;
  if (handle >= 0) close(handle);
  return id;
}

static void set_next(pid_t pid) {
  char text[16];
  int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC), length = snprintf(text, sizeof text, "%d", pid - 1);
  if (fd < 0 || write(fd, text, (size_t)length) != length) fail("ns_last_pid");
  close(fd);
}

static _Noreturn void be_bystander(void) {
  sigset_t all;
  sigfillset(&all);
  struct signalfd_siginfo info;
  int signals = signalfd(-1, &all, SFD_CLOEXEC);
  for (;;) {
    if (read(signals, &info, sizeof info) != (ssize_t)sizeof info) _exit(1);
    if (write(REPORTS, &info.ssi_signo, 4) != 4) _exit(1);
  }
}

static pid_t fork_bystander(int reports) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  if (new_session) (void)setsid();
  if (cgroup != NULL) {
    char path[1024];
    snprintf(path, sizeof path, "%s/cgroup.procs", cgroup);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1) _exit(1);
    close(fd);
  }
  if (dup2(reports, REPORTS) < 0) _exit(1);
  char *argv[] = {"sleep", "3077", NULL}; /* looks like the recorded command, and is not */
  execve("/proc/self/exe", argv, environment);
  _exit(1);
}

static void reap(pid_t pid) {
  kill(pid, SIGKILL);
  if (waitpid(pid, NULL, 0) != pid) fail("waitpid");
}

static pid_t collide(int reports, struct identity *recorded, int *tries, int *same_number) {
  for (*tries = 1; *tries <= TRIES; (*tries)++) {
    pid_t first = fork();
    if (first < 0) fail("fork");
    if (first == 0) for (;;) pause();
    *recorded = identity_of(first);
    reap(first);
    set_next(first);
    pid_t second = fork_bystander(reports);
    if (second < 0) fail("fork");
    *same_number += second == first;
    if (second == first && start_of(second) == recorded->start) return second;
    reap(second);
  }
  errno = ETIME;
  fail("no collision");
  return -1;
}

static pid_t place(int reports, pid_t wanted, int *tries) {
  for (*tries = 1; *tries <= TRIES; (*tries)++) {
    set_next(wanted);
    pid_t pid = fork_bystander(reports);
    if (pid < 0) fail("fork");
    if (pid == wanted) return pid;
    reap(pid);
    (void)poll(NULL, 0, 1); /* its former owner is being buried */
  }
  errno = ETIME;
  fail("the number is not to be had");
  return -1;
}

/* Its own code must run before it is looked at: until then its environment is ours. */
static void wait_for_exec(pid_t pid) {
  char path[32], name[16] = "";
  snprintf(path, sizeof path, "/proc/%d/comm", pid);
  for (int i = 0; i < 5000 && strncmp(name, "exe", 3) != 0; i++) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, name, sizeof name - 1) < 0) fail("the bystander");
    close(fd);
    if (strncmp(name, "exe", 3) != 0) (void)poll(NULL, 0, 1);
  }
}

int main(int argc, char **argv) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  if (argc > 1 && strcmp(argv[1], "3077") == 0) be_bystander();
  if (argc < 2) return 2;
  int at = strcmp(argv[1], "place") == 0 ? 3 : 2, reports[2], tries = 0, same_number = 0;
  for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
    if (strcmp(argv[at], "--setsid") == 0) new_session = true;
    else if (strcmp(argv[at], "--cgroup") == 0 && at + 1 < argc) cgroup = argv[++at];
    else return 2;
  }
  environment = argv + at;
  if (pipe2(reports, O_CLOEXEC | O_NONBLOCK) != 0) fail("pipe");
  struct identity recorded = {0};
  pid_t bystander = strcmp(argv[1], "collide") == 0 ? collide(reports[1], &recorded, &tries, &same_number)
                   : strcmp(argv[1], "place") == 0 ? place(reports[1], (pid_t)atoi(argv[2]), &tries)
                                                   : fork_bystander(reports[1]);
  wait_for_exec(bystander);
  struct identity id = identity_of(bystander);
  printf("{\"tries\":%d,\"sameNumber\":%d,\"pid\":%d,\"startTime\":%llu,\"uniqueId\":\"%llu\",\"recordedUniqueId\":\"%llu\"}\n", tries, same_number,
         id.pid, (unsigned long long)id.start, (unsigned long long)id.unique, (unsigned long long)recorded.unique);
  fflush(stdout);

  char byte;
  while (read(0, &byte, 1) > 0) continue;
  int status = 0;
  bool stopped = false, gone = false;
  for (pid_t seen; (seen = waitpid(bystander, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0 && !gone;) {
    stopped |= WIFSTOPPED(status) || WIFCONTINUED(status);
    gone = WIFEXITED(status) || WIFSIGNALED(status);
  }
  printf("{\"alive\":%s,\"stopped\":%s,\"signals\":[", gone ? "false" : "true", stopped ? "true" : "false");
  uint32_t number;
  for (bool first = true; read(reports[0], &number, 4) == 4; first = false) printf("%s%u", first ? "" : ",", number);
  printf("]}\n");
  if (!gone) reap(bystander);
  return 0;
}
