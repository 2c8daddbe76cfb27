import { useRef, useState } from 'preact/hooks'
import { type Page, request } from '../api-client.ts'
import { Confirm } from '../confirm.tsx'
import { formatAgo, formatCount, showText } from '../format.ts'
import { type Content, SaveDraft, useDraftBase } from '../frame/draft-base.tsx'
import { OneOf } from '../frame/lists.tsx'
import { useAnswer, useLoaded } from '../load.ts'
import { navigate, projectId, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import { Checkbox, Form, Select, Show, Time } from '../states.tsx'
import { FilterEditor } from './filter-editor.tsx'
import { describeCondition, EMPTY_FLAG, type FeatureFlag, type FlagDefinition, giveToEverybody, toDefinition, WRITTEN_FIELDS } from './flag-filters.ts'
import { listDifferences } from '../frame/json-text.ts'
import { TestAs } from './test-as.tsx'
import { Title } from '../title.tsx'
import type { Schema } from '../../api-types.ts'
import { type Change, Changes, ToDraft } from '../frame/differences.tsx'

const path = (): string => `/api/projects/${projectId.value}/feature_flags`

export function FlagDetail ({ id }: { id: string }) {
  const flag = useLoaded(`flag ${projectId.value} ${id}`, async (signal) => id === 'new'
    ? NEW_FLAG
    : await request<FeatureFlag>(`${path()}/${encodeURIComponent(id)}/`, { signal }))
  return (
    <OneOf home='flags' title='Flags' of={flag} what='The flag'>{(saved) => <FlagPage saved={saved} reload={flag.reload} />}</OneOf>
  )
}

const NEW_FLAG: FeatureFlag = {
  ...EMPTY_FLAG,
  id: 0,
  filters: { groups: [{ properties: [], rollout_percentage: 100 }] },
  version: 0,
  created_at: '',
  updated_at: ''
}

/** The flag, or as the address asks: with the variant that an experiment found for everybody, or for a cohort. */
function draftOf (flag: FeatureFlag): FlagDefinition {
  const [winner, cohort] = [query.value.get('everybody'), query.value.get('cohort')]
  const definition = toDefinition(flag)
  if (cohort !== null) return { ...definition, filters: { groups: [{ properties: [{ type: 'cohort', key: 'id', operator: 'in', value: Number(cohort) }], rollout_percentage: 100 }] } }
  return winner === null ? definition : { ...definition, active: true, filters: giveToEverybody(definition.filters, winner) }
}

function FlagPage ({ saved, reload }: { saved: FeatureFlag, reload: () => void }) {
  const [draft, setDraft] = useState<FlagDefinition>(() => draftOf(saved))
  const [isDeleting, setDeleting] = useState(false)
  const form = useRef<HTMLDivElement>(null)
  const isNew = saved.id === 0
  const mayWrite = may('feature_flag:write')
  const storing = useDraftBase({ newest: { version: saved.version, content: toDefinition(saved) }, draft, change: setDraft, store, reload })

  async function store (version: number): Promise<Content<FlagDefinition> | undefined> {
    if (isNew) {
      const { id } = await request<FeatureFlag>(`${path()}/`, { method: 'POST', body: draft })
      navigate(`/projects/${projectId.value}/flags/${id}`)
      return undefined
    }
    const changed = WRITTEN_FIELDS.filter((name) => listDifferences(storing.base.content[name], draft[name], 1).length > 0)
    const body = { ...Object.fromEntries(changed.map((name) => [name, draft[name]])), version }
    const stored = await request<FeatureFlag>(`${path()}/${saved.id}/`, { method: 'PATCH', body })
    setQuery({ everybody: '' })
    setDraft(toDefinition(stored))
    return { version: stored.version, content: toDefinition(stored) }
  }

  function putBack (definition: FlagDefinition): void {
    setDraft(toDefinition(definition))
    form.current?.scrollIntoView()
    form.current?.focus()
  }

  return (
    <>
      <Title name={isNew ? 'New flag' : saved.key} max={80} />
      {!isNew && (
        <p class='hint'>
          Version {saved.version}, changed {formatAgo(saved.updated_at, Date.now())} (<Time at={saved.updated_at} isZoned />).
          As saved: {saved.active ? '' : 'off for everyone; when on: '}{showText((saved.filters.groups ?? []).map(describeCondition).join('; ') || 'nobody', 600)}.
        </p>
      )}
      <div ref={form} tabIndex={-1}>
        <Form class='flag-editor' onSubmit={storing.save}>
          <fieldset disabled={!mayWrite}><FlagFields draft={draft} onChange={(fields) => setDraft({ ...draft, ...fields })} /></fieldset>
          {mayWrite && (
            <SaveDraft of={storing} action='Save'>
              {!isNew && <button type='button' onClick={() => setDeleting(true)}>Delete …</button>}
            </SaveDraft>
          )}
        </Form>
      </div>
      <h2>Test as</h2>
      <p class='hint'>Tests the draft above, saved or not. Nothing is counted or stored.</p>
      <TestAs draft={draft} />
      {!isNew && <h2>Versions</h2>}
      {!isNew && <FlagHistory key={saved.version} flag={saved} onPutBack={mayWrite ? putBack : undefined} />}
      {isDeleting && (
        <Confirm
          title={`Delete ${showText(saved.key, 60)}`} word={saved.key} action='Delete' onClose={() => setDeleting(false)}
          onConfirm={async () => await request(`${path()}/${saved.id}/`, { method: 'DELETE' })} onDone={() => navigate(`/projects/${projectId.value}/flags`)}
        >
          <p>SDKs no longer get a value and use the fallback in their code. To only stop the rollout, turn the flag off instead.</p>
        </Confirm>
      )}
    </>
  )
}

function FlagFields ({ draft, onChange }: { draft: FlagDefinition, onChange: (fields: Partial<FlagDefinition>) => void }) {
  return (
    <>
      <label>Key in SDKs <input required value={draft.key} onInput={(event) => onChange({ key: event.currentTarget.value })} /></label>
      <label>Name <input value={draft.name} onInput={(event) => onChange({ name: event.currentTarget.value })} /></label>
      <Checkbox label='On' isOn={draft.active} onChange={(active) => onChange({ active })} />
      <FilterEditor filters={draft.filters} onChange={(filters) => onChange({ filters })} />
      <h2>Further settings</h2>
      <Select
        label='For SDKs' value={draft.evaluation_runtime} options={[['all', 'on servers and clients'], ['server', 'on servers'], ['client', 'on clients']]}
        onChange={(value) => onChange({ evaluation_runtime: value })}
      />
      <Select
        label='Users are identified by' value={draft.bucketing_identifier} options={[['distinct_id', 'distinct id'], ['device_id', 'device id']]}
        onChange={(value) => onChange({ bucketing_identifier: value })}
      />
      <Checkbox label='Users keep their value when they are identified' isOn={draft.ensure_experience_continuity} onChange={(isOn) => onChange({ ensure_experience_continuity: isOn })} />
    </>
  )
}

type FlagChange = Omit<Schema<'FeatureFlagActivity'>, 'definition'> & { definition: FlagDefinition }

/** Changes that are shown at first, and more at a time. */
const STEP = 10

/**
 * The versions of a flag, newest first.
 *
 * @param onPutBack  Makes a draft of an earlier version; absent when the key may not write.
 */
function FlagHistory ({ flag, onPutBack }: { flag: FeatureFlag, onPutBack?: ((definition: FlagDefinition) => void) | undefined }) {
  const [limit, setLimit] = useState(STEP)
  const changes = useAnswer<Page<FlagChange>>(`/api/projects/${projectId.value}/feature_flags/${flag.id}/activity/`, { limit })
  // What was shown stays while more is fetched.
  const shown = useRef<Page<FlagChange> | undefined>(undefined)
  shown.current = changes.value ?? shown.current
  return (
    <Show of={{ ...changes, value: shown.current }} what='Versions'>
      {({ results, count, next }) => (
        <>
          {count === 0 && <p class='hint'>No history: the flag was last changed before Millrace recorded changes.</p>}
          <Changes of={results.map(toChange)}>
            {({ version, content }) => onPutBack !== undefined && version !== flag.version && <ToDraft version={version} onPress={() => onPutBack(content)} />}
          </Changes>
          {next !== null && (
            <p>
              <button type='button' disabled={changes.isLoading} onClick={() => setLimit(limit + STEP)}>Show older changes</button>{' '}
              <span class='hint'>{formatCount(results.length)} of {formatCount(count)}</span>
            </p>
          )}
          {next === null && count > 0 && results.at(-1)?.activity !== 'created' && <p class='hint'>Older changes are not kept.</p>}
        </>
      )}
    </Show>
  )
}

function toChange ({ version, activity, created_at: at, user, key_label: label, experiment, definition, detail }: FlagChange): Change<FlagDefinition> {
  const content = toDefinition(definition)
  return {
    version, at, by: user?.email ?? 'somebody who is gone', content,
    about: `${label === '' ? '' : ` with the key “${showText(label, 40)}”`}${experiment === null ? '' : `, for the experiment “${showText(experiment, 80)}”`}`,
    // What changed is turned back.
    before: activity === 'created' ? EMPTY_FLAG : { ...content, ...Object.fromEntries(detail.changes.map(({ field, before }) => [field, before])) }
  }
}
