/* Holds a process as a debugger does: stopped, and SIGCONT does not continue it. Releases it when killed. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  pid_t pid = argc > 1 ? (pid_t)atoi(argv[1]) : 0;
  if (pid <= 1 || ptrace(PTRACE_SEIZE, pid, 0, 0) != 0 || ptrace(PTRACE_INTERRUPT, pid, 0, 0) != 0) {
    perror("hold");
    return 1;
  }
  if (waitpid(pid, NULL, __WALL) != pid) {
    perror("hold: wait");
    return 1;
  }
  puts("held");
  fflush(stdout);
  for (;;) pause(); /* does not reap it: a held process that is killed stays a zombie */
}
