import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { settings } from '../platform/settings.ts'

const ROOT = path.join(import.meta.dirname, '..')
const SETTINGS_PAGE = path.join(ROOT, 'docs', 'reference', 'settings.md')
const ENV_EXAMPLE = path.join(ROOT, 'deploy', '.env.example')

/** The files that repeat the settings, as they must read now; `platform/settings.ts` is the one source. */
export async function renderSettingsDocs (): Promise<{ file: string, text: string }[]> {
  const page = await readFile(SETTINGS_PAGE, 'utf8')
  const table = page.replace(
    /(<!-- settings:start -->\n)[^]*(<!-- settings:end -->)/,
    (_, start: string, end: string) => `${start}${renderTable()}${end}`)
  return [{ file: SETTINGS_PAGE, text: table }, { file: ENV_EXAMPLE, text: renderEnvExample() }]
}

function renderTable (): string {
  const rows = Object.entries(settings).map(([name, setting]) =>
    `| \`${name}\` | ${setting.default === '' ? '' : `\`${setting.default}\``} | ${setting.description} |`)
  return ['| variable | default | meaning |', '|---|---|---|', ...rows, ''].join('\n')
}

function renderEnvExample (): string {
  const entries = Object.entries(settings).map(([name, setting]) =>
    `# ${setting.description}\n#${name}=${setting.default}\n`)
  return `# Every setting of Millrace with its default. Generated from platform/settings.ts.\n\n${entries.join('\n')}`
}

if (import.meta.main) {
  for (const { file, text } of await renderSettingsDocs()) {
    if (process.argv.includes('--check')) {
      if (await readFile(file, 'utf8') !== text) {
        process.stderr.write(`${path.relative(ROOT, file)} differs from platform/settings.ts: run npm run generate\n`)
        process.exitCode = 1
      }
    } else {
      await writeFile(file, text)
    }
  }
}
