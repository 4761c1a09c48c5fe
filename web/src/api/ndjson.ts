import { fetchFromGateway } from "./client.js";

/**
 * The objects of a stream of the gateway, one per line. Ends when the gateway ends the stream; a broken connection ends it
 * too, in the middle of a line or not.
 */
export async function* followNdjson<Line>(
  path: string,
  signal: AbortSignal,
  onOpen: () => void = () => undefined,
): AsyncGenerator<Line, void, undefined> {
  const response = await fetchFromGateway(path, { signal });
  if (response.body === null) return;
  onOpen();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") yield JSON.parse(line) as Line;
  }
}
