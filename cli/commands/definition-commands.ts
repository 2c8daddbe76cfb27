/** What the commands of event schemas and of rules have in common: both are stored as versions of a definition. */
import { readFile } from 'node:fs/promises'
import type { Command, Option } from 'commander'
import { HttpError, MillraceError } from '../../engines/errors.ts'
import type { CliContext } from '../cli-context.ts'
import { type ManagementClient, orNone } from '../management-client.ts'
import { readCount, readDays, readId, readString } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields } from '../terminal-output.ts'

/** As the API answers it. */
interface Definition { id: number, version: number, active_version: number | null }

/** Fields of the request that stores or changes a definition. */
export type Fields = Record<string, unknown>

/** A definition that is stored. */
export interface Place { project: number, id: number }

export interface DefinitionKind<D extends Definition, Version, Prediction> {
  noun: 'rule' | 'schema'
  /** The argument that names a definition, and what the file of one has. */
  texts: { name: string, describeName: string, file: string, putDetails: string }
  maxNameLength: number
  codes: { missing: string, refused: string }
  nameOf: (definition: D) => string
  /** How messages call the definition of this name. */
  title: (name: string) => string
  requests: {
    /** All; a project has at most 1,000. */
    list: (api: ManagementClient, project: number) => Promise<D[]>
    create: (api: ManagementClient, project: number, fields: Fields) => Promise<D>
    update: (api: ManagementClient, place: Place, fields: Fields) => Promise<D>
    /** A version also of a definition that was deleted: events may name it. */
    version: (api: ManagementClient, place: Place, version: number) => Promise<Version | undefined>
    check: (api: ManagementClient, place: Place, body: Fields) => Promise<Prediction>
  }
  /** What `show` writes, of a definition or one of its versions. */
  contentOf: (definition: D | Version) => unknown
  /** Reads the file of a definition into the fields of a request. */
  readFile: (file: string) => Promise<Fields>
  /** Options of `put` and `activate` that are fields of the request by the same name. */
  options: () => { put: readonly Option[], activate: readonly Option[] }
  describe: (definition: D) => Fields
  printPrediction: (context: CliContext, prediction: Prediction, output: Output) => void
}

interface Options extends Output, Fields {
  project: number
  basedOn?: number
  ruleVersion?: number
  schemaVersion?: number
  file?: string
  days: number
  limit: number
}

/** Longest wait for a look back over stored events, in milliseconds. */
export const LOOK_BACK_MS = 600_000

/** Adds `show|put|check|activate|disable` to the commands of a kind of definition. */
export function addDefinitionCommands<D extends Definition, Version, Prediction> (
  group: Command, context: CliContext, kind: DefinitionKind<D, Version, Prediction>
): void {
  const { noun, texts, requests } = kind
  const own = kind.options()
  const versionOption = [`--${noun}-version <number>`, 'the version', readCount] as const
  const versionOf = ({ ruleVersion, schemaVersion }: Options): number | undefined => ruleVersion ?? schemaVersion
  const command = (name: string, description: string): Command => addProject(group.command(name)
    .description(description).argument(texts.name, texts.describeName, readString(kind.maxNameLength)))
  const missing = (why: string): MillraceError => new MillraceError(kind.codes.missing, why)
  const find = async (name: string, { project }: { project: number }): Promise<D> => {
    const found = (await requests.list(await context.api(), project)).find((each) => kind.nameOf(each) === name)
    if (found === undefined) throw missing(`project ${project} has no ${kind.title(name)}`)
    return found
  }
  const print = (stored: D, output: Output): void => { printFields(context, kind.describe(stored), output) }

  command('show', `write a version of a ${noun} as JSON; by default the newest`)
    .option(...versionOption)
    .action(async (name: string, options: Options) => {
      const newest = await find(name, options)
      const version = versionOf(options)
      const found = version === undefined
        ? newest
        : await orNone(requests.version(await context.api(), { ...options, id: newest.id }, version))
      if (found === undefined) throw missing(`the ${kind.title(name)} has no version ${version}`)
      context.stdout.write(`${JSON.stringify(kind.contentOf(found), null, 2)}\n`)
    })

  const put = command('put',
    `store a ${noun}, or a new version of one${texts.putDetails}; it is enforced when it is activated`)
    .argument('<file>', `file with ${texts.file}`)
    .option('--based-on <version>', 'the version that the file was made of: refused when there is a newer one', readCount)
  for (const option of own.put) put.addOption(option)
  put.action(async (name: string, file: string, options: Options) => {
    const fields = { ...await kind.readFile(file), ...given(own.put, options) }
    const api = await context.api()
    const known = (await requests.list(api, options.project)).find((each) => kind.nameOf(each) === name)
    const { project, basedOn } = options
    const update = { ...fields, ...basedOn !== undefined && { version: basedOn } }
    print(await namingPlace(kind.codes.refused, async () => known === undefined
      ? await requests.create(api, project, { [texts.name.slice(1, -1)]: name, ...fields })
      : await requests.update(api, { project, id: known.id }, update)), options)
  })

  command('check', `say what a ${noun} would have done with stored events; by default its newest version`)
    .option('--file <file>', `a draft that is not stored: file with ${texts.file}`)
    .option('--days <number>', 'days before now, by the timestamp of the events', readDays, 7)
    .option('--limit <number>', 'maximum number of events, newest day first', readCount, 10_000_000)
    .action(async (name: string, { project, file, days, limit, ...output }: Options) => {
      const draft = file === undefined ? {} : await kind.readFile(file)
      const { id } = await find(name, { project })
      const api = await context.api()
      const prediction = await namingPlace(kind.codes.refused, async () =>
        await requests.check(api, { project, id }, { ...draft, days, limit }))
      kind.printPrediction(context, prediction, output)
    })

  const activate = command('activate', `enforce a ${noun}; by default its newest version`).option(...versionOption)
  for (const option of own.activate) activate.addOption(option)
  activate.action(async (name: string, options: Options) => {
    const { id, version: newest } = await find(name, options)
    const fields = { active_version: versionOf(options) ?? newest, ...given(own.activate, options) }
    const api = await context.api()
    print(await namingPlace(kind.codes.refused, async () =>
      await requests.update(api, { project: options.project, id }, fields)), options)
  })

  command('disable', `no longer enforce a ${noun}; its versions stay`)
    .action(async (name: string, { project, ...output }: Options) => {
      const { id } = await find(name, { project })
      print(await requests.update(await context.api(), { project, id }, { active_version: null }), output)
    })
}

/** The options of a command of one project. */
export function addProject (command: Command): Command {
  return command.option('--project <id>', 'the project', readId, 1).option(...JSON_OPTION)
}

function given (options: readonly Option[], values: Options): Fields {
  const names = options.map((option) => option.attributeName()).filter((name) => values[name] !== undefined)
  return Object.fromEntries(names.map((name) => [name, values[name]]))
}

/**
 * Reads the JSON of a file, also one that begins with the mark of its encoding, as editors of Windows write it.
 *
 * @param what  What the file should be: `a JSON Schema`.
 * @throws {MillraceError} with this code.
 */
export async function readJsonFile (file: string, { what, code }: { what: string, code: string }): Promise<unknown> {
  try {
    const text = await readFile(file, 'utf8')
    return JSON.parse(text.replace(/^\uFEFF/, '')) as unknown
  } catch (cause) {
    throw new MillraceError(code, `cannot read ${what} from ${file}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

/**
 * Does something with a definition; the error of one that is refused names the place that is wrong.
 *
 * @throws {MillraceError} with this code.
 */
async function namingPlace<T> (code: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof HttpError) || typeof error.attr !== 'string') throw error
    throw new MillraceError(code, `${error.attr.replaceAll('__', '.')}: ${error.message}`, { cause: error })
  }
}
