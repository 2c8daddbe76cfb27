/** The console in a real browser against the real stack, for the tests of its screens. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Browser, BrowserContext, Locator, Page, Request } from 'playwright-core'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { createStackProject, type RunningStack, type Stack, type StackProject, startStackOnSharedStores } from '../start-stack.ts'
import { shareBrowser } from '../sdk/open-page.ts'
import type { TestContext } from '../support/test-context.ts'
import { waitFor } from '../support/wait-for.ts'

/** Names that would do something if they were not shown as text. */
export const HOSTILE = [
  '<img src=x onerror="globalThis.hacked=1">', '"><script>globalThis.hacked=1</script>', "javascript:alert('x')",
  '\u202egnp.exe', 'zero\u200bwidth', '{{constructor.constructor("globalThis.hacked=1")()}}', 'long '.repeat(70)
]

/** A page that notes what must not happen: errors in its console and requests to other origins. */
export interface Watched {
  page: Page
  problems: string[]
  requests: PageRequests
}

/** Requests of a page so far, without the live feed, which stays open. */
export interface PageRequests {
  started: number
  /** Those whose answer has not ended. */
  awaited: number
}

export interface ConsoleUnderTest<S extends RunningStack = RunningStack> {
  stack: S
  browser: Browser
  /** Logged in with the key of the administrator. */
  context: BrowserContext
  /** Opens a screen as the administrator. */
  open: (path: string) => Promise<Watched>
}

/** On the stack that the tests of a run share. */
export interface ProjectUnderTest extends ConsoleUnderTest<StackProject> {
  /** Path of the screens of its project, below `/console`. */
  home: string
}

/**
 * The console on a project of its own, on the stack and in the browser that tests share: for what one project has. With
 * a key of its own, too: one key runs two queries at once, and files that run side by side would refuse each other.
 */
export async function openProject (t: TestContext): Promise<ProjectUnderTest> {
  const screens = await openConsoleOf(t, createStackProject(t).then(async (stack) => {
    const { key } = await createPersonalKey(stack.sql, {
      email: 'admin@millrace.localhost', label: 'first key', scopes: ['*'], projectIds: null, expiresAt: null
    })
    return { ...stack, personalApiKey: key }
  }))
  return { ...screens, home: `/projects/${screens.stack.project}` }
}

/**
 * The console on a stack of its own, for what shows the whole installation.
 *
 * @param env  Further settings of the stack.
 */
export async function openConsole (t: TestContext, env: Record<string, string> = {}): Promise<ConsoleUnderTest<Stack>> {
  return await openConsoleOf(t, startStackOnSharedStores(t, env))
}

/** The same for a stack that is started otherwise. */
export async function openConsoleOf<S extends RunningStack> (
  t: TestContext, starting: Promise<S>
): Promise<ConsoleUnderTest<S>> {
  const [stack, browser] = await Promise.all([starting, shareBrowser(t)])
  const context = await browser.newContext()
  t.teardown(async () => { await context.close() })
  const { page } = await openPage(context, stack.url, '')
  await logIn(page, stack.personalApiKey)
  await page.close()
  return { stack, browser, context, open: async (path) => await openPage(context, stack.url, path) }
}

/** Opens an address of the console, with any login. */
export async function openPage (context: BrowserContext, url: string, path: string): Promise<Watched> {
  const page = await context.newPage()
  const problems: string[] = []
  page.on('console', (message) => { if (message.type() === 'error') problems.push(`${message.text()} ${message.location().url}`) })
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) problems.push(`request to ${request.url()}`)
  })
  const requests = countRequests(page)
  await page.goto(`${url}/console${path}`)
  return { page, problems, requests }
}

function countRequests (page: Page): PageRequests {
  const awaited = new Set<Request>()
  const requests = { started: 0, get awaited () { return awaited.size } }
  page.on('request', (request) => {
    if (new URL(request.url()).pathname.endsWith('/events/live')) return
    requests.started++
    awaited.add(request)
  })
  page.on('requestfinished', (request) => awaited.delete(request))
  page.on('requestfailed', (request) => awaited.delete(request))
  return requests
}

/** For longer than a click or an answer takes to become the next request, or to be drawn. */
const QUIET_MS = 450

/**
 * Waits until a page awaits no answer and what it shows stays as it is. A screen with several requests may show the
 * failure of one, and no notice of loading, while another is still awaited: neither its text nor a pause tells that all
 * have been answered.
 */
export async function settle ({ page, requests }: Watched): Promise<{ text: string, isFailed: boolean }> {
  const main = page.locator('main')
  let text = ''
  const isSettled = async (): Promise<boolean> => {
    const before = { started: requests.started, text: await main.innerText() }
    // By the clock of the page, which on a busy machine draws and asks later than the test expects.
    await page.evaluate(`new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, ${QUIET_MS})))`)
    text = await main.innerText()
    // The browser may have an answer that a busy page has not drawn.
    const isLoading = /Loading [^…]* …/.test(text)
    return requests.awaited === 0 && requests.started === before.started && text === before.text && text.trim() !== '' && !isLoading
  }
  await waitFor(isSettled).catch((cause: unknown) => {
    throw new Error(`${page.url()} still awaits ${requests.awaited} answers: ${text}`, { cause })
  })
  return { text, isFailed: await page.locator('.failed').count() > 0 }
}

/** The longest look for what a page may not know yet, in milliseconds. */
const LONGEST_LOOK_MS = 15_000

/** Waits until a page has settled without a failure, pressing what offers to try again. */
export async function recover (watched: Watched): Promise<void> {
  const { page } = watched
  let lookMs = 500
  await waitFor(async () => {
    lookMs = Math.min(2 * lookMs, LONGEST_LOOK_MS)
    // What is pressed may be gone meanwhile, because the screen has asked again by itself.
    for (const button of await page.getByRole('button', { name: 'Try again' }).all()) await button.click({ timeout: lookMs }).catch(() => {})
    return !(await settle(watched)).isFailed
  }).catch(async (cause: unknown) => { throw new Error(`${page.url()}: ${await page.locator('main').innerText()}`, { cause }) })
}

export async function logIn (page: Page, key: string): Promise<void> {
  await page.getByLabel('Personal API key').fill(key)
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Log out' }).waitFor()
}

/** Waits until a dialog is gone and the focus is back where it was, which is a frame later. */
export async function whenClosed (dialog: Locator): Promise<void> {
  await dialog.waitFor({ state: 'detached' })
  await dialog.page().locator('body :focus').waitFor({ state: 'attached' })
}

/**
 * Asks again, such as by loading the page, until it shows all of something. Each look is longer than the one before:
 * a page that does not know it yet is asked soon again, and a slow machine gets its time.
 */
export async function askUntil (ask: () => Promise<unknown>, ...shown: Locator[]): Promise<void> {
  let lookMs = 300
  await waitFor(async () => {
    await ask()
    lookMs = Math.min(2 * lookMs, LONGEST_LOOK_MS)
    for (const each of shown) await each.first().waitFor({ timeout: lookMs })
    return true
  })
}

export interface SentEvent { event: string, distinct_id?: string, properties?: object }

/** Sends events as an SDK does; the distinct id is `ann` by default. */
export async function send (
  stack: RunningStack, events: SentEvent[], key: string = stack.projectApiKey
): Promise<void> {
  const post = async (): Promise<Response> => await fetch(`${stack.url}/batch/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: key, batch: events.map((event) => ({ distinct_id: 'ann', ...event })) })
  })
  // A project that was just made is known to ingest within a second.
  const response = key === stack.projectApiKey
    ? await waitFor(async () => await post().then((each) => each.status === 401 ? undefined : each))
    : await post()
  if (response.ok) return
  // Why it was refused is for operators: only the log says it.
  const log = await readFile(path.join(stack.dataDir, 'logs', 'ingest.log'), 'utf8').catch(String)
  throw new Error(`capture answered ${response.status}: ${await response.text()}\ningest logged:\n${log.slice(-5000)}`)
}

const AXE = await readFile(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

/**
 * What axe finds on a page: the rule and the element, none when all is well.
 *
 * @param rules  Its only rules; none: all. Another colour scheme changes nothing but contrasts.
 */
export async function findBarriers (page: Page, rules: readonly string[] = []): Promise<string[]> {
  if (await page.evaluate(() => (globalThis as any).axe === undefined)) await page.evaluate(AXE)
  return await page.evaluate(async (rules) => {
    // Described are only violations: a large page has thousands of elements in which all is well.
    const options = { resultTypes: ['violations'], ...rules.length > 0 && { runOnly: { type: 'rule', values: rules } } }
    const { violations } = await (globalThis as any).axe.run(options)
    return violations.map(({ id, nodes }: any) => `${id}: ${nodes[0]?.html}`)
  }, rules)
}

/** True when something of what a page shows was run. */
export async function wasHacked (page: Page): Promise<boolean> {
  return await page.evaluate(() => (globalThis as any).hacked !== undefined)
}

/** Elements that reach beyond the right edge of the content, though nothing around them scrolls or is cut. */
async function findOverhang (page: Page): Promise<string[]> {
  return await page.evaluate(() => {
    const { document, getComputedStyle } = globalThis as any
    const main = document.querySelector('main')
    const end = main.getBoundingClientRect().right - parseFloat(getComputedStyle(main).paddingRight)
    const isCut = (element: any): boolean => {
      for (let each = element.parentElement; each !== main && each !== null; each = each.parentElement) {
        if (getComputedStyle(each).overflowX !== 'visible') return true
      }
      return false
    }
    return [...main.querySelectorAll('*')]
      // A dialog lies over the content.
      .filter((element: any) => element.closest('dialog') === null)
      .filter((element: any) => {
        const { right, width } = element.getBoundingClientRect()
        // What is for screen readers alone is a pixel wide.
        return right > end + 1 && width > 1 && !isCut(element)
      })
      .map((element: any) => element.outerHTML.slice(0, 120))
  })
}

interface Checked extends TestContext {
  ok: (value: unknown, message: string) => unknown
  same: (found: unknown, wanted: unknown, message: string) => unknown
}

/** Checks screens as {@link checkPage} does. */
export async function checkScreens (t: Checked, { open }: Pick<ConsoleUnderTest, 'open'>, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const { page, problems } = await open(path)
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.locator('table:visible, .empty, .stages, form, pre, .reason').first().waitFor()
    await checkPage(t, page, path)
    t.same(problems, [], path)
    await page.close()
  }
}

/** Checks a page with axe in light and dark, and that it fits from 360 to 2,560 pixels. */
export async function checkPage (t: Checked, page: Page, what: string): Promise<void> {
  for (const [colorScheme, width] of [['light', 360], ['dark', 1280], [null, 2560], [null, 640]] as const) {
    await page.setViewportSize({ width, height: 900 })
    if (colorScheme !== null) {
      // Colours that are on their way to the other scheme have a contrast of neither.
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      t.same(await findBarriers(page, colorScheme === 'dark' ? ['color-contrast'] : []), [], `${what} ${colorScheme} ${width}`)
    }
    t.ok(await page.evaluate(() => (globalThis as any).document.documentElement.scrollWidth <= (globalThis as any).innerWidth), `${what} fits ${width}`)
    t.same(await findOverhang(page), [], `${what}: nothing sticks out at ${width}`)
  }
}
