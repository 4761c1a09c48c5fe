import type { ResponseOf } from "../../api/contract.js";

/** Answers requests that arrive during a diagnosis with its result: each starts processes that inspect this machine. */
export function createDoctor(home: string): () => Promise<ResponseOf<"doctor">> {
  let running: Promise<ResponseOf<"doctor">> | null = null;
  return () => {
    running ??= diagnose(home).finally(() => {
      running = null;
    });
    return running;
  };
}

async function diagnose(home: string): Promise<ResponseOf<"doctor">> {
  const { runChecks } = await import("./run-checks.js");
  const { checks } = await runChecks(home);
  return { ok: checks.every(({ state }) => state !== "bad"), checks: [...checks] };
}
