/** Live events and receipts in the console: what arrives, with its fate, whatever text it brings. */
import { randomUUID } from 'node:crypto'
import type { Locator } from 'playwright-core'
import t from 'tap'
import { waitFor } from '../support/wait-for.ts'
import { checkScreens, findBarriers, HOSTILE, openProject, send, wasHacked, whenClosed } from './open-console.ts'

t.test('live events in the console', async (t) => {
  const screens = await openProject(t)
  const { stack, open, home } = screens

  await t.test('live events appear with their fate, and one opens as sent and as stored', async (t) => {
    const { page, problems } = await open(`${home}/live`)
    await page.getByText('Nothing has arrived in this list yet.').waitFor()
    await page.getByText('Watching.').waitFor()
    const rows = (text: string | RegExp): Locator => page.locator('.live tbody tr').filter({ hasText: text })
    await waitFor(async () => {
      await send(stack, [{ event: HOSTILE[0]! }])
      return await rows('<img src=x').count() > 0
    })

    const event = { event: 'paid', uuid: randomUUID(), distinct_id: HOSTILE[1]!, properties: { plan: 'pro', $lib: 'posthog-go' } }
    await send(stack, [event, { event: '' }])
    await rows(/paid.*script.*posthog-go.*accepted/).waitFor()
    await rows(/\(no name\).*dropped: missing_event_name/).waitFor()
    await send(stack, [{ ...event, properties: { plan: 'free' } }])
    // A receipt tells what was so when it was opened.
    const isCountedOnce = async (): Promise<boolean> => (await stack.select("SELECT 1 FROM event_traces WHERE uuid = {uuid: UUID} AND kind = 'duplicate'", { uuid: event.uuid })).length > 0
    await waitFor(isCountedOnce)
    t.equal(await rows(/paid.*accepted/).count(), 1, 'what came again is not stored again')
    await page.getByLabel('Fate').selectOption('dropped')
    await waitFor(async () => await rows('').count() === 1)
    t.match(page.url(), /fate=dropped$/, 'a filter has an address')

    await page.getByRole('button', { name: 'Pause' }).click()
    await send(stack, [{ event: '' }])
    await page.getByRole('button', { name: 'Continue: 1 held back' }).waitFor()
    t.equal(await rows('').count(), 1)
    await page.getByRole('button', { name: /^Continue/ }).click()
    await waitFor(async () => await rows('').count() === 2)
    await page.getByLabel('Fate').selectOption('any')

    await rows(/script.*posthog-go/).getByRole('button').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('As stored').getByText(`distinct_id  ${HOSTILE[1]!}`).waitFor()
    await dialog.getByLabel('As stored').getByText('"plan":"pro"').waitFor()
    await dialog.getByText('It came 1 more time, and was counted once.').waitFor()
    t.match(await dialog.getByLabel('As a command').textContent(), `curl '${stack.url}/batch/'`)
    t.same(await findBarriers(page), [])
    await page.keyboard.press('Escape')
    await whenClosed(dialog)

    await page.getByRole('link', { name: 'Find an event' }).click()
    await page.getByLabel('Uuid or distinct id').fill(` ${event.uuid.toUpperCase()}`)
    await page.keyboard.press('Enter')
    await page.getByText('It is stored and visible to queries.').waitFor()
    await page.getByLabel('Uuid or distinct id').fill(HOSTILE[1]!)
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: event.uuid }).waitFor()
    await page.getByLabel('Uuid or distinct id').fill(randomUUID())
    await page.keyboard.press('Enter')
    // Other tests send to this stack: what waits in its stream is not always searched whole.
    await page.getByText(/Unknown event|It is neither stored nor refused/).waitFor()
    t.notOk(await wasHacked(page))
    t.same(problems, [])
    await page.close()
  })

  await t.test('a page that nobody can see stops watching, and watches again when it is seen', async (t) => {
    const { page, problems } = await open(`${home}/live`)
    await page.getByText('Watching.').waitFor()
    const ended = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/live'))
    // A headless browser has no tab that hides another one.
    const show = async (state: string): Promise<void> => await page.evaluate((state) => {
      const { document, Event } = globalThis as any
      Object.defineProperty(document, 'visibilityState', { value: state, configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))
    }, state)

    await show('hidden')

    await page.getByText('Stopped while the page is hidden.').waitFor()
    await ended
    await send(stack, [{ event: 'unseen' }])
    await waitFor(async () => (await stack.select("SELECT 1 FROM events WHERE event = 'unseen'")).length > 0)
    await show('visible')
    await page.getByText('Watching.').waitFor()
    await waitFor(async () => {
      await send(stack, [{ event: 'seen again' }])
      return await page.locator('.live tbody tr').filter({ hasText: 'seen again' }).count() > 0
    })
    t.equal(await page.locator('.live tbody tr').filter({ hasText: 'unseen' }).count(), 0)
    t.same(problems, [])
    await page.close()
  })

  await t.test('the screens are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
    await checkScreens(t, screens, [`${home}/live`, `${home}/find`])
  })
})
