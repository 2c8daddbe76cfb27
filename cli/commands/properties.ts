import { type Command, InvalidArgumentError } from 'commander'
import { describeExpression, listPromotedColumns, PROMOTED_TYPES, type PromotedColumn, type PromotedType, PromotionError, readPromotion } from '../../platform/query-log/promoted-column.ts'
import { demoteProperty, promoteProperty } from '../../api/definitions/promote-property.ts'
import { JSON_OPTION, type Output, printFields, printRows, type ProgressBar, startProgressBar } from '../terminal-output.ts'
import type { CliContext } from '../cli-context.ts'

/** `millrace properties promote|demote|list`. */
export function addPropertiesCommands (program: Command, context: CliContext): void {
  const group = program.command('properties').description('event properties that have their own column')

  group.command('promote')
    .description('give a property its own column, filled for old events too; safe to interrupt and repeat')
    .argument('<property>', 'name of the property')
    .option('--type <type>', Object.keys(PROMOTED_TYPES).join(', '), readType, 'String')
    .option('--column <name>', 'name of the column, beginning with p_ (default: p_ and the property)')
    .option(...JSON_OPTION)
    .action(async (property: string, { type, column, ...output }: Output & { type: PromotedType, column?: string }) => {
      const promotion = readPromotion({ property, type, column })
      const clickhouse = await context.clickhouse()
      const fill = showFill(context)
      const options = { cluster: context.cluster(), onProgress: fill.show }
      const promoted = await promoteProperty(clickhouse, promotion, options).finally(fill.end)
      printFields(context, { ...describe(promoted), instead_of: describeExpression(promotion) }, output)
    })

  group.command('demote')
    .description('drop the column of a property; events keep the property')
    .argument('<property>', 'name of the property')
    .option(...JSON_OPTION)
    .action(async (property: string, output: Output) => {
      const demoted = await demoteProperty(await context.clickhouse(), property, { cluster: context.cluster() })
      if (demoted === undefined) throw new PromotionError(`${property} is not promoted`)
      printFields(context, { property, column: demoted.column, freed_bytes: demoted.bytes }, output)
    })

  group.command('list')
    .description('list promoted properties, their columns and how far these are filled')
    .option(...JSON_OPTION)
    .action(async (output: Output) => {
      const columns = await listPromotedColumns(await context.clickhouse(), { cluster: context.cluster() })
      printRows(context, columns.map(describe), [
        ['property', ({ property }) => property],
        ['column', ({ column }) => column],
        ['type', ({ type }) => type],
        ['filled', ({ filled }) => `${Math.floor(filled * 100)} %`],
        ['bytes', ({ bytes }) => bytes]
      ], output)
    })
}

function readType (text: string): PromotedType {
  const type = Object.keys(PROMOTED_TYPES).find((name) => name.toLowerCase() === text.toLowerCase())
  if (type === undefined) throw new InvalidArgumentError(`Give one of ${Object.keys(PROMOTED_TYPES).join(', ')}.`)
  return type as PromotedType
}

function describe ({ property, column, type, rows, filledRows, bytes }: PromotedColumn): {
  property: string, column: string, type: string, events: number, filled: number, bytes: number
} {
  return { property, column, type, events: rows, filled: rows === 0 ? 1 : filledRows / rows, bytes }
}

/** The bar starts with the first progress report, which has the number of rows. */
function showFill (context: CliContext): { show: (filled: number, rows: number) => void, end: () => void } {
  let bar: ProgressBar | undefined
  let shown = 0
  return {
    show (filled, rows) {
      bar ??= startProgressBar(context, 'filling', rows, (events) => `${events} events`)
      bar.add(Math.max(filled - shown, 0))
      shown = Math.max(filled, shown)
    },
    end () { bar?.end() }
  }
}
