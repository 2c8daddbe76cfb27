import { readdirSync } from 'node:fs'
import path from 'node:path'

/** Names in a folder of the engine; none for what is not there yet, was removed meanwhile, or is a file. */
export function listFolder (folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** Folders of the tables. */
export function listTables (engineDir: string): string[] {
  const prefixes = listFolder(path.join(engineDir, 'store')).map((name) => path.join(engineDir, 'store', name))
  return prefixes.flatMap((prefix) => listFolder(prefix).map((id) => path.join(prefix, id)))
}
