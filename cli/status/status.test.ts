import t from 'tap'
import { reportHealth } from '../../platform/health/health-report.ts'
import { buildStatus, type Reading } from './build-status.ts'
import { drawStatus } from './draw-status.ts'
import { parseMetrics } from './parse-metrics.ts'
import { type TierReading } from './read-tier.ts'

const STORES = {
  nats: { version: '2.15.1' },
  clickhouse: { version: '26.7', events: 3, bytes: 1234, freeBytes: 5_000_000_000 },
  postgres: { version: '18.4', bytes: 9_000_000 }
}

function ingestAt (readAt: number, accepted: number): TierReading {
  return {
    tier: 'ingest',
    url: 'http://127.0.0.1:8000',
    readAt,
    health: reportHealth([{ name: 'spool', healthy: false }]),
    metrics: parseMetrics(`# HELP\nmillrace_ingest_events_accepted_total ${accepted}\nmillrace_ingest_build_info{version="1.2.3"} 1\n`)
  }
}

t.test('reads samples with labels and escapes, and adds them up', async (t) => {
  const metrics = parseMetrics('a_total{x="1",y="p\\"q"} 2\na_total{x="2",y="z"} 3.5\n# TYPE a counter\nb 1e3\n')

  t.equal(metrics.sum('a_total'), 5.5)
  t.equal(metrics.sum('a_total', { x: '2' }), 3.5)
  t.same([...metrics.by('a_total', 'y')], [['p"q', 2], ['z', 3.5]])
  t.equal(metrics.sum('b'), 1000)
})

t.test('computes rates from two looks, also when the process was started again in between', async (t) => {
  const look = (readAt: number, accepted: number): Reading =>
    ({ time: new Date(0), stores: STORES, tiers: [ingestAt(readAt, accepted)] })

  t.equal(buildStatus(look(0, 100), look(2000, 300)).ingest.acceptedPerSecond, 100)
  t.equal(buildStatus(look(0, 100), look(2000, 50)).ingest.acceptedPerSecond, 25)
})

t.test('names what is stuck and what is down', async (t) => {
  const down = { ...ingestAt(0, 0), tier: 'api' as const, url: 'http://127.0.0.1:8001', health: null }
  const now: Reading = { time: new Date(0), stores: { ...STORES, clickhouse: null }, tiers: [ingestAt(0, 0), down] }

  const status = buildStatus(now, now)

  t.equal(status.status, 'down')
  t.same(status.stuck, ['api: no answer from http://127.0.0.1:8001', 'clickhouse: no answer', 'ingest: spool'])
  t.equal(status.version, '1.2.3')
  t.match(drawStatus(status), /STUCK {2}api: no answer/)
})
