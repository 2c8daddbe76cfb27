import t from 'tap'
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
