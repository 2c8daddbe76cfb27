import { readFileSync } from 'node:fs'
import path from 'node:path'

/** The text of a .sql file beside the module that runs it; `folder` is the `import.meta.dirname` of that module. */
export function readSql (folder: string, name: string): string {
  return readFileSync(path.join(folder, name), 'utf8')
}
