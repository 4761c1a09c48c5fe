/* The connection to the gateway. Both sides prove that they know the token: src/api/authenticated-connection.ts. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "format/base64url.h"
#include "format/parse-http-response.h"
#include "format/sha256.h"

#define TOKEN_MAX 255
#define PROOF_MAX 16384           /* largest answer to a challenge: src/api/authenticated-connection.ts */
#define ANSWER_MAX (8u << 20)
#define PROOF_TIMEOUT_MS 5000
#define NONCE_SIZE 44             /* base64url of 32 bytes, and NUL */
#define TOKEN_ID_BYTES 8          /* of the token's hash: src/api/token-proof.ts */

int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The socket of this user in a directory that no other user controls. */
static int connect_socket(const char *home) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct stat found;
  int n = snprintf(address.sun_path, sizeof address.sun_path, "%s/gateway.sock", home);
  if (n <= 0 || n >= (int)sizeof address.sun_path) return -1;
  if (lstat(address.sun_path, &found) != 0 || S_ISLNK(found.st_mode) || found.st_uid != geteuid()) return -1;
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  /* connect(2) waits while the queue of connections is full, and a stopped gateway does not empty it. */
  struct timeval patience = {.tv_sec = PROOF_TIMEOUT_MS / 1000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0) return fd;
  close(fd);
  return -1;
}

void gateway_close(struct gateway *gateway) {
  if (gateway->fd >= 0) close(gateway->fd);
  gateway->fd = -1;
}

/* Waits until the socket is ready. False: the time is over or an interrupt arrived, and `go_on` ends the exchange. */
static bool wait_ready(struct gateway *gateway, short events, bool (*go_on)(bool late)) {
  struct pollfd set[2] = {{.fd = gateway->fd, .events = events}, {.fd = wake_fd, .events = POLLIN}};
  int64_t left = gateway->until < 0 ? -1 : gateway->until - now_ms();
  int n = poll(set, 2, gateway->until >= 0 && left < 0 ? 0 : (int)left);
  if (n < 0) return errno == EINTR;
  if (n == 0) return go_on != NULL && go_on(true);
  return set[1].revents == 0 || !interrupts_take() || go_on == NULL || go_on(false);
}

static enum exchange exchange(struct gateway *gateway, const char *head, size_t head_length, const char *body, size_t length,
                              bool (*go_on)(bool late), int timeout_ms, size_t most, struct answer *out) {
  const char *parts[] = {head, body};
  size_t sizes[] = {head_length, length}, room = 16384, have = 0;
  gateway->until = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
  bool sent = false;
  for (int part = 0; part < 2; part++)
    for (size_t at = 0; at < sizes[part];) {
      ssize_t n = send(gateway->fd, parts[part] + at, sizes[part] - at, MSG_NOSIGNAL);
      if (n > 0) {
        at += (size_t)n;
        sent = true;
      } else if (n < 0 && errno == EAGAIN) {
        if (!wait_ready(gateway, POLLOUT, go_on)) return INTERRUPTED;
      } else if (n < 0 && errno != EINTR) {
        if (!sent) return NOT_SENT;
        break; /* the gateway may have answered before it read everything */
      }
    }
  char *data = malloc(room);
  while (data != NULL) {
    const char *found;
    ssize_t n = recv(gateway->fd, data + have, room - have, 0);
    if (n > 0) {
      have += (size_t)n;
      long taken = http_answer(data, have, most, &out->status, &found, &out->length);
      if (taken < 0 || (taken > 0 && (size_t)taken < have)) break;
      if (taken > 0) {
        memmove(data, found, out->length);
        out->body = data;
        return ANSWERED;
      }
      if (have == room) {
        char *more = realloc(data, room *= 4);
        if (more == NULL) break;
        data = more;
      }
    } else if (n < 0 && errno == EAGAIN) {
      if (wait_ready(gateway, POLLIN, go_on)) continue;
      free(data);
      return INTERRUPTED;
    } else if (n == 0 || errno != EINTR) {
      break;
    }
  }
  free(data);
  return BROKEN_OFF;
}

/* Proves the token in both directions: docs/reference/api.md, Proof. */
static bool prove(struct gateway *gateway, const char *token, size_t token_length) {
  uint8_t hash[SHA256_SIZE], random[32], proof[SHA256_SIZE], mask[TOKEN_MAX + 1];
  char id[2 * TOKEN_ID_BYTES + 1], client[NONCE_SIZE], server[NONCE_SIZE], given[64], expected[64], text[256];
  struct answer answer = {0};
  struct json_value content;
  int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  bool full = fd >= 0 && read(fd, random, sizeof random) == (ssize_t)sizeof random;
  if (fd >= 0) close(fd);
  if (!full) return false;
  base64url(random, sizeof random, client);
  sha256(token, token_length, hash);
  for (int i = 0; i < TOKEN_ID_BYTES; i++) snprintf(id + 2 * i, 3, "%02x", hash[i]);
  int n = snprintf(text, sizeof text, "GET /v1/challenge HTTP/1.1\r\nhost: gateway\r\nholdfast-token-id: %s\r\nholdfast-nonce: %s\r\n\r\n", id, client);
  if (exchange(gateway, text, (size_t)n, NULL, 0, NULL, PROOF_TIMEOUT_MS, PROOF_MAX, &answer) != ANSWERED) return false;
  bool proven = answer.status == 200 && json_parse(answer.body, answer.length, &content) &&
                json_text(json_member(content, "nonce"), server, sizeof server) && strlen(server) == NONCE_SIZE - 1 &&
                json_text(json_member(content, "proof"), given, sizeof given);
  free(answer.body);
  if (!proven) return false;
  n = snprintf(text, sizeof text, "holdfast gateway proof 1%c%s%c%s", 0, client, 0, server);
  hmac_sha256(hash, sizeof hash, text, (size_t)n, proof);
  base64url(proof, sizeof proof, expected);
  unsigned difference = strlen(given) != strlen(expected);
  for (size_t i = 0; difference == 0 && i < strlen(expected); i++) difference |= (unsigned)(given[i] ^ expected[i]);
  if (difference != 0) return false;
  n = snprintf(text, sizeof text, "%s%c%s", client, 0, server);
  hkdf_sha256(hash, sizeof hash, text, (size_t)n, "holdfast client proof 1", mask, token_length);
  for (size_t i = 0; i < token_length; i++) mask[i] ^= (uint8_t)token[i];
  base64url(mask, token_length, gateway->authorization);
  return true;
}

bool gateway_connect(struct gateway *gateway) {
  char path[CLIENT_PATH + 32], token[TOKEN_MAX + 1];
  struct stat found;
  gateway->fd = -1;
  if (!is_trusted_path(gateway->home) || lstat(gateway->home, &found) != 0) return false;
  if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 022) != 0) return false;
  snprintf(path, sizeof path, "%s/operator-token", gateway->home);
  if (lstat(path, &found) != 0 || (found.st_mode & 044) != 0) return false; /* Node warns of a token that others can read */
  long length = read_own_file(path, token, sizeof token);
  if (length <= 0) return false;
  gateway->fd = connect_socket(gateway->home);
  if (gateway->fd >= 0 && prove(gateway, token, (size_t)length)) return true;
  gateway_close(gateway);
  return false;
}

enum exchange gateway_request(struct gateway *gateway, const char *method, const char *path, const char *body, size_t length,
                              bool (*go_on)(bool late), int timeout_ms, struct answer *out) {
  char head[1024];
  if (gateway->fd < 0) return NOT_SENT;
  int n = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nhost: gateway\r\nauthorization: Holdfast %s\r\n", method, path, gateway->authorization);
  n += snprintf(head + n, sizeof head - (size_t)n, body == NULL ? "\r\n" : "content-type: application/json\r\ncontent-length: %zu\r\n\r\n", length);
  enum exchange how = exchange(gateway, head, (size_t)n, body, length, go_on, timeout_ms, ANSWER_MAX, out);
  if (how != ANSWERED) gateway_close(gateway);
  return how;
}
