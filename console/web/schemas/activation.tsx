import { useState } from 'preact/hooks'
import { FormDialog } from '../confirm.tsx'
import { createDefinitionRequests } from '../drafts/definition-requests.ts'
import type { ActivateProps, DialogProps } from '../drafts/definition-screen.tsx'
import { describePrediction, type EventSchema, MODES, type Prediction, type SchemaCounts, type SchemaMode, type SchemaVersion } from './event-schemas.ts'

/** What the screens of schemas ask of the API. */
export const REQUESTS = createDefinitionRequests<EventSchema, SchemaVersion, SchemaCounts, Prediction>('event_schemas', ({ schema }) => schema)

/** Chooses which version is enforced, and what becomes of events that do not meet it. */
export function ActivateDialog (
  { definition: schema, version: offered, prediction, onClose, onDone }: ActivateProps<EventSchema, SchemaVersion, Prediction>
) {
  const [version, setVersion] = useState(offered)
  const [mode, setMode] = useState<SchemaMode>(schema.mode)
  const activate = async () => await REQUESTS.change(schema.id, { active_version: version, mode })
  const isChecked = prediction !== undefined && version === schema.version
  return (
    <FormDialog title='Activate' action={`Activate version ${version}`} onClose={onClose} onConfirm={activate} onDone={onDone}>
      <label>
        Version
        <select value={String(version)} onChange={(event) => setVersion(Number(event.currentTarget.value))}>
          {Array.from({ length: schema.version - schema.first_version + 1 }, (_, index) => schema.version - index).map((each) => (
            <option key={each} value={String(each)}>
              {each}{each === schema.version && ', the newest'}{each === schema.active_version && ', active now'}
            </option>
          ))}
        </select>
      </label>
      <fieldset>
        <legend>An event that violates the schema is</legend>
        {(Object.keys(MODES) as SchemaMode[]).map((each) => (
          <label key={each} class='choice'>
            <input type='radio' name='mode' value={each} checked={mode === each} onChange={() => setMode(each)} />
            <span><strong>{each}</strong>: {MODES[each]}</span>
          </label>
        ))}
      </fieldset>
      <p class={isChecked && prediction.failed > 0 && mode !== 'observe' ? 'error' : 'hint'}>
        {isChecked ? describePrediction(prediction, mode) : 'This version has not been checked against stored events here.'}
      </p>
    </FormDialog>
  )
}

/** Owner and purpose of the event. */
export function NotesDialog ({ definition: schema, onClose, onDone }: DialogProps<EventSchema>) {
  const [description, setDescription] = useState(schema.description)
  const [owner, setOwner] = useState(schema.owner)
  const save = async () => await REQUESTS.change(schema.id, { description, owner })
  return (
    <FormDialog title='Description and owner' action='Save' onClose={onClose} onConfirm={save} onDone={onDone}>
      <label>
        Purpose of the event
        <textarea rows={3} maxLength={3000} value={description} onInput={(event) => setDescription(event.currentTarget.value)} />
      </label>
      <label>Owner: a person or a team<input maxLength={400} value={owner} onInput={(event) => setOwner(event.currentTarget.value)} /></label>
    </FormDialog>
  )
}
