import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { cliPath } from "../../support/cli/cli-fixture.js";
import { whyNoMounts } from "../../support/small-disk.js";
import { outputText } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

/** In a mount namespace of its own, where no terminal can be opened. */
const WITHOUT_TERMINALS = `mount --bind /dev/null /dev/ptmx && exec "$0" "$@"`;

test.skipIf(whyNoMounts !== null)(
  "without a PTY to be had, a run fails, or has pipes when that was allowed; the record says which",
  async () => {
    await using fixture = await BackgroundGateway.open();
    const words = [
      "--mount",
      "sh",
      "-c",
      WITHOUT_TERMINALS,
      process.execPath,
      cliPath,
      "gateway",
      "run",
      "--quiet",
    ];
    const gateway = spawn("unshare", words, { env: fixture.env, stdio: "ignore" });
    const left = once(gateway, "exit");
    await waitFor("it answers", async () => (await reachGateway(fixture.home))?.status.ready === true);
    const client = await fixture.client();
    const body = { argv: ["sh", "-c", "test -t 1 || echo no terminal"], pty: true };

    const refused = await client.exec({ body });
    expect(refused).toMatchObject({ running: false, failure: "spawn-error", ptyFellBack: false });
    expect(refused.run).toMatchObject({ io: "pty", exit: { reason: "spawn-error" } });

    const fellBack = await client.exec({ body: { ...body, ptyFallback: true } });
    expect(fellBack).toMatchObject({ running: false, failure: null, ptyFellBack: true });
    expect(fellBack.run).toMatchObject({ io: "pipe", exit: { reason: "exit", code: 0 } });
    expect(outputText(fellBack)).toBe("no terminal\n");

    const neither = await client.exec({ body: { argv: ["/nowhere"], pty: true, ptyFallback: true } });
    expect(neither).toMatchObject({ failure: "not-found", ptyFellBack: true, run: { io: "pipe" } });
    await fixture.stop("terminate");
    await left;
  },
);
