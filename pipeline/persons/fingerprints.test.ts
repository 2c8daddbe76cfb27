import t from 'tap'
import type { PersonUpdate } from '../../schema/wire/persons-update.ts'
import { decodeFingerprints, encodeFingerprints, FingerprintSet, fingerprintUpdate } from './fingerprints.ts'

function update (i: number): PersonUpdate {
  const uuid = `0190b5a0-0000-7000-8000-${i.toString(16).padStart(12, '0')}`
  return { kind: 'person', projectId: 1, uuid, timestamp: 0, distinctId: 'a' }
}

t.test('remembers what was added and nothing else, while it grows', async (t) => {
  const set = new FingerprintSet()
  for (let i = 0; i < 50_000; i++) {
    const { high, low } = fingerprintUpdate(update(i))
    set.add(high, low)
    set.add(high, low)
  }

  const known = Array.from({ length: 100_000 }, (_, i) => fingerprintUpdate(update(i)))
    .filter(({ high, low }) => set.has(high, low))

  t.equal(set.size, 50_000)
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
