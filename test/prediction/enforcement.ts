/** What ingest does with random events by schemas and rules, and whether each verdict is what their rows predict. */
import type { RulePrediction } from '../../api/rules-and-schemas/rules/event-rule.ts'
import type { SchemaPrediction } from '../../api/rules-and-schemas/schemas/event-schema.ts'
import { hasLongNumber, parseJson } from '../../engines/body/parse-json.ts'
import { REPLACEMENT } from '../../engines/body/storable-text.ts'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import type { CompiledSchema } from '../../engines/json-schema/compile-schema.ts'
import { generalise } from '../../engines/json-schema/describe-failure.ts'
import type { SchemaFailure } from '../../engines/json-schema/evaluation.ts'
import { applyRules } from '../../engines/rules/apply-rules.ts'
import { PROMOTED_IP, PROMOTED_PROPERTIES } from '../../ingest/event.ts'
import type { NormalisedEvent } from '../../ingest/normalise/normalise-event.ts'
import { parseClickHouseUrl } from '../../platform/clickhouse/connect-clickhouse.ts'
import { compileRules, type KeyedRules } from '../../ingest/enforcement/active-rules.ts'
import type { ProjectSchemas } from '../../ingest/enforcement/active-schemas.ts'
import type { SchemaMode } from '../../schema/schema-modes.ts'
import type { EnforcedProject } from '../../ingest/enforcement/read-projects.ts'
import { createIngest, type Verdict } from './ingest-verdict.ts'
import type { RandomEvent } from './random-traffic.ts'

/** Where events are stored without any schema or rule. */
export const RAW_PROJECT = 1

/** Where events are stored as rules have left them. */
export const RULED_PROJECT = 2

/** Differences that are described; the first one tells most. */
export const MAX_DIFFERENCES = 20

const SECRET = new Uint8Array(32).fill(7)

/** A schema of the events of one name. */
export interface SchemaUnderTest {
  event: string
  text: string
  mode: SchemaMode
  compiled: CompiledSchema
}

/** What ingest does with events, counted. */
export interface Enforcement {
  /** Events by what became of them: by their schema alone, and by all rules. */
  counts: Record<SchemaMode | 'met' | 'dropped' | 'sampled' | 'changed', number>
  /** Events of which a single verdict is predicted otherwise. */
  differences: string[]
  ofSchemas: { raw: SchemaCounts[], ruled: SchemaCounts[] }
  ofRules: RuleCounts[]
  /** @returns the event as it is stored without schemas and rules, and as rules leave it; null: not at all. */
  take: (event: RandomEvent) => { raw: NormalisedEvent, ruled: NormalisedEvent | null }
  /** Empties the properties of a stored event, if its schema then says something else. */
  tamper: (event: RandomEvent, raw: NormalisedEvent) => boolean
}

/** Lets ingest decide about events, by each schema, each rule, and all of them. */
export function createEnforcement (
  schemas: readonly SchemaUnderTest[], texts: readonly string[]
): Enforcement {
  const ingest = createIngest()
  const indexes = new Map(schemas.map(({ event }, index) => [event, index]))
  const project = (id: number, parts: Partial<EnforcedProject> = {}): EnforcedProject =>
    ({ id, anonymizeIps: false, ...parts })
  const plain = project(RAW_PROJECT)
  const checked = project(RAW_PROJECT, { schemas: activate(schemas, null) })
  const all = compileAll(texts, RULED_PROJECT)
  const ruledProject = project(RULED_PROJECT, { rules: all, schemas: activate(schemas, 'observe') })
  const alone = texts.map((text) => {
    const rules = compileAll([text], RAW_PROJECT)
    return { rules, project: project(RAW_PROJECT, { rules }) }
  })
  const counts = { met: 0, observe: 0, quarantine: 0, reject: 0, dropped: 0, sampled: 0, changed: 0 }
  const differences: string[] = []
  const ofSchemas = { raw: schemas.map(() => new SchemaCounts()), ruled: schemas.map(() => new SchemaCounts()) }
  const ofRules = texts.map(() => new RuleCounts())
  return { counts, differences, ofSchemas, ofRules, take, tamper }

  function complain (event: RandomEvent, what: string, ...about: unknown[]): void {
    if (differences.length >= MAX_DIFFERENCES) return
    differences.push([`event ${event.ordinal}: ${what}`, event.body, ...about.map(String)].join('\n  '))
  }

  function take (event: RandomEvent): ReturnType<Enforcement['take']> {
    const raw = ingest(event, plain).event as NormalisedEvent
    const index = indexes.get(raw.row.event)!
    const { compiled, text, mode } = schemas[index]!
    const verdict = ingest(event, checked)
    const kinds = kindsOfVerdict(verdict, compiled)
    counts[kinds.length === 0 ? 'met' : mode]++
    ofSchemas.raw[index]!.add(kinds, libOf(raw))
    const predicted = predictedKinds(raw, compiled)
    if (predicted.join() !== kinds.join()) complain(event, `${kinds.join()} enforced, ${predicted.join()} predicted`, text)
    takeByEachRule(event, raw)
    return { raw, ruled: takeByAllRules(event, raw, index) }
  }

  function takeByEachRule (event: RandomEvent, raw: NormalisedEvent): void {
    const { row: { event: name, promoted } } = raw
    for (const [index, { rules: { rules }, project }] of alone.entries()) {
      if (rules.of(name).length === 0) continue
      const { reason, changedBy } = ingest(event, project)
      const changed = changedBy.length > 0 ? 'changed' : null
      const fate = reason === 'rule_dropped' ? 'dropped' : reason === 'rule_sampled' ? 'sampled' : changed
      ofRules[index]!.add(name, fate, rules.rules[0]!.compiled.usesAddress && promoted[PROMOTED_IP] === '')
    }
  }

  /** Rules come first, so a schema is held against what they leave; what was stored before tells what they would do. */
  function takeByAllRules (event: RandomEvent, raw: NormalisedEvent, index: number): NormalisedEvent | null {
    const verdict = ingest(event, ruledProject)
    const { row } = raw
    const predicted = applyRules(all.rules, {
      event: row.event,
      distinctId: row.distinctId,
      receivedAt: row.receivedAt,
      ip: row.promoted[PROMOTED_IP]!,
      properties: parseStored(row.properties)
    }, 'stored')
    if (verdict.event === null) {
      const by = predicted === null || predicted.kind === 'stored' ? null : predicted.rule.id
      const isSame = verdict.reason === `rule_${predicted?.kind}` && by === verdict.droppedBy
      if (!isSame) complain(event, `${verdict.reason} by rule ${verdict.droppedBy}, predicted ${predicted?.kind}`, ...texts)
      counts[verdict.reason === 'rule_dropped' ? 'dropped' : 'sampled']++
      return null
    }
    const left = predicted === null ? row.properties : predicted.kind === 'stored' ? stringifyJson(predicted.properties) : null
    if (left !== verdict.event.row.properties) complain(event, `${verdict.event.row.properties} is left by rules, predicted ${left}`, ...texts)
    if (verdict.changedBy.length > 0) counts.changed++
    const { compiled } = schemas[index]!
    ofSchemas.ruled[index]!.add(kindsOfVerdict(verdict, compiled), libOf(verdict.event))
    return verdict.event
  }

  function tamper ({ name }: RandomEvent, { row }: NormalisedEvent): boolean {
    const { check } = schemas[indexes.get(name)!]!.compiled
    const isMet = check(parseStored(row.properties), 'stored') === null
    if (isMet === (check({}, 'stored') === null)) return false
    row.properties = '{}'
    return true
  }
}

function activate (schemas: readonly SchemaUnderTest[], mode: SchemaMode | null): ProjectSchemas {
  return new Map(schemas.map(({ event, text, compiled, mode: own }, index) =>
    [event, { id: index + 1, event, text, version: index + 1, mode: mode ?? own, check: compiled.check }]))
}

/** Compiles rules as ingest does, in this order. */
export function compileAll (texts: readonly string[], projectId: number): KeyedRules {
  return compileRules({ secret: SECRET, rules: texts.map((text, id) => ({ id, name: `rule ${id}`, version: 1, text })) }, projectId)
}

/** What a schema says against an event, by what ingest did with it; ingest itself tells the first failure only. */
export function kindsOfVerdict (
  { event, quarantined, rejected }: Verdict, { failuresOf }: CompiledSchema
): string[] {
  if (event === null) return []
  const { row, properties } = event
  const first = quarantined ?? rejected
  if (row.schemaVersion > 0) return []
  // As `check-schema.ts` decides.
  const failures = row.properties.includes(REPLACEMENT) ? failuresOf(JSON.parse(row.properties), 'stored') : failuresOf(properties, 'sent')
  const kinds = kindsOf(failures)
  if (first !== null && !kindsOf([first]).every((kind) => kinds.includes(kind))) return [...kinds, `first: ${kindsOf([first]).join()}`]
  return kinds.length === 0 ? ['not met without a failure'] : kinds
}

/** What the look back says of a single stored event. */
export function predictedKinds ({ row }: Pick<NormalisedEvent, 'row'>, { failuresOf }: CompiledSchema): string[] {
  return kindsOf(failuresOf(JSON.parse(row.properties), 'stored'))
}

const LIB = PROMOTED_PROPERTIES.indexOf('$lib')

function libOf ({ row }: NormalisedEvent): string {
  return row.promoted[LIB]!.toWellFormed()
}

function parseStored (text: string): Record<string, unknown> {
  return parseJson(text, hasLongNumber(Buffer.from(text))) as Record<string, unknown>
}

/** Inserts a block as the writer does. */
export async function insertBlock (url: string, block: Uint8Array): Promise<void> {
  const { origin, database, headers } = parseClickHouseUrl(url)
  const query = encodeURIComponent('INSERT INTO events FORMAT Native')
  const response = await fetch(`${origin}/?database=${database}&query=${query}`, { method: 'POST', headers, body: Buffer.from(block) })
  if (response.status !== 200) throw new Error(await response.text())
}

/** Counts of what enforcement did, in the words of the prediction. */
/** Kinds of failures, names and SDKs that a prediction tells apart; with more, it leaves some out. */
const MAX_GROUPS = 200

/** The kinds of failures of an event, each once: `path keyword`. */
function kindsOf (failures: readonly SchemaFailure[]): string[] {
  return [...new Set(failures.map(({ path, keyword }) => `${generalise(path)} ${keyword}`))].sort()
}

/** What a schema did with the events of its name. */
class SchemaCounts {
  events = 0
  failed = 0
  readonly #kinds = new Map<string, number>()
  readonly #libs = new Map<string, { events: number, failed: number }>()

  add (kinds: readonly string[], lib: string): void {
    const failed = kinds.length > 0 ? 1 : 0
    this.events++
    this.failed += failed
    for (const kind of kinds) this.#kinds.set(kind, (this.#kinds.get(kind) ?? 0) + 1)
    const { events = 0, failed: before = 0 } = this.#libs.get(lib) ?? {}
    this.#libs.set(lib, { events: events + 1, failed: before + failed })
  }

  /** @returns what a prediction says otherwise, one line each. */
  compare ({ events, met, failed, complete, failures, libs }: SchemaPrediction): string[] {
    const kinds = new Map(failures.map(({ path, keyword, events }) => [`${path} ${keyword}`, events]))
    const sdks = new Map(libs.map(({ lib, events, failed }) => [lib, `${failed} of ${events}`]))
    const enforced = new Map([...this.#libs].map(([lib, { events, failed }]) => [lib, `${failed} of ${events}`]))
    const unshown = failures.filter(({ samples }) => samples.length === 0)
    const own = { events: this.events, met: this.events - this.failed, failed: this.failed, complete: true }
    return [
      ...compareCounts(own, { events, met, failed, complete }),
      ...compareMaps(this.#kinds, kinds), ...compareMaps(enforced, sdks, 'SDK '),
      ...unshown.map(({ path, keyword }) => `${path} ${keyword}: no event is shown`)
    ]
  }
}

/** What a rule did, alone. */
class RuleCounts {
  readonly counts = { events: 0, dropped: 0, sampled: 0, changed: 0, without_address: 0 }
  readonly #names = new Map<string, number>()

  add (event: string, fate: 'dropped' | 'sampled' | 'changed' | null, withoutAddress: boolean): void {
    this.counts.events++
    if (fate !== null) this.counts[fate]++
    if (withoutAddress) this.counts.without_address++
    this.#names.set(event, (this.#names.get(event) ?? 0) + 1)
  }

  /** @returns what a prediction says otherwise, one line each. */
  compare ({ matched, complete, names, ...counts }: RulePrediction): string[] {
    const ofCounts = compareCounts({ ...this.counts, complete: true }, { ...counts, complete })
    const { dropped, sampled, changed } = this.counts
    const ofNames = new Map(names.map(({ event, events }) => [event, events]))
    return [
      ...ofCounts, ...compareMaps(this.#names, ofNames),
      ...matched < dropped + sampled + changed ? [`${matched} match, but ${dropped + sampled + changed} are dropped or changed`] : []
    ]
  }
}

function compareCounts<T extends Record<string, unknown>> (enforced: T, predicted: T): string[] {
  return Object.entries(enforced).flatMap(([name, value]) => value === predicted[name] ? [] : [`${name}: ${value} enforced, ${predicted[name]} predicted`])
}

function compareMaps<T> (enforced: ReadonlyMap<string, T>, predicted: ReadonlyMap<string, T>, what = ''): string[] {
  if (enforced.size >= MAX_GROUPS) return []
  return [...new Set([...enforced.keys(), ...predicted.keys()])].sort().flatMap((key) =>
    enforced.get(key) === predicted.get(key) ? [] : [`${what}${key}: ${enforced.get(key) ?? 'none'} enforced, ${predicted.get(key) ?? 'none'} predicted`])
}
