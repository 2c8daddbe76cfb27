import { useState } from 'preact/hooks'
import { Ask, Confirm, useAttempt } from '../confirm.tsx'
import { navigate, projectId } from '../router.ts'
import { Dialog, Failed } from '../states.tsx'
import { describePrediction, type EventSchema, MODES, type Prediction, type SchemaMode } from './event-schemas.ts'
import { changeSchema, deleteSchema } from './schema-requests.ts'

interface ActivateProps {
  schema: EventSchema
  /** The version that is offered first. */
  version: number
  /** What the check found for the newest version; undefined: it was not checked here. */
  prediction: Prediction | undefined
  onClose: () => void
  onDone: () => void
}

/** Chooses which version is enforced, and what becomes of events that do not meet it. */
export function ActivateDialog ({ schema, version: offered, prediction, onClose, onDone }: ActivateProps) {
  const [version, setVersion] = useState(offered)
  const [mode, setMode] = useState<SchemaMode>(schema.mode)
  const { isBusy, error, attempt } = useAttempt()
  const activate = async (): Promise<void> => {
    const worked = await attempt(async () => { await changeSchema(schema.id, { active_version: version, mode }) })
    if (!worked) return
    onClose()
    onDone()
  }
  const isChecked = prediction !== undefined && version === schema.version
  return (
    <Dialog title='Activate' onClose={onClose}>
      <form
        class='stacked'
        onSubmit={(event) => {
          event.preventDefault()
          if (!isBusy) void activate()
        }}
      >
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
          <legend>An event that does not meet it is</legend>
          {(Object.keys(MODES) as SchemaMode[]).map((each) => (
            <label key={each} class='choice'>
              <input type='radio' name='mode' value={each} checked={mode === each} onChange={() => setMode(each)} />
              <span><strong>{each}</strong>: {MODES[each]}</span>
            </label>
          ))}
        </fieldset>
        <p class={isChecked && prediction.failed > 0 && mode !== 'observe' ? 'error' : 'hint'}>
          {isChecked ? describePrediction(prediction, mode) : 'This version was not checked by stored events here.'}
        </p>
        {error !== undefined && <Failed error={error} onRetry={() => { void activate() }} />}
        <p class='actions'>
          <button type='button' onClick={onClose}>Cancel</button>
          <button type='submit' class='primary' disabled={isBusy}>Activate version {version}</button>
        </p>
      </form>
    </Dialog>
  )
}

/** Stops enforcing it; its versions stay. */
export function DisableDialog ({ schema, onClose, onDone }: Pick<ActivateProps, 'schema' | 'onClose' | 'onDone'>) {
  return (
    <Ask
      title='Disable' action='Disable' onClose={onClose}
      onConfirm={async () => {
        await changeSchema(schema.id, { active_version: null })
        onDone()
      }}
    >
      <p>From then on every event of this name is stored as it is sent. Versions stay, and events in quarantine stay there.</p>
    </Ask>
  )
}

export function DeleteDialog ({ schema, onClose }: Pick<ActivateProps, 'schema' | 'onClose'>) {
  return (
    <Confirm
      title='Delete the schema' word='delete' action='Delete' onClose={onClose}
      onConfirm={async () => {
        await deleteSchema(schema.id)
        navigate(`/projects/${projectId.value}/schemas`)
      }}
    >
      <p>It is no longer enforced, and leaves the list. To stop enforcing it, disable it instead.</p>
    </Confirm>
  )
}

/** Whom to ask about the event, and what it is for. */
export function NotesDialog ({ schema, onClose, onDone }: Pick<ActivateProps, 'schema' | 'onClose' | 'onDone'>) {
  const [description, setDescription] = useState(schema.description)
  const [owner, setOwner] = useState(schema.owner)
  const { isBusy, error, attempt } = useAttempt()
  const save = async (): Promise<void> => {
    if (!await attempt(async () => { await changeSchema(schema.id, { description, owner }) })) return
    onClose()
    onDone()
  }
  return (
    <Dialog title='Description and owner' onClose={onClose}>
      <form
        class='stacked'
        onSubmit={(event) => {
          event.preventDefault()
          if (!isBusy) void save()
        }}
      >
        <label>
          What the event is for
          <textarea rows={3} maxLength={3000} value={description} onInput={(event) => setDescription(event.currentTarget.value)} />
        </label>
        <label>Owner: a person or a team<input maxLength={400} value={owner} onInput={(event) => setOwner(event.currentTarget.value)} /></label>
        {error !== undefined && <Failed error={error} onRetry={() => { void save() }} />}
        <p class='actions'>
          <button type='button' onClick={onClose}>Cancel</button>
          <button type='submit' class='primary' disabled={isBusy}>Save</button>
        </p>
      </form>
    </Dialog>
  )
}
