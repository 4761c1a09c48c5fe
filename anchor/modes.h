/* The faces of the binary. Each returns the exit status. */
#ifndef MODES_H
#define MODES_H

#include <stdbool.h>

int run_mode(const char *run_id, const char *instance_dir, int fd, const char *cgroups, const char *note, bool launched);
int launch_mode(const char *instance_dir, const char *instance);
int inspect_mode(void);
int reap_mode(int argc, char **argv);
int init_mode(char **command);

#endif
