/* macOS: the process at the other end of a socket. */
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/darwin/darwin.h"

os_pid os_peer(int fd) {
  pid_t peer = 0;
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_LOCAL, LOCAL_PEERPID, &peer, &size) == 0 ? peer : 0;
}

bool os_peer_trusted(int fd) {
  uid_t uid;
  gid_t gid;
  return getpeereid(fd, &uid, &gid) == 0 && (uid == geteuid() || uid == 0);
}
