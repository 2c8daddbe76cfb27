/** Lets ingest decide about random events, stores them, and asks the looks back what ingest would have done. */
import { checkStoredEventsByRule } from '../../api/rules-and-schemas/rules/check-stored-rules.ts'
import { checkStoredEvents } from '../../api/rules-and-schemas/schemas/check-stored-events.ts'
import { compileSchema } from '../../engines/json-schema/compile-schema.ts'
import type { EventRow } from '../../ingest/event.ts'
import { BlockEncoder } from '../../ingest/frames/block-encoder.ts'
import { formatUuid } from '../../engines/uuid.ts'
import { SCHEMA_MODES } from '../../schema/schema-modes.ts'
import type { TestClickHouse } from '../support/test-stores.ts'
import {
  compileAll, createEnforcement, type Enforcement, insertBlock, kindsOfVerdict, MAX_DIFFERENCES, predictedKinds,
  RAW_PROJECT, RULED_PROJECT, type SchemaUnderTest
} from './enforcement.ts'
import { createIngest } from './ingest-verdict.ts'
import { makeEvents, makeTraffic, NOW, type RandomEvent } from './random-traffic.ts'

export interface CheckOptions {
  events: number
  schemas: number
  rules: number
  seed: number
  /** Changes one stored event behind the back of the comparison, which has to find it. */
  tamper?: boolean
  onProgress?: (line: string) => void
}

export interface CheckResult {
  /** Events by what became of them. */
  counts: Enforcement['counts']
  /** Predictions that were compared with counts. */
  compared: number
  /** What is predicted otherwise than it is enforced; empty: the check passed. */
  differences: string[]
}

/** Lets enforcement and prediction decide about the same events, and compares them. */
export async function checkPrediction (clickhouse: TestClickHouse, options: CheckOptions): Promise<CheckResult> {
  const { seed, onProgress } = options
  const traffic = makeTraffic(options)
  const schemas = traffic.schemas.map(({ event, schema }, index): SchemaUnderTest => {
    const text = JSON.stringify(schema)
    return { event, text, mode: SCHEMA_MODES[index % SCHEMA_MODES.length]!, compiled: compileSchema(JSON.parse(text)) }
  })
  const rules = traffic.rules.map((rule) => JSON.stringify(rule))
  const names = schemas.map(({ event }) => event)
  const enforcement = createEnforcement(schemas, rules)
  const encoder = new BlockEncoder()
  let taken = 0
  const show = atIntervals(onProgress)
  let tampering = options.tamper === true
  for (const events of makeEvents({ ...options, names })) {
    for (const event of events) {
      const { raw, ruled } = enforcement.take(event)
      if (tampering && enforcement.tamper(event, raw)) tampering = false
      encoder.append(raw.row)
      if (ruled !== null) encoder.append(ruled.row)
    }
    await insertBlock(clickhouse.url, encoder.finish())
    encoder.reset()
    taken += events.length
    show(`${taken} events enforced and stored`)
  }

  const { counts, differences, ofSchemas, ofRules } = enforcement
  const query = { projectId: RAW_PROJECT, days: 30, limit: 1e8, now: NOW }
  for (const [index, schema] of schemas.entries()) {
    const { event, compiled, text } = schema
    show(`${taken} events enforced and stored; looked back by ${index} schemas`)
    for (const projectId of [RAW_PROJECT, RULED_PROJECT]) {
      const isRaw = projectId === RAW_PROJECT
      const predicted = await checkStoredEvents(clickhouse.client, compiled, { ...query, projectId, event })
      const found = ofSchemas[isRaw ? 'raw' : 'ruled'][index]!.compare(predicted)
      if (found.length === 0 || differences.length >= MAX_DIFFERENCES) continue
      const why = isRaw ? await explainDifference(clickhouse, schema, { ...options, names }) : []
      differences.push([`seed ${seed}, schema of ${event}${isRaw ? '' : ' after rules'}: ${text}`, ...found, ...why].join('\n  '))
    }
  }
  for (const [index, text] of rules.entries()) {
    const { rules: [rule] } = compileAll([text], RAW_PROJECT).rules
    const found = ofRules[index]!.compare(await checkStoredEventsByRule(clickhouse.client, rule!.compiled, query))
    if (found.length > 0) differences.push([`seed ${seed}, rule ${text}`, ...found].join('\n  '))
  }
  return { counts, compared: 2 * schemas.length + rules.length, differences }
}

/** Says something every ten seconds at most. */
function atIntervals (say: ((line: string) => void) | undefined): (line: string) => void {
  let saidAt = performance.now()
  return (line) => {
    if (performance.now() - saidAt < 10_000) return
    say?.(line)
    saidAt = performance.now()
  }
}

/** Finds the events because of which a look back says something else than enforcement. */
/** An event, what enforcement says of it, and its row. */
interface Judged {
  event: RandomEvent
  kinds: string[]
  row: EventRow
}

/** Events that are shown. */
const MAX_SHOWN = 5

/**
 * Reads back the stored events of a schema, and compares the prediction for each with the enforced result.
 *
 * @returns some lines about those that differ; none when each is right for itself.
 */
async function explainDifference (
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
