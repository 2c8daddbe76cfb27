import { useState } from 'preact/hooks'
import type { ApiError } from '../api-client.ts'
import { type Content, StoreDraft, useDraftBase } from '../drafts/draft-base.tsx'
import { JsonEditor } from '../drafts/json-editor.tsx'
import { locateError, readJson, saysSame, type TextError, writeJson } from '../drafts/json-text.ts'
import { ActiveVersion, Versions } from '../drafts/version-parts.tsx'
import { formatAgo, showText } from '../format.ts'
import { type Loaded, useLoaded } from '../load.ts'
import { linkTo, projectId } from '../router.ts'
import { may, session } from '../session.ts'
import { Show } from '../states.tsx'
import { ActivateDialog, DeleteDialog, DisableDialog, NotesDialog } from './activation.tsx'
import { CheckPanel } from './check-panel.tsx'
import {
  COUNTED_DAYS, describeEnforced, describeFailed, describeFates, type EventSchema, linkToShare, MODES, type Prediction, type SchemaCounts, type SchemaVersion
} from './event-schemas.ts'
import { InferForm } from './infer-form.tsx'
import { Quarantined, useQuarantined } from './quarantined.tsx'
import { changeSchema, fetchCounts, fetchSchema, fetchVersions } from './schema-requests.ts'

/** The schema of one event: what is enforced, the draft beside it, what the draft would do, and all versions. */
export function SchemaDetail ({ id }: { id: string }) {
  const loaded = useLoaded(`schema ${projectId.value} ${id}`, async (signal) => {
    const [schema, { results: versions }] = await Promise.all([fetchSchema(id, signal), fetchVersions(id, signal)])
    return { schema, versions }
  })
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/schemas`)}>Schemas</a></p>
      <Show of={loaded} what='The schema'>{(value) => <SchemaPage {...value} reload={loaded.reload} />}</Show>
    </section>
  )
}

interface SchemaPageProps {
  schema: EventSchema
  versions: readonly SchemaVersion[]
  reload: Loaded<unknown>['reload']
}

type Open = { what: 'activate', version: number } | { what: 'disable' | 'delete' | 'notes' }

function SchemaPage ({ schema, versions, reload }: SchemaPageProps) {
  const mayWrite = may('event_definition:write')
  const quarantined = useQuarantined()
  const counts = useLoaded(`schema counts ${projectId.value}`, async (signal) => await fetchCounts(COUNTED_DAYS, signal))
  const [open, setOpen] = useState<Open>()
  const [text, setText] = useState(writeJson(schema.schema))
  const [wrong, setWrong] = useState<TextError>()
  const [prediction, setPrediction] = useState<Prediction>()
  const change = (next: string): void => {
    setText(next)
    setWrong(undefined)
    setPrediction(undefined)
  }
  const readDraft = (): { schema: unknown } | undefined => {
    const read = readJson(text)
    setWrong(read.error)
    return read.error === undefined ? { schema: read.value } : undefined
  }
  const showInDraft = (cause: ApiError): boolean => {
    if (cause.attr?.split('__')[0] !== 'schema') return false
    setWrong(locateError(text, cause, 'schema__'))
    return true
  }
  const store = async (version: number): Promise<Content | undefined> => {
    const draft = readDraft()
    if (draft === undefined) return undefined
    try {
      const stored = await changeSchema(schema.id, { ...draft, version })
      return { version: stored.version, content: stored.schema }
    } catch (cause) {
      if (!showInDraft(cause as ApiError)) throw cause
      return undefined
    }
  }
  const storing = useDraftBase({ version: schema.version, content: schema.schema }, {
    says: (content) => saysSame(text, content), change, store, reload
  })
  const isNewest = storing.isStored && storing.base.version === schema.version
  const close = (): void => setOpen(undefined)
  const contents = versions.map((version) => ({ ...version, content: version.schema }))

  return (
    <>
      <h1>{showText(schema.event)}</h1>
      {schema.description !== '' && <p>{showText(schema.description, 3000)}</p>}
      <dl class='facts'>
        <div>
          <dt>Enforced</dt>
          <dd>{describeEnforced(schema)}{schema.active_version !== null && <>: an event that does not meet it is {MODES[schema.mode]}</>}</dd>
        </div>
        <div><dt>Newest</dt><dd>version {schema.version}, changed {formatAgo(schema.updated_at, Date.now())}</dd></div>
        <div><dt>Owner</dt><dd>{schema.owner === '' ? 'nobody' : showText(schema.owner)}</dd></div>
        <div>
          <dt>Not met in {COUNTED_DAYS} days</dt>
          <dd>{counts.error !== undefined ? `unknown: ${counts.error.message}` : counts.value !== undefined && <Failing counts={counts.value.get(schema.id)} />}</dd>
        </div>
        {may('dead_letter:read') && (
          <div><dt>Quarantined</dt><dd><Quarantined event={schema.event} counts={quarantined} /></dd></div>
        )}
        {schema.active_version !== null && may('query:read') && session.value?.all_projects === true && (
          <div><dt>By SDK</dt><dd><a {...linkTo(linkToShare(projectId.value!, schema.event))}>How many stored events do not meet it, in SQL</a></dd></div>
        )}
      </dl>
      {mayWrite && (
        <p class='toolbar'>
          <button type='button' class={isNewest && schema.active_version !== schema.version ? 'primary' : ''} onClick={() => setOpen({ what: 'activate', version: schema.version })}>Activate …</button>
          {schema.active_version !== null && <button type='button' onClick={() => setOpen({ what: 'disable' })}>Disable …</button>}
          <button type='button' onClick={() => setOpen({ what: 'notes' })}>Description and owner …</button>
          <button type='button' onClick={() => setOpen({ what: 'delete' })}>Delete …</button>
        </p>
      )}
      <div class='beside'>
        <div>
          <h2>Draft</h2>
          {may('event:read') && mayWrite && <InferForm event={schema.event} onDraft={(inferred) => change(writeJson(inferred))} />}
          <JsonEditor label='JSON Schema of the properties' text={text} onText={change} error={wrong} isReadOnly={!mayWrite} />
          {mayWrite && <StoreDraft draft={storing} versions={contents} />}
        </div>
        <ActiveVersion
          active={schema.active_version} versions={contents} text={text}
          whenNone='No version is active: every event of this name is stored as it is sent.'
        />
      </div>
      {may('event:read') && (
        <CheckPanel
          id={schema.id} mode={schema.mode} text={text} readDraft={readDraft}
          prediction={prediction} onPrediction={setPrediction} onError={showInDraft}
        />
      )}
      <Versions
        active={schema.active_version} versions={contents} mayWrite={mayWrite}
        onDraft={change} onActivate={(version) => setOpen({ what: 'activate', version })}
      />
      {open?.what === 'activate' && (
        <ActivateDialog schema={schema} version={open.version} prediction={isNewest ? prediction : undefined} onClose={close} onDone={reload} />
      )}
      {open?.what === 'disable' && <DisableDialog schema={schema} onClose={close} onDone={reload} />}
      {open?.what === 'notes' && <NotesDialog schema={schema} onClose={close} onDone={reload} />}
      {open?.what === 'delete' && <DeleteDialog schema={schema} onClose={close} />}
    </>
  )
}

/** @param props.counts  Undefined: no event was held against the schema. */
function Failing ({ counts }: { counts: SchemaCounts | undefined }) {
  if (counts === undefined) return <>no event was checked</>
  const fates = describeFates(counts)
  return <>{describeFailed(counts)} events{fates !== '' && `: ${fates}`}</>
}
