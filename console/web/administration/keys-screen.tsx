import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import type { Answer } from '../../api-types.ts'
import { Confirm, ShownOnce } from '../confirm.tsx'
import { formatZoned, showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { Paged, useList } from '../paging.tsx'
import { may } from '../session.ts'
import { Ago, Time } from '../states.tsx'
import { type NewKey, NewKeyDialog } from './new-key.tsx'

type PersonalKey = Answer<'/api/personal_api_keys'>['results'][number]

/** An old key is accepted for so long after a rotation, in seconds: a day. */
const GRACE_SECONDS = 86_400

/** Personal keys, with what they may do, when they were used and when they end. */
export function KeysScreen () {
  const [isCreating, setCreating] = useState(false)
  const [made, setMade] = useState<NewKey>()
  const keys = useList<PersonalKey>('/api/personal_api_keys/')
  const onMade = (key: NewKey): void => {
    setMade(key)
    keys.reload()
  }
  return (
    <section>
      <h1>Keys</h1>
      <p class='hint'>Personal keys give access to the API and this console. SDKs use the public project key: see Connect.</p>
      {may('user:write') && <div class='toolbar'><button type='button' class='primary' onClick={() => setCreating(true)}>New key …</button></div>}
      <Paged of={keys} what='Keys' empty={null}>{(results) => <KeyTable keys={results} onRevoked={keys.reload} onMade={onMade} />}</Paged>
      {isCreating && <NewKeyDialog onClose={() => setCreating(false)} onMade={onMade} />}
      {made !== undefined && (
        <ShownOnce title={`The key ${showText(made.label, 40)}`} text={made.value} label='The new key' onClose={() => setMade(undefined)}>
          Copy the key now: only its hash is stored, and it will not be shown again.
        </ShownOnce>
      )}
    </section>
  )
}

function KeyTable ({ keys, onMade, onRevoked }: { keys: readonly PersonalKey[], onMade: (key: NewKey) => void, onRevoked: () => void }) {
  const [asked, setAsked] = useState<{ key: PersonalKey, what: 'rotate' | 'revoke' }>()
  const now = Date.now()
  return (
    <>
      <Rows
        label='Personal keys' class='dense' of={keys} keyOf={({ id }) => id} styleOf={(key) => isUsable(key, now) ? '' : 'gone'}
        columns={[
          ['Key', (key) => <><code>{key.mask_value}</code>{key.is_current && <> <span class='tag'>yours now</span></>}</>],
          ['Label', ({ label }) => showText(label, 40), 'value'], ['User', ({ user }) => showText(user.email, 60), 'value'],
          ['May do', ({ scopes }) => scopes.includes('*') ? 'everything' : scopes.join(', '), 'value'],
          ['Projects', ({ scoped_teams: projects }) => projects === null ? 'all' : projects.join(', ')],
          ['Last use', ({ last_used_at: at }) => <Ago at={at} />], ['Made', ({ created_at: at }) => <Ago at={at} />],
          ['State', (key) => describeState(key, now)],
          may('user:write') && ['-Actions', (key) => isUsable(key, now) && (
            <>
              <button type='button' class='quiet' onClick={() => setAsked({ key, what: 'rotate' })}>Rotate<span class='hidden'> {key.label}</span></button>
              <button type='button' class='quiet' onClick={() => setAsked({ key, what: 'revoke' })}>Revoke<span class='hidden'> {key.label}</span></button>
            </>
          )]
        ]}
      />
      {asked !== undefined && (
        <ChangeDialog
          of={asked.key} made={keys.filter(({ made_by: by }) => by.includes(asked.key.id))} what={asked.what}
          onClose={() => setAsked(undefined)} onMade={onMade} onRevoked={onRevoked}
        />
      )}
    </>
  )
}

interface ChangeProps {
  of: PersonalKey
  made: readonly PersonalKey[]
  what: 'rotate' | 'revoke'
  onClose: () => void
  onMade: (key: NewKey) => void
  onRevoked: () => void
}

function ChangeDialog ({ of: key, made, what, onClose, onMade, onRevoked }: ChangeProps) {
  const label = showText(key.label === '' ? key.mask_value : key.label, 40)
  const path = `/api/personal_api_keys/${key.id}/`
  return what === 'revoke'
    ? (
      <Confirm title={`Revoke ${label}`} word='revoke' action='Revoke' onClose={onClose} onDone={onRevoked} onConfirm={async () => await request(path, { method: 'DELETE' })}>
        <p>Within a second, the key and all keys created with it, directly or indirectly, permanently stop working.</p>
        {made.length > 0 && <p>Including: {made.map(({ label, mask_value: mask }) => showText(label === '' ? mask : label, 40)).join(', ')}.</p>}
        {key.is_current && <p class='error'>You are logged in with this key and will be logged out.</p>}
      </Confirm>
      )
    : (
      <Confirm title={`Rotate ${label}`} word='rotate' action='Rotate' onClose={onClose} onDone={onMade} onConfirm={async () => await request<NewKey>(`${path}rotate/`, { method: 'POST', body: { grace_seconds: GRACE_SECONDS } })}>
        <p>
          You get a new key with the same rights. The old key is accepted for at most one more day, until{' '}
          <Time at={new Date(Math.min(Date.now() + GRACE_SECONDS * 1000, Date.parse(key.expires_at ?? '9999-12-31'))).toISOString()} isZoned />.
        </p>
      </Confirm>
      )
}

function isUsable ({ revoked_at: revoked, expires_at: end }: PersonalKey, now: number): boolean {
  return revoked === null && (end === null || Date.parse(end) > now)
}

/** Whether it can be used, until when, or since when no longer. */
export function describeState ({ revoked_at: revoked, expires_at: end }: PersonalKey, now: number): string {
  if (revoked !== null) return `revoked ${formatZoned(revoked)}`
  if (end === null) return 'does not expire'
  return Date.parse(end) > now ? `expires ${formatZoned(end)}` : `expired ${formatZoned(end)}`
}
