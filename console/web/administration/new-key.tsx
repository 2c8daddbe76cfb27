import { useState } from 'preact/hooks'
import { isScope, SCOPE_OBJECTS, type Scope } from '../../../schema/scopes.ts'
import { request } from '../api-client.ts'
import type { Answer } from '../../api-types.ts'
import { FormDialog } from '../confirm.tsx'
import { showText } from '../format.ts'
import { currentSession, may } from '../session.ts'
import { Select } from '../states.tsx'

/** A key just made, with its value, which is shown once. */
export type NewKey = Answer<'/api/personal_api_keys', 'post'>

/** Days until a key ends; empty for never. */
const LIVES = { never: '', 'in 30 days': '30', 'in 90 days': '90', 'in a year': '365' }
const DAY_MS = 86_400_000

/** Makes a personal key: what it is for, what it may do, for which projects, until when. */
export function NewKeyDialog ({ onClose, onMade }: { onClose: () => void, onMade: (key: NewKey) => void }) {
  const [label, setLabel] = useState('')
  const [access, setAccess] = useState<Record<string, string>>({})
  const [project, setProject] = useState('')
  const [days, setDays] = useState('90')
  const scopes = access.everything === 'yes'
    ? ['*']
    : Object.entries(access).map(([object, action]) => `${object}:${action}`).filter(isScope)

  const create = async () => await request<NewKey>('/api/personal_api_keys/', {
    method: 'POST',
    body: {
      label, scopes, scoped_teams: project === '' ? null : [Number(project)],
      expires_at: days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString()
    }
  })
  return (
    <FormDialog title='New key' action='Create' isReady={label !== '' && scopes.length > 0} onClose={onClose} onConfirm={create} onDone={onMade}>
      <label>Purpose <input required maxLength={40} value={label} onInput={(event) => setLabel(event.currentTarget.value)} /></label>
      {currentSession().scopes.includes('*') && (
        <label class='choice'>
          <input
            type='checkbox' checked={access.everything === 'yes'}
            onChange={(event) => setAccess({ ...access, everything: event.currentTarget.checked ? 'yes' : '' })}
          /> It may do everything
        </label>
      )}
      {access.everything !== 'yes' && <Scopes access={access} onAccess={setAccess} />}
      <Select
        label='Projects' value={project} options={[['', 'all that you may see'], ...currentSession().projects.map(({ id, name }) => [id, `${showText(name, 60)} (${id})`] as const)]}
        onChange={setProject}
      />
      <Select label='Expires' value={days} options={Object.entries(LIVES).map(([name, value]) => [value, name] as const)} onChange={setDays} />
    </FormDialog>
  )
}

/** What a key may do, by object: only what the own key may do is offered. */
function Scopes ({ access, onAccess }: { access: Record<string, string>, onAccess: (access: Record<string, string>) => void }) {
  const offered = SCOPE_OBJECTS.filter((object) => may(`${object}:read`))
  return (
    <fieldset class='scopes'>
      <legend>Scopes</legend>
      {offered.map((object) => (
        <label key={object}>
          {object.replaceAll('_', ' ')}
          <select value={access[object] ?? ''} onChange={(event) => onAccess({ ...access, [object]: event.currentTarget.value })}>
            <option value=''>nothing</option>
            <option value='read'>read</option>
            {may(`${object}:write` satisfies Scope) && <option value='write'>read and write</option>}
          </select>
        </label>
      ))}
    </fieldset>
  )
}
