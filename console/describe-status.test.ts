import t from 'tap'
import { formatUtc } from '../engines/figures.ts'
import type { Status } from './api-types.ts'
import { describeProblems } from './describe-problems.ts'
import { describeAssurances, describeStages, describeWhole, type StageState } from './describe-status.ts'

function build (changes: Partial<Status> = {}): Status {
  return {
    status: 'ok',
    clients: { captures: 'answered', flags: 'answered' },
    stuck: [],
    behind: [],
    time: '2026-11-22T15:00:00.000Z',
    version: '0.1.0',
    tiers: (['ingest', 'pipeline', 'api'] as const).map((tier) => ({
      tier, url: `http://${tier}`, status: 'ok', stuck: [], eventLoopP99Ms: 12, memoryBytes: 1e8
    })),
    ingest: {
      acceptedPerSecond: 12.4, droppedPerSecond: 0, bytesPerSecond: 5000, accepted: 1000, dropped: {},
      refusedRequests: {}, publishMs: 3.2, spoolBytes: 0, refusedMessages: 0
    },
    streams: { EVENTS: { messages: 0, bytes: 0, maxBytes: 1e9, oldestSeconds: 0 } },
    pipeline: {
      storedPerSecond: 12.4, stored: 1000, deduplicated: 3, insertMs: 20, rowsPerInsert: 6,
      partitions: { 'events.0': { pendingMessages: 2, pendingBytes: 100, lagSeconds: 0.4, healthy: true } },
      deadLetters: 0, deadLetterFill: 0, definitionsAgeSeconds: 1, targetsFailing: 0, notificationsWaiting: 0
    },
    books: { missing: 0, extra: 0, ageSeconds: 4 },
    backup: {
      ageSeconds: null, durationSeconds: null, intervalSeconds: 0, failed: false, lastError: null, lastWarning: null
    },
    exports: { lagSeconds: null },
    api: { requestsPerSecond: 0, flagEvaluationsPerSecond: 0, requestMs: null },
    stores: {
      nats: { version: '2.14' },
      clickhouse: { version: '26.7', events: 1000, bytes: 1e6, freeBytes: 1e9 },
      postgres: { version: '18', bytes: 1e6 },
      watermark: null
    },
    powerCuts: null,
    ...changes
  }
}

function states (status: Status): Record<string, StageState> {
  return Object.fromEntries(describeStages(status).map(({ name, state }) => [name, state]))
}

t.test('what flows is working, what has nothing to do is idle', async (t) => {
  t.same(states(build()), {
    Ingest: 'ok', Spool: 'idle', Stream: 'idle', Pipeline: 'ok', ClickHouse: 'ok', 'Dead letters': 'idle', 'Flags and API': 'idle'
  })
  t.match(describeStages(build())[3]?.details, [{ value: '1 of 1 run' }, { value: '2 messages, 0.4 s' }, { value: '20 ms' }, { value: '3' }, { value: '6' }])
  t.match(describeStages(build({ streams: { EVENTS: { messages: 1, bytes: 100, maxBytes: 1e9, oldestSeconds: 0 } } }))[2], { headline: '1 message' })
})

t.test('old work is waiting, and what does not answer has stopped', async (t) => {
  const status = build({
    streams: { EVENTS: { messages: 900, bytes: 1e6, maxBytes: 1e9, oldestSeconds: 80 } },
    tiers: build().tiers.map((each) => each.tier === 'pipeline' ? { ...each, status: 'down' } : each),
    stores: { nats: null, clickhouse: null, postgres: null, watermark: null },
    ingest: { ...build().ingest, spoolBytes: 4096 },
    pipeline: { ...build().pipeline, deadLetterFill: 0.85 }
  })

  t.match(states(status), { Spool: 'waiting', Stream: 'waiting', Pipeline: 'stopped', ClickHouse: 'stopped', 'Dead letters': 'waiting' })
})

t.test('what nobody knows is unknown, not zero', async (t) => {
  const nothing = build({
    streams: {},
    tiers: [],
    ingest: { ...build().ingest, spoolBytes: null },
    pipeline: { ...build().pipeline, deadLetterFill: null, deadLetters: null, partitions: {} }
  })

  t.match(states(nothing), { Ingest: 'unknown', Spool: 'unknown', Stream: 'unknown', Pipeline: 'unknown', 'Dead letters': 'unknown' })
  t.equal(describeStages(nothing)[5]?.headline, '–')
  t.match(describeStages(nothing)[3]?.details, [{ label: 'partitions', value: '–' }, { label: 'waiting', value: '–' }])
})

t.test('the word for the whole says what clients see', async (t) => {
  t.match(describeWhole(build()), { word: 'Everything works', state: 'ok', sentence: 'Captures are answered; flags are answered.' })
  t.match(describeWhole(build({ status: 'behind' })), { word: 'Behind', state: 'waiting' })
  t.match(describeWhole(build({ status: 'degraded', stuck: ['pipeline: events.0'] })), { word: 'Degraded', sentence: /stuck/ })
  t.match(describeWhole(build({ status: 'down', clients: { captures: 'refused', flags: 'no answer' } })), {
    word: 'Down', state: 'stopped', sentence: /refused with 503.*flags get no answer/
  })
})

t.test('says whether the books balance and up to when everything is stored, or that it is unknown', async (t) => {
  const assure = (changes: Partial<Status>): string[] => describeAssurances(build(changes), formatUtc).map(({ state, sentence }) => `${state}: ${sentence}`)
  const stores = (watermark: { completeThrough: string, heldBy: string } | null): Status['stores'] => ({ ...build().stores, watermark })

  t.match(assure({}), [/^ok: In balance.*4\.0 s ago/, /^unknown: Unknown/])
  t.match(assure({ books: { missing: 3, extra: 1, ageSeconds: 4 } }), [/^stopped: Not in balance.*3 events missing, 1 extra/])
  t.match(assure({ books: { missing: 0, extra: 0, ageSeconds: 400 } }), [/^unknown: Unknown: not compared for 7 min/])
  t.match(assure({ books: null }), [/^unknown/])
  t.match(assure({ stores: stores({ completeThrough: '2026-11-22T19:00:00.123000Z', heldBy: '' }) })[1], /^ok: .*before 2026-11-22 19:00:00 UTC/)
  t.match(assure({ stores: stores({ completeThrough: '2026-11-22T19:00:00.123000Z', heldBy: 'a spool' }) })[1], /^waiting: .*Later ones wait: a spool/)
})

t.test('says how old the last backup is, and why there is no newer one, where backups are made', async (t) => {
  const assure = (changes: Partial<Status['backup']>): string[] =>
    describeAssurances(build({ backup: { ...build().backup, ...changes } }), formatUtc).slice(2).map(({ state, sentence }) => `${state}: ${sentence}`)
  const daily = { intervalSeconds: 86_400 }

  t.same(assure({}), [])
  t.match(assure({ ...daily }), [/^waiting: No backup yet/])
  t.match(assure({ ...daily, ageSeconds: 7200 }), [/^ok: Made 2/])
  t.match(assure({ ...daily, ageSeconds: 7200, lastWarning: '/b/old cannot be read' }), [/^waiting: Made 2.* \/b\/old cannot be read\.$/])
  t.match(assure({ ...daily, ageSeconds: 180_000 }), [/^waiting: .*more than two intervals/])
  t.match(assure({ ...daily, ageSeconds: 7200, failed: true, lastError: 'no room' }), [/^stopped: Made .*failed: .*no room/])
})

t.test('a nats-server that is too old for power cuts is said among what holds', async (t) => {
  const names = (powerCuts: string | null): string[] => describeAssurances(build({ powerCuts }), formatUtc).map(({ name, state }) => `${name}: ${state}`)

  t.notOk(names(null).some((line) => line.startsWith('Power cuts')))
  t.equal(names('nats-server 2.10.27 at n:4222 is older').at(-1), 'Power cuts: waiting')
})

t.test('waiting dead letters are amber, and the verdict says so', async (t) => {
  const one = build({ pipeline: { ...build().pipeline, deadLetters: 41, deadLetterFill: 0.01 } })

  t.equal(states(one)['Dead letters'], 'waiting')
  t.same(describeWhole(one), { word: 'Dead letters waiting', state: 'waiting', sentence: 'Captures are answered; flags are answered. Everything works.' })
  t.match(describeWhole({ ...one, status: 'degraded' }), { word: 'Degraded' }, 'the worse state comes first')
})

t.test('a process or store that does not answer is said to, with the command that shows its log', async (t) => {
  const found = describeProblems({ stuck: ['pipeline: no answer from http://127.0.0.1:8002', 'nats: no answer', 'ingest: spool'], behind: [], pipeline: { deadLetters: 0 } })

  t.match(found, [
    { what: 'The pipeline process at http://127.0.0.1:8002 does not answer.', command: 'npx millrace logs pipeline' },
    { what: 'NATS does not answer.', command: 'npx millrace logs nats-server' },
    { what: 'ingest: spool is stuck.', command: 'npx millrace logs ingest' }
  ])
})

t.test('backlogs come after stuck parts', async (t) => {
  const found = describeProblems({ stuck: ['ingest: schemas (differ between processes: a; b)'], behind: [{ part: 'pipeline: live.0', lagSeconds: 40 }], pipeline: { deadLetters: null } })

  t.same(found.map(({ what }) => what), ['ingest: schemas (differ between processes: a; b) is stuck.', 'pipeline: live.0 is behind by 40 s.'])
})

t.test('dead letters that wait come last, with the screen that has them', async (t) => {
  const find = (deadLetters: number): unknown => describeProblems({ stuck: ['ingest: spool'], behind: [], pipeline: { deadLetters } }).at(-1)

  t.match(find(41), { what: '41 dead letters wait.', screen: 'dead-letters' })
  t.match(find(1), { what: '1 dead letter waits.', screen: 'dead-letters' })
  t.match(find(0), { what: 'ingest: spool is stuck.' })
})
