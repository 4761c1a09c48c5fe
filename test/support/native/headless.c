// The first thread ends, so that the process looks like a zombie; the second continues, ignores TERM and has a child.
//   headless <token>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static char *token;

static void *live(void *unused) {
  char seconds[64];
  snprintf(seconds, sizeof seconds, "100001.%s", token);
  if (fork() == 0) execlp("sleep", "sleep", seconds, (char *)NULL);
  printf("headless %d\n", getpid());
  fflush(stdout);
  for (;;) pause();
  return unused;
}

int main(int argc, char **argv) {
  pthread_t thread;
  if (argc < 2) return 1;
  token = argv[1];
  signal(SIGTERM, SIG_IGN);
  if (pthread_create(&thread, NULL, live, NULL) != 0) return 1;
  pthread_exit(NULL);
}
