/* Included before each source: what the other headers of Linux do not declare. */
#ifndef SHIM_H
#define SHIM_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#define OPEN_MAX 10240
#define SOL_LOCAL SOL_SOCKET
#define LOCAL_PEERPID SO_PEERCRED /* its first member is the pid */
#define _CS_DARWIN_USER_CACHE_DIR 65538
#define confstr shim_confstr

size_t shim_confstr(int name, char *out, size_t size);
int getpeereid(int fd, uid_t *uid, gid_t *gid);
int minherit(void *memory, size_t size, int inherit);

#endif
