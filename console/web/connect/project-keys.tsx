import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Confirm } from '../confirm.tsx'
import { formatAgo, formatTime, showText } from '../format.ts'
import type { Loaded } from '../load.ts'
import { projectId } from '../router.ts'
import { may } from '../session.ts'

export interface ProjectKey { api_key: string, kind: 'project' | 'team', created_at: string, expires_at: string | null }

/** For how long the old key may be accepted after a rotation, with its seconds. */
const GRACES = { 'for an hour': 3600, 'for a day': 86_400, 'for a week': 604_800, 'for 90 days': 7_776_000, 'no longer': 0 }

/** The keys that SDKs send, with the end of those that were rotated. */
export function ProjectKeys ({ keys }: { keys: Loaded<{ results: ProjectKey[] }> }) {
  const [isRotating, setRotating] = useState(false)
  const now = Date.now()
  return (
    <>
      <h2>Keys of the project</h2>
      <div class='scroll' role='region' aria-label='Keys of the project' tabIndex={0}>
        <table>
          <thead><tr><th scope='col'>Key</th><th scope='col'>Made</th><th scope='col'>Accepted</th></tr></thead>
          <tbody>
            {keys.value?.results.map((key) => (
              <tr key={key.api_key}>
                <td class='wide'><code>{showText(key.api_key)}</code></td>
                <td title={`${formatTime(key.created_at)} UTC`}>{formatAgo(key.created_at, now)}</td>
                <td>{describeEnd(key.expires_at, now)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {may('project:write') && <p><button type='button' onClick={() => setRotating(true)}>Rotate the key …</button></p>}
      {isRotating && <RotateDialog onClose={() => setRotating(false)} onDone={keys.reload} />}
    </>
  )
}

function RotateDialog ({ onClose, onDone }: { onClose: () => void, onDone: () => void }) {
  const [grace, setGrace] = useState(GRACES['for a week'])
  return (
    <Confirm
      title='Rotate the key' word='rotate' action='Rotate' onClose={onClose}
      onConfirm={async () => {
        await request(`/api/projects/${projectId.value}/rotate_key/`, { method: 'POST', body: { grace_seconds: grace } })
        onDone()
      }}
    >
      <p>The project gets a new key. Pages and phones go on sending the old one until they are updated.</p>
      <label>
        The old key is accepted{' '}
        <select value={String(grace)} onChange={(event) => setGrace(Number(event.currentTarget.value))}>
          {Object.entries(GRACES).map(([name, seconds]) => <option key={name} value={String(seconds)}>{name}</option>)}
        </select>
      </label>
      {grace === 0 && <p class='error'>Events that are sent with the old key are refused from then on.</p>}
    </Confirm>
  )
}

/** `yes`, or until when, or since when no longer. */
export function describeEnd (expiresAt: string | null, now: number): string {
  if (expiresAt === null) return 'yes'
  return `${Date.parse(expiresAt) > now ? 'until' : 'ended'} ${formatTime(expiresAt)} UTC`
}
