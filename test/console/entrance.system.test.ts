/** The way into the console: login, what the first load weighs, the first page, and what a key may see. */
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkScreens, HOSTILE, logIn, openConsole, openPage, send } from './open-console.ts'

/** The first load and the first screen may weigh so much together, in compressed bytes; see `bundle-assets.test.ts`. */
const FIRST_SCREEN_BYTES = 90_000 + 25_000

t.test('the entrance of the console', async (t) => {
  const screens = await openConsole(t)
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
    await page.getByRole('alert').getByText('This link was used already, or is too old. Log in with a personal API key.').waitFor()
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
    await page.getByText('This page does not exist, or your key has no access to it.').waitFor()
    await context.close()
  })

  await t.test('the screens are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
    await checkScreens(t, screens, ['/health'])
  })
})
