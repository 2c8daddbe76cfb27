/** Definitions in the console: found and tagged by keyboard, whatever names events have. */
import t from 'tap'
import { waitFor } from '../support/wait-for.ts'
import { checkScreens, HOSTILE, openProject, send, wasHacked, whenClosed } from './open-console.ts'

t.test('definitions in the console', async (t) => {
  const screens = await openProject(t)
  const { stack, open, home } = screens
  await send(stack, [...HOSTILE, 'paid'].map((event) => ({ event, properties: { [event.slice(0, 60)]: 1 } })))

  await t.test('events are found by a search, and tagged, with the keyboard alone', async (t) => {
    await waitFor(async () => (await stack.sql`SELECT 1 FROM event_definitions WHERE project_id = ${stack.project}`).length >= HOSTILE.length + 1)
    const { page, problems } = await open(`${home}/events`)
    await page.getByText('1 to 8 of 8').waitFor()
    t.notOk(await wasHacked(page))
    await page.getByRole('img', { name: '1 today, at most 1 on a day' }).nth(7).waitFor()
    t.ok(await page.getByRole('cell', { name: HOSTILE[0]!, exact: true }).isVisible(), 'markup is shown as it is')
    t.ok(await page.getByRole('cell', { name: '\\u{202e}gnp.exe', exact: true }).isVisible(), 'invisible characters are spelled out')

    await page.keyboard.press('Tab')
    t.equal(await page.evaluate(() => (globalThis as any).document.activeElement?.textContent), 'Skip to content')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    await page.keyboard.type('paid')
    // The beginning of a word may be searched first, and finds the same.
    await t.resolves(page.waitForURL(/\?search=paid$/), 'a search has an address')
    await page.getByText('1 to 1 of 1').waitFor()
    // Order, hidden ones, the table, its name, its tags.
    for (let tab = 0; tab < 5; tab++) await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.type('money, money, checkout')
    await page.keyboard.press('Enter')
    await whenClosed(page.getByRole('dialog'))
    // The list is read again when the dialog has closed.
    await waitFor(async () => (await page.locator('.tag').allInnerTexts()).join() === 'money,checkout')
    t.match(await stack.sql`SELECT tags FROM event_definitions WHERE project_id = ${stack.project} AND name = 'paid'`, [{ tags: ['money', 'checkout'] }])
    t.equal(await page.evaluate(() => (globalThis as any).document.activeElement?.textContent), 'Change of paid', 'the focus is back')
    await page.reload()
    await page.getByText('1 to 1 of 1').waitFor()
    t.same(problems, [])
    await page.close()
  })

  await t.test('a search finds its word among 10,000 definitions, and shows no more than a page of them', async (t) => {
    for (const table of ['event_definitions', 'property_definitions']) {
      const type = table === 'event_definitions' ? '' : ", 'event'"
      await stack.sql.unsafe(`INSERT INTO ${table} (project_id, name${type === '' ? '' : ', type'})
        SELECT ${stack.project}, 'planted ' || md5(n::text) || CASE WHEN n = 7777 THEN ' needle' ELSE '' END${type} FROM generate_series(1, 10000) n`)
      const { page, problems } = await open(`${home}/${table === 'event_definitions' ? 'events' : 'properties'}`)
      await page.getByText(/^1 to 50 of 10,0/).waitFor()
      t.equal(await page.locator('tbody tr').count(), 50, 'never more than a page in the browser')
      await page.getByRole('searchbox').fill('needle planted')
      await page.getByText('1 to 1 of 1').waitFor()
      t.same(problems, [])
      await page.close()
    }
  })

  await t.test('the screens are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
    await checkScreens(t, screens, [`${home}/events`, `${home}/properties`])
  })
})
