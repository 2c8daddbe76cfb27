import type { Answer } from '../../api-types.ts'
import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Confirm, Copyable } from '../confirm.tsx'
import { type Loaded, useAnswer } from '../load.ts'
import { projectId, query, setQuery } from '../router.ts'
import { may, session } from '../session.ts'
import { Ago, Empty, Select, Show } from '../states.tsx'
import { formatZoned, showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { ArrivalLight } from './arrival-light.tsx'
import { buildSnippets } from './snippets.ts'

export function ConnectScreen () {
  const keys = useAnswer<Keys>(`/api/projects/${projectId.value}/keys/`)
  const name = session.value?.projects.find(({ id }) => id === projectId.value)?.name ?? ''
  return (
    <section>
      <h1>Connect {showText(name, 60)}</h1>
      <p class='hint'>Copy the code, run it, and watch for the first event.</p>
      {may('event:read') && <ArrivalLight key={projectId.value} />}
      <Show of={keys} what='Keys'>
        {({ results }) => {
          const current = results.find(({ expires_at: end }) => end === null) ?? results[0]
          return current === undefined
            ? <Empty><p>The project has no key: rotate to create one.</p></Empty>
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

type Keys = Answer<'/api/projects/{project_id}/keys'>

/** For how long the old key may be accepted after a rotation, with its seconds. */
const GRACES = { 'for an hour': 3600, 'for a day': 86_400, 'for a week': 604_800, 'for 90 days': 7_776_000, 'not at all': 0 }

/** The keys that SDKs send, with the end of those that were rotated. */
function ProjectKeys ({ keys }: { keys: Loaded<Keys> }) {
  const [isRotating, setRotating] = useState(false)
  return (
    <>
      <h2>Keys of the project</h2>
      <Rows
        label='Keys of the project' of={keys.value?.results ?? []} columns={[
          ['Key', ({ api_key: key }) => <code>{showText(key)}</code>, 'wide'],
          ['Made', ({ created_at: at }) => <Ago at={at} />], ['Accepted', ({ expires_at: end }) => describeEnd(end, Date.now())]
        ]}
      />
      {may('project:write') && <p><button type='button' onClick={() => setRotating(true)}>Rotate the key …</button></p>}
      {isRotating && <RotateDialog onClose={() => setRotating(false)} onDone={keys.reload} />}
    </>
  )
}

function RotateDialog ({ onClose, onDone }: { onClose: () => void, onDone: () => void }) {
  const [grace, setGrace] = useState(GRACES['for a week'])
  return (
    <Confirm
      title='Rotate the key' word='rotate' action='Rotate' onClose={onClose} onDone={onDone}
      onConfirm={async () => await request(`/api/projects/${projectId.value}/rotate_key/`, { method: 'POST', body: { grace_seconds: grace } })}
    >
      <p>The project gets a new key. Pages and apps keep sending the old one until they are updated.</p>
      <Select
        label='The old key is accepted' value={grace} options={Object.entries(GRACES).map(([name, seconds]) => [seconds, name] as const)}
        onChange={(value) => setGrace(Number(value))}
      />
      {grace === 0 && <p class='error'>Events with the old key are refused immediately.</p>}
    </Confirm>
  )
}

/** `yes`, or until when, or since when no longer. */
export function describeEnd (expiresAt: string | null, now: number): string {
  if (expiresAt === null) return 'yes'
  return `${Date.parse(expiresAt) > now ? 'until' : 'ended'} ${formatZoned(expiresAt)}`
}
