/* A process that nothing may signal. It blocks all signals, so that /proc/<pid>/status keeps each that arrives as pending. */
#include <signal.h>
#include <unistd.h>

int main(void) {
  sigset_t all;
  sigfillset(&all);
  if (sigprocmask(SIG_BLOCK, &all, NULL) != 0) return 1;
  for (;;) pause();
}
