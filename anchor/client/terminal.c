/* The terminal of this process: src/cli/run/stdio.ts. */
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "client/client.h"

static struct termios original;
static bool saved;

bool is_one_terminal(void) {
  struct stat found[3];
  for (int fd = 0; fd < 3; fd++)
    if (!isatty(fd) || fstat(fd, &found[fd]) != 0) return false;
  return found[1].st_rdev == found[0].st_rdev && found[2].st_rdev == found[0].st_rdev;
}

/* Also true if the foreground process group is unknown. */
bool in_foreground(void) {
  pid_t group = tcgetpgrp(0);
  return group < 0 || group == getpgrp();
}

bool terminal_size(int *rows, int *cols) {
  for (int i = 0; i < 3; i++) {
    int fd = (i + 1) % 3; /* stdout, stderr, stdin */
    struct winsize size;
    if (!isatty(fd)) continue;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return false;
    *rows = size.ws_row;
    *cols = size.ws_col;
    return true;
  }
  return false;
}

void terminal_raw(void) {
  struct termios raw;
  if (!isatty(0) || !in_foreground()) return;
  if (!saved) {
    if (tcgetattr(0, &original) != 0) return;
    saved = true;
    atexit(terminal_restore);
  }
  raw = original;
  raw.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
  raw.c_oflag &= ~(tcflag_t)OPOST; /* the PTY of the run has turned "\n" into "\r\n" */
  raw.c_cflag |= CS8;
  raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  tcsetattr(0, TCSADRAIN, &raw);
}

/* In the background, tcsetattr(3) would stop this process (SIGTTOU). */
void terminal_restore(void) {
  if (saved && in_foreground()) tcsetattr(0, TCSADRAIN, &original);
}
