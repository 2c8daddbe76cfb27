/** The way into the console: logins, what the first load weighs, the first page, and what a key or role may see. */
import type { BrowserContext, Page } from 'playwright-core'
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { hashToken } from '../../console/server/sessions.ts'
import { startIdentityProvider } from '../support/identity-provider.ts'
import { freePort } from '../support/local-ports.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkPage, checkScreens, HOSTILE, logIn, openConsole, openPage, send } from './open-console.ts'

/** The first load and the first screen may weigh so much together, in compressed bytes; see `bundle-assets.test.ts`. */
const FIRST_SCREEN_BYTES = 90_000 + 25_000

t.test('the entrance of the console', async (t) => {
  const port = await freePort()
  const idp = await startIdentityProvider(t, `http://127.0.0.1:${port}`, 'localhost')
  const screens = await openConsole(t, {
    MILLRACE_PORT: String(port), MILLRACE_OIDC_ISSUER: idp.issuer, MILLRACE_OIDC_CLIENT_ID: 'millrace',
    MILLRACE_OIDC_CLIENT_SECRET: 'a secret of the client', MILLRACE_LOGIN_ROLES: 'readers=viewer, team=editor:1'
  })
  const { stack, browser, open } = screens
  await send(stack, [...HOSTILE, 'paid'].map((event) => ({ event })))

  await t.test('the first load is small, needs a login, and rejects a wrong key', async (t) => {
    const context = await browser.newContext()
    const sizes: number[] = []
    context.on('response', (response) => {
      if (response.url().includes('/console/assets/')) sizes.push(Number(response.headers()['content-length']))
    })
    const { page, problems } = await openPage(context, stack.url, '/projects/1/events')
    await page.getByLabel('Personal API key').waitFor()
    t.same(problems, [], 'that nobody is logged in is no error')
    await page.getByLabel('Personal API key').fill('phx_wrong')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('alert').getByText('Personal API key is invalid').waitFor()
    // The browser itself logs each answer above 400: the key that was wrong.
    t.match(problems, [/status of 401/])
    t.equal(problems.length, 1)

    await logIn(page, stack.personalApiKey)
    await page.getByRole('heading', { name: 'Events', level: 1 }).waitFor()
    t.ok(sizes.length > 2)
    const sum = sizes.reduce((total, size) => total + size, 0)
    t.ok(sum > 5000 && sum <= FIRST_SCREEN_BYTES, `${sum} bytes`)
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByLabel('Personal API key').waitFor()
    t.same((await context.cookies()).filter(({ name }) => name === 'millrace_session'), [])
    await context.close()
  })

  await t.test('a link that has expired says so, until somebody logs in', async (t) => {
    const context = await browser.newContext()
    const { page } = await openPage(context, stack.url, '#login=expired')
    await page.getByRole('alert').getByText('This link was already used or has expired. Log in with a personal API key.').waitFor()
    t.notMatch(page.url(), /expired/)
    await logIn(page, stack.personalApiKey)
    await page.getByText('Everything works').waitFor()
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByLabel('Personal API key').waitFor()
    t.equal(await page.getByRole('alert').count(), 0)
    await context.close()
  })

  await t.test('health tells that everything works, and what passes', async (t) => {
    const { page, problems } = await open('')
    await page.getByText('Everything works').waitFor()
    t.match(page.url(), /\/console\/health$/, 'it is the first screen')
    for (const stage of ['Ingest', 'Spool', 'Stream', 'Pipeline', 'ClickHouse', 'Dead letters']) {
      t.ok(await page.getByRole('heading', { name: new RegExp(`^${stage}`), level: 3 }).isVisible(), stage)
    }
    await waitFor(async () => /accepted since start8/.test(await page.locator('.stage').first().innerText().then((text) => text.replaceAll('\n', ''))))
    t.same(problems, [])
    await page.close()
  })

  await t.test('the project that is chosen stays, on screens without one, too', async (t) => {
    const id = 2
    await stack.sql`INSERT INTO projects (id, name) VALUES (${id}, 'Second')`
    const { page, problems } = await open('/health')
    const chosen = page.getByRole('combobox', { name: /^Project/ })
    const events = page.getByRole('navigation').getByRole('link', { name: 'Events', exact: true })
    await chosen.selectOption(String(id))
    await waitFor(async () => await events.getAttribute('href') === `/console/projects/${id}/events`)
    t.match(page.url(), /\/health$/, 'it stays where it is')
    await events.click()
    await page.getByRole('heading', { name: 'Events', level: 1 }).waitFor()
    await page.getByRole('navigation').getByRole('link', { name: 'Health' }).click()
    await page.getByText('Everything works').waitFor()
    t.equal(await chosen.inputValue(), String(id))
    t.same(problems, [])
    await stack.sql`DELETE FROM projects WHERE id = ${id}`
    await page.close()
  })

  await t.test('what a key may not do is not offered', async (t) => {
    const { key } = await createPersonalKey(stack.sql, {
      email: 'admin@millrace.localhost', label: 'reader', scopes: ['event_definition:read'], projectIds: [1], expiresAt: null
    })
    const context = await browser.newContext()
    const { page } = await openPage(context, stack.url, '')
    await logIn(page, key)
    await page.getByRole('heading', { name: 'Events', level: 1 }).waitFor()
    t.same(await page.getByRole('navigation').getByRole('link').allInnerTexts(), ['Events', 'Schemas', 'Rules'])
    t.equal(await page.getByRole('button', { name: /tags/i }).count(), 0)
    await page.goto(`${stack.url}/console/health`)
    await page.getByText('This page does not exist, or you have no access to it.').waitFor()
    await context.close()
  })

  /** As after an hour without a request. */
  /** What the page asks for by itself may bring the login first, and a mouse would not reach what is pressed. */
  const endSession = async (context: BrowserContext) => {
    const { value } = (await context.cookies()).find(({ name }) => name === 'millrace_session')!
    await stack.sql`UPDATE console_sessions SET last_used_at = now() - interval '2 hours' WHERE token_hash = ${hashToken(value)}`
  }
  const countRules = async (name: string) => (await stack.sql`SELECT 1 FROM event_rules WHERE name = ${name}`).length
  /** Writes a rule in a page that is marked, ends its session, and stores the rule. */
  const writeAndWait = async (context: BrowserContext, name: string) => {
    const opened = await openPage(context, stack.url, '/projects/1/rules/new')
    await logIn(opened.page, stack.personalApiKey)
    await opened.page.getByLabel('Name, shown in receipts').fill(name)
    await opened.page.getByLabel('Condition and actions').fill('{ "condition": { "type": "AND", "values": [{ "type": "event", "value": "x" }] }, "actions": [{ "type": "drop" }] }')
    await opened.page.evaluate('globalThis.isFirst = true')
    return { ...opened, again: opened.page.getByRole('dialog', { name: 'Log in again' }) }
  }

  await t.test('a page whose session ends waits under a login: a save goes on after it, in another tab, too', async (t) => {
    const context = await browser.newContext()
    const { page, again } = await writeAndWait(context, 'waits')
    const other = await openPage(context, stack.url, '/health')
    await other.page.clock.install()
    await other.page.reload()
    await other.page.getByText('Everything works').waitFor()
    await endSession(context)
    await page.getByRole('button', { name: 'Store the rule' }).dispatchEvent('click')
    await again.getByText('Your session has ended. Log in as admin@millrace.localhost').waitFor()
    t.equal(await page.title(), 'Log in · Millrace')
    await again.locator('#key:focus').waitFor()
    await checkPage(t, page, 'a login over a page')
    for (const key of ['Escape', 'Escape', 'Control+k']) await page.keyboard.press(key)
    t.equal(await page.getByRole('dialog').count(), 1)
    const { nodes } = await (await context.newCDPSession(page)).send('Accessibility.getFullAXTree')
    const names = nodes.filter(({ ignored }) => !ignored).map(({ name }) => String(name?.value))
    t.ok(names.includes('Personal API key'))
    t.notOk(names.some((name) => /Store the rule|waits/.test(name)), 'nothing of the page is read out')
    t.equal(await page.evaluate('document.elementFromPoint(10, 10).className'), 'login', 'or reached')

    await other.page.getByRole('link', { name: 'Log in with your identity provider, in another tab' }).waitFor()
    const { started } = other.requests
    await other.page.clock.runFor(60_000)
    t.equal(other.requests.started, started, 'nothing is asked for meanwhile')

    t.equal(await countRules('waits'), 0)
    await again.getByLabel('Personal API key').fill('phx_wrong')
    await page.keyboard.press('Enter')
    await again.getByRole('alert').getByText('Personal API key is invalid').waitFor()
    await logIn(page, stack.personalApiKey)
    await page.getByRole('heading', { name: 'waits', level: 1 }).waitFor()
    t.equal(await again.count(), 0)
    t.equal(await countRules('waits'), 1)
    t.match(await page.title(), /^waits · /)
    await other.page.evaluate('void dispatchEvent(new Event("focus"))')
    await other.page.getByRole('dialog').waitFor({ state: 'detached' })
    await other.page.clock.runFor(5000)
    await waitFor(() => other.requests.started > started + 1)
    await context.close()
  })

  await t.test('whoever else logs in finds nothing of what was written', async (t) => {
    await stack.sql`INSERT INTO users (email) VALUES ('cy@example.com')`
    const { key } = await createPersonalKey(stack.sql, { email: 'cy@example.com', label: 'other', scopes: ['*'], projectIds: null, expiresAt: null })
    const context = await browser.newContext()
    const { page, again } = await writeAndWait(context, 'secret')
    let asked = 0
    page.on('dialog', (dialog) => { asked++; void dialog.dismiss() })
    await endSession(context)
    await page.getByRole('button', { name: 'Store the rule' }).dispatchEvent('click')
    await again.getByLabel('Personal API key').fill(key)
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Your account cy@example.com' }).waitFor()
    await page.getByLabel('Name, shown in receipts').waitFor()
    t.equal(await page.getByLabel('Name, shown in receipts').inputValue(), '')
    t.equal(await page.evaluate('globalThis.isFirst'), undefined, 'the page is another one')
    t.equal(asked, 0)
    t.equal(await countRules('secret'), 0)
    await context.close()
  })

  /** As after five minutes, in which the groups of everybody are read again. */
  const passTime = async () => await stack.sql`UPDATE console_sessions SET claims_read_at = claims_read_at - interval '5 minutes'`
  const statusOf = async (page: Page, path: string) =>
    (await page.request.get(`${stack.url}/api/${path}`, { headers: { 'millrace-console': '1' } })).status()

  await t.test('the identity provider logs people in with the role of their group, until it is taken away', async (t) => {
    const context = await openOffline()
    const page = await context.newPage()
    await page.goto(`${stack.url}/console/projects/1/flags`)
    await logInAtProvider(page, 'nobody')
    await page.getByRole('alert').getByText('Your account at the identity provider has no role here.').waitFor()
    t.notMatch(page.url(), /refused/)
    t.equal((await stack.sql`SELECT 1 FROM users WHERE email = 'nobody@example.com'`).length, 0)
    await leaveProvider(page)

    idp.groups.set('ada', ['readers'])
    await page.goto(`${stack.url}/console/projects/1/flags`)
    await logInAtProvider(page, 'ada')
    await page.getByRole('heading', { name: 'Flags', level: 1 }).waitFor()
    t.match(page.url(), /\/projects\/1\/flags$/, 'where the login began')
    await page.getByText('ada@example.com').waitFor()
    const menu = page.getByRole('navigation')
    t.equal(await menu.getByRole('link', { name: 'Persons', exact: true }).count(), 0, 'a viewer')
    t.equal(await statusOf(page, 'projects/1/persons'), 403)
    t.match(await context.cookies(stack.url), [{ name: 'millrace_session', httpOnly: true, sameSite: 'Strict' }])
    t.match(await stack.sql`SELECT oidc_issuer, oidc_subject FROM users WHERE email = 'ada@example.com'`, [{ oidc_issuer: idp.issuer, oidc_subject: 'ada' }])

    idp.groups.set('ada', ['team'])
    await passTime()
    await page.reload()
    await menu.getByRole('link', { name: 'Persons', exact: true }).waitFor()
    t.equal(await statusOf(page, 'projects/1/persons'), 200, 'an editor now')

    idp.groups.set('ada', [])
    await passTime()
    t.equal(await statusOf(page, 'projects/1/persons'), 401)
    await page.reload()
    await page.getByRole('link', { name: 'Log in with your identity provider' }).waitFor()
    await context.close()
  })

  await t.test('logging out ends the session here and at the provider', async (t) => {
    idp.groups.set('eda', ['readers'])
    const context = await openOffline()
    const page = await context.newPage()
    await page.goto(`${stack.url}/console`)
    await logInAtProvider(page, 'eda')
    await page.getByRole('button', { name: 'Log out' }).waitFor()
    await page.getByRole('navigation').getByRole('link', { name: 'Flags', exact: true }).click()
    await page.evaluate('globalThis.isFirst = true')
    await endSession(context)
    await page.getByRole('navigation').getByRole('link', { name: 'Events', exact: true }).dispatchEvent('click')
    const [beside] = await Promise.all([context.waitForEvent('page'), page.getByRole('link', { name: 'Log in with your identity provider, in another tab' }).click()])
    await beside.getByRole('heading', { name: 'Events', level: 1 }).waitFor()
    await beside.close()
    await page.evaluate('void dispatchEvent(new Event("focus"))')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByRole('heading', { name: 'Events', level: 1 }).waitFor()
    await page.locator('#content:focus').waitFor()
    t.equal(await page.evaluate('globalThis.isFirst'), true, 'the login was in another tab')
    const stolen = await context.cookies(stack.url)
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByRole('button', { name: 'Yes, sign me out' }).click()
    await page.waitForURL(`${stack.url}/console`)
    await page.getByRole('link', { name: 'Log in with your identity provider' }).click()
    await page.getByPlaceholder('Enter any login').waitFor()
    await context.addCookies(stolen)
    t.equal(await statusOf(page, 'users/@me'), 401, 'a cookie stolen before is dead')
    await context.close()
  })

  await t.test('an invitation sets a password, and disabling ends the session', async (t) => {
    const { page, problems } = await open('/people')
    await page.getByRole('button', { name: 'Invite …', exact: true }).click()
    await page.getByLabel('E-mail').fill('bo@example.com')
    await page.getByLabel('First name').fill('Bo')
    await page.getByLabel('Role').selectOption('editor')
    await page.getByRole('button', { name: 'Create the link' }).click()
    const link = await page.getByLabel('The link').textContent()
    await page.getByRole('button', { name: 'I have copied it' }).click()
    t.same(problems, [])

    const context = await browser.newContext()
    const theirs = await context.newPage()
    await theirs.goto(String(link))
    t.notMatch(theirs.url(), /invitation/, 'the token does not stay in the address')
    await theirs.getByLabel('First name').fill('Bo')
    await theirs.getByLabel('Password').fill('correct horse battery')
    await theirs.getByRole('button', { name: 'Join', exact: true }).click()
    await theirs.getByRole('button', { name: 'Your account bo@example.com' }).click()
    await checkPage(t, theirs, 'account')
    await theirs.setViewportSize({ width: 1280, height: 900 })
    await theirs.getByLabel('Present password').fill('correct horse battery')
    await theirs.getByLabel('New password').fill('another horse battery')
    await theirs.getByRole('button', { name: 'Change the password' }).click()
    await theirs.getByRole('dialog').waitFor({ state: 'detached' })
    const logInByPassword = async () => {
      await theirs.getByLabel('E-mail').fill('bo@example.com')
      await theirs.getByLabel('Password').fill('another horse battery')
      await theirs.getByRole('button', { name: 'Log in', exact: true }).click()
    }
    await theirs.getByRole('button', { name: 'Log out' }).click()
    await logInByPassword()
    await theirs.getByRole('navigation').getByRole('link', { name: 'Persons', exact: true }).click()
    await theirs.getByRole('heading', { name: 'Persons', level: 1 }).waitFor()

    await page.reload()
    await page.getByRole('row', { name: /^bo@example\.com Bo editor / }).getByRole('button', { name: /^Disable …/ }).click()
    await page.getByRole('dialog').getByText('0 keys that the user has or made and 0 links to boards').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Disable', exact: true }).click()
    await page.getByRole('row', { name: /^bo@example\.com .* disabled / }).waitFor()
    await theirs.getByRole('navigation').getByRole('link', { name: 'Flags', exact: true }).click()
    await theirs.getByLabel('Personal API key').waitFor()
    await logInByPassword()
    await theirs.getByRole('alert').getByText('Wrong e-mail address or password.').waitFor()
    await page.goto(`${stack.url}/console/record?object=users&kind=change`)
    await page.getByRole('row').filter({ hasText: /change users \d+/ }).getByText('disabled_at', { exact: true }).waitFor()
    await context.close()
    await page.close()
  })

  await t.test('the screens are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
    await checkScreens(t, screens, ['/health', '/people', '/record'])
  })

  /** The pages of the provider ask for a font of another host. */
  async function openOffline (): Promise<BrowserContext> {
    const context = await browser.newContext()
    await context.route(({ hostname }) => hostname !== '127.0.0.1' && hostname !== 'localhost', async (route) => await route.abort())
    return context
  }
})

/** Presses the link of the login page, logs in at the provider, and agrees to what it asks. */
async function logInAtProvider (page: Page, login: string): Promise<void> {
  await page.getByRole('link', { name: 'Log in with your identity provider' }).click()
  await page.getByPlaceholder('Enter any login').fill(login)
  await page.getByPlaceholder('and password').fill('any')
  await page.getByRole('button', { name: 'Sign-in' }).click()
  await page.getByRole('button', { name: 'Continue' }).click()
}

/** Ends the login at the provider, as somebody does who has another account. */
async function leaveProvider (page: Page): Promise<void> {
  await page.context().clearCookies({ domain: 'localhost' })
}
