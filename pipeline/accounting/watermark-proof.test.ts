import t from 'tap'
import { type IngestPresence, presenceKey } from '../../schema/wire/ingest-presence.ts'
import { describeWatermark, type WatermarkFacts, watermarkPart } from './describe-watermark.ts'
import { type StreamPosition, WatermarkProof } from './watermark-proof.ts'

const at = (first: number, last: number, life = 'one'): StreamPosition => ({ life, first, last })

t.test('a moment is proven when everything up to its position has left the stream', async (t) => {
  const proof = new WatermarkProof()
  proof.claim(1000, at(5, 10))
  proof.see(at(5, 10))
  t.equal(proof.through, null)
  proof.claim(2000, at(5, 20))
  proof.see(at(10, 20))
  t.equal(proof.through, null, 'message 10 is still there')
  proof.see(at(11, 25))
  t.equal(proof.through, 1000)
  proof.see(at(26, 25))
  t.equal(proof.through, 2000)
})

t.test('while nothing comes, moments follow each other', async (t) => {
  const proof = new WatermarkProof()
  for (const through of [1000, 2000, 3000]) {
    proof.claim(through, at(11, 10))
    proof.see(at(11, 10))
    t.equal(proof.through, through)
  }
  proof.claim(4000, at(11, 11))
  proof.claim(5000, at(11, 11))
  proof.see(at(11, 11))
  t.equal(proof.through, 3000)
  proof.see(at(12, 11))
  t.equal(proof.through, 5000)
})

t.test('it never goes back', async (t) => {
  const proof = new WatermarkProof()
  proof.claim(2000, at(1, 0))
  proof.see(at(1, 0))
  proof.claim(1000, at(2, 1))
  proof.see(at(2, 1))
  t.equal(proof.through, 2000)
})

t.test('positions of another life of the stream prove nothing', async (t) => {
  const proof = new WatermarkProof()
  proof.claim(1000, at(1, 900))
  proof.see(at(1000, 1000, 'two'))
  t.equal(proof.through, null)
  proof.claim(2000, at(1000, 1000, 'two'))
  proof.see(at(1001, 1000, 'two'))
  t.equal(proof.through, 2000)
})

t.test('thousands of open claims lose precision only', async (t) => {
  const proof = new WatermarkProof()
  for (let last = 1; last <= 5000; last++) proof.claim(last * 10, at(1, last))
  proof.see(at(2501, 5000))
  t.ok(proof.through! <= 25_000 && proof.through! > 24_000, String(proof.through))
  proof.see(at(5001, 5000))
  t.equal(proof.through, 50_000)
})

const START = Date.parse('2026-01-31T12:00:00Z')

const PRESENCE: IngestPresence = {
  processId: 'p', host: 'host', pid: 1, version: '1.2.3', folder: '/spool/0', since: START, at: START,
  publishedThrough: START, inFlight: 0, spoolBytes: 0, spooledSince: null
}

/** Seconds after the start; by default ingest stands at the start and answered a second ago. */
function describe (
  seconds: number, presence: Partial<IngestPresence> = {},
  { silent = 1, ...more }: Partial<WatermarkFacts> & { silent?: number } = {}
) {
  const now = START + seconds * 1000
  const heardAt = now - silent * 1000
  return describeWatermark({
    completeThrough: START, position: { life: '', first: 5, last: 9 }, outage: null,
    entries: {
      now: () => now, oldest: { key: presenceKey('b'), presence: { ...PRESENCE, ...presence }, heardAt, answeredAt: 0 }
    },
    ...more
  })
}

t.test('nothing is said while it is a few seconds behind', async (t) => {
  t.match(describe(1), { heldBy: '', isStuck: false, lagMs: 1000 })
})

t.test('it waits for the pipeline when ingest has published everything', async (t) => {
  t.match(describe(21, { publishedThrough: START + 20_900 }), { heldBy: 'stream EVENTS: 5 messages at most wait to be stored' })
})

t.test('it waits for the ingest process that is furthest behind, and says why', async (t) => {
  t.match(describe(21, { spoolBytes: 77 }), { heldBy: /^ingest b on host \(\/spool\/0\): 77 bytes wait in its spool/, isStuck: false })
  t.match(describe(21, { inFlight: 3 }), { heldBy: /3 requests and messages are in flight/ })
  t.match(describe(21, { publishedThrough: 0 }, { completeThrough: null }), { heldBy: /just started/ })
})

t.test('a process that answered and does not any more is named before it counts as lost', async (t) => {
  t.match(describe(6, {}, { silent: 5 }), { heldBy: 'ingest b on host (/spool/0): does not report since 2026-01-31T12:00:01.000Z', isStuck: false })
  t.match(describe(6, { inFlight: 3 }, { silent: 5 }), { heldBy: /does not report/ }, 'what it had in flight then is not what it waits for')
  t.match(describe(31, { spoolBytes: 77 }, { silent: 30 }), {
    heldBy: /does not report since 2026-01-31T12:00:01.000Z, with 77 bytes in its spool; .*DELETE \/api\/watermark\/ingest\/<id>/, isStuck: true
  })
})

t.test('nothing is in flight: that is not what it waits for', async (t) => {
  const entries = {
    now: () => START + 6000,
    oldest: { key: presenceKey('b'), presence: PRESENCE, heardAt: START + 1000, answeredAt: -Infinity }
  }
  t.match(describe(6, {}, { entries }), { heldBy: /does not report since/ }, 'one that never answered is silent as well')
})

t.test('a store that does not do its part comes first, and no ingest is no reason to wait for one', async (t) => {
  const outage = { what: 'NATS does not answer', since: START }
  t.match(describe(6, {}, { outage, silent: 6 }), { heldBy: 'NATS does not answer since 2026-01-31T12:00:00.000Z' })
  t.match(describe(6, {}, { entries: { now: () => START + 6000, oldest: null } }), { heldBy: /no ingest process/ })
})

t.test('the same is a part of health', async (t) => {
  t.match(watermarkPart(describe(6, {}, { silent: 5 })), {
    name: 'watermark', healthy: true, lagMs: 6000, completeThrough: '2026-01-31T12:00:00.000Z', heldBy: /^ingest b/
  })
})
