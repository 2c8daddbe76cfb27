import t, { type Test } from 'tap'
import { changerOf, withTouched } from './change-stored.ts'

const answer = (status: number, body: object): Response => new Response(JSON.stringify(body), { status })
const conflict = answer(409, { code: 'conflict', detail: 'reload', attr: 'updated_at' })

/** What was sent, with these answers in turn. */
function serve (t: Test, answers: Response[]): unknown[] {
  const sent: unknown[] = []
  const { fetch } = globalThis
  t.teardown(() => { globalThis.fetch = fetch })
  globalThis.fetch = async (_, { method, body } = {}) => {
    sent.push(typeof body === 'string' ? JSON.parse(body) : method)
    const next = answers.shift()
    if (next === undefined) throw new Error('nobody asked for this')
    return next
  }
  return sent
}

t.test('a change of what somebody else has changed is refused once, and then replaces it', async (t) => {
  const sent = serve(t, [conflict, answer(200, { updated_at: '2' }), answer(200, { updated_at: '3' })])
  const change = changerOf('/one', '1')
  await t.rejects(change({ name: 'mine' }), { status: 409, code: 'conflict', message: /Saving it again replaces/ })
  t.same(await change({ name: 'mine, too' }), { updated_at: '3' })
  t.same(sent, [{ name: 'mine', updated_at: '1' }, 'GET', { name: 'mine, too', updated_at: '2' }])
})

t.test('other failures are those of the server, and change nothing of the base', async (t) => {
  const sent = serve(t, [answer(400, { code: 'unique', detail: 'There is one.', attr: 'name' }), answer(200, { updated_at: '2' })])
  const change = changerOf('/one', '1')
  await t.rejects(change({ name: 'taken' }), { status: 400, message: 'There is one.' })
  await change({ name: 'free' })
  t.same(sent.at(-1), { name: 'free', updated_at: '1' })
})

t.test('only touched fields are changed, at any depth', (t) => {
  const before = { description: 'old', tags: ['a'], stats: { cuped: { enabled: false, days: 14 }, baseline: 'control' }, exposure: null }
  t.same(withTouched({}, before, before), {})
  t.same(withTouched({}, before, { ...before, tags: [] }), { tags: [] })
  const stored = { ...before, description: 'of somebody else', stats: { cuped: { enabled: false, days: 30 }, baseline: 'b' }, more: 1 }
  const now = { ...before, stats: { ...before.stats, cuped: { enabled: true, days: 14 } }, exposure: { event: 'seen' } }
  t.same(withTouched(stored, before, now), { ...stored, stats: { cuped: { enabled: true, days: 30 }, baseline: 'b' }, exposure: { event: 'seen' } })
  t.same(JSON.stringify(withTouched({ a: 1, b: 2 }, { a: 1, b: 2 }, { b: 2 })), '{"b":2}', 'what was taken away is gone')
  t.end()
})
