/** Finds the events because of which a look back says something else than enforcement. */
import { BlockEncoder } from '../../ingest/frames/block-encoder.ts'
import type { EventRow } from '../../ingest/event.ts'
import { formatUuid } from '../../ingest/normalise/uuid.ts'
import { activateSchema } from '../../platform/directory/active-schemas.ts'
import { checkStoredEvents } from '../../api/enforcement/schemas/check-stored-events.ts'
import type { TestClickHouse } from '../support/test-stores.ts'
import { SchemaCounts } from './enforced-counts.ts'
import { insertBlock, kindsOfVerdict, predictedKinds, RAW_PROJECT, type SchemaUnderTest } from './enforcement.ts'
import { createIngest } from './ingest-verdict.ts'
import { makeEvents, NOW, type RandomEvent } from './random-traffic.ts'

/** An event, what enforcement says of it, and its row. */
interface Judged {
  event: RandomEvent
  kinds: string[]
  row: EventRow
}

/** Events that are shown. */
const MAX_SHOWN = 5

/** Looks back over parts of the events, to find the few that matter. */
const MAX_TRIES = 60

/**
 * Reads back the stored events of a schema, and compares each; if each is right for itself, searches the smallest part
 * of them whose counts are wrong: then events were counted together that are not alike.
 *
 * @returns some lines about them; none when stored once more they are right.
 */
export async function explainDifference (
  clickhouse: TestClickHouse, schema: SchemaUnderTest, traffic: Parameters<typeof makeEvents>[0]
): Promise<string[]> {
  const judged = judge(schema, traffic)
  const wrong = await findWrong(clickhouse, schema, judged)
  if (wrong.length > 0) return wrong.slice(0, MAX_SHOWN)
  if (!(await differs(clickhouse, schema, judged))) return []
  let part = judged
  let size = Math.ceil(part.length / 2)
  for (let tries = 0; tries < MAX_TRIES && part.length > 1;) {
    const chunks = chunksOf(part, size)
    const others = chunks.map((chunk) => part.filter((each) => !chunk.includes(each)))
    const smaller = await findFirst([...chunks, ...others].filter(({ length }) => length > 0), async (events) => {
      tries++
      return await differs(clickhouse, schema, events)
    })
    if (smaller !== undefined) part = smaller
    else if (size === 1) break
    size = Math.max(1, Math.ceil(Math.min(size, part.length) / 2))
  }
  return part.slice(0, MAX_SHOWN).map(({ event, kinds }) => `one of ${part.length} events: ${event.body} (${kinds.join() || 'met'})`)
}

/** Makes the events of a schema again. */
function judge (
  { event: name, text, mode, compiled }: SchemaUnderTest, traffic: Parameters<typeof makeEvents>[0]
): Judged[] {
  const ingest = createIngest()
  const schemas = new Map([[name, activateSchema({ id: 1, event: name, text, mode, version: 1 }, compiled)]])
  const judged: Judged[] = []
  for (const events of makeEvents(traffic)) {
    for (const event of events.filter((each) => each.name === name)) {
      const verdict = ingest(event, { id: RAW_PROJECT, anonymizeIps: false, schemas })
      judged.push({ event, kinds: kindsOfVerdict(verdict, compiled), row: verdict.event!.row })
    }
  }
  return judged
}

/** Events that are stored otherwise than they were sent, or judged otherwise one by one. */
async function findWrong (
  { client }: TestClickHouse, { event, compiled }: SchemaUnderTest, judged: readonly Judged[]
): Promise<string[]> {
  const answer = await client.query({
    query: 'SELECT toString(uuid) AS id, properties FROM events WHERE project_id = {project: UInt32} AND event = {event: String}',
    query_params: { project: RAW_PROJECT, event },
    format: 'JSONEachRow'
  })
  const rows = await answer.json<{ id: string, properties: string }>()
  const stored = new Map(rows.map(({ id, properties }) => [id, properties]))
  return judged.flatMap(({ event: { ordinal, body }, kinds, row }) => {
    const properties = stored.get(formatUuid(row.uuid))
    if (properties === undefined) return [`event ${ordinal} is not stored: ${body}`]
    const predicted = predictedKinds({ row: { ...row, properties } }, compiled)
    if (predicted.join() === kinds.join()) return []
    return [`event ${ordinal}: ${kinds.join() || 'met'} enforced, ${predicted.join() || 'met'} predicted: ${body}, stored as ${properties}`]
  })
}

let parts = 0

/** Whether the counts of these events alone are wrong; they are stored once more, as a project of their own. */
async function differs (
  { client, url }: TestClickHouse, { event, compiled }: SchemaUnderTest, judged: readonly Judged[]
): Promise<boolean> {
  const projectId = 1000 + parts++
  const encoder = new BlockEncoder()
  const counts = new SchemaCounts()
  for (const { row, kinds } of judged) {
    encoder.append({ ...row, projectId })
    counts.add(kinds, '')
  }
  await insertBlock(url, encoder.finish())
  const prediction = await checkStoredEvents(client, compiled, { projectId, event, days: 30, limit: 1e8, now: NOW })
  const { events, failed } = prediction
  return counts.compare({ ...prediction, libs: [{ lib: '', libVersion: '', events, failed }] }).length > 0
}

function chunksOf<T> (all: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, index) => all.slice(index * size, (index + 1) * size))
}

async function findFirst<T> (all: readonly T[], isWanted: (each: T) => Promise<boolean>): Promise<T | undefined> {
  for (const each of all) if (await isWanted(each)) return each
  return undefined
}
