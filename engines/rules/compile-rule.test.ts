import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { compareCpu, LINEAR_GROWTH, SIZE_FACTOR } from '../../test/support/cpu-time.ts'
import { applyRules, ProjectRules, type RuleOutcome, shareOf } from './apply-rules.ts'
import type { RuledEvent } from './compile-rule-condition.ts'
import { compileRule, createHashValue, createHmacSha256 } from './compile-rule.ts'
import { DefinitionError } from '../errors.ts'

const KEY = { secret: Buffer.from('0123456789abcdef0123456789abcdef'), projectId: 1 }

function event (fields: Partial<RuledEvent> = {}): RuledEvent {
  return { event: 'paid', distinctId: 'd', properties: {}, ip: '', receivedAt: Date.UTC(2026, 10, 22), ...fields }
}

function rulesOf (...definitions: object[]): ProjectRules {
  return new ProjectRules(definitions.map((definition, index) => ({
    id: index + 1, name: `rule ${index + 1}`, version: 1, text: JSON.stringify(definition), compiled: compileRule(definition, KEY)
  })))
}

function run (definitions: object[], fields: Partial<RuledEvent>): RuleOutcome | null {
  return applyRules(rulesOf(...definitions), event(fields), 'stored')
}

function passes (condition: unknown, fields: Partial<RuledEvent>): boolean {
  return run([{ condition, actions: [{ type: 'drop' }] }], fields) !== null
}

function placeOf (t: Test, definition: unknown): string {
  try {
    compileRule(definition, KEY)
  } catch (error) {
    if (error instanceof DefinitionError) return error.path.join('__')
    throw error
  }
  t.fail(`taken: ${JSON.stringify(definition)}`)
  return ''
}

t.test('conditions compare what an event says', async (t) => {
  const web = { properties: { $lib: 'web', $lib_version: '1.2.3', plan: 'Pro', seats: 3, gone: null, tags: ['a', 'b'], constructor: 1 } }
  const cases: [condition: unknown, fields: Partial<RuledEvent>, expected: boolean][] = [
    [null, {}, true],
    [{ type: 'event', value: 'Paid' }, {}, true],
    [{ type: 'event', value: ['x', 'paid'] }, {}, true],
    [{ type: 'event', operator: 'starts_with', value: 'un' }, {}, false],
    [{ type: 'event', operator: 'regex', value: '^p.*d$' }, {}, true],
    [{ type: 'event', value: 'paid', negation: true }, {}, false],
    [{ type: 'distinct_id', operator: 'icontains', value: '@test.' }, { distinctId: 'a@test.com' }, true],
    [{ type: 'property', key: 'plan', value: 'pro' }, web, true],
    [{ type: 'property', key: 'plan', operator: 'is_not', value: 'pro' }, {}, true],
    [{ type: 'property', key: 'seats', operator: 'gte', value: 3 }, web, true],
    [{ type: 'property', key: 'gone', operator: 'is_set' }, web, true],
    [{ type: 'property', key: 'none', operator: 'is_set' }, web, false],
    [{ type: 'property', key: 'toString', operator: 'is_set' }, web, false],
    [{ type: 'property', key: 'constructor', operator: 'is_set' }, web, true],
    [{ type: 'property', key: 'tags', operator: 'icontains', value: '"b"' }, web, true],
    [{ type: 'distinct_id', operator: 'starts_with', value: ['bot-', 'a@'] }, { distinctId: 'a@test.com' }, true],
    [{ type: 'distinct_id', operator: 'not_icontains', value: ['bot', 'demo'] }, { distinctId: 'a@test.com' }, true],
    [{ type: 'distinct_id', operator: 'not_icontains', value: ['bot', 'test'] }, { distinctId: 'a@test.com' }, false],
    [{ type: 'distinct_id', operator: 'regex', value: ['^bot', 'com$'] }, { distinctId: 'a@test.com' }, true],
    [{ type: 'distinct_id', operator: 'not_regex', value: ['^bot', 'com$'] }, { distinctId: 'a@test.com' }, false],
    [{ type: 'property', key: 'plan', operator: 'not_regex', value: '^P' }, web, false],
    [{ type: 'property', key: 'none', operator: 'not_regex', value: '^P' }, web, true],
    [{ type: 'property', key: 'at', operator: 'is_date_before', value: '-7d' }, { properties: { at: '2026-11-01' } }, true],
    [{ type: 'sdk', value: 'web' }, web, true],
    [{ type: 'sdk_version', operator: 'semver_lt', value: '1.3.0' }, web, true],
    [{ type: 'ip', value: '10.0.0.0/8' }, { ip: '10.1.2.3' }, true],
    [{ type: 'ip', value: ['192.0.2.1', '2001:db8::/32'] }, { ip: '2001:db8:1::5' }, true],
    [{ type: 'ip', operator: 'in_range', value: '10.0.0.0/8' }, { ip: '11.1.2.3' }, false],
    [{ type: 'ip', value: '0.0.0.0/0' }, { ip: '' }, false],
    [{ type: 'AND', values: [{ type: 'event', value: 'paid' }, { type: 'sdk', value: 'ios' }] }, web, false],
    [{ type: 'OR', values: [{ type: 'event', value: 'x' }, { type: 'sdk', value: 'web' }] }, web, true],
    [{ type: 'OR', negation: true, values: [{ type: 'event', value: 'x' }, { type: 'sdk', value: 'ios' }] }, web, true]
  ]

  for (const [condition, fields, expected] of cases) {
    t.equal(passes(condition, fields), expected, JSON.stringify(condition))
  }
})

t.test('names of events are decided once, whatever the operators', async (t) => {
  const rules = rulesOf(
    { condition: { type: 'event', value: 'a' }, actions: [{ type: 'drop' }] },
    { condition: { type: 'AND', values: [{ type: 'event', operator: 'starts_with', value: 'b' }, { type: 'sdk', value: 'web' }] }, actions: [{ type: 'drop' }] },
    { condition: { type: 'event', operator: 'regex', value: '^c', negation: true }, actions: [{ type: 'truncate_ip' }] })

  const of = (name: string): number[] => rules.of(name).map(({ id }) => id)
  t.same([of('a'), of('b1'), of('c'), of('d')], [[1, 3], [2, 3], [], [3]])
  for (let index = 0; index < 20_000; index++) rules.of(`made up ${index}`)
  t.same(of('a'), [1, 3])
})

t.test('rules run in order, each on what the ones before have left', async (t) => {
  const remove = { actions: [{ type: 'remove_property', property: 'email' }] }
  const dropEmails = { condition: { type: 'property', key: 'email', operator: 'is_set' }, actions: [{ type: 'drop' }] }
  const fields = { properties: { email: 'a@b.c', n: 1 } }

  t.match(run([remove, dropEmails], fields), { kind: 'stored', properties: { n: 1 }, weight: 1, changedBy: [{ id: 1 }] })
  t.match(run([dropEmails, remove], fields), { kind: 'dropped', rule: { id: 1, name: 'rule 1' } })
  t.equal(run([remove, dropEmails], {}), null, 'nothing to do')
})

t.test('beyond a limit neither a comparison nor its opposite is met', async (t) => {
  const fields = { properties: { note: 'z'.repeat(16_000), long: `ok${'z'.repeat(17_000)}` } }
  const long = { type: 'property', key: 'long', operator: 'regex', value: 'ok' }
  const costly = { type: 'property', key: 'note', operator: 'regex', value: '(?:foo|bar){100}' }
  const after = { type: 'property', key: 'note', operator: 'icontains', value: 'y' }
  const [isPaid, isNone] = [{ type: 'event', value: 'paid' }, { type: 'event', value: 'none' }]
  const open: object[] = [
    long, { type: 'AND', values: [isPaid, long] }, { type: 'OR', values: [long, isNone] }, costly,
    { type: 'AND', values: [{ type: 'OR', values: [costly, isPaid] }, after] }
  ]
  for (const condition of open) {
    t.notOk(passes(condition, fields), JSON.stringify(condition))
    t.notOk(passes({ ...condition, negation: true }, fields), `not ${JSON.stringify(condition)}`)
  }
  t.ok(passes({ type: 'AND', negation: true, values: [long, isNone] }, fields), 'whatever the text, the name decides')
})

t.test('properties are kept out of persons and groups, too', async (t) => {
  const properties = {
    email: 'a@b.c', $ip: '192.0.2.77', n: 1, $set: { email: 'a@b.c', name: 'A', $ip: '2001:db8:1:2::3' },
    $set_once: { $initial_email: 'a@b.c', email: 5, plan: 'x' }, $group_set: { email: 'g@b.c' }
  }
  const after = (...actions: object[]): any => (run([{ actions }], { properties }) as Extract<RuleOutcome, { kind: 'stored' }>).properties

  t.same(after({ type: 'remove_property', property: 'email' }), {
    $ip: '192.0.2.77', n: 1, $set: { name: 'A', $ip: '2001:db8:1:2::3' }, $set_once: { plan: 'x' }, $group_set: {}
  })
  const hashed = after({ type: 'hash_property', property: 'email' })
  t.match(hashed, { email: /^[\da-f]{32}$/, $set: { email: hashed.email }, $set_once: { $initial_email: hashed.email, email: /^[\da-f]{32}$/ } })
  t.not(hashed.$group_set.email, hashed.email)
  t.not(hashed.$set_once.email, hashed.email)
  t.same(run([{ actions: [{ type: 'hash_property', property: 'email' }] }], { properties: { email: '' } }), null)
  t.match(after({ type: 'set_property', property: 'plan', value: { a: 1 } }), { plan: { a: 1 }, $set_once: { plan: 'x' } })
  t.match(after({ type: 'truncate_ip' }), { $ip: '192.0.2.0', $set: { $ip: '2001:db8:1::' } })
  for (const $ip of ['::ffff:192.0.2.77', '::FFFF:c000:024d', '0:0:0:0:0:ffff:192.0.2.77']) {
    t.match(run([{ actions: [{ type: 'truncate_ip' }] }], { properties: { $ip } }), { properties: { $ip: '192.0.2.0' } }, $ip)
  }
  for (const $ip of ['me', 5, ['192.0.2.77'], { toString: 1, valueOf: null }, JSON.parse('{"__proto__":null}')]) {
    t.match(run([{ actions: [{ type: 'truncate_ip' }] }], { properties: { $ip } }), { properties: {}, editAddress: Function })
    t.notOk('$ip' in (run([{ actions: [{ type: 'truncate_ip' }] }], { properties: { $ip } }) as Extract<RuleOutcome, { kind: 'stored' }>).properties)
  }
  t.same(properties.$set, { email: 'a@b.c', name: 'A', $ip: '2001:db8:1:2::3' }, 'what was sent is as it was')
})

t.test('a hash needs the secret, and differs from project to project', async (t) => {
  const hash = (key: typeof KEY, value: unknown): unknown =>
    compileRule({ actions: [{ type: 'hash_property', property: 'a' }] }, key).edit!({ a: value }).a

  t.equal(hash(KEY, 'x'), hash(KEY, 'x'))
  t.not(hash(KEY, 'x'), hash({ ...KEY, projectId: 2 }, 'x'))
  t.not(hash(KEY, 'x'), hash({ ...KEY, secret: Buffer.alloc(32) }, 'x'))
})

t.test('a hash stays as it is, and what only looks like one does not', async (t) => {
  const hash = (value: unknown, key = KEY): unknown =>
    compileRule({ actions: [{ type: 'hash_property', property: 'a' }] }, key).edit!({ a: value }).a
  const hashed = hash('a@b.c') as string

  t.match(hashed, /^[\da-f]{32}$/)
  t.equal(hash(hashed), hashed)
  t.not(hash(hashed, { ...KEY, projectId: 2 }), hashed, 'of another project it is a value')
  t.not(hash(hashed.toUpperCase()), hashed.toUpperCase())
  const other = `${hashed.slice(0, -1)}${hashed.endsWith('0') ? '1' : '0'}`
  for (const text of ['5f4dcc3b5aa765d61d8327deb882cf99', '0'.repeat(32), other]) t.not(hash(text), text, text)
})

t.test('a sample keeps all events of a distinct id or none, with the weight of those it leaves out', async (t) => {
  const sample = (rate: number): object => ({ actions: [{ type: 'sample', rate }] })
  const keepsBy = (...rates: number[]): (distinctId: string) => number => {
    const rules = rulesOf(...rates.map(sample))
    return (distinctId) => {
      const outcome = applyRules(rules, event({ distinctId }), 'stored')
      return outcome?.kind === 'stored' ? outcome.weight : 0
    }
  }
  const ids = Array.from({ length: 20_000 }, (_, index) => `user-${index}`)

  for (const rate of [0.5, 0.1, 0.01]) {
    const [keeps, keepsMore, keepsSmallest] = [keepsBy(rate), keepsBy(Math.min(rate * 1.5, 0.99)), keepsBy(0.6, rate)]
    const kept = ids.filter((id) => keeps(id) > 0)
    t.ok(Math.abs(kept.length / ids.length - rate) < 4 * Math.sqrt(rate / ids.length), `${kept.length} of ${ids.length} at ${rate}`)
    t.equal(keeps(kept[0]!), 1 / rate)
    t.ok(kept.every((id) => keepsMore(id) > 0), 'a rate that is raised keeps everybody it had')
    t.ok(kept.every((id) => keepsSmallest(id) === 1 / rate), 'the smallest share decides')
  }
  t.equal(shareOf('a').toFixed(9), shareOf('a').toFixed(9))
})

t.test('who is who is neither dropped nor sampled, but changed', async (t) => {
  for (const name of ['$identify', '$create_alias', '$merge_dangerously']) {
    t.equal(run([{ actions: [{ type: 'drop' }] }, { actions: [{ type: 'sample', rate: 0.0001 }] }], { event: name }), null)
    t.match(run([{ actions: [{ type: 'sample', rate: 0.0001 }, { type: 'remove_property', property: 'a' }] }], {
      event: name, properties: { a: 1, b: 2 }
    }), { kind: 'stored', weight: 1, properties: { b: 2 } })
  }
})

t.test('what cannot be enforced is refused with its place', async (t) => {
  const drop = [{ type: 'drop' }]
  const deep = (levels: number): object => levels === 0 ? { type: 'event', value: 'a' } : { type: 'AND', values: [deep(levels - 1)] }
  const cases: [definition: unknown, place: string][] = [
    [{}, 'actions'],
    [{ actions: [] }, 'actions'],
    [{ actions: drop, other: 1 }, 'other'],
    [{ actions: [{ type: 'delete' }] }, 'actions__0__type'],
    [{ actions: [{ type: 'drop', rate: 1 }] }, 'actions__0__rate'],
    [{ actions: [{ type: 'drop' }, { type: 'truncate_ip' }] }, 'actions'],
    [{ actions: [{ type: 'sample', rate: 1 }] }, 'actions__0__rate'],
    [{ actions: [{ type: 'sample', rate: 0 }] }, 'actions__0__rate'],
    [{ actions: [{ type: 'sample', rate: 0.5 }, { type: 'sample', rate: 0.5 }] }, 'actions'],
    [{ actions: [{ type: 'remove_property', property: '__proto__' }] }, 'actions__0__property'],
    [{ actions: [{ type: 'remove_property', property: '$anon_distinct_id' }] }, 'actions__0__property'],
    [{ actions: [{ type: 'hash_property', property: 'distinct_id' }] }, 'actions__0__property'],
    [{ actions: [{ type: 'set_property', property: '$set', value: {} }] }, 'actions__0__property'],
    [{ actions: [{ type: 'set_property', property: 'a' }] }, 'actions__0__value'],
    [{ actions: drop, condition: { type: 'country', value: 'x' } }, 'condition__type'],
    [{ actions: drop, condition: { type: 'event', operator: 'like', value: 'x' } }, 'condition__operator'],
    [{ actions: drop, condition: { type: 'event', operator: 'toString', value: 'x' } }, 'condition__operator'],
    [{ actions: drop, condition: { type: 'event' } }, 'condition__value'],
    [{ actions: drop, condition: { type: 'event', value: [{}] } }, 'condition__value__0'],
    [{ actions: drop, condition: { type: 'event', key: 'a', value: 'x' } }, 'condition__key'],
    [{ actions: drop, condition: { type: 'property', value: 'x' } }, 'condition__key'],
    [{ actions: drop, condition: { type: 'property', key: '__proto__', value: 'x' } }, 'condition__key'],
    [{ actions: drop, condition: { type: 'event', operator: 'regex', value: '(?=a)' } }, 'condition__value'],
    [{ actions: drop, condition: { type: 'event', operator: 'regex', value: '(a{1,100}){1,100}' } }, 'condition__value'],
    [{ actions: drop, condition: { type: 'event', operator: 'is_date_before', value: 'soon' } }, 'condition__value'],
    [{ actions: drop, condition: { type: 'ip', value: '10.0.0.0/33' } }, 'condition__value'],
    [{ actions: drop, condition: { type: 'ip', value: ['10.0.0.1', 'x'] } }, 'condition__value__1'],
    [{ actions: drop, condition: { type: 'ip', value: { toString: 1 } } }, 'condition__value'],
    [{ actions: drop, condition: { type: 'OR', values: Array(100).fill({ type: 'event', operator: 'regex', value: '(a?b){100}' }) } }, 'condition__values__23__value'],
    [{ actions: drop, condition: { type: 'ip', operator: 'exact', value: '10.0.0.1' } }, 'condition__operator'],
    [{ actions: drop, condition: { type: 'XOR', values: [] } }, 'condition__type'],
    [{ actions: drop, condition: { type: 'AND', values: [] } }, 'condition__values'],
    [{ actions: drop, condition: { type: 'event', value: 'a', negation: 1 } }, 'condition__negation'],
    [{ actions: drop, condition: deep(9) }, `condition${'__values__0'.repeat(8)}`],
    [{ actions: drop, condition: { type: 'OR', values: Array(100).fill({ type: 'event', value: 'a' }) } }, 'condition__values__99'],
    [{ actions: drop, condition: { type: 'event', value: 'x'.repeat(40_000) } }, '']
  ]

  for (const [definition, place] of cases) {
    t.equal(placeOf(t, definition), place, JSON.stringify(definition).slice(0, 120))
  }
})

t.test('hostile events take time in proportion to their length, whatever the rules', async (t) => {
  const applyTo = (length: number, count = 50) => {
    const rules = rulesOf(...Array.from({ length: count }, (_, index) => ({
      condition: {
        type: 'OR',
        values: [
          { type: 'property', key: 'a', operator: 'regex', value: `(x+)+y${index}` },
          { type: 'property', key: 'a', operator: 'icontains', value: `y${index}` },
          { type: 'property', key: 'deep', operator: 'icontains', value: `z${index}` }
        ]
      },
      actions: [{ type: 'remove_property', property: 'b' }]
    })))
    return () => {
      // The text of a value is remembered with it.
      let deep: unknown = 1
      for (let level = 0; level < length / 50; level++) deep = [deep]
      applyRules(rules, event({ properties: { a: 'x'.repeat(length), deep } }), 'sent')
    }
  }

  const times = compareCpu(applyTo(1_000_000, 1), applyTo(1_000_000), 5)
  t.ok(times < 5, `${times} times the CPU for 50 times the rules`)
  const growth = compareCpu(applyTo(1_000_000 / SIZE_FACTOR), applyTo(1_000_000), LINEAR_GROWTH)
  t.ok(growth < LINEAR_GROWTH, `${growth} times the CPU for ${SIZE_FACTOR} times the length`)
})

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
  }), { numRuns: 200 })
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
