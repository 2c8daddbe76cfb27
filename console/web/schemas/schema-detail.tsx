import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { createDefinitionRequests } from '../frame/definition-requests.ts'
import { COUNTED_DAYS, type DefinitionScreen } from '../frame/definition-screen.tsx'
import { Rows, SDK_COLUMNS } from '../frame/lists.tsx'
import { JsonEditor } from '../frame/json-editor.tsx'
import { writeJson } from '../frame/json-text.ts'
import { formatCount, showText } from '../format.ts'
import { EventNames } from '../paging.tsx'
import { linkTo, projectId, shownProjectId } from '../router.ts'
import { may } from '../session.ts'
import { Checkbox, SelectDays } from '../states.tsx'
import {
  describeEnforced, describeFailing, describePath, describePrediction, describeShare, type EventSchema, type InferredSchema,
  KEYWORDS, linkToQuarantined, MODES, type Prediction, SCHEMA_LANGUAGE, type SchemaCounts, type SchemaVersion
} from './event-schemas.ts'
import { SchemaFields } from './schema-fields.tsx'
import { useAction } from '../confirm.tsx'

export const REQUESTS = createDefinitionRequests<EventSchema, SchemaVersion, SchemaCounts, Prediction>('event_schemas', ({ schema }) => schema)

export const SCHEMA_SCREEN: DefinitionScreen<EventSchema, SchemaVersion, SchemaCounts, Prediction> = {
  noun: 'schema',
  home: 'schemas',
  title: 'Schemas',
  requests: REQUESTS,
  language: SCHEMA_LANGUAGE,
  nameOf: ({ event }) => event,
  labels: {},
  example: { type: 'object', required: [], properties: {} },
  whenNone: 'No version is active: every event of this name is stored as sent.',
  whenDisabled: 'Every event of this name is stored as sent. Versions are kept, and quarantined events stay in quarantine.',
  describe: (schema) => `${describeEnforced(schema)}${schema.active_version === null ? '' : `: violating events are ${MODES[schema.mode]}`}`,
  countsTitle: `Violations in ${COUNTED_DAYS} days`,
  describeCounts: describeFailing,
  factsOf: ({ event, owner }) => ({
    Owner: owner === '' ? 'nobody' : showText(owner),
    Quarantined: may('dead_letter:read') && <a {...linkTo(linkToQuarantined(shownProjectId(), event))}>Dead letters of {showText(event, 60)}</a>
  }),
  Editor: ({ name, draft, isReadOnly, version }) => (
    <>
      {version === 0 && <EventNames search={name} />}
      {may('event:read') && !isReadOnly && <InferForm event={name} onDraft={(inferred) => draft.change(writeJson(inferred))} />}
      <JsonEditor
        label='JSON Schema of the properties' draft={draft} isReadOnly={isReadOnly}
        fields={(schema, onChange) => <SchemaFields key={version} schema={schema} onChange={onChange} />}
      />
    </>
  ),
  check: {
    hint: 'Effect the draft would have had on stored events, the same as at ingest. Nothing is changed.', limit: 1_000_000
  },
  Found,
  modes: MODES,
  describePrediction,
  isHarm: ({ failed }, mode) => failed > 0 && mode !== 'observe',
  notesOf: ({ owner }) => ({ owner })
}

function Found ({ prediction, definition: { mode } }: { prediction: Prediction, definition: EventSchema }) {
  const { events, failed, failures, libs } = prediction
  return (
    <>
      <p class={`verdict ${failed === 0 ? '' : 'waiting'}`}><strong>{describePrediction(prediction, mode)}</strong></p>
      {failures.length > 0 && <Failures prediction={prediction} />}
      {failed > 0 && (
        <Rows
          label='By SDK' of={libs} columns={[...SDK_COLUMNS, ['#Events', ({ events: sent }) => sent],
            ['#Do not meet it', ({ events: sent, failed: wrong }) => `${formatCount(wrong)} (${describeShare(wrong, sent)})`]]}
        />
      )}
      {failed === 0 && events > 0 && <p class='hint'>Activating it now would not affect events like these.</p>}
    </>
  )
}

function Failures ({ prediction: { events, failures } }: { prediction: Prediction }) {
  return (
    <Rows
      label='By property' of={failures} columns={[
        ['Property', ({ path, keyword }) => (
          <><code>{showText(describePath(path), 120)}</code><div class='hint' title={keyword}>{KEYWORDS[keyword] ?? keyword}</div></>
        ), 'value'],
        ['#Events', ({ events: wrong }) => `${formatCount(wrong)} (${describeShare(wrong, events)})`],
        ['Cases, with their receipts', ({ samples }) => samples.map(({ uuid, value }) => (
          <div key={uuid}>
            <a {...linkTo(`/projects/${projectId.value}/find?uuid=${uuid}`)} title={uuid}>…{uuid.slice(-8)}<span class='hidden'> receipt of {uuid}</span></a>{' '}
            {value === '' ? <span class='hint'>no value</span> : <code>{showText(value, 100)}</code>}
          </div>
        )), 'wide']
      ]}
    />
  )
}

/** Makes a draft from stored events. @param event  Empty: none is named yet. */
export function InferForm ({ event, onDraft }: { event: string, onDraft: (schema: unknown) => void }) {
  const [days, setDays] = useState(30)
  const [includeSdk, setIncludeSdk] = useState(false)
  const [read, setRead] = useState<number>()
  const { isBusy, run, failure } = useAction(async () => {
    const body = { event, days, include_sdk: includeSdk }
    const { events, schema } = await request<InferredSchema>(`/api/projects/${projectId.value}/event_schemas/infer/`, { method: 'POST', body })
    setRead(events)
    if (events > 0) onDraft(schema)
  })
  return (
    <>
      <div class='toolbar'>
        <SelectDays label='Events of' value={days} onChange={setDays} />
        <Checkbox label='Include SDK properties ($…)' isOn={includeSdk} onChange={setIncludeSdk} />
        <button type='button' disabled={isBusy || event === ''} onClick={run}>{isBusy ? 'Reading events …' : 'Infer a draft'}</button>
      </div>
      {failure}
      <p role='status'>
        {read === 0 && 'No stored event of these days has this name, so nothing can be inferred.'}
        {read !== undefined && read > 0 && `Inferred from ${formatCount(read)} events, which all meet the draft. It includes properties that are sent by mistake.`}
      </p>
    </>
  )
}
