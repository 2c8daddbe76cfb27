import { readFile } from 'node:fs/promises'
import { type Figure } from './question.ts'
import { type Results } from './write-results.ts'

/**
 * Reads the results of an earlier run, for a comparison with one that is to come.
 *
 * @throws when there are none in the file, or they are of the other kind of run: a quick run asks less, so its ratios
 * are others.
 */
export async function readBaseline (file: string, { isQuick }: { isQuick: boolean }): Promise<Map<string, Figure>> {
  const results = JSON.parse(await readFile(file, 'utf8')) as Partial<Results>
  if (results.figures === undefined) throw new Error(`${file} has no figures: it is no result of npm run bench`)
  const wasQuick = results.isQuick === true
  if (wasQuick !== isQuick) {
    throw new Error(`${file} is of a ${wasQuick ? 'quick' : 'full'} run: compare it ${wasQuick ? 'with' : 'without'} --quick`)
  }
  return new Map(Object.entries(results.figures))
}
