/* Parses an HTTP/1.1 response with a content-length. A pure function over memory. */
#ifndef PARSE_HTTP_RESPONSE_H
#define PARSE_HTTP_RESPONSE_H

#include <stddef.h>

/* Takes an answer from the bytes received so far. Returns its length; 0: it is not complete; -1: it is not valid, or longer
 * than `most`. `body` is a piece of `data`. */
long http_answer(const char *data, size_t have, size_t most, int *status, const char **body, size_t *length);

#endif
