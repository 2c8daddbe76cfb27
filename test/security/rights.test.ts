/** What each role may do at each endpoint, in its own project and in another one. */
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { createTestApi } from '../../api/testing/create-test-api.ts'

const FILE = path.join(import.meta.dirname, 'rights.generated.txt')

/** Nobody needs a key there, or the answer never ends. */
const LEFT_OUT = /^\/(capture|batch|decide|flags|ofrep|_|api\/feature_flag|api\/shared_board)|\/live$/

/** Those whose handler refuses get a body that reaches it; all others need none. */
const BODIES: Record<string, object> = {
  '/api/sql': { query: 'SELECT 1' }, '/api/sql/download': { query: 'SELECT 1', format: 'csv' }, '/api/users': { email: 'made@example.com' },
  '/api/projects': { name: 'made' }, '/api/users/999': {}, '/api/invitations': { email: 'invited@example.com', roles: [{ project_id: null, role: 'viewer' }] }
}

const PEOPLE = {
  viewer: { role: 'viewer', sees_persons: false }, 'viewer+persons': { role: 'viewer', sees_persons: true },
  editor: { role: 'editor', sees_persons: false }, admin: { role: 'admin', sees_persons: false }
}

t.test('the rights of each role are those of the table, and no route is without a row', async (t) => {
  const api = await createTestApi(t)
  const other = await api.inNewProject()
  const keys: { name: string, ofProject: string, ofAll: string }[] = []
  for (const [name, role] of Object.entries(PEOPLE)) {
    const make = async (projectId: number | null): Promise<string> => {
      const email = `${name}.${projectId}@example.com`
      const invited = await api.call('POST', '/api/invitations', { email, roles: [{ project_id: projectId, ...role }] })
      t.equal(invited.status, 201)
      // The key itself may do everything: its owner is the limit.
      return (await createPersonalKey(api.sql, { email, label: '', scopes: ['*'], projectIds: null, expiresAt: null })).key
    }
    keys.push({ name, ofProject: await make(api.projectId), ofAll: await make(null) })
  }
  await api.keys.refresh()
  const ask = async (method: string, url: string, key: string): Promise<'yes' | 'no' | 'unseen'> => {
    const response = await api.app.inject({
      method: method.toUpperCase() as 'GET',
      url,
      headers: { authorization: `Bearer ${key}` },
      ...method === 'get' || method === 'delete' ? {} : { payload: BODIES[url] ?? { unknown: 1 } }
    })
    t.not(response.statusCode, 401, `${method} ${url}`)
    if (response.statusCode === 403) return 'no'
    return response.statusCode === 404 && url.startsWith(`/api/projects/${other.projectId}`) ? 'unseen' : 'yes'
  }

  const { body: { paths } } = await api.call('GET', '/api/schema')
  const lines = [`${'endpoint'.padEnd(76)} ${keys.map(({ name }) => name.padEnd(14)).join(' ')} (of the project, of all)`]
  for (const [template, operations] of Object.entries<object>(paths)) {
    if (LEFT_OUT.test(template)) continue
    const id = /persons|api_keys/.test(template) ? randomUUID() : '999'
    const at = (projectId: number): string =>
      template.replace('{project_id}', String(projectId)).replace('{id}', id).replace(/\{\w+\}/g, '999')
    for (const method of Object.keys(operations)) {
      const cells: string[] = []
      for (const { ofProject, ofAll } of keys) {
        const own = at(api.projectId)
        cells.push(`${await ask(method, own, ofProject)} ${await ask(method, own, ofAll)}`.padEnd(14))
        if (!template.includes('{project_id}')) continue
        t.equal(await ask(method, at(other.projectId), ofProject), 'unseen', `${method} ${template} of another project`)
      }
      lines.push(`${`${method.toUpperCase()} ${template}`.padEnd(76)} ${cells.join(' ')}`.trimEnd())
    }
  }
  const table = `${lines.join('\n')}\n`
  if (process.env['MILLRACE_TEST_WRITE'] === '1') await writeFile(FILE, table)
  t.equal(table, await readFile(FILE, 'utf8'), 'MILLRACE_TEST_WRITE=1 writes it')
})
