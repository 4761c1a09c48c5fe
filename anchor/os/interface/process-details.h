/* Details of a process besides its identity: environment, command line, program, descriptors, boundary. */
#ifndef OS_PROCESS_DETAILS_H
#define OS_PROCESS_DETAILS_H

#include "os/interface/process.h"

/* Loads a process's environment for os_environ_value; false if there is none or it cannot be read. */
bool os_environ_load(os_pid pid);
/* A variable of the environment loaded last; NULL if unset. */
const char *os_environ_value(const char *name);
/* Reads one variable of a process's environment; false if unset or unreadable. */
bool os_environ(os_pid pid, const char *name, char *out, size_t size);
/* Reads the command line, its words ended by NUL (perhaps not the last); 0 if there is none or it cannot be read. */
long os_command_line(os_pid pid, char *out, size_t size);
bool os_executable(os_pid pid, char *out, size_t size);
/* Reads the target of a descriptor; false if it is closed or unreadable. */
bool os_descriptor(os_pid pid, int fd, char *out, size_t size);
/* Calls `visit` with the target of each open descriptor until it returns true; false if it never did, or they cannot be
 * listed. */
bool os_each_descriptor(os_pid pid, bool (*visit)(const char *target, void *of), void *of);
/* Looks for a path as the process sees it. 1: it exists; 0: it does not; -1: it cannot be told. */
int os_path_seen_by(os_pid pid, const char *path);
/* The path of the boundary that it is in, below the root of all; false if there is none. */
bool os_boundary_path_of(os_pid pid, char *out, size_t size);

#endif
