import type { GatewayService } from "./gateway-service.js";

/**
 * `Delegate` gives each run its own cgroup; `DelegateSubgroup` keeps the unit's own cgroup without processes, so that
 * it can enable controllers for limits (an older systemd ignores it). `KillMode=process` and `OOMPolicy=continue`
 * leave the runs to their anchors when the gateway is stopped, restarted, or killed for lack of memory.
 */
export function systemdUnit({ node, main, environment }: GatewayService): string {
  const variables = Object.entries(environment).map(
    ([name, value]) => `Environment=${quoteForSystemd(`${name}=${value}`)}`,
  );
  return `[Unit]
Description=Holdfast gateway
StartLimitIntervalSec=60
StartLimitBurst=10

[Service]
Type=exec
ExecStart=${quoteForSystemd(node)} ${quoteForSystemd(main)} gateway run --quiet
${variables.join("\n")}
Restart=on-failure
RestartSec=1
Delegate=yes
DelegateSubgroup=holdfast-gateway
KillMode=process
OOMPolicy=continue
TimeoutStopSec=30

[Install]
WantedBy=default.target
`;
}

/** systemd.syntax(7): C-style quotes; `%` begins a specifier, `$` a variable. */
function quoteForSystemd(word: string): string {
  const safe = word
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("%", "%%")
    .replaceAll("$", "$$$$");
  return `"${safe}"`;
}
