import t from 'tap'
import { parseJson } from './parse-json.ts'
import { findUnstorableNumber } from './storable-numbers.ts'

t.test('finds the first number that no double holds', async (t) => {
  const cases: [json: string, path: string[] | null][] = [
    ['1e400', []],
    ['-1e400', []],
    ['{"a":[1,{"b":1e400}],"c":1e400}', ['a', '1', 'b']],
    [`{"a":${'9'.repeat(400)}}`, ['a']],
    ['{"a":[1.7976931348623157e308,1e-400,-0,12345678901234567890,null,"1e400",true]}', null],
    [`${'['.repeat(100_000)}1e400${']'.repeat(100_000)}`, Array<string>(100_000).fill('0')]
  ]
  for (const [json, path] of cases) t.same(findUnstorableNumber(JSON.parse(json)), path, json.slice(0, 80))
  t.same(findUnstorableNumber(parseJson(`{"a":[1,${'9'.repeat(400)}]}`, true)), ['a', '1'], 'with all its digits')
  t.equal(findUnstorableNumber(parseJson('{"a":12345678901234567890}', true)), null)
})
