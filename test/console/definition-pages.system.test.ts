/** Definitions in the console: one is changed, and the page of one. */
import t from 'tap'
import { waitFor } from '../support/wait-for.ts'
import { checkScreens, findBarriers, HOSTILE, openProject, send, wasHacked } from './open-console.ts'

t.test('changes of definitions, and their statistics', async (t) => {
  const screens = await openProject(t)
  const { stack, open, home } = screens
  await send(stack, [...HOSTILE, 'paid'].map((event) => ({ event, properties: { [event.slice(0, 60)]: 1 } })))
  await waitFor(async () => (await stack.sql`SELECT 1 FROM event_definitions WHERE project_id = ${stack.project}`).length >= HOSTILE.length + 1)
  await waitFor(async () => (await stack.sql`SELECT 1 FROM property_definitions WHERE project_id = ${stack.project}`).length >= HOSTILE.length + 1)

  await t.test('one is changed, and hidden ones are left out until they are asked for', async (t) => {
    const { page, problems } = await open(`${home}/events`)
    await page.getByText('1 to 8 of 8').waitFor()
    await page.getByRole('link', { name: 'paid', exact: true }).click()
    await page.getByRole('button', { name: 'Change …' }).click()
    t.same(await findBarriers(page), [], 'the dialog')
    await page.getByLabel('Hidden').check()
    await page.getByLabel('Verified').check()
    await page.getByLabel(/^Owner/).selectOption({ index: 1 })
    await page.getByLabel('Tags, separated by commas').fill('money, billing, money')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByText('verified, hidden from lists').waitFor()
    t.match(await stack.sql`SELECT hidden, verified, owner_id, tags FROM event_definitions WHERE project_id = ${stack.project} AND name = 'paid'`,
      [{ hidden: true, verified: true, owner_id: Number, tags: ['money', 'billing'] }])
    await page.getByRole('link', { name: 'Events', exact: true }).first().click()
    await page.getByText('1 to 7 of 7').waitFor()
    await page.getByLabel('Show hidden').check()
    await page.getByText('1 to 8 of 8').waitFor()
    t.equal(await page.locator('.tag', { hasText: 'hidden' }).count(), 1)
    t.same(problems, [])
    await page.close()
  })

  await t.test('the pages of an event and of a property show their statistics, whatever was sent', async (t) => {
    await send(stack, [1, 'one', HOSTILE[0]].map((plan) => ({ event: 'drifted', properties: { plan } })))
    const idOf = async (table: 'event' | 'property', name: string): Promise<string> => await waitFor(async () => {
      const [row] = table === 'event'
        ? await stack.sql<{ id: string }[]>`SELECT id FROM event_definitions WHERE project_id = ${stack.project} AND name = ${name}`
        : await stack.sql<{ id: string }[]>`SELECT id FROM property_definitions WHERE project_id = ${stack.project} AND name = ${name} AND type = 'event'`
      return row?.id
    }) as string
    const paths = [`${home}/events/${await idOf('event', 'drifted')}`, `${home}/properties/${await idOf('property', 'plan')}`]

    const { page, problems } = await open(paths[1]!)
    await page.getByText(/^Drifts: mostly String, but also Numeric \(33 %, since /).waitFor()
    await page.getByText(JSON.stringify(HOSTILE[0])).waitFor()
    await page.getByRole('button', { name: 'Change …' }).click()
    await page.getByLabel('Description').fill(HOSTILE[0]!)
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText(HOSTILE[0]!, { exact: true }).waitFor()
    t.notOk(await wasHacked(page))
    t.same(problems, [])
    await page.close()
    await checkScreens(t, screens, paths)
  })
})
