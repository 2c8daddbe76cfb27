import { useState } from 'preact/hooks'
import { ApiError, request } from '../api-client.ts'
import { useAttempt } from '../confirm.tsx'
import { listDifferences } from '../drafts/json-text.ts'
import { useUnsaved } from '../drafts/unsaved.tsx'
import { projectId } from '../router.ts'
import { may } from '../session.ts'
import { Checkbox, Failed, Form, Select } from '../states.tsx'
import { Differences } from './flag-history.tsx'
import { FilterEditor } from './filter-editor.tsx'
import { type FeatureFlag, type FlagDefinition, toDefinition, WRITTEN_FIELDS } from './flag-filters.ts'

interface FlagEditorProps {
  /** The version that the draft is based on; id 0 for a flag that is not created. */
  saved: FeatureFlag
  draft: FlagDefinition
  onDraft: (draft: FlagDefinition) => void
  /** Another version is the base from now on. */
  onRebase: (latest: FeatureFlag) => void
  onSaved: (id: number) => void
  onDelete: () => void
}

interface Conflict { reason: string, latest: FeatureFlag }

/** The draft of a flag beside the saved one. Saving fails if another user has saved since. */
export function FlagEditor ({ saved, draft, onDraft, onRebase, onSaved, onDelete }: FlagEditorProps) {
  const isNew = saved.id === 0
  const { isBusy, error, attempt } = useAttempt()
  const [conflict, setConflict] = useState<Conflict>()
  const changed = WRITTEN_FIELDS.filter((name) => listDifferences(saved[name], draft[name], 1).length > 0)
  useUnsaved(changed.length > 0)
  const change = (fields: Partial<FlagDefinition>): void => onDraft({ ...draft, ...fields })
  const mine = (): Partial<FlagDefinition> => Object.fromEntries(changed.map((name) => [name, draft[name]]))
  const mayWrite = may('feature_flag:write')

  async function save (): Promise<void> {
    const path = `/api/projects/${projectId.value}/feature_flags/`
    setConflict(undefined)
    await attempt(async () => {
      const { id } = isNew
        ? await request<FeatureFlag>(path, { method: 'POST', body: draft })
        : await request<FeatureFlag>(`${path}${saved.id}/`, { method: 'PATCH', body: { ...mine(), version: saved.version } })
          .catch(async (cause: unknown) => {
            if (!(cause instanceof ApiError) || cause.code !== 'conflict') throw cause
            setConflict({ reason: cause.message, latest: await request<FeatureFlag>(`${path}${saved.id}/`) })
            return { id: undefined }
          })
      if (id !== undefined) onSaved(id)
    })
  }

  /** @param fields  What stays of the draft. */
  function continueOn (latest: FeatureFlag, fields: Partial<FlagDefinition>): void {
    onRebase(latest)
    onDraft({ ...toDefinition(latest), ...fields })
    setConflict(undefined)
  }

  return (
    <Form class='flag-editor' onSubmit={save}>
      <fieldset disabled={!mayWrite}>
        <label>Key in SDKs <input required value={draft.key} onInput={(event) => change({ key: event.currentTarget.value })} /></label>
        <label>Name <input value={draft.name} onInput={(event) => change({ name: event.currentTarget.value })} /></label>
        <Checkbox label='On' isOn={draft.active} onChange={(active) => change({ active })} />
        <FilterEditor filters={draft.filters} onChange={(filters) => change({ filters })} />
        <FurtherSettings draft={draft} onChange={change} />
      </fieldset>
      {!isNew && mayWrite && changed.length > 0 && (
        <>
          <h2>Unsaved changes</h2>
          <Differences before={saved} after={draft} label='Unsaved changes' />
        </>
      )}
      {conflict !== undefined && (
        <SaveConflict
          {...conflict} base={saved} onKeep={() => continueOn(conflict.latest, mine())} onDiscard={() => continueOn(conflict.latest, {})}
        />
      )}
      {error !== undefined && <Failed error={error} onRetry={() => { void save() }} />}
      {mayWrite && (
        <p class='actions'>
          <span class='hint' role='status'>{changed.length === 0 ? 'No changes.' : isNew ? '' : `Not saved yet, on version ${saved.version}.`}</span>
          {!isNew && <button type='button' onClick={onDelete}>Delete …</button>}
          {!isNew && <button type='button' disabled={changed.length === 0} onClick={() => onDraft(toDefinition(saved))}>Discard</button>}
          <button type='submit' class='primary' disabled={isBusy || changed.length === 0 || conflict !== undefined}>Save</button>
        </p>
      )}
    </Form>
  )
}

function FurtherSettings ({ draft, onChange }: { draft: FlagDefinition, onChange: (fields: Partial<FlagDefinition>) => void }) {
  return (
    <>
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

interface SaveConflictProps {
  /** Why the draft was not saved. */
  reason: string
  /** The flag that the draft is based on, and the saved one. */
  base: FeatureFlag
  latest: FeatureFlag
  onKeep: () => void
  onDiscard: () => void
}

/** Somebody saved another version while this one was drafted: shows what they changed, and lets the draft go on from there. */
function SaveConflict ({ reason, base, latest, onKeep, onDiscard }: SaveConflictProps) {
  return (
    <div class='conflict' role='alert'>
      <p><strong>Not saved: another user has changed this flag.</strong> {reason}</p>
      <h3>Changes from version {base.version} to {latest.version}</h3>
      <Differences before={base} after={latest} label={`From version ${base.version} to ${latest.version}`} />
      <p class='actions'>
        <button type='button' onClick={onDiscard}>Discard my draft</button>
        <button type='button' class='primary' onClick={onKeep}>Continue my draft on version {latest.version}</button>
      </p>
    </div>
  )
}
