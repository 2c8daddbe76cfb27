import fc from 'fast-check'
import t from 'tap'
import { LINEAR_GROWTH, measureGrowth } from '../../test/support/cpu-time.ts'
import { normaliseContentType } from './read-body.ts'

function normalised (type: string): string | undefined {
  const headers = { 'content-type': type }
  normaliseContentType(headers)
  return headers['content-type'] as string | undefined
}

t.test('a header that is no media type becomes the first one in it, or what it seems to mean', async (t) => {
  for (const [sent, expected] of [
    ['application/json', 'application/json'], ['Text/Plain; charset=utf-8', 'Text/Plain; charset=utf-8'],
    ['application/json, application/json', 'application/json'], ['"text/plain"', 'text/plain'], ['a//b, c/d/e', 'c/d'],
    ['json', 'application/json'], ['utf-8', 'application/octet-stream'], ['', undefined], [' ', undefined]
  ] as const) t.equal(normalised(sent), expected, sent)
})

t.test('the first media type of any header is the one that a search from each character finds', async (t) => {
  const token = "[\\w!#$%&'*+.^`|~-]+"
  const pieces = fc.array(fc.constantFrom('a', 'b+c', '/', ',', ' ', '"', ';', 'é'), { maxLength: 12 })
  fc.assert(fc.property(pieces, (list) => {
    const sent = `,${list.join('')}`
    return normalised(sent) === (new RegExp(`${token}/${token}`).exec(sent)?.[0] ?? 'application/octet-stream')
  }), { numRuns: 3000 })
})

t.test('a header of 64 KB takes no more than its length', async (t) => {
  const growth = measureGrowth((size) => {
    t.equal(normalised('a'.repeat(size)), 'application/octet-stream')
    t.equal(normalised(`${'a'.repeat(size / 2)} ${'b'.repeat(size / 2)},`), 'application/octet-stream')
  }, 64_000)
  t.ok(growth < LINEAR_GROWTH, `${growth} times the CPU, where a search from each character takes 256 times`)
})
