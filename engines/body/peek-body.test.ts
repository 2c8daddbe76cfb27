import zlib from 'node:zlib'
import t from 'tap'
import { peekInflatedBytes, peekKey } from './peek-body.ts'

const events = Array.from({ length: 5000 }, (_, at) => ({ event: 'e', distinct_id: `u${at}`, properties: { at } }))

t.test('finds the key at the beginning of a body, or at the end of one that is not compressed', async (t) => {
  const first = JSON.stringify({ api_key: 'phc_a', batch: events })
  const last = JSON.stringify({ batch: events, api_key: 'phc_b' })
  const ofEvents = JSON.stringify(events.map((event) => ({ ...event, properties: { token: 'phc_c' } })))
  const inTwo = [Buffer.from(last.slice(0, 100_000)), Buffer.from(last.slice(100_000))]

  t.same([[Buffer.from(first)], [zlib.gzipSync(first)]].map(peekKey), ['phc_a', 'phc_a'])
  t.same([inTwo, [Buffer.from(ofEvents)], [zlib.gzipSync(ofEvents)]].map(peekKey), ['phc_b', 'phc_c', 'phc_c'])
  for (const bytes of [zlib.gzipSync(last), zlib.zstdCompressSync(first), Buffer.of(0x1f, 0x8b, 8, 255), Buffer.of()]) {
    t.equal(peekKey([bytes]), '')
  }
  t.same([peekKey([]), peekKey([zlib.gzipSync('[')])], ['', ''])
})

t.test('guesses the size of a body: that of gzip and of JSON, of all else the largest', async (t) => {
  const text = JSON.stringify(events)
  const gzip = zlib.gzipSync(text)
  t.equal(peekInflatedBytes([gzip], gzip.length, 1e6), text.length)
  t.equal(peekInflatedBytes([gzip.subarray(0, 50), gzip.subarray(50)], gzip.length, 1000), 1000)
  t.equal(peekInflatedBytes([Buffer.from(` ${text}`)], text.length + 1, 1e6), text.length + 1)
  t.equal(peekInflatedBytes([Buffer.from('data=x')], 6, 1e6), 1e6)
  t.equal(peekInflatedBytes([], 0, 1e6), 1e6)
})
