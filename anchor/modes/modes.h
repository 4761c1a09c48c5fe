/* The modes of the binary. Each returns the exit status. */
#ifndef MODES_H
#define MODES_H

#include <stdbool.h>
#include <stddef.h>

#include "os/os.h"

/* Exit status of an anchor whose run did not start. Not 1, which is also the status of a process that another program of
 * Windows has ended. */
#define ANCHOR_NOT_STARTED 75

int run_mode(const char *run_id, const char *instance_dir, int fd, const char *cgroups, const char *note, bool launched);
/* `argv`: the memory of our own command line. */
int launch_mode(const char *instance_dir, const char *instance, char *argv, size_t argv_size);
/* Brief: identity and state only. Ports: also the listening ports of the descendants. */
int inspect_mode(bool brief, bool ports);
int reap_mode(int argc, char **argv);
/* Sends SIGCONT to a verified anchor. */
int continue_mode(int argc, char **argv);
/* Ends one process of another tool that has a certain marker. */
int reap_one_mode(int argc, char **argv);
int marked_mode(int argc, char **argv);
/* Which limits can be set from here. */
int limits_mode(void);
/* Locks the directory that is open as descriptor 3. */
int lock_mode(void);
/* Lists the Holdfast processes of all state directories. */
int survey_mode(void);
/* Lists the supervisors of all state directories. */
int supervisors_mode(void);
int init_mode(char **command);
/* The native `holdfast`: the binary is executed under that name. */
int client_mode(int argc, char **argv);

/* verify-anchor.c */
/* Opens an anchor. Returns NULL if it is verified, otherwise the reason. Without a unique id, start time and executable
 * must match, and it must have the directory of this run open. */
const char *verify_anchor(const struct identity *id, const char *path, const char *run, struct member *out);

#endif
