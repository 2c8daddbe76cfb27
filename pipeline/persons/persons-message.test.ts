import t from 'tap'
import type { PersonUpdate } from '../../schema/wire/persons-update.ts'
import { LINEAR_GROWTH, measureGrowth } from '../../test/support/cpu-time.ts'
import { decodeFingerprints, encodeFingerprints, fingerprintUpdate } from './fingerprints.ts'
import { readPersonsMessage } from './persons-message.ts'
import { isUnapplied, RecentUpdates } from './persons-progress.ts'

const at = { sequence: 1, publishedUs: 1 }
const good = { projectId: 1, uuid: 'u', timestamp: 1, kind: 'merge', how: 'alias', distinctId: 'a', otherDistinctId: '' }

t.test('reads updates, and refuses each bad one with the reason', async (t) => {
  const bad: [object, RegExp][] = [
    [{ projectId: 0 }, /projectId/], [{ projectId: 2 ** 31 }, /projectId/], [{ uuid: 7 }, /uuid/],
    [{ timestamp: '2026' }, /timestamp/], [{ timestamp: -1 }, /timestamp/], [{ how: 'maybe' }, /how/],
    [{ distinctId: '' }, /distinctId/], [{ distinctId: 'x'.repeat(801) }, /distinctId/], [{ otherDistinctId: 1 }, /otherDistinctId/],
    [{ set: [] }, /set/], [{ setOnce: 'x' }, /setOnce/], [{ unset: [1] }, /unset/], [{ kind: 'group' }, /groupType/],
    [{ kind: 'groupType', groupType: null }, /groupType/], [{ kind: 'toString' }, /kind/]
  ]
  const items = [good, ...bad.map(([fields]) => ({ ...good, ...fields }))]

  const message = readPersonsMessage(Buffer.from(JSON.stringify(items)), at)

  t.same(message.updates, [good])
  for (const [i, [fields, why]] of bad.entries()) {
    t.match(message.refused[i], { reason: 'invalid_update', detail: why })
    t.same(JSON.parse(Buffer.from(message.refused[i]!.payload).toString()), [{ ...good, ...fields }])
  }
})

t.test('splits a message once, however many items it refuses', async (t) => {
  const items = Array.from({ length: 4000 }, (_, i) => ({ ...good, kind: `guess ${i}`, set: 'x'.repeat(500) }))

  const growth = measureGrowth((size) => {
    const payload = Buffer.from(JSON.stringify(items.slice(0, size)))
    t.equal(readPersonsMessage(payload, at).refused.length, size)
  }, items.length)
  t.ok(growth < LINEAR_GROWTH, `${growth} times the CPU, where a split for each item takes 256 times`)

  const { refused } = readPersonsMessage(Buffer.from(JSON.stringify(items)), at)
  t.same(refused.map(({ payload }) => JSON.parse(Buffer.from(payload).toString())), items.map((item) => [item]))
})

t.test('keeps the digits of long numbers and cleans strings, whatever else a message holds', async (t) => {
  const set = '{"long":9007199254740993,"timestamp":12345678901234567891,"a\\u0000":["\\ud800"]}'
  const text = JSON.stringify([{ ...good, set: 0 }, { ...good, set: 1 }]).replace('"set":0', `"set":${set}`).replace('"set":1', '"set":12345678901234567891')

  const { updates, refused } = readPersonsMessage(Buffer.from(text), at)

  t.equal(JSON.stringify(updates.map((update) => 'set' in update && update.set)),
    '[{"long":9007199254740993,"timestamp":12345678901234567891,"a\ufffd":["\ufffd"]}]')
  t.match(refused, [{ reason: 'invalid_update', detail: /set/ }], 'a long number is no object')
})

t.test('dead-letters the bytes of a message that is not JSON, without quoting them', async (t) => {
  const payload = Buffer.from('[{"secret": oops}]')

  t.match(readPersonsMessage(payload, at).refused, [{ reason: 'invalid_json', payload, detail: /^((?!oops).)*$/ }])
})

t.test('tells an applied message from a new one with the same sequence', async (t) => {
  const progress = { streamCreated: 'monday', lastSequence: 10, lastPublishedUs: 1000 }

  t.notOk(isUnapplied({ sequence: 10, publishedUs: 1000 }, progress, 'monday'))
  t.notOk(isUnapplied({ sequence: 3, publishedUs: 900 }, progress, 'monday'))
  t.ok(isUnapplied({ sequence: 11, publishedUs: 900 }, progress, 'monday'), 'the clock of the server went back')
  t.ok(isUnapplied({ sequence: 9, publishedUs: 1001 }, progress, 'monday'), 'the stream lost its end')
  t.ok(isUnapplied({ sequence: 1, publishedUs: 1 }, progress, 'tuesday'), 'the stream was re-created')
})

function update (i: number): PersonUpdate {
  const uuid = `0190b5a0-0000-7000-8000-${i.toString(16).padStart(12, '0')}`
  return { kind: 'person', projectId: 1, uuid, timestamp: 0, distinctId: 'a' }
}

t.test('remembers what was added and nothing else, while it grows', async (t) => {
  const recent = new RecentUpdates(0)
  const added = Array.from({ length: 50_000 }, (_, i) => fingerprintUpdate(update(i)))
  recent.add(added)
  recent.add(added)

  const known = Array.from({ length: 100_000 }, (_, i) => fingerprintUpdate(update(i)))
    .filter((fingerprint) => recent.has(fingerprint))

  t.equal(known.length, 50_000)
})

t.test('spreads uuids that differ in few bits over both words', async (t) => {
  const all = Array.from({ length: 200_000 }, (_, i) => fingerprintUpdate(update(i)))

  // Random words would repeat n^2 / 2^33 times: about 5.
  t.ok(new Set(all.map(({ low }) => low)).size > 199_970)
  t.ok(new Set(all.map(({ high }) => high)).size > 199_970)
})

t.test('differs between updates of one event, and between persons with equal uuids', async (t) => {
  const one = update(1)
  const texts = [one, { ...one, projectId: 2 }, { ...one, distinctId: 'b' }, { ...one, kind: 'group', groupType: 'a', groupKey: 'a' }]
    .map((each) => JSON.stringify(fingerprintUpdate(each as PersonUpdate)))

  t.equal(new Set(texts).size, 4)
})

t.test('survives encoding and decoding', async (t) => {
  const all = [{ high: 0, low: 1 }, { high: 0xffffffff, low: 0x80000000 }]

  t.same(decodeFingerprints(encodeFingerprints(all)), all)
})
