import { request } from "../../api/client.js";
import { useResource } from "../../live/use-resource.js";

export function SessionLink({ id, name }: { readonly id: string; readonly name: string }) {
  return (
    <a class="cut" href={`/sessions/${id}`} title={name}>
      <bdi>{name}</bdi>
    </a>
  );
}

/** A link with the name of a session of which only the id is known. */
export function NamedSessionLink({ id }: { readonly id: string }) {
  const status = useResource(
    `name of ${id}`,
    (signal) => request("sessionStatus", { params: { id }, signal }),
    { runIds: [] },
  );
  return (
    <a href={`/sessions/${id}`}>
      <bdi>{status.value?.session.key ?? id}</bdi>
    </a>
  );
}
