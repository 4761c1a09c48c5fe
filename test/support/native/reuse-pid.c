// Replaces a child by another one with the same pid. Usage: reuse-pid SECONDS
//
// Starts a sleeper, and prints its pid. Then it does, each at a SIGUSR1: starts another sleeper; ends the first one, reaps
// it, and starts one with its pid; ends the other one, and exits with 3. Each sleeper has a session of its own.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 1000

static void set_next(pid_t pid) {
  char text[16];
  int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC), length = snprintf(text, sizeof text, "%d", pid - 1);
  if (file < 0 || write(file, text, (size_t)length) != length) _exit(4);
  close(file);
}

static pid_t start_sleeper(char *seconds) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  (void)setsid();
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++) dup2(null, fd);
  close(null);
  execlp("sleep", "sleep", seconds, (char *)NULL);
  _exit(5);
}

static void end(pid_t pid) {
  kill(pid, SIGKILL);
  (void)waitpid(pid, NULL, 0);
}

int main(int argc, char **argv) {
  sigset_t next;
  int number;
  if (argc != 2) return 2;
  sigemptyset(&next);
  sigaddset(&next, SIGUSR1);
  (void)sigprocmask(SIG_BLOCK, &next, NULL);
  pid_t first = start_sleeper(argv[1]), second = 0;
  printf("%d\n", first);
  fflush(stdout);
  (void)sigwait(&next, &number);
  pid_t other = start_sleeper(argv[1]);
  (void)sigwait(&next, &number);
  end(first);
  for (int i = 0; i < TRIES && second != first; i++) {
    if (second > 0) end(second);
    set_next(first);
    second = start_sleeper(argv[1]);
  }
  (void)sigwait(&next, &number);
  end(other);
  return second == first ? 3 : 7;
}
