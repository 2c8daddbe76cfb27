/** Unmodified posthog-js in Chromium, on pages of another origin, with nothing switched off. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { build } from 'esbuild'
import t, { type Test } from 'tap'
import { createStackProject, waitUntilKnown } from '../start-stack.ts'
import { PATIENCE_MS, waitFor } from '../support/wait-for.ts'
import { openPage, type PageOptions, type SdkPage, shareBrowser } from './open-page.ts'

const stack = await createStackProject(t)
const { project } = stack
await waitUntilKnown(stack)

/** `opt_out_useragent_filter`: the SDK keeps quiet in automated browsers otherwise. */
const OPTIONS = { api_host: stack.url, defaults: '2026-01-30', opt_out_useragent_filter: true }

/** The snippet of the documentation, with the host and the key of the stack. */
async function readSnippet (options: object): Promise<string> {
  const page = await readFile(path.join(import.meta.dirname, '..', '..', 'docs', 'send', 'connect-browser.md'), 'utf8')
  const [snippet = ''] = /<script>.*?<\/script>/s.exec(page) ?? []
  return snippet.replace(/posthog\.init\('<project key>', \{.*\}\)/, initCall(options))
}

function initCall (options: object): string {
  return `posthog.init('${stack.projectApiKey}', ${JSON.stringify({ ...OPTIONS, ...options })})`
}

function fromNpm (options: object): PageOptions {
  const script = `import posthog from '/module.js'; window.posthog = posthog; ${initCall(options)}`
  return {
    head: `<script type="module">${script}</script>`,
    files: { '/module.js': 'posthog-js/dist/module.js', '/module.js.map': 'posthog-js/dist/module.js.map' }
  }
}

async function open (t: Test, options: PageOptions): Promise<SdkPage> {
  const opened = await openPage(options, await shareBrowser(t))
  t.teardown(opened.close)
  await untilLoaded(opened)
  return opened
}

async function untilLoaded ({ page }: SdkPage): Promise<void> {
  await page.waitForFunction(() => (globalThis as any).posthog?.__loaded === true)
}

/** Calls a method of the SDK in the page. */
async function call ({ page }: SdkPage, method: string, ...sent: unknown[]): Promise<unknown> {
  return await page.evaluate(([method, sent]) => {
    const { posthog } = globalThis as any
    return posthog[method as string](...sent as unknown[])
  }, [method, sent] as const)
}

/** Scripts of the SDK that the page has loaded, sorted, once there are as many. */
async function loadedScripts ({ page }: SdkPage, count: number): Promise<string[]> {
  let scripts: string[] = []
  await waitFor(async () => {
    const urls: string[] = await page.evaluate(() =>
      (globalThis as any).performance.getEntriesByType('resource').map(({ name }: any) => name))
    scripts = urls.filter((url) => url.includes('/static/')).map((url) => url.slice(stack.url.length)).sort()
    return scripts.length >= count
  })
  return scripts
}

/** How often each event of a visit is stored, once all of `expected` are. */
async function storedEvents (user: string, expected: Record<string, number>): Promise<Record<string, number>> {
  let rows: { event: string, times: number, uuids: number }[] = []
  await waitFor(async () => {
    rows = await stack.select(
      `SELECT event, toUInt32(count()) AS times, toUInt32(uniqExact(uuid)) AS uuids FROM events
       WHERE project_id = {project:UInt32} AND session_id IN (SELECT session_id FROM events WHERE distinct_id = {user:String})
       GROUP BY event ORDER BY event`, { project, user })
    const timesOf = (name: string): number => rows.find(({ event }) => event === name)?.times ?? 0
    return Object.entries(expected).every(([name, times]) => timesOf(name) >= times)
  }).catch(() => {})
  return Object.fromEntries(rows.map(({ event, times, uuids }) => [event, times === uuids ? times : -1]))
}

/**
 * Identifies the visitor, and waits until that is stored.
 *
 * The SDK compresses an event, which takes a moment, and then fetches: `$identify` at once, what is queued every three
 * seconds. A page left in that moment takes the event with it, before anything was sent.
 */
async function identify (opened: SdkPage, user: string, properties: object = {}): Promise<void> {
  await call(opened, 'identify', user, properties)
  await storedEvents(user, { $identify: 1 })
}

/** A visit: a page view, a click, an event, an identification, a flag, and a second page. */
async function visit (opened: SdkPage, user: string): Promise<void> {
  const { page } = opened
  await page.click('#buy')
  await identify(opened, user, { plan: 'pro' })
  await call(opened, 'capture', 'plan chosen', { plan: 'pro' })
  await page.waitForFunction(() => (globalThis as any).posthog.featureFlags.hasLoadedFlags)
  await storedEvents(user, { 'plan chosen': 1 })
  await page.goto(new URL('/checkout', opened.url).href)
  await untilLoaded(opened)
  await storedEvents(user, { $pageview: 2 })
  await call(opened, 'capture', 'order paid')
  // Events queued when a page is left go by `sendBeacon`. The queue was emptied a moment ago.
  await page.goto('about:blank')
}

/** The two `$set` are the SDK's own: it marks visitors of a page at 127.0.0.1 as internal, at each loading. */
const VISITED = {
  $set: 2, $pageview: 2, $autocapture: 1, $identify: 1, 'plan chosen': 1, 'order paid': 1, $pageleave: 2
}

for (const [name, options] of Object.entries({
  'the snippet': async () => ({ head: await readSnippet({}) }),
  'the snippet that loads configuration and SDK in one': async () => ({
    head: (await readSnippet({})).replace("'/static/array.js'", `'/array/${stack.projectApiKey}/array.js'`)
  }),
  'posthog-js from npm': async () => fromNpm({})
})) {
  t.test(`${name}: no error, no failed request, each event of a visit stored once`, async (t) => {
    const opened = await open(t, await options())

    await visit(opened, name)

    t.same(await storedEvents(name, VISITED), VISITED)
    t.same(opened.problems, [])
  })
}

/** Puts the clock of a page back by an hour, before anything else of it runs. */
const HOUR_BEHIND = `<script>{
  const { now } = Date
  const behind = () => now() - 3_600_000
  globalThis.Date = class extends Date {
    constructor (...parts) { super(...(parts.length === 0 ? [behind()] : parts)) }
    static now () { return behind() }
  }
}</script>`

t.test('a clock that is an hour behind: events have their true time, at the first attempt and after a retry', async (t) => {
  const opened = await open(t, { head: HOUR_BEHIND + await readSnippet({}) })
  await identify(opened, 'hour behind')
  const attempts: string[] = []
  await opened.page.route((url) => url.pathname.endsWith('/e/'), async (route) => {
    const isFirst = attempts.push(route.request().url()) === 1
    if (isFirst) await route.fulfill({ status: 503 })
    else await route.continue()
  })
  const happenedAt = Date.now()
  await call(opened, 'capture', 'retried')

  await storedEvents('hour behind', { $pageview: 1, $identify: 1, $set: 1, retried: 1 })
  const rows = await stack.select<{ event: string, ms: number }>(
    "SELECT event, toFloat64(toUnixTimestamp64Milli(timestamp)) AS ms FROM events WHERE project_id = {project:UInt32} AND distinct_id = 'hour behind' AND event IN ('$identify', 'retried')", { project })
  const times = Object.fromEntries(rows.map(({ event, ms }) => [event, ms - happenedAt]))

  t.match(attempts[1], /retry_count=1/)
  // To a busy machine, against an hour.
  t.ok(Math.abs(times.retried ?? NaN) < 60_000, `the event that was sent twice: ${times.retried} ms`)
  t.ok(Math.abs(times.$identify ?? NaN) < 60_000, `the one sent at once: ${times.$identify} ms`)
})

t.test('what a page switches on by itself is loaded and stored', async (t) => {
  const options = { capture_exceptions: true, capture_dead_clicks: true, capture_performance: { web_vitals: true } }
  const opened = await open(t, { head: await readSnippet(options) })
  const scripts = await loadedScripts(opened, 4)

  await identify(opened, 'switched on')
  // A script that is loaded may not have run yet.
  await opened.page.waitForFunction(() => typeof (globalThis as any).onerror === 'function', undefined, { timeout: PATIENCE_MS })
  await opened.page.evaluate(() => { setTimeout(() => { throw new Error('thrown by the page') }) })
  await waitFor(() => opened.problems.length > 0)
  await storedEvents('switched on', { $exception: 1 })
  await opened.page.goto('about:blank')

  const stored = await storedEvents('switched on', { $exception: 1, $pageview: 1, $identify: 1, $pageleave: 1 })
  t.match(stored, { $exception: 1, $pageview: 1 })
  t.match(scripts, [
    /dead-clicks-autocapture\.js$/, /exception-autocapture\.js$/, /web-vitals[\w-]*\.js$/, '/static/array.js'
  ])
  t.same(opened.problems, ['exception: thrown by the page'])
})

t.test('scripts are loaded under the addresses that older versions of the SDK use', async (t) => {
  const options = { capture_exceptions: true, strict_script_versioning: false }
  const opened = await open(t, { head: await readSnippet(options) })

  t.match(await loadedScripts(opened, 2), ['/static/array.js', /^\/static\/exception-autocapture\.js\?v=\d+\.\d+\.\d+$/])
  t.same(opened.problems, [])
})

t.test('visitors without cookies are distinguished, and nothing of them is kept in the browser', async (t) => {
  const storedOf = async (userAgent: string, count: number): Promise<void> => {
    await waitFor(async () => (await stack.select(
      "SELECT 1 FROM events WHERE project_id = {project:UInt32} AND event = 'looked around' AND JSONExtractString(properties, 'userAgent') = {userAgent:String}",
      { project, userAgent })).length === count)
  }
  const visits = await Promise.all(['Firefox on a telephone', 'Safari on a desk'].map(async (userAgent) => {
    const opened = await open(t, { head: await readSnippet({ cookieless_mode: 'always' }), userAgent })
    await call(opened, 'capture', 'looked around', { userAgent })
    await storedOf(userAgent, 1)
    await opened.page.goto(new URL('/checkout', opened.url).href)
    await untilLoaded(opened)
    await call(opened, 'capture', 'looked around', { userAgent })
    await storedOf(userAgent, 2)
    const kept: number = await opened.page.evaluate(() => {
      const { localStorage, sessionStorage, document } = globalThis as any
      return localStorage.length + sessionStorage.length + document.cookie.length
    })
    await opened.page.goto('about:blank')
    return { ...opened, kept }
  }))

  const rows = await stack.select<{ userAgent: string, events: number, ids: string[] }>(
    `SELECT JSONExtractString(properties, 'userAgent') AS userAgent, toUInt32(count()) AS events,
      groupUniqArray(distinct_id) AS ids, any(ip) AS address, any(JSONHas(properties, '$raw_user_agent')) AS hasUserAgent
      FROM events WHERE project_id = {project:UInt32} AND event = 'looked around' GROUP BY userAgent ORDER BY userAgent`, { project })

  t.match(rows, [
    { userAgent: 'Firefox on a telephone', events: 2, ids: [/^cookieless_[\w-]{22}$/], address: '', hasUserAgent: 0 },
    { userAgent: 'Safari on a desk', events: 2, ids: [/^cookieless_[\w-]{22}$/], address: '', hasUserAgent: 0 }
  ])
  t.same(rows.map(({ ids }) => ids.length), [1, 1])
  t.not(rows[0]?.ids[0], rows[1]?.ids[0])
  t.same(visits.map(({ kept }) => kept), [0, 0])
  t.same(visits.flatMap(({ problems }) => problems), [])
})

t.test('what waits in the queue of posthog-js when a page is reloaded goes by sendBeacon, once', async (t) => {
  const opened = await open(t, { head: await readSnippet({}) })
  await opened.page.evaluate(() => {
    const { navigator, sessionStorage } = globalThis as any
    const send = navigator.sendBeacon.bind(navigator)
    // What the old page notes is there for the new one to read.
    navigator.sendBeacon = (url: string, body: unknown) => {
      sessionStorage.beacons = `${sessionStorage.beacons ?? ''} ${url}`
      return send(url, body)
    }
  })
  await identify(opened, 'beacon')
  // The queue was emptied a moment ago, which it is every three seconds: what comes now waits for the reload.
  await storedEvents('beacon', { $identify: 1, $pageview: 1, $set: 1 })
  await call(opened, 'capture', 'left behind')

  await opened.page.reload()
  await untilLoaded(opened)
  const beacons: string = await opened.page.evaluate(() => (globalThis as any).sessionStorage.beacons)
  await storedEvents('beacon', { $pageview: 2 })
  await call(opened, 'capture', 'after the reload')
  await opened.page.goto('about:blank')

  const expected = { $identify: 1, $pageview: 2, 'after the reload': 1, 'left behind': 1 }
  t.match(await storedEvents('beacon', { ...expected, $pageleave: 2, $set: 2 }), expected)
  t.match(beacons, `${stack.url}/e/`)
  t.same(opened.problems, [])
})

t.test('posthog-js-lite keeps its queue over a reload, and every event is stored once', async (t) => {
  const { outputFiles: [bundle] } = await build({
    stdin: { contents: "import PostHog from 'posthog-js-lite'; globalThis.PostHog = PostHog", resolveDir: import.meta.dirname },
    bundle: true, format: 'iife', write: false, logLevel: 'silent'
  })
  const options = { host: stack.url, flushAt: 100, flushInterval: 600_000 }
  const start = `globalThis.posthog = new PostHog('${stack.projectApiKey}', ${JSON.stringify(options)})`
  const opened = await openPage({
    head: `<script src="/lite.js"></script><script>${start}</script>`, scripts: { '/lite.js': bundle?.text ?? '' }
  }, await shareBrowser(t))
  t.teardown(opened.close)
  await call(opened, 'identify', 'lite')
  await call(opened, 'capture', 'before the reload', { amount: 12.5 })

  await opened.page.reload()
  await call(opened, 'capture', 'after the reload')
  await call(opened, 'flush')

  const rows = await waitFor(async () => {
    const rows = await stack.select<{ event: string, times: number }>(
      'SELECT event, toUInt32(count()) AS times FROM events WHERE project_id = {project:UInt32} AND distinct_id = \'lite\' GROUP BY event ORDER BY event', { project })
    return rows.length >= 3 && rows
  })
  t.same(rows, [
    { event: '$identify', times: 1 }, { event: 'after the reload', times: 1 }, { event: 'before the reload', times: 1 }
  ])
  t.same(opened.problems, [])
})

t.test('a path that nobody serves is 404 in the console, not a matter of origins', async (t) => {
  const opened = await open(t, { head: '<script>posthog = { __loaded: true }</script>' })
  const paths = ['/static/nobody.js', '/array/nobody/x.js', '/api/surveys/?token=x', '/s/', '/nowhere']

  const statuses = await opened.page.evaluate(async ([host, ...paths]) =>
    await Promise.all(paths.map(async (path) => (await fetch(`${host}${path}`)).status)), [stack.url, ...paths])

  t.same(statuses, [404, 404, 404, 404, 404])
})

t.end()
