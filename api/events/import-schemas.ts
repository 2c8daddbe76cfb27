import { array, bodyOf, boolean, nullableObject, object, optional, string, time, timeOrNull } from '../http/json-schema.ts'
import { userSummarySchema } from '../projects/users.ts'

const count = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const
const day = { type: 'string', format: 'date' } as const
/** A name from files or events, which the importer cuts: 500 of them in control characters make less than 1 MB. */
const name = { type: 'string', maxLength: 200 } as const
const closed = { additionalProperties: false } as const

const counts = { rows: count, accepted: count, rejected: count, bytes_read: count, events_per_second: count } as const
const reasons = array(object({ reason: name, rows: count }, closed), {
  maxItems: 50, description: 'Rejected rows by reason; nothing of their content.'
})
const error = { type: ['string', 'null'], pattern: '^[A-Z_]{1,100}$', description: 'What interrupted it, a code.' } as const

const STATES = ['running', 'proving', 'interrupted', 'complete', 'complete_with_differences', 'incomplete'] as const

const sizes = { events: count, missing: count, changed: count, other_properties: count } as const
const group = object({ day, event: name, ...sizes }, closed)
const difference = object({
  uuid: { type: 'string', format: 'uuid' }, day, event: name, what: { type: 'string', enum: ['missing', 'changed', 'properties'] }
}, closed)

const proof = {
  ...nullableObject({
    is_complete: boolean,
    groups: { ...count, description: 'Days and event names in the files.' },
    equal: { ...count, description: 'Those that are stored exactly so.' },
    rows: array(group, { maxItems: 500, description: 'Those that differ, then the others, at most 500.' }),
    differences: array(difference, { maxItems: 100, description: 'Events that differ, at most 100.' })
  }, 'The files compared with the store; null for a dry run.'), ...closed
}

const result = {
  ...nullableObject({
    events: { ...count, description: 'Events in the files, each once.' },
    duplicates: count, altered: count, conflicting: count,
    stored: { ...count, description: 'Events that were stored since the run began.' },
    broken: array(name, { maxItems: 100, description: 'Files that were not read completely, at most 100, each with its reason.' }),
    notices: array(name, { maxItems: 50, description: 'What the command said beside its counts, such as which columns it took.' }),
    proof
  }, 'Of an import that ended with one.'), ...closed
}

/** What the importer says when it starts or resumes. */
export const beginSchema = object({
  checkpoint: { type: 'string', format: 'uuid', description: 'Made by the importer: an import that is resumed sends the same.' },
  source: { type: 'string', minLength: 1, maxLength: 50, description: 'Product that the files come from.' },
  mode: { type: 'string', enum: ['import', 'dry_run', 'verification'] },
  options: array(name, { maxItems: 20, description: 'As they were given, such as `--events-per-second 5000`.' }),
  version: { type: 'string', maxLength: 50, description: 'Of the importer.' },
  files: array(object({ name, bytes: count }, closed), { maxItems: 500, description: 'The first 500.' }),
  file_count: { ...count, maximum: 2_147_483_647 },
  bytes: { ...count, description: 'Of all files.' }
} as const, closed)

const column = { ...name, minLength: 1 } as const

/** What the API is asked to run. */
export const runSchema = bodyOf({
  source: { type: 'string', enum: ['posthog', 'mixpanel', 'amplitude', 'files'] },
  name: { type: 'string', minLength: 1, maxLength: 255, description: 'Of a file or folder in the folder of the project; default: all that is there.' },
  dry_run: { type: 'boolean', description: 'Read and count, without sending.' },
  persons: { type: 'string', enum: ['events', 'export'], description: 'posthog only: what changes persons; default: export.' },
  timezone: { ...column, description: 'mixpanel only: time zone of a project created before 2023; default: UTC.' },
  map: optional({ event: column, timestamp: column, distinct_id: column, uuid: column, properties: column }, {
    ...closed, description: 'files only: column of each field; default: guessed from the names of the columns.'
  }),
  events_per_second: { type: 'integer', minimum: 0, maximum: 9_999_999, description: 'Limit, default 5,000; 0: none.' }
}, 'source')

/** What is there to import. */
export const importFilesSchema = object({
  folder: { type: ['string', 'null'], description: 'Where the exports of the project lie on the server; null: the API runs no imports (`MILLRACE_IMPORT_FOLDER`).' },
  files: array(object({ name: string, is_folder: boolean, bytes: { type: ['integer', 'null'], description: 'Of a file.' } }), {
    description: 'The first 1,000 by name, without hidden ones.'
  })
})

/** What it says every few seconds, and at its end. */
export const reportSchema = {
  type: 'object', ...closed, required: ['state', 'progress'],
  properties: { state: { type: 'string', enum: STATES }, progress: object({ ...counts, reasons }, closed), error, result }
} as const

const { checkpoint, files, ...given } = beginSchema.properties
const fields = {
  id: { type: 'integer' },
  team_id: { type: 'integer', description: 'Id of the project.' },
  ...given,
  state: reportSchema.properties.state,
  is_silent: { ...boolean, description: 'It has not ended, and did not report for a minute: it was killed, or cannot reach the API.' },
  progress: object(counts),
  error,
  created_by: userSummarySchema,
  started_at: time,
  last_reported_at: time,
  stop_requested_at: timeOrNull,
  ended_at: timeOrNull
} as const

export const importSchema = object(fields, { $id: 'Import' })
export const importDetailSchema = object({ ...fields, progress: object({ ...counts, reasons }), files, result }, { $id: 'ImportDetail' })
