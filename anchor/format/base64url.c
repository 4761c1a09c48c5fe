#include "format/base64url.h"

void base64url(const uint8_t *data, size_t length, char *out) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  for (size_t at = 0; at < length; at += 3) {
    size_t left = length - at;
    uint32_t bits = (uint32_t)data[at] << 16 | (left > 1 ? (uint32_t)data[at + 1] << 8 : 0) | (left > 2 ? data[at + 2] : 0);
    for (size_t i = 0; i < (left > 2 ? 4 : left + 1); i++) *out++ = digits[bits >> (18 - 6 * i) & 63];
  }
  *out = 0;
}
