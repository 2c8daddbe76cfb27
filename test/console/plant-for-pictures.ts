/** What the pictures of the console show: events of weeks, people, an experiment, and dead letters. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import type { Stack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'

const NAMES = ['$pageview', 'order paid', 'signed up', 'checkout started', 'search', 'plan changed']
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Who saw the experiment, over two weeks. */
const BUYERS = 4000
const DAYS = 14

/** Ids of what has a page of its own. */
export interface Planted {
  question: number
  board: number
  experiment: number
  flag: number
  schema: number
  event: string
  property: string
  person: string
}

/** Plants everything, and waits until it is there. */
export async function plantForPictures (stack: Stack): Promise<Planted> {
  await plantDeadLetters(stack)
  const { id: experiment } = await call(stack, 'experiments', {
    name: 'One page instead of three', feature_flag_key: 'checkout', description: 'Fewer steps lose fewer people.',
    start_date: new Date(Date.now() - DAYS * DAY_MS).toISOString(),
    parameters: {
      feature_flag_variants: [
        { key: 'control', rollout_percentage: 34 }, { key: 'one-page', rollout_percentage: 33 }, { key: 'no-account', rollout_percentage: 33 }
      ],
      minimum_detectable_effect: 20, recommended_sample_size: 5000
    },
    filters: { insight: 'FUNNELS', events: [{ id: 'order paid' }] },
    secondary_metrics: [{ name: 'Spent', kind: 'mean', event: 'order paid', property: 'amount' }]
  })
  await call(stack, 'feature_flags', {
    key: 'new-search', name: 'Search with suggestions', active: true,
    filters: { groups: [{ properties: [{ key: 'plan', value: ['pro', 'team'], operator: 'exact', type: 'person' }], rollout_percentage: 40 }] }
  })
  await call(stack, 'saved_queries', { name: 'Orders by day', query: "SELECT toDate(timestamp) AS day, count() AS orders FROM events WHERE event = 'order paid' GROUP BY day ORDER BY day" })
  await sendBuyers(stack)
  await send(stack, [{ event: 'late', distinct_id: 'buyer 1', uuid: 'not a uuid', properties: {} }])
  const find = async (query: string): Promise<string> =>
    (await waitFor(async () => (await stack.sql.unsafe<{ id: string }[]>(query))[0])).id
  const shown = async (): Promise<number> => Number((await stack.select<{ n: string }>("SELECT count() AS n FROM events WHERE event = '$feature_flag_called'"))[0]!.n)
  await waitFor(async () => await shown() === BUYERS, { everyMs: 500 })
  return {
    ...await plantBoard(stack),
    experiment,
    flag: await plantFlag(stack),
    schema: await plantSchema(stack),
    event: await find("SELECT id FROM event_definitions WHERE name = 'order paid'"),
    property: await find("SELECT id FROM property_definitions WHERE name = 'amount'"),
    person: await find("SELECT uuid AS id FROM persons WHERE properties->>'email' = 'buyer1@example.com'")
  }
}

/** Events of a round, and pauses after ten of them: what becomes of the events is to be seen, too. */
const ROUND = 25
const ROUND_MS = 100
const PAUSE_MS = 1500

/** Some hundred events a second, so that the stages have something to show; some are sent again, some are refused. */
export async function sendUntil (stack: Stack, signal: AbortSignal): Promise<void> {
  let repeated: PlantedEvent | undefined
  for (let round = 0; !signal.aborted; round++) {
    const events: PlantedEvent[] = Array.from({ length: ROUND }, (_, index) => {
      const spread = (round * ROUND + index) * 7919
      return {
        event: NAMES[spread % NAMES.length]!, distinct_id: `user ${spread % 1009}`, uuid: randomUUID(),
        properties: spread % 3 === 0
          ? { plan: 'pro', amount: spread % 40, $lib: 'posthog-node', $lib_version: '5.10.0' }
          : { plan: 'free', amount: spread % 30, $lib: 'web', $lib_version: '1.298.0' }
      }
    })
    if (repeated !== undefined) events.push(repeated, { event: 'search', distinct_id: '', properties: { $lib: 'web', $lib_version: '1.298.0' } })
    repeated = events[0]
    await send(stack, events)
    await delay(round % 10 === 9 ? PAUSE_MS : ROUND_MS)
  }
}

/** People who saw a variant, some each day, and those of them who bought: most of `one-page`. */
async function sendBuyers (stack: Stack): Promise<void> {
  const rates = { control: 20, 'one-page': 27, 'no-account': 21 } as const
  const variants = Object.keys(rates) as (keyof typeof rates)[]
  const now = Date.now()
  const today = now - now % DAY_MS
  // Today has 70 % of a day's people, whatever the hour: the end of a line is not drawn as a fall to zero.
  const timeOf = (days: number): number => days < DAYS - 1
    ? today + (days - DAYS + 1) * DAY_MS
    : today + (days - DAYS + 1) / 0.7 * (now - today)
  const events = Array.from({ length: BUYERS }, (_, index) => {
    const variant = variants[index % 3]!
    const distinctId = `buyer ${index}`
    const at = timeOf(index / BUYERS * (DAYS - 0.3))
    const common = { $lib: 'posthog-node', $lib_version: '5.10.0' }
    const seen = {
      event: '$feature_flag_called', distinct_id: distinctId, timestamp: new Date(at).toISOString(),
      properties: { ...common, $feature_flag: 'checkout', $feature_flag_response: variant }
    }
    // Spread without an order, the same at each run.
    if (index * 7919 % 1009 % 100 >= rates[variant]) return [seen]
    return [seen, {
      event: 'order paid', distinct_id: distinctId, timestamp: new Date(Math.min(at + HOUR_MS / 2, now)).toISOString(),
      properties: { ...common, amount: 20 + index % 90, currency: 'EUR', plan: index % 3 === 0 ? 'pro' : 'team', $set: { email: `buyer${index}@example.com`, plan: 'pro', seats: index % 7 } }
    }]
  }).flat()
  for (let company = 0; company < 5; company++) {
    events.push({
      event: '$groupidentify', distinct_id: `buyer ${company}`, timestamp: new Date().toISOString(),
      properties: { $group_type: 'company', $group_key: `company ${company}`, $group_set: { name: `Company ${company}`, seats: 5 * company } }
    } as never)
  }
  // People whose ids became one.
  events.push({
    event: '$identify', distinct_id: 'buyer 1', timestamp: new Date().toISOString(),
    properties: { $anon_distinct_id: 'anonymous 1', $set: { email: 'buyer1@example.com', name: 'Ann Buyer' } }
  } as never)
  for (let first = 0; first < events.length; first += 500) await send(stack, events.slice(first, first + 500))
}

/** Questions of each kind, side by side. */
async function plantBoard (stack: Stack): Promise<Pick<Planted, 'question' | 'board'>> {
  const range = { last: 14, unit: 'day' }
  const definitions = {
    'Orders by plan': { kind: 'trend', range, interval: 'day', series: [{ event: 'order paid', measure: 'events' }], breakdown: { property: 'plan', limit: 3 } },
    'From the experiment to an order': { kind: 'funnel', range, steps: [{ event: '$feature_flag_called' }, { event: 'order paid' }], window: { value: 14, unit: 'day' } },
    'Who orders again': { kind: 'retention', range: { last: 4, unit: 'week' }, interval: 'week', start: { event: 'order paid' }, returning: { event: 'order paid' } }
  }
  const questions: number[] = []
  for (const [name, definition] of Object.entries(definitions)) {
    questions.push((await call(stack, 'questions', { name, definition: { version: 1, ...definition } })).id)
  }
  const { id: board } = await call(stack, 'boards', { name: 'The shop', tiles: questions.map((id) => ({ kind: 'question', id })) })
  return { question: questions[1]!, board }
}

/** A flag that was changed a few times. @returns its id. */
async function plantFlag ({ url, personalApiKey }: Stack): Promise<number> {
  const write = async (method: string, where: string, body: object): Promise<{ id: number }> => {
    const headers = { authorization: `Bearer ${personalApiKey}`, 'content-type': 'application/json' }
    const answer = await fetch(`${url}/api/projects/1/feature_flags/${where}`, { method, headers, body: JSON.stringify(body) })
    return await answer.json() as { id: number }
  }
  const filters = (rollout: number, plans: string[]): object => ({
    groups: plans.map((value) => ({ properties: [{ key: 'plan', type: 'person', operator: 'exact', value }], rollout_percentage: rollout })),
    multivariate: { variants: [{ key: 'control', rollout_percentage: 50 }, { key: 'short', rollout_percentage: 50 }] }
  })
  const { id } = await write('POST', '', { key: 'new-checkout', name: 'The short checkout', filters: filters(20, ['pro']) })
  await write('PATCH', `${id}/`, { filters: filters(50, ['pro', 'team']) })
  await write('PATCH', `${id}/`, { active: false })
  await write('PATCH', `${id}/`, { active: true, evaluation_runtime: 'server' })
  return id
}

/** A schema that some of the sent events do not meet. @returns its id. */
async function plantSchema ({ url, personalApiKey }: Stack): Promise<number> {
  const schema = { required: ['plan', 'amount'], properties: { plan: { enum: ['free', 'pro'] }, amount: { type: 'integer', maximum: 35 } } }
  const answer = await fetch(`${url}/api/projects/1/event_schemas/`, {
    method: 'POST', headers: { authorization: `Bearer ${personalApiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ event: 'order paid', owner: 'shop', mode: 'quarantine', schema })
  })
  return (await answer.json() as { id: number }).id
}

async function call ({ url, personalApiKey }: Stack, what: string, body: object): Promise<any> {
  const response = await fetch(`${url}/api/projects/1/${what}/`, {
    method: 'POST', body: JSON.stringify(body), headers: { authorization: `Bearer ${personalApiKey}`, 'content-type': 'application/json' }
  })
  const answer = await response.text()
  if (!response.ok) throw new Error(`${what} answered ${response.status}: ${answer}`)
  return JSON.parse(answer)
}

interface PlantedEvent { event: string, distinct_id: string, timestamp?: string, uuid?: string, properties: object }

async function send ({ url, projectApiKey }: Stack, batch: PlantedEvent[]): Promise<void> {
  const response = await fetch(`${url}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: projectApiKey, batch })
  })
  if (!response.ok) throw new Error(`capture answered ${response.status}`)
}

async function plantDeadLetters ({ natsUrl }: Stack): Promise<void> {
  const connection = await connectNats({ url: natsUrl, name: 'pictures', logger: createLogger({ component: 'test', level: 'silent' }) })
  const causes = [
    { stage: 'writer', reason: 'refused', errorCode: 117, event: 'order paid', error: 'Value of column timestamp is out of range', count: 41 },
    { stage: 'persons', reason: 'invalid_update', event: '$identify', error: 'The distinct id "null" is reserved', count: 12 },
    { stage: 'schema', reason: 'not_met', event: 'export', error: 'plan: must be a string', count: 3 }
  ] as const
  for (const { count, ...cause } of causes) {
    for (let index = 0; index < count; index++) {
      await publishDeadLetter(connection, {
        ...cause, subject: 'events.live.0', sequence: index + 1, project: 1, headers: {}, id: `${cause.event} ${index}`,
        body: Buffer.from(JSON.stringify({ event: cause.event, at: new Date(Date.now() - index * HOUR_MS) }))
      })
    }
  }
  await connection.close()
}
