import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createRequire } from 'node:module'
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import chromium from '@sparticuz/chromium'
import { type Browser, chromium as browserType, type Page } from 'playwright-core'
import { createShared } from '../support/process-end.ts'
import { PATIENCE_MS } from '../support/wait-for.ts'

const require = createRequire(import.meta.url)

/** A page with unmodified posthog-js in a real headless Chromium. */
export interface SdkPage {
  page: Page
  /** Of the page; any other path of its server shows the same page. */
  url: string
  /** Errors and warnings of the console, exceptions, and requests that failed or were answered 400 and above. */
  problems: string[]
  close (): Promise<void>
}

export interface PageOptions {
  /** What the page has in its head; by default the whole SDK in one script, not initialised. */
  head?: string
  /** Files of npm packages that the page may load, by path: `/sdk.js` and `posthog-js/dist/module.js`. */
  files?: Record<string, string>
  /** Scripts by path, as they are. */
  scripts?: Record<string, string>
  /** What the browser says it is; by default the truth. */
  userAgent?: string
}

const WHOLE_SDK: PageOptions = {
  head: '<script src="/posthog.js"></script>',
  files: { '/posthog.js': 'posthog-js/dist/array.full.no-external.js' }
}

/**
 * Arguments of its package that are left out: in one process a crash of any part of the browser is one of the whole,
 * and a graphics card imitated by software costs a third of all its processor time, for pages without WebGL.
 */
const UNUSED_ARGS = /^--(single-process|ignore-gpu-blocklist|use-gl=|use-angle=|enable-unsafe-swiftshader)/
/** The pages of a context share a process: one for each would compile the same scripts again. */
const BROWSER_ARGS = [
  ...chromium.args.filter((arg) => !UNUSED_ARGS.test(arg)),
  '--disable-gpu', '--process-per-site', '--renderer-process-limit=1',
  '--no-first-run', '--disable-background-networking', '--disable-component-update'
]

/**
 * Serves a small page with posthog-js on a free port and opens it as a new visitor.
 *
 * @param shared  Default: a browser of its own.
 * @throws when the browser does not start; nothing is left then.
 */
export async function openPage (options: PageOptions = WHOLE_SDK, shared?: Browser): Promise<SdkPage> {
  await using opened = new AsyncDisposableStack()
  const server = await serveShop(options)
  opened.defer(() => {
    server.closeAllConnections()
    server.close()
  })
  const own = shared === undefined ? await openBrowser() : undefined
  if (own !== undefined) opened.defer(own.close)
  const browser = own?.browser ?? shared!
  const page = await browser.newPage(options.userAgent === undefined ? {} : { userAgent: options.userAgent })
  // With its cookies and its cache.
  opened.defer(async () => await page.close())
  const problems = collectProblems(page)
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/shop`
  await page.goto(url)
  const all = opened.move()
  return { page, url, problems, close: async () => await all.disposeAsync() }
}

/** One browser for all files of a process. */
export const shareBrowser = createShared(async () => {
  const { browser, close } = await openBrowser()
  return { value: browser, close }
})

/** A real headless Chromium, without a page. */
export async function openBrowser (): Promise<{ browser: Browser, close: () => Promise<void> }> {
  await using opened = new AsyncDisposableStack()
  // A process of the browser that is ended at the wrong moment leaves a file.
  const temporary = await mkdtemp(path.join(tmpdir(), 'millrace-browser-'))
  opened.defer(async () => await rm(temporary, { recursive: true, force: true, maxRetries: 3 }))
  const browser = await startBrowser(temporary)
  opened.defer(async () => await browser.close())
  browser.on('context', (context) => { context.setDefaultTimeout(PATIENCE_MS) })
  const all = opened.move()
  return { browser, close: async () => await all.disposeAsync() }
}

/** A browser that crashes while it starts, which was seen once, says nothing about Millrace: it is started again. */
async function startBrowser (temporary: string): Promise<Browser> {
  const options = {
    executablePath: await unpackBrowser(),
    args: BROWSER_ARGS,
    ignoreDefaultArgs: ['--enable-unsafe-swiftshader'],
    headless: true,
    env: {
      ...process.env,
      TMPDIR: temporary,
      LD_LIBRARY_PATH: path.join(FOLDER, 'al2023', 'lib'),
      // A machine without fonts has the one of the package.
      ...existsSync('/etc/fonts') ? {} : { FONTCONFIG_PATH: path.join(FOLDER, 'fonts') }
    }
  }
  return await browserType.launch(options).catch(async (error: unknown) => {
    process.stderr.write(`the browser did not start and is started again: ${String(error)}\n`)
    return await browserType.launch(options)
  })
}

function collectProblems (page: Page): string[] {
  const problems: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) problems.push(`${message.type()}: ${message.text()} (${message.location().url})`)
  })
  page.on('pageerror', (error) => { problems.push(`exception: ${error.message}`) })
  page.on('requestfailed', (request) => {
    const reason = request.failure()?.errorText
    // A page that is left ends what it still reads; what it sends at that moment arrives, and is called aborted, too.
    if (reason !== 'net::ERR_ABORTED') problems.push(`failed: ${request.url()} ${reason}`)
  })
  page.on('response', (response) => {
    if (response.status() >= 400) problems.push(`${response.status()}: ${response.url()}`)
  })
  return problems
}

async function serveShop ({ head = '', files = {}, scripts = {} }: PageOptions): Promise<Server> {
  const contents = new Map<string, string | Buffer>(Object.entries(scripts))
  for (const [url, file] of Object.entries(files)) contents.set(url, await readFile(findFile(file)))
  const server = createServer((request, response) => {
    const file = contents.get(request.url ?? '')
    if (file !== undefined) {
      response.writeHead(200, { 'content-type': 'text/javascript' }).end(file)
    } else if (request.url === '/favicon.ico') {
      response.writeHead(204).end()
    } else {
      response.writeHead(200, { 'content-type': 'text/html' })
        .end(`<!doctype html><title>Shop</title>${head}<h1>Shop</h1><button id="buy">Buy</button>`)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

/** A file of an npm package, whatever of it the package lets others import. */
function findFile (file: string): string {
  const [, name = '', rest = ''] = /^((?:@[^/]+\/)?[^/]+)\/(.*)$/.exec(file) ?? []
  return path.join(path.dirname(require.resolve(`${name}/package.json`)), rest)
}

const run = promisify(execFile)

/** The package unpacks into the folder for temporary files. */
const UNPACK = "await (await import('@sparticuz/chromium')).default.executablePath()"

/** Where it believes to be in, it unpacks the libraries of the browser, too, which a bare machine lacks. */
const WITH_LIBRARIES = { AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x' }

/** Among the leftovers of test runs, which git ignores; by version, so that an update is unpacked again. */
const FOLDER = path.join(import.meta.dirname, '..', '..', '.tap', `chromium-${readVersion()}`)

/**
 * Path of the browser, which its package brings compressed: it is unpacked by the first test that asks for it.
 *
 * The package would unpack it into the folder for temporary files and take the file for whole as soon as it exists,
 * while another test is still writing it. Here the whole folder gets its name when it is complete.
 */
async function unpackBrowser (): Promise<string> {
  if (!existsSync(FOLDER)) await unpackInto(FOLDER)
  return path.join(FOLDER, 'chromium')
}

async function unpackInto (folder: string): Promise<void> {
  await mkdir(path.dirname(folder), { recursive: true })
  const unfinished = await mkdtemp(`${folder}-`)
  try {
    // In a process of its own: what starts meanwhile in this one would put its files into a folder that is renamed.
    await run(process.execPath, ['--input-type=module', '--eval', UNPACK], {
      cwd: import.meta.dirname, env: { ...process.env, TMPDIR: unfinished, ...WITH_LIBRARIES }
    })
    // Instead of folders that the package cannot know here.
    await writeFile(path.join(unfinished, 'fonts', 'fonts.conf'), `<fontconfig><dir>${folder}/fonts</dir></fontconfig>\n`)
    await rename(unfinished, folder)
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true })
    // Another test was faster.
    if (!existsSync(folder)) throw error
  }
}

function readVersion (): string {
  const require = createRequire(import.meta.url)
  const main = require.resolve('@sparticuz/chromium')
  return (require(path.join(main, '..', '..', '..', 'package.json')) as { version: string }).version
}
