/** What people say about an event or a property: shown, and changed. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { FormDialog } from '../confirm.tsx'
import { formatAgo, showText } from '../format.ts'
import { withTouched } from '../frame/change-stored.ts'
import { useAnswer } from '../load.ts'
import { projectId } from '../router.ts'
import { may } from '../session.ts'
import { Checkbox, Facts, Select, Time } from '../states.tsx'
import type { Noted } from './definition.ts'
import { Title } from '../title.tsx'

interface NotesProps {
  resource: string
  definition: Noted & { created_at: string, last_seen_at: string | null }
  mayWrite: boolean
  onChanged: () => void
  facts: Record<string, ComponentChildren>
}

/** What people say about a definition, and when it was seen. */
export function Notes ({ resource, definition, mayWrite, onChanged, facts }: NotesProps) {
  const [isChanging, setChanging] = useState(false)
  const { name, description, owner, verified, hidden, tags, created_at: first, last_seen_at: last } = definition
  return (
    <>
      <Title name={name} />
      {description !== '' && <p>{showText(description, 3000)}</p>}
      <Facts
        of={{
          Seen: <span class='numbers'>first <Time at={first} />, last <Time at={last} isZoned /> ({formatAgo(last, Date.now())})</span>,
          ...facts,
          Owner: owner?.email ?? 'nobody',
          State: `${verified ? 'verified' : 'not verified'}${hidden ? ', hidden from lists' : ''}`,
          Tags: tags.length === 0 ? 'none' : tags.map((tag) => <span key={tag} class='tag'>{showText(tag, 40)}</span>)
        }}
      />
      {mayWrite && <p><button type='button' onClick={() => setChanging(true)}>Change …</button></p>}
      {isChanging && <ChangeDialog resource={resource} definition={definition} onClose={() => setChanging(false)} onChanged={onChanged} />}
    </>
  )
}

interface ChangeDialogProps {
  resource: string
  definition: Noted
  onClose: () => void
  /** Something was changed: it is to be read again. */
  onChanged: () => void
}

/** Changes the tags and notes of a definition. */
export function ChangeDialog ({ resource, definition, onClose, onChanged }: ChangeDialogProps) {
  const { id, name } = definition
  // As it was when the dialog was opened: the list behind it reads on.
  const [before] = useState(() => {
    const { tags, description, owner, verified, hidden } = definition
    return { tags, description, verified, hidden, owner: owner?.id ?? null }
  })
  const [fields, setFields] = useState(before)
  const [tagList, setTagList] = useState(before.tags.join(', '))
  const change = (changes: Partial<typeof fields>): void => setFields({ ...fields, ...changes })
  const setTags = (text: string): void => {
    setTagList(text)
    change({ tags: readTags(text) })
  }
  const save = async () => await request(`/api/projects/${projectId.value}/${resource}/${id}/`, { method: 'PATCH', body: withTouched({}, before, fields) })
  return (
    <FormDialog title={`Change ${showText(name, 60)}`} action='Save' onClose={onClose} onConfirm={save} onDone={onChanged}>
      <label>Tags, separated by commas<input value={tagList} onInput={(event) => setTags(event.currentTarget.value)} /></label>
      <label>
        Description
        <textarea rows={3} maxLength={3000} value={fields.description} onInput={(event) => change({ description: event.currentTarget.value })} />
      </label>
      <Checkbox label='Verified' isOn={fields.verified} onChange={(isOn) => change({ verified: isOn })} />
      <Checkbox label='Hidden from lists' isOn={fields.hidden} onChange={(isOn) => change({ hidden: isOn })} />
      {may('user:read') && <Owner value={fields.owner} onChange={(chosen) => change({ owner: chosen })} />}
    </FormDialog>
  )
}

function Owner ({ value, onChange }: { value: number | null, onChange: (value: number | null) => void }) {
  const users = useAnswer<{ results: { id: number, email: string }[] }>('/api/users/')
  const names = (users.value?.results ?? []).map(({ id, email }) => [String(id), email] as const)
  return <Select label='Owner' value={String(value ?? '')} options={[['', 'nobody'], ...names]} onChange={(id) => onChange(id === '' ? null : Number(id))} />
}

/** Words between commas, each once, in the order written. */
function readTags (text: string): string[] {
  return [...new Set(text.split(',').map((tag) => tag.trim()).filter((tag) => tag !== ''))]
}
