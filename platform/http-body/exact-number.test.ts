import t from 'tap'
import { decodeBody } from './decode-body.ts'
import { isExactNumber } from './exact-number.ts'
import { hasLongNumber } from './has-long-number.ts'

const decode = (text: string, keepsDigits = true): unknown => decodeBody(Buffer.from(text), {}, 1e6, keepsDigits)

t.test('whole numbers beyond 2^53 keep their digits, all others are what they were', async (t) => {
  const texts = [
    '9007199254740993', '-9007199254740993', '12345678901234567890', '1'.repeat(400), '[18446744073709551615]',
    '{"a":{"b":[1,{"id":1729382256910270464123}]}}', '1234567890123456', '0.1234567890123456789', '1e400', '12345678901234567e3'
  ]
  for (const text of texts) {
    const exact = JSON.stringify(decode(`{"properties":{"id":${text}}}`))
    t.equal(exact, /e\d|\./.test(text) ? JSON.stringify(JSON.parse(`{"properties":{"id":${text}}}`)) : `{"properties":{"id":${text}}}`, text)
  }
  t.equal(isExactNumber((decode('{"id":9007199254740993}') as { id: unknown }).id), true)
  t.equal((decode('{"id":9007199254740993}', false) as { id: unknown }).id, 9007199254740992, 'only for who asks')
  const plain = Number('12345678901234567891')
  t.same(decode('{"timestamp":12345678901234567891,"properties":12345678901234567891}'), { timestamp: plain, properties: plain })
  t.same(decode('{"id":9007199254740993,"no":NaN}'), { id: 9007199254740992, no: null }, 'not beside NaN')
})

t.test('a run of sixteen digits is found wherever it stands, and no shorter one', async (t) => {
  for (let before = 0; before < 40; before++) {
    for (const [digits, found] of [[15, false], [16, true], [17, true]] as const) {
      const text = `${'x'.repeat(before)}${'7'.repeat(digits)}${':1'.repeat(before % 3)}`
      t.equal(hasLongNumber(Buffer.from(text)), found, text)
    }
  }
  t.equal(hasLongNumber(Buffer.from('')), false)
})

t.test('bodies too deep for keeping digits are parsed all the same', async (t) => {
  const depth = 200_000
  const text = `{"id":9007199254740993,"deep":${'['.repeat(depth)}${']'.repeat(depth)}}`
  t.match(decode(text), { id: 9007199254740992 })
})
