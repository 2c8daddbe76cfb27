import { open, readdir } from 'node:fs/promises'
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

/** Makes a created or removed name durable. */
export async function syncFolder (folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
