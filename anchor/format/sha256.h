/* SHA-256 (FIPS 180-4), and HMAC (RFC 2104) and HKDF (RFC 5869) with it, of short texts. */
#ifndef SHA256_H
#define SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32

void sha256(const void *data, size_t length, uint8_t out[SHA256_SIZE]);
void hmac_sha256(const void *key, size_t key_length, const void *data, size_t length, uint8_t out[SHA256_SIZE]);
/* Fills `out`; at most 255 hashes, and `info` at most 64 bytes. */
void hkdf_sha256(const void *key, size_t key_length, const void *salt, size_t salt_length, const char *info, uint8_t *out, size_t size);

#endif
