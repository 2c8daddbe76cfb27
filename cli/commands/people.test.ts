import t from 'tap'
import { startApi } from '../testing/run-captured.ts'

const api = await startApi(t)
const { run } = api
const logIn = async (payload: object): Promise<number> =>
  (await api.app.inject({ method: 'POST', url: '/console/session', headers: { 'millrace-console': '1' }, payload })).statusCode

t.test('somebody is invited, listed, invited again with other roles, and disabled', async (t) => {
  const { code, out } = await run('users', 'invite', 'Bo@Example.com', '--role', 'viewer', '--project', '1', '--persons', '--name', 'Bo')
  t.match({ code, out }, { code: 0, out: /user +bo@example\.com\nlink +http:\/\/\S+\/console#invitation=[\w-]{43}\nexpires +20/ })
  const token = /#invitation=(\S+)/.exec(out)?.[1]
  t.match((await run('users', 'list')).out, /bo@example\.com +Bo +viewer of 1 .*ann@example\.com|ann@example\.com +Ann +account [^]*bo@example\.com +Bo +viewer of 1 /)
  t.equal(await logIn({ invitation: token, password: 'correct horse battery', first_name: 'Bo' }), 200)

  const again = JSON.parse((await run('users', 'invite', 'bo@example.com', '--role', 'editor', '--json')).out)
  t.match(again, { user: { email: 'bo@example.com', roles: [{ project_id: null, role: 'editor', sees_persons: false }] }, link: String, expires_at: String })
  const [, listed] = JSON.parse((await run('users', 'list', '--json')).out)
  t.match(listed, { email: 'bo@example.com', invited_until: again.expires_at, last_login_at: String, disabled_at: null, has_password: true })

  t.match(await run('users', 'disable', 'BO@example.com'), { code: 0, out: /^Disabled BO@example\.com/ })
  t.equal(await logIn({ email: 'bo@example.com', password: 'correct horse battery' }), 401)
  t.match(JSON.parse((await run('users', 'list', '--json')).out), [{}, { disabled_at: String, invited_until: null }])
})

t.test('what cannot be done is said, with the exit code of its kind', async (t) => {
  t.match(await run('users', 'invite', 'cy@example.com'), { code: 2, out: '', err: /--role/ })
  t.match(await run('users', 'invite', 'cy@example.com', '--role', 'owner'), { code: 2, err: /choices are viewer, editor, admin/ })
  t.match(await run('users', 'invite', 'cy@example.com', '--role', 'viewer', '--project', '99'), { code: 1, err: /no project 99/ })
  t.match(await run('users', 'invite', 'cy.example.com', '--role', 'viewer'), { code: 1, err: /not an e-mail address/ })
  t.match(await run('users', 'disable', 'nobody@example.com'), { code: 1, out: '', err: /there is no user nobody@example\.com/ })
  t.match(await run('users', 'disable', 'ann@example.com'), { code: 1, err: /your own user/ })
  const { body: { value } } = await api.call('POST', '/api/personal_api_keys', { label: 'reader', scopes: ['user:read'] })
  t.match(await run('--key', value, 'users', 'invite', 'cy@example.com', '--role', 'viewer'), { code: 1, err: /scope/ })
  t.match(JSON.parse((await run('--key', value, 'users', 'list', '--json')).out), [{ email: 'ann@example.com' }])
})

t.test('what persons to erase is one thing: ids, a filter of persons, or one of events', async (t) => {
  for (const args of [['erase'], ['erase', 'jo', '--event', 'visit'], ['erase', 'jo', '--events'], ['anonymise']]) {
    t.match(await run('persons', ...args, '--yes'), { code: 2, out: '' }, args.join(' '))
  }
  t.match(await run('persons', 'erase', 'jo', '--events', '--yes'), { err: /--events needs a filter/ })
})
