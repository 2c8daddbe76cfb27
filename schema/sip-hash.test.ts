import { randomBytes } from 'node:crypto'
import t from 'tap'
import { createTestClickHouse } from '../test/support/test-stores.ts'
import { readSipKey, SipHasher } from './sip-hash.ts'

function hashOf (hasher: SipHasher, bytes: Uint8Array): string {
  hasher.reset()
  hasher.writeBytes(bytes)
  hasher.hash()
  return ((BigInt(hasher.high >>> 0) << 32n) | BigInt(hasher.low >>> 0)).toString()
}

t.test('hashes as ClickHouse does, whatever the length, the bytes and the key', async (t) => {
  const { client } = await createTestClickHouse(t)
  const key = randomBytes(16)
  const hasher = new SipHasher(readSipKey(key))
  const inputs = Array.from({ length: 300 }, (_, length) => randomBytes(length))

  const result = await client.query({
    query: `SELECT toString(sipHash64Keyed((${key.readBigUInt64LE(0)}::UInt64, ${key.readBigUInt64LE(8)}::UInt64), unhex(hex)))
      FROM (SELECT arrayJoin({inputs: Array(String)}) AS hex)`,
    query_params: { inputs: inputs.map((bytes) => bytes.toString('hex')) },
    format: 'JSONCompactEachRow'
  })

  t.same((await result.json<[string]>()).map(([hash]) => hash), inputs.map((bytes) => hashOf(hasher, bytes)))
})

t.test('hashes words and pieces as their bytes', async (t) => {
  const hasher = new SipHasher(readSipKey(randomBytes(16)))
  const bytes = randomBytes(1000)
  const whole = hashOf(hasher, bytes)

  hasher.reset()
  hasher.writeUInt32(bytes.readInt32LE(0))
  hasher.writeBytes(bytes, 4, 10)
  hasher.writeBytes(bytes, 10)
  hasher.hash()

  t.equal(((BigInt(hasher.high >>> 0) << 32n) | BigInt(hasher.low >>> 0)).toString(), whole)
})
