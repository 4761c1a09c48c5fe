import { expect, test } from "vitest";
import { authMethodsOf, isAuthRequired, toAuthRequired } from "../../../src/acp/wire/auth-required.js";
import { AcpRefused } from "../../../src/errors.js";

const refused = (code: number, said = "Authentication required") => new AcpRefused("session/new", code, said);
const authMethods = [
  { id: "key", name: "API key", description: "Set GEMINI_API_KEY" },
  { id: "web", name: "Browser" },
];

test.each([
  [-32_000, true],
  [401, true],
  [-32_603, false],
  [-32_002, false],
])("code %s means that a login is needed: %s", (code, needed) => {
  expect(isAuthRequired(refused(code))).toBe(needed);
});

test("the error has the agent's words and its login methods", () => {
  const error = toAuthRequired(refused(-32_000), { agent: "gemini", capabilities: { authMethods } });
  expect(error).toMatchObject({ code: "ACP_AUTH_REQUIRED", rpcCode: -32_000, authMethods: ["key", "web"] });
  for (const part of [
    "Authentication required",
    "API key (key): Set GEMINI_API_KEY",
    "Browser (web)",
    "gemini",
  ])
    expect(error.message).toContain(part);
});

test("an agent without login methods is named as the one to log in to", () => {
  const error = toAuthRequired(refused(-32_000), { agent: "codex", capabilities: null });
  expect(error).toMatchObject({ code: "ACP_AUTH_REQUIRED", authMethods: [] });
  expect(error.message).toContain("codex's own command");
});

test("any other error stays as it is", () => {
  const error = refused(-32_603);
  expect(toAuthRequired(error, { agent: null, capabilities: { authMethods } })).toBe(error);
});

test.each([null, {}, { authMethods: "none" }, { authMethods: [null, {}, { id: 1, name: "x" }] }])(
  "malformed login methods are ignored: %j",
  (capabilities) => {
    expect(authMethodsOf(capabilities)).toEqual([]);
  },
);
