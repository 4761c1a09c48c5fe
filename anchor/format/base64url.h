/* base64url without padding (RFC 4648). */
#ifndef BASE64URL_H
#define BASE64URL_H

#include <stddef.h>
#include <stdint.h>

/* Encodes, with a NUL at the end: `out` needs 4 bytes for each 3 bytes of data or part of them, and 1. */
void base64url(const uint8_t *data, size_t length, char *out);

#endif
