import { readFileSync } from 'node:fs'
import path from 'node:path'

/** The text of a .sql file that lies beside the module that runs it; `folder` is that module's `import.meta.dirname`. */
export function readSql (folder: string, name: string): string {
  return readFileSync(path.join(folder, name), 'utf8')
}
