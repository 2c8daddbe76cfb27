import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { BuildOptions, BuildResult, SameShape } from 'esbuild'

/** A file of the console, as it is served. */
export interface Asset {
  contentType: string
  /**
   * The file by content encoding; `identity` is uncompressed. Brotli would save 4 % more, and cost 40 ms of CPU a file
   * whenever the API starts.
   */
  encodings: { identity: Uint8Array, gzip: Uint8Array }
}

export interface Assets {
  /** Name with a hash of the content, such as `main-3FQ2.js`: it never changes its content. */
  files: Map<string, Asset>
  /** The page that loads them. */
  page: string
}

const WEB = path.join(import.meta.dirname, '..', 'web')

/** Named by its path, so that type stripping and the bundler agree on what it is. */
const ENTRY = path.join(WEB, 'main.tsx')

const CONTENT_TYPES: Record<string, string> = { '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8' }

/** Icon of the console: two bars of a mill, drawn here so that no further request is needed. */
const ICON = 'data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 16 16%22%3E%3Crect width=%2216%22 height=%2216%22 rx=%223%22 fill=%22%230b6e4f%22/%3E' +
  '%3Cpath d=%22M3 11q2.500-6 5 0t5-6%22 fill=%22none%22 stroke=%22%23fff%22 stroke-width=%222%22/%3E%3C/svg%3E'

/** The page, and the text of its files by name. */
export interface Bundle {
  page: string
  files: Record<string, string>
}

/** In the package, where `npm pack` writes it as JSON; the sources have none, which could be old. */
export const BUNDLED = 'console/server/bundled-assets.json'

const BUNDLED_FILE = path.join(import.meta.dirname, path.basename(BUNDLED))

/** The console as the package has it, else bundled now. @throws when the sources do not compile. */
export async function loadAssets (): Promise<Assets> {
  const written = await readFile(BUNDLED_FILE, 'utf8').catch(() => null)
  const { page, files } = written === null ? await bundleConsole() : JSON.parse(written) as Bundle
  return {
    page,
    files: new Map(await Promise.all(Object.entries(files).map(async ([name, text]) =>
      [name, await compress(path.extname(name), Buffer.from(text))] as const)))
  }
}

/**
 * Bundles the console in memory: one file for what every screen needs, one for each screen. Takes some 200 ms on an
 * idle machine, and 16 s on a busy one; nothing is written.
 *
 * @throws when the sources do not compile.
 */
export async function bundleConsole (): Promise<Bundle> {
  const { outputFiles, metafile } = await runBundler({
    entryPoints: [ENTRY],
    bundle: true,
    splitting: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    write: false,
    metafile: true,
    outdir: path.join(WEB, 'dist'),
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    loader: { '.sql': 'text' },
    // Browsers have their own.
    alias: { 'temporal-polyfill': path.join(WEB, 'browser-temporal.ts') },
    // What a tsconfig.json says is for the editor and the type check.
    tsconfigRaw: {},
    legalComments: 'none',
    logLevel: 'silent',
    absWorkingDir: WEB
  })
  const files = Object.fromEntries(outputFiles.map(({ path: file, text }) => [path.basename(file), text]))
  const [script, { cssBundle }] = Object.entries(metafile.outputs)
    .find(([, { entryPoint }]) => entryPoint === path.basename(ENTRY))!
  return { files, page: renderPage(path.basename(script), cssBundle === undefined ? [] : [path.basename(cssBundle)]) }
}

let running = 0

/** Ends the process of the bundler after it, which would stay otherwise. */
async function runBundler<T extends BuildOptions> (options: SameShape<BuildOptions, T>): Promise<BuildResult<T>> {
  // Loaded here, so that the API starts without it.
  const { build, stop } = await import('esbuild')
  running++
  try {
    return await build(options)
  } finally {
    if (--running === 0) await stop()
  }
}

async function compress (extension: string, identity: Uint8Array): Promise<Asset> {
  const zipped = await promisify(gzip)(identity, { level: 9 })
  return { contentType: CONTENT_TYPES[extension] ?? 'application/octet-stream', encodings: { identity, gzip: zipped } }
}

function renderPage (script: string, styles: string[]): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Millrace</title>
<link rel="icon" href="${ICON}">
${styles.map((style) => `<link rel="stylesheet" href="/console/assets/${style}">\n`).join('')}<script type="module" src="/console/assets/${script}"></script>
</head>
<body>
<div id="app"></div>
<noscript>The console needs JavaScript.</noscript>
</body>
</html>
`
}
