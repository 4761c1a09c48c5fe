#include "format/sha256.h"

#include <string.h>

#define BLOCK 64

struct hash {
  uint32_t state[8];
  uint8_t block[BLOCK];
  uint64_t length;
};

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes: FIPS 180-4, 4.2.2. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void compress(uint32_t state[8], const uint8_t block[BLOCK]) {
  uint32_t w[64], s[8];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; i++) {
    uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  memcpy(s, state, sizeof s);
  for (int i = 0; i < 64; i++) {
    uint32_t s1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
    uint32_t t1 = s[7] + s1 + ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
    uint32_t s0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
    uint32_t t2 = s0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += t1;
    s[0] = t1 + t2;
  }
  for (int i = 0; i < 8; i++) state[i] += s[i];
}

static void hash_begin(struct hash *hash) {
  *hash = (struct hash){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static void hash_add(struct hash *hash, const void *data, size_t length) {
  const uint8_t *from = data;
  for (size_t i = 0; i < length; i++) {
    hash->block[hash->length++ % BLOCK] = from[i];
    if (hash->length % BLOCK == 0) compress(hash->state, hash->block);
  }
}

static void hash_end(struct hash *hash, uint8_t out[SHA256_SIZE]) {
  static const uint8_t padding[BLOCK] = {0x80};
  uint64_t bits = hash->length * 8;
  uint8_t length[8];
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
  size_t used = hash->length % BLOCK;
  hash_add(hash, padding, (used < 56 ? 56 : 120) - used);
  hash_add(hash, length, sizeof length);
  for (int i = 0; i < SHA256_SIZE; i++) out[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256(const void *data, size_t length, uint8_t out[SHA256_SIZE]) {
  struct hash hash;
  hash_begin(&hash);
  hash_add(&hash, data, length);
  hash_end(&hash, out);
}

void hmac_sha256(const void *key, size_t key_length, const void *data, size_t length, uint8_t out[SHA256_SIZE]) {
  struct hash hash;
  uint8_t pad[BLOCK] = {0};
  if (key_length > BLOCK) sha256(key, key_length, pad);
  else if (key_length > 0) memcpy(pad, key, key_length);
  for (int i = 0; i < BLOCK; i++) pad[i] ^= 0x36;
  hash_begin(&hash);
  hash_add(&hash, pad, BLOCK);
  hash_add(&hash, data, length);
  hash_end(&hash, out);
  for (int i = 0; i < BLOCK; i++) pad[i] ^= 0x36 ^ 0x5c;
  hash_begin(&hash);
  hash_add(&hash, pad, BLOCK);
  hash_add(&hash, out, SHA256_SIZE);
  hash_end(&hash, out);
}

void hkdf_sha256(const void *key, size_t key_length, const void *salt, size_t salt_length, const char *info, uint8_t *out, size_t size) {
  uint8_t extracted[SHA256_SIZE], block[SHA256_SIZE], input[SHA256_SIZE + 64 + 1];
  size_t info_length = strlen(info), before = 0;
  hmac_sha256(salt, salt_length, key, key_length, extracted);
  for (uint8_t round = 1; size > 0; round++) {
    memcpy(input, block, before);
    memcpy(input + before, info, info_length);
    input[before + info_length] = round;
    hmac_sha256(extracted, sizeof extracted, input, before + info_length + 1, block);
    before = sizeof block;
    size_t part = size < sizeof block ? size : sizeof block;
    memcpy(out, block, part);
    out += part;
    size -= part;
  }
}
