/**
 * `npm run check:image`: builds both images of deploy/Dockerfile from the package, and runs them as docs/run/install.md
 * says, with docker or podman: the one that runs everything, then compose.yaml. Takes some minutes.
 *
 *     npm run check:image
 *     npm run check:image -- --built             # with `millrace` and `millrace:tiers` as they are
 *     npm run check:image -- --stand-ins         # without images of ClickHouse, Postgres and NATS: see stand-ins.yaml
 *     npm run check:image -- -- --isolation chroot   # flags of the build
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Command } from 'commander'
import { packPackage, ROOT } from '../package/installed-package.ts'
import { checkAllInOne } from './all-in-one.ts'
import { checkCompose } from './compose.ts'
import { type Engine, findEngine } from './container-engine.ts'

const program = new Command('check:image')
  .option('--built', 'use the images that are there')
  .option('--stand-ins', 'run compose.yaml with stand-ins for the images of ClickHouse, Postgres and NATS')
  .argument('[flags...]', 'more flags of "docker build"')
  .parse()
const { built = false, standIns = false } = program.opts<{ built?: true, standIns?: true }>()

let failures = 0
const folder = mkdtempSync(path.join(tmpdir(), 'millrace-image-'))
try {
  const engine = await findEngine()
  if (engine === undefined) throw new Error('docker or podman is missing, or does not answer "info"')
  cpSync(path.join(ROOT, 'deploy'), path.join(folder, 'deploy'), { recursive: true })
  if (!built) await buildImages(engine, program.args)
  if (standIns) await build(engine, 'millrace:stand-in', [...program.args, '--file', path.join(import.meta.dirname, 'stand-ins.Dockerfile'), import.meta.dirname])
  await checkAllInOne({ engine, image: 'millrace', report })
  await checkCompose({ engine, report, folder, standIns })
} catch (error) {
  report(error instanceof Error ? error.message : String(error), false)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
process.exitCode = failures === 0 ? 0 : 1

/** Both images of the Dockerfile, from the package. */
async function buildImages (engine: Engine, flags: readonly string[]): Promise<void> {
  await packPackage(folder)
  cpSync(path.join(ROOT, 'package-lock.json'), path.join(folder, 'package-lock.json'))
  const file = ['--file', path.join(folder, 'deploy', 'Dockerfile')]
  await build(engine, 'millrace', [...flags, ...file, folder])
  await build(engine, 'millrace:tiers', [...flags, ...file, '--target', 'tiers', folder])
}

async function build (engine: Engine, image: string, args: readonly string[]): Promise<void> {
  const startedAt = performance.now()
  // The default format of podman has no health check.
  const format = engine.name === 'podman' ? ['--format', 'docker'] : []
  const { code, text } = await engine.try('build', ...format, '--tag', image, ...args)
  const size = (await engine.try('image', 'inspect', '--format', '{{.Size}}', image)).text.trim()
  report(`${image}: built in ${((performance.now() - startedAt) / 1000).toFixed(0)} s, ${Math.round(Number(size) / 1e6)} MB`, code === 0, text.slice(-3000))
  if (code !== 0) throw new Error(`${image} was not built`)
}

function report (what: string, isGood: boolean, more = ''): void {
  if (!isGood) failures++
  process.stdout.write(`${isGood ? 'ok    ' : 'NOT OK'} ${what}\n${isGood || more === '' ? '' : `${more.trimEnd()}\n`}`)
}
