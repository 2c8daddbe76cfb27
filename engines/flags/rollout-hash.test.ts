import { createHash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { hashForHoldout, hashIdentifier } from './rollout-hash.ts'

t.test('gives the check values of the protocol', async (t) => {
  const cases: Array<[string, string, number, number]> = [
    ['simple-flag', 'distinct_id_0', 0.7836963764220432, 0.6595248869787484],
    ['simple-flag', 'distinct_id_1', 0.3397069926995401, 0.5071592428363415],
    ['simple-flag', 'distinct_id_2', 0.3720434350239052, 0.7657377960463857],
    ['beta', 'u1', 0.8783111789736683, 0.7117881554403125],
    ['multivariate-flag', 'distinct_id_0', 0.502037796130735, 0.6186454537930379]
  ]

  for (const [key, id, rollout, variant] of cases) {
    t.equal(hashIdentifier(key, id, ''), rollout, `${key} ${id}`)
    t.equal(hashIdentifier(key, id, 'variant'), variant, `${key} ${id} variant`)
  }
  t.equal(hashForHoldout('u1'), 0.5110294319411994)
})

t.test('an empty identifier is always in', async (t) => {
  t.equal(hashIdentifier('any', '', ''), 0)
  t.equal(hashIdentifier('any', '', 'variant'), 0)
})

t.test('agrees with the platform SHA-1 on every text, short or long, ASCII or not', async (t) => {
  const text = fc.oneof(fc.string({ maxLength: 70 }), fc.string({ unit: 'binary', maxLength: 60 }))

  fc.assert(fc.property(text, text.filter((id) => id !== ''), (key, id) => {
    const hex = createHash('sha1').update(`${key}.${id}`).digest('hex').slice(0, 15)
    return hashIdentifier(key, id, '') === Number.parseInt(hex, 16) / 2 ** 60
  }), { numRuns: 2000 })
  t.pass('2000 texts')
})

t.test('agrees at every length around the border of one block', async (t) => {
  for (let length = 1; length <= 130; length++) {
    const id = 'x'.repeat(length)
    const hex = createHash('sha1').update(`k.${id}`).digest('hex').slice(0, 15)
    if (hashIdentifier('k', id, '') !== Number.parseInt(hex, 16) / 2 ** 60) t.fail(`length ${length}`)
  }
  t.pass()
})
