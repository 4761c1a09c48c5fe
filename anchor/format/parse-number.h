/* Parses numbers in untrusted text: decimal digits only, at most 64 bits. */
#ifndef PARSE_NUMBER_H
#define PARSE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* The longest accepted time in milliseconds: added to the current time, it does not overflow. */
#define TIME_MAX (UINT64_C(1) << 48)

/* Returns the text after the leading digits; NULL if there are none, or the number is too large. */
const char *number_at(const char *text, uint64_t *out);
/* True if the whole text is a number of at most `most`. */
bool number_within(const char *text, uint64_t most, uint64_t *out);

static inline uint64_t clamp_time(uint64_t ms) { return ms < TIME_MAX ? ms : TIME_MAX; }

#endif
