/* `anchor lock`: locks a directory for the caller. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "modes/modes.h"

/* The lock belongs to the descriptor of the caller that passed it, which keeps it until it closes it. Node has no
 * flock. */
int lock_mode(void) {
  int error = os_lock_inherited(3);
  if (error == 0) return fputs("\"locked\"\n", stdout) < 0 || fflush(stdout) != 0 ? 1 : 0;
  if (error == EWOULDBLOCK) return fputs("\"held\"\n", stdout) < 0 || fflush(stdout) != 0 ? 1 : 0;
  fprintf(stderr, "anchor lock: descriptor 3 cannot be locked: %s\n", strerror(error));
  return 1;
}
