import { prepareLoad } from '../load/load-generator.ts'
import type { LoadResult } from '../load/send-requests.ts'
import { startBareServer } from '../load/bare-server.ts'
import { median, percentile, type BenchContext, type Figure, type Question, repeat } from '../question.ts'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { createRandom } from '../../test/support/random.ts'

const CONNECTIONS = 32
const PATH = '/flags/?v=2'

/** How many flag evaluations a second, against a Fastify route that answers the same body without thinking. */
export const decide: Question = {
  name: 'decide',
  asks: '10, 100 and 1,000 flags, half with property conditions; overrides given, and stored properties',
  async answer (context) {
    const figures: Figure[] = []
    for (const flags of context.quick ? [100] : [10, 100, 1000]) {
      await setFlags(context, flags)
      figures.push(...await compare(context, `${flags} flags, overrides`, overriddenBodies(context), flags === 100))
      if (flags === 100) {
        figures.push(...await compare(context, '100 flags, stored', storedBodies(context), false))
      }
    }
    return figures
  }
}

async function compare (
  context: BenchContext, name: string, bodies: string[], hasTarget: boolean
): Promise<Figure[]> {
  const answer = await (await fetch(`${context.stack.url}${PATH}`, { method: 'POST', body: bodies[0] ?? '' })).json()
  const { apiUrl } = await readAddresses(context.stack.dataDir)
  const bare = await startBareServer(answer as object)
  const runs = await repeat(context, async () => ({
    theirs: await load(context, bare.port, bodies), ours: await load(context, Number(new URL(apiUrl).port), bodies)
  }))
  const ours = runs.map((run) => run.ours)
  const theirs = runs.map((run) => run.theirs)
  bare.stop()
  const rate = (results: LoadResult[]): number =>
    median(results.map(({ requests, durationMs }) => requests / durationMs * 1000))
  const p99 = (results: LoadResult[]): number =>
    median(results.map(({ latenciesMs }) => percentile(latenciesMs, 0.99)))
  return [
    {
      name,
      value: rate(ours),
      unit: '1/s',
      reference: { name: 'bare Fastify', value: rate(theirs) },
      ...(hasTarget ? { target: { atLeast: 0.4 } } : {})
    },
    { name: `${name} p99`, value: p99(ours), unit: 'ms', reference: { name: 'bare Fastify', value: p99(theirs) } }
  ]
}

async function load ({ stack, quick }: BenchContext, port: number, bodies: string[]): Promise<LoadResult> {
  const prepared = await prepareLoad({
    port, path: PATH, apiKey: stack.projectApiKey, seed: 0, requests: quick ? 3000 : 10_000, eventsPerRequest: 1,
    connections: CONNECTIONS, gzip: false, bodies
  })
  const result = await prepared.run()
  if (result.failed > 0) throw new Error(`${result.failed} evaluations failed`)
  return result
}

function overriddenBodies ({ stack }: BenchContext): string[] {
  const random = createRandom(11)
  return Array.from({ length: 1000 }, (_, index) => JSON.stringify({
    token: stack.projectApiKey,
    distinct_id: `user-${index}`,
    person_properties: {
      plan: random() < 0.3 ? 'pro' : 'free', country: random() < 0.5 ? 'DE' : 'US', age: Math.floor(random() * 80),
      email: `user-${index}@example.com`, $browser: 'Chrome'
    }
  }))
}

function storedBodies ({ stack }: BenchContext): string[] {
  return Array.from({ length: 1000 }, (_, index) => JSON.stringify({
    token: stack.projectApiKey, distinct_id: `user-${index}`
  }))
}

/** Replaces the flags of project 1; half of them ask for properties, every fifth has variants. */
async function setFlags ({ stack }: BenchContext, count: number): Promise<void> {
  const flags = Array.from({ length: count }, (_, index) => ({
    project_id: 1,
    key: `flag-${index}`,
    filters: JSON.stringify({
      groups: [{
        properties: index % 2 === 0 ? conditions(index) : [],
        rollout_percentage: index % 3 === 0 ? 100 : 50
      }],
      ...(index % 5 === 0
        ? {
            multivariate: {
              variants: [{ key: 'control', rollout_percentage: 50 }, { key: 'test', rollout_percentage: 50 }]
            }
          }
        : {})
    })
  }))
  await stack.sql.begin(async (sql) => {
    await sql`DELETE FROM feature_flags WHERE project_id = 1`
    for (const flag of flags) {
      await sql`INSERT INTO feature_flags (project_id, key, filters) VALUES (1, ${flag.key}, ${flag.filters}::text::jsonb)`
    }
  })
  await waitUntilServed(stack.url, stack.projectApiKey, count)
}

function conditions (index: number): object[] {
  const choices = [
    { key: 'plan', value: ['pro'], operator: 'exact', type: 'person' },
    { key: 'country', value: 'DE', operator: 'is_not', type: 'person' },
    { key: 'age', value: 30, operator: 'gt', type: 'person' },
    { key: 'email', value: '@example.com', operator: 'icontains', type: 'person' },
    { key: 'email', value: '^user-[0-9]+@', operator: 'regex', type: 'person' }
  ]
  return [choices[index % choices.length] as object, choices[(index + 2) % choices.length] as object]
}

async function waitUntilServed (url: string, token: string, count: number): Promise<void> {
  const deadline = Date.now() + 10_000
  while (Date.now() < deadline) {
    const response = await fetch(`${url}${PATH}`, { method: 'POST', body: JSON.stringify({ token, distinct_id: 'x' }) })
    const { flags } = await response.json() as { flags?: object }
    if (Object.keys(flags ?? {}).length === count) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`the ${count} flags were not served within 10 s`)
}
