import { request } from '../api-client.ts'
import { Copyable } from '../confirm.tsx'
import { useLoaded } from '../load.ts'
import { projectId, query, setQuery } from '../router.ts'
import { may, session } from '../session.ts'
import { Empty, Show } from '../states.tsx'
import { showText } from '../format.ts'
import { ArrivalLight } from './arrival-light.tsx'
import { type ProjectKey, ProjectKeys } from './project-keys.tsx'
import { buildSnippets } from './snippets.ts'

/** How to send events to the project: code to copy, a light that turns when the first one arrives, and the keys. */
export function ConnectScreen () {
  const keys = useLoaded(`project keys ${projectId.value}`, async (signal) =>
    await request<{ results: ProjectKey[] }>(`/api/projects/${projectId.value}/keys/`, { signal }))
  const name = session.value?.projects.find(({ id }) => id === projectId.value)?.name ?? ''
  return (
    <section>
      <h1>Connect {showText(name, 60)}</h1>
      <p class='hint'>Copy, run, and see the light turn.</p>
      {may('event:read') && <ArrivalLight key={projectId.value} />}
      <Show of={keys} what='Keys'>
        {({ results }) => {
          const current = results.find(({ expires_at: end }) => end === null) ?? results[0]
          return current === undefined
            ? <Empty><p>The project has no key: rotate it to make one.</p></Empty>
            : <Snippets apiKey={current.api_key} />
        }}
      </Show>
      {keys.value !== undefined && <ProjectKeys keys={keys} />}
    </section>
  )
}

function Snippets ({ apiKey }: { apiKey: string }) {
  const snippets = buildSnippets(apiKey, location.origin)
  const chosen = snippets.find(({ id }) => id === query.value.get('sdk')) ?? snippets[0]!
  return (
    <>
      <div class='toolbar' role='group' aria-label='SDK'>
        {snippets.map(({ id, name }) => (
          <button key={id} type='button' aria-pressed={id === chosen.id} onClick={() => setQuery({ sdk: id })}>{name}</button>
        ))}
      </div>
      {chosen.install !== '' && <Copyable text={chosen.install} label={`Installs ${chosen.name}`} />}
      <Copyable key={chosen.id} text={chosen.code} label={`Code for ${chosen.name}`} />
      <p class='hint'>{chosen.hint}</p>
    </>
  )
}
