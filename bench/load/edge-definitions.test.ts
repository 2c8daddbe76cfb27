import t from 'tap'
import { compileSchema } from '../../engines/json-schema/compile-schema.ts'
import { compileRules } from '../../ingest/enforcement/active-rules.ts'
import { applyRules } from '../../engines/rules/apply-rules.ts'
import { fateOf, ruleOf, RULES, schemaOf, SCHEMAS, type SentEvent } from './edge-definitions.ts'
import { createEventSource } from './prepare-events.ts'

const EVENTS = 30_000

const schemas = new Map(Array.from({ length: SCHEMAS }, (_, at) => {
  const { event, schema } = schemaOf(at)
  return [event, compileSchema(schema)]
}))

const rules = compileRules({
  secret: new Uint8Array(32),
  rules: Array.from({ length: RULES }, (_, id) => {
    const { name, condition, actions } = ruleOf(id)
    return { id, name, version: 1, text: JSON.stringify({ condition, actions }) }
  })
}, 1).rules

t.test('schemas and rules do with the events of the load what the question expects of ingest', async (t) => {
  const nextEvent = createEventSource(1, { names: SCHEMAS })
  const differences: object[] = []
  const seen = { met: 0, failed: 0, dropped: 0, touched: new Set<string>() }
  for (let at = 0; at < EVENTS; at++) {
    const sent = nextEvent() as SentEvent & { distinct_id: string }
    const { event, distinct_id: distinctId, properties } = sent
    const outcome = applyRules(rules, { event, distinctId, properties, ip: '127.0.0.1', receivedAt: Date.now() }, 'sent')
    const isDropped = outcome !== null && outcome.kind !== 'stored'
    const touchedBy = outcome === null ? [] : outcome.kind === 'stored' ? outcome.changedBy : [outcome.rule]
    const left = outcome?.kind === 'stored' ? outcome.properties : properties
    const meets = [properties, left].map((each) => schemas.get(event)!.check(each, 'sent') === null)
    const fate = fateOf(sent)
    const found = { meetsSchema: meets[0]!, rules: touchedBy.map(({ name }) => name), isDropped }
    if (JSON.stringify(found) !== JSON.stringify(fate) || meets[0] !== meets[1]) {
      differences.push({ sent, found, fate, meets })
    }
    seen[meets[0]! ? 'met' : 'failed']++
    if (isDropped) seen.dropped++
    for (const { name } of touchedBy) seen.touched.add(name)
  }
  t.same(differences.slice(0, 3), [])
  t.ok(seen.met > 0 && seen.failed > 0 && seen.dropped > 0, 'each fate occurs')
  t.equal(seen.touched.size, 43, 'each rule that names an event is used, and three that look at every one')
})
