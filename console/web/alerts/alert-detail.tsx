import { useState } from 'preact/hooks'
import type { Schema } from '../../api-types.ts'
import { type Page, request } from '../api-client.ts'
import { DeleteDialog, TextFields, useAttempt } from '../confirm.tsx'
import { showText } from '../format.ts'
import { changerOf } from '../frame/change-stored.ts'
import { listSubjects, OneOf } from '../frame/lists.tsx'
import { useUnsaved } from '../frame/unsaved.tsx'
import { useLoaded } from '../load.ts'
import { linkTo, navigate, projectId, query } from '../router.ts'
import { may } from '../session.ts'
import { Checkbox, Facts, Failed, Form, NumberField, Select, Time } from '../states.tsx'
import { Title } from '../title.tsx'
import { alertsPath, AlertState, History, Trial } from './alert-history.tsx'
import { type Alert, CONDITIONS, readSubject, subjectKey, withSubject } from './describe-alert.ts'

type Draft = Pick<Alert, 'name' | 'description' | 'about' | 'every' | 'condition' | 'targets' | 'enabled'>

const NEW: Draft = {
  name: '', description: '', about: { kind: 'question', id: 0 }, every: 'hour', condition: { is: 'below', value: 0 }, targets: [], enabled: true
}

/** What an alert may be about, and where it may be sent. */
interface Choices { subjects: readonly [string, string][], targets: readonly Schema<'Target'>[] }

/** The targets that the key may see. */
export async function listTargets (signal: AbortSignal): Promise<Schema<'Target'>[]> {
  if (!may('project:read')) return []
  return (await request<Page<Schema<'Target'>>>(`/api/projects/${projectId.value}/targets/`, { query: { limit: 1000 }, signal })).results
}

export function AlertDetail ({ id }: { id: string }) {
  const loaded = useLoaded(`alert ${projectId.value} ${id}`, async (signal) => {
    const [stored, subjects, targets] = await Promise.all([
      id === 'new' ? undefined : request<Alert>(alertsPath(encodeURIComponent(id)), { signal }),
      listSubjects(['question', 'saved_query', 'board'], signal, (kind) => kind === undefined || kind === 'trend'), listTargets(signal)
    ])
    return { stored, choices: { subjects, targets } }
  })
  return (
    <OneOf home='alerts' title='Alerts' of={loaded} what='The alert'>
      {({ stored, choices }) => <AlertPage key={stored?.updated_at} stored={stored} choices={choices} onSaved={loaded.reload} />}
    </OneOf>
  )
}

function AlertPage ({ stored, choices, onSaved }: { stored: Alert | undefined, choices: Choices, onSaved: () => void }) {
  const [isDeleting, setDeleting] = useState(false)
  const place = stored?.about.kind === 'question' ? 'questions/' : stored?.about.kind === 'board' ? 'boards/' : 'sql?saved='
  return (
    <>
      <Title name={stored?.name ?? 'New alert'} max={120} />
      {stored !== undefined && (
        <Facts
          of={{
            State: <AlertState of={stored} />,
            About: <a {...linkTo(`/projects/${projectId.value}/${place}${stored.about.id}`)}>{showText(nameOf(choices, stored), 120)}</a>,
            'Evaluated through': <Time at={stored.evaluated_through} isZoned />
          }}
        />
      )}
      <AlertEditor stored={stored} choices={choices} onSaved={onSaved} onDelete={() => setDeleting(true)} />
      {stored !== undefined && <History id={stored.id} />}
      {isDeleting && stored !== undefined && (
        <DeleteDialog name={stored.name} path={alertsPath(stored.id)} onDone={() => navigate(`/projects/${projectId.value}/alerts`)} onClose={() => setDeleting(false)}>
          Its history is deleted, too. Its question, query or board is kept.
        </DeleteDialog>
      )}
    </>
  )
}

const nameOf = ({ subjects }: Choices, { about }: Pick<Alert, 'about'>): string =>
  subjects.find(([key]) => key === subjectKey(about))?.[1] ?? subjectKey(about)

interface EditorProps { stored: Alert | undefined, choices: Choices, onSaved: () => void, onDelete: () => void }

function AlertEditor ({ stored, choices, onSaved, onDelete }: EditorProps) {
  const [first] = useState<Draft>(() => stored ?? withSubject(NEW, readSubject(query.value.get('about')) ?? NEW.about))
  const [draft, setDraft] = useState(first)
  const [change] = useState(() => stored && changerOf<Alert>(alertsPath(stored.id), stored.updated_at))
  const { isBusy, error, attempt } = useAttempt()
  const mayWrite = may('query:write')
  const isChanged = JSON.stringify(draft) !== JSON.stringify(first)
  useUnsaved(isChanged)
  const set = (fields: Partial<Draft>): void => setDraft({ ...draft, ...fields })
  const save = async (): Promise<void> => {
    await attempt(async () => {
      const { id } = await (change?.(draft) ?? request<Alert>(alertsPath(), { method: 'POST', body: draft }))
      if (stored === undefined) navigate(`/projects/${projectId.value}/alerts/${id}`)
      else onSaved()
    })
  }
  return (
    <>
      <Form class='stacked' onSubmit={save}>
        <fieldset class='stacked' disabled={!mayWrite}>
          <legend class='hidden'>Alert</legend>
          <TextFields texts={{ name: draft.name, description: draft.description }} onChange={set} />
          <Select
            label='About' value={subjectKey(draft.about)} options={[...draft.about.id === 0 ? [[subjectKey(NEW.about), 'Choose …'] as const] : [], ...withCurrent(choices, draft)]}
            onChange={(key) => setDraft(withSubject(draft, readSubject(key) ?? draft.about))}
          />
          <ConditionFields key={draft.about.kind === 'board' ? 'board' : 'value'} draft={draft} onChange={set} />
          <TargetFields of={choices.targets} chosen={draft.targets} onChange={(targets) => set({ targets })} />
          <Checkbox label='On' isOn={draft.enabled} onChange={(enabled) => set({ enabled })} />
        </fieldset>
        {error !== undefined && <Failed error={error} onRetry={() => { void save() }} />}
        {mayWrite && (
          <p class='actions'>
            {stored !== undefined && <button type='button' onClick={onDelete}>Delete …</button>}
            <button type='submit' class='primary' disabled={isBusy || draft.about.id === 0 || draft.targets.length === 0 || (stored !== undefined && !isChanged)}>{stored === undefined ? 'Create' : 'Save'}</button>
          </p>
        )}
      </Form>
      {draft.condition !== null && draft.about.id !== 0 && <Trial key={JSON.stringify([draft.about, draft.every, draft.condition])} draft={draft} />}
    </>
  )
}

/** The choices, and the subject of the alert also if it was deleted. */
function withCurrent (choices: Choices, { about }: Draft): readonly (readonly [string, string])[] {
  const key = subjectKey(about)
  return about.id === 0 || choices.subjects.some(([each]) => each === key) ? choices.subjects : [[key, key], ...choices.subjects]
}

function ConditionFields ({ draft: { about, every, condition }, onChange }: { draft: Draft, onChange: (fields: Partial<Draft>) => void }) {
  const sizes = about.kind === 'board' ? [['day', 'day'], ['week', 'Monday']] as const : [['hour', 'hour'], ['day', 'day']] as const
  return (
    <>
      <Select label={about.kind === 'board' ? 'Sent each' : 'Windows'} value={every} options={sizes} onChange={(chosen) => onChange({ every: sizes.find(([size]) => size === chosen)?.[0] ?? every })} />
      {condition !== null && (
        <>
          <Select
            label='Fires when the value' value={condition.is} options={CONDITIONS}
            onChange={(chosen) => onChange({ condition: { ...condition, is: CONDITIONS.find(([is]) => is === chosen)?.[0] ?? condition.is } })}
          />
          <NumberField label='Number' value={condition.value} onChange={(value) => onChange({ condition: { ...condition, value } })} />
        </>
      )}
    </>
  )
}

function TargetFields ({ of, chosen, onChange }: { of: readonly Schema<'Target'>[], chosen: readonly number[], onChange: (targets: number[]) => void }) {
  if (of.length === 0) return <p>There is no target to send it to: <a {...linkTo(`/projects/${projectId.value}/targets`)}>make one</a> first.</p>
  const toggle = (id: number) => (isOn: boolean): void => onChange(isOn ? [...chosen, id] : chosen.filter((each) => each !== id))
  return (
    <fieldset>
      <legend>Targets</legend>
      {of.map(({ id, name }) => <Checkbox key={id} label={showText(name, 80)} isOn={chosen.includes(id)} onChange={toggle(id)} />)}
    </fieldset>
  )
}
