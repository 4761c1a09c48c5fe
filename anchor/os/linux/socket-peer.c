/* Linux: the process at the other end of a socket. */
#include <sys/socket.h>
#include <unistd.h>

#include "os/linux/linux.h"

os_pid os_peer(int fd) {
  struct ucred peer = {0};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

bool os_peer_trusted(int fd) {
  struct ucred peer = {.uid = (uid_t)-1};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}
