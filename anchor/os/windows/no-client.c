/* Windows has no native `holdfast`, only the command that npm installs. */
#include <stdio.h>

#include "modes/modes.h"

int client_mode(int argc, char **argv) {
  (void)argc;
  (void)argv;
  fputs("holdfast: there is no native command for Windows; use the one that npm has installed\n", stderr);
  return 125;
}
