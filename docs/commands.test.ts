import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { runCli } from '../cli/run-cli.ts'

const ROOT = path.join(import.meta.dirname, '..')

/** The command lines of Millrace that pages show, up to their comment, pipe or end of the quotation. */
function findCommands (): { page: string, line: string }[] {
  return ['*.md', 'docs/**/*.md', 'deploy/**/*.md'].flatMap((pattern) => globSync(pattern, { cwd: ROOT })).flatMap((page) =>
    [...readFileSync(path.join(ROOT, page), 'utf8').matchAll(/npx millrace ([^#`|\n]+)/g)]
      .map(([, line = '']) => ({ page, line: line.trim() })))
}

/** What `--help` says of a command. */
async function readHelp (words: readonly string[]): Promise<string> {
  let text = ''
  const write = (more: string): void => { text += more }
  await runCli([...words, '--help'], { env: {}, stdout: { write }, stderr: { write }, now: Date.now })
  return text
}

t.test('every command of Millrace that a page shows exists, with its options', async (t) => {
  const commands = findCommands()
  t.ok(commands.length > 20, 'commands are found at all')

  for (const { page, line } of commands) {
    const given = line.split(' ').filter((word) => !word.startsWith('-'))
    let words = given.slice(0, 2)
    let help = await readHelp(words)
    // A group within a group, such as `projects quota`.
    if (help.startsWith(`Usage: millrace ${words.join(' ')} [options] [command]\n`)) {
      words = given.slice(0, 3)
      help = await readHelp(words)
    }
    const usage = help.slice(0, help.indexOf('\n'))
    // The second word is an argument when the first is no group, such as the folder of `backup`.
    const isKnown = usage.startsWith(`Usage: millrace ${words.join(' ')} `) ||
      (usage.startsWith(`Usage: millrace ${words[0]} `) && !usage.endsWith('[command]'))
    const options = [...line.matchAll(/ (--[a-z-]+)/g)].map(([, option = '']) => option)
    t.ok(isKnown, `${page}: millrace ${words.join(' ')}`)
    t.same(options.filter((option) => !new RegExp(`${option}\\b`).test(help)), [], `${page}: options of millrace ${words.join(' ')}`)
  }
})
