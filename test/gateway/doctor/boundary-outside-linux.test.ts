import { expect, test } from "vitest";
import { boundaryChecks } from "../../../src/gateway/doctor/boundary-outside-linux.js";
import { profileCheck } from "../../../src/gateway/doctor/state-and-store.js";
import { isInProfile } from "../../../src/home/path-trust.js";

test("doctor names the tier of each system, and what is missing there", () => {
  const shown = (boundary: Parameters<typeof boundaryChecks>[0]): string[] =>
    boundaryChecks(boundary, "unique").map(({ name, state }) => `${state} ${name}`);
  expect(shown("job")).toEqual(["ok job", "ok tier"]);
  expect(shown("lineage")).toEqual(["warn lineage", "warn run limits", "ok tier"]);
  expect(shown("group")).toEqual(["warn group", "warn run limits", "ok tier"]);
  expect(boundaryChecks("lineage", "unique").at(-1)?.detail).toBe(
    "runs started here get lineage+launcher+unique",
  );
});

test("on Windows a state directory in the user's profile is trusted, another one is to be checked", () => {
  const env = { USERPROFILE: String.raw`C:\Users\ada`, LOCALAPPDATA: String.raw`D:\Local`, APPDATA: "" };
  expect(isInProfile(String.raw`C:\Users\ada\AppData\Local\holdfast`, env)).toBe(true);
  expect(isInProfile(String.raw`D:\local\holdfast`, env)).toBe(true);
  for (const path of [String.raw`C:\Users\ada2\x`, String.raw`C:\Users`, String.raw`E:\holdfast`])
    expect(isInProfile(path, env)).toBe(false);
  expect(profileCheck("E:\\x", false)).toMatchObject({
    state: "warn",
    remedy: expect.stringContaining("icacls"),
  });
  expect(profileCheck("E:\\x", true).state).toBe("ok");
});
