import { expect, test } from "vitest";
import { createTaskCursorCodec } from "../../src/queries/task-cursor.js";

const place = { createdAt: Date.UTC(2026, 10, 15), taskId: "task_4k2m9xq1zr9c" };
const places = createTaskCursorCodec("hfo_secret");

test("a place in a list is read by who has written it, also after a restart, and says nothing to anybody else", () => {
  const text = places.encode(place);
  expect(createTaskCursorCodec("hfo_secret").decode(text)).toEqual(place);
  for (const seen of [text, Buffer.from(text, "base64url").toString("latin1")])
    expect(seen).not.toMatch(/task_|4k2m|17\d{8}/);
  // Nor that it is the same one again.
  expect(places.encode(place)).not.toBe(text);
});

test("what was made up, changed or written by another is no place", () => {
  const text = places.encode(place);
  const bytes = Buffer.from(text, "base64url");
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  const wrong = [
    "",
    "x",
    `${place.createdAt}.${place.taskId}`,
    text.slice(0, 20),
    bytes.toString("base64url"),
  ];
  for (const each of [...wrong, createTaskCursorCodec("another").encode(place)])
    expect(() => places.decode(each)).toThrow(/is no place in a list of tasks; nothing was done$/);
});
