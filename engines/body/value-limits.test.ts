import t from 'tap'
import { isDense, MAX_SMALL_VALUES } from './value-limits.ts'

const MEGABYTE = 1_048_576

function repeat (text: string): Buffer {
  return Buffer.alloc(MEGABYTE, text)
}

t.test('tells JSON of many values from that of few, whatever its pattern', async (t) => {
  for (const text of ['[', '{"a":', ',"a":1', ',1', '{},', '"ab":1,', `"${'x'.repeat(10)}":1,`, `[${' '.repeat(15)}`]) {
    for (let run = 0; run < 20; run++) t.equal(isDense(repeat(text)), true, text)
  }
  for (const text of [' ', '"', '\\u0000', `"a property of an SDK":"${'x'.repeat(20)}",`]) t.equal(isDense(repeat(text)), false, text)
  t.equal(isDense(Buffer.alloc(MAX_SMALL_VALUES, '[')), false)
})
