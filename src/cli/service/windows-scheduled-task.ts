import { escapeXml } from "./launchd-agent.js";
import type { GatewayService } from "./gateway-service.js";

export const TASK_NAME = "Holdfast gateway";

/**
 * A task of the Task Scheduler for the logon of one user. It starts the gateway in the background and ends: a task that
 * stayed would keep a console window open. A task has no variables of its own, so cmd.exe sets them. Priority 5 is that of
 * programs that users start; the default of tasks is lower, and the gateway and its runs would inherit it.
 */
export function scheduledTask({ node, main, environment }: GatewayService, user: string): string {
  const settings = Object.entries(environment).map(
    ([name, value]) => `set "${name}=${escapePercent(value)}"&& `,
  );
  const line = `${settings.join("")}"${escapePercent(node)}" "${escapePercent(main)}" gateway start`;
  return `<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>Starts the Holdfast gateway of ${escapeXml(user)}</Description>
  </RegistrationInfo>
  <Triggers>
    <LogonTrigger>
      <UserId>${escapeXml(user)}</UserId>
    </LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>${escapeXml(user)}</UserId>
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <Priority>5</Priority>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>3</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>cmd.exe</Command>
      <Arguments>${escapeXml(`/d /e:on /v:off /s /c "${line}"`)}</Arguments>
    </Exec>
  </Actions>
</Task>
`;
}

/** cmd.exe has no escape for `%`; see `quoteForBatch`. */
function escapePercent(text: string): string {
  return text.replaceAll("%", "%%cd:~,%");
}
