/* Included before each source: what the other headers of Linux do not declare. */
#ifndef SHIM_H
#define SHIM_H

#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPEN_MAX 10240
#define SOL_LOCAL SOL_SOCKET
#define LOCAL_PEERPID SO_PEERCRED /* its first member is the pid */
#define _CS_DARWIN_USER_CACHE_DIR 65538
#define confstr shim_confstr
#define poll shim_poll
#define waitid shim_waitid
#define close shim_close

size_t shim_confstr(int name, char *out, size_t size);
int shim_poll(struct pollfd *set, nfds_t count, int timeout);
int shim_waitid(idtype_t type, id_t id, siginfo_t *out, int options);
int shim_close(int fd);
int getpeereid(int fd, uid_t *uid, gid_t *gid);
int minherit(void *memory, size_t size, int inherit);

#endif
