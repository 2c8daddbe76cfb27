import t from 'tap'
import { parseJson } from './parse-json.ts'
import { isDeeperThan, MAX_PROPERTY_DEPTH, withoutDeepProperties } from './property-depth.ts'

function nested (levels: number, open = '[', close = ']'): unknown {
  return JSON.parse(`${open.repeat(levels)}1${close.repeat(levels)}`)
}

t.test('depth counts arrays and objects, not their values', async (t) => {
  for (const value of [1, 'x', null, undefined, true, parseJson('12345678901234567890', true)]) {
    t.equal(isDeeperThan(value, 0), false, typeof value)
  }
  for (const [open, close] of [['[', ']'], ['{"a":', '}'], ['[{"a":1,"b":', '}]']] as const) {
    const perStep = open.startsWith('[{') ? 2 : 1
    const value = nested(10, open, close)
    t.equal(isDeeperThan(value, 10 * perStep), false, open)
    t.equal(isDeeperThan(value, 10 * perStep - 1), true, open)
  }
  t.equal(isDeeperThan([[], [1, [2]], 'x'], 3), false)
  t.equal(isDeeperThan([[], [1, [2]], 'x'], 2), true)
  t.equal(isDeeperThan(nested(300_000), MAX_PROPERTY_DEPTH), true, 'without a stack as deep')
})

t.test('only values that are too deep are left out, within $set and the like individually', async (t) => {
  const fits = nested(MAX_PROPERTY_DEPTH)
  const deep = nested(MAX_PROPERTY_DEPTH + 1)
  const properties = JSON.parse('{"__proto__":{"plan":"pro"},"n":1}') as Record<string, unknown>
  Object.assign(properties, { fits, deep, $set: { fits, deep, name: 'a', $set: { $set: deep } }, $set_once: [deep], $groups: { g: deep, h: 'k' } })

  const { properties: kept, dropped } = withoutDeepProperties(properties)

  t.same(dropped, ['deep', '$set.deep', '$set.$set', '$set_once', '$groups.g'])
  t.equal(JSON.stringify(kept), `{"__proto__":{"plan":"pro"},"n":1,"fits":${JSON.stringify(fits)},"$set":{"fits":${JSON.stringify(fits)},"name":"a"},"$groups":{"h":"k"}}`)
  const shallow = { fits, $set: { fits } }
  t.same(withoutDeepProperties(shallow), { properties: shallow, dropped: [] })
  t.equal(withoutDeepProperties(shallow).properties, shallow, 'the same object')
})
