import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { useAttempt } from '../confirm.tsx'
import { formatCounted, showText } from '../format.ts'
import { useAnswer } from '../load.ts'
import { projectId } from '../router.ts'
import { may } from '../session.ts'
import { Dialog, Failed, Select } from '../states.tsx'
import { describeOutcome, type Noted } from './definition.ts'

interface ChangeDialogProps {
  /** Part of the path of the API: `event_definitions`. */
  resource: string
  /** One, or those that were chosen. */
  definitions: readonly Noted[]
  onClose: () => void
  /** Something was changed: the list is to be read again. */
  onChanged: () => void
}

interface Outcome { changed: string[], errors: { id: string, detail: string }[] }

/** An outcome with the names as they were: what is gone is not in the list that is read again. */
interface NamedOutcome { changed: number, errors: { id: string, name: string, detail: string }[] }

/** Changes the notes of one definition or of many, by one request; what could not be changed is named. */
export function ChangeDialog ({ resource, definitions, onClose, onChanged }: ChangeDialogProps) {
  const only = definitions.length === 1 ? definitions[0] : undefined
  const [fields, setFields] = useState({
    tags: only?.tags.join(', ') ?? '', description: only?.description ?? '', owner: '', verified: '', hidden: '', add: '', remove: ''
  })
  const [outcome, setOutcome] = useState<NamedOutcome>()
  const { isBusy, error, attempt } = useAttempt()
  const set = (name: keyof typeof fields) => (event: { currentTarget: { value: string } }) =>
    setFields({ ...fields, [name]: event.currentTarget.value })
  const save = async (): Promise<void> => {
    let done: Outcome | undefined
    const worked = await attempt(async () => {
      done = await request<Outcome>(`/api/projects/${projectId.value}/${resource}/bulk_update/`, {
        method: 'POST', body: buildChange(fields, definitions.map(({ id }) => id), only)
      })
    })
    if (!worked || done === undefined) return
    const names = new Map(definitions.map(({ id, name }) => [id, name]))
    if (done.changed.length > 0) onChanged()
    if (done.errors.length === 0) onClose()
    else {
      setOutcome({
        changed: done.changed.length,
        errors: done.errors.map(({ id, detail }) => ({ id, name: showText(names.get(id) ?? id, 60), detail }))
      })
    }
  }

  return (
    <Dialog title={only === undefined ? `Change ${formatCounted(definitions.length, 'definition')}` : `Change ${showText(only.name, 60)}`} onClose={onClose}>
      <form
        class='stacked'
        onSubmit={(event) => {
          event.preventDefault()
          if (!isBusy) void save()
        }}
      >
        {only !== undefined && <label>Tags, separated by commas<input value={fields.tags} onInput={set('tags')} /></label>}
        {only !== undefined && (
          <label>Description<textarea rows={3} maxLength={3000} value={fields.description} onInput={set('description')} /></label>
        )}
        <Select label='Verified' value={fields.verified} options={yesOrNo('verified', 'not verified')} onChange={(verified) => setFields({ ...fields, verified })} />
        <Select label='Hidden' value={fields.hidden} options={yesOrNo('hidden from lists', 'shown')} onChange={(hidden) => setFields({ ...fields, hidden })} />
        {may('user:read') && <Owner value={fields.owner} onChange={(owner) => setFields({ ...fields, owner })} />}
        {only === undefined && <label>Add tags, separated by commas<input value={fields.add} onInput={set('add')} /></label>}
        {only === undefined && <label>Remove tags<input value={fields.remove} onInput={set('remove')} /></label>}
        {error !== undefined && <Failed error={error} onRetry={() => { void save() }} />}
        {outcome !== undefined && (
          <div role='alert'>
            <p class='error'>{describeOutcome(outcome.changed, outcome.errors.length)}</p>
            <ul>{outcome.errors.map(({ id, name, detail }) => <li key={id}>{name}: {detail}</li>)}</ul>
          </div>
        )}
        <p class='actions'>
          <button type='button' onClick={onClose}>{outcome === undefined ? 'Cancel' : 'Close'}</button>
          <button type='submit' class='primary' disabled={isBusy}>Save</button>
        </p>
      </form>
    </Dialog>
  )
}

/** Only what was chosen is sent: the rest of each definition stays as it is. */
function buildChange (
  { tags, description, owner, verified, hidden, add, remove }: Record<'tags' | 'description' | 'owner' | 'verified' | 'hidden' | 'add' | 'remove', string>,
  ids: string[], only: Noted | undefined
): object {
  const before = only?.tags ?? []
  const wanted = readTags(tags)
  const added = [...readTags(add), ...wanted.filter((tag) => !before.includes(tag))]
  const removed = [...readTags(remove), ...before.filter((tag) => !wanted.includes(tag))]
  return {
    ids,
    ...(only === undefined || description === only.description ? {} : { description }),
    ...(owner === '' ? {} : { owner: owner === 'nobody' ? null : Number(owner) }),
    ...(verified === '' ? {} : { verified: verified === 'yes' }),
    ...(hidden === '' ? {} : { hidden: hidden === 'yes' }),
    ...(added.length === 0 ? {} : { add_tags: added }),
    ...(removed.length === 0 ? {} : { remove_tags: removed })
  }
}

/** Words between commas, each once, in the order written. */
function readTags (text: string): string[] {
  return [...new Set(text.split(',').map((tag) => tag.trim()).filter((tag) => tag !== ''))]
}

const yesOrNo = (yes: string, no: string) => [['', 'as it is'], ['yes', yes], ['no', no]] as const

function Owner ({ value, onChange }: { value: string, onChange: (value: string) => void }) {
  const users = useAnswer<{ results: { id: number, email: string }[] }>('/api/users/')
  const names = (users.value?.results ?? []).map(({ id, email }) => [id, email] as const)
  return <Select label='Owner' value={value} options={[['', 'as it is'], ['nobody', 'nobody'], ...names]} onChange={onChange} />
}
