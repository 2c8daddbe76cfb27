import { useState } from 'preact/hooks'
import { type Page, request } from '../api-client.ts'
import { useAttempt } from '../confirm.tsx'
import { JsonEditor } from '../drafts/json-editor.tsx'
import { locateError, readJson, type TextError, writeJson } from '../drafts/json-text.ts'
import { useUnsaved } from '../drafts/unsaved.tsx'
import { useLoaded } from '../load.ts'
import { linkTo, navigate, projectId, query } from '../router.ts'
import { may } from '../session.ts'
import { Failed } from '../states.tsx'
import { InferForm } from './infer-form.tsx'
import { createSchema } from './schema-requests.ts'

const EXAMPLE = { type: 'object', required: [], properties: {} }

/** The first version of a schema: inferred from stored events, or written by hand. It is not enforced by being stored. */
export function NewSchema () {
  const [event, setEvent] = useState(query.value.get('event') ?? '')
  const [text, setText] = useState(writeJson(EXAMPLE))
  const [wrong, setWrong] = useState<TextError>()
  const { isBusy, error, attempt } = useAttempt()
  useUnsaved(text !== writeJson(EXAMPLE))
  const change = (next: string): void => {
    setText(next)
    setWrong(undefined)
  }
  const create = async (): Promise<void> => {
    const read = readJson(text)
    if (read.error !== undefined) {
      setWrong(read.error)
      return
    }
    await attempt(async () => {
      const { id } = await createSchema({ event, schema: read.value })
      navigate(`/projects/${projectId.value}/schemas/${id}`)
    })
  }
  const isOfSchema = error?.attr?.split('__')[0] === 'schema'
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/schemas`)}>Schemas</a></p>
      <h1>New schema</h1>
      <p class='hint'>Storing it enforces nothing: check it by stored events first, then activate it.</p>
      <form
        class='schema-form'
        onSubmit={(submit) => {
          submit.preventDefault()
          if (!isBusy) void create()
        }}
      >
        <label>
          Name of the event{' '}
          <input required maxLength={200} list='event-names' value={event} onInput={(input) => setEvent(input.currentTarget.value)} />
        </label>
        <EventNames search={event} />
        {may('event:read') && <InferForm event={event} onDraft={(schema) => change(writeJson(schema))} />}
        <JsonEditor
          label='JSON Schema of the properties' text={text} onText={change}
          error={wrong ?? (error !== undefined && isOfSchema ? locateError(text, error, 'schema__') : undefined)}
        />
        {error !== undefined && !isOfSchema && <Failed error={error} onRetry={() => { void create() }} />}
        <p class='actions'><button type='submit' class='primary' disabled={isBusy}>Store the first version</button></p>
      </form>
    </section>
  )
}

/** Names of stored events to choose from. */
function EventNames ({ search }: { search: string }) {
  const names = useLoaded(`names ${projectId.value} ${search}`, async (signal) =>
    await request<Page<{ name: string }>>(`/api/projects/${projectId.value}/event_definitions/`, { query: { search, limit: 20 }, signal }))
  return <datalist id='event-names'>{names.value?.results.map(({ name }) => <option key={name} value={name} />)}</datalist>
}
