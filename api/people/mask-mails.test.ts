import t from 'tap'
import { maskMails } from './mask-mails.ts'

t.test('addresses are masked wherever they stand, escaped ones of pages too', async (t) => {
  t.same(maskMails({
    'ann@a.example': ['to ann@a.example, bo@b.example', 1, null], url: 'https://x.example/?email=ann%40a.example&b=1', inner: 'to=%3Femail%3Dann%252540a.example', raw: '["ann\\u0040a.example", "ann@a\\u002Eexample"]', sql: "email = 'o\\'brien@a.example'"
  }), {
    '***@***': ['to ***@***, ***@***', 1, null], url: 'https://x.example/?email=***@***&b=1', inner: 'to=***@***', raw: '["***@***", "***@***"]', sql: "email = '***@***'"
  })
  for (const text of ['12:30 @ noon, a@b, @ann', 'see (x)@home', 'ends with @a.example']) t.equal(maskMails(text), text)
  t.same(['^(ann|bo)@a\\.example$', 'ann@(a|b)\\.example$', 'ann@a\\.(com|org)', 'ann@a[.]example', "lower('ann@a.example')"].map(maskMails), ['***@***', '***@***', '***@***|org)', '***@***', "lower('***@***')"], 'patterns too')
})

t.test('only users of Millrace are shown, not persons whose properties look like theirs', async (t) => {
  const user = { id: 1, uuid: 'u', distinct_id: 'd', first_name: 'Ann', email: 'ann@a.example', is_email_verified: null }
  t.same(maskMails({ created_by: user, payload: { ...user, plan: 'pro' }, person: { id: 1, email: 'bo@b.example', first_name: 'Bo' } }), {
    created_by: user, payload: { ...user, plan: 'pro', email: '***@***' }, person: { id: 1, email: '***@***', first_name: 'Bo' }
  })
})

t.test('a long text without any takes time by its length, not by its square', async (t) => {
  // By the square, each would take minutes: the test would not end.
  for (const text of [`${'a'.repeat(300_000)}@`, `a@${'a.'.repeat(500_000)}`, '@a'.repeat(500_000), '%25'.repeat(300_000)]) t.ok(typeof maskMails(text) === 'string')
})
