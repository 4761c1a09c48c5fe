import { createHmac, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isDisconnected } from "../../../src/anchor/protocol/errors.js";
import { PipeProof, pipeProof } from "../../../src/anchor/protocol/pipe-proof.js";

const key = randomBytes(32);
const answer = (challenge: Buffer): Buffer => createHmac("sha256", key).update(challenge).digest();

test("the bytes after a right proof are those of the server, however they are split", () => {
  const proof = new PipeProof(key);
  const bytes = Buffer.concat([answer(proof.challenge), Buffer.from("frame")]);
  expect(proof.take(bytes.subarray(0, 31))).toBeNull();
  expect(proof.take(bytes.subarray(31))).toEqual(Buffer.from("frame"));
});

test("a proof for another challenge is refused: the process that wrote the key has ended", () => {
  const other = new PipeProof(key);
  let refused: Error | null = null;
  try {
    new PipeProof(key).take(answer(other.challenge));
  } catch (error) {
    refused = error as Error;
  }
  expect(refused?.message).toContain("another program listens");
  expect(isDisconnected(refused)).toBe(true);
});

test("a marker without a key is that of no listener", () => {
  const directory = mkdtempSync(join(tmpdir(), "hf-"));
  try {
    const path = join(directory, "launcher.sock");
    expect(() => pipeProof(path)).toThrow(expect.objectContaining({ code: "ENOENT" }));
    writeFileSync(path, "");
    expect(() => pipeProof(path)).toThrow(expect.objectContaining({ code: "ECONNREFUSED" }));
    writeFileSync(path, key.toString("hex"));
    const proof = pipeProof(path);
    expect(proof.take(answer(proof.challenge))).toHaveLength(0);
    rmSync(path);
    // The launcher may live without it.
    const again = pipeProof(path);
    expect(again.take(answer(again.challenge))).toHaveLength(0);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
