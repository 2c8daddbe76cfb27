import { readdir } from 'node:fs/promises'
import path from 'node:path'

const SEGMENT_NAME = /^(\d{12})\.segment$/

/** Numbers of the segments of a spool folder, oldest first. */
export async function listSegments (folder: string): Promise<number[]> {
  const names = await readdir(folder)
  return names.flatMap((name) => {
    const number = SEGMENT_NAME.exec(name)?.[1]
    return number === undefined ? [] : [Number(number)]
  }).sort((a, b) => a - b)
}

export function segmentPath (folder: string, number: number): string {
  return path.join(folder, `${String(number).padStart(12, '0')}.segment`)
}
