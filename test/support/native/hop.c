// A chain of processes: each forks a child and exits at once, so that an inspected process is already gone.
//   hop <token> <number of processes>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  signal(SIGTERM, SIG_IGN);
  for (int i = argc > 2 ? atoi(argv[2]) : 1; i > 0; i--)
    if (fork() == 0)
      for (;;)
        if (fork() > 0) _exit(0);
  puts("hopping");
  fflush(stdout);
  for (;;) pause();
}
