/** What a user's systemd is told to keep a gateway running. */
export interface SystemdUnitOptions {
  readonly node: string;
  readonly main: string;
  /** What it is told beside. Readable for everybody: no secret. */
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * `Delegate` gives each run a cgroup of its own, and `DelegateSubgroup` keeps processes out of the unit's own, so that it
 * can hand out controllers for limits (an older systemd ignores it). `KillMode=process` and `OOMPolicy=continue` leave
 * the runs to their anchors when the gateway is stopped, restarted, or killed for want of memory.
 */
export function systemdUnit({ node, main, environment }: SystemdUnitOptions): string {
  const told = Object.entries(environment).map(
    ([name, value]) => `Environment=${quoteForSystemd(`${name}=${value}`)}`,
  );
  return `[Unit]
Description=Holdfast gateway
StartLimitIntervalSec=60
StartLimitBurst=10

[Service]
Type=exec
ExecStart=${quoteForSystemd(node)} ${quoteForSystemd(main)} gateway run --quiet
${told.join("\n")}
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
