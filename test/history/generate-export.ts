/**
 * Exports of other products, of any size, in the shape of the real ones (the sources of `engines/import` cite it), with
 * events that come twice, merges that come late, and rows that are no events.
 */
import { createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { createRandom, pickOne, type Random } from '../support/random.ts'

export const HISTORY_SOURCES = ['posthog', 'mixpanel', 'amplitude'] as const
export type HistorySource = typeof HISTORY_SOURCES[number]

export interface GeneratedExport {
  /** Rows that an import has to reject. */
  hostile: number
  /** Rows of events that are in the export once more. */
  duplicates: number
}

const START_MS = Date.UTC(2024, 0)
const DAYS = 90
const NAMES = ['$pageview', '$identify', ...Array.from({ length: 38 }, (_, i) => `event ${i} ✓`)]
const USERS = 20_000
const ROWS_PER_FILE = 250_000

/** Parts of all rows. */
const DUPLICATES = 0.01
const HOSTILE = 0.0005

/** Which no source has as an event. */
const NO_EVENTS = ['{"event": broken', '[]', '"text"', '{}', '{"event":"no id","event_type":"no id","properties":{}}', '\u0000']

/** One of `rows` events, as a source writes it: the same for the same number. */
type Row = (index: number) => object

/** Files of gzipped lines, below a folder. For the same seed the same. */
export async function generateExport (
  { source, rows, folder, seed }: { source: HistorySource, rows: number, folder: string, seed: number }
): Promise<GeneratedExport> {
  const random = createRandom(seed)
  const generated = { hostile: 0, duplicates: 0 }
  const row = ROWS[source](rows)
  await mkdir(folder, { recursive: true })
  for (let from = 0; from < rows; from += ROWS_PER_FILE) {
    const lines = writeLines({ row, from, to: Math.min(from + ROWS_PER_FILE, rows), random, generated })
    await write(path.join(folder, `events-${String(from).padStart(10, '0')}.json.gz`), lines)
  }
  if (source === 'posthog') await write(path.join(folder, 'persons.jsonl.gz'), writePersons())
  return generated
}

async function write (file: string, lines: Iterable<string>): Promise<void> {
  await pipeline(Readable.from(lines), createGzip({ level: 1 }), createWriteStream(file))
}

interface FileContent {
  row: Row
  from: number
  to: number
  random: Random
  generated: GeneratedExport
}

function * writeLines ({ row, from, to, random, generated }: FileContent): Generator<string> {
  let text = ''
  for (let index = from; index < to; index++) {
    text += `${JSON.stringify(row(index))}\n`
    if (random() < DUPLICATES) {
      // Of any file before.
      text += `${JSON.stringify(row(Math.floor(random() * (index + 1))))}\n`
      generated.duplicates++
    }
    if (random() < HOSTILE) {
      text += `${pickOne(NO_EVENTS, random)}\n`
      generated.hostile++
    }
    if (text.length < 65_536) continue
    yield text
    text = ''
  }
  yield text
}

/** Numbers that belong to an event, in no order of time. */
function describe (index: number, rows: number): { at: number, user: number, name: string } {
  const scattered = Math.imul(index + 1, 0x9e3779b1) >>> 0
  return {
    at: START_MS + Math.floor(index / rows * DAYS * 86_400_000) + scattered % 3_600_000,
    user: scattered % USERS,
    name: NAMES[Math.imul(index, 7) % NAMES.length] ?? '$pageview'
  }
}

function propertiesOf (index: number): Record<string, unknown> {
  return {
    amount: index / 7, url: `https://example.com/path/${index % 500}`, text: 'Straße "quoted" \n '.repeat(6), plan: index % 3,
    $browser: 'Chrome', list: [1, { deep: null }], id: index % 2 === 0 ? String(index) : index
  }
}

function uuidOf (index: number, version: string): string {
  return `${index.toString(16).padStart(8, '0')}-cccc-${version}bbb-8ccc-1234567890ab`
}

const ROWS: Record<HistorySource, (rows: number) => Row> = {
  posthog: (rows) => (index) => {
    const { at, user, name } = describe(index, rows)
    return {
      uuid: uuidOf(index, '4'), event: name, distinct_id: index % 5 === 0 ? `device-${user}` : `user-${user}`,
      timestamp: new Date(at).toISOString(), elements_chain: index % 9 === 0 ? 'button:text="Buy"' : '', team_id: 1,
      properties: { ...propertiesOf(index), ...name === '$identify' && { $anon_distinct_id: `device-${user}` }, $set: { plan: index % 3 } }
    }
  },
  mixpanel: (rows) => (index) => {
    const { at, user, name } = describe(index, rows)
    return {
      event: name === '$identify' ? 'Log in' : name,
      properties: {
        ...propertiesOf(index), time: Math.floor(at / 1000), distinct_id: index % 5 === 0 ? `$device:${user}` : `user-${user}`,
        $insert_id: `insert-${index}`, $device_id: String(user), ...index % 50 === 1 && { $user_id: `user-${user}` }, mp_lib: 'web'
      }
    }
  },
  amplitude: (rows) => (index) => {
    const { at, user, name } = describe(index, rows)
    return {
      uuid: uuidOf(index, '1'), event_type: name === '$identify' ? 'Log in' : name,
      event_time: new Date(at).toISOString().replace('T', ' ').replace('Z', '000'), device_id: `device-${user}`,
      user_id: index % 50 === 1 ? `user-${user}` : null, amplitude_id: user, event_properties: propertiesOf(index),
      user_properties: index % 20 === 0 ? { plan: index % 3 } : {}, groups: index % 30 === 0 ? { org: ['acme', 'other'] } : {}, os_name: 'iOS'
    }
  }
}

function * writePersons (): Generator<string> {
  for (let user = 0; user < USERS; user++) {
    for (const id of user % 2 === 0 ? ['user'] : ['device', 'user']) {
      yield `${JSON.stringify({
        team_id: 1, distinct_id: `${id}-${user}`, person_id: uuidOf(user, '5'), properties: { plan: user % 3 }, person_version: 1,
        is_deleted: false, created_at: '2024-01-01 00:00:00.000000'
      })}\n`
    }
  }
}
