import { describe, expect, test } from "vitest";
import { BadInput } from "../../../src/errors.js";
import { buildEnvironment, type EnvironmentRequest } from "../../../src/supervisor/spawn/environment.js";

const markers = { leaseId: "lease_1", instanceId: "inst_1", runId: "run_1", sessionKey: null };
const marks = {
  HOLDFAST_LEASE_ID: "lease_1",
  HOLDFAST_GATEWAY_INSTANCE_ID: "inst_1",
  HOLDFAST_RUN_ID: "run_1",
};

function build(request: Partial<EnvironmentRequest>): Record<string, string> {
  return {
    ...buildEnvironment({ base: {}, withhold: [], set: {}, clear: false, allow: [], markers, ...request }),
  };
}

describe("a run's environment contains", () => {
  test("the caller's environment, the set variables and the markers", () => {
    expect(build({ base: { PATH: "/bin", A: "1" }, set: { A: "2", B: "" } })).toEqual({
      PATH: "/bin",
      A: "2",
      B: "",
      ...marks,
    });
  });

  test("nothing of the caller's when cleared", () => {
    expect(build({ base: { PATH: "/bin", HOLDFAST_HOME: "/h" }, set: { B: "1" }, clear: true })).toEqual({
      B: "1",
      ...marks,
    });
  });

  test("the session key only when there is a session", () => {
    expect(build({})).not.toHaveProperty("HOLDFAST_SESSION_KEY");
    expect(build({ markers: { ...markers, sessionKey: "s" } })).toEqual({
      ...marks,
      HOLDFAST_SESSION_KEY: "s",
    });
  });

  test("the configuration of an outer run, but not its markers", () => {
    const base = {
      HOLDFAST_RUN_ID: "outer",
      HOLDFAST_SESSION_KEY: "outer",
      HOLDFAST_LEASE_ID: "outer",
      HOLDFAST_FUTURE_MARK: "outer",
      HOLDFAST_HOME: "/state",
      HOLDFAST_ANCHOR: "/anchor",
    };
    expect(build({ base })).toEqual({ HOLDFAST_HOME: "/state", HOLDFAST_ANCHOR: "/anchor", ...marks });
  });

  test("inherited injection variables: the caller runs with them already", () => {
    expect(build({ base: { LD_LIBRARY_PATH: "/opt/lib", NODE_OPTIONS: "--no-warnings" } })).toMatchObject({
      LD_LIBRARY_PATH: "/opt/lib",
      NODE_OPTIONS: "--no-warnings",
    });
  });

  test("no variable whose value is undefined", () => {
    expect(build({ base: { GONE: undefined } })).toEqual(marks);
  });

  test("a variable called __proto__ like any other", () => {
    const base = Object.fromEntries([["__proto__", "x"]]);
    expect(Object.entries(build({ base }))).toContainEqual(["__proto__", "x"]);
  });
});

describe("a caller may not set", () => {
  test.each([
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_ANYTHING",
    "DYLD_INSERT_LIBRARIES",
    "NODE_OPTIONS",
    "npm_config_node_options",
    "BASH_ENV",
    "ENV",
    "IFS",
    "BASH_FUNC_ls%%",
    "PYTHONPATH",
    "PERL5OPT",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "LUA_INIT_5_4",
    "GCONV_PATH",
  ])("%s, unless it is allowed by name", (name) => {
    expect(() => build({ set: { [name]: "x" } })).toThrow(BadInput);
    expect(() => build({ set: { [name]: "x" } })).toThrow(name);
    expect(() => build({ set: { [name]: "x" }, allow: ["OTHER"] })).toThrow(BadInput);
    expect(build({ set: { [name]: "x" }, allow: [name] })).toHaveProperty([name], "x");
  });

  test.each(["PATH", "HOME", "EDITOR", "GIT_SSH_COMMAND", "ENVIRONMENT", "OLD_PATH", "HOLDFAST_HOME"])(
    "%s is not among them",
    (name) => {
      expect(build({ set: { [name]: "x" } })).toHaveProperty([name], "x");
    },
  );

  test.each(["", "A=B", "A\0B", "="])("a variable named %j", (name) => {
    expect(() => build({ set: { [name]: "x" } })).toThrow(BadInput);
  });

  test("a value with NUL, which the kernel would cut", () => {
    expect(() => build({ set: { A: "x\0y" } })).toThrow("without NUL");
  });

  test.each(Object.keys(marks))("%s: a run cannot pose as another, not even when allowed", (name) => {
    expect(() => build({ set: { [name]: "run_other" }, allow: [name] })).toThrow("set by Holdfast");
  });
});

describe("on Windows", () => {
  const onWindows = (request: Partial<EnvironmentRequest>): Record<string, string> => ({
    ...buildEnvironment(
      { base: {}, withhold: [], set: {}, clear: false, allow: [], markers, ...request },
      "win32",
    ),
  });

  test("a variable has one value, whatever the case of its name", () => {
    const base = { Path: "C:\\bin", holdfast_run_id: "run_0" };
    expect(onWindows({ base, set: { PATH: "D:\\bin" } })).toEqual({ PATH: "D:\\bin", ...marks });
  });

  test("the caller's token and markers are not inherited, and not set, in any case of their names", () => {
    const base = { holdfast_token: "secret", Holdfast_Session_Key: "other", Holdfast_Home: "C:\\home" };
    expect(onWindows({ base })).toEqual({ Holdfast_Home: "C:\\home", ...marks });
    expect(() => onWindows({ set: { holdfast_Session_key: "other" } })).toThrow("set by Holdfast");
  });

  test("a cleared environment keeps the variables without which no library loads", () => {
    const base = { SystemRoot: "C:\\windows", Path: "C:\\bin" };
    expect(onWindows({ base, clear: true })).toEqual({ SystemRoot: "C:\\windows", ...marks });
  });
});
