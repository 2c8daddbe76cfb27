import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { type Machine } from './describe-machine.ts'
import { type Figure } from './question.ts'

/** A file of `bench/results/`. */
export interface Results {
  machine: Machine
  isQuick: boolean
  figures: Record<string, Figure>
}

/**
 * Writes what was measured so far, so that an interrupted run leaves it, too.
 *
 * @param names  Of the questions, when only some are asked: they do not take the place of a whole run.
 * @returns where.
 */
export async function writeResults (
  { machine, isQuick, figures }: Results, names: readonly string[]
): Promise<string> {
  const folder = path.join(import.meta.dirname, 'results')
  await mkdir(folder, { recursive: true })
  const name = [machine.date.slice(0, 10), machine.commit, ...names, ...isQuick ? ['quick'] : []].join('-')
  const file = path.join(folder, `${name}.json`)
  await writeFile(file, `${JSON.stringify({ machine, isQuick, figures }, null, 2)}\n`)
  return file
}
