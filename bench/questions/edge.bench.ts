import { prepareLoad } from '../load/load-generator.ts'
import { fateOf, ruleOf, RULES, schemaOf, SCHEMAS, type SentEvent } from '../load/edge-definitions.ts'
import { createEventSource } from '../load/prepare-events.ts'
import { median, type BenchContext, type Figure, type Question, repeat } from '../question.ts'
import { auditEvents, countEvents, cpuBetween, readMergeCpu, readThreadsCpu, readTiers, type Tier, waitUntilVisible } from '../read-stack.ts'
import type { Stack } from '../../test/start-stack.ts'
import { readRuleCounts } from '../../api/rules-and-schemas/rules/event-rule-routes.ts'

const TIERS: readonly Tier[] = ['ingest', 'nats', 'pipeline', 'clickhouse']

/** What is active in each project that the same load is sent to. */
const EDGES = {
  none: { schemas: false, rules: false },
  schemas: { schemas: true, rules: false },
  rules: { schemas: false, rules: true },
  both: { schemas: true, rules: true }
} as const

type Edge = keyof typeof EDGES

const NAMES: Record<Edge, string> = {
  none: 'none', schemas: `${SCHEMAS} schemas`, rules: `${RULES} rules`, both: `${SCHEMAS} schemas and ${RULES} rules`
}

/** The loads of `batch` and `single`, smaller: there are four turns of each. */
const LOADS = {
  batch: { seed: 12_000, path: '/batch/', requests: 400, eventsPerRequest: 100, connections: 16, gzip: true },
  single: { seed: 13_000, path: '/capture/', requests: 8000, eventsPerRequest: 1, connections: 64, gzip: false }
} as const

/**
 * Turns of a repetition. Other work on the machine makes events dearer by half for some seconds: many short turns meet
 * it alike, where few long ones do not.
 */
const TURNS = 5

type Load = keyof typeof LOADS

/** CPU in microseconds an event. */
interface Cost {
  ingest: number
  /** Merges of ClickHouse left out. */
  allTiers: number
}

/** What the schemas and rules of a project cost an event, in turns with a project that has none. */
export const edge: Question = {
  name: 'edge',
  asks: `the loads of "batch" and "single", in turns with nothing, ${SCHEMAS} schemas, ${RULES} rules and both`,
  isLong: true,
  async answer (context) {
    const projects = new Map<Edge, EdgeProject>()
    for (const each of Object.keys(EDGES) as Edge[]) projects.set(each, await createEdgeProject(context.stack, each))
    const figures: Figure[] = []
    for (const load of Object.keys(LOADS) as Load[]) {
      const rounds = await repeat(context, async (repetition) => {
        const turns: Record<Edge, Cost>[] = []
        while (turns.length < TURNS) {
          turns.push(await takeTurns(context, projects, { load, turn: repetition * TURNS + turns.length }))
        }
        return turns
      })
      const turns = rounds.flat()
      figures.push(...(Object.keys(EDGES) as Edge[]).flatMap((edge) => compare(load, edge, turns)))
    }
    for (const project of projects.values()) await checkFates(context.stack, project)
    return figures
  }
}

function compare (load: Load, edge: Edge, turns: readonly Record<Edge, Cost>[]): Figure[] {
  const pick = (edge: Edge, part: keyof Cost): number => median(turns.map((turn) => turn[edge][part]))
  const figure = (part: keyof Cost, name: string): Figure => ({
    name: `${load}, ${NAMES[edge]}: cpu ${name}`,
    value: pick(edge, part),
    unit: 'us/event',
    ...edge !== 'none' && { reference: { name: 'none', value: pick('none', part) } }
  })
  const figures = [figure('ingest', 'ingest'), figure('allTiers', 'all tiers without merges')]
  if (edge === 'none') return figures
  return [...figures, {
    name: `${load}, ${NAMES[edge]}: more than none in ingest`,
    value: median(turns.map((turn) => turn[edge].ingest - turn.none.ingest)),
    unit: 'us/event',
    // Of schemas the promise; one event of `single` differs from another by more.
    ...edge === 'schemas' && load === 'batch' && { target: { atMost: 1 } }
  }]
}

/** A project, and what must have become of the events that it was sent. */
interface EdgeProject {
  id: number
  apiKey: string
  edge: Edge
  /** Ids of the rules by name. */
  rules: Map<string, number>
  sent: { met: number, failed: number, byRule: Map<string, number> }
}

async function createEdgeProject (stack: Stack, edge: Edge): Promise<EdgeProject> {
  const apiKey = `phc_edge_${edge}`
  const [{ id }] = await stack.sql<[{ id: number }]>`INSERT INTO projects (name) VALUES (${edge}) RETURNING id`
  await stack.sql`INSERT INTO project_api_keys (api_key, project_id) VALUES (${apiKey}, ${id})`
  const rules = new Map<string, number>()
  if (EDGES[edge].schemas) for (let at = 0; at < SCHEMAS; at++) await post(stack, `${id}/event_schemas`, schemaOf(at))
  for (let at = 0; EDGES[edge].rules && at < RULES; at++) {
    const rule = ruleOf(at)
    rules.set(rule.name, (await post(stack, `${id}/rules`, rule)).id)
  }
  // Ingest follows within a second.
  await new Promise((resolve) => setTimeout(resolve, 2000))
  return { id, apiKey, edge, rules, sent: { met: 0, failed: 0, byRule: new Map() } }
}

async function post ({ url, personalApiKey }: Stack, path: string, body: object): Promise<{ id: number }> {
  const response = await fetch(`${url}/api/projects/${path}/`, {
    method: 'POST', body: JSON.stringify(body),
    headers: { authorization: `Bearer ${personalApiKey}`, 'content-type': 'application/json' }
  })
  if (response.status !== 201) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
  return await response.json() as { id: number }
}

interface Turn {
  load: Load
  turn: number
}

/** Sends the same events to each project; another one begins each time. */
async function takeTurns (
  context: BenchContext, projects: ReadonlyMap<Edge, EdgeProject>, { load, turn }: Turn
): Promise<Record<Edge, Cost>> {
  const edges = [...projects.values()]
  const costs: Partial<Record<Edge, Cost>> = {}
  for (let at = 0; at < edges.length; at++) {
    const project = edges[(at + turn) % edges.length]!
    costs[project.edge] = await measure(context, project, { load, turn })
  }
  return costs as Record<Edge, Cost>
}

async function measure (
  { stack, port, quick }: BenchContext, project: EdgeProject, { load, turn }: Turn
): Promise<Cost> {
  const { requests: ofFullRun, seed: first, ...order } = LOADS[load]
  const requests = quick ? ofFullRun / 4 : ofFullRun
  const seed = first + turn
  const prepared = await prepareLoad({
    port, apiKey: project.apiKey, seed, requests, ...order, events: { names: SCHEMAS }
  })
  const events = requests * order.eventsPerRequest
  const stored = events - expectFates(project, seed, events)
  const supervisor = stack.supervisor.pid as number
  const before = await countEvents(stack, project.id)
  const cpuBefore = readTiers(supervisor)
  const mergesBefore = readMergeCpu(cpuBefore.clickhouse.pid)
  const ingestBefore = readThreadsCpu(cpuBefore.ingest.pid)
  const { failed } = await prepared.run()
  if (failed > 0) throw new Error(`${failed} of ${requests} requests failed`)
  await waitUntilVisible(stack, before, stored)
  const ingest = readThreadsCpu(cpuBefore.ingest.pid) - ingestBefore
  const cpu = cpuBetween(cpuBefore, readTiers(supervisor))
  const merges = readMergeCpu(cpuBefore.clickhouse.pid) - mergesBefore
  await auditEvents(stack, before, stored)
  return { ingest: ingest / events, allTiers: (TIERS.reduce((sum, tier) => sum + cpu[tier], 0) - merges) / events }
}

/** Adds up what must become of the events of a load. Returns how many of them must be dropped. */
function expectFates ({ edge, sent }: EdgeProject, seed: number, events: number): number {
  const nextEvent = createEventSource(seed, { names: SCHEMAS })
  let dropped = 0
  for (let at = 0; at < events; at++) {
    const { meetsSchema, rules, isDropped } = fateOf(nextEvent() as SentEvent)
    if (EDGES[edge].rules) for (const name of rules) sent.byRule.set(name, (sent.byRule.get(name) ?? 0) + 1)
    if (EDGES[edge].rules && isDropped) dropped++
    else sent[meetsSchema ? 'met' : 'failed']++
  }
  return dropped
}

/** @throws when schemas or rules were not applied to each event, by the table and by the counts of rules. */
async function checkFates (stack: Stack, { id, edge, rules, sent }: EdgeProject): Promise<void> {
  const [found] = await stack.select<Record<'met' | 'failed' | 'unchecked', number>>(`
    SELECT toUInt32(countIf(schema_version > 0)) AS met, toUInt32(countIf(schema_version < 0)) AS failed,
      toUInt32(countIf(schema_version = 0)) AS unchecked FROM events WHERE project_id = {id: UInt32}`, { id })
  const { met, failed } = sent
  const expected = EDGES[edge].schemas ? { met, failed, unchecked: 0 } : { met: 0, failed: 0, unchecked: met + failed }
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    throw new Error(`${NAMES[edge]}: expected ${JSON.stringify(expected)} by schema_version, found ${JSON.stringify(found)}`)
  }
  const wanted = new Map([...sent.byRule].map(([name, events]) => [rules.get(name)!, events]))
  const deadline = Date.now() + COUNTS_TIMEOUT_MS
  for (let counts = await readCounts(stack, id); !isSame(counts, wanted); counts = await readCounts(stack, id)) {
    if (Date.now() > deadline) {
      throw new Error(`${NAMES[edge]}: expected ${JSON.stringify([...wanted])} by rule, found ${JSON.stringify([...counts])}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}

/** Counts of rules are some seconds behind. */
const COUNTS_TIMEOUT_MS = 30_000

/** Events that each rule of a project dropped or changed. */
async function readCounts ({ clickhouse }: Stack, projectId: number): Promise<Map<number, number>> {
  const counts = await readRuleCounts(clickhouse, { projectId, days: 1, now: Date.now() }, [])
  return new Map(counts.map(({ rule, dropped, sampled, changed }) => [rule, dropped + sampled + changed]))
}

function isSame (counts: ReadonlyMap<number, number>, wanted: ReadonlyMap<number, number>): boolean {
  return counts.size === wanted.size && [...wanted].every(([rule, events]) => counts.get(rule) === events)
}
