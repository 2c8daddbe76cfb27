/** Usage and quotas in the console: what was sent by day, a quota set by keyboard, and what it refuses. */
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { waitFor } from '../support/wait-for.ts'
import { askUntil, checkScreens, findBarriers, logIn, openPage, openProject, send, whenClosed } from './open-console.ts'

t.test('usage and quotas in the console', async (t) => {
  const screens = await openProject(t)
  const { stack, browser, open, home } = screens

  await t.test('usage is shown by day, and a quota is set, changed and removed with the keyboard', async (t) => {
    const { page, problems } = await open(`${home}/usage`)
    await page.getByText('none: all events are accepted').waitFor()
    await page.getByText(/^0 events stored from/).waitFor()
    t.equal(await page.locator('.chart').count(), 0, 'there is nothing to draw')
    await send(stack, Array.from({ length: 12 }, (_, index) => ({ event: 'paid', properties: { index } })))
    const today = new Date().toISOString().slice(0, 10)
    const row = page.getByRole('region', { name: 'Usage by day' }).getByRole('row', { name: new RegExp(`^${today}\\s+12\\s`) })
    await askUntil(async () => await page.reload(), row)
    await page.getByRole('img', { name: /^stored, dropped or dead letters along time, 30 points from 0 to 15$/ }).waitFor()

    await page.getByRole('button', { name: 'Set a quota …' }).focus()
    await page.keyboard.press('Enter')
    await page.locator('dialog input:focus').waitFor()
    await page.keyboard.type('50')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Tab')
    await page.keyboard.type('1000')
    await page.keyboard.press('Tab')
    await page.keyboard.press('ArrowDown')
    t.same(await findBarriers(page), [], 'the form')
    await page.getByLabel('Share of all distinct ids').fill('25')
    await page.keyboard.press('Enter')
    await whenClosed(page.getByRole('dialog'))
    await page.getByText('50 events a second and 500 at once, by each ingest process; 1,000 events a calendar month (UTC)').waitFor()
    await page.getByText('events of 25 % of all distinct ids are stored, with the weight 4').waitFor()
    t.match(await stack.sql`SELECT events_per_second, burst, events_per_month, beyond FROM project_quotas WHERE project_id = ${stack.project}`, [{ events_per_second: 50, burst: 500, beyond: 'sample' }])
    await page.getByText(/12 of 1,000 \(1\.2 %\); counted through /).waitFor()

    await page.getByRole('button', { name: 'Change the quota …' }).click()
    t.ok(await page.getByRole('button', { name: 'Save' }).isDisabled(), 'nothing is changed')
    await page.getByLabel('Events a second').fill('')
    await page.getByLabel('Events at once').fill('7')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').getByText('burst needs events_per_second.').waitFor()
    await page.getByLabel('Events at once').fill('')
    await page.getByLabel('Events a calendar month').fill('5')
    await page.getByRole('radio', { name: /^reject/ }).check()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText(/12 of 5 \(240 %\), exceeded/).waitFor()
    t.same(await findBarriers(page), [], 'an exceeded month')
    // Ingest follows within a second; the measure of the month within 15.
    await waitFor(async () => await send(stack, [{ event: 'too many' }]).then(() => false, (error: Error) => /429/.test(error.message)))

    await page.getByRole('button', { name: 'Remove the quota …' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
    await page.getByText('none: all events are accepted').waitFor()
    t.same(await stack.sql`SELECT 1 FROM project_quotas WHERE project_id = ${stack.project}`, [])
    t.same(problems.filter((text) => !/status of 400/.test(text)), [])
    await page.close()
  })

  await t.test('a key that may only read sees both and is offered no change', async (t) => {
    const { key } = await createPersonalKey(stack.sql, {
      email: 'admin@millrace.localhost', label: 'reader', scopes: ['project:read'], projectIds: [stack.project], expiresAt: null
    })
    const context = await browser.newContext()
    const { page } = await openPage(context, stack.url, `${home}/usage`)
    await logIn(page, key)
    await page.getByRole('region', { name: 'Usage by day' }).waitFor()
    t.same(await page.locator('main').getByRole('button').allInnerTexts(), ['stored', 'dropped or dead letters'], 'the legend alone')
    await context.close()
  })

  await t.test('the screen is accessible and fits, light and dark, from 360 to 2,560 pixels', async (t) => {
    await checkScreens(t, screens, [`${home}/usage`, `${home}/usage?days=365`])
  })
})
