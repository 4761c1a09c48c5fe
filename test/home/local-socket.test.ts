import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { socketAddress } from "../../src/home/local-socket.js";

test("a socket's address is its path, and on Windows a pipe named by its path", () => {
  expect(socketAddress("/s/gateway.sock", "linux")).toBe("/s/gateway.sock");
  expect(socketAddress("/s/gateway.sock", "darwin")).toBe("/s/gateway.sock");
  const hash = createHash("sha256")
    .update(String.raw`c:\users\ada\holdfast\gateway.sock`)
    .digest("hex");
  expect(socketAddress(String.raw`C:\Users\Ada\holdfast\gateway.sock`, "win32")).toBe(
    `\\\\.\\pipe\\holdfast-${hash.slice(0, 32)}`,
  );
});

test("every way to write one path names one pipe, and another path another pipe", () => {
  const pipe = socketAddress(String.raw`C:\Users\ada\sock`, "win32");
  for (const path of ["C:/Users/ada/sock", String.raw`c:\USERS\Ada\x\..\sock`])
    expect(socketAddress(path, "win32")).toBe(pipe);
  expect(socketAddress(String.raw`C:\Users\bob\sock`, "win32")).not.toBe(pipe);
});
