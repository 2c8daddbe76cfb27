/** Definitions in the console: found and tagged by keyboard, whatever names events have. */
import t from 'tap'
import { waitFor } from '../support/wait-for.ts'
import { checkScreens, findBarriers, HOSTILE, openConsole, send, wasHacked } from './open-console.ts'

t.test('definitions in the console', async (t) => {
  const screens = await openConsole(t)
  const { stack, open } = screens
  await send(stack, [...HOSTILE, 'paid'].map((event) => ({ event, properties: { [event.slice(0, 60)]: 1 } })))

  await t.test('events are found by a search, and tagged, with the keyboard alone', async (t) => {
    await waitFor(async () => (await stack.sql`SELECT 1 FROM event_definitions`).length >= HOSTILE.length + 1)
    const { page, problems } = await open('/projects/1/events')
    await page.getByText('1 to 8 of 8').waitFor()
    t.notOk(await wasHacked(page))
    await page.getByRole('img', { name: '1 today, at most 1 on a day' }).nth(7).waitFor()
    t.ok(await page.getByRole('cell', { name: HOSTILE[0]!, exact: true }).isVisible(), 'markup is shown as it is')
    t.ok(await page.getByRole('cell', { name: '\\u{202e}gnp.exe', exact: true }).isVisible(), 'what cannot be seen is told')

    await page.keyboard.press('Tab')
    t.equal(await page.evaluate(() => (globalThis as any).document.activeElement?.textContent), 'Skip to content')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    await page.keyboard.type('paid')
    await page.getByText('1 to 1 of 1').waitFor()
    t.match(page.url(), /\?search=paid$/, 'a search has an address')
    // Order, hidden ones, the table, all, this one, its name, its tags.
    for (let tab = 0; tab < 7; tab++) await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.type('money, money, checkout')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    t.same(await page.locator('.tag').allInnerTexts(), ['money', 'checkout'])
    t.match(await stack.sql`SELECT tags FROM event_definitions WHERE name = 'paid'`, [{ tags: ['money', 'checkout'] }])
    t.equal(await page.evaluate(() => (globalThis as any).document.activeElement?.textContent), 'Change of paid', 'the focus is back')
    await page.reload()
    await page.getByText('1 to 1 of 1').waitFor()
    t.same(problems, [])
    await page.close()
  })

  await t.test('many are changed at once, and hidden ones are left out until they are asked for', async (t) => {
    const { page, problems } = await open('/projects/1/events')
    await page.getByText('1 to 8 of 8').waitFor()
    for (const name of ['paid', 'zero\\u{200b}width']) await page.getByRole('checkbox', { name: `Choose ${name}` }).check()
    await page.getByRole('button', { name: 'Change 2 chosen …' }).click()
    t.same(await findBarriers(page), [], 'the dialog')
    await page.getByLabel(/^Hidden/).selectOption('yes')
    await page.getByLabel(/^Verified/).selectOption('yes')
    await page.getByLabel(/^Owner/).selectOption({ index: 2 })
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByText('1 to 6 of 6').waitFor()
    t.match(await stack.sql`SELECT hidden, verified, owner_id FROM event_definitions WHERE hidden ORDER BY name`,
      [{ hidden: true, verified: true, owner_id: Number }, { hidden: true, verified: true, owner_id: Number }])
    await page.getByLabel('Show hidden').check()
    await page.getByText('1 to 8 of 8').waitFor()
    t.equal(await page.locator('.tag', { hasText: 'hidden' }).count(), 2)
    t.same(problems, [])
    await page.close()
  })

  await t.test('one that is gone meanwhile is named, and the others are changed', async (t) => {
    const { page, problems } = await open('/projects/1/properties')
    await page.getByRole('checkbox', { name: 'Choose all on this page' }).check()
    const [gone] = await stack.sql<{ id: string }[]>`SELECT id FROM property_definitions WHERE name = 'paid'`
    await fetch(`${stack.url}/api/projects/1/property_definitions/${gone!.id}/`, { method: 'DELETE', headers: { authorization: `Bearer ${stack.personalApiKey}` } })
    await page.getByRole('button', { name: /^Change \d+ chosen/ }).click()
    await page.getByLabel('Add tags, separated by commas').fill('bulk')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('paid: There is no such definition.').waitFor()
    t.ok((await stack.sql`SELECT 1 FROM property_definitions WHERE tags = '{bulk}'`).length >= HOSTILE.length)
    await page.getByRole('button', { name: 'Close' }).click()
    t.same(problems, [])
    await page.close()
  })

  await t.test('the pages of an event and of a property say what is known of them, whatever was sent', async (t) => {
    await send(stack, [1, 'one', HOSTILE[0]].map((plan) => ({ event: 'drifted', properties: { plan, $lib: 'web', $lib_version: '1.2.3' } })))
    await fetch(`${stack.url}/api/projects/1/saved_queries/`, {
      method: 'POST', headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: HOSTILE[1]!.slice(0, 100), query: "SELECT JSONExtractString(properties, 'plan') FROM events WHERE event = 'drifted'" })
    })
    const idOf = async (table: 'event' | 'property', name: string): Promise<string> => await waitFor(async () => {
      const [row] = table === 'event'
        ? await stack.sql<{ id: string }[]>`SELECT id FROM event_definitions WHERE name = ${name}`
        : await stack.sql<{ id: string }[]>`SELECT id FROM property_definitions WHERE name = ${name} AND type = 'event'`
      return row?.id
    }) as string
    const paths = [`/projects/1/events/${await idOf('event', 'drifted')}`, `/projects/1/properties/${await idOf('property', 'plan')}`]

    const { page, problems } = await open(paths[1]!)
    await page.getByText(/^Drifts: mostly String, but also Numeric \(33 %, since /).waitFor()
    await page.getByText(JSON.stringify(HOSTILE[0])).waitFor()
    await page.getByRole('cell', { name: '1.2.3' }).waitFor()
    await page.getByRole('link', { name: HOSTILE[1]!.slice(0, 80), exact: false }).waitFor()
    await page.getByText('A column would').or(page.getByText('so a column would save nothing')).first().waitFor()
    await page.getByRole('button', { name: 'Change …' }).click()
    await page.getByLabel('Description').fill(HOSTILE[0]!)
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText(HOSTILE[0]!, { exact: true }).waitFor()
    t.notOk(await wasHacked(page))
    t.same(problems, [])
    await page.close()
    await checkScreens(t, screens, paths)
  })

  await t.test('a search finds its word among 10,000 definitions, and shows no more than a page of them', async (t) => {
    for (const table of ['event_definitions', 'property_definitions']) {
      const type = table === 'event_definitions' ? '' : ", 'event'"
      await stack.sql.unsafe(`INSERT INTO ${table} (project_id, name${type === '' ? '' : ', type'})
        SELECT 1, 'planted ' || md5(n::text) || CASE WHEN n = 7777 THEN ' needle' ELSE '' END${type} FROM generate_series(1, 10000) n`)
      const { page, problems } = await open(`/projects/1/${table === 'event_definitions' ? 'events' : 'properties'}`)
      await page.getByText(/^1 to 50 of 10,0/).waitFor()
      t.equal(await page.locator('tbody tr').count(), 50, 'never more than a page in the browser')
      await page.getByRole('searchbox').fill('needle planted')
      await page.getByText('1 to 1 of 1').waitFor()
      t.same(problems, [])
      await page.close()
    }
  })

  await t.test('the screens are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
    await checkScreens(t, screens, ['/projects/1/events', '/projects/1/properties'])
  })
})
