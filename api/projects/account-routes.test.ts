import t from 'tap'
import { createPersonalKey } from './personal-keys.ts'
import { rotateProjectKey } from './project-routes.ts'
import { createTestApi, send } from '../testing/create-test-api.ts'

const api = await createTestApi(t)

t.test('shows the user of the key, and what the key may do', async (t) => {
  const { status, body } = await api.call('GET', '/api/users/@me/')

  t.equal(status, 200)
  t.same(body, {
    ...api.user,
    team: { id: api.projectId, uuid: body.team.uuid, name: 'Test' },
    personal_api_key: { scopes: ['*'], scoped_teams: null }
  })
})

t.test('lists the projects that the key may see, each with the key that SDKs should send', async (t) => {
  const second = await api.inNewProject()
  const { key } = await createPersonalKey(api.sql, {
    email: api.user.email, label: 'one project', scopes: ['project:read', 'user:read'], projectIds: [second.projectId], expiresAt: null
  })
  const { apiKey } = await rotateProjectKey(api.sql, { projectId: second.projectId, graceSeconds: 60, now: new Date() })
  await api.keys.refresh()
  const ask = async (url: string): Promise<{ status: number, body: any }> =>
    await send(api.app, { method: 'GET', url, headers: { authorization: `Bearer ${key}` } })

  t.match((await api.call('GET', '/api/projects?limit=1')).body, {
    count: 2, next: /offset=1/, results: [{ id: api.projectId, api_token: api.projectKey, name: 'Test', timezone: 'UTC', anonymize_ips: false }]
  })
  t.match((await ask('/api/projects/')).body, { count: 1, next: null, results: [{ id: second.projectId, api_token: apiKey }] })
  t.match((await ask('/api/projects/@current/')).body, { id: second.projectId, api_token: apiKey })
  t.match(await ask(`/api/projects/${api.projectId}`), { status: 404, body: { code: 'not_found' } })
  t.match((await ask('/api/users/@me')).body, { team: { id: second.projectId }, personal_api_key: { scoped_teams: [second.projectId] } })
})

t.test('both ask for their scope', async (t) => {
  const { key } = await createPersonalKey(api.sql, {
    email: api.user.email, label: 'flags', scopes: ['feature_flag:read'], projectIds: null, expiresAt: null
  })
  await api.keys.refresh()
  for (const url of ['/api/users/@me/', '/api/projects/', `/api/projects/${api.projectId}/`]) {
    t.match(await send(api.app, { method: 'GET', url, headers: { authorization: `Bearer ${key}` } }), {
      status: 403, body: { code: 'permission_denied' }
    }, url)
  }
})

t.end()
