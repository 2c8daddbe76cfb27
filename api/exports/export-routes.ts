/** Exports of a project: what is written where, how far it has come, and windows from before it was made. */
import type { FastifyInstance } from 'fastify'
import { fieldsOf } from '../../engines/fields.ts'
import { type HttpError, invalidField } from '../../engines/errors.ts'
import { WINDOW_MS } from '../../engines/questions/alert-windows.ts'
import { readConditions } from '../../engines/operators/property-conditions.ts'
import { type ClickHouse, readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { answerInTime } from '../http/answer-errors.ts'
import { array, bodyOf, count, integer, object, string, time, timeOrNull } from '../http/json-schema.ts'
import { newestBy, selectPage } from '../http/list-queries.ts'
import { idParams, parseIsoDateTime } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import { type DocumentKind, documentRoutes, findDocument, type Stored } from '../queries/named-documents.ts'

/** In the place of a secret; sent back, the secret stays as it is. */
const HIDDEN = '********'

/** Windows of a backfill: more than a year by the hour. */
const MAX_WINDOWS = 10_000

const NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/

const line = { type: 'string', maxLength: 1000 } as const

/** What each field of a place in S3 is by default. A folder has none of them. */
const NO_PLACE = { endpoint: '', region: 'us-east-1', bucket: '', prefix: '', access_key_id: '', secret_access_key: '' }

const fields = {
  schedule: { type: 'string', enum: ['hour', 'day'], description: 'Window length; windows are aligned to UTC. Cannot be changed.' },
  target: {
    type: 'object', additionalProperties: false, required: ['kind'],
    description: 'Only the credentials can be changed.',
    properties: {
      kind: { type: 'string', enum: ['folder', 's3'], description: 'folder: `MILLRACE_EXPORT_FOLDER` of the pipeline; no other field.' },
      endpoint: { ...line, description: 'Service URL; empty: Amazon S3 in the region.' },
      region: { ...line, description: `Default: ${NO_PLACE.region}.` },
      bucket: line,
      prefix: { ...line, description: 'Prefix of every object name, such as `millrace/`.' },
      access_key_id: line,
      secret_access_key: { ...line, description: `Returned as ${HIDDEN}; send ${HIDDEN} to keep the stored key.` }
    }
  },
  tables: { ...array({ type: 'string', enum: ['events', 'persons', 'merges'] }), minItems: 1, uniqueItems: true },
  filter: {
    type: ['object', 'null'], additionalProperties: false,
    description: 'Event filter; null: all events. Manifests count the events it excludes.',
    properties: {
      events: { type: ['array', 'null'], items: { type: 'string', maxLength: 400 }, minItems: 1, maxItems: 100, default: null, description: 'Event names; null: all.' },
      where: { type: 'array', maxItems: 20, default: [], items: { type: 'object', additionalProperties: false, properties: { key: {}, value: {}, operator: {}, type: {} } }, description: 'Conditions on event properties, as in questions.' }
    }
  },
  paused: { type: 'boolean', description: 'true: scheduled windows wait until it resumes; backfills and erasures are still written.' }
} as const

const ofTask = (column: string): string => `(SELECT ${column} FROM window_tasks WHERE subject = 'export:' || q.id)`

const EXPORTS: DocumentKind<typeof fields> = {
  table: 'exports', id: 'Export', noun: 'export', plural: 'exports', scope: 'project', fields,
  defaults: { tables: ['events'], filter: null, paused: false },
  state: {
    folder: { ...string, description: 'Folder of its files in the target.' },
    done_through: { ...timeOrNull, description: 'End of the last window that was written; null: none yet.' },
    lag_seconds: { type: 'number', description: 'Time since the end of the oldest unwritten window; 0 while paused.' },
    progress: object({
      files: count('Files of the newest revisions.'), rows: integer, bytes: integer,
      planned: count('Revisions that are still to be written.')
    }),
    error: { ...string, description: 'Error of the last attempt; empty if it succeeded.' }
  },
  shown: {
    target: `CASE q.secure_value WHEN '' THEN q.target ELSE q.target || '{"secret_access_key": "${HIDDEN}"}' END`,
    folder: "concat(q.project_id, '/', q.name, '-', q.key)",
    done_through: `nullif(${ofTask('done_through')}, date_trunc(q.schedule, q.created_at, 'UTC'))`,
    lag_seconds: `CASE WHEN q.paused THEN 0 ELSE greatest(0, extract(epoch FROM now() - coalesce(${ofTask('done_through')},
      date_trunc(q.schedule, q.created_at, 'UTC')) - ('1 ' || q.schedule)::interval))::float8 END`,
    // Replaced revisions name no files.
    progress: `(SELECT jsonb_build_object('files', coalesce(sum(jsonb_array_length(files)), 0), 'rows', coalesce(sum(rows) FILTER (WHERE files <> '[]'), 0),
      'bytes', coalesce(sum(bytes) FILTER (WHERE files <> '[]'), 0), 'planned', count(*) FILTER (WHERE written_at IS NULL)) FROM export_windows WHERE export_id = q.id)`,
    error: `coalesce(${ofTask('error')}, '')`
  },
  async check (given, { sql, projectId, id }) {
    if (typeof given.name === 'string' && !NAME.test(given.name)) {
      throw invalidField('name', 'The name is part of a path: lower-case letters, digits, - and _, at most 63.')
    }
    readConditions('filter__where', fieldsOf(given.filter).where)
    const [stored] = await sql<Pick<Stored<typeof fields>, 'schedule' | 'target' | 'name' | 'tables' | 'filter'>[]>`
      SELECT schedule, target, name, tables, filter FROM exports WHERE project_id = ${projectId} AND id = ${id ?? null}::integer`
    for (const name of stored === undefined ? [] : ['schedule', 'name'] as const) {
      if (given[name] !== undefined && given[name] !== stored?.[name]) throw fixed(name)
    }
    const { tables, filter } = { ...stored, ...given }
    if (filter != null && Array.isArray(tables) && !tables.includes('events')) {
      throw invalidField('filter', 'Only events are filtered, and they are not among the tables.')
    }
    return {
      ...given,
      ...given.target !== undefined && readTarget(fieldsOf(given.target), stored?.target),
      ...given.filter != null && { filter: { events: null, where: [], ...fieldsOf(given.filter) } }
    }
  }
}

/** They are parts of the URL, in which `../` would lead to another bucket. */
const PLACE_NAMES = { bucket: /^[a-z0-9][a-z0-9._-]{1,62}$/, region: /^[a-z0-9-]+$/, prefix: /^(?!(.*\/)?\.{0,2}\/)/ }

type Target = Readonly<Record<string, unknown>>

/** @throws {HttpError} 400 for a target that is not complete, or is another place than the stored one. */
function readTarget (asked: Target, stored: Target | undefined): { target: Target, secure_value?: unknown } {
  const given: Target = { ...NO_PLACE, ...asked }
  const { kind, access_key_id: accessKey, secret_access_key: secret, ...names } = given
  const unused = Object.keys(asked).find((name) => kind === 'folder' && name !== 'kind')
  if (unused !== undefined) throw invalidField(`target__${unused}`, 'Only a target of kind s3 has this field.')
  const place = Object.entries({ kind, ...kind === 's3' ? names : {} })
  for (const [name, value] of stored === undefined ? [] : place) {
    if (stored?.[name] !== value) throw fixed(`target__${name}`)
  }
  if (kind === 'folder') return { target: { kind } }
  for (const name of ['bucket', 'access_key_id', 'secret_access_key']) {
    if (given[name] === '') throw invalidField(`target__${name}`, 'This field is required for S3.', 'required')
  }
  if (names.endpoint !== '' && !/^https?:\/\/[^/?#@]+\/?$/.test(String(names.endpoint))) {
    throw invalidField('target__endpoint', 'The endpoint must be the URL of a server, such as https://s3.example.com.')
  }
  for (const [name, pattern] of Object.entries(PLACE_NAMES)) {
    if (!pattern.test(String(given[name]))) throw invalidField(`target__${name}`, `The ${name} must match ${pattern.source}.`)
  }
  const target = { kind, ...names, access_key_id: accessKey }
  if (secret !== HIDDEN) return { target, secure_value: secret }
  if (stored === undefined) throw invalidField('target__secret_access_key', 'Enter the secret itself.')
  return { target }
}

function fixed (field: string): HttpError {
  return invalidField(field, 'This cannot be changed, because windows would overlap or be missing. Create another export.')
}

const windowSchema = object({
  id: integer, table: string, from: time, to: time, revision: integer, reason: string,
  sequence: { type: ['integer', 'null'], description: 'Position in the chain of manifests of the table.' },
  manifest_sha256: { type: ['string', 'null'] },
  files: integer, rows: integer, left_out: count('Events that the filter left out.'), bytes: integer,
  written_at: { ...timeOrNull, description: 'null: planned.' }
}, { $id: 'ExportWindow' })

export async function exportRoutes (
  app: FastifyInstance, deps: { sql: Sql, clickhouse: ClickHouse, publicUrl: string }
): Promise<void> {
  const { sql, clickhouse, publicUrl } = deps
  app.addSchema(windowSchema)
  const routes = routesOf(app, { tag: 'exports', object: 'project', publicUrl })
  await documentRoutes(app, deps, EXPORTS)

  routes.list('/:id/windows', {
    summary: 'List the windows of an export', description: 'Every revision, newest first. Of a window the highest revision that is written counts.', params: idParams,
    item: { $ref: 'ExportWindow#' }
  }, async ({ params: { id }, query }, { projectId }) => {
    await findDocument(sql, EXPORTS, { projectId, id })
    return await selectPage(sql, query, {
      order: 'newest', keys: newestBy(sql`v.id`),
      select: sql`v.id::float8, v.table_name AS table, v.window_from AS from, v.window_to AS to, v.revision, v.reason, v.sequence,
        v.manifest_sha256, jsonb_array_length(v.files) AS files, v.rows::float8, v.left_out::float8, v.bytes::float8, v.written_at`,
      from: sql`export_windows AS v`, where: sql`v.export_id = ${id}`
    })
  })

  routes.post('/:id/run', {
    summary: 'Backfill an export',
    description: `Plans the closed windows of a time range that were never written, at most ${MAX_WINDOWS}, with the same bounds and file names as scheduled ones.`,
    params: idParams, body: bodyOf({ from: time, to: time }, 'from', 'to'),
    answer: object({ planned: count('Planned windows of all tables.') })
  }, async ({ params: { id }, body }, { projectId }) => {
    const { schedule } = await findDocument(sql, EXPORTS, { projectId, id })
    const [from, to] = [parseIsoDateTime(body.from) ?? new Date(0), parseIsoDateTime(body.to) ?? new Date(0)]
    const through = await answerInTime(readCompleteThrough(clickhouse))
    if (from >= to) throw invalidField('to', 'It must be after from.')
    if ((to.getTime() - from.getTime()) / WINDOW_MS[schedule] > MAX_WINDOWS) {
      throw invalidField('to', `A span has at most ${MAX_WINDOWS} windows: divide it.`)
    }
    if (through === null || to > through) {
      throw invalidField('to', `Windows are closed up to ${through?.toISOString() ?? 'no moment yet'}: later ones follow by schedule.`)
    }
    return { planned: await planBackfill(sql, id, { from, to }) }
  })
}

/** Windows that begin in the span and end in it. */
async function planBackfill (sql: Sql, id: number, { from, to }: { from: Date, to: Date }): Promise<number> {
  const planned = await sql`
    INSERT INTO export_windows (export_id, table_name, window_from, window_to, revision, reason)
    SELECT e.id, t.name, w.at AT TIME ZONE 'UTC', (w.at + s.step) AT TIME ZONE 'UTC', 0, 'backfill'
    FROM exports AS e, jsonb_array_elements_text(e.tables) AS t (name), LATERAL (SELECT ('1 ' || e.schedule)::interval) AS s (step),
      -- Without a zone: days of the session's time zone may have 23 hours.
      generate_series(date_trunc(e.schedule, ${from}::timestamptz AT TIME ZONE 'UTC'), ${to}::timestamptz AT TIME ZONE 'UTC', s.step) AS w (at)
    WHERE e.id = ${id} AND w.at AT TIME ZONE 'UTC' >= ${from} AND (w.at + s.step) AT TIME ZONE 'UTC' <= ${to} ORDER BY w.at
    ON CONFLICT DO NOTHING RETURNING id`
  return planned.length
}
