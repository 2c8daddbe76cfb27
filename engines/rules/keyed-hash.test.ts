import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { createHashValue, createHmacSha256 } from './keyed-hash.ts'

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 400 }),
  fc.constantFrom('', 'é', '€'.repeat(341), '€'.repeat(342), 'x'.repeat(100_000), '😀'.repeat(10_000), '\ud800'))

t.test('a hash without an object is the HMAC of node:crypto', async (t) => {
  const secrets = fc.uint8Array({ minLength: 1, maxLength: 200 })
  fc.assert(fc.property(secrets, fc.array(text, { maxLength: 4 }), (secret, texts) => {
    const hmac = createHmacSha256(secret)
    for (const text of texts) {
      if (hmac(text) !== createHmac('sha256', secret).update(text).digest('hex')) throw new Error(JSON.stringify(text))
    }
  }), { numRuns: 1000 })
})

t.test('hashes that are stored stay the same in every release', async (t) => {
  const hashValue = createHashValue({ secret: Buffer.alloc(32, 7), projectId: 12 })
  for (const value of ['ada@example.com', 'é', 42, true, { b: 1, a: [2] }]) {
    const text = typeof value === 'object' ? '{"a":[2],"b":1}' : String(value)
    const digest = (text: string): string => createHmac('sha256', Buffer.alloc(32, 7)).update(`12:${text}`).digest('hex')
    const digits = digest(text).slice(0, 24)
    t.equal(hashValue(value), digits + digest(`hash:${digits}`).slice(0, 8))
  }
  t.equal(hashValue('ada@example.com'), 'e4bc2db7f0302c7d0129bd1ed3cce063')
})
