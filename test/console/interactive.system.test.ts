/** Every screen of the menu is there with nothing in the browser's cache, after few requests. */
import t from 'tap'
import { openPage, openProject, send } from './open-console.ts'

/** Of the page, its parts, and what it shows. How long they take, only a quiet machine can say. */
const MAX_REQUESTS = 25

t.test('every screen is interactive after few requests', async (t) => {
  const { stack, browser, context, open } = await openProject(t)
  await send(stack, ['paid', 'left'].map((event) => ({ event, properties: { $lib: 'web', plan: 'pro' } })))
  const { page } = await open('')
  const links = page.getByRole('navigation').getByRole('link')
  await links.first().waitFor()
  const paths = await links.evaluateAll((found) => found.map((link: any) => link.pathname.replace('/console', '') as string))
  await page.close()
  const storageState = await context.storageState()

  t.equal(paths.length, 28)
  for (const path of paths) {
    const cold = await browser.newContext({ storageState })
    await cold.addInitScript(noteInteractive)
    const requests: string[] = []
    cold.on('request', (request) => requests.push(new URL(request.url()).pathname))
    const { page, problems } = await openPage(cold, stack.url, path)
    await page.evaluate(() => (globalThis as any).interactive as Promise<void>)
    t.ok(requests.length <= MAX_REQUESTS, `${path}: ${requests.join(' ')}`)
    t.same(problems, [])
    await cold.close()
  }
})

/** Notes when the screen is there and the page has nothing left to do; runs in the page before any other script. */
function noteInteractive (): void {
  const { document, MutationObserver, requestIdleCallback } = globalThis as any
  ;(globalThis as any).interactive = new Promise<void>((resolve) => {
    const observer = new MutationObserver(() => {
      if (document.querySelector('main h1') === null || document.querySelector('nav a[aria-current="page"]') === null) return
      observer.disconnect()
      requestIdleCallback(() => resolve())
    })
    observer.observe(document, { childList: true, subtree: true, attributes: true })
  })
}
