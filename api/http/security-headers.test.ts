import t from 'tap'
import { createTestApi } from '../testing/create-test-api.ts'

t.test('tells browsers how to treat every answer, errors included', async (t) => {
  const api = await createTestApi(t)

  for (const path of ['~/feature_flags/', '/api/schema', '/no/such/path']) {
    t.match((await api.call('GET', path)).headers, {
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'"
    }, path)
  }
  const { headers } = await api.app.inject('/docs/')
  t.match(headers, { 'x-frame-options': 'DENY', 'content-security-policy': undefined }, 'the page runs scripts of its own')
})
