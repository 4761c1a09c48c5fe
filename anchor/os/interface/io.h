/* Streams, sockets, polling, files. */
#ifndef OS_IO_H
#define OS_IO_H

#include "os/interface/process.h"

/* A descriptor is an int, -1 for none: on POSIX a file descriptor, elsewhere a number that only these functions know. Only
 * os_poll and the functions that say so wait. */

/* Reads up to `size` bytes. 0: the end. -1: errno is EAGAIN if there is nothing now; EIO on a terminal whose last other
 * side was closed. */
long os_read(int fd, void *data, size_t size);
/* The same without removing the bytes; sockets only. */
long os_peek(int fd, void *data, size_t size);
/* Writes as many bytes as fit. -1: errno is EAGAIN if none fits; another value if the reader is gone. */
long os_write(int fd, const void *data, size_t size);
/* Number of bytes that can be read now, as far as it is known. */
size_t os_readable(int fd);
/* Lets a pipe hold up to `size` bytes, if the system can: a fast writer then waits less often. */
void os_pipe_grow(int fd, size_t size);
void os_close(int fd);

/* `wants` and `ready` are sums of these. OS_GONE is only in `ready`: the other side has hung up, or the descriptor is not
 * usable. It is reported without being asked for: for the writing end of a pipe, when the last reader is gone. */
enum { OS_READ = 1, OS_WRITE = 2, OS_PRIORITY = 4, OS_GONE = 8 };
struct os_poll {
  int fd; /* -1: skipped */
  short wants, ready;
};
#define POLL_MAX 512
/* Waits until a descriptor is ready or the time is over (-1: no limit), and fills `ready`. If the system refuses a set,
 * each descriptor is polled alone and the call takes a moment; it never fails. At most POLL_MAX descriptors are open. */
void os_poll(struct os_poll *set, size_t count, int timeout_ms);

/* Local sockets, for this user only. Listens at `path`, where an old socket is removed; `identity` tells
 * os_listener_present whether the path still names this one. */
int os_listen(const char *path, int backlog, uint64_t *identity);
bool os_listener_present(const char *path, uint64_t identity);
int os_accept(int listener);
/* Prepares a connection that this process inherited, whose number there is `inherited`: it is not inherited further.
 * Returns its descriptor, or -1. */
int os_take_connection(int inherited);
/* The process at the other end; 0 if it is not visible from here. */
os_pid os_peer(int fd);
/* True if it has our effective uid or is root, which could trace us anyway. */
bool os_peer_trusted(int fd);

/* Kept free while connections are accepted and processes adopted, for files, directories and handles that are open for
 * a moment. */
#define DESCRIPTORS_RESERVED 16
/* How many descriptors this process may have. */
long os_descriptor_limit(void);
/* Number of descriptors that can still be opened, counted up to `most`. */
long os_descriptors_free(long most);

/* Standard input of a mode that answers questions. Waits. */
long os_read_input(void *data, size_t size);

/* ---- files and directories ---- */

/* `dir` is a descriptor of a directory; `name` is an entry of it, and a link there is not followed. These calls may wait
 * for the disk. */

struct os_file_info {
  uint64_t device, inode, size, modified; /* modified: in the finest unit the system has, only for comparison */
};

/* For this user only. False and EEXIST if it exists. */
bool os_directory_create(const char *path);
/* -1 unless the path is a directory, and not a link to one. */
int os_directory_open(const char *path);
/* Renames a directory; false if the new name is in use. */
bool os_directory_rename(const char *from, const char *to);
/* Removes an empty directory. */
void os_directory_remove(const char *path);

/* Opens a file that is written only by appending, and that another program may truncate meanwhile without a hole being
 * written. What it contained before is removed. */
int os_file_append_to(int dir, const char *name);
/* Creates an empty file; false if one exists. */
bool os_file_create(int dir, const char *name);
/* Returns what was written, -1 if nothing was. Closed with os_close. */
long os_file_append(int fd, const void *data, size_t size);
bool os_file_truncate(int fd, uint64_t size);
/* Offset of the first hole; the size if there is none or holes are not known; -1: it cannot be told. */
int64_t os_file_hole(int fd);
void os_file_remove(int dir, const char *name);
/* Creates what os_file_save writes first, so that a later save takes less time. It saves without this, too. */
void os_file_prepare(int dir, const char *name);
/* Replaces the file atomically: a reader never sees half a file. */
bool os_file_save(int dir, const char *name, const void *data, size_t size);

/* Read the information of an open file or directory, of a directory's entry, or of a path, whose links are followed. */
bool os_file_info(int fd, struct os_file_info *out);
bool os_file_info_at(int dir, const char *name, struct os_file_info *out);
bool os_path_info(const char *path, struct os_file_info *out);
void os_path_remove(const char *path);

/* Locks an open directory or file that the caller passed to us, and keeps the lock with the caller's own descriptor. 0,
 * EWOULDBLOCK if another has it, or another errno. */
int os_lock_inherited(int fd);

/* The last component of the path. */
const char *os_file_name(const char *path);
bool os_is_absolute(const char *path);
extern const char *const os_program_suffix; /* "" or ".exe" */

#endif
