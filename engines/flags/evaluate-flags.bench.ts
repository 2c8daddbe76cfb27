/**
 * How long does one request take to evaluate 100 flags, half of them with property conditions?
 *
 * Run: node engines/flags/evaluate-flags.bench.ts
 */
import { compileFlagSet, tryFlags } from './evaluate-flags.ts'
import type { FlagDefinition } from './flag-definition.ts'
import { buildDefinitions, buildFlag, buildSubject } from './testing/build-definitions.ts'

const REQUESTS = 50_000
const PROPERTY_FILTERS = [
  { key: 'plan', value: ['pro', 'team'], operator: 'exact', type: 'person' },
  { key: 'email', value: '@example.com', operator: 'icontains', type: 'person' },
  { key: 'email', value: '^user_\\d+@example\\.(com|org)$', operator: 'regex', type: 'person' },
  { key: 'age', value: 30, operator: 'gt', type: 'person' },
  { key: 'joined', value: '-90d', operator: 'is_date_after', type: 'person' },
  { key: 'app_version', value: '2.4.0', operator: 'semver_gte', type: 'person' }
]

const flags = Array.from({ length: 100 }, (_, i) => buildBenchFlag(i))
const set = compileFlagSet(buildDefinitions(flags))
const positions = flags.map((_, i) => i)

run(REQUESTS / 10)
const started = performance.now()
const { on, bytes } = run(REQUESTS)
const elapsedMs = performance.now() - started

process.stdout.write([
  `100 flags, 50 with property conditions, ${REQUESTS} requests of different users`,
  `${(elapsedMs * 1000 / REQUESTS).toFixed(1)} us a request with the answer's bytes (${Math.round(bytes / REQUESTS)} bytes)`,
  `${Math.round(REQUESTS * 100 / elapsedMs * 1000).toLocaleString('en')} flags/s, ${(on / REQUESTS).toFixed(1)} on a request`
].join('\n') + '\n')

function buildBenchFlag (i: number): FlagDefinition {
  const filter = PROPERTY_FILTERS[i % PROPERTY_FILTERS.length]
  const properties = i < 50 ? [filter] : []
  const rollout = i % 4 === 0 ? 100 : 10 + i % 80
  const variants = [50, 30, 20].map((percentage, v) => ({ key: `variant-${v}`, rollout_percentage: percentage }))
  return buildFlag(`bench-flag-${i}`, {
    groups: [{ properties, rollout_percentage: rollout }],
    ...(i % 5 === 0 ? { multivariate: { variants } } : {})
  }, { id: i + 1 })
}

function run (requests: number): { on: number, bytes: number } {
  let on = 0
  let bytes = 0
  for (let i = 0; i < requests; i++) {
    const personOverrides = JSON.parse(`{"plan":"${i % 3 ? 'pro' : 'free'}","email":"user_${i}@example.com","age":${i % 60},` +
      '"joined":"2026-05-01T10:00:00Z","app_version":"2.5.1"}') as Record<string, unknown>
    const { outcomes } = tryFlags(set, buildSubject(`user-${i}-0190b6f2-7c1e`, { personOverrides }), positions)!
    for (const outcome of outcomes) {
      outcome.counter.count++
      if (outcome.enabled) on++
    }
    bytes += Buffer.concat(outcomes.map(({ detail }) => detail)).length
  }
  return { on, bytes }
}
