import t from 'tap'
import { reportHealth } from '../platform/health-and-readiness.ts'
import { buildStatus, type Reading } from '../api/status/build-status.ts'
import { drawStatus } from './commands/status.ts'
import { parseMetrics, type StoresReading, type TierReading } from '../api/status/read-status.ts'

const STORES = {
  nats: { version: '2.15.1' },
  clickhouse: { version: '26.7', events: 3, bytes: 1234, freeBytes: 5_000_000_000 },
  postgres: { version: '18.4', bytes: 9_000_000 },
  watermark: { completeThrough: '1970-01-01T00:00:00.000Z', heldBy: '' }
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

t.test('reads samples with labels and escapes, and sums them', async (t) => {
  const metrics = parseMetrics('a_total{x="1",y="p\\"q"} 2\na_total{x="2",y="z"} 3.5\n# TYPE a counter\nb 1e3\n')

  t.equal(metrics.sum('a_total'), 5.5)
  t.equal(metrics.sum('a_total', { x: '2' }), 3.5)
  t.same([...metrics.by('a_total', 'y')], [['p"q', 2], ['z', 3.5]])
  t.equal(metrics.sum('b'), 1000)
})

t.test('computes rates from two readings, also when the process was restarted in between', async (t) => {
  const reading = (readAt: number, accepted: number): Reading =>
    ({ time: new Date(0), stores: STORES, tiers: [ingestAt(readAt, accepted)] })

  t.equal(buildStatus(reading(0, 100), reading(2000, 300)).ingest.acceptedPerSecond, 100)
  t.equal(buildStatus(reading(0, 100), reading(2000, 50)).ingest.acceptedPerSecond, 25)
})

t.test('counts the requests that were refused for what the client sent, by status', async (t) => {
  const lines = ['/batch/", status="200', '/batch/", status="401', '/capture/", status="401', '/capture/", status="413', '/capture/", status="503']
  const metrics = parseMetrics(lines.map((labels) => `millrace_ingest_requests_total{path="${labels}"} 2\n`).join(''))
  const now: Reading = { time: new Date(0), stores: STORES, tiers: [{ ...ingestAt(0, 0), metrics }] }

  const status = buildStatus(now, now)

  t.same(status.ingest.refusedRequests, { 401: 4, 413: 2 })
  t.match(drawStatus(status), /\nrequests refused since start: 401 4, 413 2\n/)
  t.notMatch(drawStatus(buildStatus({ ...now, tiers: [ingestAt(0, 0)] }, { ...now, tiers: [ingestAt(0, 0)] })), /refused since/)
})

t.test('names stuck parts and processes that are down', async (t) => {
  const down = { ...ingestAt(0, 0), tier: 'api' as const, url: 'http://127.0.0.1:8001', health: null }
  const now: Reading = { time: new Date(0), stores: { ...STORES, clickhouse: null }, tiers: [ingestAt(0, 0), down] }

  const status = buildStatus(now, now)

  t.match(status, { status: 'degraded', clients: { captures: 'answered', flags: 'no answer' } })
  t.same(status.stuck, ['api: no answer from http://127.0.0.1:8001', 'clickhouse: no answer', 'ingest: spool'])
  t.equal(status.version, '1.2.3')
  t.match(drawStatus(status), /STUCK {2}api: no answer/)
  t.match(drawStatus(status), /DEGRADED {2}Captures are answered; flags get no answer/)
})

t.test('reports delayed parts and their lag, as /_health does', async (t) => {
  const pipelineAt = (lagMs: number): TierReading => ({
    ...ingestAt(0, 0), tier: 'pipeline', url: `http://127.0.0.1:${lagMs}`,
    health: reportHealth([{ name: 'stream EVENTS', healthy: true, lagMs }])
  })
  const works = { ...ingestAt(0, 0), health: reportHealth([]) }
  const tiers = [works, { ...works, tier: 'api' as const }, pipelineAt(80_000), pipelineAt(79_000)]
  const now: Reading = { time: new Date(0), stores: STORES, tiers }

  const status = buildStatus(now, now)

  t.match(status, { status: 'behind', stuck: [], behind: [{ part: 'pipeline: stream EVENTS', lagSeconds: 80 }] })
  t.equal(status.behind.length, 1)
  t.match(drawStatus(status), / BEHIND {2}Captures are answered/)
  t.match(drawStatus(status), /\nBEHIND pipeline: stream EVENTS by 1 min\n$/)
})

t.test('ingest processes that enforce different rules are named, unless a change is under way', async (t) => {
  const at = (port: number, rules: number, fingerprint: number): TierReading => ({
    ...ingestAt(0, 0), url: `http://127.0.0.1:${port}`, health: reportHealth([]),
    metrics: parseMetrics(`millrace_ingest_rules_enforced ${rules}\nmillrace_ingest_rules_fingerprint ${fingerprint}\nmillrace_ingest_keys_age_seconds ${port}\n`)
  })
  const api = { ...ingestAt(0, 0), tier: 'api' as const, health: reportHealth([]) }
  const reading = (...ingest: TierReading[]): Reading =>
    ({ time: new Date(0), stores: STORES, tiers: [...ingest, api] })
  const same = reading(at(1, 2, 77), at(2, 2, 77), at(3, 0, NaN), ingestAt(0, 0))
  const differs = reading(at(1, 2, 77), at(400, 3, 78))

  t.same(buildStatus(differs, same).stuck, ['ingest: spool'])
  t.same(buildStatus(same, differs).stuck, [])
  const status = buildStatus(differs, differs)
  t.match(status, { status: 'degraded' })
  t.match(drawStatus(status), 'STUCK  ingest: rules (differ between processes: http://127.0.0.1:1 has 2, read 1 s ago; http://127.0.0.1:400 has 3, read 400 s ago)')
})

t.test('the headline says what clients see', async (t) => {
  const reading = (figures: string, health: 'answers' | 'silent' = 'answers'): Reading => {
    const ingest = { ...ingestAt(0, 0), metrics: parseMetrics(figures), ...(health === 'silent' ? { health: null } : {}) }
    return { time: new Date(0), stores: { ...STORES, nats: null }, tiers: [ingest] }
  }
  const refused = (count: number): string => `millrace_ingest_messages_total{outcome="refused"} ${count}\n`
  const headline = (before: Reading, now: Reading): string => {
    for (const tier of now.tiers) Object.assign(tier, { readAt: 1000 })
    return drawStatus(buildStatus(before, now)).split('\n')[0]!
  }

  t.match(headline(reading(refused(5)), reading(refused(5))), /DEGRADED {2}Captures are answered;/)
  t.match(headline(reading(''), reading('millrace_ingest_spool_bytes 7\n')), /DEGRADED {2}Captures are answered from the disk/)
  t.match(headline(reading(refused(5)), reading(refused(6))), /DOWN {2}Captures are refused/)
  t.match(headline(reading(''), reading('', 'silent')), /DOWN {2}Captures get no answer/)
})

t.test('an unknown figure is null, not 0', async (t) => {
  const pipeline: TierReading = {
    tier: 'pipeline', url: 'http://127.0.0.1:8002', readAt: 0,
    health: reportHealth([{ name: 'nats', healthy: false }]),
    metrics: parseMetrics('millrace_pipeline_dead_letters Nan\nmillrace_pipeline_dead_letters_fill_ratio Nan\n')
  }
  const now: Reading = { time: new Date(0), stores: { ...STORES, watermark: null }, tiers: [pipeline, { ...ingestAt(0, 0), health: null, metrics: parseMetrics('') }] }

  const status = buildStatus(now, now)

  t.match(status.ingest, { acceptedPerSecond: null, accepted: null, spoolBytes: null, refusedMessages: null })
  t.equal(status.books, null)
  t.match(status.pipeline, { deadLetters: null, deadLetterFill: null, definitionsAgeSeconds: null, stored: null })
  for (const line of [/^stream +unknown +–$/m, /^spool +unknown /m, /^dead letters +unknown /m, /^books +unknown /m, /^complete through +unknown /m, /^definitions +– old$/m]) {
    t.match(drawStatus(status), line)
  }
})

t.test('the books balance or differ, and everything is stored up to a moment', async (t) => {
  const pipeline = (missing: number): TierReading => ({
    tier: 'pipeline', url: `http://127.0.0.1:800${missing}`, readAt: 0, health: reportHealth([]),
    metrics: parseMetrics(`millrace_ledger_drift_events{kind="missing"} ${missing}\nmillrace_ledger_drift_events{kind="extra"} 0\nmillrace_ledger_check_age_seconds ${missing * 4}\n`)
  })
  const draw = (missing: number, watermark: StoresReading['watermark'] = null): string => {
    const tiers = [pipeline(0), pipeline(missing)]
    const now: Reading = { time: new Date(0), stores: { ...STORES, watermark }, tiers }
    return drawStatus(buildStatus(now, now))
  }

  t.match(draw(0), /^books +ok +In balance: .* Compared 0\.0 s ago\.$/m)
  t.match(draw(3), /^books +failed +Not in balance .*: 3 events missing, 0 extra/m)
  t.match(draw(3), /\nBOOKS DIFFER {2}3 events missing, 0 extra: npx millrace audit lists the minutes\n$/)
  t.match(draw(0), /\nnothing is stuck\n$|\nSTUCK/)
  t.match(draw(0, { completeThrough: '2026-11-22T19:00:00.123000Z', heldBy: '' }), /^complete through +ok +.*before 2026-11-22 19:00:00 UTC/m)
  t.match(draw(0, { completeThrough: '2026-11-22T19:00:00.123000Z', heldBy: 'spool of a' }), /^complete through +waiting .* Later ones wait: spool of a\.$/m)
})

t.test('the age of the last backup, and why there is no newer one', async (t) => {
  const draw = (figures: string, lastError: string | null, lastWarning: string | null = null): string => {
    const pipeline: TierReading = {
      tier: 'pipeline', url: 'http://127.0.0.1:8002', readAt: 0,
      health: reportHealth([{ name: 'backup', healthy: lastError === null, lastError, lastWarning }]),
      metrics: parseMetrics(figures.split(' ').map((each) => `millrace_pipeline_backup_${each.replace('=', ' ')}\n`).join(''))
    }
    const now: Reading = { time: new Date(0), stores: STORES, tiers: [pipeline] }
    return drawStatus(buildStatus(now, now))
  }
  const complete = 'bytes=5 age_seconds=7200 duration_seconds=3 interval_seconds=86400'

  t.match(draw(`${complete} failed=0`, null), /^last backup +ok +Made 2 h ago\.$/m)
  t.match(draw(`${complete} failed=1`, 'no\u001b[2J\nroom'), /^last backup +failed +Made 2 h ago.* failed: no\\u\{1b\}\[2J\\u\{a\}room\.$/m)
  t.match(draw(`${complete} failed=1`, 'no room'), /^BACKUP FAILED +see npx millrace backups list$/m, 'a command that runs')
  t.match(draw(`${complete} failed=0`, null, '/b/old cannot be read'), /^last backup +waiting +Made 2 h ago. \/b\/old cannot be read\.$/m)
  t.match(draw('bytes=0 age_seconds=9 interval_seconds=60 failed=1', 'x'.repeat(2000)), /^last backup +failed +No backup yet.* x{200}…\.$/m)
  t.notMatch(draw('bytes=0 age_seconds=9 interval_seconds=0 failed=0', null), /^last backup/m)
})

t.test('a nats-server that is too old is said', async (t) => {
  const withdrawn = 'nats-server 2.10.27 at n:4222 is older than 2.15.1 and may lose acknowledged events when the power is cut'
  const works = (tier: 'ingest' | 'api', part: string | null): TierReading =>
    ({ ...ingestAt(0, 0), tier, health: reportHealth([{ name: 'nats version', healthy: part === null, withdrawn: part }]) })
  const statusOf = (part: string | null): ReturnType<typeof buildStatus> => {
    const now: Reading = { time: new Date(0), stores: STORES, tiers: [works('ingest', part), works('api', null)] }
    return buildStatus(now, now)
  }

  const old = statusOf(withdrawn)

  t.match(old, { status: 'degraded', powerCuts: withdrawn })
  t.match(drawStatus(old), /\nnats +too old +2\.15\.1\n/)
  t.ok(drawStatus(old).includes(`\nPOWER CUTS ARE NOT SURVIVED  ${withdrawn}\n`))
  t.match(drawStatus(old), /ingest: nats version/)
  t.match(statusOf(null), { powerCuts: null })
  t.match(drawStatus(statusOf(null)), /\nnats +ok .*\n[^]*nothing is stuck\n$/)
})

t.test('dead letters that wait are said, with the command that shows them', async (t) => {
  const draw = (letters: number): string => {
    const pipeline: TierReading = {
      tier: 'pipeline', url: 'http://127.0.0.1:8002', readAt: 0, health: reportHealth([]),
      metrics: parseMetrics(`millrace_pipeline_dead_letters ${letters}\nmillrace_pipeline_dead_letters_fill_ratio 0.01\n`)
    }
    const tiers = [{ ...ingestAt(0, 0), health: reportHealth([]) }, { ...ingestAt(0, 0), tier: 'api' as const, health: reportHealth([]) }, pipeline]
    const now: Reading = { time: new Date(0), stores: STORES, tiers }
    return drawStatus(buildStatus(now, now))
  }

  t.match(draw(41), /^dead letters +waiting +41 events/m)
  t.match(draw(41), /\nDEAD LETTERS {2}41 wait, see npx millrace dead-letters stats\n$/)
  t.match(draw(0), /\nnothing is stuck\n$/)
})
