export function SessionLink({ id, name }: { readonly id: string; readonly name: string }) {
  return (
    <a class="cut" href={`/sessions/${id}`} title={name}>
      <bdi>{name}</bdi>
    </a>
  );
}
