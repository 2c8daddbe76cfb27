import { mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import ts from 'typescript'
import type { TestContext } from '../../../../test/support/test-context.ts'

const ROOT = path.join(import.meta.dirname, '..', '..', '..', '..')

const STRICT: ts.CompilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  verbatimModuleSyntax: true,
  noUnusedLocals: true,
  noImplicitOverride: true,
  skipLibCheck: true,
  noEmit: true,
  types: [],
  lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler
}

/**
 * Writes files into a folder with the packages of the repository.
 *
 * @returns the folder; it is removed when the test ends.
 */
export async function writeSources (t: TestContext, sources: Record<string, string>): Promise<string> {
  const folder = await realpath(await mkdtemp(path.join(tmpdir(), 'millrace-typed-')))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  await symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'))
  for (const [name, text] of Object.entries(sources)) await writeFile(path.join(folder, name), text)
  return folder
}

/** The errors of `tsc --strict`, each as `file:line message`. */
export function typeErrors (folder: string, names: readonly string[]): string[] {
  const program = ts.createProgram(names.map((name) => path.join(folder, name)), STRICT)
  return ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start ?? 0).line + 1
    return `${path.basename(file?.fileName ?? '')}:${line} ${ts.flattenDiagnosticMessageText(messageText, ' ')}`
  })
}
