// A chain of processes: each forks the next and exits at once. Usage: chain TOKEN FILE SECONDS PAUSE_US keep|forget
//
// It ends when the file is removed or the time is over. Each process counts in the file. The first process leaves the
// chain behind and exits. `forget`: without environment and without inherited descriptors.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  if (strcmp(argv[5], "forget") == 0) {
    char *none[] = {NULL}, *again[] = {argv[0], argv[1], argv[2], argv[3], argv[4], "forgot", NULL};
    for (int fd = 3; fd < 1024; fd++) close(fd);
    execve("/proc/self/exe", again, none);
    return 1;
  }
  uint64_t until = now_ms() + (uint64_t)atoi(argv[3]) * 1000, count = 0;
  useconds_t pause = (useconds_t)atoi(argv[4]);
  int file = open(argv[2], O_WRONLY | O_CLOEXEC), null = open("/dev/null", O_RDWR);
  if (file < 0 || null < 0) return 1;
  if (fork() != 0) _exit(0);
  (void)setsid();
  for (int fd = 0; fd < 3; fd++) dup2(null, fd);
  while (access(argv[2], F_OK) == 0 && now_ms() < until) {
    count++;
    (void)!pwrite(file, &count, sizeof count, 0);
    if (pause > 0) usleep(pause);
    pid_t next = fork();
    if (next > 0) _exit(0);
    if (next < 0) usleep(1000);
  }
  return 0;
}
