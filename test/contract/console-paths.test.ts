/** Every request of the console is an operation of the API: a removed route is found without a browser. */
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import ts from 'typescript'

const ROOT = path.join(import.meta.dirname, '..', '..')
/** Placeholder for values known at run time. */
const ANY = '{}'
const SENDERS = new Set(['request', 'openStream', 'fetchFile', 'useAnswer', 'useList'])

const parsed = new Map<string, ts.SourceFile>()

interface Operation { method: string, path: string }

/** A request: which of its methods goes with which of its paths is known when it is sent. */
interface Asked { methods: string[], paths: string[], at: string }

t.test('every path that the console asks for is in the OpenAPI document', async (t) => {
  const operations = readOperations()
  const asked = globSync('console/web/**/*.{ts,tsx}', { cwd: ROOT })
    .filter((file) => !/\.test\.ts$|(^|\/)api-client\.ts$/.test(file))
    .flatMap((file) => readRequests(file))

  t.ok(operations.length > 100 && asked.length > 80, `${asked.length} requests, ${operations.length} operations`)
  const refused = asked.flatMap(({ methods, paths, at }) => [
    ...paths.filter((each) => !operations.some((operation) => isPathOf(each, operation))).map((each) => `${each} in ${at}`),
    ...methods
      .filter((method) => !operations.some((of) => of.method === method && paths.some((each) => isPathOf(each, of))))
      .map((method) => `${method} ${paths.join(' or ')} in ${at}`)
  ])
  t.same(refused, [])
})

t.test('a path without an operation is recognized', async (t) => {
  const is = (asked: string, of: string): boolean => isPathOf(asked, { method: 'GET', path: of })

  t.ok(is('/api/projects/{}/questions/answer', '/api/projects/{project_id}/questions/answer'))
  t.ok(is('/api/projects/{}/{}/answer/?a=1', '/api/projects/{project_id}/questions/answer'), 'run-time values match anything')
  t.ok(is('{}/answer', '/api/projects/{project_id}/questions/answer'), 'a beginning that is known later, too')
  t.notOk(is('/api/projects/{}/questions/gone', '/api/projects/{project_id}/questions/answer'))
  t.notOk(is('/api/projects/{}/gone', '/api/projects/{project_id}/{id}'), 'a word is no id')
})

/** The operations of the OpenAPI document, from the types that are generated of it. */
function readOperations (): Operation[] {
  let path = ''
  return readFileSync(new URL('../../console/api.generated.d.ts', import.meta.url), 'utf8').split('\n').flatMap((line) => {
    path = /^ {4}"(\/.*)": \{$/.exec(line)?.[1] ?? path
    const method = /^ {8}(\w+): operations\[/.exec(line)?.[1]
    return method === undefined ? [] : [{ method: method.toUpperCase(), path }]
  })
}

function isPathOf (asked: string, operation: Operation): boolean {
  const [ours, theirs] = [segments(asked), segments(operation.path)]
  if (ours[0] === ANY) theirs.splice(0, theirs.length - ours.length + 1, ANY)
  return ours.length === theirs.length && ours.every((each, index) => each.includes(ANY) || each === theirs[index])
}

function segments (text: string): string[] {
  return text.split('?')[0]!.split('/').filter((part) => part !== '')
}

function readRequests (file: string): Asked[] {
  const source = parse(file)
  const names = readNames(source)
  const found: Asked[] = []
  const visit = (node: ts.Node): void => {
    const asked = ts.isCallExpression(node) && SENDERS.has(node.expression.getText(source)) ? node.arguments : []
    if (asked[0] !== undefined) {
      const at = `${file}:${source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1}`
      const paths = textsOf(asked[0], names).filter((text) => text !== ANY && !text.startsWith('/console/'))
      if (paths.length > 0) found.push({ methods: methodsOf(asked.slice(1)), paths, at })
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

/** What names of the file, and of those that it imports, stand for. */
function readNames (source: ts.SourceFile, isImported = false): Map<string, ts.Expression> {
  const names = new Map<string, ts.Expression>()
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.initializer !== undefined) {
      const { initializer: value } = node
      names.set(node.name.text, ts.isArrowFunction(value) && !ts.isBlock(value.body) ? value.body : value)
    }
    if (ts.isFunctionDeclaration(node) && node.name !== undefined) {
      const last = node.body?.statements.at(-1)
      const value = last !== undefined && ts.isReturnStatement(last) ? last.expression : undefined
      if (value !== undefined) names.set(node.name.text, value)
    }
    if (ts.isImportDeclaration(node) && !isImported) {
      const [target] = /(?<=^')\..*\.tsx?(?='$)/.exec(node.moduleSpecifier.getText(source)) ?? []
      if (target === undefined) return
      const imported = readNames(parse(path.join(path.dirname(source.fileName), target)), true)
      for (const [name, expression] of imported) names.set(name, expression)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return names
}

/** The texts that an expression may be. */
function textsOf (expression: ts.Expression, names: ReadonlyMap<string, ts.Expression>, depth = 0): string[] {
  if (depth > 8) return [ANY]
  const of = (each: ts.Expression): string[] => textsOf(each, names, depth + 1)
  if (ts.isStringLiteralLike(expression)) return [expression.text]
  if (ts.isParenthesizedExpression(expression)) return of(expression.expression)
  if (ts.isConditionalExpression(expression)) return [...of(expression.whenTrue), ...of(expression.whenFalse)]
  if (ts.isTemplateExpression(expression)) {
    return expression.templateSpans.reduce(
      (starts, span) => starts.flatMap((start) => of(span.expression).map((text) => `${start}${text}${span.literal.text}`)),
      [expression.head.text])
  }
  const name = ts.isCallExpression(expression) ? expression.expression : expression
  const known = ts.isIdentifier(name) ? names.get(name.text) : undefined
  // Of a name, only what leads to a path: any other text is one that people write.
  const texts = known === undefined ? [] : of(known).filter((text) => text === '' || text.startsWith('/') || text.startsWith(ANY))
  return texts.length === 0 ? [ANY] : texts
}

/** The methods of the options of a request. */
function methodsOf (options: readonly ts.Expression[]): string[] {
  const text = options.map((each) => each.getText()).join()
  const methods = [...text.matchAll(/\bmethod: '(\w+)'/g)].map(([, method]) => method!)
  return methods.length === 0 ? ['GET'] : methods
}

function parse (file: string): ts.SourceFile {
  let source = parsed.get(file)
  if (source === undefined) parsed.set(file, source = ts.createSourceFile(file, readFileSync(path.join(ROOT, file), 'utf8'), ts.ScriptTarget.Latest, true))
  return source
}
