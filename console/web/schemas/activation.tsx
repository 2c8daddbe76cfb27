import { useState } from 'preact/hooks'
import { FormDialog } from '../confirm.tsx'
import { createDefinitionRequests } from '../frame/definition-requests.ts'
import type { ActivateProps } from '../frame/definition-screen.tsx'
import { describePrediction, type EventSchema, MODES, type Prediction, type SchemaCounts, type SchemaMode, type SchemaVersion } from './event-schemas.ts'

/** What the screens of schemas ask of the API. */
export const REQUESTS = createDefinitionRequests<EventSchema, SchemaVersion, SchemaCounts, Prediction>('event_schemas', ({ schema }) => schema)

/** Chooses what becomes of events that do not meet a version. */
export function ActivateDialog (
  { definition: schema, version, prediction, onClose, onDone }: ActivateProps<EventSchema, SchemaVersion, Prediction>
) {
  const [mode, setMode] = useState<SchemaMode>(schema.mode)
  const activate = async () => await REQUESTS.change(schema.id, { active_version: version, mode })
  const isChecked = prediction !== undefined && version === schema.version
  return (
    <FormDialog title='Activate' action={`Activate version ${version}`} onClose={onClose} onConfirm={activate} onDone={onDone}>
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
