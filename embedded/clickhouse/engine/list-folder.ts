import { readdirSync } from 'node:fs'

/** Names in a folder of the engine; none for what is not there yet, was removed meanwhile, or is a file. */
export function listFolder (folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
