/* Prints the state directory that the native client finds. */
#include <stdio.h>

#include "client/client.h"

int main(void) {
  char path[CLIENT_PATH];
  return find_state_directory(path) && puts(path) >= 0 ? 0 : 1;
}
