import { useState } from 'preact/hooks'
import type { Answer } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { Ask, FormDialog, ShownOnce } from '../confirm.tsx'
import { formatAgo, formatZoned, showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { currentSession } from '../session.ts'
import { Select, Show } from '../states.tsx'

type User = Answer<'/api/users'>['results'][number]
type Invitation = Answer<'/api/invitations', 'post'>

const ROLES = [['viewer', 'viewer'], ['viewer+persons', 'viewer who sees persons'], ['editor', 'editor'], ['admin', 'administrator']] as const
/** Of those that log in: the link sets a new password. */
const KEPT = ['kept', 'as before'] as const
/** Of those that are made with `POST /api/users`. */
const ACCOUNT = ['', 'none: an account for keys, without a login'] as const

/** Who may log in, as what and where; and accounts that own keys. */
export function PeopleScreen () {
  const users = useAnswer<Answer<'/api/users'>>('/api/users/')
  const [invited, setInvited] = useState<User | 'new'>()
  const [made, setMade] = useState<Invitation>()
  const [changing, setChanging] = useState<User>()
  const now = Date.now()
  const onInvited = (invitation: Invitation | undefined): void => {
    setMade(invitation)
    users.reload()
  }
  return (
    <section>
      <h1>People</h1>
      <p class='hint'>People log in with a password or at your identity provider. Their keys never exceed their role.</p>
      <div class='toolbar'><button type='button' class='primary' onClick={() => setInvited('new')}>Invite …</button></div>
      <Show of={users} what='People'>
        {({ results }) => (
          <Rows
            label='People' of={results} keyOf={({ id }) => id} styleOf={({ disabled_at: disabled }) => disabled === null ? '' : 'gone'}
            columns={[
              ['E-mail', ({ email }) => showText(email), 'wide'], ['Name', ({ first_name: name }) => showText(name, 60), 'value'],
              ['Roles', describeRoles, 'value'], ['#Keys', ({ keys }) => keys],
              ['Last login', ({ last_login_at: at }) => formatAgo(at, now)], ['State', describeUser],
              ['-Actions', (user) => user.email !== currentSession().email && (
                <>
                  {user.disabled_at === null && <button type='button' class='quiet' onClick={() => setInvited(user)}>New link …<span class='hidden'> {user.email}</span></button>}
                  <button type='button' class='quiet' onClick={() => setChanging(user)}>{user.disabled_at === null ? 'Disable' : 'Enable'} …<span class='hidden'> {user.email}</span></button>
                </>
              )]
            ]}
          />
        )}
      </Show>
      {invited !== undefined && <InviteDialog user={invited === 'new' ? undefined : invited} onClose={() => setInvited(undefined)} onDone={onInvited} />}
      {made !== undefined && (
        <ShownOnce title={`The invitation of ${showText(made.user.email, 60)}`} text={made.link} label='The link' onClose={() => setMade(undefined)}>
          Send this link: it works once, until {formatZoned(made.expires_at)}, and is not shown again.
        </ShownOnce>
      )}
      {changing !== undefined && (
        <Ask
          title={`${changing.disabled_at === null ? 'Disable' : 'Enable'} ${showText(changing.email, 60)}?`} action={changing.disabled_at === null ? 'Disable' : 'Enable'}
          onClose={() => setChanging(undefined)} onDone={users.reload}
          onConfirm={async () => await request(`/api/users/${changing.id}/`, { method: 'PATCH', body: { disabled: changing.disabled_at === null } })}
        >
          <p>{changing.disabled_at === null ? describeEnd(changing) : 'Login works again; keys, board links and SQL in alerts do not come back.'}</p>
        </Ask>
      )}
    </section>
  )
}

/** @param props.user  Somebody who gets a new link, and perhaps other roles; undefined: somebody new. */
function InviteDialog ({ user, onClose, onDone }: { user: User | undefined, onClose: () => void, onDone: (made: Invitation | undefined) => void }) {
  const [email, setEmail] = useState(user?.email ?? '')
  const [name, setName] = useState(user?.first_name ?? '')
  const [role, setRole] = useState(user?.roles == null ? 'viewer' : KEPT[0])
  const [project, setProject] = useState('')
  const invite = async (): Promise<Invitation | undefined> => {
    const person = { email, first_name: name }
    if (role === KEPT[0]) return await request('/api/invitations/', { method: 'POST', body: person })
    if (role === ACCOUNT[0]) return await request('/api/users/', { method: 'POST', body: person }).then(() => undefined)
    const given = { project_id: project === '' ? null : Number(project), role: role.replace('+persons', ''), sees_persons: role.includes('+') }
    return await request('/api/invitations/', { method: 'POST', body: { ...person, roles: [given] } })
  }
  return (
    <FormDialog title={user === undefined ? 'Invite' : 'New link'} action={role === ACCOUNT[0] ? 'Create the account' : 'Create the link'} isReady={email !== ''} onClose={onClose} onConfirm={invite} onDone={onDone}>
      <label>E-mail <input required type='email' maxLength={254} value={email} disabled={user !== undefined} onInput={(event) => setEmail(event.currentTarget.value)} /></label>
      <label>First name <input maxLength={150} value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
      <Select label='Role' value={role} options={user === undefined ? [...ROLES, ACCOUNT] : user.roles === null ? ROLES : [KEPT, ...ROLES]} onChange={setRole} />
      {role !== ACCOUNT[0] && role !== KEPT[0] && <Select label='Projects' value={project} options={[['', 'all'], ...currentSession().projects.map(({ id, name }) => [String(id), `${showText(name, 60)} (${id})`] as const)]} onChange={setProject} />}
    </FormDialog>
  )
}

function describeEnd ({ disabling_ends: { keys, board_links: links, sql_alerts: alerts } }: User): string {
  return `Sessions end at once. Permanently: ${keys} keys that the user has or made and ${links} links to boards stop working, and ${alerts} alerts lose their SQL. Exports, targets and other alerts go on.`
}

function describeRoles ({ roles }: User): string {
  if (roles === null) return 'account for keys'
  return roles.map(({ project_id: id, role, sees_persons: sees }) => `${role}${sees ? ' with persons' : ''}${id === null ? '' : ` of ${id}`}`).join(', ')
}

function describeUser ({ disabled_at: disabled, invited_until: until, provider, has_password: hasPassword }: User): string {
  if (disabled !== null) return `disabled ${formatZoned(disabled)}`
  if (until !== null) return `invited until ${formatZoned(until)}`
  return provider !== null ? 'identity provider' : hasPassword ? 'password' : ''
}
