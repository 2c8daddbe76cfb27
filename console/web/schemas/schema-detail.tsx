import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import type { DefinitionScreen } from '../frame/definition-screen.tsx'
import { JsonEditor } from '../frame/json-editor.tsx'
import { writeJson } from '../frame/json-text.ts'
import { formatAgo, formatCount, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { EventNames } from '../paging.tsx'
import { linkTo, projectId, shownProjectId } from '../router.ts'
import { may } from '../session.ts'
import { Checkbox, Failed, SelectDays, Table } from '../states.tsx'
import { ActivateDialog, REQUESTS } from './activation.tsx'
import {
  COUNTED_DAYS, describeEnforced, describeFailed, describeFates, describePath, describePrediction, describeShare,
  type EventSchema, type InferredSchema, KEYWORDS, linkToQuarantined, MODES, type Prediction, SCHEMA_LANGUAGE,
  type SchemaCounts, type SchemaVersion
} from './event-schemas.ts'
import { SchemaFields } from './schema-fields.tsx'
import { useAttempt } from '../confirm.tsx'

export const SCHEMA_SCREEN: DefinitionScreen<EventSchema, SchemaVersion, Prediction> = {
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
  Facts,
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
  Activate: ActivateDialog,
  notesOf: ({ owner }) => ({ owner })
}

/** The enforced version, and the fates of violating events. */
function Facts ({ definition: schema }: { definition: EventSchema }) {
  const counts = useLoaded(`schema counts ${projectId.value}`, async (signal) => await REQUESTS.counts(COUNTED_DAYS, signal))
  return (
    <dl class='facts'>
      <div>
        <dt>Enforced</dt>
        <dd>{describeEnforced(schema)}{schema.active_version !== null && <>: violating events are {MODES[schema.mode]}</>}</dd>
      </div>
      <div><dt>Newest</dt><dd>version {schema.version}, changed {formatAgo(schema.updated_at, Date.now())}</dd></div>
      <div><dt>Owner</dt><dd>{schema.owner === '' ? 'nobody' : showText(schema.owner)}</dd></div>
      <div>
        <dt>Violations in {COUNTED_DAYS} days</dt>
        <dd>{counts.error !== undefined ? `unknown: ${counts.error.message}` : counts.value !== undefined && <Failing counts={counts.value.get(schema.id)} />}</dd>
      </div>
      {may('dead_letter:read') && (
        <div>
          <dt>Quarantined</dt>
          <dd><a {...linkTo(linkToQuarantined(shownProjectId(), schema.event))}>Dead letters of {showText(schema.event, 60)}</a></dd>
        </div>
      )}
    </dl>
  )
}

/** @param props.counts  Undefined: no event was checked by the schema. */
function Failing ({ counts }: { counts: SchemaCounts | undefined }) {
  if (counts === undefined) return <>no event was checked</>
  const fates = describeFates(counts)
  return <>{describeFailed(counts)} events{fates !== '' && `: ${fates}`}</>
}

/** What the draft would have done with stored events. */
function Found ({ prediction, definition: { mode } }: { prediction: Prediction, definition: EventSchema }) {
  const { events, failed, failures, libs } = prediction
  return (
    <>
      <p class={`verdict ${failed === 0 ? '' : 'waiting'}`}><strong>{describePrediction(prediction, mode)}</strong></p>
      {failures.length > 0 && <Failures prediction={prediction} />}
      {failed > 0 && (
        <Table label='By SDK' head={['SDK', 'Version', '#Events', '#Do not meet it']}>
          {libs.map(({ lib, lib_version: version, events: sent, failed: wrong }) => (
            <tr key={`${lib} ${version}`}>
              <td class='value'>{lib === '' ? 'not said' : showText(lib, 60)}</td><td>{showText(version, 40)}</td><td class='number'>{formatCount(sent)}</td>
              <td class='number'>{formatCount(wrong)} ({describeShare(wrong, sent)})</td>
            </tr>
          ))}
        </Table>
      )}
      {failed === 0 && events > 0 && <p class='hint'>Activating it now would not affect events like these.</p>}
    </>
  )
}

/** Violations by property, with samples linked to their receipts. */
function Failures ({ prediction: { events, failures } }: { prediction: Prediction }) {
  return (
    <Table label='By property' head={['Property', '#Events', 'Cases, with their receipts']}>
      {failures.map(({ path, keyword, events: wrong, samples }) => (
        <tr key={`${path} ${keyword}`}>
          <td class='value'><code>{showText(describePath(path), 120)}</code><div class='hint' title={keyword}>{KEYWORDS[keyword] ?? keyword}</div></td>
          <td class='number'>{formatCount(wrong)} ({describeShare(wrong, events)})</td>
          <td class='wide'>
            {samples.map(({ uuid, value }) => (
              <div key={uuid}>
                <a {...linkTo(`/projects/${projectId.value}/find?uuid=${uuid}`)} title={uuid}>
                  …{uuid.slice(-8)}<span class='hidden'> receipt of {uuid}</span>
                </a>{' '}
                {value === '' ? <span class='hint'>no value</span> : <code>{showText(value, 100)}</code>}
              </div>
            ))}
          </td>
        </tr>
      ))}
    </Table>
  )
}

/** Makes a draft from stored events. @param event  Empty: none is named yet. */
export function InferForm ({ event, onDraft }: { event: string, onDraft: (schema: unknown) => void }) {
  const [days, setDays] = useState(30)
  const [includeSdk, setIncludeSdk] = useState(false)
  const [read, setRead] = useState<number>()
  const { isBusy, error, attempt } = useAttempt()
  const infer = async (): Promise<void> => {
    await attempt(async () => {
      const body = { event, days, include_sdk: includeSdk }
      const { events, schema } = await request<InferredSchema>(`/api/projects/${projectId.value}/event_schemas/infer/`, { method: 'POST', body })
      setRead(events)
      if (events > 0) onDraft(schema)
    })
  }
  return (
    <>
      <div class='toolbar'>
        <SelectDays label='Events of' value={days} onChange={setDays} />
        <Checkbox label='Include SDK properties ($…)' isOn={includeSdk} onChange={setIncludeSdk} />
        <button type='button' disabled={isBusy || event === ''} onClick={() => { void infer() }}>{isBusy ? 'Reading events …' : 'Infer a draft'}</button>
      </div>
      {error !== undefined && <Failed error={error} onRetry={() => { void infer() }} />}
      <p role='status'>
        {read === 0 && 'No stored event of these days has this name, so nothing can be inferred.'}
        {read !== undefined && read > 0 && `Inferred from ${formatCount(read)} events, which all meet the draft. It includes properties that are sent by mistake.`}
      </p>
    </>
  )
}
