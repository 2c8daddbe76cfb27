/** Finds the events because of which a look back says something else than enforcement. */
import type { EventRow } from '../../ingest/event.ts'
import { formatUuid } from '../../ingest/normalise/uuid.ts'
import type { TestClickHouse } from '../support/test-stores.ts'
import { kindsOfVerdict, predictedKinds, RAW_PROJECT, type SchemaUnderTest } from './enforcement.ts'
import { createIngest } from './ingest-verdict.ts'
import { makeEvents, type RandomEvent } from './random-traffic.ts'

/** An event, what enforcement says of it, and its row. */
interface Judged {
  event: RandomEvent
  kinds: string[]
  row: EventRow
}

/** Events that are shown. */
const MAX_SHOWN = 5

/**
 * Reads back the stored events of a schema, and compares what is said of each with what enforcement said.
 *
 * @returns some lines about those that differ; none when each is right for itself.
 */
export async function explainDifference (
  clickhouse: TestClickHouse, schema: SchemaUnderTest, traffic: Parameters<typeof makeEvents>[0]
): Promise<string[]> {
  return (await findWrong(clickhouse, schema, judge(schema, traffic))).slice(0, MAX_SHOWN)
}

/** Makes the events of a schema again. */
function judge (
  { event: name, text, mode, compiled }: SchemaUnderTest, traffic: Parameters<typeof makeEvents>[0]
): Judged[] {
  const ingest = createIngest()
  const schemas = new Map([[name, { id: 1, event: name, text, mode, version: 1, check: compiled.check }]])
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
