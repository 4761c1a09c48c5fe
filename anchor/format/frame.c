#include "format/frame.h"

#include <string.h>

uint32_t wire_u32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(uint8_t *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}

long frame_take(const uint8_t *data, size_t have, size_t max, struct frame *out) {
  if (have < LENGTH_SIZE) return 0;
  uint32_t length = wire_u32(data);
  if (length < 1 || length > max) return -1;
  if (have - LENGTH_SIZE < length) return 0;
  out->type = data[4];
  out->fields = data + FRAME_HEAD;
  out->length = length - 1;
  return (long)(LENGTH_SIZE + length);
}

int field_next(const struct frame *frame, size_t *at, struct field *out) {
  size_t left = frame->length - *at;
  if (left == 0) return 0;
  if (left < FIELD_HEAD) return -1;
  const uint8_t *p = frame->fields + *at;
  uint32_t length = wire_u32(p + 1);
  if (length > left - FIELD_HEAD) return -1;
  out->tag = p[0];
  out->data = p + FIELD_HEAD;
  out->length = length;
  *at += FIELD_HEAD + (size_t)length;
  return 1;
}

bool frame_well_formed(const struct frame *frame) {
  size_t at = 0;
  struct field field;
  int r;
  while ((r = field_next(frame, &at, &field)) > 0) continue;
  return r == 0;
}

bool field_number(const struct field *field, uint64_t *out) {
  if (field->length != 8) return false;
  *out = wire_u32(field->data) | (uint64_t)wire_u32(field->data + 4) << 32;
  return true;
}

bool field_text(const struct field *field, char *out, size_t size) {
  if (field->length >= size || memchr(field->data, 0, field->length) != NULL) return false;
  memcpy(out, field->data, field->length);
  out[field->length] = 0;
  return true;
}

static bool frame_find(const struct frame *frame, uint8_t tag, struct field *field) {
  size_t at = 0;
  while (field_next(frame, &at, field) > 0)
    if (field->tag == tag) return true;
  return false;
}

bool frame_number(const struct frame *frame, uint8_t tag, uint64_t *out) {
  struct field field;
  return frame_find(frame, tag, &field) && field_number(&field, out);
}

bool frame_text(const struct frame *frame, uint8_t tag, char *out, size_t size) {
  struct field field;
  return frame_find(frame, tag, &field) && field_text(&field, out, size);
}

bool frame_time(const struct frame *frame, uint8_t tag, uint64_t *out) {
  uint64_t ms;
  if (!frame_number(frame, tag, &ms)) return false;
  *out = clamp_time(ms);
  return true;
}

bool field_pid(const struct field *field, int32_t *out) {
  uint64_t number;
  if (!field_number(field, &number) || number == 0 || number > INT32_MAX) return false;
  *out = (int32_t)number;
  return true;
}

bool frame_pid(const struct frame *frame, uint8_t tag, int32_t *out) {
  struct field field;
  return frame_find(frame, tag, &field) && field_pid(&field, out);
}

static uint8_t *grow(struct out *out, size_t length) {
  if (out->overflow || out->size - out->used < length) {
    out->overflow = true;
    return NULL;
  }
  uint8_t *p = out->data + out->used;
  out->used += length;
  return p;
}

void out_begin(struct out *out, uint8_t type) {
  out->frame_at = out->used;
  out->overflow = false;
  uint8_t *p = grow(out, FRAME_HEAD);
  if (p != NULL) p[4] = type;
}

void out_bytes(struct out *out, uint8_t tag, const void *data, size_t length) {
  if (length > UINT32_MAX) {
    out->overflow = true;
    return;
  }
  uint8_t *p = grow(out, FIELD_HEAD + length);
  if (p == NULL) return;
  p[0] = tag;
  put32(p + 1, (uint32_t)length);
  if (length > 0) memcpy(p + FIELD_HEAD, data, length);
}

void out_number(struct out *out, uint8_t tag, uint64_t value) {
  uint8_t bytes[8];
  put32(bytes, (uint32_t)value);
  put32(bytes + 4, (uint32_t)(value >> 32));
  out_bytes(out, tag, bytes, sizeof bytes);
}

void out_text(struct out *out, uint8_t tag, const char *text) { out_bytes(out, tag, text, strlen(text)); }

bool out_end(struct out *out) {
  if (out->overflow) {
    out->used = out->frame_at;
    return false;
  }
  put32(out->data + out->frame_at, (uint32_t)(out->used - out->frame_at - LENGTH_SIZE));
  return true;
}
